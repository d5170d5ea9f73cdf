"""What tests of training runs share: the metrics in a run folder, comparisons, and actions before a step."""

import os
import signal

import numpy as np

from bert_keras.engine import loop
from bert_keras.runs.metrics_log import read_metrics
from bert_keras.storage import paths

_steps_until_due = loop.steps_until_due


def rows_of(folder):
    """Returns the rows of metrics.csv without the column that depends on the clock."""
    rows = read_metrics(paths.join(str(folder), "metrics.csv"))
    return [{name: value for name, value in row.items() if name != "examples_per_second"} for row in rows]


def assert_near(weights, expected, atol=1e-6):
    """Compares the weights and slots of two runs, except those whose gradients are rounding errors."""
    assert weights.keys() == expected.keys()
    for name, value in weights.items():
        # The softmax does not depend on the key biases, so Adam amplifies their gradients.
        if "self/key/bias" not in name:
            np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=atol, err_msg=name)


def results_in(folder, name="eval_results.txt"):
    """Returns the results of a run as a dict of str."""
    return dict(line.split(" = ") for line in (folder / name).read_text().splitlines())


def act_before(patch, step, action):
    """Makes every run call `action` when it has reached a step, in place of an earlier action."""

    def acting(settings, at):
        if at == step:
            action()
        return _steps_until_due(settings, at)

    patch.setattr(loop, "steps_until_due", acting)


def stop_after(patch, step):
    """Sends the process SIGTERM just before the step after `step`."""
    act_before(patch, step, lambda: os.kill(os.getpid(), signal.SIGTERM))
