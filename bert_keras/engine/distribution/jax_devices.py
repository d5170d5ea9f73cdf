"""JAX's devices of a run: those of all processes work on one program, and each computes its rows of a batch.

TensorFlow still reads the data and the checkpoints, on the CPU. Every process reads all of a batch and places the rows
of its devices.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import tensorflow as tf

from bert_keras.engine.distribution.tpu import check_cores, tpu_of_jax
from bert_keras.mistakes import Mistake
from bert_keras.settings.groups import RunSettings

log = logging.getLogger("bert_keras")


@contextlib.contextmanager
def errors_of_tensorflow() -> Iterator[None]:
    """Turns JAX's errors about a full memory or a lost process into those of TensorFlow, which others explain."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):
            raise tf.errors.ResourceExhaustedError(None, None, str(error)) from error
        if jax.process_count() > 1 and ("Gloo" in str(error) or "UNAVAILABLE" in str(error)):
            raise tf.errors.UnavailableError(None, None, str(error)) from error
        raise


class JaxDevices:
    """Takes the place of a `tf.distribute.Strategy`.

    Every device has all weights. A batch is one array to the program, whatever the number of devices, so the losses and
    the masks of dropout do not depend on that number.

    Attributes:
        num_replicas_in_sync: the number of devices.
        num_processes: that have these devices.
        process_id: the number of this one among them.
        whole: the placement of an array that every device has.
        parts: the placement of a batch in parts, [parts, B / parts, ...], of which each device has rows.
    """

    def __init__(self, devices: list[Any]) -> None:
        mesh = jax.sharding.Mesh(np.array(devices), ("rows",))
        self._devices, self.num_replicas_in_sync = devices, len(devices)
        self.num_processes, self.process_id = jax.process_count(), jax.process_index()
        self.whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        self._rows, self.parts = (
            jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in (["rows"], [None, "rows"])
        )
        self._sum = jax.jit(lambda rows: jnp.sum(rows, axis=0, dtype=rows.dtype), out_shardings=self.whole)

    def scope(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def rows(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Gives each device its rows of a batch [B, ...]; rows of zeros fill the end if B does not divide evenly."""
        arrays = {name: np.asarray(values) for name, values in batch.items()}
        num_missing = -len(arrays["input_ids"]) % self.num_replicas_in_sync
        arrays = {
            name: np.pad(values, [(0, num_missing)] + [(0, 0)] * (values.ndim - 1)) for name, values in arrays.items()
        }
        return self.place(arrays, self._rows)

    def place(self, values: Any, placement: jax.sharding.Sharding) -> Any:
        """Places a structure of arrays. Every process has all of them, and its devices take their rows from its own.

        `jax.device_put` would first compare them over the network.
        """
        if self.num_processes == 1:
            return jax.device_put(values, placement)
        return jax.tree.map(
            lambda value: jax.make_array_from_callback(np.shape(value), placement, np.asarray(value).__getitem__),
            values,
        )

    def spread(self, variables: Iterable[keras.Variable]) -> None:
        """Gives every device the values of variables, which only the first device has at the start."""
        for variable in variables:
            if variable.value.sharding != self.whole:
                variable.assign(self.place(variable.value, self.whole))

    @errors_of_tensorflow()
    def sums(self, numbers: Sequence[int]) -> list[int]:
        """Adds each number up over all processes; the sums have 32 bits."""
        first = [device.process_index for device in self._devices].index(self.process_id)
        rows = np.zeros([self.num_replicas_in_sync, len(numbers)], np.uint32)
        rows[first] = numbers
        return np.asarray(self._sum(self.place(rows, self._rows))).tolist()

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
            self.spread(variables())
            values = [variable.value for variable in variables()]
            return jax.block_until_ready(program(values, self.rows(batch)))

        return call


def jax_devices(settings: RunSettings) -> JaxDevices:
    """Returns the devices for a run's settings, and sets the precision of float32 products for the whole process."""
    if settings.strategy == "multi_worker":
        raise Mistake(
            "{strategy}=multi_worker is for TensorFlow; for several processes of JAX, give {coordinator_address}, "
            "{num_processes} and {process_id} instead"
        )
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
        devices = jax.devices()[:1] if settings.strategy == "one" else jax.devices()
    if settings.deterministic and devices[0].platform == "gpu":
        raise Mistake(
            "{deterministic} is for TensorFlow; for JAX on a GPU, put xla_gpu_deterministic_ops into XLA_FLAGS"
        )
    processes = f"; process {jax.process_index()} of {count}" if (count := jax.process_count()) > 1 else ""
    log.info("devices of JAX: %d (%s)%s", len(devices), devices[0].device_kind, processes)
    return JaxDevices(devices)


def set_precision(precision: str) -> None:
    """Sets the precision of float32 products for the whole process."""
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if precision == "tf32" else "highest")
