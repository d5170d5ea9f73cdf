"""`run_classifier.py --calibrate`, from flags to files, on texts some of whose labels are wrong."""

import json

import numpy as np
import pytest
import scipy.special
from tiny_classes import run, table_in, texts, write_rows, write_start, write_texts

from bert_keras import open_checkpoint, open_model, train_classifier

OPPOSITE = {"pos": "neg", "neg": "pos"}


def noisy(num_texts, seed):
    return [(text, OPPOSITE[label] if n % 5 == 0 else label) for n, (text, label) in enumerate(texts(num_texts, seed))]


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return {
        "init_checkpoint": write_start(folder / "start"),
        "train_file": write_rows(folder / "train.csv", "text,label", noisy(200, 1), ","),
        "eval_file": write_rows(folder / "dev.csv", "text,label", noisy(100, 2), ","),
        "max_seq_length": 12,
        "train_batch_size": 16,
        "learning_rate": 0.003,
        "num_train_epochs": 20,
    }


@pytest.fixture(scope="module")
def calibrated(flags, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "out"
    run(flags, "do_train", "do_eval", "calibrate", output_dir=folder)
    return folder


def head_of(prefix):
    checkpoint = open_checkpoint(str(prefix))
    return [checkpoint.read(name) for name in ("output_weights", "output_bias")]


def test_the_head_of_the_model_is_divided_and_the_probabilities_are_better(calibrated):
    report = json.loads((calibrated / "calibration.json").read_text())
    [temperature] = report["temperature"]
    assert json.loads((calibrated / "model" / "task.json").read_text())["temperature"] == [temperature]
    assert report["num_examples"] == 20
    assert json.loads((calibrated / "train.tf_record.json").read_text())["num_examples"] == 180
    [prefix] = calibrated.glob("model/model.ckpt-*.index")
    name = prefix.name.removesuffix(".index")
    for before, now in zip(head_of(calibrated / name), head_of(prefix.with_suffix("")), strict=True):
        np.testing.assert_allclose(now, before / temperature, rtol=1e-6)
    # One label of five is wrong, and the model has learnt the texts by heart.
    assert temperature > 1.2
    change, (low, high) = report["change_of_nll"].values()
    assert change == pytest.approx(report["after"]["nll"] - report["before"]["nll"])
    assert low < change < min(high, 0)
    assert report["answered"][0]["share"] == 1
    for time in ("before", "after"):
        assert sum(row["count"] for row in report[time]["reliability"]) == 100


def test_the_report_is_of_the_evaluation_data(calibrated):
    report = json.loads((calibrated / "calibration.json").read_text())
    rows, truth = table_in(calibrated / "eval_predictions.tsv"), [label for _, label in noisy(100, 2)]
    of_truth = [float(row[f"probability of {label}"]) for row, label in zip(rows, truth, strict=True)]
    assert report["after"]["nll"] == pytest.approx(-np.log(of_truth).mean(), abs=1e-4)
    assert report["after"]["nll"] == pytest.approx(
        json.loads((calibrated / "evaluation.json").read_text())["metrics"]["loss"], abs=1e-4
    )
    logits = np.log([[float(row[f"probability of {label}"]) for label in ("neg", "pos")] for row in rows])
    before = scipy.special.softmax(logits * report["temperature"][0], -1)
    of_truth = before[np.arange(100), [("neg", "pos").index(label) for label in truth]]
    assert report["before"]["nll"] == pytest.approx(-np.log(of_truth).mean(), abs=1e-3)


def test_label_sets_have_the_right_label_in_the_wanted_share_of_the_texts(calibrated):
    classify = open_model(calibrated)
    rows, truth = map(list, zip(*noisy(100, 2), strict=True))
    thresholds = classify.settings["label_set_thresholds"]
    for coverage in (0.5, 0.8, 0.95):
        answers = classify(rows, coverage=coverage)
        share = np.mean([label in answer.label_set for answer, label in zip(answers, truth, strict=True)])
        assert share > coverage - 0.1  # of 20 examples and 100 texts
        for answer in answers:
            likely = sorted(answer.probabilities, key=lambda name: -answer.probabilities[name])
            assert answer.label_set == likely[: len(answer.label_set)]
            assert answer.label_set[0] == answer.label
            left_out = [answer.probabilities[name] for name in likely[len(answer.label_set) :]]
            assert max(left_out, default=0) < thresholds[f"{coverage:g}"] or not thresholds[f"{coverage:g}"]
    [answer] = classify(rows[:1], coverage=0.8, top_k=1)
    assert (len(answer.probabilities), answer.readable().splitlines()[2]) == (1, f"  label set: {answer.label_set[0]}")
    assert classify(rows[0]).label_set is None
    for wrong in (0.4, 1, 0.905, True, "0.9"):
        with pytest.raises(ValueError, match=r"^coverage is .*, but must be from 0\.5 to 0\.99, in steps of 0\.01$"):
            classify(rows[0], coverage=wrong)


def test_a_finished_run_is_not_calibrated_twice(calibrated, flags):
    [prefix] = calibrated.glob("model/model.ckpt-*.index")
    before, text = prefix.read_bytes(), (calibrated / "evaluation.json").read_text()
    run(flags, "do_train", "do_eval", "calibrate", output_dir=calibrated)
    assert prefix.read_bytes() == before
    run({"output_dir": calibrated}, "do_eval")
    assert json.loads((calibrated / "evaluation.json").read_text())["metrics"] == json.loads(text)["metrics"]
    row = table_in(calibrated / "eval_predictions.tsv")[0]
    answer = open_model(calibrated)(row["text"])
    assert answer.probabilities["pos"] == pytest.approx(float(row["probability of pos"]), abs=1e-5)


def test_each_of_several_labels_has_its_temperature(flags, tmp_path):
    rows = [(text, f"{label};x" if n % 2 else label) for n, (text, label) in enumerate(noisy(200, 1))]
    path = write_rows(tmp_path / "several.csv", "text,label", rows, ",")
    several = {**flags, "train_file": path, "eval_file": None, "eval_share": 0.2, "num_train_epochs": 8}
    several |= {"kind": "multi_label", "label_separator": ";", "output_dir": tmp_path / "out"}
    run(several, "do_train", "do_eval", "calibrate")
    report = json.loads((tmp_path / "out" / "calibration.json").read_text())
    assert len(set(report["temperature"])) == 3
    assert report["num_examples"] == 16
    assert report["after"]["nll"] < report["before"]["nll"]


@pytest.mark.usefixtures("no_graphs")
def test_the_held_out_share_of_a_file_is_the_same_later(flags, tmp_path):
    held_out = {**flags, "eval_file": None, "eval_share": 0.2, "num_train_epochs": None, "output_dir": tmp_path / "out"}
    metrics = run(held_out, "do_train", "do_eval", "calibrate", max_steps=2)
    assert run({"output_dir": tmp_path / "out"}, "do_eval") == pytest.approx(metrics)


@pytest.mark.usefixtures("no_graphs")
def test_without_evaluation_data_there_is_no_report(flags, tmp_path):
    train_classifier(
        noisy(40, 3),
        output_dir=tmp_path / "out",
        init_checkpoint=flags["init_checkpoint"],
        max_seq_length=12,
        max_steps=2,
        calibrate=True,
        verbose=False,
    )
    assert not (tmp_path / "out" / "calibration.json").exists()
    assert "temperature" in json.loads((tmp_path / "out" / "model" / "task.json").read_text())
    assert open_model(tmp_path / "out")("the film was good").label in ("neg", "pos")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"kind": "regression"},
            "calibrate does not apply: it divides the logits of classes, but these data are regression; leave it out",
        ),
        (
            {"lora_rank": 2},
            "calibrate does not apply: it changes the weights of the head, which lora_rank keeps in another file",
        ),
    ],
)
def test_what_cannot_be_calibrated_is_refused_before_training(flags, tmp_path, changes, message):
    if "kind" in changes:
        rows = [(text, n) for n, (text, _) in enumerate(texts(20, 1))]
        changes |= {"train_file": write_rows(tmp_path / "numbers.csv", "text,label", rows, ","), "eval_file": None}
    with pytest.raises(ValueError, match=f"^{message}"):
        run({**flags, **changes, "output_dir": tmp_path / "out"}, "do_train", "calibrate")
    assert not (tmp_path / "out" / "model").exists()


def test_too_few_examples_are_told(flags, tmp_path):
    path = write_texts(tmp_path / "few.csv", 4, 1)
    with pytest.raises(
        ValueError,
        match=r"^calibrate: a share of 0\.1 of 4 examples leaves 4 to train and 0 to calibrate; leave it out$",
    ):
        run({**flags, "train_file": path, "eval_file": None, "output_dir": tmp_path / "out"}, "do_train", "calibrate")
