"""Converts raw text to the format of the original BERT: one sentence a line, a blank line after each document.

Knows text, JSON lines, CSV and TSV, the output of WikiExtractor, Parquet and Arrow. Each function yields lines of
documents; an empty line ends a document. Memory does not grow with the files, but for CSV and TSV.
"""

import dataclasses
import html
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bert_keras.data_prep.corpus.text_lines import UnusableTextError, pieces_of
from bert_keras.data_prep.text.sentence_splitting import split_sentences
from bert_keras.mistakes import Mistake
from bert_keras.settings.fields import check_fields, setting
from bert_keras.storage import paths, text_files
from bert_keras.storage.csv_rows import iterate_rows
from bert_keras.storage.inspection import FileForm
from bert_keras.storage.json_files import iterate_objects

CELLS = ("csv", "tsv")
# Formats with one document a row; each text of WikiExtractor is one, too.
ROWS = ("json", "parquet", "arrow", "wiki", *CELLS)
_ARROW_STREAM = b"\xff\xff\xff\xff"
_MOST_JOINED = 1 << 20  # characters of a paragraph
_ROWS_AT_ONCE = 256
# Markdown ("# Title") or Wikipedia's markup ("== Title ==").
_HEADING = re.compile(r"#{1,6}\s+\S|(={1,6})\s*[^=\s].*\1\Z")
_WIKI_START = re.compile(r'<doc id="[^"]*".*? title="(?P<title>.*)">\Z')


@dataclasses.dataclass(frozen=True)
class TextOptions:
    """How to read text files; by default the format of the original BERT. Raises ValueError for an invalid value."""

    text_field: str | None = setting(
        "Field of JSON lines, or column of a table, with the text: one document a row. If not given: text.",
        None,
    )
    documents: str = setting(
        "Where a document of a text file ends: at a blank line, with the file, with the line, or before a heading of "
        "Markdown or Wikipedia.",
        "blank_line",
        choices=("blank_line", "file", "line", "heading"),
    )
    split_sentences: bool = setting("Split each line into sentences by rules.", False)
    join_lines: bool = setting(
        "Join the lines up to a blank line before splitting: for text with a fixed width.", False
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.join_lines and not self.split_sentences:
            raise Mistake(
                "{join_lines} makes one line of each paragraph, but an example needs sentences; also give "
                "{split_sentences}"
            )
        if self.join_lines and self.documents == "line":
            raise Mistake("{join_lines} and {documents}=line contradict each other; leave out one of them")

    @property
    def changes_text(self) -> bool:
        """bool; whether text files are not already in the format of the original BERT."""
        return self.split_sentences or self.documents != "blank_line"


RELEASE = TextOptions()  # the format of the original BERT


def format_of(form: FileForm, options: TextOptions) -> str:
    """Returns the format of an inspected file as a corpus: "text" or one of `ROWS`."""
    start = form.head.lstrip()
    if form.format in ROWS:
        return form.format
    if options.text_field is not None and start.startswith(b"{"):
        return "json"
    return "wiki" if start.startswith(b'<doc id="') else "text"


def convert(
    lines: Iterable[bytes], where: Callable[[int], str], form: str, options: TextOptions, is_end: bool = True
) -> Iterator[str]:
    """Yields the sentences of a text file, of JSON lines or of WikiExtractor's output, and "" after each document.

    Args:
        lines: the lines in UTF-8; see `text_files.iterate_lines`.
        where: returns file and line number for a message, given the number of a line from 1.
        form: "text", "json" or "wiki".
        is_end: whether the file ends after these lines, which ends a document.

    Raises:
        UnusableTextError: a line is not UTF-8 or, in JSON, has no text; names file and line.
    """
    texts = _decode(lines, where)
    if form == "json":
        yield from _convert_rows(_json_texts(texts, where, options), options)
    elif form == "wiki":
        yield from _split(_wiki_lines(texts, where, options), options)
    else:
        yield from _split(_paragraphs(texts, options.documents, options.join_lines), options)
        if is_end:
            yield ""


def convert_table(form: FileForm, options: TextOptions) -> Iterator[str]:
    """Yields the sentences of the rows of a CSV, TSV, Parquet or Arrow file, and "" after each row."""
    if form.format in CELLS:
        yield from _convert_rows(_cell_texts(form.file, options), options)
        return
    with paths.open_file(form.file) as content:
        yield from _convert_rows(_table_texts(content, form.file, form.format, options), options)


def _decode(lines: Iterable[bytes], where: Callable[[int], str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnusableTextError(
                "{}: byte 0x{:02x} is not valid UTF-8; convert the file to UTF-8, for example iconv -f "
                "ISO-8859-1 -t UTF-8 OLD > NEW",
                where(number),
                line[error.start],
            ) from None
        yield text


def _paragraphs(lines: Iterable[str], documents: str, join_lines: bool) -> Iterator[str]:
    """Yields the paragraphs of a text without extra white space, and "" where `documents` says that one ends."""
    joined, size = [], 0
    for line in lines:
        words = " ".join(part for piece in pieces_of(line) if (part := " ".join(piece.split())))
        is_heading = documents == "heading" and _HEADING.match(words) is not None
        if joined and (not words or is_heading or size > _MOST_JOINED):
            yield " ".join(joined)
            joined, size = [], 0
        if is_heading or (not words and documents == "blank_line"):
            yield ""
        elif words and join_lines:
            joined.append(words)
            size += len(words)
        elif words:
            yield words
            if documents == "line":
                yield ""
    if joined:
        yield " ".join(joined)


def _split(paragraphs: Iterable[str], options: TextOptions) -> Iterator[str]:
    for paragraph in paragraphs:
        if paragraph and options.split_sentences:
            yield from split_sentences(paragraph)
        else:
            yield paragraph


def _convert_rows(texts: Iterable[str], options: TextOptions) -> Iterator[str]:
    for text in texts:
        yield from _split(_paragraphs(text_files.LINE_END.split(text), "file", options.join_lines), options)
        yield ""


def _json_texts(lines: Iterable[str], where: Callable[[int], str], options: TextOptions) -> Iterator[str]:
    field = options.text_field or "text"
    for number, row in iterate_objects(lines, where, f'each line needs an object such as {{"{field}": "..."}}'):
        if isinstance(row, Mistake):
            raise UnusableTextError("{}", str(row))
        yield _text_of(row, field, where, number)


def _text_of(row: dict, field: str, where: Callable[[int], str], number: int) -> str:
    """Returns the text of a row; a null is an empty document."""
    if field not in row:
        raise UnusableTextError(
            '{}: has no field "{}", but {}; name the field of the text with {text_field}',
            where(number),
            field,
            ", ".join(row) or "nothing",
        )
    if row[field] is not None and not isinstance(row[field], str):
        raise UnusableTextError(
            '{}: "{}" is of the type {}, but text is needed', where(number), field, type(row[field]).__name__
        )
    return row[field] or ""


def _wiki_lines(lines: Iterable[str], where: Callable[[int], str], options: TextOptions) -> Iterator[str]:
    """Yields the paragraphs of each article without its title, as `_paragraphs` does, and "" after it."""
    article: list[str] | None = None
    title, first = "", 0
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        start = _WIKI_START.match(stripped)
        if start and article is None:
            article, title, first = [], start["title"], number
        elif start:
            break
        elif article is None and stripped:
            raise UnusableTextError(
                '{}: "{}" is outside the articles, which begin with <doc id=...> and end with </doc>; remove '
                "the line, or add what is missing",
                where(number),
                stripped[:40],
            )
        elif stripped == "</doc>" and article is not None:
            # The first line repeats the title.
            body = article[1:] if article and article[0].strip() == title else article
            yield from _paragraphs(map(html.unescape, body), "file", options.join_lines)
            yield ""
            article = None
        elif article is not None:
            article.append(line)
    if article is not None:
        raise UnusableTextError(
            '{}: the article "{}" has no </doc>; add it, or extract the articles again if the file was cut short',
            where(first),
            title,
        )


def _cell_texts(file: str, options: TextOptions) -> Iterator[str]:
    field, rows = options.text_field or "text", iterate_rows(file)
    names = [cell.strip() for row in itertools.islice(rows, 1) for cell in row.cells]
    if names.count(field) != 1:
        raise UnusableTextError(
            '{} is a table and has {} columns "{}", but one is needed; its columns are {}; name the column of the text '
            "with {text_field}, or rename the file if each line is a text",
            *(file, names.count(field) or "no", field, ", ".join(name[:40] for name in names)),
        )
    for row in rows:
        if len(row.cells) != len(names):
            message = "{} line {} has {} cells, but the first row has {}; look for a missing separator or quote"
            raise UnusableTextError(message, file, row.line, len(row.cells), len(names))
        yield row.cells[names.index(field)]


def _table_texts(content: Any, file: str, form: str, options: TextOptions) -> Iterator[str]:
    field, pyarrow = options.text_field or "text", _arrow(file)
    try:
        if form == "parquet":
            table = pyarrow.parquet.ParquetFile(content)
            names = table.schema_arrow.names
            batches = table.iter_batches(_ROWS_AT_ONCE, columns=[field]) if field in names else ()
        else:
            is_stream = content.read(4) == _ARROW_STREAM
            content.seek(0)
            table = (pyarrow.ipc.open_stream if is_stream else pyarrow.ipc.open_file)(content)
            names = table.schema.names
            batches = table if is_stream else map(table.get_batch, range(table.num_record_batches))
        if field not in names:
            raise UnusableTextError(
                '{} has no column "{}", but {}; name the column of the text with {text_field}', file, field, [*names]
            )
        number = 0
        for batch in batches:
            for text in batch.column(field).to_pylist():
                number += 1
                yield _text_of({field: text}, field, lambda row: f"{file} row {row}", number)
    except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
        raise UnusableTextError(
            "{} cannot be read ({}); it may be cut short, so copy it or write it again", file, str(error)
        ) from None


def _arrow(file: str) -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise Mistake(
            "{} is a Parquet or Arrow file, which needs pyarrow; run pip install 'bert-keras[parquet]'", file
        ) from None
    return pyarrow
