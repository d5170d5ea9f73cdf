"""Reads users' JSON; every error is one sentence with the file and, if known, the line."""

import json
import os
import re
import sys
from typing import Any

from bert_keras.storage import paths, text_files

_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
_MAY_BE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path: str | os.PathLike, needed: str = "give a JSON file") -> Any:
    """Reads a JSON file; `needed` is the advice at the end of messages."""
    return parse_json(text_files.read_text(path, needed), paths.name(path), needed)


def parse_json(text: str, name: str, needed: str = "write valid JSON", line: int | None = None) -> Any:
    """Parses JSON and raises ValueError with the name of the file and the line for every defect.

    `line` is the line number if the text is a single line of the file. NaN and Infinity become floats: they are not
    JSON, but many programs write them.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON ({error.msg}, column {error.colno})"
        raise ValueError(f"{name} line {line or error.lineno}: {problem}; {needed}") from None
    except RecursionError:
        place = f"{name} line {line}" if line else name
        raise ValueError(f"{place}: JSON is nested too deeply; {needed}") from None
    except ValueError:
        limit = sys.get_int_max_str_digits()
        start = next(re.finditer(rf"[0-9]{{{limit + 1},}}", text)).start()
        raise ValueError(
            f"{_place(name, line, text, start)}: a number of more than {limit:,} digits; {needed}"
        ) from None
    if _MAY_BE_SURROGATE.search(text):
        half = next((match for match in _ESCAPE.finditer(text) if match[1]), None)
        if half is not None:
            place = _place(name, line, text, half.start())
            raise ValueError(
                f"{place}: {half[0]} is half of a surrogate pair, which is not a character; write the character "
                "itself, or leave it out"
            )
    return value


def _place(name, line, text, start):
    return f"{name} line {line or text.count(chr(10), 0, start) + 1}"
