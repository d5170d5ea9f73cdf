"""Errors about arguments, spelled as Python arguments or as command-line flags."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

# Arguments whose flags have different names.
_FLAG_NAMES = {"config_file": "bert_config_file"}
# Function that spells the name of an argument.
_spell = contextvars.ContextVar("_spell", default=str)


class ArgumentError(ValueError):
    """An error whose message names arguments, or flags if a program was called.

    Args:
        write: function that returns the message. Its argument is a function that spells the name of an argument.
    """

    def __init__(self, write: Callable[[Callable[[str], str]], str]):
        super().__init__(write(_spell.get()))
        self._write = write

    def with_flags(self) -> str:
        """Returns the message with flags instead of arguments, such as `--max_chars` for `limits.max_chars`."""
        return self._write(_flag)


def _flag(name):
    return f"--{_FLAG_NAMES.get(name, name.rpartition('.')[2])}"


@contextlib.contextmanager
def told_with_flags() -> Iterator[None]:
    """Makes ArgumentErrors created in the block name flags."""
    token = _spell.set(_flag)
    try:
        yield
    finally:
        _spell.reset(token)
