"""A TPU as the device of a run. No TPU was available: tests use stand-ins, and tools/check_tpu.py compiles for one."""

import functools
import importlib.metadata
import logging
from typing import Any

import keras
import tensorflow as tf

from bert_keras.mistakes import Mistake, Setting
from bert_keras.settings.groups import RunSettings
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

# The resolver's name for the TPU of this machine.
LOCAL = "local"
_NO_LIBRARY = "the package tensorflow-tpu is not installed; docs/guides/tpu.md has the commands"


def check_tpu(settings: Any) -> None:
    """Refuses to use a TPU that cannot be there, given flags or settings, before any file is read."""
    if not settings.use_tpu:
        return
    names = "tpu_name", "master", "tpu_zone", "gcp_project"
    given = [name for name in names if getattr(settings, name)]
    if keras.backend.backend() == "jax":
        if settings.strategy != "auto":
            raise Mistake("{use_tpu} and {strategy}={} contradict each other; leave one out", settings.strategy)
        if given:
            raise Mistake("{} is for TensorFlow; JAX uses the TPU of its own machine; leave it out", Setting(given[0]))
        tpu_of_jax()
    elif (settings.tpu_name or settings.master or LOCAL) == LOCAL and not _has_library():
        raise _not_reached(LOCAL, _NO_LIBRARY)


def tpu_of_jax() -> list[Any]:
    """Returns JAX's devices, which must be those of a TPU."""
    import jax

    try:
        devices = jax.devices()
        found = devices[0].device_kind
    except RuntimeError as error:
        devices, found = [], str(error).strip().split("\n")[0]
    if not devices or devices[0].platform != "tpu":
        raise Mistake(
            "{use_tpu}: JAX finds no TPU ({}); run on the machine of a TPU, after pip install 'jax[tpu]', or leave "
            "{use_tpu} out to use the CPU or GPU",
            found,
        )
    return devices


def check_run(settings: RunSettings) -> None:
    """Refuses ways to compute that are not for a TPU, and files of this machine for a TPU of another one."""
    if not settings.use_tpu:
        return
    if settings.precision == "float16":
        raise Mistake("{precision}=float16 does not work on a TPU; give bfloat16")
    if settings.jit is True:
        raise Mistake("{jit} is not for a TPU, where XLA compiles everything; leave it out")
    target = settings.tpu_name or settings.master or LOCAL
    # TensorFlow itself opens these paths, on the machine of the TPU.
    for name in ("output_dir", "input_file") if target != LOCAL else ():
        if not all(paths.is_remote(path.strip()) for path in (getattr(settings, name, None) or "gs://").split(",")):
            raise Mistake(
                "{}={} is a file or folder of this machine, but the TPU {!r} is in another one, which would "
                "look for it on its own disk; run the program on the TPU's machine, without {tpu_name}, or "
                "give a gs:// address",
                Setting(name),
                getattr(settings, name),
                target,
            )


def connect(
    target: str, zone: str | None = None, project: str | None = None, num_cores: int | None = None
) -> tf.distribute.TPUStrategy:
    """Connects to a TPU by name or grpc address and initialises it, which clears the TPU's memory.

    Returns the same object for the same TPU. A `num_cores` of None means any number.
    """
    try:
        strategy = _strategy(target, zone, project)
    except (ValueError, RuntimeError, ImportError, OSError, tf.errors.OpError) as error:
        # Without the library TensorFlow's message is only about kernels that are not registered.
        has_reason = target != LOCAL or _has_library()
        raise _not_reached(target, str(error).strip().split("\n")[0] if has_reason else _NO_LIBRARY) from error
    check_cores(num_cores, strategy.num_replicas_in_sync, target)
    log.info("device: TPU %s with %d cores", target, strategy.num_replicas_in_sync)
    return strategy


def check_cores(num_cores: int | None, found: int, target: str = LOCAL) -> None:
    """Refuses a TPU with another number of cores than the user has given, if any."""
    if num_cores not in (None, found):
        raise Mistake("{num_tpu_cores}={}, but the TPU {!r} has {}", num_cores, target, found)


def _not_reached(target: str, reason: str) -> Mistake:
    return Mistake(
        "{use_tpu}: no TPU could be reached as {!r} ({}); run on the machine of a TPU, or leave "
        "{use_tpu} out to use the CPU or GPU",
        target,
        reason,
    )


def is_tpu(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether a strategy is that of a TPU, which needs static shapes."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


# Cached: initialising a TPU again loses the variables on it.
@functools.cache
def _strategy(target: str, zone: str | None, project: str | None) -> tf.distribute.TPUStrategy:
    log.info("connecting to the TPU %s", target)
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=target, zone=zone, project=project)
    if target != LOCAL:
        tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _has_library() -> bool:
    """Whether TensorFlow can use a TPU of this machine: its package is there, or another build lists one."""
    try:
        importlib.metadata.version("tensorflow-tpu")
    except importlib.metadata.PackageNotFoundError:
        return bool(tf.config.list_physical_devices("TPU"))
    return True
