"""The devices of a run: one device, all GPUs of this machine, several machines, or a TPU."""

import functools
import logging
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from bert_keras.engine.distribution.tpu import LOCAL, connect
from bert_keras.engine.precision import check_jit
from bert_keras.mistakes import Mistake, several
from bert_keras.settings.devices import check_backend
from bert_keras.settings.groups import RunSettings

log = logging.getLogger("bert_keras")


def create_strategy(
    strategy: str = "auto",
    use_tpu: bool = False,
    tpu_name: str | None = None,
    tpu_zone: str | None = None,
    gcp_project: str | None = None,
    num_tpu_cores: int | None = None,
) -> tf.distribute.Strategy:
    """Connects to the devices that the flags select. Call it before TensorFlow computes anything.

    "auto" means a TPU with `use_tpu`; else all workers if the environment variable TF_CONFIG names several; else all
    GPUs if there are several; else the one GPU or the CPU. The same devices give the same `tf.distribute.Strategy`
    object, because TensorFlow reduces wrongly with two.
    """
    if use_tpu and strategy != "auto":
        raise Mistake("{use_tpu} and {strategy}={} contradict each other; leave one out", strategy)
    if use_tpu:
        return connect(tpu_name or LOCAL, tpu_zone, gcp_project, num_tpu_cores)
    # Do this first: TensorFlow accepts workers only at program start. One machine needs none.
    workers, task = workers_of_tf_config() if strategy in ("auto", "multi_worker") else ([], None)
    if strategy == "multi_worker" or (strategy == "auto" and len(workers) > 1):
        if not workers:
            raise Mistake(
                "{strategy}=multi_worker needs the environment variable TF_CONFIG, which names all workers "
                "and which of them this process is; docs/guides/distributed.md has an example"
            )
        return _multi_worker(tuple(workers), task)
    gpus = tf.config.list_logical_devices("GPU")
    devices = gpus or tf.config.list_logical_devices("CPU")
    if strategy == "mirrored" or (strategy == "auto" and len(gpus) > 1):
        return _mirrored(tuple(device.name for device in devices))
    log.info("device: %s", gpus[0].name if gpus else "CPU")
    return tf.distribute.get_strategy()


def strategy_of(settings: RunSettings) -> tf.distribute.Strategy:
    """Returns the strategy for a run's settings. See `create_strategy`. On JAX it is a `JaxDevices`.

    For the whole process it also sets the precision of float32 products. With `precision` "tf32" this is TensorFloat-32
    (10 bits of mantissa) on a GPU that has it and bfloat16 on a TPU; else it is float32.
    """
    check_backend(keras.backend.backend(), is_training=True)
    if keras.backend.backend() == "jax":
        from bert_keras.engine.distribution.jax_devices import jax_devices

        if settings.strategy == "auto" and (num_workers := len(workers_of_tf_config()[0])) > 1:
            raise Mistake(
                "the environment variable TF_CONFIG names {} workers, but JAX does not read it; unset it, and give "
                "{coordinator_address} for several processes",
                num_workers,
            )
        return jax_devices(settings)
    check_jit(settings)
    tf.config.experimental.enable_tensor_float_32_execution(settings.precision == "tf32")
    return create_strategy(
        strategy=settings.strategy,
        use_tpu=settings.use_tpu,
        tpu_name=settings.tpu_name or settings.master,
        tpu_zone=settings.tpu_zone,
        gcp_project=settings.gcp_project,
        num_tpu_cores=settings.num_tpu_cores,
    )


def part_of_batch(settings: RunSettings, strategy: tf.distribute.Strategy) -> int:
    """Returns the number of examples that a device processes at a time, and refuses a batch that leaves a rest."""
    num_replicas, num_parts = strategy.num_replicas_in_sync, settings.gradient_accumulation_steps
    part, rest = divmod(settings.train_batch_size, num_replicas * num_parts)
    if rest:
        raise Mistake(
            "{train_batch_size}={} cannot be divided evenly by {} x "
            "{gradient_accumulation_steps}={}; give a multiple of {}",
            settings.train_batch_size,
            several(num_replicas, "devices"),
            num_parts,
            num_replicas * num_parts,
        )
    return part


def is_compiled(settings: RunSettings) -> bool:
    """Returns whether XLA compiles the network, once for every shape of a batch."""
    return settings.jit is True or keras.backend.backend() == "jax"


def workers_of_tf_config() -> tuple[list[tuple[str, int]], Any]:
    """Returns the (kind, number) of each worker in the environment variable TF_CONFIG, the chief first, and our own.

    Without TF_CONFIG, these are an empty list and None.
    """
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    try:
        cluster = resolver.cluster_spec().as_dict()
        task = (resolver.task_type, resolver.task_id)
    except (ValueError, TypeError, AttributeError) as error:
        raise Mistake(
            "the environment variable TF_CONFIG cannot be read ({}); correct it, or give {strategy}=one or "
            "mirrored, which do not read it; docs/guides/distributed.md has an example",
            error,
        ) from error
    if not cluster:
        return [], None
    workers = [(role, number) for role in ("chief", "worker") for number in range(len(cluster.get(role, ())))]
    if set(cluster) - {"chief", "worker"} or task not in workers:
        raise Mistake(
            "the environment variable TF_CONFIG names {} and says that this process is number {} of {}; it "
            "must name only chief or worker, and say which of them this process is; correct it, or give "
            "{strategy}=one or mirrored, which do not read it",
            sorted(cluster),
            task[1],
            task[0],
        )
    return workers, task


def distribute(
    strategy: tf.distribute.Strategy, batches: tf.data.Dataset, is_endless: bool = False
) -> Iterable[dict[str, Any]]:
    """Gives every device its part of each batch, the same part on any number of machines.

    Every worker reads all batches and takes its part of each, so a step depends on the batch alone. The batches have
    one static size. If it does not divide evenly, rows of zeros fill the end; the task must not count them. On JAX the
    step does this, with the batches as they are.

    Unless `is_endless` promises that the batches never end, workers check together at every batch whether there is one,
    and TensorFlow leaves the shapes open. The result goes to `strategy.run`, batch by batch.
    """
    if keras.backend.backend() == "jax":
        return batches
    num_replicas = strategy.num_replicas_in_sync

    def parts_of(context: tf.distribute.InputContext) -> tf.data.Dataset:
        if num_replicas == 1:
            return batches
        num_here = num_replicas // context.num_input_pipelines
        first = num_here * context.input_pipeline_id

        @tf.autograph.experimental.do_not_convert  # AutoGraph would rewrite it
        def parts(batch: dict[str, tf.Tensor]) -> tf.data.Dataset:
            batch = {name: _in_parts(value, num_replicas)[first : first + num_here] for name, value in batch.items()}
            return tf.data.Dataset.from_tensor_slices(batch)

        mine = batches.flat_map(parts)
        return mine.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)) if is_endless else mine

    return strategy.distribute_datasets_from_function(parts_of)


def _in_parts(values: tf.Tensor, num_parts: int) -> tf.Tensor:
    """Returns [B, ...] as [num_parts, rows, ...], padded with zeros."""
    size = -(-values.shape[0] // num_parts)
    values = tf.pad(values, [(0, size * num_parts - values.shape[0])] + [(0, 0)] * (values.shape.rank - 1))
    parts = tf.reshape(values, tf.concat([[num_parts, size], tf.shape(values)[1:]], 0))
    return tf.ensure_shape(parts, [num_parts, size, *values.shape[1:]])


@functools.cache
def _mirrored(names: tuple[str, ...]) -> tf.distribute.MirroredStrategy:
    strategy = tf.distribute.MirroredStrategy(list(names))
    log.info("devices: %d (%s)", len(names), ", ".join(name.split("device:")[-1] for name in names))
    return strategy


@functools.cache
def _multi_worker(
    workers: tuple[tuple[str, int], ...], task: tuple[str, int]
) -> tf.distribute.MultiWorkerMirroredStrategy:
    log.info("this is %s %d; waiting for all %d workers to start", task[0], task[1], len(workers))
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        if "program startup" not in str(error):
            raise
        raise Mistake(
            "TensorFlow has already computed something in this process, but workers must connect before that; "
            "start a new process"
        ) from error
    num_devices = strategy.num_replicas_in_sync
    log.info("devices: %d of %d workers, %d of each", num_devices, len(workers), num_devices // len(workers))
    return strategy
