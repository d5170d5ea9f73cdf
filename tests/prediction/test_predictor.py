"""Limits of texts, broken weights and backends; test_contract.py has what every predictor does."""

import numpy as np
import pytest
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import random_model, write_model

from bert_keras.modeling import weights_by_name
from bert_keras.prediction import (
    FillMask,
    Limits,
    SentenceScorer,
    Unanswered,
    open_model,
)

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("pretrained"), random_model(num_hidden_layers=1))


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


def test_large_input_is_refused_before_the_model_sees_it(pretrained):
    fill_mask = FillMask(pretrained, top_k=10, long="window", limits=Limits(max_masks=3, max_chars=60))
    scorer = SentenceScorer(pretrained, limits=Limits(max_sequences=3))
    for predictor, text, message in (
        (fill_mask, "[MASK] " * 4, r"^text 1 has 4 \[MASK\], but max_masks is 3; make it shorter, or"),
        (
            fill_mask,
            "[MASK] " * 3 + "a" * 39,
            r"^text 1 has 3 \[MASK\] in 60 characters: 10 guesses for each, with their sentences, are 3,600 "
            "characters, more than 20 times max_chars; make it shorter, or choose a smaller top_k$",
        ),
        (scorer, "he was so hungry", "^text 1 has 4 tokens to score, each in its own sequence, but max_seq"),
    ):
        with pytest.raises(ValueError, match=message):
            predictor(text)
        assert predictor.num_traces == 0


def test_windows_of_a_text_are_limited(tmp_path):
    model, settings = random_classifier(3, num_hidden_layers=1), OF_TEXTS | {"doc_stride": 4}
    run = write_fine_tuned(tmp_path, model, "classification", labels=["no", "yes", "maybe"], **settings)
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
    message = r"^Keras is set to run on jax \(by KERAS_BACKEND or ~/.keras/keras.json\), but prediction needs"
    with pytest.raises(ValueError, match=message):
        FillMask(pretrained)
