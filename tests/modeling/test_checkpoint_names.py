"""The table of names, compared with the original checkpoints and with real weights of the other layout."""

import pytest

from bert_keras.modeling import open_checkpoint
from bert_keras.modeling.checkpoints.names import (
    architecture_of,
    find_heads,
    from_hugging_face,
    heads_of,
    is_training_state,
    is_transposed,
    to_hugging_face,
)

GOLDEN = ["pretraining_a", "pretraining_a/trained", "pretraining_b", "heads/classifier", "heads/squad"]


@pytest.mark.parametrize("name", GOLDEN)
def test_every_name_of_the_release_goes_there_and_back(golden_dir, name):
    names = open_checkpoint(golden_dir / name).names
    theirs = [to_hugging_face(name) for name in names]
    assert len(set(theirs)) == len(names)
    assert [from_hugging_face(name) for name in theirs] == names


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("bert/encoder/layer_11/attention/self/key/kernel", "bert.encoder.layer.11.attention.self.key.weight"),
        ("bert/encoder/layer_0/output/LayerNorm/gamma", "bert.encoder.layer.0.output.LayerNorm.weight"),
        ("cls/predictions/output_bias", "cls.predictions.bias"),
        ("cls/squad/output_bias", "qa_outputs.bias"),
        ("output_weights", "classifier.weight"),
        ("bert/pooler/dense/kernel/adam_v", "bert.pooler.dense.weight.adam_v"),
        ("output_weights/unaveraged", "classifier.weight.unaveraged"),
        ("global_step", "global_step"),
        ("loss_scale_steps", "loss_scale_steps"),
    ],
)
def test_names_are_those_of_both_layouts(ours, theirs):
    assert to_hugging_face(ours) == theirs
    assert from_hugging_face(theirs) == ours


def test_names_of_only_one_layout():
    assert to_hugging_face("resnet/kernel") is None
    assert to_hugging_face("bert/encoder/layer_x/output/dense/kernel") is None
    assert from_hugging_face("bert.encoder.layer.0.adapter.weight") == "bert.encoder.layer.0.adapter.weight"


def test_kinds_of_entries():
    names = ["bert/pooler/dense/kernel", "bert/pooler/dense/kernel/adam_m", "output_weights", "output_bias/adam_m"]
    assert [is_transposed(name) for name in names] == [True, True, False, False]
    assert [is_training_state(name) for name in names] == [False, True, False, True]
    assert all(map(is_training_state, ("global_step", "loss_scale", "loss_scale_steps")))
    assert not is_training_state("model/global_step_weight")


@pytest.mark.parametrize(
    ("names", "architecture", "heads"),
    [
        (["bert/pooler/dense/bias"], None, ()),
        (["cls/predictions/output_bias", "cls/seq_relationship/output_weights"], None, ("masked_lm", "next_sentence")),
        (["output_weights"], None, ("classifier",)),
        (["output_weights"], "BertModel", ("classifier",)),
        (["output_weights"], "BertForMaskedLM", ("classifier",)),
        (["output_weights"], "BertForTokenClassification", ("token_classifier",)),
        (["output_weights"], "BertForMultipleChoice", ("multiple_choice",)),
        (["cls/squad/output_weights"], "BertForMultipleChoice", ("squad",)),
    ],
)
def test_heads_are_found_by_their_weights(names, architecture, heads):
    assert find_heads(names, architecture) == heads


def test_classes_and_heads_belong_together():
    assert heads_of("BertForPreTraining") == ("masked_lm", "next_sentence")
    assert architecture_of(["squad"]) == "BertForQuestionAnswering"
    with pytest.raises(ValueError, match="heads squad, classifier together; keep one .convert_checkpoint.py head"):
        architecture_of(("squad", "classifier"))
    with pytest.raises(ValueError, match='the class "RobertaModel" is not one of BertModel, BertForPreTraining,'):
        heads_of("RobertaModel")
