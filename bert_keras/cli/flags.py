"""Code that the command lines share: flags, parsing and messages about the user's mistakes.

Every entry point has its own `FlagValues`, so that one process (a notebook, the tests) can import several of them.
"""

import contextlib
import itertools
import logging
import os
import pathlib
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, cast

from absl import flags

from bert_keras.cli.console import Messages, drop_output
from bert_keras.cli.help import help_of, is_path
from bert_keras.cli.other_names import name_here, names_like
from bert_keras.cli.program_names import as_started
from bert_keras.cli.start import open_streams, start_for_addresses
from bert_keras.mistakes import Message, Mistake, Setting, flag_name
from bert_keras.storage import paths
from bert_keras.storage.writing import FULL

log = logging.getLogger("bert_keras")


def parse(
    flag_values: flags.FlagValues, argv: Sequence[str], usage: str | None, takes_texts: bool = False
) -> list[str]:
    """Parses a command line, and returns the arguments that are not flags; prints `usage` and the flags for --help.

    `takes_texts` allows texts mixed with flags; all arguments after `--` are texts. Raises ValueError for an unknown
    flag, a value that does not fit its flag, or a text that the program does not take.
    """
    before_texts = itertools.takewhile(lambda argument: argument != "--", argv[1:])
    if wanted := {"-h", "--help", "-help", "--helpfull", "--helpshort"}.intersection(before_texts):
        # python -OO drops docstrings, so `usage` may be None.
        print(f"{as_started(usage or '').strip()}\n{help_of(flag_values, '--helpfull' in wanted)}")
        raise SystemExit(0)
    command = re.search(r"^ {4}((?:.*\\\n)*.*)$", as_started(usage or ""), re.MULTILINE)
    example = command and re.sub(r"\\\n *", "", command[1])
    flag_values.set_gnu_getopt(takes_texts)
    for flag in (flag_values[name] for name in flag_values):
        flag.parser = in_plain_words(flag.parser)
    try:
        leftover = flag_values(argv)[1:]
    except flags.UnrecognizedFlagError as error:
        if here := name_here(error.flagname, flag_values):
            name, _, value = here.partition("=")
            equivalent = Message("{}={}", Setting(name), value) if value else Setting(name)
            advice = Message("; here it is {}", equivalent)
        elif "output" in error.flagname and "standard output" in (usage or ""):
            advice = "; results go to standard output, so end the command with > FILE"
        else:
            near = [Setting(name) for name in names_like(error.flagname, [*flag_values])]
            advice = Message("; the nearest: {}", near) if near else ""
            if takes_texts and example and not near:
                advice = Message("; an example: {}", example)
        raise Mistake("there is no flag --{}{} ({helpfull} lists all flags)", error.flagname, advice) from None
    except flags.Error as error:
        raise Mistake("{} ({helpfull} lists all flags)", error) from error
    for flag in (flag_values[name] for name in flag_values if is_path(name)):
        if isinstance(flag.value, str):
            flag.value = local_paths(flag.value, flag.name)
    if leftover and not takes_texts:
        raise Mistake(
            '"{}" is not a flag; every argument has the form {name}=value{} ({helpfull} lists all flags)',
            leftover[0],
            Message(", as in: {}", example) if example else "",
        )
    return leftover


def local_paths(path: str, name: str) -> str:
    """Makes paths of addresses such as file:///folder/file, and replaces the ~ of a home folder.

    A shell does not replace ~ after --flag=. `path` may hold several paths between commas. `name` is that of the flag
    or argument, for the message.
    """
    parts = [os.path.expanduser(paths.local(part)) for part in path.split(",")]
    for part in parts:
        paths.check_address(part)
        if part.startswith("~"):
            raise Mistake(
                "{0}={1} begins with ~, but there is no such user; give ./{1} for that name", Setting(name), part
            )
    return ",".join(parts)


def given_flags(flag_values: flags.FlagValues) -> set[str]:
    """Returns the names of the flags that the command line gave."""
    return {name for name in flag_values if flag_values[name].present}


def require(settings: Any, names: Iterable[str]) -> None:
    """Raises a `Mistake` if settings, or flags, have no value; the message names all of them."""
    missing = [Setting(name) for name in names if getattr(settings, name) in (None, "")]
    if missing:
        raise Mistake("missing: {} ({help} says what each is for)", missing)


def tell_unused(settings: Any, actions: Mapping[str, str]) -> None:
    """Logs the files that a command gives without the setting that uses the file.

    `actions` has the name of the setting that uses a file by the name of the file's setting.
    """
    held = {"train_file"} if getattr(settings, "holds_out", False) and settings.do_eval else set()
    for name in sorted(settings.given & set(actions) - held):
        if not getattr(settings, actions[name]):
            log.info(Message("{} is not used without {}", Setting(name), Setting(actions[name])))


@contextlib.contextmanager
def ending_at_sigterm() -> Iterator[None]:
    """Makes SIGTERM exit with status 143, so that unfinished files are removed; training saves its step first."""
    previous = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous or signal.SIG_DFL)


def run_main(main: Callable[[list[str]], object], argv: list[str]) -> int:
    """Runs an entry point and turns the user's mistakes into one sentence on standard error.

    A `Mistake` is a message for the user, and so is an OSError (a missing file, a full disk). Every other exception is
    a bug and keeps its traceback. Returns the exit status: 0, 1 after a mistake or if standard output cannot be
    written, 130 after Ctrl-C, 141 if the reader of a pipe has closed it. SIGTERM ends the program with 143.
    """
    open_streams()
    status, message = 0, ""
    try:
        with ending_at_sigterm():
            main(argv)
    except KeyboardInterrupt:
        status, message = 130, "interrupted"
    except BrokenPipeError:  # a closed pipe (`| head`) is not a mistake
        status = 141
    except (Mistake, OSError) as error:
        if isinstance(error, Mistake):
            error.spell(flag_name)
        status, message = 1, str(error)
        if isinstance(error, OSError) and error.errno in FULL and error.filename:
            message = f"{error.filename} cannot be written ({error.strerror}); make room there"
        elif isinstance(error, OSError) and error.strerror and message.startswith("[Errno"):
            message = ": ".join(str(part) for part in (error.filename, error.strerror) if part)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = status or 141
        drop_output(sys.stdout)
    except OSError as error:
        status, message = 1, f"standard output cannot be written ({error.strerror}); the output is not complete"
        drop_output(sys.stdout)
    if message:
        print(f"{pathlib.Path(argv[0]).name}: {as_started(message)}", file=Messages("stderr"))
        Messages("stderr").flush()
    return status


def as_program(main: Callable[[list[str]], object], writes_texts: bool = False) -> NoReturn:
    """Runs an entry point from the command line; `writes_texts`: standard output is UTF-8 whatever the system does."""
    if writes_texts:
        open_streams()  # it may be closed
        cast(Any, sys.stdout).reconfigure(encoding="utf-8")
    start_for_addresses()
    sys.exit(run_main(main, sys.argv))


def programs_dir() -> str:
    """Returns the folder of the programs, if one of them runs; else "", as for a user in their folder."""
    folder, program = os.path.split(sys.argv[0])
    return folder if program.startswith("run_") else ""


class _InPlainWords:
    """A parser of numbers whose messages are in the words of the project, not those of absl."""

    number: str

    def __init__(self, lower_bound: float | None = None, upper_bound: float | None = None) -> None:
        super().__init__(lower_bound, upper_bound)  # pyright: ignore[reportCallIssue] (of absl's parser)
        lowest = "" if lower_bound is None else f" from {lower_bound:g}"
        highest = "" if upper_bound is None else f" to {upper_bound:,}".removesuffix(".0")
        self.syntactic_help = f"{self.number}{lowest}{highest}"

    def convert(self, argument: Any) -> Any:
        try:
            value = super().convert(argument)  # pyright: ignore[reportAttributeAccessIssue]
        except ValueError:
            value = None
        if value is None or value != value:
            raise Mistake("{!r} is not {}", argument, self.number)
        return value


class WholeParser(_InPlainWords, flags.IntegerParser):
    """Parses a whole number."""

    number = "a whole number"


class RealParser(_InPlainWords, flags.FloatParser):
    """Parses a number, which is never NaN."""

    number = "a number"


class TruthParser(flags.BooleanParser):
    """Parses true or false."""

    def parse(self, argument: str | int) -> bool:
        try:
            return super().parse(argument)
        except ValueError:
            raise Mistake("{!r} is not true or false", argument) from None


class ChoiceParser(flags.EnumParser):
    """Parses one of several texts."""

    def parse(self, argument: str) -> str:
        try:
            return super().parse(argument)
        except ValueError:
            raise Mistake("{!r} is not one of {}", argument, self.enum_values) from None


def in_plain_words(parser: Any) -> Any:
    """Returns one of these parsers for one of absl's; any other parser stays."""
    if type(parser) is flags.IntegerParser:
        return WholeParser(parser.lower_bound, parser.upper_bound)
    if type(parser) is flags.FloatParser:
        return RealParser(parser.lower_bound, parser.upper_bound)
    if type(parser) is flags.EnumParser:
        return ChoiceParser(parser.enum_values, parser.case_sensitive)
    return TruthParser() if type(parser) is flags.BooleanParser else parser
