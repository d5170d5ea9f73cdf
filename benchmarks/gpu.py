"""Checks one library on a device, as the process that tools/check_gpu.py starts for it.

The report has the device, comparisons of steps, and times of training and prediction. Every row is printed as soon as
it is measured. Its share of the peak refers to the fastest product of square matrices of the same library in bfloat16.
"""

import os
import time

from bert_keras.cli.start import start_tensorflow

if __name__ == "__main__" and os.environ.get("KERAS_BACKEND") != "torch":  # PyTorch's process works without TensorFlow
    start_tensorflow()

import numpy as np

from benchmarks import peers, speed
from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, parse
from bert_keras.mistakes import Mistake
from tools.check_gpu import define_flags

PEAK_SIZES = (2048, 4096, 8192, 16384)
# Least shares of the peak in training, in bfloat16: by length, for all sizes or for those of BERT-Large.
GOALS = {(128, False): 0.37, (128, True): 0.37, (512, True): 0.60}
# Sequences of BERT-Large in a second of training on one A100 (80 GB) in float16, by their length.
# Source: NVIDIA, DeepLearningExamples, PyTorch/LanguageModeling/BERT.
NVIDIA_SPEEDS = {128: 485.6, 512: 96.5}
# A program trains several steps before it reads the loss, so a call of "training" waits for the device once for these.
NUM_STEPS = {"training": 10, "prediction": 1}


def main(argv):
    """Checks the one library of --library."""
    values = define_flags()
    parse(values, argv, __doc__)
    open_console(stderr=True)
    [name], kind = values.library, values.device
    num_failed = 0
    if name == "torch":
        import torch

        found = list(range(torch.cuda.device_count())) if kind == "gpu" else ["CPU"]
        names = [torch.cuda.get_device_name(number) for number in found] if kind == "gpu" else ["CPU"]
    else:
        from benchmarks import gpu_steps

        found, names = gpu_steps.find_devices(kind)
    print(f"{name}: device: {', '.join(names) or 'no GPU'}", flush=True)
    if not found:
        raise Mistake("{} finds no GPU; docs/guides/gpu.md says what it needs; --device=cpu tries this program", name)
    if name != "torch":
        num_failed += gpu_steps.compare(found)
    if values.seconds:
        configs = {config: speed.read_config(config) for config in values.bert_config_file}
        library = (
            Torch("cuda" if kind == "gpu" else "cpu") if name == "torch" else Ours(gpu_steps.strategy_on(found[:1]))
        )
        sizes = PEAK_SIZES if kind == "gpu" else PEAK_SIZES[:1]
        lengths = [int(length) for length in values.max_seq_length]
        num_failed += measure(library, configs, lengths, values.train_batch_size, values.seconds, sizes)
    if num_failed:
        raise Mistake("{} check(s) of {} failed", num_failed, name)


def measure(library, configs, lengths, batch_size, seconds, sizes=PEAK_SIZES):
    """Prints a row for each size, length and work, and returns how many failed.

    Args:
        library: `Ours` or `Torch`.
        configs: dict of BertConfig by name.
        batch_size: examples of 128 tokens in a batch; a batch of longer ones has as many tokens.
        seconds: the minimum duration of a measurement.
        sizes: of the matrices.
    """
    peak = measure_peak(library, sizes, seconds)
    print(f"{library.name}: peak of bfloat16 products: {peak / 1e12:.3g} TFLOP/s", flush=True)
    num_failed = 0
    for name, config in configs.items():
        is_large = (config.num_hidden_layers, config.hidden_size) == (24, 1024)
        for length in lengths:
            batch = speed.make_batch(config, max(1, batch_size * 128 // length), length)
            num_rows = len(batch["input_ids"])
            works = [("training", way) for way in library.ways] + [("prediction", way) for way in library.ways]
            for work, way in works:
                what = f"{name}, {num_rows} x {length}, {work}, {library.name} {way}"
                try:
                    calls = _timed(getattr(library, work)(config, batch, way), seconds)
                except Exception as error:  # a full memory, or what the compiler of a GPU refuses; the rest continues
                    print(f"{what}: FAILED: {type(error).__name__}: {str(error).strip()[:200]}", flush=True)
                    num_failed += 1
                    continue
                times = np.array(calls) / NUM_STEPS[work]
                operations = speed.pretraining_operations if work == "training" else speed.encoder_operations
                rate, share = num_rows / np.median(times), operations(config, batch) / np.median(times) / peak
                spread = f"{num_rows / max(times):.4g} to {num_rows / min(times):.4g}"
                print(f"{what}: {rate:.4g} examples/s ({spread}), {share:.1%} of the peak", flush=True)
                goal = GOALS.get((length, is_large)) if library.is_ours and work == "training" else None
                if goal:
                    print(f"  goal of {goal:.0%} {'reached' if share >= goal else 'missed'}", flush=True)
            if is_large and length in NVIDIA_SPEEDS:
                print(f"  NVIDIA's training on one A100 80 GB, float16: {NVIDIA_SPEEDS[length]} examples/s", flush=True)
    return num_failed


def measure_peak(library, sizes, seconds):
    """Returns the most operations a second of products of square matrices in bfloat16."""
    peak = 0.0
    for size in sizes:
        multiply = library.product(np.random.default_rng(0).random((size, size), np.float32))
        peak = max(peak, 2 * size**3 / min(_timed(multiply, seconds / 2)))
    return peak


def _timed(function, seconds):
    """Returns the seconds of calls of a function, at least three, after two that compile."""
    function()
    function()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return times


class Ours:
    """This project on the backend of Keras of this process."""

    is_ours = True

    def __init__(self, strategy):
        import keras

        self.strategy, self.is_jax = strategy, keras.backend.backend() == "jax"
        self.name = "bert-keras on JAX" if self.is_jax else "bert-keras on TensorFlow"
        self.ways = ("bfloat16",) if self.is_jax else ("bfloat16", "bfloat16 XLA")

    def product(self, x):
        if self.is_jax:
            import jax

            value = jax.device_put(x.astype("bfloat16"), self.strategy.whole)
            multiply = jax.jit(lambda x: x @ x)
            return lambda: multiply(value).block_until_ready()
        import tensorflow as tf

        with self.strategy.scope():
            value = tf.cast(x, tf.bfloat16)
        multiply = tf.function(lambda: tf.matmul(value, value))
        return lambda: self.strategy.run(multiply)[0, 0].numpy()

    def training(self, config, batch, way):
        import tensorflow as tf

        from bert_keras.engine.distribution.devices import distribute
        from bert_keras.engine.input.feature_batches import in_parts
        from bert_keras.engine.trainer import make_trainer
        from bert_keras.modeling import PretrainingLoss, PretrainingModel
        from bert_keras.modeling.number_format import dtype_policy
        from bert_keras.settings.groups import RunSettings

        with self.strategy.scope(), dtype_policy("mixed_bfloat16"):
            loss = PretrainingLoss(PretrainingModel(config))
        run = RunSettings(num_train_steps=10**6, seed=0, precision="bfloat16", jit=way.endswith("XLA"))
        trainer, num_steps = make_trainer(loss, self.strategy, run), tf.constant(NUM_STEPS["training"])
        batches = in_parts(tf.data.Dataset.from_tensors(batch).repeat(), self.strategy.num_replicas_in_sync)
        batches = iter(distribute(self.strategy, batches, is_endless=True))
        return lambda: float(trainer.train(batches, num_steps)["loss"])

    def prediction(self, config, batch, way):
        import tensorflow as tf

        from bert_keras.modeling import BertModel
        from bert_keras.modeling.number_format import dtype_policy

        with self.strategy.scope(), dtype_policy("mixed_bfloat16"):
            model = BertModel(config)
        features = {name: batch[name] for name in ("input_ids", "input_mask", "segment_ids")}
        if self.is_jax:
            encode = self.strategy.compiled(
                lambda features: model(*features.values())["sequence_output"], lambda: model.variables
            )
            return lambda: encode(features)
        encode = tf.function(lambda *inputs: model(*inputs)["sequence_output"], jit_compile=way.endswith("XLA"))
        inputs = [tf.constant(value) for value in features.values()]
        return lambda: self.strategy.run(encode, args=inputs)[0, 0, 0].numpy()  # waits for the device


class Torch:
    """transformers with `torch.compile` and fused attention."""

    is_ours, name, ways = False, "transformers, torch.compile, sdpa", ("bfloat16",)

    def __init__(self, device):
        self.device = device

    def product(self, x):
        import torch

        value = torch.tensor(x, dtype=torch.bfloat16, device=self.device)
        return lambda: (value @ value)[0, 0].item()

    def training(self, config, batch, way):
        return peers.transformers_step(
            config, batch, is_mixed=True, is_compiled=True, device=self.device, num_steps=NUM_STEPS["training"]
        )

    def prediction(self, config, batch, way):
        import torch
        import transformers

        sizes, inputs = peers.transformers_config(config), peers.torch_inputs(batch, self.device)
        model = torch.compile(transformers.BertModel(sizes).eval().to(self.device, torch.bfloat16))

        def encode():
            with torch.inference_mode():
                return model(**inputs).last_hidden_state[0, 0, 0].item()  # waits for the device

        return encode


if __name__ == "__main__":
    as_program(main)
