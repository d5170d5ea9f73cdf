"""Answers in 16 bits: the meaning of precision=auto, and how far answers are from those in float32."""

import csv
import json
import pathlib

import numpy as np
import pytest
from fine_tuned_models import FINE_TUNED, random_classifier, write_fine_tuned
from known_models import random_model, small_config, write_model
from machines import SAPPHIRE_RAPIDS, SKYLAKE
from tiny_bert import with_random_weights
from tiny_classes import texts, write_encoder
from tiny_exports import write_export
from tiny_squad import LEARNING, paragraphs, write_squad, write_start

from bert_keras import check_labels, train_few_shot, train_ner, train_squad
from bert_keras.commands import predict
from bert_keras.mistakes import Mistake
from bert_keras.modeling import PretrainingModel
from bert_keras.prediction import (
    FeatureExtractor,
    FillMask,
    Limits,
    SentenceScorer,
    TextClassifier,
    loaded_model,
    open_model,
)
from bert_keras.prediction.network import Question
from bert_keras.prediction.precision import take_precision
from bert_keras.programs import label_checks
from bert_keras.serving.answers import described
from bert_keras.serving.versions import open_folders
from bert_keras.settings.hardware import find_bfloat16
from bert_keras.tasks.graph.networks import IdsNetwork

SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "data_prep" / "sample"
ENCODER = SAMPLE / "encoder"
PRECISIONS = ("float32", "bfloat16")
OF_LABELS = FINE_TUNED["multi_label"][1]
IDS = [2, 5, 6, 7, 8, 9, 3]
TEXT = "he was hungry , so he ate"
TAG_OF = {"paris": "B-LOC", "london": "B-LOC", "he": "B-PER", "she": "B-PER", "is": "O", "the": "O", "was": "O"}


@pytest.fixture
def no_variable(monkeypatch):
    """Let `auto` depend on the hardware, as for a user."""
    monkeypatch.delenv("BERT_KERAS_PRECISION")


@pytest.mark.usefixtures("no_variable")
@pytest.mark.parametrize(
    ("processor", "gpus", "device", "chosen", "reason"),
    [
        (SKYLAKE, {}, None, "float32", None),
        (SAPPHIRE_RAPIDS, {}, None, "bfloat16", "the processor has avx512_bf16 and amx_bf16"),
        (SKYLAKE, {"A100": (8, 0)}, None, "bfloat16", "A100 (compute capability 8.0) has instructions for bfloat16"),
        (SKYLAKE, {"A100": (8, 0)}, "/CPU:0", "float32", None),
        (SAPPHIRE_RAPIDS, {"T4": (7, 5)}, "/GPU:0", "float32", None),
        (SAPPHIRE_RAPIDS, {"T4": (7, 5)}, "/CPU:0", "bfloat16", "the processor has avx512_bf16 and amx_bf16"),
    ],
)
def test_auto_is_what_the_hardware_is_fast_in(machine, messages, processor, gpus, device, chosen, reason):
    machine(processor, **gpus)
    assert take_precision("auto", device) == chosen
    assert messages == ([f"precision=auto: {chosen}, since {reason}"] if reason else [])


@pytest.mark.parametrize("given", ["bfloat16", "float16"])
def test_a_precision_that_is_slow_here_is_told(machine, messages, given):
    machine(SKYLAKE)
    assert take_precision(given) == given
    [message] = messages
    assert message.startswith(f"precision={given} is slow here, since")
    machine(SAPPHIRE_RAPIDS, A100=(8, 0))
    assert take_precision(given) == given
    assert len(messages) == 1


def test_an_environment_variable_says_what_auto_means(machine, messages, monkeypatch):
    machine(SAPPHIRE_RAPIDS)
    assert take_precision("auto") == "float32"  # as conftest.py sets it
    assert messages == []
    monkeypatch.setenv("BERT_KERAS_PRECISION", "float16")
    assert take_precision("auto") == "float16"
    assert messages == ["precision=auto: float16, since the environment variable BERT_KERAS_PRECISION says so"]
    assert take_precision("float32") == "float32"
    monkeypatch.setenv("BERT_KERAS_PRECISION", "half")
    with pytest.raises(Mistake, match='^the environment variable BERT_KERAS_PRECISION is "half", but must be one of'):
        take_precision("auto")


@pytest.mark.usefixtures("no_variable", "no_graphs")
def test_a_model_stores_its_weights_once_in_the_precision_that_it_says(machine, tmp_path):
    run = write_fine_tuned(tmp_path, FINE_TUNED["multi_label"][0](), "multi_label", **FINE_TUNED["multi_label"][1])
    machine(SAPPHIRE_RAPIDS)
    for options, precision in (
        ({}, "bfloat16"),
        ({"precision": "float16"}, "float16"),
        ({"device": "cpu"}, "bfloat16"),
    ):
        model = open_model(run, **options)
        assert model.precision == precision
        # The bias of the head may be as large as the labels of a regression.
        assert {w.dtype for w in model.model.weights} == {precision, "float32"}
        assert [w.path for w in model.model.weights if w.dtype == "float32"] == ["output_bias"]
        assert model.warmup([16])(TEXT).probabilities.keys() == {"bad", "good", "\u00fc"}
    with pytest.raises(ValueError, match='^precision is "tf32", but must be one of auto, float32, bfloat16, float16$'):
        open_model(run, precision="tf32")


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize("task", FINE_TUNED)
def test_answers_of_every_task_are_float32_and_nearly_the_same(task, tmp_path):
    make, settings = FINE_TUNED[task]
    run = write_fine_tuned(tmp_path, make(), task, **settings)

    def read_outs(precision):
        predictor = open_model(run, precision=precision)
        return predictor.network.answer([Question(IDS, [0] * len(IDS))], **predictor._extra(predictor.options))[0]

    for exact, near in zip(*map(read_outs, ("float32", "bfloat16")), strict=True):
        assert near.dtype == exact.dtype
        np.testing.assert_allclose(near, exact, atol=0.05 * max(1.0, np.abs(exact).max()))


@pytest.mark.usefixtures("no_graphs")
def test_predictors_of_one_network_have_its_precision(tmp_path):
    folder = write_model(tmp_path / "bert", random_model(num_hidden_layers=1))
    exact, near = (FillMask(folder, precision=precision) for precision in ("float32", "bfloat16"))
    extract = FeatureExtractor(folder, layers=[-1], max_seq_length=None, model=near.model)
    assert near.precision == extract.precision == "bfloat16"
    assert extract(TEXT).values.dtype == np.float32
    with pytest.raises(ValueError, match="^the shared model has the precision bfloat16; leave out precision$"):
        SentenceScorer(folder, model=near.model, precision="float32")
    guesses = [
        {guess.token: guess.probability for guess in fill("he was [MASK]", top_k=20).masks[0]} for fill in (exact, near)
    ]
    assert all(abs(guesses[0][token] - guesses[1][token]) < 0.01 for token in guesses[0].keys() & guesses[1].keys())
    scores = [SentenceScorer(folder, model=fill.model)(TEXT).log_probability for fill in (exact, near)]
    assert scores[1] == pytest.approx(scores[0], rel=0.01)


@pytest.mark.usefixtures("no_graphs")
def test_an_export_has_its_own_precision(tmp_path, monkeypatch):
    run = write_fine_tuned(tmp_path, random_classifier(3, num_hidden_layers=1), "multi_label", **OF_LABELS)
    export = write_export(tmp_path / "export", run / "model")
    model = TextClassifier(run).model
    monkeypatch.setattr(loaded_model, "open_exported", lambda *_: IdsNetwork(model, "multi_label"))
    assert open_model(export).precision == "float32"
    formats = {"onnx": {"path": "model.onnx", "quantize": "int8"}, "litert": {"path": "model.tflite", "quantize": None}}
    (export / "export.json").write_text(json.dumps({"formats": formats}))
    assert open_model(export).precision == "int8"
    assert open_model(export, format="litert").precision == "float32"
    for precision in ("float32", "bfloat16"):
        with pytest.raises(ValueError, match=f"^{export} is an export, whose precision is int8; leave out precision$"):
            open_model(export, precision=precision)


@pytest.mark.usefixtures("no_graphs")
def test_programs_and_the_server_take_a_precision(tmp_path, capsys):
    run = write_fine_tuned(tmp_path, random_classifier(3, num_hidden_layers=1), "multi_label", **OF_LABELS)
    predict.main(["predict.py", f"--model_dir={run}", "--precision=bfloat16", "--json", TEXT])
    captured = capsys.readouterr()
    near, exact = json.loads(captured.out)["probabilities"], TextClassifier(run)(TEXT).probabilities
    assert near != exact
    assert near == pytest.approx(exact, abs=0.01)
    assert "--precision=bfloat16" in captured.err or find_bfloat16()[0]
    for given, precision in ((("bfloat16",), "bfloat16"), ((), "float32")):
        [folder] = open_folders({"shop": str(run)}, [], Limits(), *given)
        assert described(folder.models[0], folder)["precision"] == precision


@pytest.mark.usefixtures("no_variable", "no_graphs")
def test_labels_are_checked_with_vectors_of_this_precision(machine, tmp_path, monkeypatch):
    used, open_encoder = [], label_checks.open_encoder

    def opened(files, batch_size, precision):
        used.append(precision)
        return open_encoder(files, batch_size, precision)

    monkeypatch.setattr(label_checks, "open_encoder", opened)
    machine(SAPPHIRE_RAPIDS)
    encoder, data = write_encoder(tmp_path / "start"), texts(30, 1)
    for number, options in enumerate(({}, {"precision": "float32"})):
        folder = tmp_path / str(number)
        check_labels(data, init_checkpoint=encoder, output_dir=folder, max_seq_length=12, verbose=False, **options)
    assert used == ["bfloat16", "float32"]


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize("seed", range(3))
def test_attention_is_float32(tmp_path, seed):
    model = with_random_weights(PretrainingModel(small_config(num_hidden_layers=1)), seed)
    folder = write_model(tmp_path / "bert", model)
    exact, near = (
        FillMask(folder, precision=name).model.bert.attention_probabilities([IDS]) for name in ("float32", "bfloat16")
    )
    # A score is rounded in proportion to its size, so the bound below is meant for scores that are at most 10 apart.
    assert np.ptp(np.log(exact), axis=-1).max() < 10
    np.testing.assert_allclose(np.sum(near, axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(near, exact, atol=0.02)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A classifier of the messages of the sample data in both precisions, and all texts."""
    with (SAMPLE / "messages.csv").open(encoding="utf-8") as file:
        rows = [(row["text"], row["label"]) for row in csv.DictReader(file)]
    folder = tmp_path_factory.mktemp("shop") / "run"
    given = {"max_seq_length": 64, "contrastive_epochs": 0, "eval_batch_size": 64}
    train_few_shot(rows[::2], init_checkpoint=ENCODER, output_dir=folder, **given)
    classifiers = [TextClassifier(folder, task="classification", precision=name) for name in PRECISIONS]
    return classifiers, [text for text, _ in rows]


def test_answers_of_a_trained_classifier_hardly_change(shop):
    assert_same_labels(*answers_in_both(shop[0], shop[1][1:120:2]))


@pytest.mark.slow  # 600 texts, computed without the instructions
def test_labels_of_a_trained_classifier_stay(shop):
    exact, near = answers_in_both(*shop)
    assert_same_labels(exact, near)
    if find_bfloat16()[0]:
        assert np.mean([one.label == other.label for one, other in zip(exact, near, strict=True)]) >= 0.995


def assert_same_labels(exact, near):
    """Only two classes whose probabilities are as close as the tolerance of both may change places."""
    for one, other in zip(exact, near, strict=True):
        best, second = sorted(one.probabilities.values())[:-3:-1]
        assert one.label == other.label or best - second < 2 * tolerance()


def answers_in_both(classifiers, asked):
    answers = [classify(asked) for classify in classifiers]
    values = [[list(answer.probabilities.values()) for answer in found] for found in answers]
    np.testing.assert_allclose(*values, atol=tolerance())
    return answers


def tolerance():
    """Without the instructions, TensorFlow also rounds between a product and its bias, and `auto` is float32."""
    return 0.01 if find_bfloat16()[0] else 0.02


def test_words_that_move_an_answer_stay(shop, messages):
    classifiers, asked = shop
    text = min(asked, key=len)
    for why, tolerance in ((True, 0.01), ("gradients", 0.05)):
        words = [classify(text, why=why).words for classify in classifiers]
        weights = [[word.weight for word in found] for found in words]
        np.testing.assert_allclose(*weights, atol=tolerance)
        assert np.argmax(weights[0]) == np.argmax(weights[1])
    assert not [message for message in messages if "add up to" in message]


def test_vectors_keep_their_direction():
    lines = [line for line in (SAMPLE / "held_out.txt").read_text().splitlines() if line][:30]
    vectors = [
        np.array([found.vector for found in FeatureExtractor(ENCODER, [-1], "mean", precision=name)(lines)])
        for name in PRECISIONS
    ]
    assert cosines(*vectors).min() > 0.9999


@pytest.mark.slow  # loads a real model
def test_vectors_of_a_real_model_keep_their_direction(minilm):
    lines = [line for line in (SAMPLE / "held_out.txt").read_text().splitlines() if line][:30]
    vectors = [np.array([found.vector for found in open_model(minilm, precision=name)(lines)]) for name in PRECISIONS]
    # Without the instructions, TensorFlow also rounds between a product and its bias.
    assert cosines(*vectors).min() > (0.9999 if find_bfloat16()[0] else 0.9997)


def cosines(first, second):
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    return np.sum(first * second, axis=-1) / lengths


@pytest.mark.slow  # trains a tagger and a model for questions
def test_tags_and_spans_of_trained_models_stay(tmp_path):
    draw = np.random.default_rng(1)
    sentences = [draw.choice(list(TAG_OF), 6).tolist() for _ in range(124)]
    tags = [[TAG_OF[word] for word in words] for words in sentences]
    start = write_model(tmp_path / "start", random_model(num_hidden_layers=1))
    learning = {"learning_rate": 0.003, "train_batch_size": 8, "num_train_epochs": 15, "max_seq_length": 12}
    data = (sentences[:64], tags[:64])
    tagger = train_ner(data, output_dir=tmp_path / "ner", init_checkpoint=start, verbose=False, **learning)
    asked = [" ".join(words) for words in sentences[64:]]
    found = [
        [word.tag for answer in tagger.predictor(precision=name)(asked) for word in answer.words] for name in PRECISIONS
    ]
    assert {*found[0]} == {*TAG_OF.values()}
    assert np.mean([one == other for one, other in zip(*found, strict=True)]) >= 0.995
    answerer = train_squad(
        write_squad(tmp_path / "questions.json", paragraphs(160, 3, with_impossible=True)),
        output_dir=tmp_path / "squad",
        init_checkpoint=write_start(tmp_path / "untrained"),
        version_2_with_negative=True,
        verbose=False,
        **LEARNING,
    )
    asked = [
        (question["question"], each["context"])
        for each in paragraphs(32, 4, with_impossible=True)
        for question in each["qas"]
    ]
    exact, near = (answerer.predictor(precision=name)(asked) for name in PRECISIONS)
    found = [[answer.probability for answer in answers] for answers in (exact, near)]
    np.testing.assert_allclose(*found, atol=tolerance())
    for one, other in zip(exact, near, strict=True):
        best, second = [*(span.probability for span in one.n_best), 0.0, 0.0][:2]
        is_near = best - second < 2 * tolerance() or abs(one.null_odds - one.null_threshold) < 0.1
        assert one.text == other.text or is_near
