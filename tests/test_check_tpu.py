"""check_tpu.py: its output, and the output of the TPU's compiler."""

import numpy as np
import pytest
import tensorflow as tf

import check_tpu
from bert_keras.training.distribution import tpu_compile
from bert_keras.training.distribution.tpu_compile import Memory, compile_for_tpu
from bert_keras.training.evaluation_pass import Evaluator
from check_tpu import lower

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
    """A fake TPU compiler; records the programs and their numbers of cores."""
    given = []
    monkeypatch.setattr(
        check_tpu, "compile_for_tpu", lambda *arguments: given.append(arguments) or Memory(GB // 2, 6 * GB, 0)
    )
    return given


def test_the_program_reports_the_memory_of_a_core(config_file, compiler, monkeypatch, capsys):
    made = []
    monkeypatch.setattr(check_tpu, "lower", lambda step, features: made.append(features) or b"a program")
    check(bert_config_file=config_file, train_batch_size=24, gradient_accumulation_steps=2)
    assert compiler == [(b"a program", 1)]
    assert made[0]["input_ids"].shape == [12, 12]  # two parts of 6 examples
    out, err = capsys.readouterr()
    assert "compiled for 1 core, without the exchange of gradients; --num_tpu_cores=4 or 8 includes it" in err
    assert out.startswith("compiled for 1 core(s) of a TPU v5e in 0 s, not run\nmemory of a core: 6.50 of 15.75 GB\n")
    assert "  temporary                   6.00 GB\n" in out


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


def test_without_the_compiler_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setattr(tpu_compile, "missing_packages", lambda: ["libtpu"])
    with pytest.raises(ValueError, match=r"missing \(libtpu\): pip install 'bert-keras\[tpu-check\]'$"):
        compile_for_tpu(b"")


needs_the_compiler = pytest.mark.skipif(
    bool(tpu_compile.missing_packages()), reason=f"not installed: {', '.join(tpu_compile.missing_packages())}"
)


# The steps as protobufs: names of operations and attributes are in them as plain text.
def test_the_exchange_of_gradients_between_4_cores_is_compiled(config_file, compiler, capsys):
    check(task="classification", bert_config_file=config_file, train_batch_size=16, num_tpu_cores=4)
    [(program, num_cores)] = compiler
    assert num_cores == 4
    assert b"all-reduce" in program
    assert "without the exchange of gradients" not in capsys.readouterr().err


# The training of the other classifiers and the prediction of all have the network of these.
@pytest.mark.slow
@pytest.mark.parametrize("task", check_tpu.TASKS)
def test_xla_compiles_training_and_prediction_of_each_task(task, tiny_config):
    settings = {"max_seq_length": 12, "max_predictions_per_seq": 3, "num_labels": 3, "num_tpu_cores": 1}
    settings |= {"gradient_accumulation_steps": 1, "precision": "float32", "recompute": False, "pack": False}
    trainer = check_tpu.make_step({**settings, "task": task}, tiny_config)
    features = check_tpu.features_of({**settings, "task": task}, 4)
    assert b"all-reduce" not in lower(trainer.step, features)
    if task == "pretraining":
        features["is_real_example"] = tf.TensorSpec([4], tf.float32)
        assert lower(Evaluator(trainer.loss, tf.distribute.get_strategy()).step, features)
    else:  # the fine-tuning tasks use the signature that `Inference` calls
        assert lower(trainer.loss.model, {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")})


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.strings.length(tf.strings.as_string(x)),
        lambda x: tf.py_function(lambda y: y, [x], tf.int32),
        lambda x: tf.RaggedTensor.from_row_lengths(x, x).to_tensor(),
    ],
    ids=["strings", "python", "ragged"],
)
def test_functions_of_the_host_are_refused(function):
    with pytest.raises(ValueError, match="^XLA cannot compile this: "):
        lower(lambda features: function(features["x"]), {"x": tf.TensorSpec([2], tf.int32)})


# The other tasks have the network of classification; the test above has the program of each.
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
    memory = compile_for_tpu(lower(lambda features: tf.matmul(features["x"], features["x"]), spec))
    # One matrix is the input and one is the output.
    np.testing.assert_allclose(memory.inputs, 2 * 4 * 2**20, rtol=0.01)

    def too_large(features):
        square = tf.random.stateless_normal([2**16, 2**16], [1, 2]) + features["x"][0, 0]  # 16 GB
        return tf.matmul(square, square)

    with pytest.raises(ValueError, match=r"^the compiler .*RESOURCE_EXHAUSTED.*; fewer examples on a core need less"):
        compile_for_tpu(lower(too_large, spec))
