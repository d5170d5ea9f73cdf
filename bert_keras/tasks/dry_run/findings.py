"""The findings of a look at files: how they are read, what they hold, and all mistakes."""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

from bert_keras.mistakes import Message, Mistake
from bert_keras.storage import paths
from bert_keras.tasks.tables.tables import keeping_bad_rows, without_bad_rows

log = logging.getLogger("bert_keras")

_BAD_ROWS_SHOWN = 3

# A name and a text of one line of the report.
Fact = tuple[str, str | Message]


@dataclasses.dataclass
class Findings:
    """What a look at one file, or at all together, finds.

    Attributes:
        path: of the file; empty for all files together.
        setting: the name of the setting that names the file.
        facts: the lines of the report.
        problems: the mistakes that end a run.
    """

    path: str = ""
    setting: str = ""
    facts: list[Fact] = dataclasses.field(default_factory=list)
    problems: list[Mistake | OSError] = dataclasses.field(default_factory=list)

    def add(self, name: str, text: str | Message) -> None:
        self.facts.append((name, text))

    @contextlib.contextmanager
    def reading(self, skips_bad_rows: bool | None = None) -> Iterator[None]:
        """Keeps what readers in the block log, the bad rows that they meet, and the mistake that ends it.

        `skips_bad_rows` is the setting, or None for programs without it.
        """
        with keeping_log() as records, keeping_bad_rows() as bad, self.catching():
            yield
        self.facts += [self._fact(record) for record in records]
        if not bad:
            return
        if not skips_bad_rows:
            # The mistake of the run takes the place of one about what is left of the file.
            self.problems.clear()
            with self.catching():
                without_bad_rows(paths.name(self.path), bad, skips_bad_rows)
        self.add("bad rows", f"{len(bad):,}, which are left out" if skips_bad_rows else f"{len(bad):,}")
        self.facts += [("", row.error.message) for row in bad[:_BAD_ROWS_SHOWN]]

    @contextlib.contextmanager
    def catching(self) -> Iterator[None]:
        """Keeps a mistake that ends the block."""
        try:
            yield
        except (Mistake, OSError) as error:
            self.problems.append(error)

    def _fact(self, record: logging.LogRecord) -> Fact:
        name = "warning" if record.levelno >= logging.WARNING else "read as" if self.path else "the run"
        return name, record.msg if isinstance(record.msg, Message) else record.getMessage()


@contextlib.contextmanager
def keeping_log() -> Iterator[list[logging.LogRecord]]:
    """Keeps the project's log lines of the block in a list, and shows none."""
    records: list[logging.LogRecord] = []
    handler: Any = logging.Handler()
    handler.emit = records.append
    before = log.handlers[:], log.propagate, log.level
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.DEBUG)  # a look also shows what is as usual
    try:
        yield records
    finally:
        log.handlers, log.propagate = before[:2]
        log.setLevel(before[2])
