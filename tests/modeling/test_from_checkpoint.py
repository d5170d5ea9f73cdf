"""`from_checkpoint` of every network: its config and weights come from one path."""

import dataclasses
import logging

import keras
import numpy as np
import pytest
from known_models import write_model
from states import weights_of
from tiny_bert import make_config

from bert_keras.modeling import (
    BertModel,
    ClassifierModel,
    MultipleChoiceModel,
    PretrainingModel,
    ReplacedTokenModel,
    SentenceModel,
    SpanBoundaryModel,
    SquadModel,
    TokenClassifierModel,
    open_checkpoint,
    save_checkpoint,
    save_safetensors,
    weights_by_name,
)

CONFIG = make_config(vocab_size=30, num_hidden_layers=1, max_position_embeddings=12, initializer_range=0.5)
# The arguments of each class; those of the second column cannot be read from a checkpoint.
CLASSES = {
    BertModel: ({}, {}),
    PretrainingModel: ({}, {}),
    SpanBoundaryModel: ({}, {}),
    ReplacedTokenModel: ({}, {}),
    ClassifierModel: ({"num_classes": 3}, {}),
    TokenClassifierModel: ({"num_classes": 4}, {}),
    MultipleChoiceModel: ({}, {}),
    SquadModel: ({}, {}),
    SentenceModel: ({}, {"pooling": "max", "is_normalized": True}),
}


def assert_same(model, expected, names=None):
    for name in names or weights_of(expected):
        np.testing.assert_array_equal(weights_of(model)[name], weights_of(expected)[name])


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Returns an encoder and its folder, a safetensors checkpoint."""
    keras.utils.set_random_seed(7)
    model, folder = BertModel(CONFIG), tmp_path_factory.mktemp("models") / "encoder"
    save_safetensors(folder, weights_by_name(model), CONFIG)
    return model, folder


@pytest.mark.parametrize("model_class", CLASSES)
def test_every_class_gets_all_weights_and_its_sizes(tmp_path, caplog, model_class):
    read, given = CLASSES[model_class]
    model = model_class(CONFIG, **read, **given)
    folder = write_model(tmp_path / "model", model)
    with caplog.at_level(logging.INFO, "bert_keras"):
        again = model_class.from_checkpoint(folder, **given)
    assert_same(again, model)
    assert {name: getattr(again, name) for name in (read | given)} == read | given
    count = len(model.weights)
    assert caplog.messages == [f"loaded {count} of {count} weights from {folder / 'bert_model.ckpt'}"]
    named = model_class.from_checkpoint(open_checkpoint(folder), name="other", trainable=False, **given)
    assert_same(named, model)
    assert (named.name, named.trainable_weights) == ("other", [])


def test_a_run_means_its_model(tmp_path, encoder):
    run = write_model(tmp_path / "run", BertModel(CONFIG))
    model = ClassifierModel(CONFIG, 2)
    write_model(run / "model", model)
    (run / "model" / "task.json").write_text("{}")
    assert_same(ClassifierModel.from_checkpoint(run), model)
    assert_same(BertModel.from_checkpoint(run / "bert_model.ckpt"), BertModel.from_checkpoint(open_checkpoint(run)))


def test_a_pooler_that_other_libraries_read_from_another_token_is_reported(tmp_path, caplog):
    config = dataclasses.replace(CONFIG, is_decoder=True)
    save_safetensors(tmp_path / "model", weights_by_name(BertModel(config)), config)
    caplog.clear()
    BertModel.from_checkpoint(tmp_path / "model")
    assert "transformers pools the first token and bert-keras the last" in caplog.messages[0]


def test_a_config_may_differ_in_dropout_alone(encoder):
    model, folder = encoder
    config = dataclasses.replace(CONFIG, hidden_dropout_prob=0.0)
    assert BertModel.from_checkpoint(folder, config).config.hidden_dropout_prob == 0
    for field, value in (("num_attention_heads", 4), ("intermediate_size", 32)):
        with pytest.raises(ValueError, match=field if field == "num_attention_heads" else "does not fit the config"):
            BertModel.from_checkpoint(folder, dataclasses.replace(CONFIG, **{field: value}))


@pytest.mark.parametrize("model_class", [c for c in CLASSES if c not in (BertModel, SentenceModel)])
def test_a_head_must_be_there_or_be_new(encoder, caplog, model_class):
    model, folder = encoder
    read, _ = CLASSES[model_class]
    with pytest.raises(ValueError, match=rf"^\S+ has no head, but {model_class.__name__} needs .*(cls/|bias|kernel)"):
        model_class.from_checkpoint(folder)
    with caplog.at_level(logging.INFO, "bert_keras"):
        new = model_class.from_checkpoint(folder, has_new_head=True, **read)
    assert_same(new, model, weights_of(model))
    head = [name for name in weights_of(new) if not name.startswith("bert/")]
    assert caplog.messages[-1].endswith(f"; new: {', '.join(head)}")
    assert max(np.abs(weights_of(new)[name]).max() for name in head) > 0


def test_a_new_head_replaces_that_of_the_checkpoint(tmp_path):
    model = ClassifierModel(CONFIG, 3)
    folder = write_model(tmp_path / "model", model)
    with pytest.raises(ValueError, match="has a head of 3 classes, but num_classes is 2; leave out num_classes, or"):
        ClassifierModel.from_checkpoint(folder, num_classes=2)
    new = ClassifierModel.from_checkpoint(folder, num_classes=3, has_new_head=True)
    assert_same(new, model, weights_of(model.bert))
    assert np.abs(weights_of(new)["output_weights"] - weights_of(model)["output_weights"]).max() > 0


@pytest.mark.parametrize(
    ("owner", "other", "architecture"),
    [
        (ClassifierModel, TokenClassifierModel, "BertForSequenceClassification"),
        (TokenClassifierModel, ClassifierModel, "BertForTokenClassification"),
    ],
)
def test_the_head_of_another_task_with_the_same_names_is_refused(tmp_path, owner, other, architecture):
    model = owner(CONFIG, 2)
    save_safetensors(tmp_path / "model", weights_by_name(model), CONFIG, architecture)
    assert_same(owner.from_checkpoint(tmp_path / "model"), model)
    message = f"the heads {owner.head_name}, but {other.__name__} needs the head {other.head_name};"
    with pytest.raises(ValueError, match=message):
        other.from_checkpoint(tmp_path / "model")


def test_a_missing_pooler_is_new_where_nothing_needs_it(tmp_path, caplog):
    model = SquadModel(CONFIG)
    without = {name: weight for name, weight in weights_by_name(model).items() if "pooler" not in name}
    (tmp_path / "model").mkdir()
    save_checkpoint(tmp_path / "model" / "bert_model.ckpt", without)
    (tmp_path / "model" / "bert_config.json").write_text(CONFIG.to_json_string())
    caplog.set_level(logging.INFO, "bert_keras")
    assert_same(SquadModel.from_checkpoint(tmp_path / "model"), model, without)
    bert = BertModel.from_checkpoint(tmp_path / "model")
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert "new: bert/pooler/dense/kernel, bert/pooler/dense/bias" in caplog.messages[-1]
    assert np.abs(weights_of(bert)["bert/pooler/dense/kernel"]).max() > 0


def test_mistakes_are_sentences(tmp_path, encoder):
    _, folder = encoder
    write_model(tmp_path / "model", TokenClassifierModel(CONFIG, 3))
    (tmp_path / "model" / "bert_config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"^\S+ has no bert_config.json or config.json in its folder; put it"):
        TokenClassifierModel.from_checkpoint(tmp_path / "model")
    with pytest.raises(ValueError, match=r'do not say how vectors are made; give pooling="cls"'):
        SentenceModel.from_checkpoint(folder)
    with pytest.raises(FileNotFoundError, match=r"^the checkpoint \S+/nowhere"):
        BertModel.from_checkpoint(tmp_path / "nowhere")
