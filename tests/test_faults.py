"""Faults during a run (full disks, files that vanish or arrive late) do not lose anything that was saved."""

import errno
import os
import resource
import time

import pytest
import tensorflow as tf
from eager import without_graphs
from pretraining_runs import make_files, run
from states import assert_bit_equal, weights_in
from training_runs import act_before

from bert_keras.runs.metrics_log import MetricsFile

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_graphs")]


def make_flags(folder, tiny_config, write_records):
    files = make_files(folder, tiny_config, write_records)
    for number in range(3):
        write_records(folder / f"part-{number}.tfrecord", 9 + number, seed=number)
    files |= {"input_file": folder / "part-*.tfrecord", "do_train": True, "deterministic": True}
    return {**files, "iterations_per_loop": 1, "log_steps": 1, "num_train_steps": 16}


@pytest.fixture
def flags(tmp_path, tiny_config, write_records):
    return make_flags(tmp_path, tiny_config, write_records)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny_config, write_records):
    """The weights of a run without a fault."""
    flags = make_flags(tmp_path_factory.mktemp("whole"), tiny_config, write_records)
    with without_graphs():
        run(flags)
    return weights_in(flags["output_dir"])


def saved_step(flags):
    return int(weights_in(flags["output_dir"])["global_step"])


def assert_continues_like_a_run_without_a_fault(flags, whole, monkeypatch):
    """Checks that the same command continues the run to the weights of a run without a fault."""
    monkeypatch.undo()
    run(flags)
    assert_bit_equal(whole, weights_in(flags["output_dir"]))
    assert not list(flags["output_dir"].glob(".model*"))


def test_full_disk_and_missing_file_cost_only_what_was_not_saved(flags, whole, monkeypatch, tmp_path):
    shard = tmp_path / "part-1.tfrecord"
    content = shard.read_bytes()
    # Thirty examples: the run reopens the files about every four steps.
    act_before(monkeypatch, 5, shard.unlink)
    with pytest.raises(OSError, match=r"the data cannot be read any more \(.*part-1.tfrecord; .* from step (4|8|12)$"):
        run(flags)
    shard.write_bytes(content)

    saved = saved_step(flags)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Stops in the middle of a checkpoint, which has 24 kB.
    act_before(monkeypatch, saved + 1, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, limits[1])))
    try:
        message = rf"the checkpoint .*/model.ckpt-{saved + 4} cannot be written \(.*continues from step {saved}"
        with pytest.raises(OSError, match=message):
            run(flags)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert saved_step(flags) == saved
    assert_continues_like_a_run_without_a_fault(flags, whole, monkeypatch)


def test_full_disk_of_metrics_and_damaged_file_are_named(flags, whole, monkeypatch, tmp_path):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        act_before(monkeypatch, 7, lambda: patch.setattr(MetricsFile, "write", fail))
        message = r"model cannot be written to \(No space left on device\); make room there, and"
        with pytest.raises(OSError, match=message):
            run(flags)
    assert saved_step(flags) == 4
    shard = tmp_path / "part-1.tfrecord"
    content = shard.read_bytes()
    act_before(monkeypatch, saved_step(flags) + 1, lambda: shard.write_bytes(b"\1" * len(content)))
    with pytest.raises(ValueError, match="part-1.tfrecord is damaged at byte"):
        run(flags)
    shard.write_bytes(content)
    assert_continues_like_a_run_without_a_fault(flags, whole, monkeypatch)


def test_a_file_that_comes_slowly_changes_no_number(flags, whole, monkeypatch):
    read, slow = tf.data.TFRecordDataset, []

    def wait(record, path):
        if path.numpy().endswith(b"part-1.tfrecord"):
            slow.append(path)
            time.sleep(0.02)
        return record

    def read_slowly(path, *compression):
        records = read(path, *compression)
        return records.map(lambda record: tf.ensure_shape(tf.py_function(wait, [record, path], tf.string), []))

    monkeypatch.setattr("bert_keras.engine.input.pretraining_batches.tf.data.TFRecordDataset", read_slowly)
    run(flags)
    assert len(slow) > 30
    assert_bit_equal(whole, weights_in(flags["output_dir"]))
