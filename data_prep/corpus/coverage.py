"""Measures how well vocabularies cover counted words: those of held-out lines, for several sizes."""

import collections
import dataclasses
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rich.table import Table

from bert_keras.data_prep.corpus.word_counts import Words
from bert_keras.data_prep.text.learning import learn_vocabulary
from bert_keras.data_prep.text.splitting import LONGEST_WORD_TO_SPLIT, BasicTokenizer, WordpieceTokenizer
from bert_keras.data_prep.text.vocabulary_files import files_of_vocabulary, find_casing
from bert_keras.mistakes import Message, Mistake, Setting
from bert_keras.storage.tokenizer.vocabulary import Tokens, read_tokens

log = logging.getLogger("bert_keras")

_MOST_UNKNOWN = 0.01  # of the words; a larger share is worth a warning
_SIZES = (0.25, 0.5, 1, 2)  # of the table, as shares of the size of the vocabulary


@dataclasses.dataclass(frozen=True)
class Coverage:
    """Coverage of the words of a text by a vocabulary; shares are from 0 to 1.

    Attributes:
        num_words, num_different: all words, and different words.
        whole_share: of the words that are one token.
        pieces_per_word: average.
        unknown_share: of the words that become [UNK], or a part of which does.
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


def cover(
    counts: Mapping[str, int],
    pieces: Sequence[str],
    prepare: Callable[[str], list[str]] = lambda word: [word],
    longest_word: int = LONGEST_WORD_TO_SPLIT,
) -> Coverage:
    """Returns how well a vocabulary covers counted words.

    Args:
        prepare: returns the words of the vocabulary's own tokenizer for a word, if that lower-cases or strips accents.
        longest_word: words with more characters are unknown.
    """
    vocab = {piece: number for number, piece in enumerate(pieces)}
    split_word = WordpieceTokenizer(vocab, max_input_chars_per_word=longest_word).split_word
    unknown_characters = collections.Counter()
    num_words = num_whole = num_pieces = num_unknown = num_too_long = num_characters = 0
    for word, count in counts.items():
        parts = prepare(word)
        split = [piece for part in parts for piece in split_word(part)]
        num_words += count
        num_pieces += count * len(split)
        num_characters += count * sum(map(len, parts))
        if "[UNK]" in split:
            num_unknown += count
            num_too_long += count * any(len(part) > longest_word for part in parts)
            for character in "".join(parts):
                if character not in vocab and f"##{character}" not in vocab:
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
        unknown_characters.total() / max(1, num_characters),
        "".join(character for character, _ in most),
    )


class Other(NamedTuple):
    """A vocabulary to compare with, and how text is prepared for it."""

    tokens: Tokens
    tokenizer: BasicTokenizer


def open_vocabulary(file: str, tokenizer: BasicTokenizer) -> Other:
    """Opens a vocabulary to compare with, given the tokenizer of the new one.

    Raises ValueError if the words of the new one have lost the capitals or accents that the other needs.
    """
    tokens = read_tokens(file)
    do_lower_case, strip_accents, _ = find_casing(files_of_vocabulary(file), tokens)
    other = BasicTokenizer(do_lower_case, strip_accents)
    for name in ("do_lower_case", "strip_accents"):
        if getattr(tokenizer, name) and not getattr(other, name):
            raise Mistake(
                "{compare_vocab_file}={} is for text with {}=False, but the words of this text have {}=True; leave it "
                "out, or give {}=False",
                file,
                *[Setting(name)] * 3,
            )
    return Other(tokens, other)


def measure(
    words: Words, vocab_size: int, num_unused: int, alphabet_size: int | None, other: Other | None = None
) -> dict[str, Coverage]:
    """Returns the coverage of the held-out lines by vocabularies of several sizes that the other lines give.

    The keys are their sizes, and the name of the other vocabulary with its size. A text that is too short to hold out
    lines measures itself, with a warning.
    """
    rest, held_out = words.all - words.held_out, words.held_out
    if rest and held_out:
        log.info(
            "measuring on %s words of every tenth line, chosen by the hash of its text, with vocabularies of the other "
            "lines",
            f"{held_out.total():,}",
        )
    else:
        rest = held_out = words.all
        log.warning(
            "the text has too few lines to hold some out, so the table measures the text itself; new text has more "
            "word pieces per word"
        )
    pieces = learn_vocabulary(rest, int(_SIZES[-1] * vocab_size), num_unused, alphabet_size)
    num_fixed = num_unused + sum(len(piece.removeprefix("##")) == 1 for piece in pieces) + 5
    sizes = sorted({min(len(pieces), max(num_fixed, int(share * vocab_size))) for share in _SIZES})
    found = {f"{size:,}": cover(held_out, pieces[:size]) for size in sizes}
    if other:
        name = f"{os.path.basename(other.tokens.name)} ({len(other.tokens):,})"
        longest = other.tokens.longest_word or LONGEST_WORD_TO_SPLIT
        found[name] = cover(held_out, other.tokens, other.tokenizer.tokenize, longest)
    return found


def coverage_table(measured: Mapping[str, Coverage]) -> Table:
    """Returns a table with a column for each vocabulary."""
    table = Table("tokens", *measured, show_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("word pieces per word", *(f"{coverage.pieces_per_word:.3f}" for coverage in measured.values()))
    for label, name in (("words of one token", "whole_share"), ("unknown words", "unknown_share")):
        table.add_row(label, *(f"{100 * getattr(coverage, name):.2f} %" for coverage in measured.values()))
    if any(coverage.unknown_characters for coverage in measured.values()):
        shares = (f"{100 * coverage.unknown_character_share:.2f} %" for coverage in measured.values())
        table.add_row("unknown characters", *shares)
        most = (" ".join(coverage.unknown_characters[:5]) for coverage in measured.values())
        table.add_row("most frequent", *most)
    return table


def warn_about_unknown(text: Coverage, measured: Mapping[str, Coverage]) -> None:
    """Warns if the vocabulary makes many words unknown, of the text that it was learned from or of held-out lines."""
    found = "{:.1f} % of the words are unknown ([UNK]), so a model will not see them: "
    share = 100 * text.unknown_share
    if text.unknown_share > _MOST_UNKNOWN and text.too_long_share > text.unknown_share / 2:
        advice = (
            "most have more than {} characters; insert spaces between words, which Thai and some other languages do "
            "not write"
        )
        log.warning(Message(found + advice, share, LONGEST_WORD_TO_SPLIT))
    elif text.unknown_share > _MOST_UNKNOWN:
        advice = "their characters are too rare for the vocabulary; give a larger {alphabet_size} and {vocab_size}"
        log.warning(Message(found + advice, share))
    elif (unknown := next(iter(measured.values())).unknown_share) > _MOST_UNKNOWN:
        log.warning(
            "%.1f %% of the held-out words are unknown ([UNK]), because no other line has their characters; give more "
            "text",
            100 * unknown,
        )
