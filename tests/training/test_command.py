"""The end of a training program: the reports and commands that it shows, for the model of every task."""

import re
import shlex
import types
import unittest.mock

import pytest
from fine_tuned_models import FINE_TUNED, OF_VECTORS, write_fine_tuned
from known_models import random_model, write_model
from training_programs import run_classifier, run_pretraining

from bert_keras.cli.flags import parse
from bert_keras.commands import export_model, predict, serve
from bert_keras.engine.report import Result
from bert_keras.programs import demo
from bert_keras.programs.command import Program
from bert_keras.tasks import abilities

pytestmark = pytest.mark.usefixtures("no_graphs")


def shown_after(program, folder, capsys, *flags, texts=(), **result):
    """Returns the lines that a program shows after a run, and the words of its commands."""
    run = types.SimpleNamespace(execute=lambda: Result({"loss": 1.0}, **{"is_complete": True} | result))
    argv = [f"{program.name}.py", f"--output_dir={folder}", *flags]
    with (
        unittest.mock.patch.object(Program, "open_run", return_value=run),
        unittest.mock.patch.object(demo, "prepare_demo", return_value=(argv, texts)),
    ):
        assert program.main(argv[:1] if texts else argv) == {"loss": 1.0}
    output = re.sub(r"\\\n +", "", capsys.readouterr().out)
    return output, [shlex.split(line)[1:] for line in re.findall(r"^  python.*", output, re.MULTILINE)]


def check(commands, names, capsys):
    """Runs predict.py, and lets the other programs read their commands."""
    assert [name for name, *_ in commands] == names
    for name, *arguments in commands:
        if name == "predict.py":
            predict.main([name, *arguments])
            assert capsys.readouterr().out.strip()
        else:
            program = {"serve.py": serve, "export_model.py": export_model, "run_classifier.py": run_classifier}[name]
            parse(program.define_flags(), [name, *arguments], "")


@pytest.mark.parametrize("task", abilities(is_fine_tuned=True))
def test_the_commands_of_a_fine_tuned_model_work(task, tmp_path, capsys):
    make, settings = FINE_TUNED.get(task, (lambda: random_model().bert, OF_VECTORS))
    folder = write_fine_tuned(tmp_path / "a run", make(), task, **settings)
    _, commands = shown_after(run_classifier, folder, capsys, "--do_train")
    check(commands, ["predict.py", "serve.py", "export_model.py"], capsys)
    assert commands[2][-1] == "--export_dir=a run_export"


@pytest.mark.parametrize(
    ("flags", "changes", "task"),
    [
        ((), {}, "fill_mask"),
        ((), {"is_decoder": True}, "score"),
        (("--objective=electra",), {}, "replaced_tokens"),
    ],
)
def test_the_commands_of_a_pretrained_model_work(flags, changes, task, tmp_path, capsys):
    write_model(tmp_path / "run", random_model(**changes))
    _, commands = shown_after(run_pretraining, tmp_path / "run", capsys, "--do_train", *flags)
    assert f"--task={task}" in commands[0]
    check(
        commands[task == "replaced_tokens" :], ["predict.py", "run_classifier.py"][task == "replaced_tokens" :], capsys
    )


def test_only_reports_that_exist_are_named(tmp_path, capsys):
    make, settings = FINE_TUNED["regression"]
    folder = write_fine_tuned(tmp_path / "run", make(), "regression", **settings)
    for name in ("tries.tsv", "eval_errors.tsv", "predictions.tsv"):
        (folder / name).write_text("")
    output, commands = shown_after(run_classifier, folder, capsys, "--do_eval")
    assert output == f"Look at {folder}/eval_errors.tsv, {folder}/predictions.tsv, {folder}/tries.tsv\n"
    assert commands == []
    # The other reports are those of the training.
    assert shown_after(run_classifier, folder, capsys, "--do_predict")[0] == f"Look at {folder}/predictions.tsv\n"
    output, commands = shown_after(run_classifier, folder, capsys, "--do_train", texts=["a dog"])
    assert commands[0] == ["predict.py", f"--model_dir={folder}", "a dog"]


def test_a_model_of_no_use_has_reports_but_no_commands(tmp_path, capsys):
    (tmp_path / "report.html").write_text("")
    shown = shown_after(run_classifier, tmp_path, capsys, "--do_train", "--do_eval", is_useful=False)
    assert shown == (f"Look at {tmp_path}/report.html\n", [])


def test_a_run_that_is_interrupted_shows_nothing(tmp_path, capsys):
    assert shown_after(run_classifier, tmp_path, capsys, "--do_train", is_complete=False) == ("", [])
