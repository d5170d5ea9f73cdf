"""Runs on classes, numbers, several labels and choices: features, metrics and files, without a network."""

import glob
import json
import math
import types

import numpy as np
import pytest
from known_models import TOKENS, make_config
from scipy.special import log_softmax

from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.model_folder.preparation import Preparation
from bert_keras.modeling import ClassificationLoss, MultiLabelLoss, MultipleChoiceModel, RegressionLoss
from bert_keras.runs.run_dir import RunDir
from bert_keras.tasks.classification.report import files as reports
from bert_keras.tasks.classification.settings import ClassifierSettings
from bert_keras.tasks.classification.task import Classification

TRAIN = [("paris", "b"), ("london", "a"), ("france", "b"), ("he walked", "b"), ("she ate", "c")]
DEV = [("paris was the capital", "b"), ("he", "a"), ("she", "c"), ("so hungry", "b"), ("the", "b")]
# Correct, correct, wrong and confident, wrong and uncertain, correct.
LOGITS = np.float32([[0, 2, 0], [3, 0, 0], [4, 0, 0], [0.1, 0, 0], [0, 1, 0]])


@pytest.fixture
def make(tmp_path):
    """Return a function of rows and settings that makes the task of a run."""
    preparation = Preparation(True, None, 40)
    files = types.SimpleNamespace(tokenizer=FullTokenizer(TOKENS), preparation=preparation, labels=None)

    def make(train=TRAIN, dev=DEV, test=None, stored=None, **changes):
        settings = {"max_seq_length": 12}
        for name, rows in (("train", train), ("eval", dev), ("predict", test)):
            if rows is not None:
                path = tmp_path / f"{name}.jsonl"
                lines = [
                    row if isinstance(row, dict) else dict(zip(("text", "label"), row, strict=False)) for row in rows
                ]
                path.write_text("".join(json.dumps(line) + "\n" for line in lines))
                settings |= {f"{name}_file": str(path), f"do_{name}": True}
        task = Classification(ClassifierSettings(**settings | changes), files, stored)
        task.prepare(str(tmp_path))
        return task

    return make


@pytest.fixture
def run_dir(tmp_path):
    (tmp_path / "out").mkdir()
    return RunDir(str(tmp_path / "out"), "run_classifier")


def read(run_dir, name):
    with open(run_dir.file(name), encoding="utf-8") as file:
        return file.read()


def test_figures_of_classes(make):
    task = make(eval_batch_size=2)
    metrics = task.evaluate({"logits": LOGITS})
    losses = -log_softmax(LOGITS, axis=1)[range(5), [1, 0, 2, 1, 1]]
    f1_macro = np.mean([2 / 4, 4 / 5, 0])  # a: 1 of 3 correct; b: 2 of 2, one false positive; c: never
    assert metrics == pytest.approx({"loss": losses.mean(), "accuracy": 3 / 5, "f1_macro": f1_macro})
    of_batches = np.mean([losses[:2].mean(), losses[2:4].mean(), losses[4]])
    assert task.results == pytest.approx(
        {"eval_loss": losses.mean(), "eval_accuracy": 3 / 5, "eval_f1_macro": f1_macro, "loss": of_batches}
    )
    # Always "b", the most frequent class in training.
    assert task.baseline == pytest.approx({"accuracy": 3 / 5, "f1_macro": np.mean([0, 6 / 8, 0])})
    assert make(metric="matthews").metric == "matthews"


def test_figures_of_numbers(make):
    values = [1.0, 2.0, 4.0]
    task = make(train=[("he", 1), ("she", 2)], dev=[("he", value) for value in values], kind="regression")
    assert task.no_effect["label_smoothing"] == "the labels of a regression are numbers"
    assert {"class_weights", "calibrate", "temperature"} <= set(task.no_effect)
    metrics = task.evaluate({"logits": np.float32([[1.5], [2], [2.5]])})
    errors = {"mae": 2 / 3, "rmse": math.sqrt(2.5 / 3)}
    # The loss is in squared standard deviations of the labels to train on: 0.25.
    expected = {
        "loss": (0.25 + 0 + 2.25) / 3 / 0.25,
        "spearman": 1,
        "pearson": np.corrcoef([1.5, 2, 2.5], values)[0, 1],
    }
    assert metrics == pytest.approx(expected | errors)
    assert list(metrics) == ["loss", "spearman", "pearson", "mae", "rmse"]
    # Always 1.5, which has no correlation with anything.
    assert task.baseline == pytest.approx({"mae": (0.5 + 0.5 + 2.5) / 3, "rmse": math.sqrt((0.25 + 0.25 + 6.25) / 3)})
    assert task.describe()["label_scale"] == task.facts["label_scale"] == {"mean": 1.5, "std": 0.5}
    network = task.make_network(make_config())
    assert isinstance(network, RegressionLoss)
    assert network.model.head.output_bias.numpy() == 1.5


def test_figures_of_several_labels(make):
    train = [("he", ["x", "y"]), ("she", ["z"])]
    dev = [("he", ["x"]), ("she", []), ("so", ["y", "z"])]
    task = make(train=train, dev=dev, kind="multi_label")
    logits = np.float32([[2, -1, 0.5], [-1, -2, -3], [-1, 3, 1]])
    metrics = task.evaluate({"logits": logits})
    truth = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 1]])
    probabilities = 1 / (1 + np.exp(-logits))
    loss = -np.log(np.where(truth, probabilities, 1 - probabilities)).mean()
    assert metrics == pytest.approx(
        {"loss": loss, "f1_micro": 6 / 7, "f1_macro": (1 + 1 + 2 / 3) / 3, "accuracy": 2 / 3}
    )
    assert task.baseline == pytest.approx({"f1_micro": 0, "f1_macro": 0, "accuracy": 1 / 3})
    assert isinstance(task.make_network(make_config()), MultiLabelLoss)


def test_choices_share_one_logit_each(make):
    rows = [{"text": "he", "one": "ate", "two": "was", "label": label} for label in (0, 1, 1)]
    task = make(train=rows, dev=rows, kind="multiple_choice", choice_columns=["one", "two"])
    assert task.train_features["input_ids"].shape == (3, 2, 12)
    metrics = task.evaluate({"logits": np.float32([[1, 0], [1, 0], [0, 3]])})
    losses = np.log1p(np.exp([-1.0, 1.0, -3.0]))
    assert metrics == pytest.approx({"loss": losses.mean(), "accuracy": 2 / 3})
    assert isinstance(task.make_network(make_config()).model, MultipleChoiceModel)
    assert task.describe()["labels"] == ["0", "1"]
    assert task.no_effect["pack"] == "the choices of an example are rows that are compared with each other"
    assert set(task.no_effect) == {"pack", "class_weights", "calibrate"}


def test_answers_are_means_over_the_windows_of_a_text(make):
    long = " ".join(["he"] * 15)
    task = make(train=[(long, "a"), ("she", "b")], dev=[("he", "a"), (long, "b")], doc_stride=3)
    # Windows have room for ten tokens, three apart: 0 to 9, 3 to 12, 6 to 15.
    assert task.eval_features["example_index"].tolist() == [0, 1, 1, 1]
    assert task.num_train_examples == 2
    assert len(task.train_features["input_ids"]) == 4
    logits = np.float32([[2, 0], [0, 1], [3, 0], [0, 0]])
    shares = np.exp(log_softmax(logits, axis=1))
    answers = task.answers({"logits": logits}, task.eval_features)
    np.testing.assert_allclose(answers, [shares[0], shares[1:].mean(0)], rtol=1e-6)
    # The prediction for the whole second text is "a", although most of its windows say otherwise.
    assert answers[1].argmax() == 0
    metrics = task.evaluate({"logits": logits})
    assert metrics["accuracy"] == 1 / 2
    assert metrics["loss"] == pytest.approx(-log_softmax(logits, axis=1)[range(4), [0, 1, 1, 1]].mean())


def test_many_labels_have_no_table_of_confusions(make, run_dir, messages, monkeypatch):
    monkeypatch.setattr(reports, "MOST_CLASSES_OF_A_MATRIX", 2)
    make().write_evaluation(run_dir, {"logits": LOGITS})
    assert len(read(run_dir, "class_report.txt").splitlines()) == 7
    assert not glob.glob(run_dir.file("confusion_matrix.*"))
    assert messages[-2].startswith(
        "no confusion_matrix.tsv for 3 labels, more than 2; class_report.txt has a row for each"
    )
    assert messages[-1].splitlines()[-1].startswith("weighted ")


def test_reports_of_an_evaluation(make, run_dir, messages):
    task = make()
    task.write_evaluation(run_dir, {"logits": LOGITS})
    shares = np.exp(log_softmax(LOGITS, axis=1)).max(1)
    assert read(run_dir, "eval_errors.tsv") == (
        "id\tsource\tlabel\tprediction\tconfidence\ttext\n"
        f"2\teval.jsonl line 3\tc\ta\t{shares[2]:.6f}\tshe\n3\teval.jsonl line 4\tb\ta\t{shares[3]:.6f}\tso hungry\n"
    )
    assert read(run_dir, "confusion_matrix.tsv") == (
        "label, prediction:\ta\tb\tc\na\t1\t0\t0\nb\t1\t2\t0\nc\t1\t0\t0\n"
    )
    report = read(run_dir, "class_report.txt")
    assert [line.split() for line in report.splitlines()][1:4] == [
        ["a", "0.3333", "1.0000", "0.5000", "1"],
        ["b", "1.0000", "0.6667", "0.8000", "3"],
        ["c", "0.0000", "0.0000", "0.0000", "1"],
    ]
    assert messages[-1] == report.rstrip()
    assert [line.split("\t")[:2] for line in read(run_dir, "eval_predictions.tsv").splitlines()[1:]] == [
        [str(number), answer] for number, answer in enumerate("baaab"[i] for i in (0, 1, 2, 3, 4))
    ]


def test_predictions_have_the_form_of_the_release(make, run_dir, messages):
    task = make(test=[("he", "whatever"), ("she", "")])
    assert "label_ids" not in task.predict_features
    [row, _] = task.write_predictions(run_dir, {"logits": LOGITS[:2]})
    lines = read(run_dir, "test_results.tsv").splitlines()
    shares = np.exp(log_softmax(LOGITS[:2], axis=1))
    np.testing.assert_allclose([list(map(float, line.split("\t"))) for line in lines], shares, rtol=1e-6)
    assert read(run_dir, "predictions.tsv").splitlines()[1].split("\t") == [
        *("0", "b"),
        *(f"{share:.6f}" for share in shares[0]),
        "he",
    ]
    assert (row["id"], row["prediction"], row["text"]) == ("0", "b", "he")
    assert row["probability of a"] == round(shares[0, 0], 6)
    assert messages[-1] == "2 predictions: a (1), b (1), see predictions.tsv"


def test_predictions_are_said_in_short(make, run_dir, messages):
    train = [("he", ["x", "y"]), ("she", ["z"])]
    task = make(train=train, dev=None, test=[("he",), ("so",)], kind="multi_label")
    task.write_predictions(run_dir, {"logits": np.float32([[2, -1, 0.5], [1, -2, -3]])})
    assert messages[-1] == "2 predictions: x (2), z (1), see predictions.tsv"
    task.write_predictions(run_dir, {"logits": np.float32([[-2, -1, -1], [-1, -2, -3]])})
    assert messages[-1] == "2 predictions: no label at all, see predictions.tsv"
    task = make(train=[("he", 1), ("she", 2)], dev=None, test=[("he",), ("so",)], kind="regression")
    task.write_predictions(run_dir, {"logits": np.float32([[2], [-0.5]])})
    assert messages[-1] == "2 predictions: from -0.5 to 2, see predictions.tsv"


def test_weights_of_classes(make):
    # Of five examples, three labels: a and c once, b three times.
    assert make(class_weights="balanced").class_weights == pytest.approx([5 / 3, 5 / 9, 5 / 3])
    task = make(class_weights="1,0,2.5")
    assert task.class_weights == [1.0, 0.0, 2.5]
    network = task.make_network(make_config())
    assert isinstance(network, ClassificationLoss)
    assert network.class_weights == [1.0, 0.0, 2.5]
    # The evaluation has no weights.
    assert task.evaluate({"logits": LOGITS}) == make().evaluate({"logits": LOGITS})
    assert make().class_weights is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"class_weights": "1,2"},
            '^class_weights=1,2 is neither "balanced" nor 3 numbers, one for each of a, b, c in',
        ),
        ({"class_weights": "0,0,0"}, "^class_weights=0,0,0 gives every label the weight 0; give weights above 0$"),
        ({"doc_stride": 11}, "^doc_stride is 11, but must be from 1 to 10"),
        (
            {"max_seq_length": 4},
            r"^max_seq_length is 4, but \[CLS\], \[SEP\] and a token of each text need 5 or more",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(make, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_answers_that_are_no_numbers_are_refused(make):
    logits = LOGITS.copy()
    logits[1, 2] = np.nan
    with pytest.raises(
        ValueError, match=r"^the model's outputs for 1 of 5 sequences are not finite numbers; train again"
    ):
        make().evaluate({"logits": logits})


def test_facts_follow_what_is_learnt_and_what_is_judged_by(make):
    facts = make().facts
    assert facts["data"]["labels"] == ["a", "b", "c"]
    assert facts["data"]["training_examples"] == 5
    assert make(test=[("he",)]).facts == facts
    others = make(dev=DEV[1:]).facts
    assert others["data"] == facts["data"]
    assert (facts["evaluation"]["examples"], others["evaluation"]["examples"]) == (len(DEV), len(DEV) - 1)
    assert make(metric="matthews").facts["evaluation"]["metric"] == "matthews"
    assert make(dev=None).facts["evaluation"] is None
    assert make(train=TRAIN[::-1]).facts["data"]["their_sha256"] != facts["data"]["their_sha256"]


def test_features_follow_what_they_are_made_of(make, messages):
    make()
    assert not any("made earlier" in message for message in messages)
    make()
    assert sum("examples, made earlier from the same data" in message for message in messages) == 2
    features = make(max_seq_length=8).eval_features
    assert features["input_ids"].shape == (5, 8)
    assert make(train=[*TRAIN, ("so", "0")]).eval_features["label_ids"].tolist() == [2, 1, 3, 2, 2]


def test_a_model_that_is_there_says_what_its_labels_are(make):
    stored = {"task": "classification", "labels": ["c", "a", "b"], "is_pair": False}
    task = make(train=None, stored=stored)
    assert task.describe() == {
        "task": "classification",
        "labels": ["c", "a", "b"],
        "is_pair": False,
        "max_seq_length": 12,
        "doc_stride": None,
    }
    assert task.evaluate({"logits": np.roll(LOGITS, 1, axis=1)})["accuracy"] == 3 / 5


def test_examples_for_the_page_are_whole_texts_with_different_labels(make):
    dev = [("he", "a"), ("so hungry", "a"), ("x" * 80, "b"), ("the capital", "b"), ("paris " * 400, "c")]
    assert make(dev=dev).page_examples == [{"text": "x" * 80}, {"text": "so hungry"}]
    assert [example["text"] for example in make(dev=None).page_examples] == ["he walked", "she ate", "london"]
    pairs = [{"text_a": "he", "text_b": "ate", "label": number} for number in (1, 2)]
    assert make(train=pairs, dev=pairs, kind="regression").page_examples == [{"text": "he", "text_pair": "ate"}] * 2
