"""The best evaluation, the end of patience, and both after resuming."""

import pytest
import tensorflow as tf

from bert_keras.runs.run_dir import RunDir
from bert_keras.tasks.finetuning.sweep import Selection


@pytest.fixture
def run_dir(tmp_path):
    return RunDir(str(tmp_path), "run_made_up")


def make(run_dir, patience=0):
    """Makes a selection, and the list of the steps that it keeps."""
    kept = []
    return Selection(run_dir, "f1", patience, lambda step, metrics: kept.append((step, metrics["f1"]))), kept


def write_metrics(run_dir, values, checkpoint):
    """Writes the evaluations of a run by step, and a checkpoint."""
    for step, value in values.items():
        run_dir.state.note_evaluation(step, {"loss": 0.5, "f1": value})
    if checkpoint:
        run_dir.save(checkpoint, {"global_step": tf.Variable(checkpoint, dtype=tf.int64)})


def test_only_what_is_better_than_all_before_is_kept(run_dir):
    selection, kept = make(run_dir)
    assert selection.best is None
    for step, value in enumerate([0.2, 0.1, 0.2, 0.5, 0.5, 0.4], 1):
        assert selection(step, {"f1": value}) is False
    assert kept == [(1, 0.2), (4, 0.5)]
    assert selection.best == 0.5


def test_the_worst_there_can_be_is_kept_where_it_is_the_first(run_dir):
    selection, kept = make(run_dir)
    selection(3, {"f1": -1.0})
    assert kept == [(3, -1.0)]
    assert selection.best == -1.0


@pytest.mark.parametrize(("patience", "ends"), [(1, 2), (2, 6), (3, 7), (4, None)])
def test_patience_counts_evaluations_since_the_best(run_dir, patience, ends):
    selection, _ = make(run_dir, patience)
    ended = [
        step for step, value in enumerate([0.2, 0.1, 0.3, 0.4, 0.4, 0.3, 0.3], 1) if selection(step, {"f1": value})
    ]
    assert (ended[0] if ended else None) == ends


def test_a_run_that_goes_on_knows_what_was_before_its_checkpoint(run_dir):
    write_metrics(run_dir, {2: 0.3, 4: 0.8, 6: 0.7, 8: 0.9}, checkpoint=6)
    selection, kept = make(run_dir, patience=2)
    assert selection.best == 0.8  # the run will repeat step 8
    assert not selection.is_over
    assert selection(8, {"f1": 0.8}) is True
    assert kept == []


def test_patience_that_ran_out_stays_so(run_dir):
    write_metrics(run_dir, {2: 0.3, 4: 0.2, 6: 0.1}, checkpoint=6)
    assert make(run_dir, patience=2)[0].is_over
    assert not make(run_dir, patience=3)[0].is_over
    assert not make(run_dir)[0].is_over


def test_without_a_checkpoint_all_begins_anew(run_dir):
    write_metrics(run_dir, {2: 0.9}, checkpoint=None)
    selection, kept = make(run_dir)
    assert selection.best is None
    selection(2, {"f1": 0.1})
    assert kept == [(2, 0.1)]


def test_figures_are_compared_as_they_are_written(run_dir):
    value = 0.123456789012
    write_metrics(run_dir, {2: value}, checkpoint=2)
    selection, kept = make(run_dir)
    selection(4, {"f1": value})
    assert kept == []
