"""The console, with the project's log lines."""

import logging
from collections.abc import Callable

import rich.console

log = logging.getLogger("bert_keras")


class LogHandler(logging.Handler):
    """Writes log lines to a rich console, above its progress display if there is one; `translate` changes a line."""

    def __init__(self, console, translate: Callable[[str], str] = str):
        super().__init__()
        self._console = console
        self._translate = translate

    def emit(self, record):
        mark = "warning: " if record.levelno >= logging.WARNING else ""
        self._console.print(mark + self._translate(record.getMessage()), markup=False, highlight=False, soft_wrap=True)


def open_console(stderr=False):
    """Returns a `rich.console.Console`, and sends the project's log lines to it.

    Programs whose standard output is their result use `stderr`.
    """
    console = rich.console.Console(stderr=stderr)
    log.setLevel(logging.INFO)
    log.propagate = False
    log.handlers = [LogHandler(console)]
    return console
