"""Learns a WordPiece vocabulary from counted words.

The package tokenizers learns it: it joins the most frequent pair of neighbouring pieces, again and again. So a smaller
vocabulary is the beginning of a larger one.
"""

import collections
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from bert_keras.mistakes import Mistake

MOST_WORDS_TO_LEARN_FROM = 300_000
_LONGEST_WORD = 50  # in characters; longer words are not used for learning
# Thai, Lao, Burmese and Khmer: a clause is one word.
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_SMALLEST_ALPHABET, _COVERED = 1000, 0.9999
_UNUSED_BEFORE = 99  # number of [unusedN] before the special tokens, as in the original BERT
# The package counts words itself, a million a second, so a large text is made smaller in proportion.
_MOST_OCCURRENCES = 10_000_000
_AT_ONCE = 1000


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
    others in the order in which they were learned, the most frequent first. The same counts always give the same
    vocabulary. It has fewer tokens if all words of the text are tokens.
    """
    reserved, words = reserved_tokens(num_unused), words_to_learn_from(counts)
    characters = collections.Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    known = _alphabet(characters, alphabet_size)
    words = {word: count for word, count in words.items() if known.issuperset(word)}
    starts = sorted({word[0] for word in words})
    inside = sorted({f"##{character}" for word in words for character in word[1:]})
    num_fixed = len(reserved) + len(starts) + len(inside)
    if num_fixed > vocab_size:
        raise Mistake(
            "{vocab_size}={} is too small for {} reserved tokens and {} characters at the beginning of words "
            "and inside, which need {}; give more, or a smaller {num_unused} or {alphabet_size}",
            vocab_size,
            len(reserved),
            num_fixed - len(reserved),
            num_fixed,
        )
    return [*reserved, *starts, *inside, *_learn(words, starts, inside, vocab_size - num_fixed)]


def words_to_learn_from(counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the most frequent words, the most frequent first, without very long ones.

    Clauses of scripts without spaces are in parts.
    """
    usable, parts = {}, collections.Counter()
    for word, count in counts.items():
        if len(word) <= _LONGEST_WORD:
            usable[word] = count
        elif _WITHOUT_SPACES.search(word):
            for start in range(0, len(word), _LONGEST_WORD):
                parts[word[start : start + _LONGEST_WORD]] += count
    for part, count in parts.items():
        usable[part] = usable.get(part, 0) + count
    return dict(sorted(usable.items(), key=lambda item: (-item[1], item[0]))[:MOST_WORDS_TO_LEARN_FROM])


def _alphabet(characters: collections.Counter, alphabet_size: int | None) -> set[str]:
    """Returns the most frequent characters; None: those that cover almost the whole text, at least 1,000."""
    most_frequent = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
    if alphabet_size is None:
        covered, needed = itertools.accumulate(count for _, count in most_frequent), _COVERED * characters.total()
        alphabet_size = max(1 + sum(count < needed for count in covered), _SMALLEST_ALPHABET)
    return {character for character, _ in most_frequent[:alphabet_size]}


def _learn(words: Mapping[str, int], starts: Sequence[str], inside: Sequence[str], num_pieces: int) -> list[str]:
    """Returns at most `num_pieces` pieces of several characters, in the order in which they were learned.

    The package breaks ties by the ids of pieces, and gives characters ids in the order of a hash table. The ids of
    special tokens are those of their list, so all characters are special tokens here.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import CharDelimiterSplit
    from tokenizers.trainers import WordPieceTrainer

    if not words:
        return []
    only_inside = sorted({piece[2:] for piece in inside} - set(starts))
    fixed = [*starts, *only_inside, *inside]
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = CharDelimiterSplit("\n")
    trainer = WordPieceTrainer(vocab_size=len(fixed) + num_pieces, special_tokens=fixed, show_progress=False)
    tokenizer.train_from_iterator(_occurrences(words), trainer)
    ids = tokenizer.get_vocab(with_added_tokens=False)
    return sorted(ids, key=lambda piece: ids[piece])[len(fixed) :]


def _occurrences(words: Mapping[str, int]) -> Iterator[str]:
    """Yields texts with one word a line, each word as often as in the text, or in proportion."""
    total, before = sum(words.values()), 0
    most = min(total, _MOST_OCCURRENCES)
    for word, count in words.items():
        # All words before and this one together are in proportion, so rounding does not drop the rare ones.
        number = (before + count) * most // total - before * most // total
        before += count
        while number > 0:
            yield "\n".join([word] * min(number, _AT_ONCE))
            number -= _AT_ONCE
