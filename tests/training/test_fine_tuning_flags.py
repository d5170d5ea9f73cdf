"""The flags of all fine-tuning programs."""

import pytest
from absl import flags

from bert_keras.cli.flags import parse
from bert_keras.training.finetuning.settings import NumbersParser, define_fine_tuning_flags

# First the flags of the original run_classifier.py and run_squad.py, with their defaults.
FLAGS = {
    "init_checkpoint": None,
    "bert_config_file": None,
    "vocab_file": None,
    "do_lower_case": None,
    "output_dir": None,
    "max_seq_length": 128,
    "do_train": False,
    "do_predict": False,
    "train_batch_size": (32,),
    "predict_batch_size": 8,
    "learning_rate": (5e-5,),
    "num_train_epochs": (3.0,),
    "warmup_proportion": 0.1,
    "save_checkpoints_steps": 1000,
    "iterations_per_loop": 1000,
    "use_tpu": False,
    "tpu_name": None,
    "tpu_zone": None,
    "gcp_project": None,
    "master": None,
    "num_tpu_cores": 8,
    "strategy": "auto",
    "seed": 12345,
    "num_seeds": 1,
    "eval_steps": 0,
    "early_stopping": 0,
    "log_steps": 10,
    "gradient_accumulation_steps": 1,
    "smooth_learning_rate": False,
    "freeze_layers": None,
    "layer_decay": 1.0,
    "new_head": False,
    "deterministic": False,
    "precision": "float32",
    "recompute": False,
    "jit": False,
    "run_config": None,
}


@pytest.fixture
def values():
    values = flags.FlagValues()
    define_fine_tuning_flags(values)
    return values


def test_names_and_defaults(values):
    assert {name: values[name].default for name in values} == FLAGS


def test_the_length_has_a_default_of_the_program(values):
    other = flags.FlagValues()
    define_fine_tuning_flags(other, max_seq_length=384)
    assert {name: other[name].default for name in other} == {**FLAGS, "max_seq_length": 384}


def test_one_number_or_several(values):
    parse(values, ["run", "--learning_rate=2e-5, 3e-5,5e-5", "--train_batch_size=16", "--num_train_epochs=2,3.5"], "")
    assert values.learning_rate == (2e-5, 3e-5, 5e-5)
    assert values.train_batch_size == (16,)
    assert values.num_train_epochs == (2.0, 3.5)
    assert values["learning_rate"].serialize() == "--learning_rate=2e-05,3e-05,5e-05"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--learning_rate=fast", "'fast' is not a number"),
        ("--learning_rate=1e-5,", "'' is not a number"),
        ("--learning_rate=0", "0.0 is not above 0"),
        ("--learning_rate=nan", "nan is not a finite number"),
        ("--num_train_epochs=inf", "inf is not a finite number"),
        ("--num_train_epochs=-1", "-1.0 is not above 0"),
        ("--train_batch_size=1.5", "'1.5' is not a whole number"),
        ("--train_batch_size=0", "0 is not at least 1"),
        ("--learning_rate=1e-5,2e-5,0.00001", "a number occurs twice: 1e-5,2e-5,0.00001"),
        ("--num_seeds=0", "--num_seeds=0"),
        ("--seed=2147483648", "--seed=2147483648"),
        ("--layer_decay=1.1", "--layer_decay=1.1"),
        ("--warmup_proportion=2", "--warmup_proportion=2"),
        ("--eval_steps=-1", "--eval_steps=-1"),
    ],
)
def test_values_that_cannot_be_are_refused(values, argument, message):
    with pytest.raises(ValueError, match=message):
        parse(values, ["run", argument], "")


def test_numbers_of_a_run_config_are_the_same_numbers():
    assert NumbersParser(float, 0).parse([1e-5, 2e-5]) == (1e-5, 2e-5)
    assert NumbersParser(int, 1).parse(32) == (32,)
    assert NumbersParser(float, 0).parse(3) == (3.0,)


def test_help_tells_the_kind_of_several_numbers(values):
    assert "(a comma separated list)" not in values.get_help()
    assert NumbersParser(float, 0).flag_type() == "floats"
    assert NumbersParser(int, 1).flag_type() == "ints"
