"""Chooses the trainer of a run: its optimizer and the backend that computes its steps."""

from collections.abc import Callable

import keras
import tensorflow as tf

from bert_keras.engine.failures import explain_large_model
from bert_keras.engine.loss_scale import LossScale
from bert_keras.engine.step import Trainer
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling.losses import Loss
from bert_keras.modeling.optimization import AdamWeightDecay, LearningRateSchedule
from bert_keras.settings.groups import RunSettings


@explain_large_model()
def make_trainer(
    loss: Loss,
    strategy: tf.distribute.Strategy,
    settings: RunSettings,
    rate_factor: Callable[[str], float] | None = None,
    is_trained: Callable[[str], bool] | None = None,
) -> Trainer:
    """Returns a `Trainer` as the settings say."""
    schedule = LearningRateSchedule(
        settings.learning_rate,
        settings.num_train_steps,
        settings.num_warmup_steps,
        settings.learning_rate_schedule,
    )
    optimizer = AdamWeightDecay(
        schedule,
        weight_decay_rate=settings.weight_decay_rate,
        beta_1=settings.adam_beta_1,
        beta_2=settings.adam_beta_2,
        epsilon=settings.adam_epsilon,
        rate_factor=rate_factor,
        clip_norm=settings.clip_norm,
        bias_correction=settings.adam_bias_correction,
    )
    with strategy.scope():
        loss_scale = LossScale() if settings.precision == "float16" else None
    kind = TensorFlowTrainer
    if keras.backend.backend() == "jax":
        from bert_keras.engine.jax_step import JaxTrainer

        kind = JaxTrainer
    return kind(
        loss,
        optimizer,
        strategy,
        settings.seed,
        settings.gradient_accumulation_steps,
        is_trained,
        loss_scale,
        None if settings.jit == "auto" else settings.jit,
        settings.ema_decay,
    )
