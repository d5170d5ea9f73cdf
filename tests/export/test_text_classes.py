"""Classification text models give the answers of the live models."""

import numpy as np
import pytest
import tensorflow as tf
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import TOKENS

from bert_keras.data_prep.tasks.encoding import encode_pair
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.graph.classes import ChoiceModel, ClassModel
from bert_keras.modeling import weights_by_name
from bert_keras.prediction import ChoicePicker, TextClassifier

LABELS = ["bad", "good", "\u00fc"]
CLASSES = {"classification": {"labels": LABELS}, "multi_label": {"labels": LABELS}, "regression": {}}


@pytest.fixture(scope="module")
def both(tokenizer, tmp_path_factory):
    """Return a function of a task and is_pair that returns the text model and the live model of the same weights."""

    def make(task, is_pair=False):
        settings = {**OF_TEXTS, **CLASSES[task], "is_pair": is_pair}
        model = random_classifier(len(settings.get("labels", [0])))
        folder = write_fine_tuned(tmp_path_factory.mktemp(task), model, task, **settings)
        return ClassModel(IdsNetwork(model, task), tokenizer, {"task": task, **settings}), TextClassifier(folder)

    return make


@pytest.fixture(scope="module")
def classifier(tokenizer):
    """A text model of single texts."""
    settings = {**OF_TEXTS, "task": "classification", "labels": LABELS}
    return ClassModel(IdsNetwork(random_classifier(3), "classification"), tokenizer, settings)


def decoded(strings):
    return np.vectorize(bytes.decode, [object])(strings).tolist()


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def assert_same_classes(answers, live):
    assert decoded(answers["label"]) == [one.label for one in live]
    assert decoded(answers["labels"]) == [LABELS] * len(live)
    assert_close(answers["probabilities"], [list(one.probabilities.values()) for one in live])


def test_classes_of_texts(both, ask, texts):
    text_model, live = both("classification")
    answers = ask(text_model, text=texts)
    assert_same_classes(answers, live(texts))
    assert len(set(decoded(answers["label"]))) > 1
    for number in (0, 7, len(texts) - 1):
        assert_same_classes(ask(text_model, text=texts[number : number + 1]), live(texts[number : number + 1]))


def test_classes_of_pairs(both, ask, texts):
    text_model, live = both("classification", is_pair=True)
    seconds = ["", *texts[:0:-1]]
    answers = ask(text_model, text=texts, text_pair=seconds)
    assert_same_classes(answers, live(list(zip(texts, seconds, strict=True))))
    python = FullTokenizer(text_model.tokenizer.vocab_file.asset_path.numpy().decode())
    cuts = [encode_pair(python, *pair, 16)[2] > 0 for pair in zip(texts, seconds, strict=True)]
    assert answers["is_cut"].tolist() == cuts
    assert 1 < sum(cuts) < len(cuts) - 1


def test_a_number(both, ask, texts):
    text_model, live = both("regression")
    answers = ask(text_model, text=texts)
    assert set(answers) == {"value", "is_cut"}
    assert answers["value"].dtype == np.float32
    assert_close(answers["value"], [one.value for one in live(texts)])


def test_several_labels(both, ask, texts):
    text_model, live = both("multi_label")
    answers, expected = ask(text_model, text=texts), live(texts)
    applying = [[LABELS[number] for number in np.flatnonzero(row)] for row in answers["applies"]]
    assert applying == [one.labels for one in expected]
    assert decoded(answers["labels"]) == [LABELS] * len(texts)
    assert_close(answers["probabilities"], [list(one.probabilities.values()) for one in expected])


def test_a_label_of_one_half_applies(tokenizer, ask):
    model = random_classifier(3)
    weights = weights_by_name(model)
    weights["output_weights"].assign(np.zeros((3, 16)))
    weights["output_bias"].assign([0.0, -1e-6, 1e-6])
    settings = {**OF_TEXTS, "task": "multi_label", "labels": LABELS}
    answers = ask(ClassModel(IdsNetwork(model, "multi_label"), tokenizer, settings), text=["paris"])
    assert answers["applies"].tolist() == [[True, False, True]]


def test_the_first_of_equal_classes(tokenizer, ask):
    model = random_classifier(3)
    weights_by_name(model)["output_weights"].assign(np.zeros((3, 16)))
    weights_by_name(model)["output_bias"].assign([0.0, 1.0, 1.0])
    settings = {**OF_TEXTS, "task": "classification", "labels": LABELS}
    answers = ask(ClassModel(IdsNetwork(model, "classification"), tokenizer, settings), text=["paris"])
    assert answers["label"].tolist() == [b"good"]


def test_choices(tokenizer, ask, texts, tmp_path):
    model = random_classifier(1)
    live = ChoicePicker(write_fine_tuned(tmp_path, model, "multiple_choice", max_seq_length=16))
    settings = {"task": "multiple_choice", "max_seq_length": 16}
    text_model = ChoiceModel(IdsNetwork(model, "multiple_choice"), tokenizer, settings)
    for num_choices in (2, 3):
        choices = [[*texts, *texts][number : number + num_choices] for number in range(1, 1 + len(texts))]
        answers, expected = ask(text_model, text=texts, choices=choices), live(list(zip(texts, choices, strict=True)))
        assert answers["index"].tolist() == [one.index for one in expected]
        assert_close(answers["probabilities"], [one.probabilities for one in expected])
    assert len({one.index for one in expected}) == 3
    answers = ask(text_model, text=["a", "b", "is " * 30], choices=[["a", "b"], ["c", "is " * 30], ["c", "d"]])
    assert answers["is_cut"].tolist() == [False, True, True]


# Common to all tasks.


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


def test_what_is_beyond_the_limit_is_cut_and_said(classifier, ask):
    answers = ask(classifier, text=["walk " * 14, "walk " * 15, "walk " * 1000, "walk"])
    assert answers["is_cut"].tolist() == [False, True, True, False]
    assert_close(answers["probabilities"][1:3], answers["probabilities"][[0, 0]])


def test_no_rows(tokenizer, classifier, ask):
    answers = ask(classifier, text=[])
    assert {name: value.shape for name, value in answers.items()} == {
        "label": (0,),
        "labels": (0, 3),
        "probabilities": (0, 3),
        "is_cut": (0,),
    }
    settings = {"task": "multiple_choice", "max_seq_length": 16}
    choices = ChoiceModel(IdsNetwork(random_classifier(1), "multiple_choice"), tokenizer, settings)
    assert {value.shape[0] for value in ask(choices, text=[], choices=np.zeros((0, 2), object)).values()} == {0}


# Mistakes.


def test_texts_that_do_not_belong_together(both, tokenizer, ask):
    pairs, _ = both("classification", is_pair=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="text and text_pair need the same number of rows"):
        ask(pairs, text=["a", "b"], text_pair=["a"])
    settings = {"task": "multiple_choice", "max_seq_length": 16}
    choices = ChoiceModel(IdsNetwork(random_classifier(1), "multiple_choice"), tokenizer, settings)
    with pytest.raises(tf.errors.InvalidArgumentError, match="each text needs two or more choices"):
        ask(choices, text=["a"], choices=[["b"]])


def test_a_model_that_is_too_short_for_its_settings(tokenizer):
    settings = {**OF_TEXTS, "task": "classification", "labels": LABELS, "max_seq_length": 41}
    with pytest.raises(ValueError, match=r"^max_seq_length is 41, but the model has 40 positions; take the task.json"):
        ClassModel(IdsNetwork(random_classifier(3), "classification"), tokenizer, settings)
