"""The progress on the screen."""

import io
import logging

import pytest
import rich.console

from bert_keras.cli.console import LogHandler
from bert_keras.engine.report import Report
from bert_keras.mistakes import flag_name
from bert_keras.settings.groups import RunSettings


class TwoMetrics:
    metric_names = ("masked_lm_loss", "masked_lm_accuracy")

    def metrics(self, numerators, denominators):
        return {name: numerators[name] / denominators[name] for name in self.metric_names}


class Rows:
    def __init__(self):
        self.rows = []

    def write(self, step, split, values):
        self.rows.append((step, split, values))

    def close(self):
        self.rows.append("closed")


def totals(loss, steps=1):
    sums = {"masked_lm_loss": 4.0 * steps, "masked_lm_accuracy": 1.0 * steps}
    return {
        "numerators": sums,
        "denominators": dict.fromkeys(sums, 2.0 * steps),
        "loss": loss * steps,
        "gradient_norm": 3.0 * steps,
    }


@pytest.fixture
def screen():
    """Return the output of a report; restore the project's logger afterwards."""
    log = logging.getLogger("bert_keras")
    handlers, level = log.handlers, log.level
    yield io.StringIO()
    log.handlers = handlers
    log.setLevel(level)


def make_report(screen, rows, is_terminal):
    console = rich.console.Console(file=screen, force_terminal=is_terminal, width=200)
    log = logging.getLogger("bert_keras")
    log.setLevel(logging.INFO)
    log.handlers = [LogHandler(console, flag_name)]
    settings = RunSettings(train_batch_size=8, num_train_steps=9)
    return Report(TwoMetrics(), lambda step: 0.25 * step, settings, 0, console, [rows])


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_first_step_shows_its_figures(screen, is_terminal):
    with make_report(screen, Rows(), is_terminal) as report:
        report.steps(1, 1, totals(5.0), seconds=2.0)
    shown = screen.getvalue()
    assert "loss 5, masked_lm_loss 2, masked_lm_accuracy 50.0 %, lr 0" in shown
    assert "step 1/9" in shown


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("first", [1, 3])
def test_the_time_left_is_that_of_steps_after_the_first_call_which_compiles(screen, is_terminal, first, monkeypatch):
    monkeypatch.setattr("bert_keras.engine.report._SECONDS_BETWEEN_LINES", 0.0)
    with make_report(screen, Rows(), is_terminal) as report:
        report.steps(first, first, totals(5.0, steps=first), seconds=5000.0)
        before = screen.getvalue()
        report.steps(first + 2, 2, totals(5.0, steps=2), seconds=4.0)
    assert "left" not in before
    assert "examples/s" not in before
    assert f"4 examples/s, 0:00:{2 * (9 - first - 2):02} left" in screen.getvalue()


def test_a_row_averages_the_steps_since_the_one_before(screen):
    rows = Rows()
    with make_report(screen, rows, False) as report:
        report.steps(1, 1, totals(5.0), seconds=30.0)
        report.row(1)
        report.steps(2, 1, totals(4.0), seconds=1.0)
        report.steps(5, 3, totals(2.0, steps=3), seconds=1.0)
        report.row(5)
        report.evaluation(5, {"loss": 1.23456, "x_accuracy": 0.875})
    [first, second, evaluation, closed] = rows.rows
    assert first[2]["loss"] == 5.0
    assert "examples_per_second" not in first[2]  # the first call builds the graph
    assert second[:2] == (5, "train")
    assert second[2]["loss"] == pytest.approx((4.0 + 3 * 2.0) / 4)
    assert second[2]["gradient_norm"] == pytest.approx(3.0)
    assert second[2]["masked_lm_accuracy"] == pytest.approx(0.5)
    assert second[2]["learning_rate"] == 1.0  # of the fifth update, which read step 4
    assert second[2]["examples_per_second"] == pytest.approx(8 * 4 / 2)
    assert evaluation == (5, "eval", {"loss": 1.23456, "x_accuracy": 0.875})
    assert closed == "closed"
    assert "evaluation after step 5: loss 1.235, x_accuracy 87.5 %\n" in screen.getvalue()


def test_steps_that_were_skipped_are_told_and_count_for_nothing(screen):
    rows = Rows()

    def with_scale(sums, num_skipped, scale):
        return {**sums, "num_skipped": float(num_skipped), "loss_scale": scale}

    with make_report(screen, rows, False) as report:
        report.steps(1, 1, with_scale(totals(0.0, steps=0), 1, 8.0), seconds=1.0)
        report.row(1)
        report.steps(4, 3, with_scale(totals(2.0, steps=1), 2, 2.0), seconds=1.0)
        report.steps(6, 2, with_scale(totals(3.0, steps=2), 0, 2.0), seconds=1.0)
        report.row(6)
    [(_, _, first), (_, _, second), _] = rows.rows
    assert first == {"learning_rate": 0.0, "loss_scale": 8.0, "skipped_steps": 1.0}
    assert second["loss"] == pytest.approx((2.0 + 2 * 3.0) / 3)
    assert second["gradient_norm"] == pytest.approx(3.0)
    assert (second["loss_scale"], second["skipped_steps"]) == (2.0, 2.0)
    end = "changed no weights because the gradients overflowed float16; the loss scale is now"
    lines = screen.getvalue().splitlines()
    assert [line for line in lines if "changed" in line] == [
        f"1 step up to step 1 {end} 8",
        f"2 steps up to step 4 {end} 2",
    ]


def test_warnings_are_marked(screen):
    make_report(screen, Rows(), False)
    logging.getLogger("bert_keras").warning("the [corpus] is small")
    assert screen.getvalue() == "warning: the [corpus] is small\n"
