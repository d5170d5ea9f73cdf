"""Takes training steps on the backend of Keras of this process, for comparisons of backends.

As a program it writes the results on JAX as arrays: see `main`.
"""

import keras
import numpy as np
import tensorflow as tf
from every_loss import CELLS, features_for
from tiny_bert import make_config

from bert_keras.modeling import (
    AdamWeightDecay,
    BertConfig,
    LearningRateSchedule,
    PretrainingLoss,
    PretrainingModel,
    load_weights,
    weights_by_name,
)
from bert_keras.training.input.packed_batches import PackedLoss
from bert_keras.training.input.packing import pack

CONFIG = make_config(num_hidden_layers=2, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1)
# (cell, changes of the trainer, whether the layers are computed again)
WAYS = {
    **{name: (name, {}) for name in CELLS},
    "parts": ("masked words and sentences", {"num_micro_batches": 3}),
    "parts of ranked vectors": ("ranked vectors of means", {"num_micro_batches": 3}),
    "averages": ("classes", {"ema_decay": 0.9}),
    "frozen": ("classes", {"is_trained": lambda name: not name.startswith("bert/embeddings/")}),
    "recomputed": ("masked words and sentences", {}),
    "packed": ("masked words and sentences", {}),
}


def new_trainer(loss, schedule, num_devices=1, **options):
    """Returns the trainer of this backend; on JAX for a number of devices."""
    optimizer = AdamWeightDecay(schedule)
    if keras.backend.backend() == "tensorflow":
        from bert_keras.training.step import Trainer

        return Trainer(loss, optimizer, tf.distribute.get_strategy(), 7, **options)
    import jax

    from bert_keras.training.on_jax.devices import JaxDevices
    from bert_keras.training.on_jax.step import JaxTrainer

    return JaxTrainer(loss, optimizer, JaxDevices(jax.devices()[:num_devices]), 7, **options)


def state_of(trainer):
    return {name: np.array(variable) for name, variable in trainer.state.items()}


def take_steps(way, num_steps=10, num_devices=1, config=CONFIG):
    """Returns the state after some steps on one batch, with dropout, and the sums of them as "loss" and "norm"."""
    cell, options = CELLS[WAYS[way][0]], WAYS[way][1]
    loss, features = cell.make(config), features_for(cell)
    loss.model.bert.is_recomputed = way == "recomputed"
    draw = np.random.default_rng(5)
    for weight in loss.own_weights.values():
        weight.assign(0.3 * draw.standard_normal(weight.shape))
    if way == "packed":
        packed = pack(features, row_length=16, max_sequences=3, row_multiple=num_devices)
        features = {name: values.reshape(num_devices, -1, *values.shape[1:]) for name, values in packed.items()}
        loss = PackedLoss(loss)
    if num_devices > 1 and way != "packed":
        features = {name: np.concatenate([values] * num_devices) for name, values in features.items()}
    trainer = new_trainer(loss, LearningRateSchedule(1e-3, 100, 0), num_devices, **options)
    totals = trainer.train(iter(tf.data.Dataset.from_tensors(features).repeat()), tf.constant(num_steps))
    return state_of(trainer) | {"loss": np.array(totals["loss"]), "norm": np.array(totals["gradient_norm"])}


def thirty_updates(folder, num_devices=1):
    """Returns the state and the losses of the 30 golden updates; each batch is a multiple of 2."""
    golden = np.load(folder / "training.npz")
    loss = PretrainingLoss(PretrainingModel(BertConfig.from_json_file(folder / "bert_config.json")))
    load_weights(weights_by_name(loss.model), folder / "bert_model.ckpt")
    schedule = LearningRateSchedule(
        float(golden["learning_rate"]), int(golden["num_train_steps"]), int(golden["num_warmup_steps"])
    )
    trainer = new_trainer(loss, schedule, num_devices)
    batches = [
        {
            key.split("/")[1]: golden[key].astype(np.float32 if key.endswith("masked_lm_weights") else np.int32)
            for key in golden.files
            if key.startswith(f"batch{number}/")
        }
        for number in range(3)
    ]
    losses = [float(trainer.train(iter([batches[step % 3]]), tf.constant(1))["loss"]) for step in range(30)]
    return state_of(trainer) | {"losses": np.array(losses)}
