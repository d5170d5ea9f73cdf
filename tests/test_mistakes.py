"""Messages name settings, and each edge spells them."""

import logging
import pickle
import re

import pytest

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import run_main
from bert_keras.mistakes import Message, MissingFile, Mistake, Remedy, Setting, flag_name, setting_name, several
from bert_keras.programs.calls import argument_name, naming_arguments

CASES = (
    (("{eval_share}={} is not a share", 2.5), "eval_share=2.5 is not a share", "--eval_share=2.5 is not a share"),
    (("no {train_file}",), "no train_file", "no --train_file"),
    (("{:,} of {!r}", 1000, "{eval_share}"), "1,000 of '{eval_share}'", "1,000 of '{eval_share}'"),
    (("{0} and {jit}: {0}", Setting("seed")), "seed and jit: seed", "--seed and --jit: --seed"),
    (("give {}", [Setting("seed"), "{x}"]), "give seed, {x}", "give --seed, {x}"),
    (("{!s} is not {!r}", [2, 3], [Setting("seed")]), "[2, 3] is not ['seed']", "[2, 3] is not ['seed']"),
    (("{}!", Message("a {seed} of {}", 3)), "a seed of 3!", "a --seed of 3!"),
    (("a.txt: {}", Mistake("no {seed}")), "a.txt: no seed", "a.txt: no --seed"),
    (("{}", ValueError("{seed}")), "{seed}", "{seed}"),
    (("cut it{}", Remedy(", or give {seed} of {}", 2)), "cut it, or give seed of 2", "cut it, or give --seed of 2"),
    (("give {{}} and {config_file}",), "give {} and config_file", "give {} and --bert_config_file"),
)


@pytest.mark.parametrize(("arguments", "plain", "with_flags"), CASES)
def test_edges_spell_settings_and_nothing_else(arguments, plain, with_flags):
    error = Mistake(*arguments)
    copy = pickle.loads(pickle.dumps(error))
    assert str(error) == str(copy) == str(Message(*arguments)) == plain
    error.spell(flag_name)
    copy.spell(flag_name)
    assert str(error) == str(copy) == with_flags
    assert repr(error) == f"Mistake({with_flags!r})"


def test_a_remedy_is_left_out_where_nobody_can_change_its_settings():
    error = Mistake("{seed} is 2{}{}", Remedy(", or take a {seed}"), Remedy(", or {long}={}", "window"))
    error.spell(lambda name: "" if name == "long" else name)
    assert str(error) == "seed is 2, or take a seed"


def test_a_missing_file_is_both_kinds_of_error():
    error = pickle.loads(pickle.dumps(MissingFile("{input_file}={} does not exist", "{x}")))
    assert isinstance(error, FileNotFoundError)
    assert isinstance(error, ValueError)
    error.spell(flag_name)
    assert str(error) == "--input_file={x} does not exist"


def test_programs_print_flags(capsys):
    def main(argv):
        open_console()
        logging.getLogger("bert_keras").warning(Message("{seed}={}", 1))
        raise Mistake("{input_file} is missing ({help} lists all flags)")

    assert run_main(main, ["program.py"]) == 1
    out, err = capsys.readouterr()
    assert out == "warning: --seed=1\n"
    assert err == "program.py: --input_file is missing (--help lists all flags)\n"


@pytest.mark.parametrize(
    ("setting", "argument", "of_export"),
    [
        ("train_file", "train_data", "train_file"),
        ("input_file", "train_data", "input_file"),
        ("unlabeled_file", "unlabeled_data", "unlabeled_file"),
        ("vocab_file", "vocab_file", "vocab_file"),
        ("do_eval", "eval_data (or do_eval)", "do_eval"),
        ("config_file", "bert_config_file", "bert_config_file"),
    ],
)
def test_python_functions_name_their_arguments(setting, argument, of_export, capsys):
    assert (argument_name(setting), setting_name(setting)) == (argument, of_export)

    def work():
        with naming_arguments(argument_name, verbose=True):
            logging.getLogger("bert_keras").info(Message("with {}", Setting(setting)))
            raise Mistake("without {}", Setting(setting))

    with pytest.raises(Mistake, match=f"^without {re.escape(argument)}$"):
        work()
    assert capsys.readouterr().out == f"with {argument}\n"


@pytest.mark.parametrize(
    ("number", "things", "told"),
    [
        (1, "queries", "1 query"),
        (1, "files", "1 file"),
        (0, "bytes", "0 bytes"),
        (2917, "sentences", "2,917 sentences"),
    ],
)
def test_one_thing_has_no_plural(number, things, told):
    assert several(number, things) == told
