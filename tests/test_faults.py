"""What may go wrong beside a run: full disks, files that vanish or come slowly. Nothing that was saved is lost."""

import resource
import time

import pytest
import tensorflow as tf
from pretraining_runs import assert_bit_equal, make_files, run, weights_in

from training.loop import Pace


@pytest.fixture
def flags(tmp_path, tiny_config, write_records):
    files = make_files(tmp_path, tiny_config, write_records)
    for number in range(3):
        write_records(tmp_path / f"part-{number}.tfrecord", 9 + number, seed=number)
    files |= {"input_file": tmp_path / "part-*.tfrecord", "do_train": True, "deterministic": True}
    return {**files, "iterations_per_loop": 1, "num_train_steps": 10}


@pytest.fixture
def before_step(monkeypatch):
    """Lets something happen before a step of a run."""
    steps_until_due = Pace.steps_until_due

    def at(step, action):
        def acting(self, now):
            if now == step:
                action()
            return steps_until_due(self, now)

        monkeypatch.setattr(Pace, "steps_until_due", acting)

    return at


def assert_goes_on_as_if_nothing_had_been(flags, saved, monkeypatch, tmp_path):
    """The run goes on with the same command, from the step that was saved, to the weights of one without a fault."""
    monkeypatch.undo()
    assert weights_in(flags["output_dir"])["global_step"] == saved
    run(flags)
    run(flags, output_dir=tmp_path / "whole")
    assert_bit_equal(weights_in(tmp_path / "whole"), weights_in(flags["output_dir"]))
    assert not list(flags["output_dir"].glob(".model*"))


def test_a_disk_that_is_full_in_the_middle_of_a_checkpoint_costs_only_what_was_not_saved(
    flags, before_step, monkeypatch, tmp_path
):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A checkpoint has 24 kB.
    before_step(7, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, limits[1])))
    try:
        with pytest.raises(
            OSError, match=r"the checkpoint of step 8 cannot be written to .*model \(.*goes on from step 4"
        ):
            run(flags)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_goes_on_as_if_nothing_had_been(flags, 4, monkeypatch, tmp_path)


def test_a_file_that_is_not_there_any_more_is_named(flags, before_step, monkeypatch, tmp_path):
    shard, away = tmp_path / "part-1.tfrecord", tmp_path / "away"
    # Thirty examples: at step 8 and at every fourth from there on the files are opened again, or a little before.
    before_step(5, lambda: shard.rename(away))
    with pytest.raises(OSError, match=r"the data cannot be read any more \(.*part-1.tfrecord.* from step (4|8|12)$"):
        run(flags, num_train_steps=20)
    away.rename(shard)
    saved = int(weights_in(flags["output_dir"])["global_step"])
    assert_goes_on_as_if_nothing_had_been({**flags, "num_train_steps": 20}, saved, monkeypatch, tmp_path)


def test_a_file_that_comes_slowly_changes_no_number(flags, monkeypatch, tmp_path):
    read, slow = tf.data.TFRecordDataset, []

    def wait(record, path):
        if path.numpy().endswith(b"part-1.tfrecord"):
            slow.append(path)
            time.sleep(0.05)
        return record

    def read_slowly(path, *compression):
        records = read(path, *compression)
        return records.map(lambda record: tf.ensure_shape(tf.py_function(wait, [record, path], tf.string), []))

    monkeypatch.setattr("data_prep.pipeline.tf.data.TFRecordDataset", read_slowly)
    run(flags)
    assert len(slow) > 20
    monkeypatch.undo()
    run(flags, output_dir=tmp_path / "whole")
    assert_bit_equal(weights_in(tmp_path / "whole"), weights_in(flags["output_dir"]))
