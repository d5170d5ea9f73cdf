"""Lines of text files, as the release reads them, with an account of what is dropped on the way."""

import dataclasses
import logging
from collections.abc import Iterator, Sequence

log = logging.getLogger("bert_keras")


@dataclasses.dataclass
class Dropped:
    """What was dropped from text, in numbers and with the place where it first was, as "FILE line NUMBER"."""

    num_invalid_lines: int = 0
    num_invalid_bytes: int = 0
    num_returns: int = 0
    first_invalid: str = ""
    first_return: str = ""

    def add(self, later: "Dropped") -> None:
        """Adds what was dropped from text that follows."""
        self.num_invalid_lines += later.num_invalid_lines
        self.num_invalid_bytes += later.num_invalid_bytes
        self.num_returns += later.num_returns
        self.first_invalid = self.first_invalid or later.first_invalid
        self.first_return = self.first_return or later.first_return


def read_lines(
    file: str, dropped: Dropped, strict_utf8: bool = False, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, str]]:
    """Reads lines of text as the release does.

    Args:
        file: a path.
        dropped: is told what is dropped.
        strict_utf8: refuses text that is not UTF-8.
        start, end: read only the lines that begin at these bytes or between them; None: up to the last.

    Yields:
        The size in bytes and the stripped text of each line.

    Raises:
        ValueError: text that is not UTF-8, with `strict_utf8`, naming file and line.
    """
    with open(file, "rb") as content:
        if start:
            content.seek(start - 1)
            content.readline()  # the rest of a line that begins before
        place = _Place(file, content.tell())
        for line in content:
            if end is not None and place.offset >= end:
                return
            size = len(line)
            if b"\r" in line:
                line = _drop_returns(line, place, dropped)
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                text = _drop_invalid(line, place, dropped, error.start, strict_utf8)
            yield size, text.strip()
            place.offset += size


def warn_about_text(dropped: Dropped, continuing: Sequence[tuple[str, str]]) -> None:
    """Writes to the log what was dropped, and which files end within a document that goes on in the next one."""
    if dropped.num_invalid_lines:
        log.warning(
            "%s: not valid UTF-8; dropped %d bytes in %d lines, as the release does (--strict_utf8 refuses them)",
            dropped.first_invalid,
            dropped.num_invalid_bytes,
            dropped.num_invalid_lines,
        )
    if dropped.num_returns:
        log.warning(
            "%s: a carriage return inside the line is dropped and joins the words beside it, as in the release "
            "(%d such lines); end lines with a line feed",
            dropped.first_return,
            dropped.num_returns,
        )
    if continuing:
        log.warning(
            "%s ends without a blank line, so its last document continues in %s, as in the release%s",
            *continuing[0],
            f"; {len(continuing) - 1} more files end so" if len(continuing) > 1 else "",
        )


@dataclasses.dataclass
class _Place:
    """A line by the byte that it begins at; its number is only counted where somebody asks."""

    file: str
    offset: int

    def __str__(self) -> str:
        with open(self.file, "rb") as content:
            blocks = iter(lambda: content.read(min(1 << 20, self.offset - content.tell())), b"")
            return f"{self.file} line {1 + sum(block.count(10) for block in blocks)}"


def _drop_returns(line: bytes, place: _Place, dropped: Dropped) -> bytes:
    # The release's file layer removes them wherever they stand, not only at the end of a line.
    if b"\r" in line.rstrip(b"\r\n"):
        dropped.first_return = dropped.first_return or str(place)
        dropped.num_returns += 1
    return line.replace(b"\r", b"")


def _drop_invalid(line: bytes, place: _Place, dropped: Dropped, start: int, strict_utf8: bool) -> str:
    if strict_utf8:
        raise ValueError(
            f"{place}: byte 0x{line[start]:02x} is not valid UTF-8; convert the file to UTF-8, "
            "or leave out --strict_utf8 to drop such bytes"
        ) from None
    text = line.decode("utf-8", "ignore")
    dropped.first_invalid = dropped.first_invalid or str(place)
    dropped.num_invalid_lines += 1
    dropped.num_invalid_bytes += len(line) - len(text.encode("utf-8"))
    return text
