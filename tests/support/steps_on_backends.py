"""Takes training steps on the backend of Keras of this process, for comparisons of backends."""

import contextlib
import pathlib
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from every_loss import CELLS, features_for
from states import assert_states_close, state_of
from tiny_bert import make_config

from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.input.packing import pack
from bert_keras.modeling import (
    AdamWeightDecay,
    BertConfig,
    LearningRateSchedule,
    PretrainingLoss,
    PretrainingModel,
    RegressionLoss,
    load_weights,
    weights_by_name,
)
from bert_keras.modeling.dropout import Dropout, random_bits
from bert_keras.modeling.lora import enable_lora

CONFIG = make_config(num_hidden_layers=1, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1)
# For each way to train, the loss and the arguments of the trainer.
WAYS = {
    **{name: (name, {}) for name in CELLS},
    "parts": ("masked words and sentences", {"num_micro_batches": 3}),
    "parts of ranked vectors": ("ranked vectors of means", {"num_micro_batches": 3}),
    "averages": ("classes", {"ema_decay": 0.9}),
    "frozen": ("classes", {"is_trained": lambda name: not name.startswith("bert/embeddings/")}),
    "recomputed": ("masked words and sentences", {}),
    "packed": ("masked words and sentences", {}),
    "adapted": ("classes", {"is_trained": lambda name: "/lora_" in name or name.startswith("output_")}),
    "numbers in their unit": ("numbers", {}),
}
# These losses differ little from the others.
ALIKE = {
    *("numbers", "numbers in their unit", "several labels", "tags", "masked words alone"),
    *("ranked vectors of [CLS]", "ranked vectors of maxima", "hidden states", "cosines of states"),
    *("choices", "texts of a query", "scored vectors", "vectors of classes", "labels and soft labels"),
    "parts of ranked vectors",
}
# A shift of all of these changes no loss, so their gradients are zero except for rounding, which Adam amplifies.
WITHOUT_EFFECT = {
    "choices": ("output_bias",),
    "texts of a query": ("output_bias",),
    "answers": ("cls/squad/output_bias", "bert/encoder/layer_0/output/LayerNorm/beta"),
}


def assert_same(found, expected, way, tolerance=1e-5):
    """Compares the results of `take_steps`: weights and sums by value, slots by length with ten times the tolerance."""
    sums = {"loss", "norm"}
    without = ("-", *WITHOUT_EFFECT.get(way, ()))
    names = {name for name in {*expected} - sums if "self/key/bias" not in name and not name.startswith(without)}
    assert found.keys() == expected.keys()
    states = [{name: state[name] for name in names} for state in (found, expected)]
    assert_states_close(*states, weight_tolerance=tolerance, slot_tolerance=10 * tolerance)
    for name in sums:
        assert found[name] == pytest.approx(expected[name], rel=tolerance), (way, name)


def new_trainer(loss, schedule, num_devices=1, **options):
    """Returns the trainer of this backend; on JAX for a number of devices."""
    optimizer = AdamWeightDecay(schedule)
    if keras.backend.backend() == "tensorflow":
        from bert_keras.engine.tensorflow_step import TensorFlowTrainer

        return TensorFlowTrainer(loss, optimizer, tf.distribute.get_strategy(), 7, **options)
    import jax

    from bert_keras.engine.distribution.jax_devices import JaxDevices
    from bert_keras.engine.jax_step import JaxTrainer

    return JaxTrainer(loss, optimizer, JaxDevices(jax.devices()[:num_devices]), 7, **options)


def take_steps(way, num_steps=4, num_copies=1, num_devices=1, **more):
    """Returns the state after some steps on a batch of several copies, with dropout, and the sums "loss" and "norm".

    Rounding grows with the steps: without AVX-512, compiled and other slots differ by 9e-6 of their length after four
    steps, and by 1.1e-4 after ten.
    """
    cell, options = CELLS[WAYS[way][0]], WAYS[way][1]
    loss = cell.make(CONFIG)
    if way == "numbers in their unit":
        loss = RegressionLoss(loss.model, mean=3.0, std=2.0)
    features = {name: np.concatenate([values] * num_copies) for name, values in features_for(cell).items()}
    loss.model.bert.is_recomputed = way == "recomputed"
    if way == "adapted":
        enable_lora(loss.model, 2, 4.0)
    draw = np.random.default_rng(5)
    adapters = [weight for name, weight in weights_by_name(loss.model).items() if "/lora_" in name]
    for weight in [*loss.own_weights.values(), *adapters]:
        weight.assign(0.3 * draw.standard_normal(weight.shape))
    if way == "packed":
        packed = pack(features, row_length=16, max_sequences=3, row_multiple=num_copies)
        features = {name: values.reshape(num_copies, -1, *values.shape[1:]) for name, values in packed.items()}
    trainer = new_trainer(loss, LearningRateSchedule(1e-3, 100, 0), num_devices, **options, **more)
    batches = tf.data.Dataset.from_tensors(features)
    batches = (batches if way == "packed" else in_parts(batches, trainer.num_micro_batches)).repeat()
    totals = trainer.train(iter(batches), tf.constant(num_steps))
    return state_of(trainer) | {"loss": np.array(totals["loss"]), "norm": np.array(totals["gradient_norm"])}


@contextlib.contextmanager
def beside_the_kink(model):
    """Computes the gradients of pretraining_b at step 24 on the side of a relu that the original BERT took: above zero.

    The input of unit 87 in the last layer is zero at one token except for rounding (1e-7), so the slope depends on the
    matrix kernels of the machine. The wrong slope changes the weights by up to 2e-4. The other inputs of that layer
    are at least 5e-5 from zero.
    """
    bias = weights_by_name(model)["bert/encoder/layer_2/intermediate/dense/bias"]
    shift = np.float32(1e-5) * (np.arange(bias.shape[0]) == 87)
    bias.assign_add(shift)
    yield
    bias.assign_sub(shift)


def thirty_updates(folder, **options):
    """Returns the state after the 30 updates of a golden model, and their losses as "losses"."""
    golden = np.load(folder / "training.npz")
    loss = PretrainingLoss(PretrainingModel(BertConfig.from_json_file(folder / "bert_config.json")))
    load_weights(weights_by_name(loss.model), folder / "bert_model.ckpt")
    schedule = LearningRateSchedule(
        float(golden["learning_rate"]), int(golden["num_train_steps"]), int(golden["num_warmup_steps"])
    )
    trainer = new_trainer(loss, schedule, **options)
    batches = [
        {
            key.split("/")[1]: golden[key].astype(np.float32 if key.endswith("masked_lm_weights") else np.int32)
            for key in golden.files
            if key.startswith(f"batch{number}/")
        }
        for number in range(3)
    ]
    stacked = {name: np.stack([batch[name] for batch in batches]) for name in batches[0]}
    iterator, losses = iter(in_parts(tf.data.Dataset.from_tensor_slices(stacked).repeat())), []
    for step in range(30):
        is_kink = (folder.name, step) == ("pretraining_b", 24)
        with beside_the_kink(loss.model) if is_kink else contextlib.nullcontext():
            losses.append(float(trainer.train(iterator, tf.constant(1))["loss"]))
    return state_of(trainer) | {"losses": np.array(losses)}


def masks():
    """Returns random bits for seeds and sizes, and what dropout keeps; all seeds are int32 [2]."""
    dtype = np.uint32 if keras.backend.backend() == "jax" else np.int32
    seeds = np.array([(1, 2), (-5, 0), (2**31 - 1, -(2**31))], np.int32).view(dtype)
    sizes = (1,), (7, 1), (40, 3, 5), (3, 2, 8), (5, 24)
    found = {
        f"{number} {size}": np.array(random_bits(size, seed)) for number, seed in enumerate(seeds) for size in sizes
    }
    kept = {size: Dropout(0.25, 3)(np.ones(size, np.float32), seeds[0]) for size in sizes}
    return found | {f"kept {size}": np.array(values) for size, values in kept.items()}


def main(kind, folder, result_file):
    """Writes the results for one of the tests, as "way|name"; the golden updates are of one device and of eight."""
    if kind in ("steps", "more steps"):
        ways = ALIKE if kind == "more steps" else WAYS.keys() - ALIKE
        found = {way: take_steps(way) for way in ways} | {"masks": masks()}
    elif kind == "golden":
        folders = [pathlib.Path(folder, name) for name in ("pretraining_a", "pretraining_b")]
        found = {golden.name: thirty_updates(golden) for golden in folders}
    else:
        ways = "masked words and sentences", "parts of ranked vectors", "packed"
        found = {f"{way}|{number}": take_steps(way, 10, 8, number) for way in ways for number in (1, 8)}
    np.savez(result_file, **{f"{way}|{name}": value for way, of_way in found.items() for name, value in of_way.items()})


def results_of(file):
    """Returns what `main` wrote: for each way a dict of arrays."""
    found = {}
    with np.load(file) as arrays:
        for key in arrays.files:
            way, _, name = key.rpartition("|")
            found.setdefault(way, {})[name] = arrays[key]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
