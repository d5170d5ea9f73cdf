"""Reads the input lines of extract_features.py as the original BERT does. Imports without TensorFlow."""

import codecs
import os
from collections.abc import Iterator

from bert_keras.storage import paths

SEPARATOR = " ||| "


def count_lines(path: str | os.PathLike) -> int:
    """Returns the number of lines in a file. Reads the whole file to find invalid lines before other work begins.

    Raises:
        FileNotFoundError: the path is not a file.
        ValueError: the file is empty, or a line is not UTF-8.
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
    """Yields each line of a file as `split_line` returns it; blank lines are empty texts."""
    with paths.open_file(path) as file:
        for number, line in enumerate(file):
            yield split_line((line if number else line.removeprefix(codecs.BOM_UTF8)).decode("utf-8"))


def split_line(line: str) -> str | tuple[str, str]:
    """Returns the text of a line, or two texts separated by its last " ||| ", as in the original BERT."""
    text_a, separator, text_b = line.strip().rpartition(SEPARATOR)
    return (text_a, text_b) if separator else text_b
