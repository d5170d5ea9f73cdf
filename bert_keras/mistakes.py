"""Errors and log lines that name settings, without knowing how the user spells them.

The same setting is `--train_file` on a command line, `train_data` in Python, and a field of JSON over HTTP. The code
raises a `Mistake` with the setting's name, and each of these three edges spells it.
"""

import collections
import difflib
import shlex
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

# Returns the user's name of a setting.
Spelling = Callable[[str], str]
# Arguments of the predictors that have another name elsewhere.
_ARGUMENTS = {"config_file": "bert_config_file"}


def setting_name(setting: str) -> str:
    """Returns the name of a setting for the caller of a function that does what a program does."""
    return _ARGUMENTS.get(setting, setting)


def flag_name(setting: str) -> str:
    """Returns the name of a setting for the user of a program."""
    return "--" + setting_name(setting)


class Setting(str):
    """The name of a setting as a value of a message."""


class Given(dict[str, str]):
    """Settings with values, to be copied: flags for a shell, or arguments for Python."""

    def spelled(self, spelling: Spelling) -> str:
        """Returns the settings with their values, in the language of the names that `spelling` returns."""
        values = {spelling(name): value for name, value in self.items()}
        if any(name.startswith("--") for name in values):
            return " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())
        return ", ".join(f"{name}={value!r}" for name, value in values.items())


class Message:
    """A text that names settings, and its values.

    `Message("{eval_share}={} is not a share; give less than 1", 2)`: a name in braces is the name of a setting, and
    `{}` is the place of the next value. A value may be a `Setting`, `Given`, another `Message`, a `Mistake`, or a list
    of values, which appear with commas between them; `{!r}` and `{!s}` show a value as Python does.
    """

    def __init__(self, text: str, /, *values: Any) -> None:
        self.text = text
        self.values = values

    def spelled(self, spelling: Spelling) -> str:
        """Returns the text with names of settings as `spelling` returns them."""
        return _Formatter(spelling).format(self.text, *self.values)

    def __str__(self) -> str:
        return self.spelled(str)


class Remedy(Message):
    """A part of a message that only helps users who can change its settings; an edge without one spells it ""."""

    def spelled(self, spelling: Spelling) -> str:
        names = [name for _, name, _, _ in string.Formatter().parse(self.text) if name and not name.isdecimal()]
        return super().spelled(spelling) if all(map(spelling, names)) else ""


class Mistake(ValueError):  # noqa: N818
    """A mistake of the user, in one sentence: what was found, what is needed and what to do.

    It takes a `Message` or its arguments. Without an edge that spells them, settings have their plain names.
    """

    def __init__(self, text: str | Message, /, *values: Any) -> None:
        self.message = text if isinstance(text, Message) else Message(text, *values)
        super().__init__(str(self.message))

    def __reduce__(self) -> tuple:
        return type(self), (self.message,)

    def spell(self, spelling: Spelling) -> None:
        """Changes the text to one with names of settings as `spelling` returns them."""
        self.args = (self.message.spelled(spelling),)

    def __str__(self) -> str:
        return self.args[0]


class NotFinite(Mistake):  # noqa: N818
    """A network computes numbers that are not finite: its training diverged, or its weights are broken."""


class MissingFile(Mistake, FileNotFoundError):  # noqa: N818
    """A file or folder that a setting names does not exist."""


class SystemFailure(Mistake, OSError):  # noqa: N818
    """The system does not do what a setting needs: a disk is full, a process died, a server cannot be reached."""


def closest(name: str, known: Iterable[str], share: float = 0.6) -> str | None:
    """Returns the known name that a user probably means, or None; capitals and width of letters do not matter.

    `share` is the least share of equal letters, for `difflib.get_close_matches`; 1: all.
    """
    folded = {unicodedata.normalize("NFKC", other).casefold(): other for other in known}
    close = difflib.get_close_matches(unicodedata.normalize("NFKC", name).casefold(), [*folded], 1, share)
    return folded[close[0]] if close else None


def some_of(names: Sequence[str], num_shown: int, separator: str = ", ", kind: str = "") -> str:
    """Returns the first names for a message, and the number of the others, such as "a, b and 3 more"."""
    num_others = len(names) - num_shown
    rest = f"{separator.strip(', ')} and {num_others:,} more{kind}" if num_others > 0 else ""
    return separator.join(names[:num_shown]) + rest


def shortened(text: str, length: int = 40) -> str:
    """Returns a text for a message, or the beginning of a longer one."""
    return text if len(text) <= length else f"{text[:length]}..."


def several(number: int, things: str) -> str:
    """Returns a number of things, given their plural, such as "1 query" or "2,917 queries"."""
    if number == 1:
        things = f"{things[:-3]}y" if things.endswith("ies") else things.removesuffix("s")
    return f"{number:,} {things}"


def check_names(names: Sequence[str], place: str) -> None:
    """Refuses empty and repeated names of classes, which would lose probabilities; `place` begins the message."""
    repeated = sorted(name for name, count in collections.Counter(names).items() if count > 1)
    if repeated or not all(name.strip() for name in names):
        found = f"{', '.join(repeated)} more than once" if repeated else "an empty name"
        raise Mistake("{} has {}; give each class its own name", place, found)


class _Formatter(string.Formatter):
    """Fills a text with names of settings, and with values that may name settings, too."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self._spelling(key) if isinstance(key, str) else args[key]

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return super().convert_field(value, conversion) if conversion else _in_text(value, self._spelling)


def _in_text(value: Any, spelling: Spelling) -> Any:
    """Returns a value of a message with the settings that it names."""
    if isinstance(value, Setting):
        return spelling(str(value))
    if isinstance(value, Mistake):
        value = value.message
    if isinstance(value, Message | Given):
        return value.spelled(spelling)
    if isinstance(value, list | tuple):
        return ", ".join(str(_in_text(part, spelling)) for part in value)
    return value
