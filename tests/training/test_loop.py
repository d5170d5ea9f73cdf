"""The training loop: the schedule of its actions, and its end."""

import contextlib
import os
import signal
import types

import pytest
import tensorflow as tf

from bert_keras.engine import loop
from bert_keras.engine import trainer as trainers
from bert_keras.engine.evaluation_pass import Evaluation
from bert_keras.engine.loop import Hooks, train
from bert_keras.runs.state import RunState
from bert_keras.settings.groups import RunSettings


class CountingTrainer:
    """A trainer that counts steps; `losses` and `norms` give its loss and gradient norm by step, 1 elsewhere."""

    strategy = tf.distribute.get_strategy()
    loss = types.SimpleNamespace(metric_names=())
    optimizer = types.SimpleNamespace(schedule=None)

    def __init__(self, losses=None, on_step=None, norms=None, start=0):
        self.global_step = tf.Variable(start, dtype=tf.int64)
        self.state = {"global_step": self.global_step}
        self.calls = []
        self.has_averages = False
        self._losses = losses or {}
        self._norms = norms or {}
        self._on_step = on_step

    def swap_averages(self):
        self.has_averages = not self.has_averages

    def train(self, iterator, num_steps):
        assert not self.has_averages
        num_steps = int(num_steps)
        first = int(self.global_step.numpy()) + 1
        self.calls.append(num_steps)
        self.global_step.assign_add(num_steps)
        if self._on_step:
            self._on_step(first + num_steps - 1)
        steps = range(first, first + num_steps)
        return {
            "loss": sum(self._losses.get(step, 1.0) for step in steps),
            "gradient_norm": sum(self._norms.get(step, 1.0) for step in steps),
        }


class Recorder:
    """A stand-in for the run folder and the report, which records its calls."""

    is_writable = has_results = False
    since_row = None
    state = RunState("no folder", is_writable=False)

    def __init__(self):
        self.saved, self.rows, self.evaluated, self.steps_seen, self.order = [], [], [], 0, []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def file(self, name):
        return f"/none/{name}"

    def latest_checkpoint(self):
        return None

    def latest_step(self):
        return self.saved[-1] if self.saved else 0

    def save_run(self, step, state, since_row, num_kept):
        assert num_kept == 3
        assert int(state["global_step"].numpy()) == step
        self.saved.append(step)
        self.order.append(f"saved {step}")

    def finish(self, step, reason):
        self.ended = {"step": step, "reason": reason}

    def steps(self, step, num_steps, totals, seconds):
        self.steps_seen += num_steps

    def row(self, step):
        self.rows.append(step)

    def evaluation(self, step, metrics):
        self.evaluated.append(step)
        self.order.append(f"noted {step}")


@pytest.fixture
def recorder(monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(loop, "Report", lambda *arguments: recorder)
    return recorder


@pytest.fixture
def run(recorder):
    """Return a function that trains, and returns the metrics of the last evaluation and whether training finished."""

    def run(trainer, num_train_steps, save_checkpoints_steps=100, log_steps=100, sums=list, clock=None, **given):
        settings = {"num_train_steps": num_train_steps, "save_checkpoints_steps": save_checkpoints_steps}
        settings |= {"log_steps": log_steps, "eval_steps": given.pop("eval_steps", 0)}
        settings |= {"iterations_per_loop": given.pop("iterations_per_loop", 1000)}
        settings |= {"train_batch_size": 1, "keep_checkpoint_max": 3}
        hooks = Hooks(recorder, RunSettings(**settings), 1, None, types.SimpleNamespace(sums=sums), **given)
        progress = train(trainer, lambda step: [None], hooks, **({"clock": clock} if clock else {}))
        assert progress.step == int(trainer.global_step.numpy())
        return progress.evaluation and progress.evaluation.metrics, progress.is_whole

    return run


def evaluation_of(**metrics):
    """Return a function that evaluates one batch, with these metrics."""
    return lambda: iter([None, Evaluation(metrics)])


def fail_at(failing, error):
    def on_step(step):
        if step == failing:
            raise error

    return CountingTrainer(on_step=on_step)


def test_everything_happens_in_its_time_and_at_the_end(run, recorder):
    trainer = CountingTrainer()
    pace = {"save_checkpoints_steps": 20, "log_steps": 7, "eval_steps": 15, "iterations_per_loop": 4}
    assert run(trainer, 50, **pace, evaluate=evaluation_of(loss=0.5)) == ({"loss": 0.5}, True)
    assert recorder.saved == [20, 40, 50]
    assert recorder.rows == [1, 7, 14, 21, 28, 35, 42, 49, 50]
    assert recorder.evaluated == [15, 30, 45, 50]
    assert recorder.steps_seen == 50
    assert max(trainer.calls) <= 4
    assert trainer.calls[0] == 1


def test_without_eval_steps_there_is_one_evaluation_at_the_end(run, recorder):
    run(CountingTrainer(), 6, evaluate=evaluation_of())
    assert recorder.evaluated == [6]


def test_calls_of_the_device_grow_as_long_as_they_are_short(run):
    now = [0.0]

    def take(step):
        now[0] += 0.001 if step < 500 else 0.6

    trainer = CountingTrainer(on_step=take)
    run(trainer, 1000, 1000, 1000, iterations_per_loop=64, clock=lambda: now[0])
    assert trainer.calls[:8] == [1, 2, 4, 8, 16, 32, 64, 64]
    # Longer calls shrink to half a second: 64 x 0.5 / 0.6.
    slow = trainer.calls[trainer.calls.index(53) :]
    assert slow[:3] == [53, 44, 36]


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        (CountingTrainer({8: float("nan")}), "in steps 6 to 10; the checkpoint of step 5 is from before: start from"),
        (CountingTrainer(norms={8: float("inf")}), "in steps 6 to 10; the checkpoint of step 5 is from before"),
        (CountingTrainer({1: float("inf")}), "in step 1; start again with a lower learning_rate or a longer"),
    ],
    ids=["loss", "norm", "first step"],
)
def test_numbers_that_are_not_finite_end_training_and_name_the_steps(run, trainer, message):
    # One step, two, then four: from step 6 on, five until the next checkpoint.
    with pytest.raises(ValueError, match=f"^the loss or its gradient is not finite {message}"):
        run(trainer, 20, 5, 5, clock=lambda: 0.0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("save_checkpoints_steps", [3, 100])
def test_a_signal_ends_training_after_the_step_and_saves_once(run, recorder, number, save_checkpoints_steps, messages):
    handler = signal.getsignal(number)
    trainer = CountingTrainer(on_step=lambda step: os.kill(os.getpid(), number) if step == 3 else None)
    # Raises Ctrl-C again, so that the calling program ends too.
    with pytest.raises(KeyboardInterrupt) if number == signal.SIGINT else contextlib.nullcontext():
        assert run(trainer, 20, save_checkpoints_steps, evaluate=evaluation_of()) == (None, False)
    assert recorder.saved == [3]
    assert recorder.evaluated == []
    if number == signal.SIGTERM:
        os.kill(os.getpid(), number)  # arrives late, and has no effect
        signal.signal(number, handler)
    assert signal.getsignal(number) == handler
    assert f"stopped by {number.name} after step 3, which is saved; the same command continues" in "\n".join(messages)


def test_a_second_interrupt_ends_at_once(run):
    def interrupt_twice(step):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(CountingTrainer(on_step=interrupt_twice), 20)


@pytest.mark.parametrize(
    ("trainer", "error", "message"),
    [
        (
            fail_at(5, tf.errors.NotFoundError(None, None, "b.tfrecord; No such file or directory\nmore")),
            OSError,
            r"^the data cannot be read any more \(b.tfrecord; No such file or directory\); .* continues from step 4$",
        ),
        (
            fail_at(1, tf.errors.ResourceExhaustedError(None, None, "OOM")),
            ValueError,
            "does not hold a batch; give recompute, or .*smaller parts; or lower train_batch_size$",
        ),
        (
            fail_at(3, tf.errors.ResourceExhaustedError(None, None, "OOM")),
            ValueError,
            "into smaller parts: the run continues from step 2 with them$",
        ),
    ],
    ids=["missing data", "memory of the first step", "memory of a later step"],
)
def test_failures_of_a_step_are_explained(run, trainer, error, message):
    with pytest.raises(error, match=message):
        run(trainer, 8, 2, iterations_per_loop=1)


def test_a_model_that_is_larger_than_the_memory_is_explained(monkeypatch):
    def fail(*arguments):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    monkeypatch.setattr(trainers, "TensorFlowTrainer", fail)
    with pytest.raises(ValueError, match="^the device's memory does not hold the model's weights .* freeze_layers"):
        trainers.make_trainer(None, tf.distribute.get_strategy(), RunSettings(num_train_steps=1))


def test_of_several_workers_all_stop_where_one_is_asked_to_and_take_as_many_steps_at_once(run, recorder):
    answers = iter([[3, 3, 0, 0], [3, 8, 0, 0], [3, 9, 1, 0]])
    asked = []
    trainer = CountingTrainer()
    assert run(trainer, 20, sums=lambda numbers: asked.append(numbers) or next(answers)) == (None, False)
    assert trainer.calls == [1, 2]  # 8 // 3: the average of the three suggestions
    assert asked[0] == [1, 1, 0, 0]
    assert recorder.saved == [3]


def test_an_evaluation_comes_after_the_checkpoint_of_its_step_and_may_end_training(run, recorder):
    def judge(step, metrics):
        recorder.order.append(f"judged {step}: {metrics['f1']}")
        return step == 6

    result = run(CountingTrainer(), 20, 4, eval_steps=2, evaluate=evaluation_of(f1=0.5), judge=judge)
    assert result == ({"f1": 0.5}, True)
    # Step 6 is saved because training ends there. Evaluations are recorded last: a kill may repeat them, not skip them.
    first = ["judged 2: 0.5", "noted 2", "saved 4", "judged 4: 0.5", "noted 4"]
    assert recorder.order == [*first, "judged 6: 0.5", "noted 6", "saved 6"]


@pytest.mark.parametrize(("failing", "saved"), [(2, []), (4, [4]), (10, [4, 8, 10])])
def test_an_evaluation_that_fails_does_not_keep_a_step_from_being_saved(run, recorder, failing, saved):
    trainer = CountingTrainer()

    def evaluate():
        if int(trainer.global_step.numpy()) == failing:
            raise MemoryError("no room")
        yield Evaluation({})

    with pytest.raises(MemoryError, match="no room"):
        run(trainer, 10, 4, eval_steps=2, evaluate=evaluate)
    assert recorder.saved == saved


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("step", "saved"), [(4, [4]), (6, [4, 6]), (10, [4, 8, 10])])
def test_a_signal_ends_an_evaluation_before_its_next_batch(run, recorder, number, step, saved):
    trainer, batches = CountingTrainer(), []

    def evaluate():
        for batch in range(10):
            yield None
            batches.append(batch)
            if int(trainer.global_step.numpy()) == step and batch == 2:
                os.kill(os.getpid(), number)
        yield Evaluation({"f1": 1.0})

    handler = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) if number == signal.SIGINT else contextlib.nullcontext():
        assert run(trainer, 10, 4, eval_steps=2, iterations_per_loop=1, evaluate=evaluate) == (None, False)
    signal.signal(number, handler)
    assert batches[-4:] == [9, 0, 1, 2]
    assert recorder.saved == saved
    assert step not in recorder.evaluated


def test_workers_leave_an_evaluation_together(run, recorder):
    evaluated = []

    def sums(numbers):
        asked = len(evaluated) == 3  # another worker's signal
        return [2 * numbers[0], 2 * numbers[1], int(asked), 0]

    def evaluate():
        for _ in range(10):
            yield None
            evaluated.append(1)

    assert run(CountingTrainer(), 1, evaluate=evaluate, sums=sums) == (None, False)
    assert (len(evaluated), recorder.saved) == (3, [1])


@pytest.mark.parametrize(("start", "evaluated", "saved"), [(4, [4, 6, 8], [8]), (8, [8], [])])
def test_an_evaluation_that_is_missing_comes_first(run, recorder, start, evaluated, saved):
    trainer = CountingTrainer(start=start)
    assert run(trainer, 8, 8, eval_steps=2, evaluate=evaluation_of(f1=1)) == ({"f1": 1}, True)
    assert (recorder.evaluated, recorder.saved) == (evaluated, saved)


def test_an_evaluation_that_is_missing_may_end_training(run, recorder):
    trainer = CountingTrainer(start=4)
    result = run(trainer, 8, 8, eval_steps=2, evaluate=evaluation_of(f1=1), judge=lambda step, metrics: True)
    assert (trainer.calls, recorder.evaluated, result) == ([], [4], ({"f1": 1}, True))
