"""Checks the GPUs of a machine: compares training steps with the CPU's in every precision, and times them.

    python tools/check_gpu.py | tee report.txt

The program takes a pre-training step on the CPU in float32, and repeats it on the GPU in every precision. In float32
and bfloat16, it also repeats the step compiled by XLA. With several GPUs, it repeats the step on all of them together.
For the tagger with LSTMs, it compares a step in float32. The report has versions, devices, differences and times. The
project was developed without a GPU, so please open an issue with your report.
"""

import importlib.metadata
import pathlib
import platform
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

import numpy as np
import tensorflow as tf
from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse, run_main
from bert_keras.model_folder.folder import given_config
from bert_keras.modeling import (
    BertConfig,
    PretrainingLoss,
    PretrainingModel,
    TokenClassificationLoss,
    weights_by_name,
)
from bert_keras.modeling.layers import dtype_policy
from bert_keras.modeling.tagger import FeatureBasedTagger
from bert_keras.settings.devices import PRECISIONS
from bert_keras.training import loop
from bert_keras.training.distribution.devices import create_strategy, distribute
from bert_keras.training.evaluation_pass import Evaluator, last
from bert_keras.training.settings.groups import RunSettings

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
NUM_ROWS, NUM_TOKENS, NUM_PREDICTIONS, NUM_TAGS = 16, 64, 10, 5
# The largest distance of all gradients together from those of the CPU in float32, relative to their length. The limit
# for float32 is too low for TensorFloat-32.
LIMITS = {"float32": 1e-4, "tf32": 2e-2, "bfloat16": 1e-1, "float16": 2e-2}


def define_flags():
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_enum(
        "device", "gpu", ["gpu", "cpu"], "Device to check. cpu tests this program without a GPU.", **define
    )
    flags.DEFINE_string(
        "bert_config_file",
        "uncased_L-12_H-768_A-12",
        "Model to time: a bert_config.json, or the name of a released model.",
        **define,
    )
    flags.DEFINE_integer("train_batch_size", 32, "Number of examples in a timed step.", lower_bound=1, **define)
    flags.DEFINE_integer("max_seq_length", 128, "Number of tokens in a timed example.", lower_bound=16, **define)
    flags.DEFINE_integer("num_steps", 20, "Steps to time in each precision. 0: no timing.", lower_bound=0, **define)
    return values


def main(argv):
    values = define_flags()
    parse(values, argv, __doc__)
    open_console(stderr=True)
    config = given_config(values.bert_config_file)
    print("\n".join(describe_machine()), flush=True)
    devices = [device.name for device in tf.config.list_logical_devices(values.device.upper())]
    if not devices:
        raise ValueError(
            "TensorFlow finds no GPU, so there is nothing to check; docs/guides/gpu.md says what it needs. "
            "--device=cpu tries this program out"
        )
    num_failed = compare(devices)
    if values.num_steps:
        num_failed += measure(config, values, devices[0])
    if num_failed:
        raise ValueError(f"{num_failed} check(s) failed; please open an issue with this report")
    print("all checks passed", flush=True)


def describe_machine():
    """Returns the versions and devices, a list of lines."""
    names = ("tensorflow", "keras", "numpy", "bert-keras")
    build = tf.sysconfig.get_build_info()
    driver = pathlib.Path("/proc/driver/nvidia/version")
    lines = [
        f"machine: {platform.platform()}, Python {platform.python_version()}",
        "packages: " + ", ".join(f"{name} {_version(name)}" for name in names),
        f"TensorFlow was built for: CUDA {build.get('cuda_version', '-')}, cuDNN {build.get('cudnn_version', '-')}",
        f"driver: {driver.read_text().splitlines()[0] if driver.exists() else 'no NVIDIA driver'}",
    ]
    for gpu in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpu)
        capability = ".".join(map(str, details.get("compute_capability", ("unknown",))))
        lines.append(f"{gpu.name}: {details.get('device_name', 'unknown')}, compute capability {capability}")
    return lines


def compare(devices):
    """Compares training steps on devices with the same steps on the CPU, and returns how many comparisons failed."""
    expected = {kind: take_step(kind, tf.distribute.OneDeviceStrategy("/CPU:0")) for kind in ("pretraining", "tagging")}
    one = tf.distribute.OneDeviceStrategy(devices[0])
    ways = [("pretraining", one, precision, False) for precision in PRECISIONS]
    ways += [("pretraining", one, precision, True) for precision in ("float32", "bfloat16")]
    ways += [("tagging", one, "float32", False)]
    if len(devices) > 1:
        ways += [("pretraining", create_strategy("mirrored"), precision, False) for precision in PRECISIONS]
    num_failed = 0
    for kind, strategy, precision, is_compiled in ways:
        number = strategy.num_replicas_in_sync
        way = f"{kind}, {_shown(precision, is_compiled)}{f', {number} devices' if number > 1 else ''}"
        try:
            loss, gradients = take_step(kind, strategy, precision, is_compiled)
        except (tf.errors.OpError, RuntimeError, ValueError) as error:
            num_failed += _print_failure(way, error)
            continue
        distance = _distance(gradients, expected[kind][1])
        is_close = distance <= LIMITS[precision]
        num_failed += not is_close
        print(
            f"{way}: loss {loss:.6f} (CPU {expected[kind][0]:.6f}), gradients differ by {distance:.1e}, "
            f"{'ok' if is_close else 'FAILED'} (limit {LIMITS[precision]:.0e})",
            flush=True,
        )
    return num_failed


def take_step(kind, strategy, precision="float32", is_compiled=False):
    """Takes one training step; for "tagging", also evaluates a batch with rows of padding.

    Returns the loss; and Adam's first moments, a dict of arrays. They are a tenth of the clipped gradients.
    """
    trainer = make_trainer(kind, SMALL, strategy, precision, is_compiled)
    batch = make_batch(kind, SMALL, NUM_ROWS, NUM_TOKENS)
    totals = trainer.train(_batches(strategy, batch), tf.constant(1))
    moments = {name: value.numpy() for name, value in trainer.state.items() if name.endswith("/adam_m")}
    if kind == "tagging":
        batch["input_mask"][-2:] = 0
        batch["label_ids"][-2:] = -1
        batches = distribute(strategy, tf.data.Dataset.from_tensors(batch))
        metrics = last(Evaluator(trainer.loss, strategy).evaluate(batches)).metrics
        if not np.isfinite(metrics["loss"]):
            raise ValueError(f"the loss of a batch with rows of padding is {metrics['loss']}")
    return float(totals["loss"]), moments


def measure(config, values, device):
    """Times training steps in every precision, with and without XLA, and returns how many of these failed."""
    batch_size, length, num_steps = values.train_batch_size, values.max_seq_length, values.num_steps
    strategy = tf.distribute.OneDeviceStrategy(device)
    num_failed = 0
    for precision in PRECISIONS:
        for is_compiled in (False, True):
            way = f"{values.bert_config_file}, {batch_size} x {length}, {_shown(precision, is_compiled)}"
            try:
                trainer = make_trainer("pretraining", config, strategy, precision, is_compiled)
                batches = _batches(strategy, make_batch("pretraining", config, batch_size, length))
                float(trainer.train(batches, tf.constant(2))["loss"])
                started = time.perf_counter()
                float(trainer.train(batches, tf.constant(num_steps))["loss"])
                seconds = (time.perf_counter() - started) / num_steps
                print(f"{way}: {1000 * seconds:.1f} ms a step, {batch_size / seconds:.1f} examples/s", flush=True)
            except (tf.errors.OpError, RuntimeError, ValueError) as error:
                num_failed += _print_failure(way, error)
    return num_failed


def make_trainer(kind, config, strategy, precision, is_compiled):
    """Returns a `training.step.Trainer` with the same weights on every device."""
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
    with strategy.scope(), dtype_policy(PRECISIONS[precision]):
        if kind == "pretraining":
            loss = PretrainingLoss(PretrainingModel(config))
        else:
            loss = TokenClassificationLoss(FeatureBasedTagger(config, NUM_TAGS, units=32))
    if kind == "tagging":
        for dropout in (loss.model.input_dropout, *(layer.dropout for layer in loss.model.recurrent_layers)):
            dropout.rate = 0.0
    random = np.random.default_rng(0)
    for name, weight in weights_by_name(loss.model).items():
        weight.assign(0.05 * random.standard_normal(weight.shape) + name.endswith("gamma"))
    settings = RunSettings(learning_rate=1e-4, num_train_steps=1000, seed=0, precision=precision, jit=is_compiled)
    is_trained = (lambda name: not name.startswith("bert/")) if kind == "tagging" else None
    return loop.make_trainer(loss, strategy, settings, is_trained=is_trained)


def make_batch(kind, config, num_rows, num_tokens):
    """Returns a dict of arrays: random examples of different lengths."""
    random = np.random.default_rng(1)
    mask = np.arange(num_tokens) < random.integers(num_tokens // 2, num_tokens + 1, num_rows)[:, None]
    ids = random.integers(1, config.vocab_size, mask.shape) * mask
    segments = (np.arange(num_tokens) >= num_tokens // 4) & mask
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    if kind == "tagging":
        batch["label_ids"] = np.where(mask, random.integers(0, NUM_TAGS, mask.shape), -1)
        return {name: values.astype(np.int32) for name, values in batch.items()}
    batch["masked_lm_positions"] = random.integers(0, num_tokens // 2, (num_rows, NUM_PREDICTIONS))
    batch["masked_lm_ids"] = random.integers(1, config.vocab_size, (num_rows, NUM_PREDICTIONS))
    batch["next_sentence_labels"] = random.integers(0, 2, (num_rows, 1))
    batch = {name: values.astype(np.int32) for name, values in batch.items()}
    return batch | {"masked_lm_weights": np.ones((num_rows, NUM_PREDICTIONS), np.float32)}


def _batches(strategy, batch):
    return iter(distribute(strategy, tf.data.Dataset.from_tensors(batch).repeat(), is_endless=True))


def _distance(gradients, expected):
    """Returns the distance of all gradients together from the expected ones, relative to their length."""
    squares = sum(np.square(gradients[name] - value, dtype=np.float64).sum() for name, value in expected.items())
    return np.sqrt(squares / sum(np.square(value, dtype=np.float64).sum() for value in expected.values()))


def _shown(precision, is_compiled):
    return f"{precision}, XLA" if is_compiled else precision


def _print_failure(way, error):
    first_line = (str(error).strip().splitlines() or [""])[0]
    print(f"{way}: FAILED: {type(error).__name__}: {first_line}", flush=True)
    return 1


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
