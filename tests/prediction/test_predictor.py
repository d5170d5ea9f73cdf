"""Features common to all predictors: any number of texts, any thread, limits."""

import concurrent.futures
import dataclasses
import itertools
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import TOKENS, random_model, write_model

from bert_keras.modeling import weights_by_name
from bert_keras.prediction import (
    FillMask,
    Limits,
    SentenceScorer,
    TextClassifier,
    Unanswered,
    open_model,
)

SETTINGS = OF_TEXTS | {"labels": ["no", "yes", "maybe"]}
TEXTS = [" ".join(TOKENS[5 + (i * k) % 30] for k in range(1, 2 + i % 9)) for i in range(1, 41)]


def close_to(answer):
    """An expected Classification that compares to within the rounding of another batch."""
    return dataclasses.replace(answer, probabilities=pytest.approx(answer.probabilities, rel=1e-5))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    model = random_classifier(3, num_hidden_layers=1)
    return write_fine_tuned(tmp_path_factory.mktemp("run"), model, "classification", **SETTINGS)


@pytest.fixture(scope="module")
def classify(run):
    return open_model(run, batch_size=2)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("pretrained"), random_model(num_hidden_layers=1))


def test_threads_get_the_answers_of_one(run):
    classify = open_model(run, batch_size=4)

    def ask(first):
        return [(i % len(TEXTS), classify(TEXTS[i % len(TEXTS)])) for i in range(first, first + 60)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [answer for answers in pool.map(ask, range(0, 40, 5)) for answer in answers]
    # The threads also began together, before the first trace.
    assert classify.num_traces == 1
    expected = [classify(text) for text in TEXTS]
    assert len(answers) == 480
    assert all(answer == close_to(expected[number]) for number, answer in answers)


def test_texts_are_read_a_little_ahead_of_the_answers(classify):
    num_read = 0

    def endless():
        nonlocal num_read
        for num_read in itertools.count(1):
            yield TEXTS[num_read % len(TEXTS)]

    answers = classify.pipe(endless())
    assert num_read == 0
    first = next(answers)
    assert first == close_to(classify(TEXTS[1]))
    assert num_read == 2
    taken = [first, *itertools.islice(answers, 249)]
    assert num_read <= 250 + 64
    expected = classify(TEXTS)
    assert taken == [close_to(expected[number % len(TEXTS)]) for number in range(1, 251)]


def test_a_text_that_cannot_be_answered_stops_all_or_is_reported(classify):
    texts = ["he", "", "she", 7, "so", ValueError("unreadable")]
    sources = [f"a.txt line {number}" for number in range(1, 7)]
    answers = classify.pipe(texts, sources=sources)
    with pytest.raises(ValueError, match="^a.txt line 2 has no word in its text; give a text$"):
        next(answers)
    good = [close_to(answer) for answer in classify(["he", "she", "so"])]
    assert list(classify.pipe(texts, sources=sources, on_error="report")) == [
        *(good[0], Unanswered("a.txt line 2", "a.txt line 2 has no word in its text; give a text"), good[1]),
        *(Unanswered("a.txt line 4", "a.txt line 4 is of type int, but a str is needed"), good[2]),
        Unanswered("a.txt line 6", "unreadable"),
    ]
    with pytest.raises(ValueError, match='^on_error is "skip", but must be one of stop, report$'):
        classify.pipe(texts, on_error="skip")


def test_scores_that_are_not_finite_are_refused(tmp_path):
    model = random_model(num_hidden_layers=1)
    weight = weights_by_name(model)["bert/embeddings/LayerNorm/beta"]
    weight.assign(np.full(weight.shape, np.nan))
    fill_mask = FillMask(write_model(tmp_path, model))
    message = "^text 1: the results of the model are not finite numbers, so its weights are broken; take another che"
    with pytest.raises(ValueError, match=message):
        fill_mask("[MASK]")
    [answer] = fill_mask.pipe(["[MASK]"], on_error="report")
    assert isinstance(answer, Unanswered)


@pytest.mark.parametrize(
    ("limits", "text", "what", "message"),
    [
        (
            {},
            "bad \udcff byte",
            "second text",
            r"character 5 of its second text is \\udcff, half of a surrogate pair, ",
        ),
        ({}, None, "text", "is of type NoneType, but a str is needed$"),
        ({}, "he" + "\u0301\u0316" * 51, "text", "from character 3 of its text on there are more than 100 combining"),
        ({}, "a\u0f73" + "\u0f75" * 100, "question", "from character 2 of its question on there are more than 100"),
        ({"max_chars": 5}, "he was", "text", "has 6 characters, but max_chars is 5; make it shorter, or raise"),
        ({"max_chars": 5}, "he was", "question", "has 6 characters in its question, but max_chars is 5"),
    ],
)
def test_limits_check_texts(limits, text, what, message):
    with pytest.raises(ValueError, match=f"^text 1:? {message}"):
        Limits(**limits).check_text(text, "text 1", what)


def test_marks_that_a_script_can_have_are_accepted():
    rows = (
        "\u0301" * 100,
        "e\u0316\u0301\u0302" * 5000,
        "\u0e01\u0e38\u0e49\u0e4c",
        "\u0f40\u0f73" * 200,
        "\u200d" * 500,
    )
    for text in rows:
        Limits().check_text(text, "text 1")


def test_large_input_is_refused_before_the_model_sees_it(run, pretrained):
    fill_mask = FillMask(pretrained, top_k=10, long="window", limits=Limits(max_masks=3, max_chars=60))
    scorer = SentenceScorer(pretrained, limits=Limits(max_sequences=3))
    classify = TextClassifier(run, limits=Limits(max_texts=2))
    for predictor, text, message in (
        (fill_mask, "[MASK] " * 4, r"^text 1 has 4 \[MASK\], but max_masks is 3; make it shorter, or"),
        (
            fill_mask,
            "[MASK] " * 3 + "a" * 39,
            r"^text 1 has 3 \[MASK\] in 60 characters: 10 guesses for each, with their sentences, are 3,600 "
            "characters, more than 20 times max_chars; make it shorter, or choose a smaller top_k$",
        ),
        (scorer, "he was so hungry", "^text 1 has 4 tokens to score, each in its own sequence, but max_seq"),
        (classify, ["he"] * 3, "^there are more texts than limits.max_texts, which is 2; take the method pipe, "),
    ):
        with pytest.raises(ValueError, match=message):
            predictor(text)
        assert predictor.num_traces == 0
    assert len(list(classify.pipe(["he"] * 3))) == 3


def test_windows_of_a_text_are_limited(tmp_path):
    settings = SETTINGS | {"doc_stride": 4}
    model = random_classifier(3, num_hidden_layers=1)
    run = write_fine_tuned(tmp_path, model, "classification", **settings)
    classify = open_model(run, limits=Limits(max_sequences=3))
    assert classify("he was so " * 7).label
    message = "^text 1 has 4 sequences of the model's length, but max_sequences is 3; make it shorter, or raise"
    with pytest.raises(ValueError, match=message):
        classify("he was so " * 8)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1"])
def test_limits_are_whole_numbers(value):
    with pytest.raises(ValueError, match="^max_masks is .*, but must be a whole number above 0$"):
        Limits(max_masks=value)


def test_another_backend_is_refused(monkeypatch, pretrained):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    message = r"^Keras is set to run on jax \(by KERAS_BACKEND or ~/.keras/keras.json\), but prediction and train"
    with pytest.raises(ValueError, match=message):
        FillMask(pretrained)


def test_programs_check_their_arguments_without_tensorflow():
    code = "import sys, predict, extract_features; print(sorted({'tensorflow', 'keras', 'sklearn'} & {*sys.modules}))"
    root = pathlib.Path(__file__).resolve().parents[2]
    assert subprocess.check_output([sys.executable, "-c", code], cwd=root) == b"[]\n"
