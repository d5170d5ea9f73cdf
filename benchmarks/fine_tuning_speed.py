"""Compares the time to fine-tune MRPC with transformers' Trainer, from the command to the scores.

    python benchmarks/fine_tuning_speed.py --data_dir=glue/MRPC --init_checkpoint=minilm

The programs take turns on this machine. Each turn is a separate process with the same files and initial weights. It
trains three epochs with batches of 32 at 5e-5, evaluates, and writes scores and model. The seed is the number of the
round. "bert-keras" has the defaults of this project. The Trainer (`transformers_trainer.py`) keeps its own. It pads all
sequences to 128 tokens, or ("dynamic") those of a batch to the longest, or ("grouped") that in batches of similar
lengths. The table compares with the fastest Trainer. Prints a table in Markdown. Needs pip install '.[peers]'.
"""

import dataclasses
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.cli.start import start_tensorflow

if __name__ == "__main__":
    start_tensorflow()

from absl import flags

from benchmarks import speed
from benchmarks.machine import check_names
from bert_keras.cli.flags import as_program, parse, require
from bert_keras.mistakes import Mistake
from bert_keras.runs.metrics_log import METRICS_FILE, read_metrics

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_BATCH_SIZE = 32
_OURS = (
    f"run_classifier.py --task_name=mrpc --do_train --do_eval --train_batch_size={_BATCH_SIZE} "
    f"--eval_batch_size={_BATCH_SIZE} --learning_rate=5e-5"
).split()
_PEER = f"benchmarks/transformers_trainer.py --train_batch_size={_BATCH_SIZE}".split()
PROGRAMS = {
    "bert-keras": _OURS,
    "bert-keras bfloat16": [*_OURS, "--precision=bfloat16"],
    **{
        f"transformers {name} {precision}": [*_PEER, f"--padding={padding}", f"--precision={precision}"]
        for name, padding in (("grouped", "grouped"), ("dynamic", "longest"), ("padded", "max_length"))
        for precision in ("float32", "bfloat16")
    },
}


@dataclasses.dataclass(frozen=True)
class Turn:
    """The result of one run: wall-clock and processor time in s, examples/s in training, two scores."""

    seconds: float
    cpu_seconds: float
    examples_per_second: float
    f1: float
    accuracy: float


def define_flags():
    """Returns the flags of this benchmark."""
    values = flags.FlagValues()
    flags.DEFINE_string("data_dir", None, "Folder with MRPC, as distributed.", flag_values=values)
    flags.DEFINE_string("init_checkpoint", None, "The encoder, a folder of safetensors.", flag_values=values)
    flags.DEFINE_list("programs", [*PROGRAMS], f"Programs to run: {', '.join(PROGRAMS)}.", flag_values=values)
    flags.DEFINE_integer("rounds", 3, "Number of turns of each program.", lower_bound=1, flag_values=values)
    flags.DEFINE_float("num_train_epochs", 3.0, "Training epochs.", flag_values=values)
    return values


def main(argv):
    """Runs the benchmark."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("data_dir", "init_checkpoint"))
    check_names("programs", values.programs, PROGRAMS)
    speed.print_machine(" ".join(argv), ("tensorflow", "keras", "torch", "transformers", "accelerate"))
    turns = {name: [] for name in values.programs}
    for seed in range(1, values.rounds + 1):
        for name in values.programs:
            with tempfile.TemporaryDirectory() as folder:
                arguments = [*PROGRAMS[name], *(f"--{flag}={values[flag].value}" for flag in _PASSED_ON)]
                turns[name].append(run_once([*arguments, f"--seed={seed}", f"--output_dir={folder}/run"]))
    print_table(turns)


_PASSED_ON = ("data_dir", "init_checkpoint", "num_train_epochs")


def run_once(arguments):
    """Runs a program of the project and returns its Turn; the last of its arguments is --output_dir.

    Hides GPUs from the program. Raises a `Mistake` with the standard error of a program that failed.
    """
    command = [sys.executable, str(_ROOT / arguments[0]), *arguments[1:]]
    print("+ python", " ".join(arguments), file=sys.stderr, flush=True)
    cpu_before, started = _cpu_seconds_of_children(), time.monotonic()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    seconds, cpu_seconds = time.monotonic() - started, _cpu_seconds_of_children() - cpu_before
    if done.returncode:
        raise Mistake("{} ended with {}: {}", arguments[0], done.returncode, done.stderr.strip())
    folder = pathlib.Path(arguments[-1].removeprefix("--output_dir="))
    metrics = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))["metrics"]
    return Turn(seconds, cpu_seconds, training_speed(folder, metrics), metrics["f1"], metrics["accuracy"])


def training_speed(folder, metrics):
    """Returns examples/s as the Trainer reports it, else the median over the rows of the run's metrics.csv."""
    if "train_samples_per_second" in metrics:
        return metrics["train_samples_per_second"]
    rows = [row["examples_per_second"] for row in read_metrics(folder / METRICS_FILE)]
    return statistics.median(float(row) for row in rows if row)


def _cpu_seconds_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def print_table(turns):
    """Prints a Markdown table: medians, ranges of seconds and F1, and the ratio to the fastest Trainer."""
    medians = {
        name: Turn(
            *(statistics.median(values) for values in zip(*map(dataclasses.astuple, program_turns), strict=True))
        )
        for name, program_turns in turns.items()
    }
    peers = [median.seconds for name, median in medians.items() if name.startswith("transformers")]
    print(
        "| | seconds | lowest to highest | times as fast | processor, s | examples/s in training | F1 | "
        "lowest to highest | accuracy |"
    )
    print("| --- |" + " ---: |" * 8)
    for name, median in medians.items():
        seconds, f1 = ([getattr(turn, figure) for turn in turns[name]] for figure in ("seconds", "f1"))
        ratio = f"{min(peers) / median.seconds:.2f}" if peers else ""
        print(
            f"| {name} | {median.seconds:.0f} | {min(seconds):.0f} to {max(seconds):.0f} | {ratio} | "
            f"{median.cpu_seconds:.0f} | {median.examples_per_second:.1f} | {median.f1:.3f} | "
            f"{min(f1):.3f} to {max(f1):.3f} | {median.accuracy:.3f} |"
        )


if __name__ == "__main__":
    as_program(main)
