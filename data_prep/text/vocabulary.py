"""Adds domain words to a vocabulary."""

import dataclasses
import os
import re
from collections.abc import Sequence

from bert_keras.data_prep.text.splitting import LONGEST_WORD_TO_SPLIT, BasicTokenizer, WordpieceTokenizer
from bert_keras.data_prep.text.tokenization import convert_tokens_to_ids
from bert_keras.mistakes import Mistake, some_of
from bert_keras.storage import text_files
from bert_keras.storage.tokenizer.vocabulary import read_tokens

_SLOT = re.compile(r"\[unused\d+\]")


@dataclasses.dataclass(frozen=True)
class AddedWord:
    """Word that was added to a vocabulary, after the tokenizer's lower-casing and accent stripping."""

    word: str
    id: int
    slot: str | None  # the token that the word replaced, such as "[unused17]"; None for a new id
    piece_ids: tuple[int, ...]  # of the word pieces that the word was split into before


@dataclasses.dataclass(frozen=True)
class ExtendedVocabulary:
    """Result of `extend_vocabulary`: all tokens in the order of their ids, the new words, and those that were there."""

    tokens: list[str]
    added: list[AddedWord]
    present: list[str]


def read_words(words_file: str | os.PathLike) -> dict[str, int]:
    """Returns the stripped words of a file with one word a line, each with the number of its first line, from 1."""
    text, words = text_files.read_text(words_file, "give a file with one word a line"), {}
    for number, line in enumerate(text_files.LINE_END.split(text), 1):
        if line.strip():
            words.setdefault(line.strip(), number)
    return words


def extend_vocabulary(
    vocab_file: str | os.PathLike | Sequence[str],
    words_file: str | os.PathLike,
    do_lower_case: bool,
    strip_accents: bool | None = None,
) -> ExtendedVocabulary:
    """Adds the words of a file to a vocabulary: replaces its `[unusedN]` tokens first, then appends at the end.

    No other token changes its id. Does not write the file. The casing applies to the words too. Raises ValueError if
    the tokenizer never produces one of the words, or a word needs `[UNK]` and the vocabulary lacks it.
    """
    tokens = read_tokens(vocab_file)
    longest = tokens.longest_word or LONGEST_WORD_TO_SPLIT
    vocab = {token: number for number, token in enumerate(tokens)}
    slots = iter([piece for piece in vocab if _SLOT.fullmatch(piece)])
    pieces_of = WordpieceTokenizer(vocab, max_input_chars_per_word=longest).split_word
    added, present = {}, []
    for word in _normalised(words_file, BasicTokenizer(do_lower_case, strip_accents), longest):
        if word in vocab:
            present.append(word)
            continue
        slot = next(slots, None)
        piece_ids = tuple(convert_tokens_to_ids(vocab, pieces_of(word)))
        added[word] = AddedWord(word, len(tokens) if slot is None else vocab[slot], slot, piece_ids)
        tokens[added[word].id : added[word].id + 1] = [word]
    return ExtendedVocabulary(tokens, list(added.values()), present)


def _normalised(words_file: str | os.PathLike, tokenizer: BasicTokenizer, longest: int) -> list[str]:
    normalised, refused = [], []
    for word, line in read_words(words_file).items():
        parts = tokenizer.tokenize(word)
        if len(parts) == 1 and len(parts[0]) <= longest:
            normalised += parts
        else:
            reason = " ".join(parts) if len(parts) > 1 else f"{len(word)} characters"
            refused.append(f'line {line} "{word[:40]}" ({reason[:60]})')
    if refused:
        raise Mistake(
            "{}: the tokenizer would never find {}, because it splits text at "
            "white space and punctuation and takes words of at most {} characters; give single words",
            words_file,
            some_of(refused, 5, "; "),
            longest,
        )
    return list(dict.fromkeys(normalised))
