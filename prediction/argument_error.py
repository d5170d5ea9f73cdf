"""Mistakes that another argument would avoid, in the words of Python or of a command line."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

# Arguments whose flags have other names.
_FLAG_NAMES = {"config_file": "bert_config_file"}
# Spells the name of an argument.
_spell = contextvars.ContextVar("_spell", default=str)


class ArgumentError(ValueError):
    """A mistake whose message names arguments, which are flags where a program was called.

    Args:
        write: function that gives the message; it is given a function that spells the name of an argument.
    """

    def __init__(self, write: Callable[[Callable[[str], str]], str]):
        super().__init__(write(_spell.get()))
        self._write = write

    def with_flags(self) -> str:
        """Returns the message with flags instead of arguments: `--max_chars` for `limits.max_chars`."""
        return self._write(_flag)


def _flag(name):
    return f"--{_FLAG_NAMES.get(name, name.rpartition('.')[2])}"


@contextlib.contextmanager
def told_with_flags() -> Iterator[None]:
    """Lets the ArgumentErrors that are made in a block name flags."""
    token = _spell.set(_flag)
    try:
        yield
    finally:
        _spell.reset(token)
