"""The lines of text that vectors are asked for, as the release reads them. Imports without TensorFlow."""

import codecs
import os
from collections.abc import Iterator

from bert_keras.storage import paths

SEPARATOR = " ||| "


def count_lines(path: str | os.PathLike) -> int:
    """Reads a file through, so that a mistake in its last line is told before any work is done.

    Returns:
        How many lines it has.

    Raises:
        FileNotFoundError: it is no file.
        ValueError: it is empty, or a line is not UTF-8.
    """
    if not paths.is_file(path):
        raise FileNotFoundError(f"{path} is not a file; give a text file, one text a line")
    number = 0
    with paths.open_file(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path} line {number}: not UTF-8 (byte 0x{line[error.start]:02x}); save it as UTF-8"
                ) from None
    if not number:
        raise ValueError(f"{path} is empty; give one text a line")
    return number


def read_lines(path: str | os.PathLike) -> Iterator[str | tuple[str, str]]:
    """Yields each line of a file as `split_line` gives it; blank lines too, as empty texts."""
    with paths.open_file(path) as file:
        for number, line in enumerate(file):
            yield split_line((line if number else line.removeprefix(codecs.BOM_UTF8)).decode("utf-8"))


def split_line(line: str) -> str | tuple[str, str]:
    """Returns the text of a line, or the two of a pair: the last " ||| " in it separates them, as in the release."""
    text_a, separator, text_b = line.strip().rpartition(SEPARATOR)
    return (text_a, text_b) if separator else text_b
