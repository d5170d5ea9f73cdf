"""Reads vocabularies, and how text is prepared for them: a `tokenizer_config.json`, or else a `tokenizer.json`."""

import collections
import json
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.storage import json_files, paths, text_files
from bert_keras.storage.casing import is_cased
from bert_keras.storage.hub import SCHEME, fetch
from bert_keras.storage.vocabulary import (
    TOKENIZER_FILES,
    TOKENIZER_JSON,
    VOCABULARY_FILE,
    Tokens,
    check_tokenizer_files,
    read_tokenizer_json,
    read_tokens,
    vocabulary_in,
)

log = logging.getLogger("bert_keras")

TOKENIZER_FILE = "tokenizer_config.json"
_CASING = ("do_lower_case", "strip_accents")
_SPECIAL_TOKENS = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
# Classes of other libraries that say nothing about how text is split.
_ANY_TOKENIZER = ("PreTrainedTokenizerFast", "TokenizersBackend")
# The parts of a `tokenizer.json` that prepare text as a BERT does.
_PARTS = {"normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer"}


def load_vocab(vocab_file: str | os.PathLike | Sequence[str]) -> dict[str, int]:
    """Reads a vocabulary: a file with one token per line, whose id is the line number from 0, or a `tokenizer.json`.

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
    _warn_about_duplicates(tokens.name, tokens)
    return {token: number for number, token in enumerate(tokens)}


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
        raise Mistake("{} lacks {}; {}", name, ", ".join(missing), advice)


def tokenizer_file_of(vocab_file: str | os.PathLike) -> str:
    """Returns the path of the `tokenizer_config.json` in the folder of a vocabulary."""
    return paths.join(paths.parent(vocab_file), TOKENIZER_FILE)


def read_tokenizer_config(path: str | os.PathLike) -> dict[str, Any]:
    """Returns the values of a `tokenizer_config.json`; {} if it does not exist.

    If it does not set the casing, the `tokenizer.json` next to it may. The value "casing_file" is the path of the file
    that does.

    Logs settings that this project ignores. Raises ValueError if a file is damaged, or has values that would give other
    tokens, see `storage.vocabulary.check_tokenizer_files`.
    """
    values = _read_config(path) if paths.is_file(path) else {}
    check_tokenizer_files(paths.parent(path))
    json_file = paths.join(paths.parent(path), TOKENIZER_JSON)
    if any(values.get(name) is not None for name in _CASING):
        values["casing_file"] = os.fspath(path)
    elif paths.is_file(json_file):
        values |= _casing_of(json_file)
    return values


def _read_config(path: str | os.PathLike) -> dict[str, Any]:
    needed = "give JSON with do_lower_case, or delete it"
    values = json_files.parse_json(text_files.read_text(path, needed), os.fspath(path), needed)
    if not isinstance(values, dict):
        raise Mistake("{} is not a JSON object; {}", path, needed)
    for name in _CASING:
        if not isinstance(values.get(name), bool | None):
            raise Mistake("{}: {} is {}, but must be true or false; correct it", path, name, json.dumps(values[name]))
    class_name = values.get("tokenizer_class")
    if isinstance(class_name, str) and "BertTokenizer" not in class_name and class_name not in _ANY_TOKENIZER:
        _warn_about_preparation(path, "tokenizer_class", class_name, "BertTokenizer")
    if values.get("tokenize_chinese_chars") is False:
        _warn_about_chinese(path, "tokenize_chinese_chars")
    return values


def _casing_of(json_file: str) -> dict[str, Any]:
    """Returns the casing that the normalizer of a `tokenizer.json` sets."""
    values = read_tokenizer_json(json_file)
    parts = {name: part for name in _PARTS if isinstance(part := values.get(name), dict)}
    types = {name: parts.get(name, {}).get("type") for name in _PARTS}
    for name, needed in _PARTS.items():
        if types[name] != needed:
            _warn_about_preparation(json_file, name, types[name], needed)
    if types["normalizer"] != _PARTS["normalizer"]:
        return {}
    normalizer = parts["normalizer"]
    if normalizer.get("handle_chinese_chars") is False:
        _warn_about_chinese(json_file, "handle_chinese_chars")
    casing = {"do_lower_case": normalizer.get("lowercase"), "strip_accents": normalizer.get("strip_accents")}
    return {"casing_file": json_file, **{name: value for name, value in casing.items() if isinstance(value, bool)}}


def _warn_about_preparation(path: str | os.PathLike, name: str, kind: object, known: str) -> None:
    log.warning(
        "%s: %s is %s, but text is prepared as by %s: give text that is prepared as in the model's training, or expect "
        "wrong answers",
        path,
        name,
        kind,
        known,
    )


def _warn_about_chinese(path: str | os.PathLike, name: str) -> None:
    log.warning("%s: %s is false, which is ignored: each Chinese character is a word", path, name)


def tokenizer_config_text(
    do_lower_case: bool, strip_accents: bool | None, longest: int | None = None, longest_word: int | None = None
) -> str:
    """Returns a `tokenizer_config.json`, which `read_tokenizer_config` and other libraries read.

    Args:
        strip_accents: None: the same as do_lower_case.
        longest: maximum number of tokens in a sequence of the model; None: unknown.
        longest_word: in characters, see `storage.vocabulary.Tokens`; None: that of the original BERT.
    """
    values: dict[str, Any] = {"do_lower_case": do_lower_case}
    if longest is not None:
        values["model_max_length"] = longest
    if longest_word is not None:
        values["max_input_chars_per_word"] = longest_word
    values["tokenizer_class"] = "BertTokenizer"
    if strip_accents is not None:
        values["strip_accents"] = strip_accents
    values |= {"tokenize_chinese_chars": True, **_SPECIAL_TOKENS}
    return json.dumps(values, indent=2) + "\n"


def check_casing(told: Mapping[str, Any], do_lower_case: bool | None, strip_accents: bool | None) -> None:
    """Raises ValueError if a given casing contradicts the values `told` by `read_tokenizer_config`.

    Text that is prepared differently than for the vocabulary becomes [UNK]. None contradicts nothing.
    """
    accents = told.get("do_lower_case") if told.get("strip_accents") is None else told["strip_accents"]
    for name, given, is_set in (
        ("do_lower_case", do_lower_case, told.get("do_lower_case")),
        ("strip_accents", strip_accents, accents),
    ):
        if None not in (given, is_set) and given != is_set:
            raise Mistake(
                "{}={} was given, but {} sets {}={} for its vocabulary; leave "
                "out {}, or correct the file if it is wrong",
                name,
                given,
                told["casing_file"],
                name,
                is_set,
                name,
            )


def find_casing(
    told: Mapping[str, Any],
    vocab_file: str | os.PathLike | Tokens,
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
) -> tuple[bool, bool | None, list[str]]:
    """Returns do_lower_case and strip_accents of a model, and lines for the log that say where they come from.

    The casing comes from the first of these that exists: the arguments, the values `told` by `read_tokenizer_config`, a
    guess from the words of the vocabulary. Raises ValueError if the arguments contradict the values.
    """
    check_casing(told, do_lower_case, strip_accents)
    reason = reason_of_accents = "as requested"
    if strip_accents is None:
        strip_accents, reason_of_accents = told.get("strip_accents"), f"set in {told.get('casing_file')}"
    if do_lower_case is None:
        do_lower_case, reason = told.get("do_lower_case"), f"set in {told.get('casing_file')}"
    if do_lower_case is None:
        tokens = read_tokens(vocab_file)
        do_lower_case = not is_cased(set(tokens), strip_accents)
        reason = f"guessed from the words of {tokens.name}"
    lines = [f"{'lower-casing text' if do_lower_case else 'keeping capital letters'} ({reason})"]
    if strip_accents is not None:
        lines.append(f"{'stripping' if strip_accents else 'keeping'} accents ({reason_of_accents})")
    return do_lower_case, strip_accents, lines


def find_vocabulary(path: str | os.PathLike) -> str:
    """Returns the path of the `vocab.txt` of a model, or of its `tokenizer.json` if it has only that.

    Args:
        path: a folder, a run folder, a file or the prefix of a checkpoint, or `hf://owner/name`. Of a model on Hugging
            Face, only the files of the tokenizer are downloaded.

    Raises:
        FileNotFoundError: there is no such model, or it has no vocabulary.
        ValueError, OSError: as of `storage.hub.fetch`.
    """
    folder = path = os.fspath(path)
    if path.startswith(SCHEME):
        folder = fetch(path.rstrip("/"), (VOCABULARY_FILE, *TOKENIZER_FILES))
    elif paths.is_file(path) or paths.is_file(f"{path}.index"):
        folder = paths.parent(path)
    # Fine-tuning puts the model into a folder in the folder of the run.
    found = vocabulary_in(paths.join(folder, "model")) or vocabulary_in(folder)
    if found is None:
        raise FileNotFoundError(
            f"{path} has no {VOCABULARY_FILE}, and no {TOKENIZER_JSON} with word pieces; give the folder of a model, "
            "the prefix of its checkpoint, or hf://owner/name; to read a vocabulary without a model, call "
            "FullTokenizer(vocab_file)"
        )
    return found
