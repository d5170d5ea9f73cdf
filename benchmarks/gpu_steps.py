"""Compares training steps of this project on a GPU with the same steps on the CPU; see tools/check_gpu.py."""

import keras
import numpy as np
import tensorflow as tf

from bert_keras.engine import trainer as trainers
from bert_keras.engine.distribution.devices import create_strategy, distribute
from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.modeling import BertConfig, PretrainingLoss, PretrainingModel, weights_by_name
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.settings.devices import PRECISIONS
from bert_keras.settings.groups import RunSettings

# The network of the comparison: small, but with every operation.
SMALL = BertConfig(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=512,
    max_position_embeddings=64,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
NUM_ROWS, NUM_TOKENS, NUM_PREDICTIONS = 16, 64, 10
# The largest distance of all gradients together from those of the CPU in float32, relative to their length. The limit
# for float32 is too low for TensorFloat-32.
LIMITS = {"float32": 1e-4, "tf32": 2e-2, "bfloat16": 1e-1, "float16": 2e-2}


def find_devices(kind):
    """Returns the devices of a kind ("gpu" or "cpu") for `strategy_on`, and their names."""
    if is_on_jax():
        import jax

        tf.config.set_visible_devices([], "GPU")  # or TensorFlow would take their memory
        found = (
            jax.devices("cpu")
            if kind == "cpu"
            else [device for device in jax.local_devices() if device.platform == kind]
        )
        return found, [device.device_kind for device in found]
    found = [device.name for device in tf.config.list_logical_devices(kind.upper())]
    details = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.list_physical_devices("GPU")]
    names = [f"{gpu.get('device_name')}, compute capability {gpu.get('compute_capability')}" for gpu in details]
    return found, names if kind == "gpu" else [kind] * len(found)


def is_on_jax():
    return keras.backend.backend() == "jax"


def strategy_on(devices):
    """Returns a strategy for devices of `find_devices`."""
    if is_on_jax():
        from bert_keras.engine.distribution.jax_devices import JaxDevices

        return JaxDevices(devices)
    one = tf.distribute.OneDeviceStrategy
    return one(devices[0]) if len(devices) == 1 else create_strategy("mirrored")


def compare(devices):
    """Compares training steps on devices with the same steps on the CPU, and returns how many comparisons failed."""
    tf.get_logger().setLevel("ERROR")  # each step is a new program, about which TensorFlow warns
    cpu = strategy_on(find_devices("cpu")[0][:1])
    expected_loss, expected = take_step(cpu)
    # On JAX, bfloat16 takes the place of float16, and XLA compiles everything.
    precisions = [name for name in PRECISIONS if not (is_on_jax() and name == "float16")]
    ways = [(devices[:1], precision, False) for precision in precisions]
    if not is_on_jax():
        ways += [(devices[:1], precision, True) for precision in ("float32", "bfloat16")]
    if len(devices) > 1:
        ways += [(devices, precision, False) for precision in precisions]
    num_failed = 0
    for used, precision, is_compiled in ways:
        way = f"pretraining, {precision}{', XLA' * is_compiled}{f', {len(used)} devices' * (len(used) > 1)}"
        try:
            loss, gradients = take_step(strategy_on(used), precision, is_compiled)
        except (tf.errors.OpError, RuntimeError, ValueError) as error:
            first_line = (str(error).strip().splitlines() or [""])[0]
            print(f"{way}: FAILED: {type(error).__name__}: {first_line}", flush=True)
            num_failed += 1
            continue
        distance = _distance(gradients, expected)
        is_close = distance <= LIMITS[precision]
        num_failed += not is_close
        print(
            f"{way}: loss {loss:.6f} (CPU {expected_loss:.6f}), gradients differ by {distance:.1e}, "
            f"{'ok' if is_close else 'FAILED'} (limit {LIMITS[precision]:.0e})",
            flush=True,
        )
    return num_failed


def take_step(strategy, precision="float32", is_compiled=False):
    """Takes one training step.

    Returns the loss; and Adam's first moments, a dict of arrays. They are a tenth of the clipped gradients.
    """
    trainer = make_trainer(SMALL, strategy, precision, is_compiled)
    totals = trainer.train(_batches(strategy, make_batch(SMALL, NUM_ROWS, NUM_TOKENS)), tf.constant(1))
    moments = {name: np.array(value) for name, value in trainer.state.items() if name.endswith("/adam_m")}
    return float(totals["loss"]), moments


def make_trainer(config, strategy, precision, is_compiled):
    """Returns a `engine.step.Trainer` with the same weights on every device."""
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
    if is_on_jax():
        from bert_keras.engine.distribution.jax_devices import set_precision

        set_precision(precision)
    with strategy.scope(), dtype_policy(PRECISIONS[precision]):
        loss = PretrainingLoss(PretrainingModel(config))
    random = np.random.default_rng(0)
    for name, weight in weights_by_name(loss.model).items():
        weight.assign(0.05 * random.standard_normal(weight.shape) + name.endswith("gamma"))
    settings = RunSettings(learning_rate=1e-4, num_train_steps=1000, seed=0, precision=precision, jit=is_compiled)
    return trainers.make_trainer(loss, strategy, settings)


def make_batch(config, num_rows, num_tokens):
    """Returns a dict of arrays: random examples of different lengths."""
    random = np.random.default_rng(1)
    mask = np.arange(num_tokens) < random.integers(num_tokens // 2, num_tokens + 1, num_rows)[:, None]
    ids = random.integers(1, config.vocab_size, mask.shape) * mask
    segments = (np.arange(num_tokens) >= num_tokens // 4) & mask
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    batch["masked_lm_positions"] = random.integers(0, num_tokens // 2, (num_rows, NUM_PREDICTIONS))
    batch["masked_lm_ids"] = random.integers(1, config.vocab_size, (num_rows, NUM_PREDICTIONS))
    batch["next_sentence_labels"] = random.integers(0, 2, (num_rows, 1))
    batch = {name: values.astype(np.int32) for name, values in batch.items()}
    return batch | {"masked_lm_weights": np.ones((num_rows, NUM_PREDICTIONS), np.float32)}


def _batches(strategy, batch):
    batches = in_parts(tf.data.Dataset.from_tensors(batch).repeat(), strategy.num_replicas_in_sync)
    return iter(distribute(strategy, batches, is_endless=True))


def _distance(gradients, expected):
    """Returns the distance of all gradients together from the expected ones, relative to their length."""
    squares = sum(np.square(gradients[name] - value, dtype=np.float64).sum() for name, value in expected.items())
    return np.sqrt(squares / sum(np.square(value, dtype=np.float64).sum() for value in expected.values()))
