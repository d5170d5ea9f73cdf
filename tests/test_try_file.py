"""`bert-keras try FILE`: what it shows, asks, does and advises."""

import dataclasses
import io
import re
import shlex
import types

import pytest
import rich.console
from tiny_classes import write_start, write_texts
from tiny_squad import paragraphs, write_squad

from bert_keras import __main__ as subcommands
from bert_keras.cli.flags import parse, run_main
from bert_keras.commands import try_file
from bert_keras.programs import trial
from bert_keras.tasks.classification.labels import SeveralLabels
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.tables.examples import Example

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture
def start(tmp_path, monkeypatch, capsys):
    """Return a function of arguments that runs the program in a folder, for its status, standard output and error."""
    monkeypatch.chdir(tmp_path)
    write_start(tmp_path / "start")

    def run(*arguments, answer=None):
        stdin = io.StringIO(answer)
        stdin.isatty = lambda: answer is not None
        monkeypatch.setattr("sys.stdin", stdin)
        try:
            status = run_main(try_file.main, ["try_file.py", *arguments, "--init_checkpoint=start"])
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize("answer", ["n\n", "no\n", ""])
def test_it_asks_before_it_does_anything(start, tmp_path, answer):
    write_texts(tmp_path / "a.csv", 20, 1)
    before = sorted(tmp_path.rglob("*"))
    status, shown, mistake = start("a.csv", answer=answer)
    assert (status, mistake) == (0, "")
    assert "columns text, label" in shown
    assert "Train on 16 of these texts for 10 steps, evaluate on the other 4, and check the labels?" in shown
    assert "a_try/" in shown
    assert sorted(tmp_path.rglob("*")) == before


def test_mistakes(start, tmp_path):
    write_texts(tmp_path / "a.csv", 20, 1)
    (tmp_path / "tags.txt").write_text("he O\nate O\n\nparis B-LOC\nis O\n\n")
    write_squad(tmp_path / "questions.json", paragraphs(4, 1))
    (tmp_path / "no_answers.csv").write_text(
        'question,context,answers\nwho,he ate,"{""text"": [], ""answer_start"": []}"\n'
    )
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "two.csv").write_text("text,label\na text,x\nanother,y\n")
    for arguments, message in (
        ((), "give one file: try_file.py FILE (--helpfull lists all flags)"),
        (("a.csv", "b.csv"), "give one file"),
        (("none.csv",), "none.csv"),
        (("empty.csv",), "empty.csv"),
        (("a.csv",), "nobody can answer here, because standard input is not a terminal; give --yes"),
        (("tags.txt", "--yes"), "tags.txt is not a table of texts and labels, but run_ner.py reads it; give it"),
        (("questions.json", "--yes"), "but run_squad.py reads it; give it the file with --train_file"),
        (("no_answers.csv", "--yes"), "no_answers.csv is not a table of texts and labels, but run_squad.py reads it"),
        (("a.csv", "--yes", "--label_column=mood"), "mood"),
        (
            ("two.csv", "--yes"),
            "give another share, or --eval_file; for --eval_share, --eval_file, use run_cl",
        ),
        (("a.csv", "--yes", "--kind=multiple_choice"), "--kind=multiple_choice needs --choice_columns: columns"),
    ):
        status, _, mistake = start(*arguments)
        assert status == 1, arguments
        assert message in mistake
        assert mistake.count("\n") == 1
    assert not list(tmp_path.glob("*_try"))


def test_a_file_is_tried_and_a_second_call_repeats_nothing(start, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "_STEPS", 4)
    write_texts(tmp_path / "a.csv", 40, 1)
    status, shown, mistake = start("a.csv", answer="\n")
    assert (status, mistake) == (0, "")
    assert (tmp_path / "a_try" / "run" / "report.html").is_file()
    commands = [shlex.split(line)[1:] for line in re.findall(r"^  python.*", shown.replace("\\\n", ""), re.MULTILINE)]
    assert len(commands) == 3
    for name, *arguments in commands:
        subcommand = next(key for key, module in subcommands.MODULES.items() if f"{module}.py".endswith(name))
        values = subcommands.load_program(subcommand).define_flags()
        parse(values, [name, *arguments], "", takes_texts=name == "predict.py")
    again = start("a.csv", "--yes")
    assert again[0] == 0
    assert "nothing to train" in again[1]
    assert shown.partition("What fits")[2] == again[1].partition("What fits")[2]
    status, _, mistake = start("a.csv", "--yes", "--label_column=1", "--text_column=0", "--kind=regression")
    assert status == 1
    assert mistake.count("\n") == 1


def data_of(kind, *labels):
    train = [Example(str(row), f"text {row}", label=label) for row, label in enumerate(labels)]
    return types.SimpleNamespace(kind=kind, train=train)


BALANCED = ["x"] * 50 + ["y"] * 50


@pytest.mark.parametrize(
    ("result", "purposes"),
    [
        ({}, []),
        ({"is_useful": False}, ["The model is not better than the baseline. Compare learning rates and seeds:"]),
        ({"labels": ["x"] * 92 + ["y"] * 8}, ["The smallest class has 8 texts. Give small classes more weight:"]),
        ({"is_cut": True}, ["Some texts are cut. Read them to their ends:"]),
        (
            {"num_suspects": 6},
            ["Many labels may be wrong. Correct those of out/suspects.tsv, and try again:"],
        ),
        ({"num_steps": 2}, ["Only 32 texts were read. Train on all, three times:"]),
    ],
)
def test_commands_fit_the_result(result, purposes):
    result = {"num_steps": 300, "is_useful": True, "num_suspects": 0, "is_cut": False, **result}
    data = data_of(SingleLabel(["x", "y"]), *result.pop("labels", BALANCED))
    tried = trial.Trial("a.csv", "start", "out", ["--label_column=1"], None)
    found = list(tried._next_commands(data, **result))
    assert [purpose for purpose, _ in found] == purposes
    for _, (program, *words) in found:
        programs = {**trial.PROGRAMS, "try_file": try_file}
        parse(programs[program.removesuffix(".py")].define_flags(), [program, *words], "", takes_texts=True)


def test_planted_wrong_labels_are_found(tmp_path, capsys):
    """In these texts the words say the label; some have the other one."""
    words = {"good": ["great", "happy", "lovely", "nice", "kind"], "bad": ["awful", "sad", "nasty", "cruel", "grim"]}
    labels = ["good", "bad"] * 40
    train = []
    for row, label in enumerate(labels):
        text = " ".join((*words[label][row % 3 : row % 3 + 3], f"text{row}"))
        train.append(Example(str(row), text, label=label, source=f"a.csv line {row + 2}"))
    wrong = [7, 20, 33]
    for row in wrong:
        train[row] = dataclasses.replace(train[row], label={"good": "bad", "bad": "good"}[labels[row]])
    data = types.SimpleNamespace(kind=SingleLabel(["bad", "good"]), train=train[:60], dev=train[60:])
    folder = tmp_path / "out"
    folder.mkdir()
    tried = trial.Trial("a.csv", "start", str(folder), [], rich.console.Console())
    assert tried._check_labels(data) == 3
    header, *rows = [line.split("\t") for line in (folder / "suspects.tsv").read_text().splitlines()]
    assert sorted(row[header.index("source")] for row in rows) == sorted(f"a.csv line {row + 2}" for row in wrong)
    shown = capsys.readouterr().out
    assert "3 of 80 labels may be wrong" in shown
    assert "clearly" not in shown
    assert "a.csv line 9: good, rather bad: " in shown
    right = [example for row, example in enumerate(train) if row not in wrong]
    assert tried._check_labels(types.SimpleNamespace(kind=data.kind, train=right, dev=[])) == 0
    assert "No label contradicts the words of the other texts clearly." in capsys.readouterr().out
    few = types.SimpleNamespace(kind=data.kind, train=[train[0], train[1], train[3]], dev=[])
    assert tried._check_labels(few) == 0
    assert "The labels are not checked, because a label has too few different texts." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("header", "row", "flags"),
    [
        ("text,label", '"a text {}","{}"', ["--kind=multi_label", "--label_separator=+"]),
        ("text,first,second,label", "text {},one,two,{}", ["--kind=multiple_choice", "--choice_columns=first,second"]),
    ],
)
def test_all_kinds_of_labels_can_be_tried(start, tmp_path, monkeypatch, header, row, flags):
    monkeypatch.setattr(trial, "_STEPS", 2)
    labels = ["x", "y", "x+y"] if flags[0].endswith("multi_label") else ["0", "1"]
    rows = [row.format(number, labels[number % len(labels)]) for number in range(24)]
    (tmp_path / "a.csv").write_text("\n".join([header, *rows]))
    status, shown, mistake = start("a.csv", "--yes", *flags)
    assert (status, mistake) == (0, "")
    assert re.search(r"for 2 steps, and evaluate on the other \d\? This takes", shown)
    assert (tmp_path / "a_try/run/report.html").exists()


def test_several_labels_have_no_classes_to_weigh():
    data = data_of(SeveralLabels(["x", "y"]), *[("x",)] * 40, ("y",))
    tried = trial.Trial("a.csv", "start", "out", ["--kind=multi_label"], None)
    assert list(tried._next_commands(data, 300, True, 0, False)) == []
