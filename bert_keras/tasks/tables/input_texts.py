"""Reads texts from arguments, from the lines of a file or of standard input, or from a table (CSV, TSV, JSON lines).

The readers yield pairs: the name of a text for error messages, and the text. Imports without TensorFlow.
"""

import itertools
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TextIO

from bert_keras.mistakes import Message, MissingFile, Mistake, Setting
from bert_keras.prediction.arguments import Limits
from bert_keras.storage import inspection, paths, text_files
from bert_keras.tasks.ability import LISTS
from bert_keras.tasks.tables.column_names import (
    KNOWN_NAMES,
    LIST_PAIRS,
    PAIRS,
    VECTOR_PAIRS,
    folded,
    negative_names,
    usual_pair,
)
from bert_keras.tasks.tables.columns import Columns, find_columns, find_header, parts_of, without_names
from bert_keras.tasks.tables.examples import Example
from bert_keras.tasks.tables.header import NO, UNCLEAR, YES, Header
from bert_keras.tasks.tables.minimal_pairs import read_paradigms
from bert_keras.tasks.tables.tables import BadRow, Table
from bert_keras.tasks.tables.user_data import iterate_own_file

log = logging.getLogger("bert_keras")

# The longest line has this many bytes per character of `max_chars`: 4 bytes a character, four texts a line.
_BYTES_A_CHAR = 16
# A line of CoNLL columns; files with these are cut at the first blank line.
_TAGGED_LINE = re.compile(rb"[^\s].*\s(O|[BIESLUM]-\S+)\s*")
_LINES_LOOKED_AT = 20

# The forms in words.
_NEEDED = {
    "text": "single texts",
    "pair": "pairs of texts",
    "choices": "a text and two or more choices",
    "texts": "a query and one or more texts",
}
# A text as a predictor takes it, or the reason why it could not be read.
Text = str | tuple[str, str] | tuple[str, list[str]] | Mistake


def read_texts(
    input_file: str | None, arguments: Sequence[str], standard_input: TextIO, form: str, called: str, limits: Limits
) -> Iterator[tuple[str, Text]]:
    """Reads texts one at a time.

    Args:
        input_file: path, local or remote; None: no file.
        arguments: texts of the command line.
        standard_input: text stream, read if there are neither a file nor arguments.
        form: "text": one text. "pair": two texts, separated by a tab or given as two arguments. "choices": a text and
            two or more choices, separated by tabs or given as arguments. "texts": so a query and one or more texts.
        called: name of the task or class that takes the texts, for error messages.
        limits: lines much longer than `max_chars` are not read.
    """
    if input_file and arguments:
        raise Mistake('there are both {input_file}={} and the text "{}"; give one of them', input_file, arguments[0])
    if arguments:
        return iter(_read_arguments(arguments, form, called))
    most_bytes = _BYTES_A_CHAR * limits.max_chars
    if input_file:
        name, rows = input_file, _read_file(input_file, form, most_bytes)
    elif standard_input.isatty():
        raise Mistake("no text was given; give it as an argument, in {input_file} or on standard input")
    else:
        name = "standard input"
        rows = _read_lines(name, _lines_of_stream(standard_input.buffer, name, most_bytes), form, most_bytes)
    return _begun(rows, f"{name} holds no text; give one text a line")


def read_sentences(path: str) -> Iterator[tuple[str, Text]]:
    """Yields each sentence of a file or folder of minimal pairs once; see `tasks.tables.minimal_pairs`."""
    sources = {}
    for paradigm in read_paradigms(path):
        for pair in paradigm.pairs:
            for sentence in pair:
                sources.setdefault(sentence, f"{paradigm.name}: {sentence!r}")
    yield from ((source, sentence) for sentence, source in sources.items())


def is_table(input_file: str, form: str) -> bool:
    """Returns whether a file is a table: by the ending of its name, or a .txt file with tabs if a text needs none."""
    if inspection.ending_of(input_file) == ".txt" and form == "text" and paths.is_file(input_file):
        return b"\t" in inspection.inspect(input_file).head.partition(b"\n")[0]
    return inspection.format_by_name(input_file) != "text"


def read_table(
    input_file: str, form: str, given: Mapping[str, Any], trained: Mapping[str, Any]
) -> Iterator[tuple[str, Text]]:
    """Reads the texts of a table one at a time. Logs the columns.

    Args:
        form: as in `read_texts`.
        given: `text_column`, `text_pair_column`, `choice_columns` and `has_header`; None or empty if not given.
        trained: the task.json of the model; the columns of its training are used if the file has them.
    """
    for role, forms in (("text_pair_column", ("pair", "texts")), ("choice_columns", ("choices", "texts"))):
        if given.get(role) and form not in forms:
            raise Mistake("{} has no effect, because the model takes {}; leave it out", Setting(role), _NEEDED[form])
    table = Table(input_file)
    header = _header(table, given, trained)
    names = table.names if header.answer == YES else tuple(map(str, range(len(table.names))))
    find = _columns_of_list if form in LISTS else _columns
    columns = find(table, header, names, form, given, trained)
    taken = [columns.text, *([columns.pair] if columns.pair else columns.choices)]
    log.info("%s: texts are read from: %s", input_file, ", ".join(f'"{column}"' for column in taken))
    number, text = trained.get("text_column") or "", columns.text or ""
    if number.isdecimal() and not given.get("text_column") and text in names and names.index(text) != int(number):
        message = '{}: the training read its texts from column {} by its number; give {text_column} if it is not "{}"'
        log.warning(Message(message, input_file, number, text))
    examples = iterate_own_file(table, columns, has_header=header)
    rows = ((example.source, _text_of_row(example, form)) for example in examples)
    return _begun(rows, f"{input_file} holds no row; give at least one")


def _begun(rows: Iterator[tuple[str, Text]], message: str) -> Iterator[tuple[str, Text]]:
    """Reads the first item of an iterator, and returns an iterator over all items; no item is an error."""
    for first in rows:
        return itertools.chain([first], rows)
    raise Mistake("{}", message)


def _read_arguments(arguments: Sequence[str], form: str, called: str) -> list[tuple[str, Text]]:
    """Returns the pairs of `read_texts` for the texts of the command line."""
    for number, argument in enumerate(arguments, 1):
        bad = next((char for char in argument if "\ud800" <= char <= "\udfff"), None)
        if bad:  # Python's form of a byte that is not UTF-8
            raise Mistake("argument {}: not UTF-8 (byte 0x{:02x}); give it as UTF-8", number, ord(bad) & 0xFF)
        if inspection.ending_of(argument) and os.path.isfile(argument):
            raise Mistake('argument {}, "{}", is a file, but arguments are texts; give {input_file}', number, argument)
    if form == "text" or any("\t" in argument for argument in arguments):
        sources = [f"argument {number}" for number in range(1, len(arguments) + 1)]
        return [(source, _split(source, argument, form)) for source, argument in zip(sources, arguments, strict=True)]
    if form in LISTS:
        if len(arguments) <= LISTS[form]:
            raise Mistake(
                "{} takes {}, but {} arguments were given; give each as an argument, or several such lists as one "
                "argument each, with tabs in it",
                called,
                _NEEDED[form],
                len(arguments),
            )
        return [("the question", (arguments[0], list(arguments[1:])))]
    if len(arguments) % 2:
        raise Mistake(
            "{} takes two texts for each pair, but {} were given; "
            "give an even number, or each pair as one argument with a tab between its texts",
            called,
            len(arguments),
        )
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    return [(f"pair {number}", pair) for number, pair in enumerate(pairs, 1)]


def _split(source: str, line: str, form: str) -> str | tuple[str, str] | tuple[str, list[str]]:
    """Splits a line at its tabs into a text of the given form."""
    first, *others = line.split("\t")
    if form == "pair":
        if len(others) != 1:
            raise Mistake("{} has {} tabs, but a pair is two texts with one tab between them", source, len(others))
        return first, others[0]
    if form in LISTS:
        if len(others) < LISTS[form]:
            needed = _NEEDED[form]
            raise Mistake("{} has {} tabs, but {} with tabs between them are needed", source, len(others), needed)
        return first, others
    return line


def _read_file(input_file: str, form: str, most_bytes: int) -> Iterator[tuple[str, Text]]:
    if not paths.is_file(input_file):
        raise MissingFile("{input_file}={} is not a file; give a text file, one text a line", input_file)
    lines = iter(text_files.read_lines(input_file, most_bytes))
    first = [*itertools.islice(lines, _LINES_LOOKED_AT)]
    sentence = [*itertools.takewhile(lambda line: line and line.strip(), first)]
    if len(sentence) > 1 and all(map(_TAGGED_LINE.fullmatch, sentence)):
        raise Mistake("{}: its lines are words with tags; give one text a line", input_file)
    yield from _read_lines(input_file, itertools.chain(first, lines), form, most_bytes)


def _lines_of_stream(stream: BinaryIO, name: str, most_bytes: int) -> Iterator[bytes | None]:
    # A user who types sees the answer to a line at once: `readline` does not wait for a full block.
    lines = text_files.iterate_lines(iter(lambda: stream.readline(most_bytes + 1), b""), most_bytes)
    for number, line in enumerate(lines):
        if not number and line:
            inspection.check_is_text(line[:4096], name)
        yield line


def _read_lines(name: str, lines: Iterable[bytes | None], form: str, most_bytes: int) -> Iterator[tuple[str, Text]]:
    """Yields the pairs of `read_texts` for lines in UTF-8; a blank line is an error, except at the end."""
    num_blank = 0
    for number, line in enumerate(lines, 1):
        text = _text_of_line(f"{name} line {number}", line, form, most_bytes)
        if isinstance(text, str) and text_files.is_blank(text):
            num_blank += 1
            continue
        for blank in range(number - num_blank, number):
            yield f"{name} line {blank}", Mistake("{} line {} is blank; give a text, or remove the line", name, blank)
        num_blank = 0
        yield f"{name} line {number}", text
    if num_blank:
        log.info("%s: blank lines at the end that do not count: %d", name, num_blank)


def _text_of_line(source: str, line: bytes | None, form: str, most_bytes: int) -> Text:
    """Returns the text of a line, or the Mistake that says why it is not valid; a blank line is a str."""
    if line is None:
        return Mistake(
            "{} has more than {:,} bytes; make it shorter, or raise {max_chars} (a line may have {} bytes for each)",
            source,
            most_bytes,
            _BYTES_A_CHAR,
        )
    try:
        text = line.decode("utf-8")
        return text if text_files.is_blank(text) else _split(source, text, form)
    except UnicodeDecodeError as error:
        return Mistake("{}: not UTF-8 (byte 0x{:02x}); save it as UTF-8", source, line[error.start])
    except Mistake as error:
        return error


def _header(table: Table, given: Mapping[str, Any], trained: Mapping[str, Any]) -> Header:
    """Returns whether the first row names the columns, also by names that the user or the training gave."""
    roles = ("text_column", "text_pair_column")
    named = [given.get(role) or trained.get(role) for role in roles]
    choices = given.get("choice_columns") or trained.get("choice_columns") or ()
    header = find_header(table, Columns(*named, choices=tuple(choices)), given.get("has_header") or "auto")
    if header.answer == UNCLEAR and trained.get("has_header") == "false":
        return Header(NO, Message("{has_header}=false was given for the training"))
    return header


def _columns(
    table: Table, header: Header, names: Sequence[str], form: str, given: Mapping[str, Any], trained: Mapping[str, Any]
) -> Columns:
    """Returns the columns of single texts or of pairs. Without a header, their `names` are numbers."""
    text, pair = (given.get(role) or _known(trained.get(role), names) for role in ("text_column", "text_pair_column"))
    known = Columns(text, pair if form == "pair" else None)
    if header.answer != YES and form == "pair" and not (text and pair):
        raise without_names(table, header, {"text_column": text or "0", "text_pair_column": pair or "1"})
    is_open = form == "pair" and not (text or pair) and header.answer == YES and not usual_pair(names, PAIRS)
    if is_open and (usual := usual_pair(names, VECTOR_PAIRS)):
        known = Columns(usual[0], usual[1])
    found = find_columns(table, known, needs_label=False, header=header)
    if form == "pair" and not found.pair:
        raise Mistake(
            "{}: the model takes pairs, but the column of the second text is not known; name both with "
            "{text_column} and {text_pair_column}",
            table.path,
        )
    if form == "text" and found.pair:
        raise Mistake(
            '{}: the model takes single texts, but the file has pairs, "{}" and "{}"; name one with {text_column}',
            table.path,
            found.text,
            found.pair,
        )
    return found


def _columns_of_list(
    table: Table, header: Header, names: Sequence[str], form: str, given: Mapping[str, Any], trained: Mapping[str, Any]
) -> Columns:
    """Returns the columns of a text and of the texts of its list. Without a header, their `names` are numbers."""
    text = given.get("text_column") or _known(trained.get("text_column"), names)
    texts = [*filter(None, (given.get("text_pair_column"), *(given.get("choice_columns") or ())))]
    texts = texts or _trained_choices(names, trained)
    usual = (*LIST_PAIRS, *(VECTOR_PAIRS if form == "texts" else ()))
    if header.answer == YES and not (text or texts) and (pair := usual_pair(names, usual)):
        text, texts = pair[0], [pair[1], *negative_names(names)]
    if not (text and texts) or None in texts:
        raise Mistake(
            "{}: the columns of {} are not known; name them with {text_column} and {choice_columns}",
            table.path,
            _NEEDED[form],
        )
    return find_columns(table, Columns(text, choices=tuple(filter(None, texts))), needs_label=False, header=header)


def _trained_choices(names: Sequence[str], trained: Mapping[str, Any]) -> list[str | None]:
    """Returns the columns of the choices of the training; those of a query are the texts that fit and that do not."""
    fitting = trained.get("text_pair_column")
    return [_known(name, names) for name in (*([fitting] if fitting else ()), *(trained.get("choice_columns") or ()))]


def _known(column: str | None, names: Sequence[str]) -> str | None:
    """Returns a column of the training if the file has it; a number counts only if the first row has no known name."""
    has_usual_name = any(folded(name) in KNOWN_NAMES for name in names)

    def is_there(part: str) -> bool:
        return part in names or (part.isdecimal() and int(part) < len(names) and not has_usual_name)

    return column if column and all(map(is_there, parts_of(column, names))) else None


def _text_of_row(example: Example | BadRow, form: str) -> Text:
    if isinstance(example, BadRow):
        return example.error
    if form in LISTS:
        count = len(example.choices)
        if count < LISTS[form]:
            return Mistake("{}: the list has {} texts, but {} are needed", example.source, count, _NEEDED[form])
        return example.text_a, list(example.choices)
    return example.text_a if form == "text" else (example.text_a, example.text_b or "")
