"""Runs Python in a new process with another backend of Keras."""

import functools
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
def _compiled():
    """Returns a folder for what JAX compiles; each worker has its own, since JAX cannot write one for several."""
    return tempfile.TemporaryDirectory()


def environment_of(backend, num_devices=1):
    """Returns what a process needs to run on a backend, on the CPU, with a number of devices on JAX."""
    return {
        "KERAS_BACKEND": backend,
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        # JAX compiles each operation separately, and again in each process; the tests compare formulas, not speed.
        "JAX_COMPILATION_CACHE_DIR": _compiled().name,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        # Without its newer emitters, XLA compiles for half as long.
        "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
        f"--xla_force_host_platform_device_count={num_devices} "
        "--xla_cpu_collective_call_terminate_timeout_seconds=400",  # a busy machine may be slow
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


def run_on(backend, *arguments, num_devices=1, status=0):
    """Run `python` with arguments on a backend, with a number of devices on JAX, and return what it prints.

    Skips the test if the backend is not installed, and fails with the last output if the process ends with another
    status.
    """
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"the backend {backend} is not installed")
    environment = os.environ | environment_of(backend, num_devices)
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == status, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def run_tests_on(backend, *files, marker):
    """Run files of tests on a backend, and return what pytest prints."""
    options = ["-n", "0", "-q", "-p", "no:cacheprovider", "-m", marker]
    printed = run_on(backend, "-m", "pytest", *options, *files)
    assert " passed" in printed
    return printed
