"""The GPUs and the instruction sets of this machine, and whether they are fast in bfloat16. It loads TensorFlow."""

from typing import Any

import keras
import tensorflow as tf

from bert_keras.storage import paths

# The first compute capability (Ampere) with products of bfloat16 and TensorFloat-32 numbers on NVIDIA's GPUs.
AMPERE = (8, 0)

_PROCESSORS = "/proc/cpuinfo"
_INSTRUCTIONS = ("avx512_bf16", "amx_bf16")
# Processors with this multiply bfloat16 numbers by AMX. Where a virtual machine hides AMX, a product by avx512_bf16
# takes 1.6 to 1.9 times as long as in float32; on processors without it, avx512_bf16 is faster than float32.
_WITH_AMX = "avx512_fp16"


def find_bfloat16(use_tpu: bool = False, use_cpu: bool = False) -> tuple[bool, str]:
    """Returns whether the devices are fast in bfloat16, and the reason as a str; `use_cpu`: not the GPUs."""
    if use_tpu or (not use_cpu and jax_devices("tpu")):
        return True, "a TPU multiplies bfloat16 numbers"
    if gpu := None if use_cpu else min(list_gpus(), default=None):
        capability, name = gpu
        number = ".".join(map(str, capability)) or "unknown"
        verb = "has" if capability >= AMPERE else "lacks"
        return capability >= AMPERE, f"{name} (compute capability {number}) {verb} instructions for bfloat16"
    flags = processor_flags()
    found = [name for name in _INSTRUCTIONS if name in flags]
    if found == ["avx512_bf16"] and _WITH_AMX in flags:
        return False, f"the processor has avx512_bf16 and {_WITH_AMX} without amx_bf16, and is slower in bfloat16"
    if found:
        return True, f"the processor has {' and '.join(found)}"
    return False, f"the processor has neither {' nor '.join(_INSTRUCTIONS)}"


def list_gpus() -> list[tuple[tuple[int, ...], str]]:
    """Returns the compute capability of each GPU, such as (8, 0), or () if it is unknown, and its name."""
    if keras.backend.backend() == "jax":
        return [(tuple(map(int, gpu.compute_capability.split("."))), gpu.device_kind) for gpu in jax_devices("gpu")]
    details = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.list_physical_devices("GPU")]
    return [(tuple(gpu.get("compute_capability") or ()), gpu.get("device_name", "the GPU")) for gpu in details]


def jax_devices(platform: str) -> list[Any]:
    """Returns the devices of a kind that JAX trains on; none if Keras runs on TensorFlow."""
    if keras.backend.backend() != "jax":
        return []
    import jax

    return [device for device in jax.local_devices() if device.platform == platform]


def processor_flags() -> set[str]:
    """Returns the instruction sets of the processor as Linux names them; empty on other systems."""
    try:
        lines = paths.read_text(_PROCESSORS, errors="replace").splitlines()
    except OSError:
        return set()
    return {name for line in lines if line.startswith("flags") for name in line.partition(":")[2].split()}
