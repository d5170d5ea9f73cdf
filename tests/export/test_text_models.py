"""Text models of every task give the answers of the live models, with their differences from them measured."""

import numpy as np
import pytest
import tensorflow as tf
from fine_tuned_models import OF_TEXTS, OF_VECTORS, random_classifier
from known_models import TOKENS, randomise, small_config
from tiny_exports import Both, open_both

from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.export.checks.saved_model_check import compare_with_python
from bert_keras.export.checks.texts import built_in_texts
from bert_keras.modeling import SentenceModel, weights_by_name
from bert_keras.prediction import FeatureExtractor
from bert_keras.tasks import abilities
from bert_keras.tasks.classification.graph import ClassModel
from bert_keras.tasks.pretraining.graph import FillMaskModel

pytestmark = pytest.mark.usefixtures("no_graphs")

TASKS = [*abilities(is_exported=True)]


@pytest.mark.parametrize("task", TASKS)
def test_the_answers_are_those_of_python(open_task, task):
    both = open_task(task)
    texts = built_in_texts(both.text_model.settings)
    assert list(texts) == list(both.text_model.text_signature)
    outputs = {name: value.numpy() for name, value in both.text_model.answer(texts).items()}
    assert 0 < outputs["is_cut"].sum() < len(outputs["is_cut"])
    largest, num_compared, num_other = compare_with_python(both.text_model, both.live, texts, outputs, 1e-4)
    assert largest < 2e-5
    assert num_compared >= (1 if task in ("multiple_choice", "rerank") else 3)
    assert num_other == 0
    # The comparison covers every output of the answer except those that only the graph has.
    for name in set(outputs) - {"is_cut", "score"}:
        value = wrong(name, outputs[name])
        message = rf"^serving_default, against Python, text \d+: {name}(\[.*\])? is .* expected \("
        with pytest.raises(ValueError, match=message):
            compare_with_python(both.text_model, both.live, texts, {**outputs, name: value}, 1e-4)
        if value.dtype != np.float32:
            quantized = compare_with_python(both.text_model, both.live, texts, {**outputs, name: value}, np.inf)
            assert quantized == (pytest.approx(largest, abs=1e-4), num_compared, num_compared)


def wrong(name, value):
    """Returns another value for every entry; counts of words and masks stay above 0 where they are."""
    if value.dtype == object:
        return np.full_like(value, b"another")
    if value.dtype == bool:
        return ~value
    if name.startswith("num_"):
        return value + (value > 0)
    return value + value.dtype.type(0.01 if value.dtype == np.float32 else 1)


@pytest.mark.parametrize("task", TASKS)
def test_no_rows(open_task, task):
    assert {value.shape[0] for value in open_task(task).ask().values()} == {0}


# Classes.


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, tokenizer):
    """Classes of single texts."""
    model = random_classifier(3, seed=1, num_hidden_layers=1)
    folder = tmp_path_factory.mktemp("run")
    return open_both(folder, model, "classification", tokenizer, **OF_TEXTS, labels=["bad", "good", "\u00fc"])


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_an_empty_text_is_its_special_tokens(classifier):
    ids = [TOKENS.index("[CLS]"), TOKENS.index("[SEP]")]
    features = {"input_ids": [ids], "input_mask": [[1, 1]], "segment_ids": [[0, 0]]}
    logits = classifier.text_model.network({name: tf.constant(ids) for name, ids in features.items()})["logits"]
    probabilities = classifier.ask("", " \u3000\x00", b"\xff", "paris")["probabilities"]
    assert_close(probabilities[:3], [tf.nn.softmax(logits)[0]] * 3)
    assert np.abs(probabilities[3] - probabilities[0]).max() > 1e-2


def test_a_long_text_is_cut_and_marked(classifier):
    answers = classifier.ask("walk " * 14, "walk " * 15, "walk " * 1000, "walk")
    assert answers["is_cut"].tolist() == [False, True, True, False]
    assert_close(answers["probabilities"][1:3], answers["probabilities"][[0, 0]])


def test_ties(tmp_path, tokenizer):
    model = random_classifier(3, num_hidden_layers=1)
    weights_by_name(model)["output_weights"].assign(np.zeros((3, 16)))
    weights_by_name(model)["output_bias"].assign([0.0, 0.0, -1e-6])
    both = open_both(tmp_path, model, "classification", tokenizer, **OF_TEXTS, labels=["a", "b", "c"])
    assert both.ask("paris")["label"].tolist() == [b"a"]
    assert both.changed(task="multi_label").ask("paris")["applies"].tolist() == [[True, True, False]]


def test_choices(open_task):
    both = open_task("multiple_choice")
    words = ["paris", "he was hungry", "so she ate", "is", "the capital of france"]
    rows = [(word, [*words, *words][number : number + 2]) for number, word in enumerate(words, 1)]
    assert set(both.check(*rows)["index"]) == {0, 1}
    answers = both.ask(("a", ["a", "b"]), ("b", ["c", "is " * 30]), ("is " * 30, ["c", "d"]))
    assert answers["is_cut"].tolist() == [False, True, True]


# Vectors and masks.


@pytest.mark.parametrize("pooling", ["cls", "max"])
def test_poolings(open_task, pooling):
    both = open_task("vectors")
    live = FeatureExtractor(both.live.files.checkpoint.prefix, [-1], pooling, 16)
    answers = (
        Both(live, both.text_model)
        .changed(pooling=pooling)
        .check("Paris is the capital of France.", "walk " * 14, "walk " * 15)
    )
    assert answers["is_cut"].tolist() == [False, False, True]


def test_prefix_and_length_of_vectors(tmp_path, tokenizer):
    model = randomise(SentenceModel(small_config(num_hidden_layers=1)))
    both = open_both(tmp_path, model, "vectors", tokenizer, **OF_VECTORS)
    assert OF_VECTORS["prefix"]
    assert OF_VECTORS["normalize"]
    answers = both.check("Paris is the capital of France.", "walk " * 12, "walk " * 13)
    assert answers["is_cut"].tolist() == [False, False, True]
    np.testing.assert_allclose(np.linalg.norm(answers["vector"], axis=1), 1, rtol=1e-5)


MASKED = {
    "Paris is the [MASK] of France.": 1,
    "[MASK]": 1,
    "[MASK][MASK] [MASK]": 3,
    "un[MASK]s paris[MASK]": 2,
    "  [MASK]\twalk[MASK]ing\n": 2,
    "[[MASK]] [mask] [MASK": 1,
    "\u0391\u03a3[MASK]\u03a3 e[MASK]\u0301": 2,
    "[MASK] " * 14: 14,
    "a" * 201 + "[MASK]" + "\u4e2d": 1,
}


def test_masks(open_task):
    answers = open_task("fill_mask").check(*MASKED)
    assert answers["num_masks"].tolist() == list(MASKED.values())
    for row, number in enumerate(MASKED.values()):
        assert set(answers["tokens"][row, number:].flat) <= {b""}
        assert not answers["probabilities"][row, number:].any()
    assert len(set(answers["tokens"].flat)) > 4


def test_masks_beyond_the_limit_and_masks_with_bytes_that_are_not_utf8(open_task):
    texts = ["a " * 13 + "[MASK] [MASK]", "a " * 14 + "[MASK]", "[MASK]" + " a" * 14]
    answers = open_task("fill_mask").ask(*texts, b"paris [MA\xffSK] is\xe2\x82", "paris [MASK] is")
    assert answers["num_masks"].tolist() == [1, 0, 1, 1, 1]
    assert answers["is_cut"].tolist() == [True, True, True, False, False]
    assert_close(answers["probabilities"][3], answers["probabilities"][4])


# Mistakes.


def test_texts_that_do_not_belong_together(open_task):
    with pytest.raises(tf.errors.InvalidArgumentError, match="text and text_pair need the same number of rows"):
        open_task("classification").text_model.answer({"text": ["a", "b"], "text_pair": ["a"]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="each text needs 2 or more choices"):
        open_task("multiple_choice").ask(("a", ["b"]))


def test_a_model_that_is_too_short_for_its_settings(classifier):
    with pytest.raises(ValueError, match="^max_seq_length is 41, but the model has 40 positions; take the task.json"):
        ClassModel(classifier.text_model.network, None, {"max_seq_length": 41})


def test_a_vocabulary_without_masks(classifier):
    tokenizer = FullTokenizer([token for token in TOKENS if token != "[MASK]"])
    settings = {"task": "fill_mask", "max_seq_length": 16, "top_k": 1}
    model = FillMaskModel(classifier.text_model.network, GraphTokenizer(tokenizer), settings)
    with pytest.raises(ValueError, match=r"^the vocabulary lacks \[MASK\]; give that of a model that was pre-trained"):
        model.answer({"text": ["a"]})
