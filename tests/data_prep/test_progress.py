"""Progress: the lines of the log, and the bars of a terminal."""

import io
import types

import pytest
from rich.console import Console

from bert_keras.cli.progress import Progress, ProgressBar


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, as a list of one number that a test increases."""
    now = [100.0]
    # Not the clock of the process, which a server of other tests reads.
    monkeypatch.setattr("bert_keras.cli.progress.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_a_line_every_ten_seconds(clock, messages):
    progress = Progress()
    progress.start("reading", 3, "bytes")
    progress.advance(3)
    progress.finish()
    assert messages == []  # it took less than ten seconds
    progress.start("building", 4000, "documents")
    for _ in range(2000):
        clock[0] += 1 / 64
        progress.advance()
    progress.finish()
    assert messages == [
        "building: 640 of 4,000 documents (16 %), about 52 s left",
        "building: 1,280 of 4,000 documents (32 %), about 42 s left",
        "building: 1,920 of 4,000 documents (48 %), about 32 s left",
    ]


def test_each_piece_of_work_has_a_bar(clock):
    screen = io.StringIO()
    with ProgressBar(Console(file=screen, force_terminal=True, width=120)) as progress:
        for what in ("reading", "writing"):
            progress.start(what, 1234, "bytes")
            clock[0] += 1
            progress.advance(600)
            progress.finish()
    assert "reading" in screen.getvalue()
    assert "writing" in screen.getvalue()
    assert "1,234 of 1,234 bytes" in screen.getvalue()
