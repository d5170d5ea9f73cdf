"""The flags of all programs that train, and numbers separated by commas."""

import pytest

from bert_keras.cli.flags import parse
from bert_keras.settings.fields import program_flags
from bert_keras.settings.groups import FineTuningSettings
from bert_keras.settings.numbers import NumbersParser


@pytest.fixture
def values():
    return program_flags(FineTuningSettings)


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
        ("--weight_decay_rate=-0.1", "--weight_decay_rate=-0.1: -0.1 is not a number from 0 "),
        ("--adam_beta_1=1", "1 is not a number from 0 to below 1"),
        ("--adam_beta_2=1", "1 is not a number from 0 to below 1"),
        ("--adam_epsilon=0", "0 is not a number from 1e-30"),
        ("--clip_norm=inf", "inf is not a number from 0"),
        ("--ema_decay=nan", "nan is not a number from 0 to below 1"),
        ("--label_smoothing=1.5", "1.5 is not a number from 0 to below 1"),
        ("--adam_beta_2=much", "'much' is not a number"),
        ("--max_steps=-1", "--max_steps=-1"),
        ("--keep_checkpoint_max=-1", "--keep_checkpoint_max=-1"),
        ("--learning_rate_schedule=steep", "--learning_rate_schedule=steep"),
    ],
)
def test_values_that_cannot_be_are_refused(values, argument, message):
    with pytest.raises(ValueError, match=message):
        parse(values, ["run", argument], "")


def test_help_tells_the_kind_of_several_numbers(values):
    assert "(a comma separated list)" not in values.get_help()
    assert NumbersParser(float, 0).flag_type() == "floats"
    assert NumbersParser(int, 1).flag_type() == "ints"
