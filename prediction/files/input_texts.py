"""Reads texts from arguments, or from the lines of a file or of standard input. Imports without TensorFlow."""

import codecs
import io
import itertools
import logging
from collections.abc import Iterator, Sequence

from bert_keras.prediction.limits import Limits
from bert_keras.storage import paths, text_files

log = logging.getLogger("bert_keras")

# The longest line has this many bytes per character of `max_chars`: 4 bytes a character, four texts a line.
_BYTES_A_CHAR = 16
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# A text as a predictor takes it, or the reason why it could not be read.
Text = str | tuple[str, str] | tuple[str, list[str]] | ValueError


def read_texts(
    input_file: str | None, arguments: Sequence[str], standard_input, shape: str, called: str, limits: Limits
) -> Iterator[tuple[str, Text]]:
    """Reads texts one at a time.

    Args:
        input_file: path, local or remote; None: no file.
        arguments: texts of the command line.
        standard_input: text stream, read if there are neither a file nor arguments.
        shape: form of a text. "text": one text. "pair": two texts, separated by a tab or given as two arguments.
            "choices": a text and two or more choices, separated by tabs or given as arguments.
        called: name of the task or class that takes the texts, for error messages.
        limits: Limits; lines much longer than `max_chars` are not read.

    Returns:
        Iterator over (name of the text for error messages, text). A text is a str, a tuple (text, text), or a tuple
        (text, list of choices); or the ValueError that says why the line is not valid.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the input has no texts, or the arguments are not valid.
    """
    if input_file and arguments:
        raise ValueError(f'there are both --input_file={input_file} and the text "{arguments[0]}"; give one of them')
    if arguments:
        return iter(_of_arguments(arguments, shape, called))
    most_bytes = _BYTES_A_CHAR * limits.max_chars
    if input_file:
        name, rows = input_file, _of_file(input_file, shape, most_bytes)
    elif standard_input.isatty():
        raise ValueError("no text was given; give it as an argument, in --input_file or on standard input")
    else:
        name = "standard input"
        rows = _of_lines(name, standard_input.buffer, shape, most_bytes)
    return begun(rows, f"{name} holds no text; give one text a line")


def begun(rows: Iterator, message: str) -> Iterator:
    """Reads the first item of an iterator, and returns an iterator over all items.

    Raises:
        ValueError: the iterator is empty; the error has the given message.
    """
    for first in rows:
        return itertools.chain([first], rows)
    raise ValueError(message)


def _of_arguments(arguments, shape, called):
    """Returns a list of the pairs of `read_texts` for the texts of the command line."""
    for number, argument in enumerate(arguments, 1):
        bad = next((char for char in argument if "\ud800" <= char <= "\udfff"), None)
        if bad:  # Python's form of a byte that is not UTF-8
            raise ValueError(f"argument {number}: not UTF-8 (byte 0x{ord(bad) & 0xFF:02x}); give it as UTF-8")
    if shape == "text" or any("\t" in argument for argument in arguments):
        sources = [f"argument {number}" for number in range(1, len(arguments) + 1)]
        return [(source, _SPLIT[shape](source, argument)) for source, argument in zip(sources, arguments, strict=True)]
    if shape == "choices":
        if len(arguments) < 3:
            raise ValueError(
                f"{called} takes a text and two or more choices, but {len(arguments)} arguments were given; give the "
                "text and each choice as an argument, or several texts with tabs between them and their choices"
            )
        return [("the question", (arguments[0], arguments[1:]))]
    if len(arguments) % 2:
        raise ValueError(
            f"{called} takes two texts for each pair, but {len(arguments)} were given; "
            "give an even number, or each pair as one argument with a tab between its texts"
        )
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    return [(f"pair {number}", pair) for number, pair in enumerate(pairs, 1)]


def _pair(source, text):
    parts = text.split("\t")
    if len(parts) != 2:
        raise ValueError(f"{source} has {len(parts) - 1} tabs, but a pair is two texts with one tab between them")
    return tuple(parts)


def _choices(source, text):
    first, *choices = text.split("\t")
    if len(choices) < 2:
        raise ValueError(
            f"{source} has {len(choices)} tabs, but a text and two or more choices with tabs between them are needed"
        )
    return first, choices


_SPLIT = {"text": lambda source, text: text, "pair": _pair, "choices": _choices}


def _of_file(input_file, shape, most_bytes):
    with _open_file(input_file) as lines:
        yield from _of_lines(input_file, lines, shape, most_bytes)


def _open_file(input_file):
    """Opens a text file to read its lines; reads compressed and UTF-16 files at once."""
    if not paths.is_file(input_file):
        raise FileNotFoundError(f"--input_file={input_file} is not a file; give a text file, one text a line")
    file = paths.open_file(input_file)
    if input_file.endswith(text_files.COMPRESSED_ENDINGS) or file.read(2) in _UTF16_MARKS:
        file.close()
        return io.BytesIO(text_files.read_text(input_file, "give a text file, one text a line").encode("utf-8"))
    file.seek(0)
    return file


def _of_lines(name, lines, shape, most_bytes):
    """Yields the pairs of `read_texts` for the lines of a binary file; skips and counts blank lines."""
    num_blank = 0
    # Only a line feed ends a line: str.splitlines also splits at characters that may occur within a text.
    for number in itertools.count(1):
        line = lines.readline(most_bytes + 1)
        if not line:
            break
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
            text_files.check_is_text(line[:4096], name)
        source = f"{name} line {number}"
        if len(line) > most_bytes:
            while line and not line.endswith(b"\n"):
                line = lines.readline(most_bytes + 1)
            yield (
                source,
                ValueError(
                    f"{source} has more than {most_bytes:,} bytes; make it shorter, or raise --max_chars (a line may "
                    f"have {_BYTES_A_CHAR} bytes for each)"
                ),
            )
        elif line.strip():
            yield source, _text_of(source, line, shape)
        else:
            num_blank += 1
    if num_blank:
        log.info("%s: blank lines that were skipped: %d", name, num_blank)


def _text_of(source, line, shape):
    """Returns the text of a line, or the ValueError that says why it is not valid."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return _SPLIT[shape](source, line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return ValueError(f"{source}: not UTF-8 (byte 0x{line[error.start]:02x}); save it as UTF-8")
    except ValueError as error:
        return error
