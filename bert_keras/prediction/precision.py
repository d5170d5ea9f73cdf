"""The number format of answers: what precision=auto means on this machine, and what an opened model has already."""

import logging

import tensorflow as tf

from bert_keras.cli.start import may_use_onednn, precision_of_environment
from bert_keras.mistakes import Message, Mistake
from bert_keras.prediction.arguments import ANSWER_PRECISIONS
from bert_keras.settings.hardware import find_bfloat16, list_gpus

log = logging.getLogger("bert_keras")


def take_precision(precision: str, device: str | None = None, strategy: tf.distribute.Strategy | None = None) -> str:
    """Returns the precision of a network that will answer; warns about one that is slow on this hardware.

    "auto" is that of the environment variable BERT_KERAS_PRECISION. Without it, it is bfloat16 if the hardware is
    fast in it, else float32.

    Args:
        precision: one of `ANSWER_PRECISIONS`.
        device: name of a device as TensorFlow gives it; None: a GPU if there is one.
        strategy: that of several devices, or None.
    """
    use_tpu, use_cpu = isinstance(strategy, tf.distribute.TPUStrategy), (device or "").startswith("/CPU")
    has_bfloat16, reason = find_bfloat16(use_tpu, use_cpu)
    if precision == "auto":
        chosen = precision_of_environment() or "auto"
        if chosen not in ANSWER_PRECISIONS:
            raise Mistake(
                'the environment variable BERT_KERAS_PRECISION is "{}", but must be one of {}',
                chosen,
                [*ANSWER_PRECISIONS],
            )
        precision = chosen
        if chosen == "auto":
            precision = "bfloat16" if has_bfloat16 else "float32"
        else:
            reason = "the environment variable BERT_KERAS_PRECISION says so"
        if precision != "float32":
            log.info(Message("{precision}=auto: {}, since {}", precision, reason))
    elif precision == "bfloat16" and not has_bfloat16:
        log.warning(Message("{precision}=bfloat16 is slow here, since {}; float32 is faster", reason))
    elif precision == "float16" and (use_cpu or use_tpu or not list_gpus()):
        log.warning(Message("{precision}=float16 is slow here, since it is for GPUs; float32 is faster"))
    return precision


def may_fuse(precision: str) -> bool:
    """Returns whether `fused_operations` make a network of this precision faster on this machine's CPU."""
    # In float32, they are as fast as others.
    return precision == "bfloat16" and find_bfloat16(use_cpu=True)[0] and may_use_onednn()
