"""metrics.csv, TensorBoard's events and the plot of the curves."""

import glob
import os
import pathlib
import types
import uuid

import pytest
import tensorflow as tf

from bert_keras.runs.metrics_log import (
    CURVES_FILE,
    MetricsFile,
    TensorBoardEvents,
    draw_learning_curves,
    read_metrics,
)
from bert_keras.runs.run_dir import RunDir


@pytest.fixture
def run_dir(tmp_path):
    return RunDir(str(tmp_path), "run_pretraining")


def write_some(run_dir, start_step=0, steps=(1, 10, 20)):
    metrics_file = MetricsFile(run_dir, ["accuracy"], start_step)
    for step in steps:
        metrics_file.write(step, "train", {"loss": 1 / step, "accuracy": 0.5, "learning_rate": 0.1})
    metrics_file.write(steps[-1], "eval", {"loss": 0.25, "accuracy": 0.75})
    metrics_file.close()
    run_dir.state.note_evaluation(steps[-1], {"accuracy": 0.75})


def test_rows_of_training_and_evaluation_are_in_one_table(run_dir):
    write_some(run_dir)
    rows = read_metrics(run_dir.file("metrics.csv"))
    assert [(row["step"], row["split"], row["loss"]) for row in rows] == [
        ("1", "train", "1"),
        ("10", "train", "0.1"),
        ("20", "train", "0.05"),
        ("20", "eval", "0.25"),
    ]
    assert rows[-1]["learning_rate"] == ""


def test_steps_that_will_be_taken_again_are_dropped_when_a_run_resumes(run_dir):
    write_some(run_dir)
    with open(run_dir.file("metrics.csv"), "a", encoding="utf-8") as file:
        file.write("9,eval")  # a line that a kill cut short
    write_some(run_dir, start_step=10, steps=(20,))
    steps = [int(row["step"]) for row in read_metrics(run_dir.file("metrics.csv"))]
    assert steps == [1, 10, 20, 20]


def test_an_evaluation_that_will_run_again_has_no_row(run_dir):
    write_some(run_dir, steps=(1, 10))
    MetricsFile(run_dir, ["accuracy"], 10).close()
    assert [row["split"] for row in read_metrics(run_dir.file("metrics.csv"))] == ["train", "train", "eval"]
    (pathlib.Path(run_dir.path) / "state.json").unlink()
    MetricsFile(run_dir, ["accuracy"], 10).close()
    assert [row["split"] for row in read_metrics(run_dir.file("metrics.csv"))] == ["train", "train"]


def test_scalars_reach_tensorboard(run_dir):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = TensorBoardEvents(run_dir)
    events.write(3, "train", {"loss": 0.5})
    events.write(3, "eval", {"loss": 0.25})
    events.close()
    for folder, value in ((run_dir.path, 0.5), (run_dir.file("eval"), 0.25)):
        [file] = glob.glob(f"{folder}/events.out.tfevents.*")
        reader = accumulator.EventAccumulator(file)
        reader.Reload()
        [event] = reader.Tensors("loss")
        assert (event.step, float(tf.make_ndarray(event.tensor_proto))) == (3, value)


def test_the_curves_are_drawn(run_dir, real_pictures):
    write_some(run_dir)
    draw_learning_curves(RunDir(run_dir.path, "run_pretraining", is_writable=False))
    assert not os.path.exists(run_dir.file(CURVES_FILE))
    draw_learning_curves(run_dir)
    with open(run_dir.file(CURVES_FILE), "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"


def test_in_an_object_store_rows_are_copied_when_they_must_not_be_lost(monkeypatch):
    copies, now = [], [0.0]
    run_dir = RunDir(f"ram://{uuid.uuid4().hex}/run", "run_pretraining")
    run_dir.create()
    # Not the clock of the process, which a server of other tests reads.
    monkeypatch.setattr("bert_keras.runs.metrics_log.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    write_text = RunDir.write_text
    monkeypatch.setattr(RunDir, "write_text", lambda *arguments: copies.append(now[0]) or write_text(*arguments))
    metrics_file = MetricsFile(run_dir, ["accuracy"], 0)
    for now[0] in range(1, 101):
        metrics_file.write(int(now[0]), "train", {"loss": 1.0})
    assert copies == [0.0, 61]
    metrics_file.write(100, "eval", {"loss": 1.0})
    assert copies == [0.0, 61, 100]
    assert len(read_metrics(run_dir.file("metrics.csv"))) == 101
    metrics_file.close()
    write_some(run_dir, start_step=3)
    rows = read_metrics(run_dir.file("metrics.csv"))
    assert [row["step"] for row in rows] == ["1", "2", "3", "1", "10", "20", "20"]
