"""The program for owners of a GPU, tested on the CPU and on a machine without a GPU."""

import dataclasses
import importlib.util
import subprocess
import types

import numpy as np
import pytest
import tensorflow as tf
from other_backends import run_on

from benchmarks import gpu, gpu_steps
from bert_keras.modeling import BertConfig
from tools import check_gpu

TINY = dataclasses.replace(
    gpu_steps.SMALL, hidden_size=8, num_hidden_layers=1, intermediate_size=16, vocab_size=40, max_position_embeddings=64
)
LARGE = BertConfig(
    vocab_size=30522, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Make the compared networks tiny; return the config file of the timed one."""
    monkeypatch.setattr(gpu_steps, "SMALL", TINY)
    TINY.to_json_file(tmp_path / "bert_config.json")
    yield f"--bert_config_file={tmp_path / 'bert_config.json'}"
    tf.config.experimental.enable_tensor_float_32_execution(False)


def test_every_library_has_its_process_and_one_that_is_missing_is_named(monkeypatch, capsys):
    started = []

    def run(command, env, cwd, check):
        started.append((env["KERAS_BACKEND"], command[1:3], command[-1]))
        return types.SimpleNamespace(returncode=int(env["KERAS_BACKEND"] == "jax"))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "transformers" else name)
    with pytest.raises(ValueError, match="^the checks of jax failed; please open an issue with this report$"):
        check_gpu.main(["check_gpu.py", "--seconds=1"])
    program = ["-m", "benchmarks.gpu"]
    assert started == [("tensorflow", program, "--library=tensorflow"), ("jax", program, "--library=jax")]
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("packages: tensorflow 2.")
    assert lines[-1] == "torch: left out, since transformers is not installed"
    check_gpu.main(["check_gpu.py", "--library=tensorflow"])
    assert capsys.readouterr().out.splitlines()[-1] == "all checks passed"


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--library=numpy", "^--library=numpy is not one of tensorflow, jax, torch"),
        ("--max_seq_length=128,x", "128,x is"),
    ],
)
def test_mistakes_are_found_before_any_process_starts(flag, sentence, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    with pytest.raises(ValueError, match=sentence):
        check_gpu.main(["check_gpu.py", flag])


def test_without_a_gpu_the_error_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(gpu_steps, "find_devices", lambda kind: ([], []))
    with pytest.raises(
        ValueError, match="^tensorflow finds no GPU; docs/guides/gpu.md says what it needs; --device=cpu"
    ):
        gpu.main(["gpu.py", "--library=tensorflow"])
    assert capsys.readouterr().out == "tensorflow: device: no GPU\n"


class Library:
    """A library whose calls take these seconds; its products of size 100 take a second, so its peak is 2 MFLOP/s."""

    is_ours, name, ways = True, "a library", ("bfloat16",)

    def __init__(self, training, prediction):
        self.seconds = {"product": 1.0, "training": training, "prediction": prediction}

    def __getattr__(self, work):
        return lambda *arguments: self.seconds[work]


def test_rows_have_the_share_of_the_measured_peak_and_the_goals(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "_timed", lambda seconds, least: [seconds] * 3)
    batch = gpu.speed.make_batch(LARGE, 4, 512)
    seconds = gpu.speed.pretraining_operations(LARGE, batch) / 2e6
    num_failed = gpu.measure(
        Library(gpu.NUM_STEPS["training"] * seconds / 0.61, 8.0), {"large": LARGE}, [512], 16, 1.0, sizes=(100,)
    )
    assert num_failed == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a library: peak of bfloat16 products: 2e-06 TFLOP/s"
    assert lines[1].startswith("large, 4 x 512, training, a library bfloat16: ")
    assert lines[1].endswith(", 61.0% of the peak")
    assert lines[2:] == [
        "  goal of 60% reached",
        lines[3],
        "  NVIDIA's training on one A100 80 GB, float16: 96.5 examples/s",
    ]
    assert lines[3].startswith("large, 4 x 512, prediction, a library bfloat16: 0.5 examples/s (0.5 to 0.5), ")


def test_a_missed_goal_and_a_failed_measurement_are_rows(monkeypatch, capsys):
    def timed(seconds, least):
        if seconds == "full":
            raise RuntimeError("out of memory")
        return [seconds] * 3

    monkeypatch.setattr(gpu, "_timed", timed)
    assert gpu.measure(Library(1e9, "full"), {"tiny": TINY}, [128], 2, 1.0, sizes=(100,)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == [
        "  goal of 37% missed",
        "tiny, 2 x 128, prediction, a library bfloat16: FAILED: RuntimeError: out of memory",
    ]


@pytest.mark.rare
@pytest.mark.slow  # traces and compiles a dozen networks; the test below has the steps of TensorFlow
def test_the_whole_check_runs_on_a_cpu(tiny):
    flags = ["--device=cpu", "--seconds=0.01", "--max_seq_length=16", "--train_batch_size=1", "--library=jax", tiny]
    lines = run_on("jax", "-m", "tools.check_gpu", *flags).splitlines()
    assert "jax: device: cpu" in lines
    assert len([line for line in lines if "gradients differ by" in line]) == 3
    assert [line.split(", ")[2] for line in lines if " examples/s (" in line] == ["training", "prediction"]
    assert lines[-1] == "all checks passed"


@pytest.mark.rare
@pytest.mark.slow  # traces and compiles a dozen networks
def test_a_step_on_the_cpu_is_what_the_cpu_computes(tiny, capsys):
    gpu.main(["gpu.py", "--library=tensorflow", "--device=cpu", "--seconds=0", tiny])
    lines = capsys.readouterr().out.splitlines()
    compared = [line for line in lines if "gradients differ by" in line]
    assert [line.partition(":")[0] for line in compared] == [
        *("pretraining, float32", "pretraining, tf32", "pretraining, bfloat16", "pretraining, float16"),
        *("pretraining, float32, XLA", "pretraining, bfloat16, XLA"),
    ]
    distances = [float(line.partition("differ by ")[2].partition(",")[0]) for line in compared]
    assert distances[0] == distances[1] == 0
    # The ways differ by the precision that each one states.
    assert 1e-4 < distances[2] < 1e-1
    assert 1e-5 < distances[3] < 2e-2


def test_a_step_that_computes_something_else_fails(tiny, monkeypatch, capsys):
    gradients = {"a": np.ones(100, np.float32), "b": np.full((2, 3), 5.0, np.float32)}

    def take_step(strategy, precision="float32", is_compiled=False):
        if is_compiled:
            raise tf.errors.InternalError(None, None, "libdevice not found\nmore")
        factor = 1.1 if precision == "tf32" and "CPU:0" not in strategy.name else 1
        return 1.5, {name: value * factor for name, value in gradients.items()}

    monkeypatch.setattr(gpu_steps, "take_step", take_step)
    monkeypatch.setattr(tf.distribute, "OneDeviceStrategy", _Strategy)
    assert gpu_steps.compare(["/device:GPU:0"]) == 3
    out = capsys.readouterr().out
    assert "pretraining, float32: loss 1.500000 (CPU 1.500000), gradients differ by 0.0e+00, ok (limit 1e-04)\n" in out
    assert "pretraining, float32, XLA: FAILED: InternalError: libdevice not found\n" in out
    assert "pretraining, tf32: loss 1.500000 (CPU 1.500000), gradients differ by 1.0e-01, FAILED (limit 2e-02)\n" in out


@dataclasses.dataclass
class _Strategy:
    """A stand-in for a strategy of one device."""

    name: str
    num_replicas_in_sync: int = 1
