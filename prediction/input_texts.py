"""The texts that are asked about: from arguments, the lines of a file, or those of standard input."""

import logging
import pathlib

from data_prep.tables import decode_utf8

log = logging.getLogger("bert_keras")


def read_texts(input_file, arguments, standard_input, shape, called):
    """Reads all texts.

    Args:
        input_file: path; None: there is none.
        arguments: list of str.
        standard_input: text stream, read where there is neither of them.
        shape: what a text is: "text"; "pair", two texts with a tab between them, or as two arguments; "choices", a text
            and two or more choices with tabs between them, or these as arguments.
        called: what wants them, for an error.

    Returns:
        list of texts: str, or a tuple (text, text), or a tuple (text, list of choices); and list of str, what to call
        each of them in an error.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: there are no texts, or they are not what they should be; the line is named.
    """
    if input_file and arguments:
        raise ValueError(f'there are both --input_file={input_file} and the text "{arguments[0]}"; give one of them')
    if arguments:
        if shape != "text" and not any("\t" in argument for argument in arguments):
            return _split_arguments(arguments, shape, called)
        lines = [(f"argument {number}", text) for number, text in enumerate(arguments, 1)]
    else:
        lines = _read_lines(input_file, standard_input)
    return [_SPLIT[shape](source, text) for source, text in lines], [source for source, _ in lines]


def _split_arguments(arguments, shape, called):
    if shape == "choices":
        if len(arguments) < 3:
            raise ValueError(
                f"{called} takes a text and two or more choices, but {len(arguments)} arguments were given; give the "
                "text and each choice as an argument, or several texts with tabs between them and their choices"
            )
        return [(arguments[0], arguments[1:])], ["the question"]
    if len(arguments) % 2:
        raise ValueError(
            f"{called} takes two texts for each pair, but {len(arguments)} were given; "
            "give an even number, or each pair as one argument with a tab between its texts"
        )
    pairs = list(zip(arguments[::2], arguments[1::2], strict=True))
    return pairs, [f"pair {number}" for number in range(1, len(pairs) + 1)]


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


def _read_lines(input_file, standard_input):
    """Returns (source, text) of each line with text of a file, or of standard input without one."""
    if input_file:
        path = pathlib.Path(input_file)
        if not path.is_file():
            raise FileNotFoundError(f"--input_file={input_file} is not a file; give a text file, one text a line")
        name, content = input_file, path.read_bytes()
    elif standard_input.isatty():
        raise ValueError("there is no text: give it as an argument, in --input_file or on standard input")
    else:
        name, content = "standard input", standard_input.buffer.read()
    # Only these end a line: str.splitlines knows some characters more, which may stand within a text.
    lines = decode_utf8(content, name).replace("\r\n", "\n").split("\n")
    texts = [(f"{name} line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not texts:
        raise ValueError(f"{name} holds no text; give one text a line")
    num_blank = len(lines) - (not lines[-1]) - len(texts)
    if num_blank:
        log.info("%s: %d blank lines are passed over", name, num_blank)
    return texts
