"""state.json: a killed run writes the same rows of metrics.csv as one that nobody killed."""

import json
import types

import numpy as np
import pytest
import rich.console
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.engine.evaluation_pass import Evaluation
from bert_keras.engine.loop import Hooks, train
from bert_keras.mistakes import Mistake
from bert_keras.runs.metrics_log import METRICS_FILE, MetricsFile
from bert_keras.runs.run_dir import RunDir
from bert_keras.runs.state import STATE_FILE, RunState
from bert_keras.settings.groups import RunSettings

NUM_STEPS = 24
INTERVALS = {"save_checkpoints_steps": (1, 30), "log_steps": (1, 30), "eval_steps": (0, 30)}


class Killed(BaseException):
    """Ends a run as SIGKILL does: no handler of the product catches it."""


class Trainer:
    """A trainer whose loss at each step is drawn from a seed."""

    strategy = tf.distribute.get_strategy()
    num_micro_batches = 1
    loss = types.SimpleNamespace(
        metric_names=("accuracy",),
        metrics=lambda numerators, denominators: {name: numerators[name] / denominators[name] for name in numerators},
    )
    optimizer = types.SimpleNamespace(schedule=lambda step: 1 / (1 + step))

    def __init__(self):
        self.global_step = tf.Variable(0, dtype=tf.int64)
        self.state = {"global_step": self.global_step}

    def swap_averages(self):
        pass

    def train(self, iterator, num_steps):
        del iterator
        assert int(num_steps) == 1
        step = int(self.global_step.assign_add(1))
        loss, right, norm = np.random.default_rng(step).random(3)
        return {
            "loss": loss,
            "gradient_norm": norm,
            "numerators": {"accuracy": right},
            "denominators": {"accuracy": 1.0 + step % 3},
        }


def run(folder, **intervals):
    values = RunSettings(num_train_steps=NUM_STEPS, train_batch_size=1, iterations_per_loop=1, **intervals)
    run_dir = RunDir(str(folder), "run_pretraining")
    run_dir.claim({"num_train_steps": NUM_STEPS}, {}, ())
    try:
        trainer = Trainer()
        workers = types.SimpleNamespace(sums=list)
        console = rich.console.Console(quiet=True)

        def evaluate():
            yield Evaluation({"accuracy": int(trainer.global_step) / NUM_STEPS})

        train(trainer, lambda step: [None], Hooks(run_dir, values, 1, console, workers, evaluate))
    finally:
        run_dir.release()


def killing(monkeypatch, number, is_after):
    """Make the write of this number, from 0, end the run, before or after it."""
    count = iter(range(10_000))

    def counted(function):
        def write(*arguments, **options):
            is_last = next(count) == number
            if is_last and not is_after:
                raise Killed
            function(*arguments, **options)
            if is_last:
                raise Killed

        return write

    for owner, name in ((RunDir, "save"), (RunState, "_write"), (MetricsFile, "write")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))


def rows_of(folder):
    """Return metrics.csv without the speed, its last column."""
    return [line.rpartition(",")[0] for line in (folder / METRICS_FILE).read_text().splitlines()]


@settings(max_examples=25)
@given(
    st.fixed_dictionaries({name: st.integers(*bounds) for name, bounds in INTERVALS.items()}),
    st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=3),
    st.booleans(),
)
def test_a_killed_run_writes_the_same_rows(tmp_path_factory, intervals, kills, is_damaged):
    whole, killed = (tmp_path_factory.mktemp(name) / "run" for name in ("whole", "killed"))
    run(whole, **intervals)
    for number, is_after in kills:
        with pytest.MonkeyPatch.context() as monkeypatch:
            killing(monkeypatch, number, is_after)
            try:
                run(killed, **intervals)
            except Killed:
                newest = sorted(killed.glob("model.ckpt-*.data*"), key=lambda path: path.stat().st_mtime_ns)
                if is_damaged and len(newest) > 1:
                    newest[-1].write_bytes(b"")
    run(killed, **intervals)
    assert rows_of(killed) == rows_of(whole)
    ends = [json.loads((folder / STATE_FILE).read_text())["end"] for folder in (killed, whole)]
    assert ends == [{"step": NUM_STEPS, "reason": "all steps"}] * 2


def test_a_run_that_goes_on_with_other_versions_says_so(tmp_path, messages):
    intervals = {"save_checkpoints_steps": 5, "log_steps": 5}
    with pytest.MonkeyPatch.context() as monkeypatch:
        killing(monkeypatch, 12, True)
        with pytest.raises(Killed):
            run(tmp_path / "run", **intervals)
    file = tmp_path / "run" / STATE_FILE
    state = json.loads(file.read_text())
    here = state["processes"]["first"]
    assert state["processes"] == {"first": here, "last": here}
    assert here["tensorflow"] == tf.__version__
    earlier = here | {"tensorflow": "2.20.0", "devices": "8 x TPU"}
    file.write_text(json.dumps(state | {"processes": {"first": earlier, "last": earlier}}))
    run(tmp_path / "run", **intervals)
    changes = f"tensorflow: 2.20.0, now {tf.__version__}; devices: 8 x TPU, now {here['devices']}"
    assert messages.count(f"the numbers may round differently from here on: {changes}") == 1
    assert json.loads(file.read_text())["processes"] == {"first": earlier, "last": here}


def test_evaluations_keep_the_digits_of_the_table_and_end_before_a_step_that_runs_again(tmp_path):
    state = RunState(str(tmp_path), is_writable=True)
    for step, value in ((2, 1 / 3), (4, 0.5), (6, 0.25)):
        state.note_evaluation(step, {"accuracy": value})
    state.note_evaluation(4, {"accuracy": 2 / 3})
    assert RunState(str(tmp_path), is_writable=True).evaluations() == {
        2: {"accuracy": 0.33333333},
        4: {"accuracy": 0.66666667},
    }


def test_the_result_of_a_try_stays(tmp_path):
    state = RunState(str(tmp_path), is_writable=True)
    assert state["result"] is None
    state["result"] = {"value": None, "status": "not finite"}
    state.note_evaluation(2, {})
    assert RunState(str(tmp_path), is_writable=True)["result"] == {"value": None, "status": "not finite"}


@pytest.mark.parametrize(
    "stored", ["[]", '{"decisions": 5}', '{"at": {"last": {}}}', '{"evaluations": []}', '{"at": {"3": []}}']
)
def test_a_file_that_is_not_a_state_is_named(tmp_path, stored):
    (tmp_path / STATE_FILE).write_text(stored)
    with pytest.raises(Mistake, match=f"^{tmp_path / STATE_FILE} is not the state of a run; remove it$"):
        RunState(str(tmp_path), is_writable=True).decided("pack", lambda: True)


def test_a_decision_stays(tmp_path):
    state = RunState(str(tmp_path), is_writable=True)
    assert state.decided("pack", lambda: True) is True
    assert RunState(str(tmp_path), is_writable=True).decided("pack", lambda: False) is True


def test_the_decisions_of_a_command_that_saved_nothing_do_not_bind_the_next(tmp_path):
    first = RunDir(str(tmp_path / "run"), "run_ner")
    first.claim({"seed": 1}, {}, ())
    first.state.decided("pack", lambda: True)
    first.release()
    second = RunDir(str(tmp_path / "run"), "run_ner")
    second.claim({"seed": 2}, {}, ())
    assert second.state.decided("pack", lambda: False) is False


def test_the_sums_of_removed_checkpoints_are_removed(tmp_path):
    run_dir = RunDir(str(tmp_path), "run_ner")
    for step in (3, 5, 7):
        run_dir.save_run(step, {"global_step": tf.Variable(step)}, {"loss": step / 3}, num_kept=2)
    stored = json.loads((tmp_path / STATE_FILE).read_text())["at"]
    assert set(stored) == {"3", "5", "7"}  # that of a step that `save` removes stays until the next one
    assert run_dir.state.since_row(7) == {"loss": 7 / 3}
    assert run_dir.state.since_row(9) is None
