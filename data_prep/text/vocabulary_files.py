"""Reads vocabulary files and the `tokenizer_config.json` next to them."""

import codecs
import collections
import logging
import os
from collections.abc import Collection, Sequence

from bert_keras.storage import json_files, paths

log = logging.getLogger("bert_keras")


def load_vocab(vocab_file: str | os.PathLike) -> dict[str, int]:
    """Reads a vocabulary file with one token per line; the id of a token is its line number from 0.

    As in the original BERT, the last of several equal lines gives the id, and the key keeps the position of the first.
    The log warns about such lines.

    Args:
        vocab_file: path, local or remote.

    Returns:
        Token to id, in the order in which the tokens first appear.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the path is a folder, or the file is not UTF-8 or has no tokens.
    """
    tokens = read_tokens(vocab_file)
    _warn_about_duplicates(os.fspath(vocab_file), tokens)
    return {token: number for number, token in enumerate(tokens)}


def read_tokens(vocab_file: str | os.PathLike) -> list[str]:
    """Returns the lines of a vocabulary file, in the order of their ids; errors as of `load_vocab`.

    As in the original BERT, white space around a token is stripped. A blank line uses an id; its token is the empty
    string.
    Differs from the original BERT: a byte order mark is ignored with a warning, instead of becoming part of the first
    token.
    """
    name = os.fspath(vocab_file)
    if paths.is_dir(name):
        raise ValueError(f'the vocabulary file "{name}" is a folder; give the vocab.txt itself')
    try:
        content = paths.read_bytes(name)
    except FileNotFoundError:
        raise FileNotFoundError(
            f'there is no vocabulary file "{name}"; give the vocab.txt that came with the model'
        ) from None
    if content.startswith(codecs.BOM_UTF8):
        log.warning("%s begins with a byte order mark, which is ignored; save it as UTF-8 without one", name)
        content = content.removeprefix(codecs.BOM_UTF8)
    try:
        lines = content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{name} line {line}: the vocabulary is not UTF-8 (byte 0x{content[error.start]:02x}); save it as UTF-8"
        ) from None
    tokens = [line.strip() for line in lines]
    if not any(tokens):
        raise ValueError(f'the vocabulary file "{name}" has no tokens; it needs one token a line')
    return tokens


def _warn_about_duplicates(name: str, tokens: Sequence[str]) -> None:
    counts = collections.Counter(tokens)
    repeated = [token for token, count in counts.items() if count > 1 and token]
    if repeated:
        lines = [number for number, token in enumerate(tokens, 1) if token == repeated[0]]
        log.warning(
            "%s lines %s are all %r: the last of them gives the id, and the other ids are never used, as in the "
            "original (%d such tokens)",
            name,
            ", ".join(map(str, lines[:5])),
            repeated[0],
            len(repeated),
        )


def check_special_tokens(
    vocab: Collection[str],
    tokens: Sequence[str],
    name: str = "the vocabulary",
    advice: str = "give that of the model",
) -> None:
    """Raises ValueError if a vocabulary lacks tokens; the message names all of them and ends with the advice."""
    missing = [token for token in tokens if token not in vocab]
    if missing:
        raise ValueError(f"{name} lacks {', '.join(missing)}; {advice}")


def read_casing(vocab_file: str | os.PathLike) -> dict[str, bool]:
    """Reads "do_lower_case" and "strip_accents" from the `tokenizer_config.json` in the folder of a vocabulary.

    Returns those that the file sets. Raises ValueError if the file is damaged.
    """
    file = paths.join(paths.parent(vocab_file), "tokenizer_config.json")
    if not paths.is_file(file):
        return {}
    values = json_files.read_json(file, "give JSON with do_lower_case, or delete it")
    if not isinstance(values, dict):
        raise ValueError(f"{file} is not a JSON object; give JSON with do_lower_case, or delete it")
    casing = {name: values[name] for name in ("do_lower_case", "strip_accents") if values.get(name) is not None}
    for name, value in casing.items():
        if not isinstance(value, bool):
            raise ValueError(f"{file}: {name} is {value!r}, but must be true or false; correct it")
    return casing
