"""Float16 and XLA on two devices, here parts of one processor: see `scaled_devices.py`."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ("overflow", "what overflows on one device is left out on both"),
        # Compiles the network for each device, and builds it again uncompiled.
        pytest.param("compile", "compiled on two devices as on one without a compiler", marks=pytest.mark.slow),
    ],
)
def test_two_devices_leave_out_the_same_steps_and_compile_the_same_network(part, line):
    # A new process, because devices must be configured before TensorFlow starts.
    command = [sys.executable, str(ROOT / "tests" / "support" / "scaled_devices.py"), part]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == line
