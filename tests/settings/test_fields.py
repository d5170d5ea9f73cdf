"""Flags and values from dataclasses of settings."""

import dataclasses
import pathlib
import re
from typing import Any

import numpy as np
import pytest
from absl import flags

from bert_keras.cli.flags import parse
from bert_keras.mistakes import Mistake
from bert_keras.settings.fields import (
    REQUIRED,
    Settings,
    check_fields,
    checked_arguments,
    free,
    make_flags,
    program_flags,
    read_flags,
    setting,
    setting_fields,
)
from bert_keras.settings.numbers import ListedParser, NumbersParser, SwitchParser


@dataclasses.dataclass(frozen=True)
class Texts:
    text_file: str = setting("Required. A text.", REQUIRED)
    form: str | None = setting("Form of the text.", None, choices=("long", "short"))
    words: tuple[str, ...] = setting("Words of {text_file}.", ("a", "b"))
    seed: int = 7


@dataclasses.dataclass(frozen=True)
class Pace:
    num_steps: int | None = setting("Steps.", None, is_rare=True, lower_bound=1)
    rate: float = setting("Rate.", 0.5)
    is_fast: bool = setting("Hurry. And more.", False)


GROUPS = {"Texts": Texts, "Pace": Pace}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shared:
    title = "Shared"
    num_rows: int = setting("Rows.", 2)
    name: str | None = None
    rates: Any = setting("Rates.", (0.5,), parser=NumbersParser(float, 0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program(Shared):
    title = "Program"
    num_rows: int = free("More rows.", 3)
    name: str | None = free("Name.", None)


def test_flags_have_the_types_defaults_limits_and_help_of_the_fields():
    values = make_flags(GROUPS)
    described = [(flag.name, flag.flag_type(), flag.default) for flag in map(values.__getitem__, sorted(values))]
    assert described == [
        ("form", "string enum", None),
        ("is_fast", "bool", False),
        ("num_steps", "int", None),
        ("rate", "float", 0.5),
        ("text_file", "string", None),
        ("words", "comma separated list of strings", ["a", "b"]),
    ]
    assert values["words"].help == "Words of --text_file."
    for wrong in ("--num_steps=0", "--form=wide"):
        with pytest.raises(Mistake, match=wrong):
            parse(make_flags(GROUPS), ["program", wrong], "")


def test_settings_are_read_from_parsed_flags():
    values = make_flags(GROUPS)
    parse(values, ["program", "--text_file=file:///a", "--words=c,d", "--num_steps=3", "--is_fast"], "")
    assert read_flags(Texts, values) == Texts("/a", None, ("c", "d"))
    assert read_flags(Pace, values) == Pace(3, 0.5, True)


def test_a_flag_that_a_program_lacks_has_its_default():
    values = make_flags(GROUPS)
    values.remove_flag_values(["rate"])
    parse(values, ["program"], "")
    assert read_flags(Pace, values) == Pace()


FULL_HELP = """What it is for.

Files:
  --text_file: Required. A text.

What to do:
  --[no]do_train: Train the model, or resume training.

Texts:
  --form: Form of the text. One of long, short.
  --words (a,b): Words of --text_file. (a comma separated list)

Devices:
  --rate (0.5): Rate. (a number)
  --[no]is_fast: Hurry. And more.
  --num_steps: Steps. (a whole number from 1)

absl.flags:
"""
SHORT_HELP = """What it is for.

Files:
  --text_file: Required. A text.

What to do:
  --[no]do_train: Train the model, or resume training.

Texts:
  --form: Form of the text. One of long, short.
  --words (a,b): Words of --text_file.

Devices:
  --rate (0.5): Rate.
  --[no]is_fast: Hurry.

--helpfull says more, and has other flags: num_steps
"""


def test_help_has_files_and_actions_first_and_the_devices_last(capsys):
    values = make_flags({"Devices": Pace, "Texts": Texts})
    flags.DEFINE_bool("do_train", False, "Train the model, or resume training.", values, "Pace")
    for name, shown in (("--help", SHORT_HELP), ("--helpfull", FULL_HELP)):
        with pytest.raises(SystemExit, match="^0$"):
            parse(values, ["program", name], "What it is for.")
        found, *of_absl = capsys.readouterr().out.partition("  --flagfile")
        assert found == shown
        assert bool(of_absl[0]) == (name == "--helpfull")


def test_a_program_has_the_flags_of_its_groups_with_its_own_defaults_first():
    values = program_flags(Program)
    groups = {title: [flag.name for flag in flags] for title, flags in values.flags_by_module_dict().items()}
    assert groups == {"Program": ["num_rows", "name"], "Shared": ["rates"]}
    parse(values, ["program", "--rates=1,2"], "")
    assert read_flags(Program, values) == Program(num_rows=3, name=None, rates=(1.0, 2.0))
    assert [field.name for field in setting_fields(Program) if field.metadata["is_free"]] == ["num_rows", "name"]
    assert sorted(program_flags(Shared)) == ["num_rows", "rates"]


def test_values_of_python_are_those_of_flags():
    pace = Pace(num_steps="5", rate=np.float64(2), is_fast="false")
    check_fields(pace)
    assert [pace.num_steps, pace.rate, pace.is_fast] == [5, 2.0, False]
    check_fields(Texts("a", "short"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Texts("a", "wide"), "form=wide: 'wide' is not one of long, short"),
        (Texts(5), "text_file=5 does not fit; needed: a text"),
        (Pace(num_steps=0), "num_steps=0: 0 is not a whole number from 1"),
        (Pace(num_steps=2.5), "num_steps=2.5 does not fit; needed: a whole number from 1"),
        (Pace(rate=None), "rate=None does not fit; needed: a number"),
        (Pace(is_fast="of course"), "is_fast=of course: 'of course' is not true or false"),
    ],
)
def test_a_value_of_python_that_its_flag_would_refuse_is_refused(wrong, message):
    with pytest.raises(Mistake, match=f"^{message}$"):
        check_fields(wrong)


@dataclasses.dataclass(frozen=True)
class Switches:
    jit: Any = setting("Compile.", "auto", parser=SwitchParser(), boolean=True)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("--jit", True), ("--nojit", False), ("--jit=auto", "auto"), ("--jit=true", True), ("--jit=False", False)),
        ("--jit=1", True),
    ],
)
def test_a_switch_has_three_values_and_keeps_the_forms_of_a_boolean_flag(argument, value):
    values = make_flags({"Switches": Switches})
    assert values["jit"].default == "auto"
    assert values["jit"].default_as_str == "'auto'"
    parse(values, ["program", argument], "")
    assert read_flags(Switches, values).jit == value
    assert checked_arguments([Switches], "train", {"jit": value}) == {"jit": value}


def test_a_switch_refuses_other_values():
    with pytest.raises(Mistake, match=r"flag --jit=maybe: 'maybe' is not true, false or auto"):
        parse(make_flags({"Switches": Switches}), ["program", "--jit=maybe"], "")
    with pytest.raises(Mistake, match=r"^jit=maybe: 'maybe' is not true, false or auto$"):
        checked_arguments([Switches], "train", {"jit": "maybe"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Called(Settings):
    title = "Called"
    num_rows: int = setting("Rows.", 2, lower_bound=1)
    share: float = setting("Share.", 0.5, lower_bound=0.0)
    rates: Any = setting("Rates.", (0.5,), parser=NumbersParser(float, 0))
    sizes: Any = setting("Sizes.", (8,), parser=NumbersParser(int, 1))
    is_fast: bool = setting("Hurry. And more.", False)
    names: tuple[str, ...] = setting("Names.", ())
    column: str | None = setting("Column.", None, parser=ListedParser())
    form: str | None = setting("Form.", None, choices=("long", "short"))
    text_file: str | None = setting("File.", None)
    separator: str | None = setting("Between.", None)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"num_rows": np.int64(3), "share": np.float64(0.25)}, {"num_rows": 3, "share": 0.25}),
        ({"rates": np.array([0.5, 0.25]), "sizes": range(1, 3)}, {"rates": (0.5, 0.25), "sizes": (1, 2)}),
        ({"rates": 1, "sizes": "4,8"}, {"rates": (1.0,), "sizes": (4, 8)}),
        ({"is_fast": np.bool_(True), "share": 1}, {"is_fast": True, "share": 1.0}),
        ({"names": ["a,b", "c"]}, {"names": ("a,b", "c")}),
        ({"names": (name for name in "xy")}, {"names": ("x", "y")}),
        ({"column": 0}, {"column": "0"}),
        ({"column": ["Subject", "Body, text"]}, {"column": 'Subject,"Body, text"'}),
        ({"text_file": pathlib.Path("/a/b"), "form": "long"}, {"text_file": "/a/b", "form": "long"}),
        ({"separator": "\n"}, {"separator": "\n"}),
    ],
)
def test_values_of_python_are_checked_and_kept(given, kept):
    settings = Called.from_arguments("train", given)
    assert {name: getattr(settings, name) for name in kept} == kept
    assert settings.given == kept.keys()
    assert all(type(getattr(settings, name)) is type(value) for name, value in kept.items())
    if "names" not in kept or "a,b" not in kept["names"]:
        assert settings == Called(**kept)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_rows": 2.0}, "num_rows=2.0 does not fit; needed: a whole number from 1"),
        ({"num_rows": b"7"}, "num_rows=b'7' does not fit; needed: a whole number from 1"),
        ({"num_rows": [7]}, "num_rows=[7] does not fit; needed: a whole number from 1"),
        ({"num_rows": True}, "num_rows=True does not fit; needed: a whole number from 1"),
        ({"num_rows": 0}, "num_rows=0: 0 is not a whole number from 1"),
        ({"num_rows": "7a"}, "num_rows=7a: '7a' is not a whole number"),
        ({"share": "nan"}, "share=nan: 'nan' is not a number"),
        ({"share": True}, "share=True does not fit; needed: a number from 0"),
        ({"rates": True}, "rates=True: True is not a number"),
        ({"rates": {0.5: 1}}, "rates={0.5: 1}: {0.5: 1} is not a number"),
        ({"sizes": [4, 4.5]}, "sizes=4, 4.5: 4.5 is not a whole number"),
        ({"is_fast": "yes"}, "is_fast=yes: 'yes' is not true or false"),
        ({"is_fast": []}, "is_fast=[] does not fit; needed: true or false"),
        ({"names": {"a"}}, "names={'a'} does not fit; needed: a comma separated list"),
        ({"names": ["a", None]}, "names=['a', None] does not fit; needed: a comma separated list"),
        ({"column": {"a": 1}}, "column={'a': 1} does not fit; needed: a text"),
        ({"column": [True]}, "column=[True] does not fit; needed: a text"),
        ({"text_file": 5}, "text_file=5 does not fit; needed: a text"),
        ({"form": 3}, "form=3: 3 is not one of long, short"),
    ],
)
def test_values_of_other_types_are_refused(given, message):
    with pytest.raises(Mistake) as error:
        Called.from_arguments("train", given)
    assert str(error.value) == message


def test_stored_values_count_where_none_is_given():
    settings = Called.from_argv(["run", "--num_rows=3"])
    stored = settings.over({"num_rows": 4, "rates": [0.1, 0.2], "names": ["a"], "form": None, "column": "b"}, "c.json")
    assert stored == Called(num_rows=3, rates=(0.1, 0.2), names=("a",), column="b")
    assert stored.given == {"num_rows"}
    for wrong, message in (
        ({"wings": 2}, "c.json has an unknown setting 'wings'; take it out"),
        ({"share": None}, "c.json has None for 'share': "),
        ({"rates": "fast"}, "c.json has 'fast' for 'rates': 'fast' is not a number"),
        ({"sizes": None}, "c.json has None for 'sizes': "),
        ({"form": "wide"}, "c.json has 'wide' for 'form': 'wide' is not one of long, short"),
        ({"sizes": [1.5]}, "c.json has [1.5] for 'sizes': 1.5 is not a whole number"),
    ):
        with pytest.raises(Mistake, match=re.escape(message)):
            settings.over(wrong, "c.json")


def test_an_unknown_argument_is_a_type_error_with_the_name_that_is_meant():
    with pytest.raises(TypeError, match=r'^train\(\) has no setting "num_row"; did you mean "num_rows"\?$'):
        Called.from_arguments("train", {"num_row": 2})
    with pytest.raises(TypeError, match=r'^train\(\) has no setting "given"; '):
        Called.from_arguments("train", {"given": {"num_rows"}})
