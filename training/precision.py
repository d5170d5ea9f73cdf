"""Which precision the hardware is fast in: what --precision=auto stands for, and warnings about a slow choice."""

import logging

import tensorflow as tf

from storage import paths
from training.run_dir import RUN_CONFIG, read_run_config

log = logging.getLogger("bert_keras")

_PROCESSORS = "/proc/cpuinfo"
_INSTRUCTIONS = ("avx512_bf16", "amx_bf16")
# The generation of NVIDIA's GPUs (Ampere) from which on they have products of bfloat16 and TensorFloat-32 numbers.
_AMPERE = (8, 0)


def take_precision(settings):
    """Replaces --precision=auto by what it stands for, and warns about a precision that the hardware is slow in.

    "auto" is the precision of the run in the output folder, so that a resumed run goes on as it began; else bfloat16
    where the hardware has instructions for it; else float32. The log says which, and why.

    Args:
        settings: dict of flag values by name; without "precision" it is left as it is.
    """
    asked = settings.get("precision")
    if asked == "auto":
        settings["precision"] = _of_run(settings) or _of_hardware(settings)
    elif asked == "bfloat16":
        has_bfloat16, reason = _find_bfloat16(settings)
        if not has_bfloat16:
            cost = (
                "give float16"
                if _weakest_gpu()
                else "on an Intel Skylake, a step takes 1.5 times as long as with --precision=float32 --jit"
            )
            log.warning("--precision=bfloat16 is slow here, since %s; %s", reason, cost)
    elif asked == "tf32" and not (_is_for_tpu(settings) or (_weakest_gpu() and _weakest_gpu()[0] >= _AMPERE)):
        log.warning("--precision=tf32 is float32 here, since there is no NVIDIA GPU of the Ampere generation or later")


def _of_run(settings):
    """Returns the precision of the run in the output folder; None where there is no run."""
    folder = settings.get("output_dir")
    path = folder and paths.join(folder, RUN_CONFIG)
    if not path or not paths.exists(path):
        return None
    precision = read_run_config(path)["settings"].get("precision")
    if precision:
        log.info("--precision=auto: %s, as in the run in %s", precision, folder)
    return precision


def _of_hardware(settings):
    has_bfloat16, reason = _find_bfloat16(settings)
    precision = "bfloat16" if has_bfloat16 else "float32"
    log.info("--precision=auto: %s, since %s", precision, reason)
    return precision


def _find_bfloat16(settings):
    """Returns whether the devices of a run have instructions for bfloat16, and a str that says why."""
    if _is_for_tpu(settings):
        return True, "a TPU multiplies bfloat16 numbers"
    if _weakest_gpu():
        capability, name = _weakest_gpu()
        number = ".".join(map(str, capability)) or "unknown"
        verb = "has" if capability >= _AMPERE else "lacks"
        return capability >= _AMPERE, f"{name} (compute capability {number}) {verb} instructions for bfloat16"
    found = [name for name in _INSTRUCTIONS if name in _processor_flags()]
    if found:
        return True, f"the processor has {' and '.join(found)}"
    return False, f"the processor has neither {' nor '.join(_INSTRUCTIONS)}"


def _is_for_tpu(settings):
    return bool(settings.get("use_tpu")) or settings.get("strategy") == "tpu"


def _weakest_gpu():
    """Returns the lowest compute capability of all GPUs, such as (8, 0), and that GPU's name; None without one."""
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    found = [(tuple(each.get("compute_capability") or ()), each.get("device_name", "the GPU")) for each in details]
    return min(found, default=None)


def _processor_flags():
    """Returns the instruction sets of the processor as Linux names them, a set of str; empty elsewhere."""
    try:
        lines = paths.read_text(_PROCESSORS, errors="replace").splitlines()
    except OSError:
        return set()
    return {name for line in lines if line.startswith("flags") for name in line.partition(":")[2].split()}
