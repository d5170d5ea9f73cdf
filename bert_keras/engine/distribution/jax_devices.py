"""JAX's devices of a run: all of this machine work on one program, and each computes its rows of a batch.

TensorFlow still reads the data and the checkpoints, on the CPU.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import keras
import numpy as np
import tensorflow as tf

from bert_keras.engine.distribution.tpu import check_cores, tpu_of_jax
from bert_keras.mistakes import Mistake
from bert_keras.settings.groups import RunSettings

log = logging.getLogger("bert_keras")


class JaxDevices:
    """Takes the place of a `tf.distribute.Strategy`.

    Every device has all weights. A batch is one array to the program, whatever the number of devices, so the losses and
    the masks of dropout do not depend on that number.

    Attributes:
        num_replicas_in_sync: the number of devices.
        whole: the placement of an array that every device has.
        parts: the placement of a batch in parts, [parts, B / parts, ...], of which each device has rows.
    """

    def __init__(self, devices: list[Any]) -> None:
        mesh = jax.sharding.Mesh(np.array(devices), ("rows",))
        self.num_replicas_in_sync = len(devices)
        self.whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        self._rows, self.parts = (
            jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in (["rows"], [None, "rows"])
        )

    def scope(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def rows(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Gives each device its rows of a batch [B, ...]; rows of zeros fill the end if B does not divide evenly."""
        arrays = {name: np.asarray(values) for name, values in batch.items()}
        num_missing = -len(arrays["input_ids"]) % self.num_replicas_in_sync
        arrays = {
            name: np.pad(values, [(0, num_missing)] + [(0, 0)] * (values.ndim - 1)) for name, values in arrays.items()
        }
        return jax.device_put(arrays, self._rows)

    def compiled(self, function: Callable[[Any], Any], variables: Callable[[], list[Any]]) -> Callable[[Any], Any]:
        """Returns a function of the features of a batch as a program with the values of the variables as arguments.

        The results are on every device.
        """

        def run(values: list[Any], features: dict[str, Any]) -> Any:
            with keras.StatelessScope(state_mapping=list(zip(variables(), values, strict=True))):
                return function(features)

        program = jax.jit(run, out_shardings=self.whole)

        @errors_of_tensorflow()
        def call(batch: Mapping[str, Any]) -> Any:
            for variable in variables():
                if variable.value.sharding != self.whole:  # only the first time
                    variable.assign(jax.device_put(variable.value, self.whole))
            values = [variable.value for variable in variables()]
            return jax.block_until_ready(program(values, self.rows(batch)))

        return call


def jax_devices(settings: RunSettings) -> JaxDevices:
    """Returns the devices for a run's settings, and sets the precision of float32 products for the whole process."""
    if settings.strategy == "multi_worker":
        raise Mistake("{strategy}=multi_worker is for TensorFlow; JAX trains on one machine; leave it out")
    if settings.precision == "float16":
        raise Mistake("{precision}=float16 is for TensorFlow; give bfloat16, which needs no loss scale")
    if settings.do_train and settings.jit is False:
        raise Mistake("{jit}=false is for TensorFlow, and JAX compiles every step; leave it out")
    tf.config.set_visible_devices([], "GPU")  # or TensorFlow would take their memory
    set_precision(settings.precision)
    if settings.use_tpu:
        devices = tpu_of_jax()
        check_cores(settings.num_tpu_cores, len(devices))
    else:
        devices = jax.local_devices()[:1] if settings.strategy == "one" else jax.local_devices()
    if settings.deterministic and devices[0].platform == "gpu":
        raise Mistake(
            "{deterministic} is for TensorFlow; for JAX on a GPU, put xla_gpu_deterministic_ops into XLA_FLAGS"
        )
    log.info("devices of JAX: %d (%s)", len(devices), devices[0].device_kind)
    return JaxDevices(devices)


def set_precision(precision: str) -> None:
    """Sets the precision of float32 products for the whole process."""
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if precision == "tf32" else "highest")


@contextlib.contextmanager
def errors_of_tensorflow() -> Iterator[None]:
    """Turns JAX's error about a full memory into that of TensorFlow, which `engine.failures` explains."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise tf.errors.ResourceExhaustedError(None, None, str(error)) from error
