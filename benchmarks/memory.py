"""Measures the highest memory of fine-tuning steps.

    python benchmarks/memory.py --bert_config_file=uncased_L-12_H-768_A-12 --num_tokens=128 --batch_size=8,32

A step trains a classifier of two classes: forward pass, backward pass, clipping and Adam. Each measurement is a
separate process with random weights and full sequences. On a CPU it reads the highest resident memory of the whole
process, with Python and TensorFlow. On a GPU it reads the highest memory of TensorFlow's tensors there. Memory grows
linearly with the batch, so two batches tell how much any other one needs. Prints a table in Markdown. 1 GB is 2^30
bytes.
"""

import itertools
import json
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from absl import flags

from benchmarks.machine import check_names, describe_machine, use_cpu
from bert_keras.cli.flags import as_program, parse
from bert_keras.mistakes import Mistake
from bert_keras.settings.devices import PRECISIONS

# Flags of the training programs with several values each; every combination is measured. Some have known values.
_KNOWN = {"precision": PRECISIONS, "recompute": ("false", "true")}
_LISTS = {
    "bert_config_file": (["uncased_L-12_H-768_A-12"], "Sizes: released names, or bert_config.json files."),
    "num_tokens": (["128"], "Lengths of the sequences."),
    "precision": (["float32"], "Precisions of the products."),
    "recompute": (["false"], "Whether to compute the layers again: false, true."),
    "gradient_accumulation_steps": (["1"], "Numbers of parts of a batch."),
    "batch_size": (["8", "32"], "Batches to measure."),
}


def define_flags():
    """Returns the flags of this benchmark."""
    values = flags.FlagValues()
    for name, (default, meaning) in _LISTS.items():
        flags.DEFINE_list(name, default, meaning, flag_values=values)
    flags.DEFINE_integer("num_steps", 2, "Steps of a measurement; from 2 up, also times a step.", 1, flag_values=values)
    flags.DEFINE_enum("device", "cpu", ("cpu", "gpu"), "Where to compute.", flag_values=values)
    flags.DEFINE_string("measure", None, "For the processes of this program: one step, as JSON.", flag_values=values)
    return values


def main(argv):
    """Runs the benchmark."""
    values = define_flags()
    parse(values, argv, __doc__)
    if values.measure:
        print(json.dumps(measure(json.loads(values.measure))))
        return
    for name, known in _KNOWN.items():
        check_names(name, values[name].value, known)
    print(f"Command: `python {' '.join(argv)}`\n\nMachine: {describe_machine(('tensorflow', 'keras'))}\n")
    print(f"| {' | '.join(_LISTS)} | memory, GB | seconds of a step |")
    print(f"|{' --- |' * len(_LISTS)} ---: | ---: |")
    for setting in itertools.product(*(getattr(values, name) for name in _LISTS)):
        given = dict(zip(_LISTS, setting, strict=True)) | {"num_steps": values.num_steps, "device": values.device}
        result = measure_in_process(given)
        seconds = "" if result["seconds"] is None else f"{result['seconds']:.3g}"
        print(f"| {' | '.join(setting)} | {result['peak'] / 2**30:.2f} | {seconds} |", flush=True)


def measure_in_process(given):
    """Runs `measure` in its own process; raises a `Mistake` with the end of its standard error if that fails."""
    command = [sys.executable, __file__, f"--measure={json.dumps(given)}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Mistake("{} was not measured: {}", given, done.stderr.strip()[-500:])
    return json.loads(done.stdout.splitlines()[-1])


def measure(given):
    """Takes training steps; returns a dict of `peak`, bytes, and `seconds`, the median of the steps after the first.

    `given` has a value of each flag. The first step also traces the graph. Without others, `seconds` is None. On a CPU,
    seconds are those of the processor over all cores, because other programs may be running. On a GPU they are those
    of the clock.
    """
    from bert_keras.cli.start import start_tensorflow

    start_tensorflow()
    use_device(given["device"])
    step = make_step(given)
    clock = time.process_time if given["device"] == "cpu" else time.perf_counter
    times = []
    for _ in range(given["num_steps"]):
        started = clock()
        step()
        times.append(clock() - started)
    return {"peak": peak_memory(given["device"]), "seconds": statistics.median(times[1:]) if times[1:] else None}


def use_device(device):
    """Makes TensorFlow use the CPU or a GPU."""
    import tensorflow as tf

    if device == "cpu":
        use_cpu()
    elif not tf.config.list_physical_devices("GPU"):
        raise Mistake("--device=gpu: TensorFlow finds no GPU; install bert-keras[gpu], or give --device=cpu")


def make_step(given):
    """Returns a function that takes one step with the trainer of the fine-tuning programs."""
    import numpy as np
    import tensorflow as tf

    from benchmarks.speed import read_config
    from bert_keras.engine.input.feature_batches import in_parts
    from bert_keras.engine.trainer import make_trainer
    from bert_keras.modeling import ClassificationLoss, ClassifierModel
    from bert_keras.modeling.number_format import dtype_policy
    from bert_keras.settings.groups import RunSettings

    config = read_config(given["bert_config_file"])
    with dtype_policy(PRECISIONS[given["precision"]]):
        loss = ClassificationLoss(ClassifierModel(config, 2))
    loss.model.bert.is_recomputed = given["recompute"] == "true"
    num_parts = int(given["gradient_accumulation_steps"])
    run = RunSettings(
        num_train_steps=1000,
        num_warmup_steps=100,
        seed=1,
        precision=given["precision"],
        gradient_accumulation_steps=num_parts,
    )
    trainer = make_trainer(loss, tf.distribute.get_strategy(), run)
    shape = int(given["batch_size"]), int(given["num_tokens"])
    random = np.random.default_rng(0)
    batch = {
        "input_ids": random.integers(1, config.vocab_size, shape).astype(np.int32),
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
        "label_ids": random.integers(0, 2, shape[0]).astype(np.int32),
    }
    batches = iter(in_parts(tf.data.Dataset.from_tensors(batch).repeat(), num_parts))
    return lambda: float(trainer.train(batches, tf.constant(1))["loss"])


def peak_memory(device):
    """Returns the highest memory so far in bytes: of this process, or of TensorFlow's tensors on the first GPU."""
    if device == "gpu":
        import tensorflow as tf

        return tf.config.experimental.get_memory_info("GPU:0")["peak"]
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # on Linux, ru_maxrss begins with the memory of the parent process
        return int(re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in bytes on macOS


if __name__ == "__main__":
    as_program(main)
