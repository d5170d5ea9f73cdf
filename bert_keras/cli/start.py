"""What a program does first in its own process: it opens its streams, and starts TensorFlow quickly and quietly."""

import contextlib
import faulthandler
import gc
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, cast

# What XLA compiles where `engine.precision.clustered` asks for it: not the products.
CLUSTERING_FLAGS = "--tf_xla_cpu_global_jit --tf_xla_ops_to_cluster=FUSIBLE"
# Environment variables that TensorFlow reads during the import. A value that the user has set wins.
_ENVIRONMENT = {
    # Otherwise one process takes the whole memory of every GPU that it sees.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    # This allocator keeps the memory of large tensors between steps, instead of returning it to the system.
    "TF_CPU_ALLOCATOR_USE_BFC": "1",
    "TF_XLA_FLAGS": CLUSTERING_FLAGS,
    # The programs need it, whatever backend ~/.keras/keras.json names.
    "KERAS_BACKEND": "tensorflow",
}
# The default limit of this allocator is 64 GB.
_ALLOCATOR_LIMIT = "TF_CPU_BFC_MEM_LIMIT_IN_MB"

# TensorFlow and Keras import these packages if they find them, for features that no program uses. All of them together
# would take a third of the time of the import. The programs import what they need of them later.
_UNUSED = ("matplotlib", "pandas", "sklearn", "h5py", "IPython")
_HIDDEN = {"tensorflow": (*_UNUSED, "scipy", "jax"), "jax": _UNUSED}  # by the backend of Keras

# TensorFlow reads it too. Warnings and errors are shown from level 1 on, and everything at level 0.
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Lines that TensorFlow 2.21 prints for every user at any level, because they come before it reads the level; the second
# list only without a GPU. All other lines, such as those about missing GPU libraries, are shown.
_GREETINGS = (
    b"All log messages before absl::InitializeLog|oneDNN custom operations are on"
    b"|optimized to use available CPU|To enable the following instructions"
)
_GREETINGS_WITHOUT_GPU = (
    b"|Could not find cuda drivers|failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR"
)


def open_streams() -> None:
    """Makes standard streams that are closed lead nowhere, and those of few characters show the others escaped.

    A file that is opened while a stream is closed would get the stream's number, and messages of libraries with it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            cast(Any, stream).reconfigure(errors="backslashreplace")


def start_tensorflow() -> None:
    """Imports TensorFlow for a program: quickly, without greeting lines, and with the settings of all programs.

    Only programs call it, in their own process, because Keras does not find the packages of `_HIDDEN` afterwards, and
    environment variables change. Nothing of it happens if TensorFlow is imported already, except that products of
    float32 numbers are computed in float32 on every device, see `engine.distribution.devices.strategy_of`. The
    greeting lines of TensorFlow 2.21 do not appear on standard error, unless you set TF_CPP_MIN_LOG_LEVEL=0.
    """
    open_streams()
    if "tensorflow" not in sys.modules:
        _set_environment()
        try:
            with _without_greetings():
                _import_tensorflow()
        except KeyboardInterrupt:  # `cli.flags.run_main` does not run yet
            print(f"{os.path.basename(sys.argv[0])}: interrupted", file=sys.stderr)
            raise SystemExit(130) from None
    sys.modules["tensorflow"].config.experimental.enable_tensor_float_32_execution(False)


def start_for_addresses() -> None:
    """Starts TensorFlow if the command line has an address such as gs://bucket/file, because it reads and writes it.

    Else the first file would import it with all of its greeting lines. A spawned process has the same command line.
    """
    address = re.compile(r"--?\w+=(.*[\s,])?(?!hf:|file:)[a-z][a-z0-9]*://")
    if any(map(address.match, sys.argv[1:])):
        start_tensorflow()


def precision_of_environment() -> str | None:
    """Returns what precision=auto means in prediction by the environment variable BERT_KERAS_PRECISION, or None."""
    return os.environ.get("BERT_KERAS_PRECISION") or None


def is_clustering_possible() -> bool:
    """Returns whether TensorFlow has started with the flags that `engine.precision.clustered` needs."""
    return "xla_ops_to_cluster=FUSIBLE" in os.environ.get("TF_XLA_FLAGS", "")


def may_use_onednn() -> bool:
    """Returns whether the user has not turned oneDNN off, the library that computes on CPUs for TensorFlow."""
    return os.environ.get("TF_ENABLE_ONEDNN_OPTS") != "0"


def _set_environment() -> None:
    values = {name: os.environ.setdefault(name, value) for name, value in _ENVIRONMENT.items()}
    if importlib.util.find_spec(backend := values["KERAS_BACKEND"]) is None:
        program = os.path.basename(sys.argv[0])  # a message, because `cli.flags.run_main` does not run yet
        raise SystemExit(f"{program}: KERAS_BACKEND is {backend}, which is not installed; set KERAS_BACKEND=tensorflow")
    if values["TF_CPU_ALLOCATOR_USE_BFC"] != "0" and hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        os.environ.setdefault(_ALLOCATOR_LIMIT, str(max(memory >> 20, 2**16)))


@contextlib.contextmanager
def _without_greetings() -> Iterator[None]:
    """Keeps TensorFlow's greeting lines off standard error while it is imported, and shows the others at the end.

    It also lists the devices, because that is when TensorFlow writes the last greeting. If TF_CPP_MIN_LOG_LEVEL is 0,
    the block runs as it is.
    """
    stderr, lines = sys.stderr, None
    is_shown = stderr is None or os.environ.setdefault(_LOG_LEVEL, "1") == "0"
    with contextlib.suppress(OSError):  # no folder for temporary files can be written
        lines = None if is_shown else tempfile.TemporaryFile()  # noqa: SIM115
    if lines is None or stderr is None:
        yield
        return
    greetings = re.compile(_GREETINGS if _has_nvidia_gpu() else _GREETINGS + _GREETINGS_WITHOUT_GPU)
    standard_error, shows_aborts = os.dup(2), faulthandler.is_enabled()
    if not shows_aborts:
        faulthandler.enable(standard_error)  # the lines of a process that aborts are lost, but not the place
    stderr.flush()
    os.dup2(lines.fileno(), 2)
    try:
        yield
        sys.modules["tensorflow"].config.list_physical_devices()
    finally:
        stderr.flush()
        os.dup2(standard_error, 2)
        if not shows_aborts:
            faulthandler.disable()
        os.close(standard_error)
        with lines:
            lines.seek(0)
            os.write(2, b"".join(line for line in lines if not greetings.search(line)))


def _has_nvidia_gpu() -> bool:
    """Returns whether the machine has an NVIDIA GPU or its driver, even if TensorFlow does not find it."""
    return os.path.exists("/proc/driver/nvidia") or os.path.exists("/dev/nvidia0") or bool(shutil.which("nvidia-smi"))


def _import_tensorflow() -> None:
    """Imports TensorFlow without garbage collection, and exempts its 700,000 objects from later ones.

    Collection would take a third of the import time and nearly all of the time of the program's exit. TensorFlow and
    Keras do not find the packages of `_HIDDEN`.
    """
    names = _HIDDEN.get(os.environ.get("KERAS_BACKEND", ""), ())
    hidden = [name for name in names if name not in sys.modules]
    is_collecting = gc.isenabled()
    gc.disable()
    cast(dict[str, Any], sys.modules).update(dict.fromkeys(hidden))
    try:
        import tensorflow  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]
        if is_collecting:
            gc.enable()
    gc.freeze()
