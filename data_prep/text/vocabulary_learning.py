"""Learns a WordPiece vocabulary from text of any size: counts words, has a library learn pieces, says what they cover.

The learning is that of TensorFlow Text (`wordpiece_tokenizer_learner_lib`): the vocabulary is all pieces that are used
often enough when words are split into the longest ones, for the number of uses that gives the size asked for.
"""

import collections
import dataclasses
import logging
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.text_lines import Dropped, read_lines, text_warnings
from bert_keras.data_prep.corpus.text_sources import opened_texts
from bert_keras.data_prep.corpus.tokenized_corpus import CHUNK_BYTES, Chunk, cut
from bert_keras.data_prep.corpus.workers import ThisProcess, Workers, WorkFolder
from bert_keras.data_prep.text.tokenization import BasicTokenizer, WordpieceTokenizer
from bert_keras.storage import writing

log = logging.getLogger("bert_keras")

MOST_WORDS = 2_000_000  # that are counted
MOST_WORDS_TO_LEARN_FROM = 300_000
_LONGEST_WORD = 50  # to learn from
_UNUSED_BEFORE = 99  # of the original's unused pieces; the others come after the special ones
_SLACK = 0.05
_LOWEST_TO_HIGHEST = 64


@dataclasses.dataclass(frozen=True)
class Coverage:
    """What a vocabulary covers of a text's words, as the tokenizer gives them.

    Attributes:
        num_words: the words of the text; num_different: how many are different.
        whole_share: of the words, those that are pieces themselves.
        pieces_per_word: on average.
        unknown_share: of the words, those that become [UNK].
        unknown_characters: the most frequent characters of those, at most 20, that the vocabulary lacks.
    """

    num_words: int
    num_different: int
    whole_share: float
    pieces_per_word: float
    unknown_share: float
    unknown_characters: str


def count_words(
    files: Sequence[str],
    tokenizer: BasicTokenizer,
    num_workers: int = 1,
    strict_utf8: bool = False,
    progress: Progress | None = None,
    most_words: int = MOST_WORDS,
    chunk_bytes: int = CHUNK_BYTES,
) -> collections.Counter:
    """Counts the words of text files.

    Args:
        files: paths, local or remote, also of compressed text: see `data_prep.corpus.text_sources`.
        tokenizer: splits text into words.
        num_workers: processes that share the work; the counts are the same for any number.
        strict_utf8: refuses text that is not UTF-8 instead of dropping the offending bytes.
        progress: is told of the bytes read.
        most_words: where more are different, the rare ones are forgotten on the way, which the log says.
        chunk_bytes: so much text is a task.

    Returns:
        How often each word occurs.

    Raises:
        ValueError: text that is not UTF-8, with `strict_utf8`, naming file and line; or no word at all.
        OSError: a file cannot be read.
    """
    progress = progress or Progress()
    with opened_texts(files, None, progress) as texts:
        counts, rare = _count(cut(texts, chunk_bytes), tokenizer, num_workers, strict_utf8, progress, most_words)
    if rare:
        log.warning("more than %d different words: those met at most %d times so far were forgotten", most_words, rare)
    if not counts:
        raise ValueError(f"no word was found in {', '.join(files)}; give text")
    return counts


def _count(
    chunks: Mapping[str, Chunk],
    tokenizer: BasicTokenizer,
    num_workers: int,
    strict_utf8: bool,
    progress: Progress,
    most_words: int,
) -> tuple[collections.Counter, int]:
    """Counts the words of all chunks; returns the counts and how often a word that was forgotten occurred at most."""
    tasks = {name: (chunk, strict_utf8) for name, chunk in chunks.items()}
    counts, dropped, rare = collections.Counter(), Dropped(), 0
    progress.start("reading", sum(chunk.end - chunk.start for chunk in chunks.values()), "bytes")
    for name, result in _in_order(_run(tokenizer, tasks, num_workers), tasks):
        counts.update(result["words"])
        dropped.add(Dropped(**result["dropped"]))
        if strict_utf8:
            dropped.refuse_invalid()
        lowest = 0
        while len(counts) > most_words:
            lowest += 1
            counts = collections.Counter({word: count for word, count in counts.items() if count > lowest})
        rare = max(rare, lowest)
        progress.advance(chunks[name].end - chunks[name].start)
    progress.finish()
    for warning in text_warnings(dropped, []):
        log.warning("%s", warning)
    return counts, rare


def _run(tokenizer: BasicTokenizer, tasks: Mapping, num_workers: int) -> Iterator[tuple[str, dict]]:
    with (
        tempfile.TemporaryDirectory() as path,
        WorkFolder(path) as folder,
        ThisProcess(tokenizer) if num_workers == 1 else Workers(num_workers, tokenizer) as workers,
    ):
        yield from workers.run(_count_task, folder, tasks)


def _in_order(results: Iterator[tuple[str, dict]], names: Mapping) -> Iterator[tuple[str, dict]]:
    """Puts results into the order of their names: what is forgotten on the way depends on it."""
    early = {}
    for name in names:
        while name not in early:
            early.update([next(results)])
        yield name, early.pop(name)


def _count_task(tokenizer: BasicTokenizer, folder: WorkFolder, name: str, task: tuple[Chunk, bool]) -> dict:
    chunk, strict_utf8 = task
    pieces, words, dropped = collections.Counter(), collections.Counter(), Dropped()
    for _, line in read_lines(chunk.file, dropped, strict_utf8, chunk.start, chunk.end):
        pieces.update(line.split(" "))
    for piece, count in pieces.items():
        for word in tokenizer.tokenize(piece):
            words[word] += count
    return {"words": words, "dropped": dataclasses.asdict(dropped)}


def reserved_tokens(num_unused: int) -> list[str]:
    """Returns the pieces that a vocabulary begins with, in the original's places: special ones between unused ones.

    With the 994 unused pieces of the released vocabularies [UNK] has the id 100 and the first learnt piece 999.
    """
    unused = [f"[unused{number}]" for number in range(num_unused)]
    special = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return ["[PAD]", *unused[:_UNUSED_BEFORE], *special, *unused[_UNUSED_BEFORE:]]


def learn_vocabulary(
    counts: Mapping[str, int], vocab_size: int = 30522, num_unused: int = 994, alphabet_size: int = 1000
) -> list[str]:
    """Learns a vocabulary from counted words.

    Args:
        counts: how often each word occurs.
        vocab_size: how many pieces the vocabulary has; fewer only where the text does not give them.
        num_unused: how many of them are `[unusedN]`, places for words of one's own.
        alphabet_size: so many of the most frequent characters are pieces themselves, at the beginning of a word and
            inside; words with other characters become [UNK].

    Returns:
        The pieces in the order of their ids: the reserved ones, the alphabet, then by how often they are used.

    Raises:
        ValueError: the reserved pieces and the alphabet alone are more than `vocab_size`.
    """
    reserved = reserved_tokens(num_unused)
    frequent = [item for item in counts.items() if len(item[0]) <= _LONGEST_WORD]
    frequent.sort(key=lambda item: (-item[1], item[0]))
    frequent = frequent[:MOST_WORDS_TO_LEARN_FROM]
    num_characters = min(alphabet_size, len(set().union(*(word for word, _ in frequent))))
    num_fixed = len(reserved) + 2 * num_characters
    if num_fixed > vocab_size:
        raise ValueError(
            f"--vocab_size={vocab_size} is too small for {len(reserved)} reserved pieces and an alphabet of "
            f"{num_characters} characters, at the beginning of words and inside: these alone are {num_fixed}; "
            "give more, or a smaller --num_unused or --alphabet_size"
        )
    log.info(
        "learning from %s of %s different words, %.2f %% of the text",
        f"{len(frequent):,}",
        f"{len(counts):,}",
        100 * sum(count for _, count in frequent) / sum(counts.values()),
    )
    pieces = _learn(frequent, vocab_size, reserved, alphabet_size) if frequent else reserved
    if len(pieces) < vocab_size:
        log.warning("the text gives only %d pieces of the --vocab_size=%d asked for", len(pieces), vocab_size)
    return _shorten(pieces, vocab_size, set(reserved))


def _learn(frequent: list[tuple[str, int]], vocab_size: int, reserved: list[str], alphabet_size: int) -> list[str]:
    """Has the library learn a few more pieces than are wanted, where the words give them."""
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib

    # Each word that is as frequent as this is a piece itself, so that a lower number gives too many pieces.
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


def _shorten(pieces: list[str], vocab_size: int, reserved: set[str]) -> list[str]:
    """Leaves out the pieces that are used least, but none that is reserved or a single character."""
    excess = len(pieces) - vocab_size
    kept = []
    for piece in reversed(pieces):
        if excess > 0 and piece not in reserved and len(piece.removeprefix("##") or piece) > 1:
            excess -= 1
        else:
            kept.append(piece)
    return kept[::-1]


def cover(counts: Mapping[str, int], pieces: Sequence[str]) -> Coverage:
    """Splits counted words into pieces and returns how well these cover them."""
    split_word = WordpieceTokenizer({piece: number for number, piece in enumerate(pieces)}).split_word
    known, unknown_characters = set(pieces), collections.Counter()
    num_words = num_whole = num_pieces = num_unknown = 0
    for word, count in counts.items():
        split = split_word(word)
        num_words += count
        num_pieces += count * len(split)
        if split == ["[UNK]"]:
            num_unknown += count
            unknown_characters.update({character: count for character in word if character not in known})
        elif len(split) == 1:
            num_whole += count
    most = sorted(unknown_characters.items(), key=lambda item: (-item[1], item[0]))[:20]
    return Coverage(
        num_words,
        len(counts),
        num_whole / num_words,
        num_pieces / num_words,
        num_unknown / num_words,
        "".join(character for character, _ in most),
    )


def write_vocabulary(pieces: Sequence[str], file: str) -> None:
    """Writes a vocabulary file, one piece a line; it appears as a whole or not at all."""
    writing.write_text(file, "".join(f"{piece}\n" for piece in pieces))
