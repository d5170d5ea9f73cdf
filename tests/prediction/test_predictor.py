"""Features common to all predictors: any number of texts, any thread, limits."""

import concurrent.futures
import dataclasses
import itertools
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import TOKENS, constant_model, random_model, write_model
from tiny_exports import write_export

from bert_keras.modeling import weights_by_name
from bert_keras.prediction import (
    EntityTagger,
    FeatureExtractor,
    FillMask,
    Limits,
    NextSentence,
    QuestionAnswerer,
    SentenceScorer,
    TextClassifier,
    Unanswered,
    Vectorizer,
    open_model,
)
from bert_keras.prediction.arguments import ArgumentError, told_with_flags
from bert_keras.prediction.loading import exported
from bert_keras.prediction.predictor import Predictor

SETTINGS = OF_TEXTS | {"labels": ["no", "yes", "maybe"]}
TEXTS = [" ".join(TOKENS[5 + (i * k) % 30] for k in range(1, 2 + i % 9)) for i in range(1, 41)]


def close_to(answer):
    """An expected Classification that compares to within the rounding of another batch."""
    return dataclasses.replace(answer, probabilities=pytest.approx(answer.probabilities, rel=1e-5))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_fine_tuned(tmp_path_factory.mktemp("run"), random_classifier(3), "classification", **SETTINGS)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("pretrained"), random_model())


@pytest.fixture(scope="module", params=["keras", "saved_model", "onnx", "litert"])
def model(request, run, tmp_path_factory):
    """The folder of one model as a run and in each format."""
    if request.param == "keras":
        return run
    folder = tmp_path_factory.mktemp("exports") / request.param
    return write_export(folder, run / "model", random_classifier(3), (request.param,))


def test_threads_get_the_answers_of_one(model):
    classify = open_model(model, batch_size=4)
    expected = [classify(text) for text in TEXTS]

    def ask(first):
        return [(i % len(TEXTS), classify(TEXTS[i % len(TEXTS)])) for i in range(first, first + 200)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [answer for answers in pool.map(ask, range(0, 40, 5)) for answer in answers]
    assert len(answers) == 1600
    assert all(answer == close_to(expected[number]) for number, answer in answers)
    assert classify.num_traces == 1


def test_threads_that_begin_together_trace_once(run):
    classify = open_model(run)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(classify, ["he was hungry"] * 8))
    assert len(set(map(str, answers))) == 1
    assert classify.num_traces == 1


def test_texts_are_read_a_little_ahead_of_the_answers(run):
    classify = open_model(run, batch_size=2)
    num_read = 0

    def endless():
        nonlocal num_read
        for num_read in itertools.count(1):
            yield TEXTS[num_read % len(TEXTS)]

    answers = classify.answers(endless())
    assert num_read == 0
    first = next(answers)
    assert first == close_to(classify(TEXTS[1]))
    assert num_read == 2
    taken = [first, *itertools.islice(answers, 499)]
    assert num_read <= 500 + 64
    expected = classify(TEXTS)
    assert taken == [close_to(expected[number % len(TEXTS)]) for number in range(1, 501)]


def test_a_generator_gives_what_a_list_gives(run, pretrained, tmp_path):
    vectors = {"task": "vectors", "max_seq_length": 20, "pooling": "mean", "layer": 0}
    export = write_export(tmp_path / "vectors", pretrained, random_model().bert, **vectors)
    for predictor, texts in (
        (open_model(run), TEXTS),
        (Vectorizer(export), TEXTS),
        (SentenceScorer(pretrained), TEXTS[:3]),
        (FillMask(pretrained), [f"{text} [MASK]" for text in TEXTS]),
    ):
        answers = predictor(texts)
        assert len(answers) == len(texts)
        assert list(predictor.answers(iter(texts))) == answers


def test_a_text_that_cannot_be_answered_stops_all_or_is_reported(run):
    classify = open_model(run, batch_size=2)
    texts = ["he", "", "she", 7, "so", ValueError("unreadable")]
    sources = [f"a.txt line {number}" for number in range(1, 7)]
    answers = classify.answers(texts, sources)
    with pytest.raises(ValueError, match="^a.txt line 2 has no word in its text; give a text$"):
        next(answers)
    good = [close_to(answer) for answer in classify(["he", "she", "so"])]
    assert list(classify.answers(texts, sources, on_error="report")) == [
        *(good[0], Unanswered("a.txt line 2", "a.txt line 2 has no word in its text; give a text"), good[1]),
        *(Unanswered("a.txt line 4", "a.txt line 4 is of type int, but a str is needed"), good[2]),
        Unanswered("a.txt line 6", "unreadable"),
    ]
    with pytest.raises(ValueError, match='^on_error is "skip", but must be one of stop, report$'):
        classify.answers(texts, on_error="skip")


def broken(model, name):
    """A model with a weight that is NaN."""
    weight = weights_by_name(model)[name]
    weight.assign(np.full(weight.shape, np.nan))
    return model


def test_no_predictor_gives_out_what_is_not_finite(tmp_path):
    folder = write_model(tmp_path / "a", broken(random_model(), "bert/embeddings/LayerNorm/beta"))
    message = "^text 1: the scores of the model are not finite numbers, so its weights are broken; take another check"
    for predictor, text in (
        (FillMask(folder), "[MASK]"),
        (NextSentence(folder), ("he", "was")),
        (SentenceScorer(folder), "he was"),
    ):
        with pytest.raises(ValueError, match=message):
            predictor(text)
        [answer] = predictor.answers([text], on_error="report")
        assert isinstance(answer, Unanswered)
    with pytest.raises(ValueError, match="are not finite numbers"):
        FeatureExtractor(folder, max_seq_length=20)("he")


def test_exports_are_checked_as_well(run, tmp_path, monkeypatch):
    export = write_export(tmp_path / "export", run / "model", random_classifier(3))
    network = exported.open_exported(export)
    broken_network = lambda features: {"logits": network(features)["logits"] * np.nan}  # noqa: E731
    monkeypatch.setattr("bert_keras.prediction.predictor.open_exported", lambda folder: broken_network)
    with pytest.raises(ValueError, match="^text 1: the scores of the model are not finite numbers"):
        open_model(export)("he")


def test_an_improbable_text_has_a_finite_perplexity(tmp_path):
    model = constant_model({})
    weights_by_name(model)["cls/predictions/output_bias"].assign([1e4] + [0.0] * (len(TOKENS) - 1))
    answer = SentenceScorer(write_model(tmp_path, model))("he was")
    assert answer.log_probability == pytest.approx(-2e4)
    assert answer.perplexity == pytest.approx(sys.float_info.max)
    json.dumps(answer.perplexity, allow_nan=False)


def test_a_line_of_the_vocabulary_that_is_there_twice_is_unknown(tmp_path):
    tokens = [*TOKENS, TOKENS[7]]
    folder = write_model(tmp_path, random_model(vocab_size=len(tokens)), tokens)
    guesses = FillMask(folder, top_k=len(tokens))("[MASK]").masks[0]
    assert sorted(guess.token for guess in guesses) == sorted([*TOKENS, "[UNK]"])


HALF = "bad \udcff byte"


@pytest.mark.parametrize(
    ("class_", "options", "text", "what"),
    [
        (FillMask, {}, f"[MASK] {HALF}", "character 12 of its text"),
        (SentenceScorer, {}, HALF, "character 5 of its text"),
        (NextSentence, {}, ("he", HALF), "character 5 of its second text"),
        (FeatureExtractor, {"max_seq_length": 20}, HALF, "character 5 of its text"),
    ],
)
def test_half_of_a_surrogate_pair_is_not_text(pretrained, class_, options, text, what):
    with pytest.raises(ValueError, match=rf"^text 1: {what} is \\udcff, half of a surrogate pair, which is not"):
        class_(pretrained, **options)(text)


def test_half_of_a_surrogate_pair_is_not_text_for_a_fine_tuned_model(run):
    with pytest.raises(ValueError, match=r"^text 1: character 5 of its text is \\udcff, half of a surrogate pair"):
        open_model(run)(HALF)


def limited(**limits):
    return {"limits": Limits(**limits)}


def test_large_input_is_refused_before_the_model_sees_it(run, pretrained):
    fill_mask = FillMask(pretrained, long="window", **limited(max_masks=3, max_chars=60))
    scorer = SentenceScorer(pretrained, **limited(max_sequences=3))
    classify = TextClassifier(run, **limited(max_texts=2, max_chars=30))
    for predictor, text, message in (
        (
            fill_mask,
            "[MASK] " * 4,
            r"^text 1 has 4 \[MASK\], but limits.max_masks is 3; make it shorter, or",
        ),
        (
            fill_mask,
            "[MASK]" + "a" * 55,
            "^text 1 has 61 characters, but limits.max_chars is 60; make it shorter, or",
        ),
        (
            scorer,
            "he was so hungry",
            "^text 1 has 4 tokens to score, each in its own sequence, but limits.max_seq",
        ),
        (classify, "he " * 11, "^text 1 has 33 characters, but limits.max_chars is 30"),
        (
            classify,
            ["he"] * 3,
            "^the list has more texts than limits.max_texts, which is 2; take the method answ",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            predictor(text)
        assert predictor.num_traces == 0
    assert len(list(classify.answers(["he"] * 3))) == 3
    fill_mask = FillMask(pretrained, top_k=40, **limited(max_chars=20))
    with pytest.raises(ValueError, match=r"^text 1 has 2 \[MASK\] in 13 characters: 40 guesses for each, with the"):
        fill_mask("[MASK] [MASK]")


def test_windows_of_a_text_are_limited(tmp_path):
    settings = SETTINGS | {"doc_stride": 4}
    run = write_fine_tuned(tmp_path, random_classifier(3), "classification", **settings)
    classify = open_model(run, **limited(max_sequences=3))
    assert classify("he was so " * 7).label
    message = "^text 1 has 4 sequences of the model's length, but limits.max_sequences is 3; make it shorter, or raise"
    with pytest.raises(ValueError, match=message):
        classify("he was so " * 8)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1"])
def test_limits_are_whole_numbers(value):
    with pytest.raises(ValueError, match="^limits.max_masks is .*, but must be a whole number above 0$"):
        Limits(max_masks=value)


def test_a_program_is_told_of_flags(pretrained):
    with (
        pytest.raises(ValueError, match="; make it shorter, or choose --long=truncate or --long=window$"),
        told_with_flags(),
    ):
        FillMask(pretrained)("[MASK] " + "is " * 40)
    with (
        pytest.raises(ValueError, match="but --max_chars is 2; make it shorter, or raise --max_chars$"),
        told_with_flags(),
    ):
        FillMask(pretrained, **limited(max_chars=2))("[MASK]")
    error = ArgumentError(lambda name: f"{name('config_file')} is a")
    assert (str(error), error.with_flags()) == ("config_file is a", "--bert_config_file is a")


def in_new_process(code, **environment):
    root = str(pathlib.Path(__file__).resolve().parents[2])
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=root,
        env={"PATH": "", "PYTHONPATH": root, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
    )
    return process.returncode, process.stdout, process.stderr.splitlines()


def test_importing_is_quick():
    code = (
        "import sys; from bert_keras import prediction; from bert_keras.prediction import arguments; "
        "from bert_keras.prediction import input_texts; from bert_keras.prediction.tasks import registry; "
        "print(sorted({'tensorflow', 'keras', 'sklearn', 'scipy'} & {*sys.modules}))"
    )
    assert in_new_process(code)[:2] == (0, "[]\n")


def test_all_names_can_be_imported():
    from bert_keras import prediction

    assert {type(getattr(prediction, name)) for name in prediction.__all__} <= {type, type(open_model)}
    assert {EntityTagger, QuestionAnswerer} <= {getattr(prediction, name) for name in prediction.__all__}
    assert set(prediction.__all__) <= set(dir(prediction))
    with pytest.raises(AttributeError, match="^module 'bert_keras.prediction' has no attribute 'Predict'$"):
        prediction.Predict  # noqa: B018
    assert issubclass(prediction.Vectorizer, Predictor)


def test_another_backend_is_refused_in_one_sentence(monkeypatch, pretrained, run):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    message = r"^Keras is set to run on jax \(KERAS_BACKEND\), but `prediction` needs TensorFlow; set KERAS_BACKEND="
    for class_, path in ((FillMask, pretrained), (FeatureExtractor, pretrained), (TextClassifier, run)):
        with pytest.raises(ValueError, match=message):
            class_(path)
