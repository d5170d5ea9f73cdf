"""The command `bert-keras`: its subcommands are the programs, and its messages name them as it was started."""

import logging
import re
import subprocess
import sys

import pytest

from bert_keras import __main__ as program
from bert_keras import __version__
from bert_keras.cli.console import open_console
from bert_keras.cli.program_names import GROUPS, MODULES
from bert_keras.tasks.reports.commands import command_line

# Ends with an error if the list of subcommands needs more than a few small modules.
LIST = """
import sys
sys.argv = ["/somewhere/bin/bert-keras"]
from bert_keras.__main__ import main
main()
assert not {"absl", "rich", "numpy", "keras", "tensorflow"} & set(sys.modules)
"""


@pytest.fixture
def start(monkeypatch, capsys):
    """Return a function of arguments that runs `bert-keras`, for its status, its standard output and error."""

    def run(*arguments, path="/somewhere/bin/bert-keras"):
        monkeypatch.setattr(sys, "argv", [path, *arguments])
        status = 0
        try:
            program.main()
        except SystemExit as error:
            status = error.code
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_the_list_of_subcommands_loads_next_to_nothing_and_fits_a_screen():
    shown = subprocess.run([sys.executable, "-c", LIST], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^  (\S+)  ", shown, re.MULTILINE) == [name for group in GROUPS.values() for name in group]
    lines = shown.splitlines()
    assert len(lines) <= 32
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_help_and_version(start, arguments):
    assert "bert-keras SUBCOMMAND --help" in start(*arguments)[1]
    assert "python -m bert_keras SUBCOMMAND --help" in start(*arguments, path="/clone/bert_keras/__main__.py")[1]
    assert start("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("clasify", '; did you mean "classify"?'),
        ("run_classifier.py", '; did you mean "classify"?'),
        ("check_labels", '; did you mean "check-labels"?'),
        ("xyz", ""),
    ],
)
def test_an_unknown_subcommand_names_the_nearest(start, name, advice):
    message = f'bert-keras: there is no subcommand "{name}"{advice} (bert-keras --help lists all)'
    assert start(name)[0] == message


# Ends with an error if the help of any program needs TensorFlow, Keras or the libraries of metrics.
HELP = """
import contextlib, sys
from bert_keras.__main__ import main
for name in sys.argv[1:]:
    sys.argv = ["bert-keras", name, "--help"]
    print("=", name)
    with contextlib.suppress(SystemExit):
        main()
    assert not {"keras", "tensorflow", "sklearn", "scipy"} & set(sys.modules), name
"""


def test_the_help_of_every_program_is_short_and_needs_no_tensorflow():
    run = subprocess.run([sys.executable, "-c", HELP, *MODULES], capture_output=True, text=True, check=True)
    helps = re.split(r"^= (\S+)\n", run.stdout, flags=re.MULTILINE)[1:]
    assert helps[::2] == [*MODULES]
    for name, shown in zip(helps[::2], helps[1::2], strict=True):
        assert shown.count("\n") <= 110, name
        assert f"\n    bert-keras {name} " in shown
        assert ".py --" not in shown
        actions = re.findall(r"^  --\[no\](do_(?:train|eval|predict)):", shown, re.MULTILINE)
        assert "".join(f"  --[no]{action}:" for action in actions) in re.sub(r"(:).*\n(?: {6}.*\n)*", r"\1", shown)
        assert "(default:" not in shown


def test_mistakes_begin_with_the_subcommand(start):
    status, _, message = start("classify", "--do_train")
    assert (status, message.split(":")[0]) == (1, "bert-keras classify")
    expected = "bert-keras check-model: give one folder: bert-keras check-model FOLDER (--helpfull lists all flags)\n"
    assert start("check-model")[2] == expected


@pytest.mark.parametrize(
    ("start", "before", "after"),
    [
        ("bert-keras classify", "bert-keras predict", "bert-keras create-data"),
        ("python -m bert_keras serve", "python -m bert_keras predict", "python -m bert_keras create-data"),
        ("/clone/run_classifier.py", "python predict.py", "data_prep/create_pretraining_data.py"),
    ],
)
def test_commands_fit_the_way_in_which_the_process_was_started(monkeypatch, capsys, start, before, after):
    monkeypatch.setattr(sys, "argv", [start])
    open_console()
    logging.getLogger("bert_keras").info(
        "python predict.py --why, not my/predict.py: data_prep/create_pretraining_data.py"
    )
    assert capsys.readouterr().out == f"{before} --why, not my/predict.py: {after}\n"
    assert command_line(["predict.py", "a b"]) == f'  {before} "a b"'
