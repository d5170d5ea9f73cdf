"""The program for owners of a GPU, tested on the CPU and on a machine without a GPU."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.cli.flags import run_main
from tools import check_gpu

TINY = dataclasses.replace(
    check_gpu.SMALL, hidden_size=8, num_hidden_layers=1, intermediate_size=16, vocab_size=40, max_position_embeddings=64
)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Make the compared networks tiny; return the config file of the timed one."""
    monkeypatch.setattr(check_gpu, "SMALL", TINY)
    TINY.to_json_file(tmp_path / "bert_config.json")
    yield f"--bert_config_file={tmp_path / 'bert_config.json'}"
    tf.config.experimental.enable_tensor_float_32_execution(False)


def test_without_a_gpu_the_error_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [])
    assert run_main(check_gpu.main, ["check_gpu.py"]) == 1
    out, err = capsys.readouterr()
    assert "\npackages: tensorflow 2." in out
    assert err == (
        "check_gpu.py: TensorFlow finds no GPU, so there is nothing to check; docs/guides/gpu.md says what it needs. "
        "--device=cpu tries this program out\n"
    )


@pytest.mark.slow  # traces and compiles a dozen networks
def test_a_step_on_the_cpu_is_what_the_cpu_computes(tiny, monkeypatch, capsys):
    evaluated = []
    evaluate = check_gpu.Evaluator.evaluate
    monkeypatch.setattr(
        check_gpu.Evaluator,
        "evaluate",
        lambda self, batches: evaluated.extend(batches) or evaluate(self, batches),
    )
    check_gpu.main(["check_gpu.py", "--device=cpu", "--num_steps=0", tiny])
    lines = capsys.readouterr().out.splitlines()
    compared = [line for line in lines if "gradients differ by" in line]
    assert [line.partition(":")[0] for line in compared] == [
        *("pretraining, float32", "pretraining, tf32", "pretraining, bfloat16", "pretraining, float16"),
        *("pretraining, float32, XLA", "pretraining, bfloat16, XLA", "tagging, float32"),
    ]
    distances = [float(line.partition("differ by ")[2].partition(",")[0]) for line in compared]
    assert distances[0] == distances[1] == distances[-1] == 0
    # The ways differ by the precision that each one states.
    assert 1e-4 < distances[2] < 1e-1
    assert 1e-5 < distances[3] < 2e-2
    assert lines[-1] == "all checks passed"
    # The tagger also evaluates rows of padding.
    lengths = evaluated[0]["input_mask"].numpy().sum(-1)
    assert lengths[-2:].tolist() == [0, 0]
    assert lengths[:-2].min() > 0


@pytest.mark.slow  # compiles a network
def test_steps_are_timed_in_every_precision_and_compiled(tiny, monkeypatch, capsys):
    monkeypatch.setattr(check_gpu, "compare", lambda devices: 0)
    monkeypatch.setattr(check_gpu, "PRECISIONS", {"bfloat16": check_gpu.PRECISIONS["bfloat16"]})
    flags = ["--device=cpu", "--num_steps=1", "--train_batch_size=2", "--max_seq_length=16"]
    check_gpu.main(["check_gpu.py", *flags, tiny])
    lines = capsys.readouterr().out.splitlines()
    timed = [line for line in lines if "ms a step" in line]
    assert [line.partition(":")[0].rpartition("16, ")[2] for line in timed] == ["bfloat16", "XLA"]
    assert lines[-1] == "all checks passed"


def test_a_step_that_computes_something_else_fails(tiny, monkeypatch, capsys):
    gradients = {"a": np.ones(100, np.float32), "b": np.full((2, 3), 5.0, np.float32)}

    def take_step(kind, strategy, precision="float32", is_compiled=False):
        if is_compiled:
            raise tf.errors.InternalError(None, None, "libdevice not found\nmore")
        factor = 1.001 if (kind, precision) == ("tagging", "float32") and "CPU:0" not in strategy.name else 1
        return 1.5, {name: value * factor for name, value in gradients.items()}

    monkeypatch.setattr(check_gpu, "take_step", take_step)
    monkeypatch.setattr(tf.distribute, "OneDeviceStrategy", _Strategy)
    assert check_gpu.compare(["/device:GPU:0"]) == 3
    out = capsys.readouterr().out
    assert "pretraining, float32: loss 1.500000 (CPU 1.500000), gradients differ by 0.0e+00, ok (limit 1e-04)\n" in out
    assert "pretraining, float32, XLA: FAILED: InternalError: libdevice not found\n" in out
    assert "tagging, float32: loss 1.500000 (CPU 1.500000), gradients differ by 1.0e-03, FAILED (limit 1e-04)\n" in out


def test_failed_checks_are_counted_and_told(tiny, monkeypatch):
    monkeypatch.setattr(check_gpu, "compare", lambda devices: 2)
    monkeypatch.setattr(check_gpu, "measure", lambda config, values, device: 1)
    with pytest.raises(ValueError, match=r"^3 check\(s\) failed; please open an issue with this report$"):
        check_gpu.main(["check_gpu.py", "--device=cpu", tiny])


@dataclasses.dataclass
class _Strategy:
    """A stand-in for a strategy of one device."""

    name: str
    num_replicas_in_sync: int = 1
