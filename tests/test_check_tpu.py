"""check_tpu.py: its output, and the output of the TPU's compiler."""

import numpy as np
import pytest
import tensorflow as tf

import check_tpu
from bert_keras.training.distribution import tpu_compile
from bert_keras.training.distribution.hlo import Program, lower
from bert_keras.training.distribution.tpu_compile import CORE_MEMORY, Memory, OutOfMemoryError, compile_for_tpu

GB = 2**30


@pytest.fixture
def config_file(tmp_path, tiny_config):
    tiny_config.to_json_file(tmp_path / "bert_config.json")
    return tmp_path / "bert_config.json"


@pytest.fixture(autouse=True)
def _products_in_float32():
    yield
    tf.config.experimental.enable_tensor_float_32_execution(False)


def check(**flags):
    flags = {"max_seq_length": 12, "max_predictions_per_seq": 3, "num_tpu_cores": 2, **flags}
    return check_tpu.main(["check_tpu.py", *(f"--{name}={value}" for name, value in flags.items())])


@pytest.fixture
def compiler(monkeypatch):
    """A fake TPU compiler: each example takes 1 GB, the rest 0.5 GB; records the requested batches."""
    parts = []

    def compile_step(trainer, settings, part):
        parts.append(part)
        needed = part * GB + GB // 2
        if needed > CORE_MEMORY:
            raise OutOfMemoryError(needed)
        return Memory(GB // 2, part * GB, 0)

    monkeypatch.setattr(check_tpu, "_compile", compile_step)
    return parts


def test_the_flags_are_these():
    values = check_tpu.define_flags()
    sizes = {"max_seq_length": 128, "max_predictions_per_seq": 20, "num_labels": 2, "train_batch_size": 32}
    ways = {"gradient_accumulation_steps": 1, "num_tpu_cores": 8, "precision": "float32"}
    ways |= {"recompute": False, "pack": False}
    models = {"task": "pretraining", "bert_config_file": None, "init_checkpoint": None}
    assert {name: values[name].default for name in values} == {**models, **sizes, **ways}


def test_a_batch_that_fits_is_told_with_its_memory(config_file, compiler, capsys):
    check(bert_config_file=config_file, train_batch_size=24, gradient_accumulation_steps=2)
    assert compiler == [6]
    said, told = capsys.readouterr()
    assert "compiled for 1 core, without the exchange of gradients; --num_tpu_cores=4 or 8 includes it" in told
    assert said.startswith("compiled for 1 core(s) of a TPU v5e in 0 s, not run: static shapes, nothing on the host\n")
    assert "memory of a core: 6.50 of 15.75 GB\n" in said
    assert "  temporary                   6.00 GB\n" in said


def test_a_batch_that_does_not_fit_is_refused_with_one_that_does(config_file, compiler):
    with pytest.raises(
        ValueError,
        match=r"^--train_batch_size=96 is too much for 2 core\(s\) with --gradient_accumulation_steps=1: it takes "
        r"48\.50 GB of memory, and a core of a TPU v5e has 15\.75 GB; --train_batch_size=16 fits$",
    ):
        check(bert_config_file=config_file, train_batch_size=96)
    # Rounded down to a multiple of eight: 15 would fit too.
    assert compiler == [48, 8]


@pytest.mark.parametrize(
    ("needed", "batch_size", "tried", "remedy"),
    [(100 * GB, 2, [1], "none fits: lower --max_seq_length"), (None, 24, [12, 6, 3], "--train_batch_size=6 fits")],
    ids=["none fits", "unknown size"],
)
def test_smaller_batches_are_tried(config_file, monkeypatch, needed, batch_size, tried, remedy):
    parts = []

    def compile_step(trainer, settings, part):
        parts.append(part)
        if needed or part > 3:
            raise OutOfMemoryError(needed)
        return Memory(1, 1, 1)

    monkeypatch.setattr(check_tpu, "_compile", compile_step)
    with pytest.raises(ValueError, match=f"; {remedy}$"):
        check(bert_config_file=config_file, train_batch_size=batch_size)
    assert parts == tried


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"bert_config_file": ""}, "^missing: --bert_config_file or --init_checkpoint"),
        ({"max_seq_length": 513}, "more than the 512 positions"),
        (
            {"train_batch_size": 5},
            "^--train_batch_size=5 cannot be divided evenly by --num_tpu_cores=2 x .*; give a mul",
        ),
        ({"pack": True}, "^--pack is not for --task=pretraining, but for classification, regression, multi_label, to"),
    ],
    ids=["missing", "length", "batch", "pack"],
)
def test_mistakes_are_told_before_any_work(flags, sentence):
    with pytest.raises(ValueError, match=sentence):
        check(**{"bert_config_file": "uncased_L-12_H-768_A-12", **flags})


def test_a_step_that_breaks_the_rules_is_refused(config_file, monkeypatch):
    monkeypatch.setattr(check_tpu, "lower", lambda function, features: Program("", b""))
    monkeypatch.setattr(check_tpu, "find_faults", lambda text: ["numbers of 64 bits: f64"])
    with pytest.raises(ValueError, match="^a TPU does not support the step: numbers of 64 bits: f64$"):
        check(bert_config_file=config_file, train_batch_size=4)


def test_without_the_compiler_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setattr(tpu_compile, "missing_packages", lambda: ["libtpu"])
    with pytest.raises(ValueError, match=r"missing \(libtpu\): pip install 'bert-keras\[tpu-check\]'$"):
        compile_for_tpu(b"")


@pytest.mark.parametrize(
    ("message", "error", "sentence"),
    [
        (
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (37.03G) "
            "exceeds available HBM (15.75G).",
            OutOfMemoryError,
            r"^it takes 37\.03 GB of memory, and a core of a TPU v5e has 15\.75 GB$",
        ),
        ("UNIMPLEMENTED: no\nmore", ValueError, "^the compiler of the TPU refuses it: UNIMPLEMENTED: no$"),
    ],
    ids=["memory", "other"],
)
def test_errors_of_the_compiler_are_one_sentence(message, error, sentence):
    with pytest.raises(error, match=sentence):
        raise tpu_compile._refusal(message)


needs_the_compiler = pytest.mark.skipif(
    bool(tpu_compile.missing_packages()), reason=f"not installed: {', '.join(tpu_compile.missing_packages())}"
)


def lowered(config_file, monkeypatch, **flags):
    """Return the trainer, the program's text and the number of cores that the compiler gets."""
    given = []
    with monkeypatch.context() as patch:
        patch.setattr(check_tpu, "compile_for_tpu", lambda *arguments: given.append(arguments) or Memory(1, 1, 1))
        make_step = check_tpu.make_step
        patch.setattr(check_tpu, "make_step", lambda *arguments: given.append(make_step(*arguments)) or given[-1])
        patch.setattr(check_tpu, "lower", lambda *arguments: given.append(lower(*arguments)) or given[-1])
        check(task="classification", bert_config_file=config_file, train_batch_size=16, **flags)
    trainer, program, (_, num_cores) = given
    return trainer, program.text, num_cores


def test_the_exchange_of_gradients_between_4_cores_is_compiled(config_file, monkeypatch, capsys):
    trainer, program, num_cores = lowered(config_file, monkeypatch, num_tpu_cores=4)
    assert num_cores == 4
    assert "without the exchange of gradients" not in capsys.readouterr().err
    assert program.count(" all-reduce(") >= sum("/adam_m" in name for name in trainer.state)
    assert "replica_groups={{0,1,2,3}}" in program
    assert "operand_precision={highest,highest}" in program
    assert "bf16[" not in program


@pytest.mark.slow
def test_a_step_in_16_bits_recomputed_and_packed_is_compiled(config_file, monkeypatch):
    flags = {"precision": "bfloat16", "recompute": True, "pack": True}
    trainer, program, num_cores = lowered(config_file, monkeypatch, num_tpu_cores=1, **flags)
    assert num_cores == 1
    assert " all-reduce(" not in program
    assert "bf16[" in program
    assert "s32[1,16,12]" in program  # one part of 16 rows
    assert trainer.task.model.bert.is_recomputed


def test_products_in_tf32_are_compiled(config_file, compiler):
    check(bert_config_file=config_file, train_batch_size=2, precision="tf32")
    spec = {"x": tf.TensorSpec([8, 8], tf.float32)}
    assert "operand_precision" not in lower(lambda features: tf.matmul(features["x"], features["x"]), spec).text


# The other tasks have the network of classification; tests/training/test_hlo.py checks the program of each task.
@pytest.mark.slow  # the compiler needs ten seconds to a minute a program
@needs_the_compiler
@pytest.mark.parametrize("task", [task for task in check_tpu.TASKS if task not in ("regression", "multi_label")])
def test_the_compiler_of_the_tpu_takes_the_step_of_each_task(task, config_file, capsys):
    flags = {"task": task, "bert_config_file": config_file, "train_batch_size": 16, "num_labels": 3}
    check(**flags, gradient_accumulation_steps=2, num_tpu_cores=4)
    assert "compiled for 4 core(s) of a TPU v5e" in capsys.readouterr().out


@pytest.mark.slow  # as above
@needs_the_compiler
def test_the_compiler_of_the_tpu_takes_packed_rows_in_16_bits_that_are_recomputed(config_file, capsys):
    flags = {"task": "classification", "bert_config_file": config_file, "train_batch_size": 16, "num_tpu_cores": 8}
    check(**flags, precision="bfloat16", recompute=True, pack=True)
    assert "compiled for 8 core(s) of a TPU v5e" in capsys.readouterr().out


@pytest.mark.slow  # as above
@needs_the_compiler
def test_the_memory_of_a_program_is_known_and_what_is_too_large_is_refused():
    spec = {"x": tf.TensorSpec([1024, 1024], tf.float32)}
    memory = compile_for_tpu(lower(lambda features: tf.matmul(features["x"], features["x"]), spec).serialized)
    # One matrix is the input and one is the output.
    np.testing.assert_allclose(memory.inputs, 2 * 4 * 2**20, rtol=0.01)

    def too_large(features):
        square = tf.random.stateless_normal([2**16, 2**16], [1, 2]) + features["x"][0, 0]  # 16 GB
        return tf.matmul(square, square)

    with pytest.raises(OutOfMemoryError) as raised:
        compile_for_tpu(lower(too_large, spec).serialized)
    assert raised.value.needed > CORE_MEMORY
