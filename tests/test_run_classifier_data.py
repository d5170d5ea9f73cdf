"""The program on every kind of data: the columns it reads, and metrics recomputed from its tables."""

import json
import math
import warnings

import numpy as np
import pytest
from tiny_classes import run, table_in, texts, write_rows, write_start, write_texts
from training_runs import results_in

from bert_keras.modeling import open_checkpoint


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return write_start(tmp_path_factory.mktemp("start"))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def flags(start, out):
    """The flags of a run of two updates, without the data."""
    return {
        "init_checkpoint": start,
        "output_dir": out,
        "max_seq_length": 16,
        "train_batch_size": 8,
        "num_train_epochs": 1,
        "eval_batch_size": 4,
    }


ALL = ("do_train", "do_eval", "do_predict")


def pairs(num_pairs, seed):
    """Makes text pairs as [first, second, whether the classes are the same]."""
    both = zip(texts(num_pairs, seed), texts(num_pairs, seed + 50), strict=True)
    return [(first, second, label == other) for (first, label), (second, other) in both]


def task_of(out):
    return json.loads((out / "model" / "task.json").read_text())


def check_losses(out, losses):
    results = results_in(out)
    assert float(results["eval_loss"]) == pytest.approx(np.mean(losses), abs=2e-5)
    of_batches = [np.mean(losses[first : first + 4]) for first in range(0, len(losses), 4)]
    assert float(results["loss"]) == pytest.approx(np.mean(of_batches), abs=2e-5)


@pytest.mark.usefixtures("no_graphs")
def test_pairs_of_ones_own(flags, out, tmp_path, capsys):
    for seed, (name, count) in enumerate({"train": 16, "dev": 7, "test": 5}.items()):
        rows = [
            (f"n{n}", first, "same" if same else "other", second)
            for n, (first, second, same) in enumerate(pairs(count, seed))
        ]
        write_rows(tmp_path / f"{name}.tsv", "key\tsentence1\tcategory\tsentence2", rows)
    files = {
        f"{flag}_file": tmp_path / f"{name}.tsv"
        for flag, name in zip(("train", "eval", "predict"), ("train", "dev", "test"), strict=True)
    }
    run({**flags, **files}, *ALL, id_column="key", metric="matthews")
    shown = capsys.readouterr().out
    assert '"sentence1" as the text, "sentence2" as the second text, "category" as the label' in shown
    labels = [same for _, _, same in pairs(16, 0)]
    assert f"2 labels, with their examples to train on: other ({labels.count(False)}), same ({sum(labels)})" in shown
    task = task_of(out)
    assert (task["labels"], task["is_pair"]) == (["other", "same"], True)
    assert list(task["metrics"]) == ["loss", "matthews", "accuracy", "f1_macro"]
    table = table_in(out / "eval_predictions.tsv")
    assert [(row["id"], row["text_a"], row["text_b"]) for row in table] == [
        (f"n{number}", *pair[:2]) for number, pair in enumerate(pairs(7, 1))
    ]
    truth = ["same" if same else "other" for _, _, same in pairs(7, 1)]
    check_losses(
        out, [-math.log(float(row[f"probability of {label}"])) for row, label in zip(table, truth, strict=True)]
    )
    assert [row["id"] for row in table_in(out / "predictions.tsv")] == [f"n{number}" for number in range(5)]


@pytest.mark.slow
@pytest.mark.parametrize("unit", [-1e-6, 1e6])
def test_numbers(flags, out, tmp_path, capsys, unit):
    highest, lowest = 2.5 * unit, -1 * unit
    for seed, (name, count) in enumerate({"train": 64, "dev": 9}.items()):
        rows = [(text, highest if label == "pos" else lowest) for text, label in texts(count, seed)]
        write_rows(tmp_path / f"{name}.csv", "text,score", rows, ",")
    files = {
        "train_file": tmp_path / "train.csv",
        "eval_file": tmp_path / "dev.csv",
        "predict_file": tmp_path / "dev.csv",
    }
    run({**flags, **files}, *ALL, kind="regression", num_train_epochs=12, learning_rate=3e-3)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"the labels are numbers from {min(lowest, highest):.6g} to {max(lowest, highest):.6g}, with mean" in shown
    assert "baseline (always the mean): mae " in shown
    task = task_of(out)
    assert (task["task"], task["labels"]) == ("regression", [])
    assert open_checkpoint(out / "model").shape("output_weights") == (1, 16)
    answers = np.array([float(line) for line in (out / "test_results.tsv").read_text().splitlines()])
    truth = np.array([highest if label == "pos" else lowest for _, label in texts(9, 1)])
    check_losses(out, ((answers - truth) / task["label_scale"]["std"]) ** 2)
    results = results_in(out)
    names = ["eval_loss", "eval_mae", "eval_pearson", "eval_rmse", "eval_spearman", "global_step", "loss"]
    assert sorted(results) == names
    of_mean = json.loads((out / "evaluation.json").read_text())["baseline"]
    assert sorted(of_mean) == ["mae", "rmse"]
    assert float(results["eval_rmse"]) == pytest.approx(np.sqrt(np.mean((answers - truth) ** 2)), rel=1e-4)
    assert float(results["eval_rmse"]) < 0.8 * of_mean["rmse"]
    assert float(results["eval_pearson"]) == pytest.approx(np.corrcoef(answers, truth)[0, 1], abs=1e-5)
    errors = table_in(out / "eval_errors.tsv")
    differences = [abs(float(row["label"]) - float(row["prediction"])) for row in errors]
    assert differences == sorted(differences, reverse=True)
    assert [float(row["difference"]) for row in errors] == pytest.approx(differences, rel=1e-4)
    # The model records its kind, so later commands may omit it.
    run({"output_dir": out}, "do_predict", predict_file=write_rows(tmp_path / "new.csv", "text", [texts(9, 1)[0][:1]]))
    assert float((out / "test_results.tsv").read_text()) == pytest.approx(answers[0], rel=1e-5)
    # Training continues from the model: its head keeps what it knows, although the other labels have another scale.
    rows = [(text, 3 * unit if label == "pos" else -2 * unit) for text, label in texts(16, 0)]
    others = {
        **flags,
        "train_file": write_rows(tmp_path / "more.csv", "text,score", rows, ","),
        "output_dir": out / "b",
    }
    files = {"init_checkpoint": out, "eval_file": files["eval_file"]}
    run({**others, **files}, "do_train", "do_eval", kind="regression", max_steps=1, learning_rate=1e-9)
    assert float(results_in(out / "b")["eval_rmse"]) == pytest.approx(float(results["eval_rmse"]), rel=1e-3)


def labels_of(text):
    return [word for word in ("film", "good", "left") if word in text.split()]


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_several_labels(flags, out, tmp_path, capsys):
    for seed, (name, count) in enumerate({"train": 16, "dev": 9}.items()):
        lines = [json.dumps({"text": text, "labels": labels_of(text)}) for text, _ in texts(count, seed)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    files = {"train_file": tmp_path / "train.jsonl", "eval_file": tmp_path / "dev.jsonl"}
    metrics = run({**flags, **files}, "do_train", "do_eval", kind="multi_label", pack=True)
    counts = {name: sum(name in text.split() for text, _ in texts(16, 0)) for name in ("film", "good", "left")}
    told = ", ".join(f"{name} ({count})" for name, count in counts.items())
    assert f"3 labels, with their examples to train on: {told}" in capsys.readouterr().out
    assert (task_of(out)["task"], task_of(out)["labels"]) == ("multi_label", ["film", "good", "left"])
    table = table_in(out / "eval_predictions.tsv")
    probabilities = np.array([[float(row[f"probability of {name}"]) for name in counts] for row in table])
    truth = np.array([[name in text.split() for name in counts] for text, _ in texts(9, 1)])
    check_losses(out, -np.log(np.where(truth, probabilities, 1 - probabilities)).mean(1))
    predicted = probabilities >= 0.5
    assert [row["prediction"] for row in table] == [
        ",".join(name for name, has in zip(counts, row, strict=True) if has) for row in predicted
    ]
    hits = (truth & predicted).sum()
    assert metrics["f1_micro"] == pytest.approx(2 * hits / (truth.sum() + predicted.sum()))
    assert metrics["accuracy"] == pytest.approx((truth == predicted).all(1).mean())
    assert (out / "class_report.txt").read_text().splitlines()[1].startswith("film")
    assert not (out / "confusion_matrix.tsv").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_choices_of_ones_own(flags, out, tmp_path):
    def rows(count, seed):
        return [(first, second, first, int(same)) for first, second, same in pairs(count, seed)]

    for seed, (name, count) in enumerate({"train": 16, "dev": 9}.items()):
        write_rows(tmp_path / f"{name}.csv", "text,one,two,label", rows(count, seed), ",")
    files = {"train_file": tmp_path / "train.csv", "eval_file": tmp_path / "dev.csv"}
    choices = {"kind": "multiple_choice", "choice_columns": "one,two"}
    metrics = run({**flags, **files, **choices}, "do_train", "do_eval")
    assert (task_of(out)["task"], task_of(out)["labels"]) == ("multiple_choice", ["0", "1"])
    assert open_checkpoint(out / "model").shape("output_weights") == (1, 16)
    table = table_in(out / "eval_predictions.tsv")
    truth = [str(row[3]) for row in rows(9, 1)]
    assert [(row["text_1"], row["text_2"], row["text_3"]) for row in table] == [row[:3] for row in rows(9, 1)]
    check_losses(
        out, [-math.log(float(row[f"probability of {label}"])) for row, label in zip(table, truth, strict=True)]
    )
    hits = [row["prediction"] == label for row, label in zip(table, truth, strict=True)]
    assert metrics["accuracy"] == pytest.approx(np.mean(hits))
    # The choices are settings of the run; later texts get the layout of the training.
    write_rows(tmp_path / "new.csv", "text,one,two", [row[:3] for row in rows(9, 1)], ",")
    run({"output_dir": out}, "do_predict", predict_file=tmp_path / "new.csv")
    assert [row["prediction"] for row in table_in(out / "predictions.tsv")] == [row["prediction"] for row in table]


@pytest.fixture
def tfds():
    """Generated records in place of downloads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tfds = pytest.importorskip("tensorflow_datasets")
        with tfds.testing.mock_data(num_examples=16):
            yield tfds


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_a_data_set_of_tensorflow_datasets(flags, out, tfds, tmp_path):
    run({**flags, "tfds": "imdb_reviews"}, "do_train", "do_eval", tfds_eval_split="test")
    assert task_of(out)["labels"] == ["neg", "pos"]
    assert len(table_in(out / "eval_predictions.tsv")) == 16
    # Other data replace those of the training.
    path = write_texts(tmp_path / "own.csv", 6, 1)
    run({"output_dir": out}, "do_predict", predict_file=path)
    assert [row["text"] for row in table_in(out / "predictions.tsv")] == [text for text, _ in texts(6, 1)]


@pytest.mark.usefixtures("no_graphs")
def test_a_share_is_held_out(flags, out, tmp_path, capsys):
    rows = [(f"n{number}", *row) for number, row in enumerate(texts(40, 3))]
    flags["train_file"] = write_rows(tmp_path / "all.csv", "id,text,label", rows, ",")
    flags |= {"id_column": "id", "eval_share": 0.2}
    first = run(flags, "do_train", "do_eval", seed=1)
    assert (
        "all.csv: 8 of 40 examples, chosen at random within each label, are held out for evaluation"
        in capsys.readouterr().out
    )
    ids = [row["id"] for row in table_in(out / "eval_predictions.tsv")]
    assert len(set(ids)) == 8
    assert json.loads((out / "train.tf_record.json").read_text())["num_examples"] == 32
    assert run({"output_dir": out}, "do_eval") == pytest.approx(first)
