"""Learns a WordPiece vocabulary from counted words and measures how well it covers them.

TensorFlow Text learns the vocabulary (`wordpiece_tokenizer_learner_lib`). It splits each word into the longest word
pieces and keeps the pieces used at least n times. It chooses n so that the vocabulary has the requested size.
"""

import collections
import dataclasses
import logging
import math
import re
from collections.abc import Mapping, Sequence

from bert_keras.data_prep.text.splitting import LONGEST_WORD_TO_SPLIT, WordpieceTokenizer
from bert_keras.mistakes import Message, Mistake

log = logging.getLogger("bert_keras")

MOST_WORDS_TO_LEARN_FROM = 300_000
_LONGEST_WORD = 50  # in characters; longer words are not used for learning
# Thai, Lao, Burmese and Khmer: a clause is one word.
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_SMALLEST_ALPHABET, _COVERED = 1000, 0.9999
MOST_UNKNOWN = 0.01  # of the words; a larger share is worth a warning
_UNUSED_BEFORE = 99  # number of [unusedN] before the special tokens, as in the original BERT
_SLACK = 0.05
_LOWEST_TO_HIGHEST = 64


@dataclasses.dataclass(frozen=True)
class Coverage:
    """Coverage of the words of a text by a vocabulary; shares are from 0 to 1.

    Attributes:
        num_words, num_different: all words, and different words.
        whole_share: of the words that are one token.
        pieces_per_word: average.
        unknown_share: of the words that become [UNK].
        too_long_share: of the words that become [UNK] because they have too many characters.
        unknown_character_share: of the characters that are not in the vocabulary.
        unknown_characters: at most 20 of them, the most frequent first.
    """

    num_words: int
    num_different: int
    whole_share: float
    pieces_per_word: float
    unknown_share: float
    too_long_share: float
    unknown_character_share: float
    unknown_characters: str


def reserved_tokens(num_unused: int) -> list[str]:
    """Returns the reserved tokens that start a vocabulary, in the order of the original BERT.

    With 994 unused tokens, as in the released vocabularies, [UNK] has id 100 and the first learned token has id 999.
    """
    unused = [f"[unused{number}]" for number in range(num_unused)]
    special = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return ["[PAD]", *unused[:_UNUSED_BEFORE], *special, *unused[_UNUSED_BEFORE:]]


def learn_vocabulary(
    counts: Mapping[str, int], vocab_size: int = 30522, num_unused: int = 994, alphabet_size: int | None = None
) -> list[str]:
    """Learns a vocabulary of at most `vocab_size` tokens from the number of occurrences of each word.

    The `alphabet_size` most frequent characters become tokens, at the start of a word and inside; words with other
    characters become [UNK]. None: 1,000 characters, or as many as cover 99.99 % of the text. Returns the tokens in the
    order of their ids: reserved tokens (`num_unused` of them for words that users add later), the alphabet, then the
    others by decreasing use.
    """
    reserved = reserved_tokens(num_unused)
    frequent = _words_to_learn_from(counts)
    frequent.sort(key=lambda item: (-item[1], item[0]))
    frequent = frequent[:MOST_WORDS_TO_LEARN_FROM]
    characters = collections.Counter()
    for word, count in frequent:
        for character in word:
            characters[character] += count
    if alphabet_size is None:
        alphabet_size = _enough_characters(characters)
    used = _used_characters(frequent, characters, alphabet_size)
    num_fixed = len(reserved) + len(used)
    if num_fixed > vocab_size:
        raise Mistake(
            "{vocab_size}={} is too small for {} reserved tokens and {} characters at the beginning of words "
            "and inside, which need {}; give more, or a smaller {num_unused} or {alphabet_size}",
            vocab_size,
            len(reserved),
            len(used),
            num_fixed,
        )
    log.info(
        "learning from %s of %s different words, %.2f %% of the text",
        f"{len(frequent):,}",
        f"{len(counts):,}",
        100 * characters.total() / sum(len(word) * count for word, count in counts.items()),
    )
    pieces = _learn(frequent, vocab_size, reserved, alphabet_size) if frequent else reserved
    if len(pieces) < vocab_size:
        log.warning(Message("the text gives only {} tokens, fewer than {vocab_size}={}", len(pieces), vocab_size))
    return _shorten(pieces, vocab_size, used.union(reserved))


def _words_to_learn_from(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Returns words that are not too long, and the clauses of scripts without spaces in parts of that length."""
    frequent, parts = [], collections.Counter()
    for word, count in counts.items():
        if len(word) <= _LONGEST_WORD:
            frequent.append((word, count))
        elif _WITHOUT_SPACES.search(word):
            for start in range(0, len(word), _LONGEST_WORD):
                parts[word[start : start + _LONGEST_WORD]] += count
    return [(word, count + parts.pop(word, 0)) for word, count in frequent] + list(parts.items())


def _enough_characters(characters: collections.Counter) -> int:
    """Returns how many of the most frequent characters cover almost the whole text, at least `_SMALLEST_ALPHABET`."""
    needed, covered = _COVERED * characters.total(), 0
    for number, (_, count) in enumerate(characters.most_common(), 1):
        covered += count
        if covered >= needed:
            return max(number, _SMALLEST_ALPHABET)
    return _SMALLEST_ALPHABET


def _used_characters(
    frequent: Sequence[tuple[str, int]], characters: collections.Counter, alphabet_size: int
) -> set[str]:
    """Returns the tokens of single characters that the words with characters of the alphabet alone need."""
    most_frequent = sorted(characters.items(), key=lambda item: (-item[1], item[0]))[:alphabet_size]
    alphabet = {character for character, _ in most_frequent}
    words = [word for word, _ in frequent if alphabet.issuperset(word)]
    return {word[0] for word in words} | {f"##{character}" for word in words for character in word[1:]}


def _learn(frequent: list[tuple[str, int]], vocab_size: int, reserved: list[str], alphabet_size: int) -> list[str]:
    """Learns slightly more tokens than requested, if the words give enough."""
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib

    # Every word at least this frequent becomes a token, so a lower threshold would give too many tokens.
    lowest = frequent[vocab_size - 1][1] if vocab_size <= len(frequent) else 1
    return wordpiece_tokenizer_learner_lib.learn(
        frequent,
        math.ceil(vocab_size * (1 + _SLACK)),
        reserved,
        upper_thresh=_LOWEST_TO_HIGHEST * lowest,
        lower_thresh=lowest,
        max_unique_chars=alphabet_size,
        max_token_length=_LONGEST_WORD,
        slack_ratio=_SLACK / (1 + _SLACK),
    )


def _shorten(pieces: list[str], vocab_size: int, needed: set[str]) -> list[str]:
    """Removes the least used tokens of several characters, then single characters where no word has them."""
    removed = set()
    for is_character in (False, True):
        for piece in reversed(pieces):
            is_single = len(piece.removeprefix("##") or piece) == 1
            if len(pieces) - len(removed) > vocab_size and piece not in needed and is_single == is_character:
                removed.add(piece)
    return [piece for piece in pieces if piece not in removed]


def cover(counts: Mapping[str, int], pieces: Sequence[str]) -> Coverage:
    """Returns how well a vocabulary covers counted words."""
    split_word = WordpieceTokenizer({piece: number for number, piece in enumerate(pieces)}).split_word
    known, unknown_characters = set(pieces), collections.Counter()
    num_words = num_whole = num_pieces = num_unknown = num_too_long = num_characters = 0
    for word, count in counts.items():
        split = split_word(word)
        num_words += count
        num_pieces += count * len(split)
        num_characters += count * len(word)
        if split == ["[UNK]"]:
            num_unknown += count
            num_too_long += count * (len(word) > LONGEST_WORD_TO_SPLIT)
            for character in word:
                if character not in known and f"##{character}" not in known:
                    unknown_characters[character] += count
        elif len(split) == 1:
            num_whole += count
    most = sorted(unknown_characters.items(), key=lambda item: (-item[1], item[0]))[:20]
    return Coverage(
        num_words,
        len(counts),
        num_whole / num_words,
        num_pieces / num_words,
        num_unknown / num_words,
        num_too_long / num_words,
        unknown_characters.total() / num_characters,
        "".join(character for character, _ in most),
    )
