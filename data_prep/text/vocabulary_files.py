"""Reads vocabulary files and the `tokenizer_config.json` next to them."""

import codecs
import collections
import json
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bert_keras.storage import json_files, paths, text_files
from bert_keras.storage.casing import is_cased
from bert_keras.storage.hub import SCHEME, fetch

log = logging.getLogger("bert_keras")

VOCABULARY_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer_config.json"
_CASING = ("do_lower_case", "strip_accents")
_SPECIAL_TOKENS = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
# Classes of other libraries that say nothing about how text is split.
_ANY_TOKENIZER = ("PreTrainedTokenizerFast", "TokenizersBackend")


def load_vocab(vocab_file: str | os.PathLike | Sequence[str]) -> dict[str, int]:
    """Reads a vocabulary file with one token per line; the id of a token is its line number from 0.

    As in the original BERT, the last of several equal lines gives the id, and the key keeps the position of the first.
    The log warns about such lines.

    Args:
        vocab_file: path, local or remote; or a list of the tokens.

    Returns:
        Token to id, in the order in which the tokens first appear.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the path is a folder, or the file is not UTF-8 or has no tokens.
    """
    tokens = read_tokens(vocab_file)
    _warn_about_duplicates(name_of(vocab_file), tokens)
    return {token: number for number, token in enumerate(tokens)}


def name_of(vocab_file: str | os.PathLike | Sequence[str]) -> str:
    """Returns the name of a vocabulary for messages: its path, or "the vocabulary" for a list of tokens."""
    return os.fspath(vocab_file) if isinstance(vocab_file, str | os.PathLike) else "the vocabulary"


def read_tokens(vocab_file: str | os.PathLike | Sequence[str]) -> list[str]:
    """Returns the tokens of a file or list in the order of their ids; arguments and errors as of `load_vocab`.

    As in the original BERT, white space around a token is stripped. A blank line uses an id; its token is the empty
    string.
    Differs from the original BERT: a byte order mark is ignored with a warning, instead of becoming part of the first
    token.
    """
    if not isinstance(vocab_file, str | os.PathLike):
        return _checked(vocab_file)
    name = os.fspath(vocab_file)
    if paths.is_dir(name):
        raise ValueError(f'the vocabulary file "{name}" is a folder; give the vocab.txt itself')
    try:
        content = paths.read_bytes(name)
    except FileNotFoundError:
        raise FileNotFoundError(
            f'the vocabulary file "{name}" does not exist; give the vocab.txt that came with the model'
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


def _checked(tokens):
    """Returns a list of tokens as a file would give them."""
    for number, token in enumerate(tokens):
        if not isinstance(token, str) or "\n" in token.strip():
            raise ValueError(
                f"token {number} of the vocabulary is {token!r}, but must be a str of one line; give a list of tokens, "
                "or the path of a vocab.txt"
            )
    if not any(token.strip() for token in tokens):
        raise ValueError("the vocabulary has no tokens; give a list of tokens, or the path of a vocab.txt")
    return [token.strip() for token in tokens]


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


def tokenizer_file_of(vocab_file: str | os.PathLike) -> str:
    """Returns the path of the `tokenizer_config.json` in the folder of a vocabulary."""
    return paths.join(paths.parent(vocab_file), TOKENIZER_FILE)


def read_casing(vocab_file: str | os.PathLike) -> dict[str, bool]:
    """Returns "do_lower_case" and "strip_accents" of the `tokenizer_config.json` in the folder of a vocabulary.

    Returns those that the file sets. Raises ValueError if the file is damaged.
    """
    told = read_tokenizer_config(tokenizer_file_of(vocab_file))
    return {name: told[name] for name in _CASING if told.get(name) is not None}


def read_tokenizer_config(path: str | os.PathLike) -> dict[str, Any]:
    """Returns the values of a `tokenizer_config.json`; {} if it does not exist.

    Logs settings that this project ignores. Raises ValueError if the file is damaged.
    """
    if not paths.is_file(path):
        return {}
    needed = "give JSON with do_lower_case, or delete it"
    values = json_files.parse_json(text_files.read_text(path, needed), os.fspath(path), needed)
    if not isinstance(values, dict):
        raise ValueError(f"{path} is not a JSON object; {needed}")
    for name in _CASING:
        if not isinstance(values.get(name), bool | None):
            raise ValueError(f"{path}: {name} is {json.dumps(values[name])}, but must be true or false; correct it")
    kind = values.get("tokenizer_class")
    if isinstance(kind, str) and "BertTokenizer" not in kind and kind not in _ANY_TOKENIZER:
        log.warning(
            "%s: tokenizer_class is %s, but text is split as by BertTokenizer: give text that is split as in the "
            "model's training, or expect wrong answers",
            path,
            kind,
        )
    if values.get("tokenize_chinese_chars") is False:
        log.warning("%s: tokenize_chinese_chars is false, which is ignored: each Chinese character is a word", path)
    return values


def tokenizer_config_text(do_lower_case: bool, strip_accents: bool | None, longest: int | None = None) -> str:
    """Returns a `tokenizer_config.json`, which `read_tokenizer_config` and other libraries read.

    Args:
        strip_accents: None: the same as do_lower_case.
        longest: maximum number of tokens in a sequence of the model; None: unknown.
    """
    values: dict[str, Any] = {"do_lower_case": do_lower_case}
    if longest is not None:
        values["model_max_length"] = longest
    values["tokenizer_class"] = "BertTokenizer"
    if strip_accents is not None:
        values["strip_accents"] = strip_accents
    values |= {"tokenize_chinese_chars": True, **_SPECIAL_TOKENS}
    return json.dumps(values, indent=2) + "\n"


def check_casing(
    tokenizer_file: str | os.PathLike, told: Mapping[str, Any], do_lower_case: bool | None, strip_accents: bool | None
) -> None:
    """Raises ValueError if a given casing contradicts the values `told` of the `tokenizer_config.json`.

    Text that is prepared differently than for the vocabulary becomes [UNK]. None contradicts nothing.
    """
    accents = told.get("do_lower_case") if told.get("strip_accents") is None else told["strip_accents"]
    for name, given, is_set in (
        ("do_lower_case", do_lower_case, told.get("do_lower_case")),
        ("strip_accents", strip_accents, accents),
    ):
        if None not in (given, is_set) and given != is_set:
            raise ValueError(
                f"{name}={given} was given, but {tokenizer_file} sets {name}={is_set} for its vocabulary; leave out "
                f"{name}, or correct the file if it is wrong"
            )


def find_casing(
    tokenizer_file: str | os.PathLike,
    told: Mapping[str, Any],
    vocab_file: str | os.PathLike,
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
) -> tuple[bool, bool | None, list[str]]:
    """Returns do_lower_case and strip_accents of a model, and lines for the log that say where they come from.

    The casing comes from the first of these that exists: the arguments, the values `told` of the
    `tokenizer_config.json` at `tokenizer_file`, a guess from the words of the vocabulary. Raises ValueError if the
    arguments contradict the file.
    """
    check_casing(tokenizer_file, told, do_lower_case, strip_accents)
    reason = reason_of_accents = "as requested"
    if strip_accents is None:
        strip_accents, reason_of_accents = told.get("strip_accents"), f"set in {tokenizer_file}"
    if do_lower_case is None:
        do_lower_case, reason = told.get("do_lower_case"), f"set in {tokenizer_file}"
    if do_lower_case is None:
        do_lower_case = not is_cased(set(read_tokens(vocab_file)), strip_accents)
        reason = f"guessed from the words of {vocab_file}"
    lines = [f"{'lower-casing text' if do_lower_case else 'keeping capital letters'} ({reason})"]
    if strip_accents is not None:
        lines.append(f"{'stripping' if strip_accents else 'keeping'} accents ({reason_of_accents})")
    return do_lower_case, strip_accents, lines


def find_vocabulary(path: str | os.PathLike) -> str:
    """Returns the path of the `vocab.txt` of a model.

    Args:
        path: a folder, a run folder, a file or the prefix of a checkpoint, or `hf://owner/name`. Of a model on Hugging
            Face, only the vocabulary and the `tokenizer_config.json` are downloaded.

    Raises:
        FileNotFoundError: there is no such model, or it has no vocab.txt.
        ValueError, OSError: as of `storage.hub.fetch`.
    """
    folder = path = os.fspath(path)
    if path.startswith(SCHEME):
        folder = fetch(path.rstrip("/"), (VOCABULARY_FILE, TOKENIZER_FILE))
    elif paths.is_file(path) or paths.is_file(f"{path}.index"):
        folder = paths.parent(path)
    # Fine-tuning puts the model into a folder in the folder of the run.
    for file in (paths.join(folder, "model", VOCABULARY_FILE), paths.join(folder, VOCABULARY_FILE)):
        if paths.is_file(file):
            return file
    raise FileNotFoundError(
        f"{path} has no {VOCABULARY_FILE}; give the folder of a model, the prefix of its checkpoint, or "
        "hf://owner/name; to read a vocabulary without a model, call FullTokenizer(vocab_file)"
    )
