"""Starting TensorFlow: hides its start-up messages, shows all others, and applies the project's settings."""

import gc
import os
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from bert_keras.cli import start
from bert_keras.cli.start import start_tensorflow

ROOT = pathlib.Path(__file__).resolve().parents[2]
ONEDNN = "I0000 port.cc:153] oneDNN custom operations are on. You may see\n"
NO_DRIVERS = "I0000 cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used.\n"
NO_LIBRARIES = "W0000 gpu_device.cc:2341] Cannot dlopen some GPU libraries.\n"
NO_DEVICE = "E0000 failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)\n"
FAKE = """
import gc, os, types
is_searching = gc.isenabled()
experimental = types.SimpleNamespace(enable_tensor_float_32_execution=lambda is_on: None)
config = types.SimpleNamespace(list_physical_devices=lambda: None, experimental=experimental)
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Restore the environment variables that a test changes."""
    for name in (*start._ENVIRONMENT, start._ALLOCATOR_LIMIT):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_a_program_that_runs_in_this_process_changes_no_environment():
    start_tensorflow()
    assert not {*start._ENVIRONMENT, start._ALLOCATOR_LIMIT} & set(os.environ)


START = "from bert_keras.cli.start import start_tensorflow; start_tensorflow()\n"


def run_with(tensorflow, tmp_path, program=START, **environment):
    """Runs a program in its own process, with a stand-in for TensorFlow that begins like `FAKE`."""
    (tmp_path / "tensorflow.py").write_text(FAKE + tensorflow)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    environment = {**kept, "PYTHONPATH": f"{tmp_path}:{ROOT}", **environment}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize(
    ("has_gpu", "level", "shown"),
    [
        (False, "1", NO_LIBRARIES),
        (True, "1", NO_DRIVERS + NO_LIBRARIES + NO_DEVICE),
        (False, "0", ONEDNN + NO_DRIVERS + NO_LIBRARIES),  # TensorFlow looks for devices later
    ],
)
def test_only_greetings_are_left_out(tmp_path, has_gpu, level, shown):
    program = (
        "import os; from bert_keras.cli import start\n"
        f"start._has_nvidia_gpu = lambda: {has_gpu}\n"
        "start.start_tensorflow(); os.write(2, b'later\\n')\n"
    )
    tensorflow = (
        f"os.write(2, {(ONEDNN + NO_DRIVERS + NO_LIBRARIES).encode()})\n"
        f"config.list_physical_devices = lambda: os.write(2, {NO_DEVICE.encode()})\n"
    )
    done = run_with(tensorflow, tmp_path, program, TF_CPP_MIN_LOG_LEVEL=level)
    assert done.stderr == f"{shown}later\n"


@pytest.mark.parametrize(
    ("arguments", "is_started"),
    [
        (["--input_file=gs://bucket/a.txt"], True),
        (["--init_checkpoint=hf://owner/name", "--train_file=a.csv, gs://bucket/b.csv"], True),
        (["-output_dir=ram://a"], True),
        (["--init_checkpoint=hf://owner/name", "--train_file=file:///a.csv", "--has_header", "gs://no.flag"], False),
    ],
)
def test_a_program_that_reads_addresses_starts_without_greetings(tmp_path, arguments, is_started):
    program = (
        f"import sys; sys.argv[1:] = {arguments}\n"
        "from bert_keras.cli.flags import as_program\n"
        "as_program(lambda argv: print('tensorflow' in sys.modules))\n"
    )
    done = run_with(f"os.write(2, {(ONEDNN + NO_DRIVERS).encode()})\n", tmp_path, program)
    assert (done.stdout, done.stderr) == (f"{is_started}\n", "")


def test_the_reason_of_a_failed_import_is_shown(tmp_path):
    done = run_with("os.abort()\n", tmp_path)
    assert done.returncode < 0
    assert done.stderr.startswith("Fatal Python error: Aborted\n")
    assert "tensorflow.py" in done.stderr
    for environment in ({}, {"TF_CPP_MIN_LOG_LEVEL": "0"}):
        done = run_with('raise ImportError("no such library")\n', tmp_path, **environment)
        assert done.returncode == 1
        assert done.stderr.endswith("ImportError: no such library\n")


def test_the_backend_of_the_users_settings_does_not_matter(tmp_path):
    program = START + "import os; print(os.environ['KERAS_BACKEND'])\n"
    assert run_with("", tmp_path, program).stdout == "tensorflow\n"
    done = run_with("", tmp_path, program, KERAS_BACKEND="chainer")
    assert done.stderr.endswith(": KERAS_BACKEND is chainer, which is not installed; set KERAS_BACKEND=tensorflow\n")


def test_settings_of_the_environment_are_made_unless_the_user_has_chosen(tmp_path):
    program = START + (
        "import os\n"
        "print(*(os.environ.get(name) for name in "
        '("TF_CPP_MIN_LOG_LEVEL", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_CPU_ALLOCATOR_USE_BFC")))\n'
        'print(int(os.environ.get("TF_CPU_BFC_MEM_LIMIT_IN_MB", 0)))\n'
    )
    values, limit = run_with("", tmp_path, program).stdout.splitlines()
    assert values == "1 true 1"
    # At least the allocator's default, and all memory of a larger machine.
    assert int(limit) >= max(2**16, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20)
    chosen = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_FORCE_GPU_ALLOW_GROWTH": "false", "TF_CPU_ALLOCATOR_USE_BFC": "0"}
    assert run_with("", tmp_path, program, **chosen).stdout == "2 false 0\n0\n"
    of_user = {"TF_CPU_BFC_MEM_LIMIT_IN_MB": "3000"}
    assert run_with("", tmp_path, program, **of_user).stdout == "1 true 1\n3000\n"


def test_products_of_float32_numbers_are_computed_in_float32():
    tf.config.experimental.enable_tensor_float_32_execution(True)
    start_tensorflow()
    assert not tf.config.experimental.tensor_float_32_execution_enabled()


def test_nothing_of_tensorflow_is_searched_for_garbage(tmp_path, monkeypatch):
    (tmp_path / "tensorflow.py").write_text(FAKE)
    frozen = gc.get_freeze_count()
    start_tensorflow()  # other code has imported it and uses its objects
    assert gc.get_freeze_count() <= frozen  # objects that are frozen may be freed
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tensorflow")
    start_tensorflow()
    assert not sys.modules["tensorflow"].is_searching
    assert gc.isenabled()
    # The objects stay frozen: after `gc.unfreeze`, each collection in later tests would search all of TensorFlow.
    assert gc.get_freeze_count() > frozen


def test_ctrl_c_while_tensorflow_is_imported_is_one_line(tmp_path):
    ended = run_with("raise KeyboardInterrupt\n", tmp_path)
    assert (ended.returncode, ended.stderr.strip().splitlines()) == (130, ["-c: interrupted"])


HIDDEN = start._HIDDEN["tensorflow"]
IMPORTS_ALL = "".join(f"try:\n    import {name}\nexcept ImportError:\n    pass\n" for name in HIDDEN)


@pytest.mark.parametrize("is_real", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_tensorflow_and_keras_import_no_large_packages_but_the_program_can(tmp_path, is_real):
    """They would take a third of the time until a prediction."""
    unused = f"assert not set({HIDDEN}) & set(sys.modules)\n"
    program = f"import sys; {unused}import keras, predict; {unused}"
    program += "import bert_keras.tasks.classification.predictor\n" * is_real
    program += f"{unused}import matplotlib.figure, scipy.stats; print('matplotlib.figure' in sys.modules)\n"
    if is_real:
        command = [sys.executable, "-c", START + program]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    else:
        (tmp_path / "keras.py").write_text("")
        done = run_with(IMPORTS_ALL, tmp_path, START + program)
    assert done.stdout == "True\n", done.stderr


def test_keras_on_jax_finds_the_packages_that_jax_needs(tmp_path):
    done = run_with(
        "import scipy, jax", tmp_path, START + "import sys; print('jax' in sys.modules)", KERAS_BACKEND="jax"
    )
    assert done.stdout == "True\n", done.stderr
