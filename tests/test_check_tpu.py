"""check_tpu.py: its output, and the output of the TPU's compiler."""

import numpy as np
import pytest
import tensorflow as tf

import check_tpu
from bert_keras.modeling import BertConfig
from bert_keras.training.distribution import tpu_compile
from bert_keras.training.distribution.hlo import lower
from bert_keras.training.distribution.tpu_compile import CORE_MEMORY, Memory, OutOfMemoryError, compile_for_tpu

CONFIG = {
    "vocab_size": 40,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
}
GB = 2**30


@pytest.fixture
def config_file(tmp_path):
    BertConfig(**CONFIG).to_json_file(tmp_path / "bert_config.json")
    return tmp_path / "bert_config.json"


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
    assert {name: values[name].default for name in values} == {
        "task": "pretraining",
        "bert_config_file": None,
        "init_checkpoint": None,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "num_labels": 2,
        "train_batch_size": 32,
        "gradient_accumulation_steps": 1,
        "num_tpu_cores": 8,
        "precision": "float32",
        "recompute": False,
        "pack": False,
    }


def test_a_batch_that_fits_is_told_with_its_memory(config_file, compiler, capsys):
    check(bert_config_file=config_file, train_batch_size=24, gradient_accumulation_steps=2)
    assert compiler == [6]
    said = capsys.readouterr().out
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


def test_where_no_batch_fits_that_is_said(config_file, monkeypatch):
    def refuse(trainer, settings, part):
        raise OutOfMemoryError(100 * GB)

    monkeypatch.setattr(check_tpu, "_compile", refuse)
    with pytest.raises(ValueError, match="15.75 GB; none fits: lower --max_seq_length$"):
        check(bert_config_file=config_file, train_batch_size=2)


def test_where_the_compiler_does_not_say_how_much_half_is_tried(config_file, monkeypatch):
    parts = []

    def compile_step(trainer, settings, part):
        parts.append(part)
        if part > 3:
            raise OutOfMemoryError(None)
        return Memory(1, 1, 1)

    monkeypatch.setattr(check_tpu, "_compile", compile_step)
    with pytest.raises(ValueError, match="; --train_batch_size=6 fits$"):
        check(bert_config_file=config_file, train_batch_size=24)
    assert parts == [12, 6, 3]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({}, "^missing: --bert_config_file or --init_checkpoint"),
        ({"bert_config_file": "uncased_L-12_H-768_A-12", "max_seq_length": 513}, "more than the 512 positions"),
        (
            {"bert_config_file": "uncased_L-12_H-768_A-12", "train_batch_size": 5},
            "^--train_batch_size=5 cannot be divided evenly by --num_tpu_cores=2 x .*; give a multiple of 2$",
        ),
        (
            {"bert_config_file": "uncased_L-12_H-768_A-12", "pack": True},
            "^--pack is not for --task=pretraining, but for classification, regression, multi_label, token_classi",
        ),
    ],
)
def test_mistakes_are_told_before_any_work(flags, sentence):
    with pytest.raises(ValueError, match=sentence):
        check(**flags)


def test_a_step_that_breaks_the_rules_is_refused(config_file, monkeypatch):
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
        (
            "UNIMPLEMENTED: no such thing\nmore",
            ValueError,
            "^the compiler of the TPU refuses it: UNIMPLEMENTED: no such thing$",
        ),
    ],
)
def test_what_the_compiler_says_becomes_a_sentence(message, error, sentence):
    with pytest.raises(error, match=sentence):
        raise tpu_compile._refusal(message)


needs_the_compiler = pytest.mark.skipif(
    bool(tpu_compile.missing_packages()), reason=f"not installed: {', '.join(tpu_compile.missing_packages())}"
)


def lowered(config_file, monkeypatch, **flags):
    """Return the trainer, the program and the number of cores for the compiler."""
    given = []
    monkeypatch.setattr(check_tpu, "compile_for_tpu", lambda *arguments: given.append(arguments) or Memory(1, 1, 1))
    make_step = check_tpu.make_step
    monkeypatch.setattr(check_tpu, "make_step", lambda *arguments: given.append(make_step(*arguments)) or given[-1])
    monkeypatch.setattr(check_tpu, "lower", lambda *arguments: given.append(lower(*arguments)) or given[-1])
    check(bert_config_file=config_file, **flags)
    trainer, program, (_, num_cores) = given
    return trainer, program.text, num_cores


@pytest.mark.parametrize("num_cores", [1, 2, 4, 8])
def test_the_exchange_of_gradients_is_compiled_for_4_and_8_cores(config_file, monkeypatch, capsys, num_cores):
    flags = {"task": "classification", "train_batch_size": 16, "num_tpu_cores": num_cores}
    trainer, program, num_compiled = lowered(config_file, monkeypatch, **flags)
    num_sums = program.count(" all-reduce(")
    is_told = "without the exchange of gradients" in capsys.readouterr().err
    if num_cores in (1, 2):
        assert (num_compiled, num_sums, is_told) == (1, 0, num_cores == 2)
    else:
        assert (num_compiled, is_told) == (num_cores, False)
        assert num_sums >= sum("/adam_m" in name for name in trainer.state)
        assert f"replica_groups={{{{{','.join(map(str, range(num_cores)))}}}}}" in program


def test_a_step_in_16_bits_recomputed_and_packed_is_what_is_compiled(config_file, monkeypatch):
    flags = {"task": "classification", "train_batch_size": 16, "num_tpu_cores": 1, "gradient_accumulation_steps": 2}
    _, plain, _ = lowered(config_file, monkeypatch, **flags)
    assert "bf16[" not in plain
    assert "operand_precision={highest,highest}" in plain
    assert "s32[2,8,12]" not in plain
    monkeypatch.undo()
    flags |= {"precision": "bfloat16", "recompute": True, "pack": True}
    trainer, packed, _ = lowered(config_file, monkeypatch, **flags)
    assert "bf16[" in packed
    assert "s32[2,8,12]" in packed  # two parts of eight rows
    assert trainer.task.model.bert.is_recomputed
    monkeypatch.undo()
    _, rounded, _ = lowered(config_file, monkeypatch, **{**flags, "precision": "tf32", "pack": False})
    assert "operand_precision={highest,highest}" not in rounded


@pytest.mark.slow  # the compiler needs ten seconds to a minute a program
@needs_the_compiler
@pytest.mark.parametrize("task", check_tpu.TASKS)
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
