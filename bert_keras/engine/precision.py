"""Resolves --precision=auto and --jit=auto by what the hardware is fast in, and warns about a slow choice."""

import dataclasses
import functools
import logging
import math
import platform
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import keras
import tensorflow as tf

from bert_keras.cli.start import is_clustering_possible
from bert_keras.engine.distribution.tpu import is_tpu
from bert_keras.mistakes import Message, Mistake, Setting
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.optimization import AdamWeightDecay
from bert_keras.runs.run_dir import RUN_CONFIG, read_run_config
from bert_keras.runs.state import RunState, process_changes
from bert_keras.settings.groups import RunSettings
from bert_keras.settings.hardware import AMPERE, find_bfloat16, jax_devices, list_gpus, processor_flags
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

S = TypeVar("S", bound=RunSettings)

# The instructions that decide how many numbers a processor adds at a time, and so how sums round.
_VECTORS = ("avx512f", "avx2", "avx")
# On processors without these instructions, a training step in float32 takes 1.17 times as long without XLA. XLA needs
# half a second for each layer and shape, and fine-tuning has up to eight shapes. A run with this product of tokens and
# weights of layers takes half an hour on two cores.
_LONG_RUN = 1e13
# The compute capability of the first GPUs that are newer than TensorFlow's compiler: XLA would end the process with an
# error of LLVM (tensorflow#111958).
_UNKNOWN_TO_XLA = (10, 0)
# The jit of a run whose products XLA does not compile; a user cannot give it.
FUSIBLE = "fusible"
# Minimum number of trained numbers for which compiling the update saves time.
_LARGE = 2**20


def take_precision(settings: S) -> S:
    """Returns settings with a precision in place of --precision=auto; warns about one that is slow on this hardware.

    "auto" is the precision of the run in the output folder, so that a resumed run keeps it. Without a run, it is
    bfloat16 if the hardware is fast in it, else float32.
    """
    if settings.precision == "auto":
        precision = setting_of_run(settings.output_dir, "precision")
        if not precision:
            has_bfloat16, reason = find_bfloat16(settings.use_tpu)
            precision = "bfloat16" if has_bfloat16 else "float32"
            log.info(Message("{precision}=auto: {}, since {}", precision, reason))
        return dataclasses.replace(settings, precision=precision)
    if settings.precision == "bfloat16":
        has_bfloat16, reason = find_bfloat16(settings.use_tpu)
        if not has_bfloat16:
            cost = (
                "give float16"
                if list_gpus()
                else "on an Intel Skylake, a step takes 1.5 times as long as with {precision}=float32 and {jit}"
            )
            log.warning(Message("{precision}=bfloat16 is slow here, since {}; " + cost, reason))
    is_on_tpu = settings.use_tpu or bool(jax_devices("tpu"))
    if settings.precision == "tf32" and not (is_on_tpu or ((gpus := list_gpus()) and min(gpus)[0] >= AMPERE)):
        log.warning(
            Message("{precision}=tf32 is float32 here, since it needs an NVIDIA GPU of the Ampere generation or later")
        )
    return settings


def take_jit(settings: S, num_tokens: int, config: BertConfig, num_devices: int, has_one_shape: bool = False) -> S:
    """Returns settings with a jit of True or "fusible" in place of "auto" if XLA makes the training of a run faster.

    With "fusible", XLA compiles the operations between the products: its own products of 16 bits are slow on a CPU. A
    run keeps its first choice, because XLA rounds differently.

    Args:
        num_tokens: number of tokens of all steps.
        has_one_shape: whether all batches have the same shape. TensorFlow would run some steps with another shape
            without compiling them, and a resumed run would round differently.
    """
    if settings.jit != "auto":
        return settings
    if (chosen := setting_of_run(settings.output_dir, "jit")) is not None:
        settings = dataclasses.replace(settings, jit=chosen)
        check_jit(settings)
        return settings
    num_weights = (
        config.num_hidden_layers * 2 * config.hidden_size * (2 * config.hidden_size + config.intermediate_size)
    )
    is_on_cpu = keras.backend.backend() == "tensorflow" and num_devices == 1 and not list_gpus()
    has_bfloat16, reason = find_bfloat16(settings.use_tpu)
    if not is_on_cpu or not processor_flags() or num_tokens * num_weights < _LONG_RUN:
        return settings
    if settings.precision in ("float32", "tf32") and not has_bfloat16:
        log.info(Message("{jit}=auto: XLA compiles the network, since the run is long and {}", reason))
        return dataclasses.replace(settings, jit=True)
    if settings.precision == "bfloat16" and has_bfloat16 and has_one_shape and is_clustering_possible():
        log.info(Message("{jit}=auto: XLA compiles what is between the products, since the run is long and {}", reason))
        return dataclasses.replace(settings, jit=FUSIBLE)
    return settings


def check_jit(settings: RunSettings) -> None:
    """Refuses XLA on TensorFlow for GPUs that it does not know."""
    if settings.jit is not True or keras.backend.backend() != "tensorflow" or settings.use_tpu:
        return
    for capability, name in list_gpus():
        if capability >= _UNKNOWN_TO_XLA:
            raise Mistake(
                "{jit} needs XLA, which in TensorFlow 2.21 compiles for the compute capability 9.0 at most, but {} has "
                "{}; give {jit}=false, or train on JAX, with the environment variable KERAS_BACKEND=jax",
                name,
                ".".join(map(str, capability)),
            )


def clustered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of TensorFlow as one whose fusible operations XLA compiles."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        # For this call only, because XLA would compile again for each shape of an evaluation.
        before = tf.config.optimizer.get_jit()
        tf.config.optimizer.set_jit("autoclustering")
        try:
            return function(*args)
        finally:
            tf.config.optimizer.set_jit(before or False)

    return call


def can_use_xla() -> bool:
    """Returns whether XLA knows all GPUs of TensorFlow; without GPUs, True."""
    return all(capability and capability < _UNKNOWN_TO_XLA for capability, _ in list_gpus())


def can_compile_update(
    optimizer: AdamWeightDecay, strategy: tf.distribute.Strategy, weights: Mapping[str, tf.Variable]
) -> bool:
    """Returns whether XLA can compile the update of a large model for the devices; if not, logs the reason.

    Without XLA, TensorFlow makes a dozen passes over the memory of each weight, and keeps more of it.
    """
    is_large = sum(math.prod(weight.shape) for weight in weights.values()) >= _LARGE
    # XLA compiles everything for a TPU. It ends the process for a GPU that it does not know.
    if not is_large or is_tpu(strategy) or not can_use_xla():
        return False
    name = next(iter(weights))

    def update() -> Any:
        zeros = tf.zeros([1])
        return optimizer.update(name, zeros, zeros, zeros, zeros, tf.zeros([]), tf.zeros([], tf.int64))

    compiled = tf.function(update, autograph=False, jit_compile=True)
    try:
        # A graph, because TensorFlow warns of strategies that run anything else; a partial: see `graph_function`.
        tf.function(functools.partial(strategy.run, lambda: compiled()), autograph=False)()
    except tf.errors.OpError as error:
        reason = error.message.strip().split("\n")[0]
        log.warning("XLA cannot compile the update (%s); TensorFlow computes it without XLA, which is slower", reason)
        return False
    return True


def setting_of_run(folder: str | None, name: str) -> Any:
    """Returns a setting of the run in the output folder, or None without a run."""
    path = folder and paths.join(folder, RUN_CONFIG)
    if not path or not paths.exists(path):
        return None
    value = read_run_config(path)["settings"].get(name)
    if value not in (None, False, "auto"):
        log.info(Message("{}=auto: {}, as in the run in {}", Setting(name), value, folder))
    return value


def note_process(state: RunState, strategy: tf.distribute.Strategy) -> None:
    """Stores the versions and the devices of this process, and warns if the last process of the run had others."""
    versions = {"tensorflow": tf.version.VERSION, "keras": keras.version()}
    if keras.backend.backend() == "jax":
        versions["jax"] = sys.modules["jax"].__version__
    widest = next((name for name in _VECTORS if name in processor_flags()), platform.machine())
    kind = f"CPU ({widest})"
    if is_tpu(strategy) or jax_devices("tpu"):
        kind = "TPU"
    elif gpus := list_gpus():
        kind = gpus[0][1]
    process = versions | {"devices": f"{strategy.num_replicas_in_sync} x {kind}"}
    if changed := process_changes(state["processes"].get("last", {}), process):
        log.warning("the numbers may round differently from here on: %s", changed)
    state.note_process(process)
