"""The texts that are asked about: arguments, or lines of a file or of standard input. Imports without TensorFlow."""

import codecs
import io
import itertools
import logging
from collections.abc import Iterator, Sequence

from bert_keras.prediction.limits import Limits
from bert_keras.storage import paths, text_files

log = logging.getLogger("bert_keras")

# A line of so many bytes for each character of the longest text is not read: 4 a character, for four texts.
_BYTES_A_CHAR = 16
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# A text as a predictor takes it, or why it could not be read.
Text = str | tuple[str, str] | tuple[str, list[str]] | ValueError


def read_texts(
    input_file: str | None, arguments: Sequence[str], standard_input, shape: str, called: str, limits: Limits
) -> Iterator[tuple[str, Text]]:
    """Reads texts one at a time.

    Args:
        input_file: path, local or remote; None: there is none.
        arguments: texts of the command line.
        standard_input: text stream, read where there is neither of them.
        shape: what a text is: "text"; "pair", two texts with a tab between them, or as two arguments; "choices", a text
            and two or more choices with tabs between them, or these as arguments.
        called: what wants them, for an error.
        limits: Limits; a line that is much longer than `max_chars` is not read.

    Returns:
        Iterator over what to call a text in an error, and the text: str, or a tuple (text, text), or a tuple (text,
        list of choices), or the ValueError that says why a line is none of these.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: there are no texts, or the arguments are not what they should be.
    """
    if input_file and arguments:
        raise ValueError(f'there are both --input_file={input_file} and the text "{arguments[0]}"; give one of them')
    if arguments:
        return iter(_of_arguments(arguments, shape, called))
    most_bytes = _BYTES_A_CHAR * limits.max_chars
    if input_file:
        name, rows = input_file, _of_file(input_file, shape, most_bytes)
    elif standard_input.isatty():
        raise ValueError("there is no text: give it as an argument, in --input_file or on standard input")
    else:
        name = "standard input"
        rows = _of_lines(name, standard_input.buffer, shape, most_bytes)
    return begun(rows, f"{name} holds no text; give one text a line")


def begun(rows: Iterator, message: str) -> Iterator:
    """Returns an iterator whose first item has been looked for.

    Raises:
        ValueError: there is none; the message is as given.
    """
    for first in rows:
        return itertools.chain([first], rows)
    raise ValueError(message)


def _of_arguments(arguments, shape, called):
    """Returns the pairs of `read_texts` for the texts of the command line, a list."""
    for number, argument in enumerate(arguments, 1):
        bad = next((char for char in argument if "\ud800" <= char <= "\udfff"), None)
        if bad:  # Python keeps a byte that is not UTF-8 so
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
    """Opens a text file to read its lines; one that is compressed or UTF-16 is read as a whole."""
    if not paths.is_file(input_file):
        raise FileNotFoundError(f"--input_file={input_file} is not a file; give a text file, one text a line")
    file = paths.open_file(input_file)
    if input_file.endswith(text_files.COMPRESSED_ENDINGS) or file.read(2) in _UTF16_MARKS:
        file.close()
        return io.BytesIO(text_files.read_text(input_file, "give a text file, one text a line").encode("utf-8"))
    file.seek(0)
    return file


def _of_lines(name, lines, shape, most_bytes):
    """Yields the pairs of `read_texts` for the lines of a binary file; blank ones are skipped and counted."""
    num_blank = 0
    # Only a line feed ends a line: str.splitlines knows more characters, which may be within a text.
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
                    f"{source} has more than {most_bytes:,} bytes; make it shorter, or raise --max_chars, of which a "
                    f"line may have {_BYTES_A_CHAR} bytes each"
                ),
            )
        elif line.strip():
            yield source, _text_of(source, line, shape)
        else:
            num_blank += 1
    if num_blank:
        log.info("%s: blank lines that were skipped: %d", name, num_blank)


def _text_of(source, line, shape):
    """Returns the text of a line, or the ValueError that says why there is none."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return _SPLIT[shape](source, line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return ValueError(f"{source}: not UTF-8 (byte 0x{line[error.start]:02x}); save it as UTF-8")
    except ValueError as error:
        return error
