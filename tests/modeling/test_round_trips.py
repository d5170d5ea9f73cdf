"""Conversion to the other format and back is exact for the original checkpoints, random models and real weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from states import assert_bit_equal, weights_in, weights_of
from tiny_bert import with_random_weights

from bert_keras.modeling import (
    HEAD_PATTERNS,
    BertConfig,
    BertModel,
    ClassifierModel,
    MultipleChoiceModel,
    PretrainingModel,
    SquadModel,
    TokenClassifierModel,
    load_weights,
    open_checkpoint,
    read_config,
    save_checkpoint,
    save_safetensors,
    weights_by_name,
    weights_to_load,
)


def there_and_back(path, config, folder):
    """Converts original -> ours -> safetensors -> ours -> original; returns input and output."""
    before = weights_in(path)
    middle = open_checkpoint(save_safetensors(folder / "safetensors", before, config))
    assert middle.heads == open_checkpoint(path).heads
    assert middle.config == config
    return before, weights_in(save_checkpoint(folder / "back.ckpt", weights_in(middle.prefix)))


@pytest.mark.parametrize(
    ("name", "num_entries"),
    [
        ("heads/classifier", 41),
        ("heads/squad", 41),
        ("pretraining_a/trained/model.ckpt-30", 139),
        ("pretraining_b/trained/model.ckpt-30", 187),
    ],
)
def test_checkpoints_of_the_release_come_back_bit_by_bit(golden_dir, tmp_path, name, num_entries):
    config = read_config(golden_dir / name.split("/")[0])
    before, after = there_and_back(golden_dir / name, config, tmp_path)
    assert len(before) == num_entries
    assert_bit_equal(before, after)


@st.composite
def configs(draw):
    heads = draw(st.integers(1, 3))
    return BertConfig(
        vocab_size=draw(st.integers(1, 41)),
        hidden_size=heads * draw(st.integers(1, 4)),
        num_hidden_layers=draw(st.integers(1, 3)),
        num_attention_heads=heads,
        intermediate_size=draw(st.integers(1, 9)),
        hidden_act=draw(st.sampled_from(["gelu", "gelu_erf", "relu", "tanh", "linear"])),
        max_position_embeddings=draw(st.integers(1, 12)),
        type_vocab_size=draw(st.integers(1, 4)),
        layer_norm_eps=draw(st.sampled_from([1e-12, 1e-6, 1e-5])),
    )


# The model, the class of the other layout, the head.
KINDS = {
    "encoder": (BertModel, "BertModel", ()),
    "pretraining": (PretrainingModel, "BertForPreTraining", ("masked_lm", "next_sentence")),
    "squad": (SquadModel, "BertForQuestionAnswering", ("squad",)),
    "classifier": (ClassifierModel, "BertForSequenceClassification", ("classifier",)),
    "token_classifier": (TokenClassifierModel, "BertForTokenClassification", ("token_classifier",)),
    "multiple_choice": (MultipleChoiceModel, "BertForMultipleChoice", ("multiple_choice",)),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2, deadline=None)
@given(config=configs(), num_classes=st.integers(1, 4), seed=st.integers(0, 1000))
def test_models_of_any_shape_come_back_bit_by_bit(tmp_path_factory, kind, config, num_classes, seed):
    folder = tmp_path_factory.mktemp("model")
    make_model, architecture, heads = KINDS[kind]
    sizes = (config, num_classes) if kind in ("classifier", "token_classifier") else (config,)
    model, again = make_model(*sizes), make_model(*sizes)
    weights, expected = weights_by_name(with_random_weights(model, seed)), weights_of(model)
    config.to_json_file(folder / "bert_config.json")
    for path in (
        save_checkpoint(folder / "model.ckpt", weights),
        save_safetensors(folder / "safetensors", weights, config, architecture),
    ):
        checkpoint = open_checkpoint(path)
        # The names in a TensorFlow checkpoint do not identify which of the top-level heads it has.
        is_told = path.endswith(".safetensors") or "output_weights" not in weights
        assert checkpoint.heads == (heads if is_told else ("classifier",))
        assert checkpoint.config == config
        assert_bit_equal(expected, weights_in(path))
        load_weights(weights_by_name(again), checkpoint)
        assert_bit_equal(expected, weights_of(again))


def minilm_model(path, config):
    with weights_to_load():
        model = BertModel(config, return_all_encoder_layers=True)
    report = load_weights(weights_by_name(model), path, ignored=HEAD_PATTERNS)
    assert str(report) == f"loaded 103 of 103 weights from {report.prefix}"
    return model


def minilm_difference(model, golden):
    """Returns the largest differences from the other library over all unpadded tokens: of outputs, of layers."""
    outputs = model(golden["input_ids"], golden["input_mask"], golden["segment_ids"])
    is_token = golden["input_mask"].astype(bool)
    sequence = np.abs(np.asarray(outputs["sequence_output"]) - golden["sequence_output"])[is_token]
    pooled = np.abs(np.asarray(outputs["pooled_output"]) - golden["pooled_output"])
    states = np.stack([outputs["embedding_output"], *outputs["all_encoder_layers"]])[:, :2]
    layers = np.abs(states - golden["hidden_states"].astype(np.float32))[:, is_token[:2]]
    return max(sequence.max(), pooled.max()), layers.max()


def test_real_weights_give_the_results_of_another_library_in_both_formats(shared_dir, minilm, tmp_path):
    minilm_golden = np.load(shared_dir("golden/minilm.npz"))
    config = read_config(minilm)
    assert config.hidden_act == "gelu_erf"
    model = minilm_model(minilm, config)
    outputs, layers = minilm_difference(model, minilm_golden)
    assert outputs < 1e-4
    assert layers < 4e-3  # stored as float16, which keeps three digits
    save_checkpoint(tmp_path / "bert_model.ckpt", weights_by_name(model))
    config.to_json_file(tmp_path / "bert_config.json")
    again = minilm_model(tmp_path, open_checkpoint(tmp_path).config)
    assert minilm_difference(again, minilm_golden) == (outputs, layers)
    back = save_safetensors(tmp_path / "back", weights_by_name(again), config)
    assert_bit_equal(weights_in(minilm), weights_in(back))
    assert open_checkpoint(back).config == config
