"""The machine of a benchmark: its description in the output, its peak, and the programs to compare."""

import importlib.metadata
import importlib.util
import os
import platform
import statistics
import time

import numpy as np

from bert_keras.mistakes import Mistake

CPU_INFO = "/proc/cpuinfo"  # Linux
# Instruction sets that determine the speed of matrix products, with Linux's names on x86 and on ARM.
_ON_X86 = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8")
_ON_ARM = ("asimd", "sve", "i8mm", "bf16")
# The fastest size and library depend on the processor.
_PEAK_SIZES = (1024, 2048, 4096)


def processor_name():
    """Returns the name of the processor as the system reports it."""
    return _cpu_info("model name") or platform.processor() or platform.machine()


def instruction_sets():
    """Returns the processor's instruction sets for matrix products, a list of str; empty if unknown."""
    words = f"{_cpu_info('flags')} {_cpu_info('Features')}".split()
    return [name for name in _ON_X86 + _ON_ARM if name in words]


def describe_machine(packages=()):
    """Returns one line with the processor, its instruction sets, and the versions of Python and packages."""
    sets = ", ".join(instruction_sets()) or "instruction sets unknown"
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    line = f"{os.cpu_count()} cores, {processor_name()} ({sets}); Python {platform.python_version()}"
    return f"{line}, {versions}" if versions else line


def check_names(name, given, known):
    """Raises a `Mistake` if a list of names, the value of a flag, has one that is not known."""
    if unknown := [value for value in given if value not in known]:
        raise Mistake('--{} has "{}", but must be some of {}', name, unknown[0], ", ".join(known))


def use_cpu():
    """Hides GPUs from TensorFlow, before it computes anything; tools/check_gpu.py measures them."""
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")


def peak_speed(precision, sizes=_PEAK_SIZES, seconds=1.0):
    """Returns the peak of the machine: the most operations a second of matrix products in float32 or bfloat16.

    It is the best of several sizes and of TensorFlow with and without XLA, PyTorch and NumPy. Each repeats its product
    for some seconds, and its fastest call counts.
    """
    peak = 0.0
    for size in sizes:
        for multiply in _products(np.random.default_rng(0).random((size, size), np.float32), precision):
            multiply()  # compiles
            started = now = time.perf_counter()
            while now - started < seconds:
                before = now
                multiply()
                now = time.perf_counter()
                peak = max(peak, 2 * size**3 / (now - before))
    return peak


def _products(x, precision):
    """Yields functions that multiply a matrix by itself and wait for the product."""
    import tensorflow as tf

    values = tf.cast(x, precision)
    for is_compiled in (False, True):
        product = tf.function(lambda: tf.matmul(values, values), jit_compile=is_compiled)
        yield lambda product=product: product()[0, 0].numpy()
    if importlib.util.find_spec("torch"):
        import torch

        tensor = torch.tensor(x, dtype=getattr(torch, precision))
        yield lambda: (tensor @ tensor)[0, 0].item()
    if precision == "float32":
        yield lambda: x @ x


def spread(values, num_digits):
    """Returns the median with the lowest and the highest value."""
    median, lowest, highest = (f"{f(values):.{num_digits}f}" for f in (statistics.median, min, max))
    return f"{median} ({lowest} to {highest})"


def _cpu_info(name):
    try:
        with open(CPU_INFO, encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.split(":")[0].strip() == name), "")
    except OSError:
        return ""
