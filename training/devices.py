"""Where a run is carried out."""

import logging

import tensorflow as tf

log = logging.getLogger("bert_keras")


def create_strategy(use_tpu=False, tpu_name=None, tpu_zone=None, gcp_project=None, num_tpu_cores=None):
    """Connects to the device that the flags ask for.

    Args:
        use_tpu: bool; False gives the one default device (GPU if TensorFlow sees one, else CPU).
        tpu_name: str, a TPU's name or grpc address; None is the TPU of this machine.
        tpu_zone: str.
        gcp_project: str.
        num_tpu_cores: int; checked against the TPU found, or None.

    Returns:
        A `tf.distribute.Strategy`.

    Raises:
        ValueError: no TPU answers, TensorFlow has no TPU support, or the TPU has another number of cores.
    """
    if not use_tpu:
        strategy = tf.distribute.get_strategy()
        gpus = tf.config.list_logical_devices("GPU")
        log.info("device: %s", gpus[0].name if gpus else "CPU")
        return strategy
    target = tpu_name or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=target, zone=tpu_zone, project=gcp_project)
        if target != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        strategy = tf.distribute.TPUStrategy(resolver)
    except (ValueError, RuntimeError, ImportError, OSError, tf.errors.OpError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(
            f"--use_tpu: no TPU could be reached as {target!r} ({reason}); run on a TPU machine with the package "
            "tensorflow-tpu, give --tpu_name, or leave --use_tpu out to train on the CPU or GPU"
        ) from error
    cores = strategy.num_replicas_in_sync
    if num_tpu_cores not in (None, cores):
        raise ValueError(f"--num_tpu_cores={num_tpu_cores}, but the TPU {target!r} has {cores}")
    log.info("device: TPU %s with %d cores", target, cores)
    return strategy
