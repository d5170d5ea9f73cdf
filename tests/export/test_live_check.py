"""The texts that check an export, and the expected answers from Python."""

import re

import numpy as np
import pytest
from fine_tuned_models import (
    OF_ANSWERS,
    OF_TAGS,
    OF_TEXTS,
    TAGS,
    random_answerer,
    random_classifier,
    randomise,
    small_config,
    write_fine_tuned,
)
from known_models import random_model, write_model

from bert_keras.export.card.usage_examples import example_texts
from bert_keras.export.checks.against_python import compare_with_live
from bert_keras.export.checks.texts import built_in_texts, read_check_texts
from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.formats.saved_model import make_text_model
from bert_keras.modeling import TokenClassifierModel
from bert_keras.prediction import FeatureExtractor, FillMask, open_model

ONE_LAYER = {"num_hidden_layers": 1}
LABELS = {"labels": ["no", "yes"]}
FINE_TUNED = {
    "classification": (lambda: random_classifier(2, **ONE_LAYER), OF_TEXTS | LABELS | {"is_pair": True}),
    "regression": (lambda: random_classifier(1, **ONE_LAYER), OF_TEXTS),
    "multi_label": (lambda: random_classifier(2, **ONE_LAYER), OF_TEXTS | LABELS),
    "multiple_choice": (lambda: random_classifier(1, **ONE_LAYER), {"max_seq_length": 16}),
    "question_answering": (lambda: random_answerer(**ONE_LAYER), OF_ANSWERS | {"version_2_with_negative": True}),
    "token_classification": (
        lambda: randomise(TokenClassifierModel(small_config(**ONE_LAYER), len(TAGS))),
        OF_TAGS | {"labels": TAGS},
    ),
}
PRETRAINED = {"fill_mask": {"top_k": 3}, "vectors": {"pooling": "mean", "layer": -1}}


@pytest.fixture(scope="module")
def open_task(tmp_path_factory, tokenizer):
    """Return a function that returns the predictor of a task and its text model."""
    folder = tmp_path_factory.mktemp("models")

    def open_(task):
        if task in FINE_TUNED:
            make, settings = FINE_TUNED[task]
            settings = {"task": task, **settings}
            predictor = open_model(write_fine_tuned(folder / task, make(), **settings))
        else:
            path, settings = write_model(folder / "pretrained", random_model()), PRETRAINED[task]
            predictor = FillMask(path, top_k=3) if task == "fill_mask" else FeatureExtractor(path, [-1], "mean", None)
            settings = {"task": task, "max_seq_length": predictor.files.longest, **settings}
        return predictor, make_text_model(IdsNetwork(predictor.model, task), tokenizer, settings)

    return open_


def answers_of(text_model, texts):
    return {name: value.numpy() for name, value in text_model.answer(texts).items()}


@pytest.mark.parametrize("task", [*FINE_TUNED, *PRETRAINED])
def test_what_a_text_model_answers_is_what_python_answers(open_task, task):
    predictor, text_model = open_task(task)
    settings = text_model.settings
    texts = built_in_texts(text_model.text_signature, task, settings["max_seq_length"])
    assert list(texts) == list(text_model.text_signature) == list(example_texts(settings))
    outputs = answers_of(text_model, texts)
    assert 0 < outputs["is_cut"].sum() < len(outputs["is_cut"])
    compared = compare_with_live(task, predictor, texts, outputs, 1e-4)
    assert compared.largest < 2e-5
    assert compared.num_compared >= (1 if task == "multiple_choice" else 3)
    assert compared.num_other == 0
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
    with pytest.raises(
        ValueError, match=rf"^serving_default, against Python, text \d+: {name}\[.*\] is .* expected \("
    ):
        compare_with_live(task, predictor, texts, wrong, 1e-4)
    assert compare_with_live(task, predictor, texts, wrong, 1e-4, is_quantised=True).num_compared >= 1


def test_other_answers_of_a_quantised_model_are_counted(open_task):
    predictor, text_model = open_task("regression")
    texts = built_in_texts(text_model.text_signature, "regression", 16)
    outputs = answers_of(text_model, texts)
    moved = {**outputs, "value": outputs["value"] + 0.5}
    assert compare_with_live("regression", predictor, texts, moved, 1e-4, True).largest == pytest.approx(0.5, abs=1e-4)
    moved["value"] = np.full_like(outputs["value"], np.nan)
    compared = compare_with_live("regression", predictor, texts, moved, 1e-4, True)
    assert compared.num_other == compared.num_compared >= 3


class Spec:
    """A `tf.TensorSpec` that has only a rank."""

    def __init__(self, rank):
        self.shape = type("Shape", (), {"rank": rank})


SHAPES = {
    "text": {"text": Spec(1)},
    "choices": {"text": Spec(1), "choices": Spec(2)},
}


OF_ONE, OF_PAIRS = {"task": "classification", "is_pair": False}, {"task": "question_answering"}
OF_CHOICES = {"task": "multiple_choice"}


def test_built_in_texts_have_all_that_is_odd():
    texts = built_in_texts(SHAPES["choices"], "multiple_choice", 100)
    assert texts["text"].shape == (10,)
    assert texts["choices"].shape == (10, 3)
    assert b"" in texts["text"]
    assert any(len(text.split()) > 100 for text in texts["text"])
    with pytest.raises(UnicodeDecodeError):
        b"".join(texts["text"]).decode("utf-8")
    masked = built_in_texts(SHAPES["text"], "fill_mask", 10)["text"]
    assert {text.count(b"[MASK]") for text in masked} == {0, 2}


def test_texts_of_a_file(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_bytes(b"a b\r\n\n\xff\tc\n")
    assert read_check_texts(file, OF_ONE)["text"].tolist() == [b"a b", b"\xff\tc"]
    file.write_bytes(b"a\tb\nc\td\n")
    pairs = read_check_texts(file, OF_PAIRS)
    assert [values.tolist() for values in pairs.values()] == [[b"a", b"c"], [b"b", b"d"]]
    file.write_bytes(b"a\tb\tc\nd\te\tf\n")
    assert read_check_texts(file, OF_CHOICES)["choices"].tolist() == [[b"b", b"c"], [b"e", b"f"]]


@pytest.mark.parametrize(
    ("content", "shape", "message"),
    [
        (b"\n \n", "text", "--check_file=FILE holds no text; give one text a line"),
        (b"a\tb\n\nc\n", "pair", "FILE line 3 has 0 tabs, but needs 1: two texts, with tabs between"),
        (b"a\tb\tc\nd\te\n", "choices", "FILE line 2 has 1 tabs, but needs 2: a text and its choices, the same number"),
        (b"a\tb\n", "choices", "FILE line 1 has 1 tabs, but needs 2: a text and its choices"),
    ],
)
def test_a_file_that_is_not_of_texts(tmp_path, content, shape, message):
    file = tmp_path / "texts.txt"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{re.escape(message.replace('FILE', str(file)))}"):
        read_check_texts(file, {"text": OF_ONE, "pair": OF_PAIRS, "choices": OF_CHOICES}[shape])


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"^--check_file=.*none.txt is not a file; give a text file, one text a li"
    ):
        read_check_texts(tmp_path / "none.txt", OF_ONE)
