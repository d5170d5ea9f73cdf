"""Several devices, here parts of one processor, give the results of one, also in float16 and compiled by XLA."""

import os
import pathlib
import subprocess
import sys

import pytest
import quick_start

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.slow  # each is a process that builds the network for one device and for several
@pytest.mark.parametrize(
    ("script", "arguments", "last_lines"),
    [
        (
            "several_devices.py",
            ["pack", "train", "copy"],
            [
                "packed as one",
                # 25 weights, two slots of each, and the step.
                "as one in 76 of 76 values of the state, and without a gradient nothing moves",
                "other masks on each, and a loss of one of them that is not finite is seen",
            ],
        ),
        (
            "two_devices.py",
            ["overflow", "replace", "texts"],  # builds several networks
            [
                "what overflows on one device is left out on both",
                "other samples on each, and as one with a seed for each example",
                "compared with the texts of both devices, and in 16 bits as in 32",
            ],
        ),
        # compiles the network for each device, and builds it again uncompiled
        ("two_devices.py", ["compile"], ["compiled on two devices as on one without a compiler"]),
        # runs the program on 1, 2 and 8 devices
        pytest.param(
            "few_shot_on_devices.py",
            [],
            ["37 texts: as on one device", "7 texts: as on one device"],
            marks=pytest.mark.rare,
        ),
    ],
    ids=["four", "two", "compiled", "few_shot"],
)
def test_several_devices_compute_as_one(script, arguments, last_lines):
    # A new process, because devices must be configured before TensorFlow starts.
    command = [sys.executable, quick_start.__file__, str(ROOT / "tests" / "support" / script), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "not packing values" not in done.stderr  # otherwise TensorFlow would exchange each gradient separately
    assert done.stdout.splitlines()[-len(last_lines) :] == last_lines
