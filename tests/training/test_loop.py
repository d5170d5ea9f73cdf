"""The training loop: the schedule of its actions, and its end."""

import contextlib
import os
import signal

import pytest
import tensorflow as tf

from bert_keras.training.loop import Pace, train


class CountingTrainer:
    """A trainer that counts steps; `losses` and `norms` give its loss and gradient norm by step, 1 elsewhere."""

    def __init__(self, losses=None, on_step=None, norms=None):
        self.global_step = tf.Variable(0, dtype=tf.int64)
        self.state = {"global_step": self.global_step}
        self.calls = []
        self._losses = losses or {}
        self._norms = norms or {}
        self._on_step = on_step

    def train(self, iterator, num_steps):
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

    def __init__(self):
        self.saved, self.rows, self.evaluated, self.steps_seen = [], [], [], 0

    def save(self, step, state):
        assert int(state["global_step"].numpy()) == step
        self.saved.append(step)

    def latest_step(self):
        return self.saved[-1] if self.saved else 0

    def steps(self, step, num_steps, totals, seconds):
        self.steps_seen += num_steps

    def row(self, step):
        self.rows.append(step)

    def evaluation(self, step, metrics):
        self.evaluated.append(step)


def run(trainer, pace, **arguments):
    recorder = Recorder()
    result, _ = train(trainer, [None], recorder, recorder, pace, **arguments)
    return recorder, result


def test_everything_happens_in_its_time_and_at_the_end():
    trainer = CountingTrainer()
    pace = Pace(num_train_steps=50, save_checkpoints_steps=20, log_steps=7, eval_steps=15, iterations_per_loop=4)
    recorder, result = run(trainer, pace, evaluate=lambda check_stop: {"loss": 0.5})
    assert recorder.saved == [20, 40, 50]
    assert recorder.rows == [1, 7, 14, 21, 28, 35, 42, 49, 50]
    assert recorder.evaluated == [15, 30, 45, 50]
    assert recorder.steps_seen == 50
    assert max(trainer.calls) <= 4
    assert trainer.calls[0] == 1
    assert result == {"loss": 0.5}


def test_without_eval_steps_there_is_one_evaluation_at_the_end():
    recorder, _ = run(CountingTrainer(), Pace(6, 100, 100), evaluate=lambda check_stop: {})
    assert recorder.evaluated == [6]


def test_calls_of_the_device_grow_as_long_as_they_are_short():
    now = [0.0]

    def take(step):
        now[0] += 0.001 if step < 500 else 0.6

    trainer = CountingTrainer(on_step=take)
    run(trainer, Pace(1000, 1000, 1000, iterations_per_loop=64), clock=lambda: now[0])
    assert trainer.calls[:8] == [1, 2, 4, 8, 16, 32, 64, 64]
    # Longer calls shrink to half a second: 64 x 0.5 / 0.6.
    slow = trainer.calls[trainer.calls.index(53) :]
    assert slow[:3] == [53, 44, 36]


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_training_and_names_the_steps(loss):
    trainer = CountingTrainer({8: loss})
    with pytest.raises(
        ValueError,
        match="the loss or its gradient is not finite in steps 6 to 10; the checkpoint of step 5 is from",
    ):
        run(trainer, Pace(20, 5, 5))
    with pytest.raises(ValueError, match="the loss or its gradient is not finite in steps 6 to 10"):
        run(CountingTrainer(norms={8: loss}), Pace(20, 5, 5))
    trainer = CountingTrainer({1: loss})
    with pytest.raises(ValueError, match="the loss or its gradient is not finite in step 1; start again with a lower"):
        run(trainer, Pace(20, 5, 5))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("save_checkpoints_steps", [3, 100])
def test_a_signal_ends_training_after_the_step_and_saves_once(number, save_checkpoints_steps, messages):
    handler = signal.getsignal(number)
    trainer = CountingTrainer(on_step=lambda step: os.kill(os.getpid(), number) if step == 3 else None)
    recorder = Recorder()
    pace = Pace(20, save_checkpoints_steps, 100)
    # Raises Ctrl-C again, so that the calling program ends too.
    with pytest.raises(KeyboardInterrupt) if number == signal.SIGINT else contextlib.nullcontext():
        assert train(trainer, [None], recorder, recorder, pace, evaluate=lambda check_stop: {}) == (None, False)
    assert recorder.saved == [3]
    assert recorder.evaluated == []
    if number == signal.SIGTERM:
        os.kill(os.getpid(), number)  # arrives late, and has no effect
        signal.signal(number, handler)
    assert signal.getsignal(number) == handler
    assert f"stopped by {number.name} after step 3, which is saved; the same command continues" in "\n".join(messages)


def test_a_second_interrupt_ends_at_once():
    def interrupt_twice(step):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(CountingTrainer(on_step=interrupt_twice), Pace(20, 100, 100))


def test_a_failure_of_reading_is_explained():
    def fail(step):
        raise tf.errors.DataLossError(None, None, "corrupted record")

    with pytest.raises(ValueError, match="file number two"):
        run(CountingTrainer(on_step=fail), Pace(2, 2, 2), explain=lambda error: ValueError("file number two"))


def test_data_that_are_gone_are_told_with_the_step_to_go_on_from():
    def fail(step):
        if step == 5:
            raise tf.errors.NotFoundError(None, None, "b.tfrecord; No such file or directory\nmore")

    message = r"^the data cannot be read any more \(b.tfrecord; No such file or directory\); .* continues from step 4$"
    with pytest.raises(OSError, match=message):
        run(CountingTrainer(on_step=fail), Pace(8, 2, 2, iterations_per_loop=1))


def test_of_several_workers_all_stop_where_one_is_asked_to_and_take_as_many_steps_at_once():
    answers = iter([[3, 3, 0, 0], [3, 8, 0, 0], [3, 9, 1, 0]])
    asked = []
    trainer = CountingTrainer()
    recorder, result = run(trainer, Pace(20, 100, 100), sums=lambda numbers: asked.append(numbers) or next(answers))
    assert trainer.calls == [1, 2]  # 8 // 3: the average of the three suggestions
    assert asked[0] == [1, 1, 0, 0]
    assert recorder.saved == [3]
    assert result is None


def test_a_device_without_memory_for_a_batch_is_told():
    def fail(step):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    with pytest.raises(ValueError, match="does not hold a batch; give --recompute, or .*smaller parts; or lower --tr"):
        run(CountingTrainer(on_step=fail), Pace(2, 2, 2), explain=lambda error: error)


def test_an_evaluation_comes_after_the_checkpoint_of_its_step_and_may_end_training():
    order = []
    trainer, recorder = CountingTrainer(), Recorder()
    recorder.save = lambda step, state: order.append(f"saved {step}")
    recorder.evaluation = lambda step, metrics: order.append(f"noted {step}")

    def judge(step, metrics):
        order.append(f"judged {step}: {metrics['f1']}")
        return step == 6

    pace = Pace(num_train_steps=20, save_checkpoints_steps=4, log_steps=20, eval_steps=2)
    result = train(trainer, [None], recorder, recorder, pace, evaluate=lambda check_stop: {"f1": 0.5}, judge=judge)
    assert result == ({"f1": 0.5}, True)
    # Step 6 is saved because training ends there. Evaluations are recorded last: a kill may repeat them, not skip them.
    first = ["judged 2: 0.5", "noted 2", "saved 4", "judged 4: 0.5", "noted 4"]
    assert order == [*first, "judged 6: 0.5", "noted 6", "saved 6"]
    assert int(trainer.global_step.numpy()) == 6


@pytest.mark.parametrize(("failing", "saved"), [(2, []), (4, [4]), (10, [4, 8, 10])])
def test_an_evaluation_that_fails_does_not_keep_a_step_from_being_saved(failing, saved):
    trainer, recorder = CountingTrainer(), Recorder()

    def evaluate(check_stop):
        if int(trainer.global_step.numpy()) == failing:
            raise MemoryError("no room")
        return {}

    with pytest.raises(MemoryError, match="no room"):
        train(trainer, [None], recorder, recorder, Pace(10, 4, 20, eval_steps=2), evaluate=evaluate)
    assert recorder.saved == saved


def test_without_memory_a_run_that_has_saved_is_told_what_may_change():
    def fail(step):
        if step == 3:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    with pytest.raises(ValueError, match="into smaller parts: the run continues from step 2 with them$"):
        run(CountingTrainer(on_step=fail), Pace(4, 2, 2, iterations_per_loop=1))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("step", "saved"), [(4, [4]), (6, [4, 6]), (10, [4, 8, 10])])
def test_a_signal_ends_an_evaluation_before_its_next_batch(number, step, saved):
    trainer, recorder, batches = CountingTrainer(), Recorder(), []

    def evaluate(check_stop):
        for batch in range(10):
            check_stop()
            batches.append(batch)
            if int(trainer.global_step.numpy()) == step and batch == 2:
                os.kill(os.getpid(), number)
        return {"f1": 1.0}

    pace = Pace(10, 4, 20, eval_steps=2, iterations_per_loop=1)
    handler = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) if number == signal.SIGINT else contextlib.nullcontext():
        assert train(trainer, [None], recorder, recorder, pace, evaluate=evaluate) == (None, False)
    signal.signal(number, handler)
    assert batches[-4:] == [9, 0, 1, 2]
    assert recorder.saved == saved
    assert step not in recorder.evaluated


def test_workers_leave_an_evaluation_together():
    evaluated = []

    def sums(numbers):
        asked = len(evaluated) == 3  # another worker's signal
        return [2 * numbers[0], 2 * numbers[1], int(asked), 0]

    def evaluate(check_stop):
        for _ in range(10):
            check_stop()
            evaluated.append(1)

    trainer, recorder = CountingTrainer(), Recorder()
    assert train(trainer, [None], recorder, recorder, Pace(1, 9, 9), evaluate=evaluate, sums=sums) == (None, False)
    assert (len(evaluated), recorder.saved) == (3, [1])


@pytest.mark.parametrize(("start", "evaluated", "saved"), [(4, [4, 6, 8], [8]), (8, [8], [])])
def test_an_evaluation_that_is_owed_comes_first(start, evaluated, saved):
    trainer = CountingTrainer()
    trainer.global_step.assign(start)
    recorder, metrics = run(
        trainer, Pace(8, 8, 20, eval_steps=2), evaluate=lambda _: {"f1": 1}, is_evaluation_owed=True
    )
    assert (recorder.evaluated, recorder.saved) == (evaluated, saved)
    assert metrics == {"f1": 1}


def test_an_evaluation_that_is_owed_may_end_training():
    trainer = CountingTrainer()
    trainer.global_step.assign(4)
    pace = Pace(8, 8, 20, eval_steps=2)
    recorder, metrics = run(
        trainer, pace, evaluate=lambda _: {"f1": 1}, judge=lambda step, metrics: True, is_evaluation_owed=True
    )
    assert (trainer.calls, recorder.evaluated, metrics) == ([], [4], {"f1": 1})
