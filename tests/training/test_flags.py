"""Parsing of flags, and error messages."""

import dataclasses
import re
import signal

import pytest
from absl import flags

from bert_keras.cli.flags import given_flags, parse, require, run_main, tell_unused
from bert_keras.evaluation.tables import tab_separated
from bert_keras.mistakes import Mistake, flag_name
from bert_keras.settings.fields import Settings, setting
from bert_keras.tasks.classification.settings import ClassifierSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Made(Settings):
    title = "Made up"
    input_file: str | None = setting("A file.", None)
    do_train: bool = setting("Whether to train.", False)


@pytest.fixture
def values():
    values = flags.FlagValues()
    flags.DEFINE_string("input_file", None, "Where the text is.", flag_values=values)
    flags.DEFINE_integer("num_steps", 3, "How many.", lower_bound=1, flag_values=values)
    return values


def test_flags_are_read_and_told_apart_from_defaults(values):
    assert parse(values, ["program", "--input_file=a.txt"], "") == []
    assert values.input_file == "a.txt"
    assert given_flags(values) == {"input_file"}


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--input_fil=a", "there is no flag --input_fil; the nearest: input_file \\("),
        ("--steps=3", "there is no flag --steps; the nearest: num_steps \\("),
        ("--num_steps=many", "flag --num_steps=many"),
        ("--num_steps=0", "flag --num_steps=0"),
        ("a.txt", '"a.txt" is not a flag; every argument has the form name=value'),
    ],
)
def test_mistakes_are_one_sentence(values, argument, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse(values, ["program", argument], "")
    assert re.search("helpfull lists all flags", str(caught.value))


def test_an_argument_that_is_no_flag_gets_the_first_command_of_the_help(values):
    usage = (
        "Does it.\n\n    python program.py --input_file=a --num_steps=3 \\\n        --texts=b\n    python program.py\n"
    )
    with pytest.raises(
        Mistake, match=re.escape("=value, as in: python program.py --input_file=a --num_steps=3 --texts=b (")
    ):
        parse(values, ["program", "a.txt"], usage)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "--per_device_train_batch_size=8",
            "there is no flag --per_device_train_batch_size; here it is --train_batch_size",
        ),
        ("--lr=1e-5", "there is no flag --lr; here it is --learning_rate"),
        ("--fp16", "there is no flag --fp16; here it is --precision=float16"),
        ("--validation_file=a.csv", "there is no flag --validation_file; here it is --eval_file"),
        ("--data=a.csv", "there is no flag --data; here it is --train_file"),
        ("--model_dir=a", "there is no flag --model_dir; here it is --init_checkpoint"),
        ("--warmup_steps=10", "there is no flag --warmup_steps; here it is --warmup_proportion"),
        ("--wings=2", "there is no flag --wings (--helpfull lists all flags)"),
        ("--train-file=a.csv", "there is no flag --train-file; here it is --train_file"),
        ("--model_name_or_path=a", "there is no flag --model_name_or_path; here it is --init_checkpoint"),
        ("--adam=2", "there is no flag --adam; the nearest: --adam_beta_1, --adam_beta_2, --adam_epsilon ("),
    ],
)
def test_names_of_other_libraries_are_translated(argument, message):
    with pytest.raises(Mistake) as error:
        ClassifierSettings.from_argv(["run_classifier.py", argument])
    error.value.spell(flag_name)
    assert str(error.value).startswith(message)


def test_arguments_of_other_libraries_are_translated():
    with pytest.raises(TypeError, match=r'^train\(\) has no setting "epochs"; here it is "num_train_epochs"$'):
        ClassifierSettings.from_arguments("train", {"epochs": 3})


@pytest.mark.parametrize("name", ["train_file", "init_checkpoint", "label_column", "output_dir"])
def test_an_empty_text_is_a_mistake_of_the_shell(name):
    """As `--init_checkpoint=$FOLDER` is where there is no FOLDER: it would start from random numbers."""
    with pytest.raises(Mistake, match=f"^flag --{name}=: it is empty; give a value, or leave it out"):
        ClassifierSettings.from_argv(["run_classifier.py", f"--{name}="])
    with pytest.raises(Mistake, match=f"^{name}=: it is empty; give a value, or leave it out$"):
        ClassifierSettings.from_arguments("train", {name: ""})
    separator = ClassifierSettings.from_argv(["run_classifier.py", "--label_separator= "]).label_separator
    assert separator == " "


def test_all_that_is_missing_is_named_at_once(values):
    parse(values, ["program"], "")
    with pytest.raises(ValueError, match=r"^missing: input_file \(help says what each is for\)$"):
        require(values, ("input_file", "num_steps"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--input_file=a.txt"], ["input_file is not used without do_train"]),
        (["--input_file=a.txt", "--do_train"], []),
        ([], []),
    ],
)
def test_a_file_that_nothing_is_done_with_is_told(messages, arguments, told):
    tell_unused(Made.from_argv(["program", *arguments]), {"input_file": "do_train"})
    assert messages == told


def test_a_mistake_of_the_user_has_no_traceback(values, capsys):
    def main(argv):
        require(values, ("input_file",))

    values.mark_as_parsed()
    assert run_main(main, ["/somewhere/program.py"]) == 1
    assert capsys.readouterr().err == "program.py: missing: --input_file (--help says what each is for)\n"


def test_a_file_that_cannot_be_made_has_no_traceback_wherever_it_happens(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "folder"
    assert run_main(lambda argv: folder.mkdir(), ["program.py"]) == 1
    assert capsys.readouterr().err == f"program.py: {folder}: Not a directory\n"


@pytest.mark.parametrize(
    ("message", "bug"),
    [
        ("^invalid literal", lambda argv: flags.IntegerParser().convert("seven")),
        ("^row 1 has 2 values", lambda argv: tab_separated(["text"], [["a", "b"]])),
        ("^not enough values", lambda argv: [name for name, _ in argv[1:]]),
    ],
    ids=["of a library", "of a wrong call", "of Python"],
)
def test_every_other_error_is_a_bug_and_keeps_its_traceback(message, bug):
    with pytest.raises(ValueError, match=message):
        run_main(bug, ["program.py", "x"])


def test_an_interrupt_has_no_traceback(capsys):
    def main(argv):
        raise KeyboardInterrupt

    assert run_main(main, ["/somewhere/program.py"]) == 130
    assert capsys.readouterr().err == "program.py: interrupted\n"


def test_sigterm_ends_the_program_after_its_cleanup():
    handler, cleaned = signal.getsignal(signal.SIGTERM), []

    def main(argv):
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            cleaned.append(True)

    with pytest.raises(SystemExit, match="^143$"):
        run_main(main, ["/somewhere/program.py"])
    assert cleaned == [True]
    assert signal.getsignal(signal.SIGTERM) == handler


def test_success_is_status_zero():
    assert run_main(lambda argv: None, ["program.py"]) == 0


def test_texts_may_stand_between_flags(values):
    argv = ["program", "a text", "--num_steps=4", "another", "--", "--input_file=b", "--help"]
    assert parse(values, argv, "", takes_texts=True) == ["a text", "another", "--input_file=b", "--help"]
    assert values.num_steps == 4
    assert values.input_file is None
