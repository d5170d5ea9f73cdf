"""Converts examples to feature arrays: [CLS] A [SEP] (B [SEP]), truncated or split into windows."""

import collections
import logging
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from bert_keras.data_prep.text.model_inputs import SHORTEST, encode_pair, join_pair, pad_rows
from bert_keras.data_prep.text.places import Ids
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import check_special_tokens
from bert_keras.mistakes import Mistake
from bert_keras.tasks.tables.examples import Example

log = logging.getLogger("bert_keras")


class Labels(Protocol):
    """The labels of examples, such as a kind of `tasks.classification.labels`."""

    def check(self, examples: Sequence[Example]) -> None:
        """Raises ValueError for a label that does not fit."""

    def features(self, examples: Sequence[Example]) -> dict[str, np.ndarray]:
        """Returns arrays with a row for each example."""
        ...


def window_starts(num_tokens: int, room: int, doc_stride: int) -> list[int]:
    """Returns the starts of windows of `room` tokens, `doc_stride` apart, until one reaches the end of the text."""
    return [0, *range(doc_stride, num_tokens - room + doc_stride, doc_stride)]


def starts_of_rows(segment_ids: Sequence[Ids], doc_stride: int | None) -> list[tuple[int, int]]:
    """Returns how many tokens of the first and of the second text of an example are before each of its rows.

    segment_ids are those of the rows, without padding. The windows of `make_features` cover the first text.
    """
    room = len(segment_ids[0]) - int(np.count_nonzero(segment_ids[0])) - 2
    return [(number * min(doc_stride or 0, room), 0) for number in range(len(segment_ids))]


def make_features(
    examples: Sequence[Example],
    tokenizer: FullTokenizer,
    max_seq_length: int,
    doc_stride: int | None = None,
    what: str = "the data",
    labels: Labels | None = None,
    counts: collections.Counter | None = None,
) -> dict[str, np.ndarray]:
    """Converts examples to the features of a model; the log reports the share of truncated examples of `what`.

    With doc_stride, windows cover a first text that is too long; each is a row with the label of its example. Every
    window contains the second text, which is truncated to half the room, or to the room that the first text leaves if
    that is larger. Differs from the original: it only truncates. If `counts` is given, it replaces the log line:
    "windows" grows by the number of examples with windows, "cut" by that of truncated examples.

    Returns:
        input_ids int32 [N, T], input_mask int8 [N, T], segment_ids int8 [N, T], padded with 0; example_index int32 [N],
        the index of each row's example. If all examples are labelled, also the features of `labels`. [N, K, T] if each
        example has K choices.
    """
    num_choices = check_examples(examples, max_seq_length, doc_stride)
    check_special_tokens(tokenizer.vocab, ("[CLS]", "[SEP]"))
    if not examples:
        raise Mistake("{} has no examples; give at least one", what)
    if doc_stride is None:
        rows, num_long = _cut_rows(examples, tokenizer, max_seq_length, num_choices)
        num_cut = num_long
    else:
        rows, num_long, num_cut = _window_rows(examples, tokenizer, max_seq_length, doc_stride)
    if counts is not None:
        counts.update(windows=num_long if doc_stride else 0, cut=num_cut)
    elif num_long:
        treatment = "cut"
        if doc_stride:
            treatment = f"read through windows: {len(rows):,} in total, {doc_stride} tokens apart"
            treatment += f"; the second text of {num_cut:,} was cut" if num_cut else ""
        share = f"{100 * num_long / len(examples):.1f} % of the {len(examples):,} examples of {what}"
        log.info("%s are longer than %d tokens and are %s", share, max_seq_length, treatment)
    else:
        log.info("all %s examples of %s fit into %d tokens", f"{len(examples):,}", what, max_seq_length)
    sequences, num_first, example_index = zip(*rows, strict=True)
    features, example_index = pad_rows(sequences, num_first, max_seq_length), np.array(example_index, np.int32)
    if num_choices:
        example_index = example_index[::num_choices]
        features = {name: values.reshape(-1, num_choices, max_seq_length) for name, values in features.items()}
    label_arrays = _label_arrays(examples, labels, what) if labels else {}
    features["example_index"] = example_index
    return features | {name: values[example_index] for name, values in label_arrays.items()}


def check_examples(examples: Sequence[Example], max_seq_length: int, doc_stride: int | None) -> int | None:
    """Refuses lengths, and examples with other numbers of choices, that `make_features` cannot use.

    Returns the number of choices of each example; None: they have no choices.
    """
    num_choices = len(examples[0].choices) if examples else 0
    if max_seq_length < SHORTEST:
        raise Mistake(
            "{max_seq_length} is {}, but [CLS], [SEP] and a token of each text need {} or more",
            max_seq_length,
            SHORTEST,
        )
    if doc_stride is not None and num_choices:
        raise Mistake("{doc_stride} is not for multiple choice, whose texts are cut; leave it out")
    if doc_stride is not None and not 1 <= doc_stride <= max_seq_length - 2:
        raise Mistake(
            "{doc_stride} is {}, but must be from 1 to {}, the room for a text in {} tokens; windows further "
            "apart would skip tokens",
            doc_stride,
            max_seq_length - 2,
            max_seq_length,
        )
    for example in examples:
        if len(example.choices) != num_choices or num_choices == 1:
            raise Mistake(
                "{}: {} choices; all examples need the same number, at least two (the first example has {})",
                example.source,
                len(example.choices),
                num_choices,
            )
    return num_choices or None


# input_ids, length of the first segment, index of the example
_Row = tuple[list[int], int, int]


def _cut_rows(
    examples: Sequence[Example], tokenizer: FullTokenizer, max_seq_length: int, num_choices: int | None
) -> tuple[list[_Row], int]:
    """Returns the rows, one for each choice of an example, and the number of truncated examples."""
    rows, num_cut = [], 0
    for index, example in enumerate(examples):
        is_cut = False
        for text_b in example.choices if num_choices else [example.text_b]:
            input_ids, segment_ids, cut = encode_pair(tokenizer, example.text_a, text_b, max_seq_length)
            rows.append((input_ids, segment_ids.count(0), index))
            is_cut |= cut > 0
        num_cut += is_cut
    return rows, num_cut


def _window_rows(
    examples: Sequence[Example], tokenizer: FullTokenizer, max_seq_length: int, doc_stride: int
) -> tuple[list[_Row], int, int]:
    """Returns the rows, the number of examples that were too long, and that of truncated second texts."""
    rows, num_long, num_cut = [], 0, 0
    cls_id, sep_id = tokenizer.vocab["[CLS]"], tokenizer.vocab["[SEP]"]
    for index, example in enumerate(examples):
        ids_a = tokenizer.encode(example.text_a)
        ids_b = tokenizer.encode(example.text_b) if example.text_b else []
        room = max_seq_length - (3 if ids_b else 2)
        num_long += len(ids_a) + len(ids_b) > room
        room_b = max(room // 2, room - len(ids_a))
        num_cut += len(ids_b) > room_b
        ids_b = ids_b[:room_b]
        room -= len(ids_b)
        for start in window_starts(len(ids_a), room, min(doc_stride, room)):
            rows.append((*join_pair(ids_a[start : start + room], ids_b, None, cls_id, sep_id), index))
    return rows, num_long, num_cut


def _label_arrays(examples: Sequence[Example], labels: Labels, what: str) -> dict[str, np.ndarray]:
    """Returns the labels by the name of their feature; nothing if an example has none."""
    num_unlabelled = sum(example.label is None for example in examples)
    if num_unlabelled:
        if num_unlabelled < len(examples):
            message = "%s: %s of %s examples have no label, so the labels of the others are left out"
            log.info(message, what, f"{num_unlabelled:,}", f"{len(examples):,}")
        return {}
    labels.check(examples)
    return labels.features(examples)
