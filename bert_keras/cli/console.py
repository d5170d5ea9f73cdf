"""The console, with the project's log lines."""

import contextlib
import logging
import os
import sys
from typing import IO, Any, cast

import rich.console

from bert_keras.cli.program_names import as_started
from bert_keras.mistakes import Message, Spelling, flag_name

log = logging.getLogger("bert_keras")


class LogHandler(logging.Handler):
    """Writes log lines to a rich console, above its progress display if there is one."""

    def __init__(self, console: rich.console.Console, spelling: Spelling) -> None:
        super().__init__()
        self._console = console
        self._spelling = spelling

    def emit(self, record: logging.LogRecord) -> None:
        mark = "warning: " if record.levelno >= logging.WARNING else ""
        text = record.msg.spelled(self._spelling) if isinstance(record.msg, Message) else record.getMessage()
        self._console.print(mark + as_started(text), markup=False, highlight=False, soft_wrap=True)


class Messages:
    """Standard output or error as a file for messages, which never fails: a message is worth less than the work.

    After the first failure, such as a full disk or a closed pipe, the stream of a program leads nowhere. `name` is
    "stdout" or "stderr"; each use reads the stream again. Characters that it lacks are escaped.
    """

    def __init__(self, name: str, is_of_program: bool = True) -> None:
        self._name = name
        self._is_of_program = is_of_program

    @property
    def _stream(self) -> Any:
        stream = getattr(sys, self._name)
        # While rich shows progress, the stream is a proxy that would come back here.
        return getattr(stream, "rich_proxied_file", stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._attempt("write", text)
        except UnicodeEncodeError as error:
            self._attempt("write", text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        return len(text)

    def flush(self) -> None:
        self._attempt("flush")

    def _attempt(self, function: str, *arguments: str) -> None:
        try:
            getattr(self._stream, function)(*arguments)
        except UnicodeEncodeError:
            raise
        except (OSError, ValueError):  # ValueError: the stream is closed
            if self._is_of_program:
                drop_output(self._stream)


def drop_output(stream: Any) -> None:
    """Makes a standard stream lead nowhere; what it still holds would fail again when Python exits."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def open_console(stderr: bool = False) -> rich.console.Console:
    """Returns a console, and sends the project's log lines to it.

    Programs whose standard output is their result use `stderr`.
    """
    console = rich.console.Console(file=cast(IO[str], Messages("stderr" if stderr else "stdout")))
    log.setLevel(logging.INFO)
    log.propagate = False
    log.handlers = [LogHandler(console, flag_name)]
    return console
