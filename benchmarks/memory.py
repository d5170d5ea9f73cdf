"""Measures the memory of fine-tuning steps, and computes the largest batch that fits into a given memory.

    python benchmarks/memory.py --bert_config_file=uncased_L-12_H-768_A-12 --num_tokens=128,512

A step trains a classifier of two classes: forward pass, backward pass, clipping and Adam. Each measurement is a
separate process with random weights and full sequences. On a CPU it reads the highest resident memory of the whole
process, with Python and TensorFlow. On a GPU it reads the highest memory of TensorFlow's tensors there. Memory grows
linearly with the batch, so the program draws a line through the smallest and the largest measured batch. A batch
between the two checks the line. Prints a table in Markdown. 1 GB is 2^30 bytes.
"""

import dataclasses
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

from benchmarks.machine import DEVICES, describe_machine, use_device
from bert_keras.cli.flags import PRECISIONS, parse, run_main

_MB, _GB = 2**20, 2**30
_SIZES = ["uncased_L-2_H-128_A-2", "uncased_L-4_H-256_A-4", "uncased_L-12_H-768_A-12", "uncased_L-24_H-1024_A-16"]


@dataclasses.dataclass(frozen=True)
class Setting:
    """The settings of a step, except its batch size. `num_parts` is --gradient_accumulation_steps."""

    bert_config_file: str
    num_tokens: int
    precision: str = "float32"
    recompute: bool = False
    num_parts: int = 1

    @property
    def name(self):
        """The settings that the flags of a training program would change, a str."""
        parts = [f"{self.num_parts} parts"] if self.num_parts > 1 else []
        return ", ".join([self.precision, *(["recompute"] if self.recompute else []), *parts])


@dataclasses.dataclass(frozen=True)
class Line:
    """The memory of a step in bytes: `fixed`, and `growth` for each example of the batch."""

    fixed: float
    growth: float

    def largest_batch(self, memory, multiple_of=1):
        """Returns the largest batch that fits into `memory` bytes, a multiple of `multiple_of`; 0: none does."""
        batch_size = int((memory - self.fixed) // self.growth)
        return max(0, batch_size // multiple_of * multiple_of)


def fit(peaks):
    """Returns the Line through the smallest and the largest batch of {batch size: bytes}.

    Also returns the largest error of the line at the other batches, as a share of their memory; None without others.
    Raises ValueError if the memory does not grow with the batch.
    """
    smallest, largest = min(peaks), max(peaks)
    growth = (peaks[largest] - peaks[smallest]) / (largest - smallest)
    if growth <= 0:
        raise ValueError(
            f"the memory did not grow from batch {smallest} to {largest}: the update of the weights needs more than "
            "the batches; give more --batch_tokens"
        )
    line = Line(peaks[smallest] - growth * smallest, growth)
    others = {size: peak for size, peak in peaks.items() if size not in (smallest, largest)}
    errors = [abs(line.fixed + growth * size - peak) / peak for size, peak in others.items()]
    return line, max(errors, default=None)


def batch_sizes(num_tokens, batch_tokens, num_parts=1):
    """Returns the batch sizes of about the given numbers of tokens, multiples of `num_parts`, at least two of them."""
    sizes = {max(1, round(tokens / num_tokens / num_parts)) * num_parts for tokens in batch_tokens}
    return sorted(sizes | {max(sizes) + num_parts} if len(sizes) == 1 else sizes)


def define_flags():
    """Returns the flags of this benchmark."""
    values = flags.FlagValues()
    flags.DEFINE_list(
        "bert_config_file", _SIZES, "Sizes: released names, or bert_config.json files.", flag_values=values
    )
    flags.DEFINE_list("num_tokens", ["64", "128", "256", "384", "512"], "Lengths of the sequences.", flag_values=values)
    flags.DEFINE_list("computed_tokens", [], "Lengths to compute from the measured ones.", flag_values=values)
    flags.DEFINE_list("precision", ["float32"], "Precisions of the products.", flag_values=values)
    flags.DEFINE_list("recompute", ["false"], "Whether to compute the layers again: false, true.", flag_values=values)
    flags.DEFINE_list("gradient_accumulation_steps", ["1"], "Numbers of parts of a batch.", flag_values=values)
    flags.DEFINE_list(
        "batch_tokens", ["1024", "2048", "4096"], "Tokens of the batches to measure, about.", flag_values=values
    )
    flags.DEFINE_list("memory_gb", ["8", "12", "16", "24"], "Memory to fill, in GB.", flag_values=values)
    flags.DEFINE_integer("num_steps", 2, "Steps of a measurement; from 2 up, also times a step.", 1, flag_values=values)
    flags.DEFINE_enum("device", "cpu", DEVICES, "Where to compute.", flag_values=values)
    flags.DEFINE_string("measure", None, "For the processes of this program: one step, as JSON.", flag_values=values)
    return values


def main(argv):
    """Runs the benchmark."""
    values = define_flags()
    parse(values, argv, __doc__)
    if values.measure:
        print(json.dumps(measure(**json.loads(values.measure))))
        return
    print(f"Command: `python {' '.join(argv)}`\n\nMachine: {describe_machine(('tensorflow', 'keras'))}\n")
    memory = [int(text) for text in values.memory_gb]
    print(
        "| size | length | settings | batches | fixed, GB | an example, MB | error | s a step | largest batch for ",
        end="",
    )
    print(" | ".join(f"{number} GB" for number in memory), "|")
    print("| --- | ---: | --- | --- |" + " ---: |" * (4 + len(memory)))
    tokens = [int(text) for text in values.batch_tokens]
    for group in groups_of(values):
        lines = {}
        for setting in group:
            sizes = batch_sizes(setting.num_tokens, tokens, setting.num_parts)
            results = {size: measure_in_process(setting, size, values.num_steps, values.device) for size in sizes}
            lines[setting.num_tokens], error = fit({size: result["peak"] for size, result in results.items()})
            cells = [", ".join(map(str, results)), error, results[max(results)]["seconds"]]
            print(row(setting, lines[setting.num_tokens], *cells, memory), flush=True)
        for num_tokens in map(int, values.computed_tokens):
            setting = dataclasses.replace(group[0], num_tokens=num_tokens)
            print(row(setting, line_at(num_tokens, lines), "computed", None, None, memory), flush=True)


def groups_of(values):
    """Returns lists of Settings, one list for each combination of the flags except the length."""
    return [
        [
            Setting(name, int(num_tokens), precision, recompute == "true", int(num_parts))
            for num_tokens in values.num_tokens
        ]
        for name in values.bert_config_file
        for precision in values.precision
        for recompute in values.recompute
        for num_parts in values.gradient_accumulation_steps
    ]


def line_at(num_tokens, lines):
    """Returns the Line of a length that was not measured, from {length: Line} of at least two lengths.

    An example of T tokens needs a T + b T^2 bytes: layers are linear in T, and attention scores grow with its square.
    The shortest and the longest length give a and b. `fixed` is the mean of the measured values.
    """
    shortest, longest = min(lines), max(lines)
    if shortest == longest:
        raise ValueError("--computed_tokens needs two measured lengths; give --num_tokens=128,512")
    of_token = {length: lines[length].growth / length for length in (shortest, longest)}
    b = (of_token[longest] - of_token[shortest]) / (longest - shortest)
    growth = num_tokens * (of_token[shortest] + b * (num_tokens - shortest))
    return Line(statistics.mean(line.fixed for line in lines.values()), growth)


def row(setting, line, batches, error, seconds, memory):
    """Returns a row of the table for a Line; the error of the line and the seconds of a step may be None."""
    largest = [line.largest_batch(number * _GB, setting.num_parts) for number in memory]
    cells = [setting.bert_config_file, setting.num_tokens, setting.name, batches]
    cells += [f"{line.fixed / _GB:.2f}", f"{line.growth / _MB:.1f}", "" if error is None else f"{error:.1%}"]
    return "| " + " | ".join(map(str, [*cells, "" if seconds is None else f"{seconds:.2f}", *largest])) + " |"


def measure_in_process(setting, batch_size, num_steps, device):
    """Returns the result of `measure` in a new process. Raises ValueError with its errors if it fails."""
    arguments = {**dataclasses.asdict(setting), "batch_size": batch_size, "num_steps": num_steps, "device": device}
    command = [sys.executable, __file__, f"--measure={json.dumps(arguments)}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        raise ValueError(f"a batch of {batch_size} with {setting} was not measured: {reason[0]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(batch_size, num_steps, device="cpu", **setting):
    """Takes training steps; returns a dict of `peak`, bytes, and `seconds`, the median of the steps after the first.

    The first step also traces the graph. Without others, `seconds` is None. On a CPU, seconds are those of the
    processor over all cores, because other programs may be running. On a GPU they are those of the clock.
    """
    from bert_keras.cli.start import start_tensorflow

    start_tensorflow()
    use_device(device)
    step = make_step(Setting(**setting), batch_size)
    clock = time.process_time if device == "cpu" else time.perf_counter
    times = []
    for _ in range(num_steps):
        started = clock()
        step()
        times.append(clock() - started)
    return {"peak": peak_memory(device), "seconds": statistics.median(times[1:]) if num_steps > 1 else None}


def make_step(setting, batch_size):
    """Returns a function that takes one step with the trainer of the fine-tuning programs."""
    import numpy as np
    import tensorflow as tf

    from benchmarks.speed import read_config
    from bert_keras.modeling import ClassificationTask, ClassifierModel
    from bert_keras.modeling.layers import dtype_policy
    from bert_keras.training.loop import make_trainer

    config = read_config(setting.bert_config_file)
    with dtype_policy(PRECISIONS[setting.precision]):
        task = ClassificationTask(ClassifierModel(config, 2))
    task.model.bert.is_recomputed = setting.recompute
    run = {"learning_rate": 5e-5, "num_train_steps": 1000, "num_warmup_steps": 100, "smooth_learning_rate": False}
    run |= {"seed": 1, "gradient_accumulation_steps": setting.num_parts, "precision": setting.precision}
    trainer = make_trainer(task, tf.distribute.get_strategy(), run)
    shape = (batch_size, setting.num_tokens)
    random = np.random.default_rng(0)
    batch = {
        "input_ids": random.integers(1, config.vocab_size, shape).astype(np.int32),
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
        "label_ids": random.integers(0, 2, batch_size).astype(np.int32),
    }
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
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
    sys.exit(run_main(main, sys.argv))
