"""Checks that a vocabulary belongs to a model: it has a token for each embedding row, and the right casing."""

import dataclasses
import logging
import os
from collections.abc import Sequence

from bert_keras.mistakes import Message, Mistake
from bert_keras.modeling.config import BertConfig
from bert_keras.storage.tokenizer.casing import changes_many, is_cased
from bert_keras.storage.tokenizer.vocabulary import Tokens, read_tokens

log = logging.getLogger("bert_keras")

# Tables of words have a multiple of one of these numbers of rows if they are padded.
_MULTIPLES = (8, 16, 32, 64, 128)


def check_vocabulary(
    vocab_file: str | os.PathLike | Sequence[str],
    config: BertConfig,
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
    casing_file: str | None = None,
) -> None:
    """Checks the size of a vocabulary file, and that the text has the same casing as the vocabulary.

    If the text keeps its capitals and the vocabulary has none, the function only logs a warning.

    Differs from the original BERT: `validate_case_matches_checkpoint` compares the name of the checkpoint's folder with
    a fixed list.

    Args:
        vocab_file: path of a vocabulary, see `storage.tokenizer.vocabulary.read_tokens`.
        config: of the model.
        do_lower_case: whether the text is lower-cased; None: unknown.
        strip_accents: whether the text loses its accents; None: as do_lower_case.
        casing_file: the file that sets do_lower_case, if one does.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the number of tokens is wrong, the file is not UTF-8, or it is cased and the text is lower-cased.
    """
    tokens = read_tokens(vocab_file)
    vocab_file = tokens.name
    num_rows = config.vocab_size
    # Text never contains the token of a blank line, so blank lines at the end need no rows.
    if len(tokens) < num_rows and not _is_padding(len(tokens), num_rows) or any(tokens[num_rows:]):
        more = (
            "and append a line such as [spare1] for each row without a token"
            if len(tokens) < num_rows
            else "or a model with a row for each token, such as one that convert_checkpoint.py --extend_vocab writes"
        )
        raise Mistake(
            "{!s} has {} tokens, but the model has {} rows of word embeddings; give the model's own vocabulary, {}",
            vocab_file,
            len(tokens),
            num_rows,
            more,
        )
    if do_lower_case and is_cased(tokens, strip_accents):
        raise Mistake(
            "{} is cased, and lower-cased text never contains its tokens with capitals or accents; {}",
            vocab_file,
            _advice(tokens, do_lower_case, casing_file),
        )
    if do_lower_case is False and changes_many(str.upper, tokens) and not changes_many(str.lower, tokens):
        log.warning(
            Message(
                "{} has no tokens with capitals, but the text keeps its capitals, so capitalised words "
                "become [UNK]; if the model was trained on lower-cased text, {}",
                vocab_file,
                _advice(tokens, do_lower_case, casing_file),
            )
        )


def _advice(tokens: Tokens, do_lower_case: bool | None, file: str | None) -> Message:
    is_case = not do_lower_case or is_cased(tokens, strip_accents=False)  # else only the accents are lost
    value = is_case and not do_lower_case
    if not file:
        return Message("give {do_lower_case}={}" if is_case else "give {strip_accents}={}", value)
    # A setting must not contradict the file.
    case_key = "lowercase" if file.endswith("tokenizer.json") else "do_lower_case"
    key = case_key if is_case else "strip_accents"
    return Message("set {} to {} in {}", key, str(value).lower(), file)


def _is_padding(num_tokens: int, num_rows: int) -> bool:
    """Returns whether a table has spare rows only so that a processor takes it faster, as other programs make it."""
    return any(num_rows % multiple == 0 and num_rows - num_tokens < multiple for multiple in _MULTIPLES)


def with_blank_tokens(tokens: Tokens, num_rows: int) -> Tokens:
    """Returns the tokens of a vocabulary with blank ones for the rows of a table that have none, which the log reports.

    Text never contains a blank token.
    """
    num_spare = num_rows - len(tokens)
    if num_spare <= 0:
        return tokens
    level = logging.INFO if _is_padding(len(tokens), num_rows) else logging.WARNING
    log.log(level, "%s has no token for %d of the %d rows of word embeddings", tokens.name, num_spare, num_rows)
    return Tokens([*tokens, *[""] * num_spare], tokens.name, tokens.longest_word)


def with_blank_lines(content: bytes, num_rows: int) -> bytes:
    """Returns the content of a `vocab.txt` with blank lines at its end for the rows of a table that have no token."""
    lines = content.removesuffix(b"\n")
    num_spare = num_rows - lines.count(b"\n") - 1
    return lines + b"\n" * (1 + num_spare) if num_spare > 0 else content


def with_vocab_size(config: BertConfig, tokens: Sequence[str] | int, source: str) -> BertConfig:
    """Returns the config of a model with random weights: it has a row for each token, which the log reports.

    Differs from the original BERT, where the user writes the number into the config.

    Args:
        tokens: of the vocabulary, or their number. Blank lines at the end need no rows.
        source: where the vocabulary is.
    """
    least = most = tokens if isinstance(tokens, int) else len(tokens)
    while not isinstance(tokens, int) and least and not tokens[least - 1]:
        least -= 1
    if least <= config.vocab_size <= most:
        return config
    log.info(
        "random weights for the %s tokens of %s (vocab_size in the config: %s)",
        f"{least:,}",
        source,
        f"{config.vocab_size:,}",
    )
    return dataclasses.replace(config, vocab_size=least)
