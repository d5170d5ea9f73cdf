"""JSON that users bring: every mistake in it is one sentence with the file and the line."""

import json
import re
import sys

from bert_keras.storage import paths, text_files

_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
_MAY_BE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path, needed="give a JSON file"):
    """Reads a JSON file.

    Args:
        path: str or path object, local or remote.
        needed: str; the advice at the end of messages, such as "give a JSON file".

    Returns:
        The value.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be read (see `storage.text_files.read_text`), or is not JSON; one sentence that names file
            and line.
    """
    return parse_json(text_files.read_text(path, needed), paths.name(path), needed)


def parse_json(text, name, needed="write valid JSON", line=None):
    """Parses JSON, and raises one kind of error for everything that can be wrong with it.

    Args:
        text: str.
        name: str; what to call the file, or what else it is from, in messages.
        needed: str; the advice at the end of messages.
        line: int; the line of the file that the text is, where it is only one. None: it is the whole file.

    Returns:
        The value. NaN and Infinity, which are not JSON but written by many programs, are floats.

    Raises:
        ValueError: it is not JSON, nested too deeply, or has a number of too many digits or half of a surrogate pair.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON ({error.msg}, column {error.colno})"
        raise ValueError(f"{name} line {line or error.lineno}: {problem}; {needed}") from None
    except RecursionError:
        place = f"{name} line {line}" if line else name
        raise ValueError(f"{place}: JSON of too many levels of brackets; {needed}") from None
    except ValueError:
        limit = sys.get_int_max_str_digits()
        start = re.search(rf"[0-9]{{{limit + 1},}}", text).start()
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
