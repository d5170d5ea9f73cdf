"""The machine of a benchmark: its description in the output, and the device that all programs use."""

import importlib.metadata
import os
import pathlib
import platform
import statistics

CPU_INFO = "/proc/cpuinfo"  # Linux
DEVICES = ("cpu", "gpu")
# Instruction sets that determine the speed of matrix products, with Linux's names on x86 and on ARM.
_ON_X86 = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8")
_ON_ARM = ("asimd", "sve", "i8mm", "bf16")


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


def use_device(device):
    """Makes TensorFlow use the CPU or a GPU, and returns its name. Call it before TensorFlow computes anything."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if device == "cpu":
        tf.config.set_visible_devices([], "GPU")
        return "CPU"
    if not gpus:
        raise ValueError("--device=gpu: TensorFlow finds no GPU; install bert-keras[gpu], or give --device=cpu")
    return f"GPU, {tf.config.experimental.get_device_details(gpus[0]).get('device_name', 'name unknown')}"


def torch_device(device):
    """Returns PyTorch's name of a device; raises ValueError if it would not be the one that TensorFlow uses."""
    import torch

    if device == "cpu":
        return "cpu"
    if not torch.cuda.is_available():
        raise ValueError(
            "--device=gpu: PyTorch finds no GPU; install a build of it for CUDA, leave its programs out with "
            "--programs=bert-keras, or give --device=cpu"
        )
    return "cuda"


def spread(values, num_digits):
    """Returns the median with the lowest and the highest value."""
    median, lowest, highest = (f"{f(values):.{num_digits}f}" for f in (statistics.median, min, max))
    return f"{median} ({lowest} to {highest})"


def make_work_dir(path):
    """Creates a folder, and returns it as a `pathlib.Path`; raises ValueError if it exists and is not empty."""
    work_dir = pathlib.Path(path)
    if work_dir.exists() and (not work_dir.is_dir() or any(work_dir.iterdir())):
        raise ValueError(f"--work_dir={work_dir} is not an empty folder; give one that is new or empty")
    work_dir.mkdir(parents=True, exist_ok=True)
    return work_dir


def _cpu_info(name):
    try:
        with open(CPU_INFO, encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.split(":")[0].strip() == name), "")
    except OSError:
        return ""
