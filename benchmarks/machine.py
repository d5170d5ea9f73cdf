"""The machine that a benchmark runs on: its name in the output, and the one device that all programs use."""

import importlib.metadata
import os
import platform

CPU_INFO = "/proc/cpuinfo"  # Linux
DEVICES = ("cpu", "gpu")
# Those that decide how fast matrices are multiplied, as Linux spells them on x86 and on ARM.
_INSTRUCTION_SETS = (
    *("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "i8mm", "bf16"),
)


def processor_name():
    """Returns the name of the processor, as far as the system tells."""
    return _cpu_info("model name") or platform.processor() or platform.machine()


def instruction_sets():
    """Returns the instruction sets of the processor that matter for matrices, list of str; empty where unknown."""
    words = f"{_cpu_info('flags')} {_cpu_info('Features')}".split()
    return [name for name in _INSTRUCTION_SETS if name in words]


def describe_machine(packages=()):
    """Returns the processor, its instruction sets, and the versions of Python and of packages, in one line."""
    sets = ", ".join(instruction_sets()) or "instruction sets unknown"
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    line = f"{os.cpu_count()} cores, {processor_name()} ({sets}); Python {platform.python_version()}"
    return f"{line}, {versions}" if versions else line


def use_device(device):
    """Makes TensorFlow use one kind of device; call it before TensorFlow computes anything.

    Args:
        device: "cpu" or "gpu".

    Returns:
        The name of the device, for the output.

    Raises:
        ValueError: there is no such device.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if device == "cpu":
        tf.config.set_visible_devices([], "GPU")
        return "CPU"
    if not gpus:
        raise ValueError("--device=gpu: TensorFlow finds no GPU; install bert-keras[gpu], or give --device=cpu")
    return f"GPU, {tf.config.experimental.get_device_details(gpus[0]).get('device_name', 'name unknown')}"


def torch_device(device):
    """Returns what PyTorch calls a device.

    Args:
        device: "cpu" or "gpu".

    Raises:
        ValueError: PyTorch has no such device, so its programs would be timed on another than TensorFlow's.
    """
    import torch

    if device == "cpu":
        return "cpu"
    if not torch.cuda.is_available():
        raise ValueError(
            "--device=gpu: PyTorch finds no GPU; install a build of it for CUDA, leave its programs out with "
            "--programs=bert-keras, or give --device=cpu"
        )
    return "cuda"


def _cpu_info(name):
    try:
        with open(CPU_INFO, encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.split(":")[0].strip() == name), "")
    except OSError:
        return ""
