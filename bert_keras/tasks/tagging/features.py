"""Converts tagged words to the features of token classification, and logits back to a tag for each word.

The first token of a word has the label; the others are not counted (paper, section 5.3). The original BERT has no
program for this task.

Axes: N windows, T tokens, C tags.
"""

import bisect
import collections
import dataclasses
import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import scipy.special

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import check_special_tokens
from bert_keras.mistakes import Mistake
from bert_keras.tasks.tables.examples import check_spellings, did_you_mean

log = logging.getLogger("bert_keras")

NOT_COUNTED = -1
_Value = TypeVar("_Value")


def collect_tags(sentences: Sequence[Sentence]) -> list[str]:
    """Returns the tags to learn: O first, then sorted B- and I- of every type that occurs, or B and I without types.

    Every type gets both tags: one with only one-word entities in a small file may have longer entities in another.
    """
    places = {}
    for sentence in sentences:
        for word, tag in enumerate(sentence.tags or ()):
            if tag != "O" and tag[2:] not in places:
                places[tag[2:]] = sentence.place(word)
    check_spellings(places, "type of entity", "types of entity")
    types = sorted(places)
    if not types:
        raise Mistake(
            "{} has no entity: the tag of every word is O; training needs some entities, maybe in another "
            "column ({tag_column})",
            sentences[0].path,
        )
    return ["O", *(f"{mark}-{name}" if name else mark for mark in "BI" for name in types)]


def check_tags(sentences: Sequence[Sentence], tags: Sequence[str]) -> None:
    """Raises ValueError, with file and line, if a tag is not in `tags`, those of training."""
    known = set(tags)
    for sentence in sentences:
        for word, tag in enumerate(sentence.tags or ()):
            if tag not in known:
                raise Mistake(
                    '{}: the tag "{}" is not one of those of training ({})'
                    "{}; correct it, or train on sentences that have it",
                    sentence.place(word),
                    tag,
                    ", ".join(tags),
                    did_you_mean(tag, tags),
                )


def make_features(
    sentences: Sequence[Sentence],
    tags: Sequence[str],
    tokenizer: FullTokenizer,
    max_seq_length: int,
    document_context: bool = False,
    counts: collections.Counter | None = None,
) -> dict[str, np.ndarray]:
    """Converts sentences to windows of tokens: one for each sentence, or several that overlap for a long sentence.

    Windows begin and end between words. A word counts only in the window with the most context: the most tokens on the
    side that has fewer. A word without tokens (only control characters) becomes one [UNK]. `document_context` fills the
    remaining room with neighbouring sentences, with as many tokens on the left as on the right if possible (paper: "the
    maximal document context provided by the data"). If `counts` is given, it replaces the log lines: "windows" grows by
    the number of sentences with several windows, "cut" by that of distinct truncated words.

    Returns:
        dict of int32 [N, T] "input_ids", int8 [N, T] "input_mask" and "segment_ids", int32 [N, T] "label_ids" (the tag
        at the first token of each word that counts, else -1), int32 [N] "sentence_index" and int32 [N, T] "word_index"
        (the index in its sentence of the word that counts here, else -1).
    """
    room = max_seq_length - 2
    if room < 1:
        raise Mistake("{max_seq_length} is {}, but must be 3 or more: [CLS], a token and [SEP]", max_seq_length)
    check_tags(sentences, tags)
    special = ("[CLS]", "[SEP]", "[UNK]")
    check_special_tokens(tokenizer.vocab, special)
    cls_id, sep_id, unk_id = (tokenizer.vocab[token] for token in special)
    ids_of_words, cut_words = _encode_words(sentences, tokenizer, unk_id, room)
    windows = []
    for first, text in _texts(sentences, document_context):
        windows += _windows_of_text(first, text, ids_of_words, room, document_context)
    if counts is None:
        _report(sentences, windows, cut_words, room, document_context)
    else:
        num_windows = np.bincount([window.sentence for window in windows], minlength=1)
        counts.update(windows=int((num_windows > 1).sum()), cut=len(cut_words))

    shape = (len(windows), max_seq_length)
    features = {
        "input_ids": np.zeros(shape, np.int32),
        "input_mask": np.zeros(shape, np.int8),
        "segment_ids": np.zeros(shape, np.int8),
        "label_ids": np.full(shape, NOT_COUNTED, np.int32),
        "sentence_index": np.array([window.sentence for window in windows], np.int32),
        "word_index": np.full(shape, NOT_COUNTED, np.int32),
    }
    tag_ids = {tag: number for number, tag in enumerate(tags)}
    for row, window in enumerate(windows):
        length = len(window.ids) + 2
        features["input_ids"][row, :length] = [cls_id, *window.ids, sep_id]
        features["input_mask"][row, :length] = 1
        features["word_index"][row, window.columns] = window.words
        labels = sentences[window.sentence].tags
        if labels is not None:
            features["label_ids"][row, window.columns] = [tag_ids[labels[word]] for word in window.words]
    return features


def tags_from_logits(
    features: Mapping[str, np.ndarray], logits: np.ndarray, sentences: Sequence[Sentence], tags: Sequence[str]
) -> tuple[list[list[str]], list[list[float]]]:
    """Returns the best tag of each word and its probability, a list for each sentence.

    The logits are float32 [N, T, C], of features from `make_features`; the tags are in the order of their ids. Raises
    ValueError if a logit is not finite.
    """
    scores = _scores_of_words(features, logits, sentences)
    confidences = scipy.special.softmax(scores.astype(np.float64), axis=-1).max(axis=-1)
    best = [tags[int(number)] for number in scores.argmax(axis=-1)]
    return _split(best, sentences), _split(confidences.tolist(), sentences)


def _scores_of_words(
    features: Mapping[str, np.ndarray], logits: np.ndarray, sentences: Sequence[Sentence]
) -> np.ndarray:
    """Returns the logits at the first token of each word in the window where it counts, float32 [words, C]."""
    rows, columns = np.nonzero(features["word_index"] >= 0)
    starts = np.cumsum([0, *(len(sentence.words) for sentence in sentences)])
    places = starts[features["sentence_index"][rows]] + features["word_index"][rows, columns]
    scores = np.empty((starts[-1], logits.shape[-1]), np.float32)
    scores[places] = logits[rows, columns]
    if not np.isfinite(scores).all():
        place = int(np.argmin(np.isfinite(scores).all(axis=-1)))
        index = int(np.searchsorted(starts, place, side="right")) - 1
        raise Mistake(
            "{}: the model's scores are not finite; give a model whose training did not diverge",
            sentences[index].place(place - int(starts[index])),
        )
    return scores


def _split(values: Iterable[_Value], sentences: Sequence[Sentence]) -> list[list[_Value]]:
    iterator = iter(values)
    return [list(itertools.islice(iterator, len(sentence.words))) for sentence in sentences]


def _encode_words(
    sentences: Sequence[Sentence], tokenizer: FullTokenizer, unk_id: int, room: int
) -> tuple[dict[str, list[int]], set[str]]:
    """Returns the token ids of each distinct word, at least one and at most `room`, and the set of truncated words."""
    ids_of_words, cut_words = {}, set()
    for word in itertools.chain.from_iterable(sentence.words for sentence in sentences):
        if word not in ids_of_words:
            ids = tokenizer.encode(word) or [unk_id]
            ids_of_words[word] = ids[:room]
            if len(ids) > room:
                cut_words.add(word)
    return ids_of_words, cut_words


@dataclasses.dataclass(frozen=True)
class _Window:
    """A row of features: the tokens between [CLS] and [SEP], and the words that count here with their columns."""

    sentence: int
    ids: list[int]
    words: list[int]
    columns: list[int]


def _texts(sentences: Sequence[Sentence], document_context: bool) -> Iterator[tuple[int, list[Sentence]]]:
    """Yields documents or single sentences, each with the index of its first sentence."""
    if not document_context:
        yield from ((number, [sentence]) for number, sentence in enumerate(sentences))
        return
    first = 0
    for _, group in itertools.groupby(sentences, lambda sentence: sentence.document):
        text = list(group)
        yield first, text
        first += len(text)


def _windows_of_text(
    first: int, sentences: Sequence[Sentence], ids_of_words: Mapping[str, list[int]], room: int, document_context: bool
) -> list[_Window]:
    ids = [ids_of_words[word] for sentence in sentences for word in sentence.words]
    offsets = [0, *itertools.accumulate(map(len, ids))]
    windows, start = [], 0
    for number, sentence in enumerate(sentences, first):
        end = start + len(sentence.words)
        for (left, right), words in _split_sentence(offsets, start, end, room):
            if document_context:
                left, right = _widen(offsets, left, right, room)
            columns = [1 + offsets[word] - offsets[left] for word in words]
            flat = list(itertools.chain.from_iterable(ids[left:right]))
            windows.append(_Window(number, flat, [word - start for word in words], columns))
        start = end
    return windows


def _split_sentence(
    offsets: Sequence[int], start: int, end: int, room: int
) -> list[tuple[tuple[int, int], Sequence[int]]]:
    """Splits the words [start, end) into windows that fit, each beginning half a room after the previous one.

    `offsets` is the number of tokens before each word, and at the end of all. Returns pairs of a window (left, right)
    and the words with their most context in it; windows without such words are left out.
    """
    if offsets[end] - offsets[start] <= room:
        return [((start, end), range(start, end))]
    windows, left = [], start
    while offsets[end] - offsets[left] > room:
        right = bisect.bisect_right(offsets, offsets[left] + room) - 1
        windows.append((left, right))
        left = min(right, max(left + 1, bisect.bisect_left(offsets, offsets[left] + room // 2)))
    windows.append((bisect.bisect_left(offsets, offsets[end] - room), end))
    best = {}
    for number, (left, right) in enumerate(windows):
        for word in range(left, right):
            context = min(offsets[word] - offsets[left], offsets[right] - offsets[word + 1])
            if word not in best or context > best[word][0]:
                best[word] = (context, number)
    words_of = [[] for _ in windows]
    for word in range(start, end):
        words_of[best[word][1]].append(word)
    return [(window, words) for window, words in zip(windows, words_of, strict=True) if words]


def _widen(offsets: Sequence[int], left: int, right: int, room: int) -> tuple[int, int]:
    """Widens a window by words on both sides until it is full, as evenly as the text allows."""
    spare = room - (offsets[right] - offsets[left])
    before, after = offsets[left], offsets[-1] - offsets[right]
    from_left = min(before, max(spare // 2, spare - after))
    wide_left = bisect.bisect_left(offsets, offsets[left] - from_left)
    wide_right = bisect.bisect_right(offsets, offsets[wide_left] + room) - 1
    return wide_left, min(wide_right, len(offsets) - 1)


def _report(
    sentences: Sequence[Sentence], windows: Sequence[_Window], cut_words: set[str], room: int, document_context: bool
) -> None:
    """Logs a missing division into documents, the sentences with several windows, and the truncated words."""
    where = f"{sentences[0].path}: " if sentences[0].path else ""
    if document_context and len({sentence.document for sentence in sentences}) == 1:
        treated = f"all {len(sentences)} sentences are treated as one document"
        log.info("%s%s, because nothing marks the start of another", where, treated)
    num_windows = np.bincount([window.sentence for window in windows], minlength=1)
    num_windows = num_windows[num_windows > 1]
    if len(num_windows):
        share = f"{100 * len(num_windows) / len(sentences):.1f} %"
        long = f"{len(num_windows)} of {len(sentences)} sentences ({share}) are longer than {room} tokens"
        log.info("%s%s and read in %d overlapping windows", where, long, num_windows.sum())
    if cut_words:
        long = f'{len(cut_words)} words have more than {room} tokens, for example "{min(cut_words)[:40]}"'
        log.warning("%s%s; only the first %d tokens are used", where, long, room)
