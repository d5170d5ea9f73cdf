"""Text models of every task give the answers of the live models, with their differences from them measured."""

import numpy as np
import pytest
import tensorflow as tf
from fine_tuned_models import OF_TEXTS, random_classifier
from known_models import TOKENS
from tiny_exports import FINE_TUNED, PRETRAINED

from bert_keras.export.checks.saved_model_check import compare_with_python
from bert_keras.export.checks.texts import built_in_texts
from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.graph.classes import ChoiceModel, ClassModel
from bert_keras.export.graph.tokenization import GraphTokenizer
from bert_keras.export.graph.vectors import FillMaskModel, VectorModel
from bert_keras.modeling import weights_by_name
from bert_keras.prediction import FeatureExtractor

LABELS = ["bad", "good", "\u00fc"]


@pytest.mark.parametrize("task", [*FINE_TUNED, *PRETRAINED])
def test_the_answers_are_those_of_python(open_task, task):
    predictor, text_model = open_task(task)
    texts = built_in_texts(text_model.settings)
    assert list(texts) == list(text_model.text_signature)
    outputs = {name: value.numpy() for name, value in text_model.answer(texts).items()}
    assert 0 < outputs["is_cut"].sum() < len(outputs["is_cut"])
    largest, num_compared, num_other = compare_with_python(task, predictor, texts, outputs, 1e-4)
    assert largest < 2e-5
    assert num_compared >= (1 if task == "multiple_choice" else 3)
    assert num_other == 0
    # The comparison covers every output of the answer except those that only the graph has.
    for name in set(outputs) - {"is_cut", "score"}:
        assert_difference_is_found(task, predictor, texts, outputs, name)


def assert_difference_is_found(task, predictor, texts, outputs, name):
    value = outputs[name].copy()
    if value.dtype == object:
        value[...] = b"another"
    elif name.startswith("num_"):
        value += value > 0
    else:
        value = ~value if value.dtype == bool else value + np.asarray(0.01 + (value.dtype != np.float32), value.dtype)
    wrong = {**outputs, name: value.astype(outputs[name].dtype)}
    message = rf"^serving_default, against Python, text \d+: {name}\[.*\] is .* expected \("
    with pytest.raises(ValueError, match=message):
        compare_with_python(task, predictor, texts, wrong, 1e-4)


def test_other_answers_of_a_quantized_model_are_counted(open_task):
    predictor, text_model = open_task("regression")
    texts = built_in_texts(text_model.settings)
    outputs = {name: value.numpy() for name, value in text_model.answer(texts).items()}
    moved = {**outputs, "value": outputs["value"] + 0.5}
    largest, _, num_other = compare_with_python("regression", predictor, texts, moved, 1e-4, True)
    assert (largest, num_other) == (pytest.approx(0.5, abs=1e-4), 0)
    moved["value"] = np.full_like(outputs["value"], np.nan)
    _, num_compared, num_other = compare_with_python("regression", predictor, texts, moved, 1e-4, True)
    assert num_other == num_compared >= 3


# Classes.


@pytest.fixture(scope="module")
def classifier(tokenizer):
    """A text model of single texts."""
    settings = {**OF_TEXTS, "task": "classification", "labels": LABELS}
    return ClassModel(
        IdsNetwork(random_classifier(3, seed=1, num_hidden_layers=1), "classification"), tokenizer, settings
    )


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_an_empty_text_is_its_special_tokens(classifier, ask):
    ids = [TOKENS.index("[CLS]"), TOKENS.index("[SEP]")]
    features = {"input_ids": [ids], "input_mask": [[1, 1]], "segment_ids": [[0, 0]]}
    logits = classifier.network({name: tf.constant(value) for name, value in features.items()})["logits"]
    answers = ask(classifier, text=["", " \u3000\x00", b"\xff", "paris"])
    assert_close(answers["probabilities"][:3], [tf.nn.softmax(logits)[0]] * 3)
    assert np.abs(answers["probabilities"][3] - answers["probabilities"][0]).max() > 1e-2


def test_bytes_that_are_not_utf8_are_dropped(classifier, ask):
    answers = ask(classifier, text=[b"pa\xffris is\xe2\x82", b"\xed\xa0\x80paris is", "paris is"])
    assert_close(answers["probabilities"][:2], answers["probabilities"][[2, 2]])


def test_a_long_text_is_cut_and_marked(classifier, ask):
    answers = ask(classifier, text=["walk " * 14, "walk " * 15, "walk " * 1000, "walk"])
    assert answers["is_cut"].tolist() == [False, True, True, False]
    assert_close(answers["probabilities"][1:3], answers["probabilities"][[0, 0]])


@pytest.mark.parametrize("task", ["classification", "multi_label"])
def test_ties(tokenizer, ask, task):
    model = random_classifier(3, num_hidden_layers=1)
    weights = weights_by_name(model)
    weights["output_weights"].assign(np.zeros((3, 16)))
    weights["output_bias"].assign([0.0, 0.0, -1e-6])
    settings = {**OF_TEXTS, "task": task, "labels": LABELS}
    answers = ask(ClassModel(IdsNetwork(model, task), tokenizer, settings), text=["paris"])
    if task == "classification":
        assert answers["label"].tolist() == [b"bad"]  # the first of equal classes
    else:
        assert answers["applies"].tolist() == [[True, True, False]]  # a probability of one half is enough


def test_choices(open_task, ask):
    predictor, text_model = open_task("multiple_choice")
    words = ["paris", "he was hungry", "so she ate", "is", "the capital of france"]
    choices = [[*words, *words][number : number + 2] for number in range(1, 1 + len(words))]
    answers = ask(text_model, text=words, choices=choices)
    expected = predictor(list(zip(words, choices, strict=True)))
    assert answers["index"].tolist() == [one.index for one in expected]
    assert set(answers["index"]) == {0, 1}
    assert_close(answers["probabilities"], [one.probabilities for one in expected])
    answers = ask(text_model, text=["a", "b", "is " * 30], choices=[["a", "b"], ["c", "is " * 30], ["c", "d"]])
    assert answers["is_cut"].tolist() == [False, True, True]


# Vectors and masks.


@pytest.mark.parametrize("pooling", ["cls", "max"])
def test_poolings(open_task, ask, pooling):
    live, text_model = open_task("vectors")
    live = FeatureExtractor(live.files.checkpoint.prefix, [-1], pooling, 16)
    text_model = VectorModel(text_model.network, text_model.tokenizer, {**text_model.settings, "pooling": pooling})
    texts = ["", "Paris is the capital of France.", "walk " * 14, "walk " * 15]
    answers = ask(text_model, text=texts)
    assert_close(answers["vector"], [features.values[0] for features in live(texts)])
    assert answers["is_cut"].tolist() == [False, False, False, True]


MASKED = [
    "Paris is the [MASK] of France.",
    "[MASK]",
    "[MASK][MASK] [MASK]",
    "un[MASK]s paris[MASK]",
    "  [MASK]\twalk[MASK]ing\n",
    "[[MASK]] [mask] [MASK",
    "\u0391\u03a3[MASK]\u03a3 e[MASK]\u0301",
    "[MASK] " * 14,
    "a" * 201 + "[MASK]" + "\u4e2d",
]


def test_masks(open_task, ask):
    live, text_model = open_task("fill_mask")
    answers = ask(text_model, text=MASKED)
    texts = {"text": np.array([text.encode() for text in MASKED], object)}
    assert compare_with_python("fill_mask", live, texts, answers, 1e-5)[1:] == (len(MASKED), 0)
    for row, number in enumerate([1, 1, 3, 2, 2, 1, 2, 14, 1]):
        assert answers["num_masks"][row] == number
        assert set(answers["tokens"][row, number:].flat) <= {b""}
        assert not answers["probabilities"][row, number:].any()
    assert len(set(answers["tokens"].flat)) > 4


def test_masks_beyond_the_limit_and_masks_with_bytes_that_are_not_utf8(open_task, ask):
    _, text_model = open_task("fill_mask")
    texts = ["a " * 13 + "[MASK] [MASK]", "a " * 14 + "[MASK]", "[MASK]" + " a" * 14]
    answers = ask(text_model, text=[*texts, b"paris [MA\xffSK] is\xe2\x82", "paris [MASK] is"])
    assert answers["num_masks"].tolist() == [1, 0, 1, 1, 1]
    assert answers["is_cut"].tolist() == [True, True, True, False, False]
    assert_close(answers["probabilities"][3], answers["probabilities"][4])


@pytest.mark.parametrize("task", [*FINE_TUNED, *PRETRAINED])
def test_no_rows(open_task, ask, task):
    _, text_model = open_task(task)
    texts = {name: np.zeros([0, *[2] * (len(shape) - 1)], object) for name, shape in text_model.inputs.items()}
    assert {value.shape[0] for value in ask(text_model, **texts).values()} == {0}


# Mistakes.


def test_texts_that_do_not_belong_together(open_task, ask):
    with pytest.raises(tf.errors.InvalidArgumentError, match="text and text_pair need the same number of rows"):
        ask(open_task("classification")[1], text=["a", "b"], text_pair=["a"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="each text needs two or more choices"):
        ask(open_task("multiple_choice")[1], text=["a"], choices=[["b"]])


@pytest.mark.parametrize(
    ("class_", "changed", "message"),
    [
        (
            ChoiceModel,
            {"max_seq_length": 41},
            "max_seq_length is 41, but the model has 40 positions; take the task.json",
        ),
        (VectorModel, {"pooling": "none"}, 'pooling is "none", but must be one of cls, mean, max$'),
        (FillMaskModel, {"top_k": 41}, "top_k is 41, but must be from 1 to the vocabulary's 40$"),
    ],
)
def test_settings_that_do_not_fit(classifier, tokenizer, class_, changed, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        class_(classifier.network, tokenizer, {"max_seq_length": 16, **changed})


def test_a_vocabulary_without_masks(classifier, tmp_path):
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("".join(f"{token}\n" for token in TOKENS if token != "[MASK]"))
    model = FillMaskModel(classifier.network, GraphTokenizer(vocab_file), {"max_seq_length": 16, "top_k": 1})
    with pytest.raises(ValueError, match=r"^the vocabulary lacks \[MASK\]; give that of a model that was pre-trained"):
        model.answer({"text": ["a"]})
