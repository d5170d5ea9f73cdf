"""Checks the GPUs of a machine: compares training steps with the CPU's in every precision, and times them.

    python tools/check_gpu.py | tee report.txt

TensorFlow and JAX each take a pre-training step on the CPU in float32, and repeat it on the GPU in every precision; on
TensorFlow also compiled by XLA, and with several GPUs also on all of them together. Then the program times training
and prediction of both, and of transformers with `torch.compile`. Each has its own process, what is not installed is
left out, and each row appears at once. The project has seen JAX on one GPU only, so please open an issue with your
report.
"""

import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import subprocess
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, parse
from bert_keras.mistakes import Mistake

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The packages that the check of each needs; with JAX, TensorFlow reads the data.
LIBRARIES = {"tensorflow": ["tensorflow"], "jax": ["tensorflow", "jax"], "torch": ["transformers", "torch"]}


def define_flags():
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_enum(
        "device", "gpu", ["gpu", "cpu"], "Device to check. cpu tests this program without a GPU.", **define
    )
    flags.DEFINE_list("library", [*LIBRARIES], "Libraries to check, each in its own process.", **define)
    flags.DEFINE_list(
        "bert_config_file",
        ["uncased_L-12_H-768_A-12", "uncased_L-24_H-1024_A-16"],
        "Models to time: bert_config.json files, or names of released models.",
        **define,
    )
    flags.DEFINE_list("max_seq_length", ["128", "512"], "Numbers of tokens in a timed example.", **define)
    flags.DEFINE_integer(
        "train_batch_size", 64, "Examples of 128 tokens in a timed batch; of 512, a quarter.", lower_bound=1, **define
    )
    flags.DEFINE_float("seconds", 5.0, "Least duration of a measurement. 0: no timing.", lower_bound=0.0, **define)
    return values


def main(argv):
    values = define_flags()
    parse(values, argv, __doc__)
    open_console(stderr=True)
    if unknown := set(values.library) - set(LIBRARIES):
        raise Mistake("--library={} is not one of {}", min(unknown), ", ".join(LIBRARIES))
    if not all(length.isdecimal() and int(length) >= 16 for length in values.max_seq_length):
        raise Mistake("--max_seq_length={} is not a list of numbers from 16 up", ",".join(values.max_seq_length))
    print("\n".join(describe_machine()), flush=True)
    failed = []
    for library in values.library:
        needed = LIBRARIES[library]
        if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
            print(f"{library}: left out, since {missing[0]} is not installed", flush=True)
            continue
        environment = os.environ | {"KERAS_BACKEND": needed[-1]}
        command = [sys.executable, "-m", "benchmarks.gpu", *argv[1:], f"--library={library}"]
        if subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode:
            failed.append(library)
    if failed:
        raise Mistake("the checks of {} failed; please open an issue with this report", ", ".join(failed))
    print("all checks passed", flush=True)


def describe_machine():
    """Returns the versions and the driver, a list of lines."""
    names = ("tensorflow", "jax", "torch", "transformers", "keras", "numpy", "bert-keras")
    driver = pathlib.Path("/proc/driver/nvidia/version")
    return [
        f"machine: {platform.platform()}, Python {platform.python_version()}",
        "packages: " + ", ".join(f"{name} {_version(name)}" for name in names),
        f"driver: {driver.read_text().splitlines()[0] if driver.exists() else 'no NVIDIA driver'}",
    ]


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    as_program(main)
