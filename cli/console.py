"""The screen, and the project's log lines on it."""

import logging

import rich.console

log = logging.getLogger("bert_keras")


class LogHandler(logging.Handler):
    """Writes log lines to a rich console, above a progress display where there is one.

    Args:
        console: a `rich.console.Console`.
    """

    def __init__(self, console):
        super().__init__()
        self._console = console

    def emit(self, record):
        """Prints one line; warnings are marked as such."""
        mark = "warning: " if record.levelno >= logging.WARNING else ""
        self._console.print(mark + record.getMessage(), markup=False, highlight=False, soft_wrap=True)


def open_console(stderr=False):
    """Returns a `rich.console.Console`, to which the project's log lines go from now on.

    Args:
        stderr: bool; whether it is on standard error, for programs whose standard output is the answer.
    """
    console = rich.console.Console(stderr=stderr)
    log.setLevel(logging.INFO)
    log.propagate = False
    log.handlers = [LogHandler(console)]
    return console
