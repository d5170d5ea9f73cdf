"""Reads vocabularies, and finds how text is prepared for them."""

import collections
import json
import logging
import os
from collections.abc import Collection, Sequence
from typing import Any

from bert_keras.mistakes import Mistake, Setting
from bert_keras.storage import paths
from bert_keras.storage.hub import SCHEME, fetch
from bert_keras.storage.tokenizer.casing import is_cased
from bert_keras.storage.tokenizer.files import TOKENIZER_FILES, TokenizerFiles
from bert_keras.storage.tokenizer.json_file import SPECIAL_TOKENS, TOKENIZER_JSON
from bert_keras.storage.tokenizer.keys import NAMED, ORIGINAL_RULES, TEXT_RULES, TextRules
from bert_keras.storage.tokenizer.vocabulary import TOKENIZER_CONFIG, VOCAB_FILE, Tokens, read_tokens, vocabulary_in

log = logging.getLogger("bert_keras")


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
    return paths.join(paths.parent(vocab_file), TOKENIZER_CONFIG)


def files_of_vocabulary(vocab_file: str | os.PathLike) -> TokenizerFiles:
    """Returns the files of the tokenizer in the folder of a vocabulary, without values that would give other tokens."""
    return TokenizerFiles(paths.parent(vocab_file)).check()


def tokenizer_config_text(
    do_lower_case: bool,
    strip_accents: bool | None,
    longest: int | None = None,
    longest_word: int | None = None,
    rules: TextRules = ORIGINAL_RULES,
) -> str:
    """Returns a `tokenizer_config.json`, which `TokenizerFiles` and other libraries read.

    Args:
        strip_accents: None: the same as do_lower_case.
        longest: maximum number of tokens in a sequence of the model; None: unknown.
        longest_word: in characters, see `storage.tokenizer.vocabulary.Tokens`; None: that of the original BERT.
        rules: how texts become sequences.
    """
    values: dict[str, Any] = {"do_lower_case": do_lower_case}
    if longest is not None:
        values["model_max_length"] = longest
    if longest_word is not None:
        values["max_input_chars_per_word"] = longest_word
    values["tokenizer_class"] = "BertTokenizer"
    if strip_accents is not None:
        values["strip_accents"] = strip_accents
    values |= {"tokenize_chinese_chars": True, **dict(zip(NAMED, SPECIAL_TOKENS, strict=True))}
    if rules != ORIGINAL_RULES:
        values[TEXT_RULES] = rules.to_json()
    return json.dumps(values, indent=2) + "\n"


def check_casing(files: TokenizerFiles, do_lower_case: bool | None, strip_accents: bool | None) -> None:
    """Raises ValueError if a given casing contradicts the files of the tokenizer.

    Text that is prepared differently than for the vocabulary becomes [UNK]. None contradicts nothing.
    """
    lower_case = files.casing.get("do_lower_case")
    is_set = {"do_lower_case": lower_case, "strip_accents": files.casing.get("strip_accents", lower_case)}
    for name, given in (("do_lower_case", do_lower_case), ("strip_accents", strip_accents)):
        fact = is_set[name]
        if given is not None and fact and fact.file and given != fact.value:
            raise Mistake(
                "{}={} was given, but {} sets {}={} for its vocabulary; leave it out, or correct the file if it is "
                "wrong",
                *(Setting(name), given, fact.file, name, fact.value),
            )


def find_casing(
    files: TokenizerFiles,
    vocab_file: str | os.PathLike | Tokens,
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
) -> tuple[bool, bool | None, list[str]]:
    """Returns do_lower_case and strip_accents of a model, and lines for the log that say where they come from.

    The casing comes from the first of these that exists: the arguments, the files of the tokenizer, a guess from the
    words of the vocabulary. Raises ValueError if the arguments contradict the files.
    """
    check_casing(files, do_lower_case, strip_accents)
    reason = reason_of_accents = "as requested"
    if strip_accents is None and (fact := files.casing.get("strip_accents")):
        strip_accents, reason_of_accents = fact.value, fact.source
    if do_lower_case is None and (fact := files.casing.get("do_lower_case")):
        do_lower_case, reason = fact.value, fact.source
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
        FileNotFoundError: the model does not exist or has no vocabulary.
        ValueError, OSError: as of `storage.hub.fetch`.
    """
    folder = path = os.fspath(path)
    if path.startswith(SCHEME):
        folder = fetch(path.rstrip("/"), (VOCAB_FILE, *TOKENIZER_FILES))
    elif paths.is_file(path) or paths.is_file(f"{path}.index"):
        folder = paths.parent(path)
    # Fine-tuning puts the model into a folder in the folder of the run.
    found = vocabulary_in(paths.join(folder, "model")) or vocabulary_in(folder)
    if found is None:
        raise FileNotFoundError(
            f"{path} has no {VOCAB_FILE}, and no {TOKENIZER_JSON} with word pieces; give the folder of a model, "
            "the prefix of its checkpoint, or hf://owner/name; to read a vocabulary without a model, call "
            "FullTokenizer(vocab_file)"
        )
    return found
