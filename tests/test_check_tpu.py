"""check_tpu.py: its output, and the programs that the TPU's compiler makes."""

import math
import os
import re
import subprocess
import sys

import pytest
import tensorflow as tf
from other_backends import ROOT
from tiny_bert import make_config
from xla import lower

from bert_keras.commands import check_tpu
from bert_keras.engine.distribution import tpu_step_time
from bert_keras.engine.evaluation_pass import Evaluator
from bert_keras.engine.trainer import make_trainer
from bert_keras.modeling import weights_by_name
from bert_keras.settings.groups import RunSettings

GB = 10**9
SETTINGS = {"max_seq_length": 12, "max_predictions_per_seq": 3, "num_labels": 3, "precision": "float32"}
SETTINGS |= {"recompute": False, "pack": False}


def argv_of(**flags):
    flags = {"max_seq_length": 12, "max_predictions_per_seq": 3, "num_tpu_cores": 4, **flags}
    return ["check_tpu.py", *(f"--{name}={value}" for name, value in flags.items())]


def check(status=0, **flags):
    """Runs the program in a new process, and returns what it prints, as lines or the error."""
    command = [sys.executable, ROOT / "tools" / "check_tpu.py", *argv_of(**flags)[1:]]
    # The program sets the backend itself.
    environment = os.environ | {"KERAS_BACKEND": "tensorflow"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout.splitlines()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"bert_config_file": ""}, "^missing: --bert_config_file or --init_checkpoint"),
        (
            {"train_batch_size": 6},
            "^--train_batch_size=6 cannot be divided evenly by --num_tpu_cores=4 x .*; give a mul",
        ),
        ({"pack": True}, "^--pack is not for --task=pretraining, but for classification, regression, multi_label, to"),
        ({"num_tpu_cores": 2}, r"^--num_tpu_cores=2: no TPU has that many; give one of 1, 4, 8, 16"),
    ],
    ids=["missing", "batch", "pack", "cores"],
)
def test_mistakes_are_found_before_any_work(flags, sentence, monkeypatch):
    monkeypatch.setattr(check_tpu, "missing_packages", list)
    with pytest.raises(ValueError, match=sentence):
        check_tpu.main(argv_of(**{"bert_config_file": "uncased_L-12_H-768_A-12", **flags}))


def test_without_the_compiler_the_command_that_installs_it_is_in_the_message(monkeypatch):
    monkeypatch.setattr(check_tpu, "missing_packages", lambda: ["libtpu"])
    with pytest.raises(ValueError, match=r"missing \(libtpu\): pip install 'bert-keras\[tpu-check\]'$"):
        check_tpu.main(argv_of())


PROGRAM = """\
HloModule a_step
%add.1 (x: f32[], y: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%x, %y)
}
%body.2 (state: (f32[250,4])) -> (f32[250,4]) {
  %all-reduce.3 = (f32[250,4]{1,0:T(8,128)}, bf16[500]{0}) all-reduce(%a, %b), to_apply=%add.1
}
ENTRY %main.4 (x: f32[8]) -> f32[8] {
  %while.5 = (f32[250,4]) while(%t), condition=%condition.6, body=%body.2
  %start = (f32[100], f32[400]) all-gather-start(%x), dimensions={0}
  %done = f32[400] all-gather-done(%start)
  ROOT %all-to-all.7 = pred[8,10] all-to-all(%x), dimensions={0}
}
"""


def test_bytes_that_a_core_sends_are_those_of_all_exchanges_also_in_loops():
    found = sorted(tpu_step_time.exchanges_of(PROGRAM, 3))
    assert found == [("all-gather", 1600, 1), ("all-reduce", 5000, 3), ("all-to-all", 80, 1)]
    cost = tpu_step_time.cost_of({"flops": 10, "bytes accessed": 900}, PROGRAM, 300, num_cores=4, num_parts=4)
    # Two of four parts are counted, and the update's 700 bytes once.
    assert cost == (
        20,
        700 + 2 * 200,
        3 * 5000 * 1.5 + (1600 + 80) * 0.75,
        {"all-reduce": 3, "all-gather": 1, "all-to-all": 1},
    )


def test_the_time_is_between_that_of_the_slowest_and_that_of_all():
    cost = tpu_step_time.Cost(operations=197 * GB, accessed=819e6, sent=1e9, exchanges={"all-reduce": 2})
    settings = {"tpu": "v5e", "precision": "bfloat16", "train_batch_size": 70, "pack": False}
    lines = tpu_step_time.predict(cost, settings)
    assert lines[1:] == [
        "  1.00 ms for 197.0 GFLOP at 197,000 GFLOP/s",
        "  1.00 ms for 0.82 GB at 819 GB/s, less what stays on the chip",
        "  5.00 ms for 1.000 GB sent at 200 GB/s; exchanges: 2 all-reduce",
        "a step in 5.00 to 7.00 ms: 10,000 to 14,000 examples/s",
    ]
    # Six products of bfloat16 numbers make one of float32 numbers.
    assert tpu_step_time.predict(cost, {**settings, "precision": "float32"})[1].startswith("  6.00 ms for 197.0 GFLOP")


# The rest of this file compiles: XLA's part for TensorFlow, and the TPU's compiler for JAX.
@pytest.mark.slow
@pytest.mark.parametrize("task", check_tpu.TASKS)
def test_xla_compiles_training_and_prediction_of_each_task_on_tensorflow(task, tiny_config):
    settings = {**SETTINGS, "task": task}
    loss, strategy = check_tpu.loss_of(settings, tiny_config), tf.distribute.get_strategy()
    parts = check_tpu.features_of(settings, 4, 1)
    features = {name: tf.TensorSpec(spec.shape[1:], spec.dtype) for name, spec in parts.items()}
    assert lower(make_trainer(loss, strategy, RunSettings(num_train_steps=10, seed=0)).step, parts)
    if task == "pretraining":
        features["is_real_example"] = tf.TensorSpec([4], tf.float32)
        assert lower(Evaluator(loss, strategy).step, features)
    else:  # the fine-tuning tasks use the signature that `Inference` calls
        assert lower(loss.model, {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")})


needs_the_compiler = pytest.mark.skipif(
    bool(check_tpu.missing_packages()), reason=f"not installed: {', '.join(check_tpu.missing_packages())}"
)


@pytest.fixture
def config_file(tmp_path, tiny_config):
    tiny_config.to_json_file(tmp_path / "bert_config.json")
    return tmp_path / "bert_config.json"


@pytest.mark.rare
@pytest.mark.slow  # the compiler needs ten seconds to a minute a program
@needs_the_compiler
# The others have the networks of these; test_xla_compiles_training_and_prediction_of_each_task_on_tensorflow has all.
@pytest.mark.parametrize("task", ["pretraining", "multiple_choice", "token_classification", "question_answering"])
def test_the_compiler_of_the_tpu_takes_the_step_of_each_task(task, config_file):
    flags = {"task": task, "bert_config_file": config_file, "train_batch_size": 16, "num_labels": 3}
    lines = check(**flags, gradient_accumulation_steps=2)
    assert lines[0].startswith("compiled for 4 core(s) of a TPU v5e in ")
    # The chips exchange sums alone: each draws the masks of its rows.
    assert re.search(r"exchanges: \d+ all-reduce$", lines[-2])


@pytest.mark.rare
@pytest.mark.slow  # as above
@needs_the_compiler
def test_the_compiler_of_a_newer_tpu_takes_packed_rows_in_16_bits_that_are_recomputed(config_file):
    flags = {"task": "classification", "bert_config_file": config_file, "train_batch_size": 16, "num_tpu_cores": 8}
    lines = check(**flags, tpu="v6e", precision="bfloat16", recompute=True, pack=True)
    assert lines[0].startswith("compiled for 8 core(s) of a TPU v6e in ")
    assert lines[-1].endswith(" rows/s")


@pytest.mark.rare
@pytest.mark.slow  # as above
@needs_the_compiler
def test_memory_holds_weights_once_and_masks_of_their_size(tmp_path):
    config = make_config(vocab_size=5000, hidden_size=128, num_hidden_layers=1, max_position_embeddings=128)
    config.to_json_file(tmp_path / "bert_config.json")
    flags = {"bert_config_file": tmp_path / "bert_config.json", "train_batch_size": 64, "precision": "bfloat16"}
    lines = check(**flags, max_seq_length=128, num_tpu_cores=1)
    sizes = {line[:29].strip(): float(line[29:].split()[0].replace(",", "")) for line in lines[2:5]}
    # A step writes new weights and moments over the old ones.
    loss = check_tpu.loss_of({**SETTINGS, "task": "pretraining"}, config)
    num_weights = sum(math.prod(weight.shape) for weight in weights_by_name(loss.model).values())
    assert sizes["weights, moments and batch"] == pytest.approx(3 * 4 * num_weights / 2**20, rel=0.1)
    # The activations of a layer, and not many times the 1 MB of a mask.
    assert sizes["temporary"] < 50
    assert lines[-2].endswith("exchanges: none")


@pytest.mark.rare
@pytest.mark.slow  # as above
@needs_the_compiler
def test_a_step_that_is_too_large_is_refused(config_file):
    error = check(status=1, bert_config_file=config_file, train_batch_size=2**26, num_tpu_cores=1)
    assert re.search(r"check_tpu.py: the compiler .*RESOURCE_EXHAUSTED.*; fewer examples on a core need less", error)
