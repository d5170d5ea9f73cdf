"""Reads users' JSON; every error is one sentence with the file and, if known, the line. Writes JSON for readers."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from bert_keras.mistakes import Mistake
from bert_keras.storage import paths, text_files

_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
_BLANKS = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_MAY_BE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def readable_json(value: Any) -> str:
    """Returns a value as JSON on several lines, and keeps the letters of every language."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def read_json(path: str | os.PathLike, needed: str = "give a JSON file") -> Any:
    """Reads a JSON file; `needed` is the advice at the end of messages."""
    return parse_json(text_files.read_text(path, needed), paths.name(path), needed)


def read_object(path: str | os.PathLike, needed: str = "give the file that belongs to the model") -> dict[str, Any]:
    """Reads a file with a JSON object as a dict; `needed` is the advice at the end of messages."""
    values = parse_json(text_files.read_text(path, needed), os.fspath(path), needed)
    if not isinstance(values, dict):
        found = type(values).__name__
        raise Mistake("{} line 1: a JSON {} where an object {{...}} is needed; {}", os.fspath(path), found, needed)
    return values


def read_optional_object(path: str | os.PathLike, *needed: str) -> dict[str, Any]:
    """Reads a JSON object as `read_object` does; returns {} if the file does not exist."""
    return read_object(path, *needed) if paths.is_file(path) else {}


def check_whole(value: Any, file: str | os.PathLike, key: str) -> int:
    """Returns the value of a key of a file; a Mistake if it is not a whole number above 0."""
    if type(value) is not int or value < 1:
        raise Mistake("{}: {} is {}, but must be a whole number above 0; correct it", file, key, json.dumps(value))
    return value


def parse_json(text: str, name: str, needed: str = "write valid JSON") -> Any:
    """Parses a JSON file and raises ValueError with its name and the line for every defect.

    NaN and Infinity become floats: they are not JSON, but many programs write them.
    """
    return _parse(
        text, lambda start: name if start is None else f"{name} line {text.count(chr(10), 0, start) + 1}", needed
    )


def iterate_objects(
    lines: Iterable[str], place: Callable[[int], str], needed: str
) -> Iterator[tuple[int, dict[str, Any] | Mistake]]:
    """Yields the number, from 1, and the JSON object of each line that is not blank; a Mistake if it has none.

    `place` returns file and line for a message, given the number of a line.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = _parse(line, lambda _, number=number: place(number), needed)
            if not isinstance(value, dict):
                raise Mistake("{}: a JSON {} instead of an object; {}", place(number), type(value).__name__, needed)
        except Mistake as error:
            value = error
        yield number, value


def _parse(text: str, place: Callable[[int | None], str], needed: str) -> Any:
    """Parses JSON; `place` returns the place for a message, given an index in the text or None."""
    value, end = decode(text, skip_blanks(text, 0), place, needed)
    end = skip_blanks(text, end)
    if end < len(text):
        raise not_valid(json.JSONDecodeError("Extra data", text, end), place, needed)
    return value


def decode(text: str, start: int, place: Callable[[int | None], str], needed: str) -> tuple[Any, int]:
    """Parses the JSON value that begins at an index of a text; returns it and the index after it. See `_parse`."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise not_valid(error, place, needed) from None
    except RecursionError:
        raise Mistake("{}: JSON is nested too deeply; {}", place(None), needed) from None
    except ValueError:
        limit = sys.get_int_max_str_digits()
        number = next(re.compile(rf"[0-9]{{{limit + 1},}}").finditer(text, start)).start()
        raise Mistake("{}: a number of more than {:,} digits; {}", place(number), limit, needed) from None
    if _MAY_BE_SURROGATE.search(text, start, end):
        half = next((match for match in _ESCAPE.finditer(text, start, end) if match[1]), None)
        if half is not None:
            raise Mistake(
                "{}: {} is half of a surrogate pair, which is not a character; write the "
                "character itself, or leave it out",
                place(half.start()),
                half[0],
            )
    return value, end


def not_valid(error: json.JSONDecodeError, place: Callable[[int | None], str], needed: str) -> Mistake:
    return Mistake("{}: not valid JSON ({}, column {}); {}", place(error.pos), error.msg, error.colno, needed)


def skip_blanks(text: str, start: int) -> int:
    """Returns the index of the first character from `start` on that JSON does not skip."""
    return cast(re.Match, _BLANKS.match(text, start)).end()
