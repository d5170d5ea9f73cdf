"""Starts TensorFlow quickly, with the settings that all programs share, and without the lines that it greets with."""

import contextlib
import gc
import os
import shutil
import subprocess
import sys

# Environment variables that TensorFlow reads while it is imported. A value that the user has set wins.
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "1",  # warnings and errors
    # Without it, one process takes the whole memory of every GPU that it sees.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    # The allocator keeps the memory of large tensors from step to step. Without it, each step returns the memory to the
    # system and asks for it again.
    "TF_CPU_ALLOCATOR_USE_BFC": "1",
}
# That allocator would stop at 64 GB.
_ALLOCATOR_LIMIT = "TF_CPU_BFC_MEM_LIMIT_IN_MB"

# What TensorFlow 2.21 tells every user, before any setting of its log takes hold; the last two only where there is no
# GPU. All other lines (a GPU whose libraries are missing, the reason of an abort) are shown.
_GREETINGS = (
    "All log messages before absl::InitializeLog|oneDNN custom operations are on"
    "|optimized to use available CPU|To enable the following instructions"
)
_GREETINGS_WITHOUT_GPU = (
    "|Could not find cuda drivers|failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR"
)
# Runs in its own process, so that the last words of a process that aborts are shown too.
_FILTER = """
import re, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
greetings = re.compile(sys.argv[1].encode())
for line in sys.stdin.buffer:
    if not greetings.search(line):
        sys.stderr.buffer.write(line)
        sys.stderr.flush()
"""
_SECONDS_FOR_FILTER = 10.0


def start_tensorflow():
    """Imports TensorFlow for a program, which calls this before anything else: its environment variables are set.

    Products of float32 numbers are computed in float32 on every device, see
    `training.distribution.devices.strategy_of`. The lines that TensorFlow 2.21 greets with are left out of standard
    error, unless TF_CPP_MIN_LOG_LEVEL=0 asks for all lines.
    """
    values = {name: os.environ.setdefault(name, value) for name, value in _ENVIRONMENT.items()}
    if values["TF_CPU_ALLOCATOR_USE_BFC"] != "0" and hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        os.environ.setdefault(_ALLOCATOR_LIMIT, str(max(memory >> 20, 2**16)))
    shows_all = values["TF_CPP_MIN_LOG_LEVEL"] == "0"
    try:
        with contextlib.nullcontext() if shows_all else _without_greetings():
            tf = _import_tensorflow()
            tf.config.list_physical_devices()
    except KeyboardInterrupt:  # nothing has begun, and `cli.flags.run_main` is not there yet
        print(f"{os.path.basename(sys.argv[0])}: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
    tf.config.experimental.enable_tensor_float_32_execution(False)


@contextlib.contextmanager
def _without_greetings():
    """Sends standard error through a process that leaves out greetings and shows every other line at once."""
    greetings = _GREETINGS if _has_nvidia_gpu() else _GREETINGS + _GREETINGS_WITHOUT_GPU
    sys.stderr.flush()
    standard_error = os.dup(2)
    reader = subprocess.Popen([sys.executable, "-I", "-S", "-c", _FILTER, greetings], stdin=subprocess.PIPE)
    os.dup2(reader.stdin.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(standard_error, 2)
        os.close(standard_error)
        reader.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process that TensorFlow started still holds the pipe
            reader.wait(_SECONDS_FOR_FILTER)


def _has_nvidia_gpu():
    """Returns whether the machine has an NVIDIA GPU or its driver, whatever TensorFlow finds."""
    return os.path.exists("/proc/driver/nvidia") or os.path.exists("/dev/nvidia0") or bool(shutil.which("nvidia-smi"))


def _import_tensorflow():
    """Returns TensorFlow. Where it is the first to import it, Python's search for garbage leaves its 700,000 objects
    alone, none of which ever is: a third of the time that the import takes, and nearly all that the program's end does.
    """
    is_first, is_searching = "tensorflow" not in sys.modules, gc.isenabled()
    if is_first:
        gc.disable()
    try:
        import tensorflow as tf
    finally:
        if is_searching:
            gc.enable()
    if is_first:
        gc.freeze()
    return tf
