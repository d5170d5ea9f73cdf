"""Two and four devices, here parts of one processor, give the results of one: see `several_devices.py`."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


# A graph four times as large, which takes long to build.
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_several_devices_train_evaluate_and_answer_as_one(count):
    # A new process, because devices must be configured before TensorFlow starts.
    command = [sys.executable, str(ROOT / "tests" / "support" / "several_devices.py"), str(count)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "not packing values" not in done.stderr  # otherwise TensorFlow would exchange each gradient separately
    assert done.stdout.splitlines()[-3:] == [
        "packed as one",
        # 25 weights, two slots of each, and the step.
        "as one in 76 of 76 values of the state, and without a gradient nothing moves",
        "masks of their own, and one of them with a loss that is not finite is seen",
    ]
