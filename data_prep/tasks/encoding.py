"""Converts examples to feature arrays: [CLS] A [SEP] (B [SEP]), truncated or split into windows."""

import collections
import itertools
import logging
from collections.abc import Sequence

import numpy as np

from bert_keras.data_prep.tasks.examples import Example, check_labels
from bert_keras.data_prep.text.vocabulary_files import check_special_tokens

log = logging.getLogger("bert_keras")

_SPECIAL_TOKENS = ("[CLS]", "[SEP]")


def encode_pair(tokenizer, text_a: str, text_b: str | None, max_seq_length: int) -> tuple[list[int], list[int], int]:
    """Encodes a text or a pair like the original BERT, and truncates it.

    A second text without tokens is ignored. A pair loses tokens from the end of the longer text, or of the second if
    both are equally long, until it fits.
    Source: `_truncate_seq_pair` of the original run_classifier.py.

    Args:
        tokenizer: `FullTokenizer`.
        text_a, text_b: the texts; text_b is None or empty for a single text.
        max_seq_length: the maximum number of tokens, including [CLS] and [SEP].

    Returns:
        input_ids and segment_ids (0 for [CLS] A [SEP], 1 for B [SEP]), not padded, and the number of removed tokens.
    """
    pieces_a = tokenizer.encode(text_a)
    pieces_b = tokenizer.encode(text_b) if text_b else []
    kept_a, kept_b = fit_pair(len(pieces_a), len(pieces_b), max_seq_length)
    num_cut = len(pieces_a) - kept_a + len(pieces_b) - kept_b
    input_ids, num_first = _join(tokenizer.vocab, pieces_a[:kept_a], pieces_b[:kept_b])
    return input_ids, [0] * num_first + [1] * (len(input_ids) - num_first), num_cut


def fit_pair(num_a: int, num_b: int, max_seq_length: int) -> tuple[int, int]:
    """Returns how many tokens of each text `encode_pair` keeps, given their numbers; num_b is 0 for a single text."""
    if not num_b:
        return min(num_a, max_seq_length - 2), 0
    return share_room(num_a, num_b, max_seq_length - 3)


def share_room(num_a: int, num_b: int, room: int) -> tuple[int, int]:
    """Returns how many tokens of each text to keep if both texts together have room for `room` tokens.

    The removal of tokens is that of `encode_pair`.
    """
    if num_a + num_b <= room:
        return num_a, num_b
    kept_b = min(num_b, max(room // 2, room - num_a))
    return room - kept_b, kept_b


def window_starts(num_pieces: int, room: int, doc_stride: int) -> list[int]:
    """Returns the starts of windows of `room` tokens, `doc_stride` apart, until one reaches the end of the text."""
    return [0, *range(doc_stride, num_pieces - room + doc_stride, doc_stride)]


def make_features(
    examples: Sequence[Example],
    labels: Sequence[str],
    kind: str,
    tokenizer,
    max_seq_length: int,
    doc_stride: int | None = None,
    what: str = "the data",
    counts: collections.Counter | None = None,
) -> dict[str, np.ndarray]:
    """Converts examples to the features of a model; the log reports the share of truncated examples.

    With doc_stride, windows cover a first text that is too long; each is a row with the label of its example. Every
    window contains the second text, which is truncated to half the room, or to the room that the first text leaves if
    that is larger. Differs from the original: it only truncates.

    Args:
        examples: at least one.
        labels: in the order of their ids; () for regression.
        kind: one of `examples.KINDS`.
        tokenizer: `FullTokenizer`.
        max_seq_length: T, the tokens of a row, including [CLS] and [SEP].
        doc_stride: tokens between the starts of windows; None: texts are truncated.
        what: the name of the examples in the log.
        counts: if given, replaces the log line: "windows" grows by the number of examples with windows, "cut" by that
            of truncated examples.

    Returns:
        input_ids int32 [N, T], input_mask int8 [N, T], segment_ids int8 [N, T], padded with 0; example_index int32 [N],
        the index of each row's example. If all examples are labelled, also label_ids int32 [N], or label_values float32
        [N] (regression) or [N, C] (multi-label, 0 or 1). Multiple choice: [N, K, T] for K choices.

    Raises:
        ValueError: no example is given, a label is unknown, the numbers of choices differ, a length is invalid, or the
            vocabulary lacks [CLS] or [SEP].
    """
    _check_lengths(max_seq_length, doc_stride, kind)
    check_special_tokens(tokenizer.vocab, _SPECIAL_TOKENS)
    if not examples:
        raise ValueError(f"{what} has no examples; give at least one")
    rows, num_long, num_cut = _make_rows(examples, kind, tokenizer, max_seq_length, doc_stride)
    if counts is not None:
        counts.update(windows=num_long if doc_stride else 0, cut=num_cut)
    elif num_long:
        told = "cut"
        if doc_stride:
            told = f"read through windows: {len(rows):,} in total, {doc_stride} tokens apart"
            told += f"; the second text of {num_cut:,} was cut" if num_cut else ""
        share = f"{100 * num_long / len(examples):.1f} % of the {len(examples):,} examples of {what}"
        log.info("%s are longer than %d tokens and are %s", share, max_seq_length, told)
    else:
        log.info("all %s examples of %s fit into %d tokens", f"{len(examples):,}", what, max_seq_length)
    features = _pack(rows, max_seq_length)
    example_index = features.pop("example_index")
    if kind == "multiple_choice":
        num_choices = len(examples[0].choices)
        example_index = example_index[::num_choices]
        features = {name: values.reshape(-1, num_choices, max_seq_length) for name, values in features.items()}
    label_arrays = _label_arrays(examples, labels, kind, what)
    return {
        **features,
        "example_index": example_index,
        **{name: values[example_index] for name, values in label_arrays.items()},
    }


def _join(vocab, pieces_a, pieces_b):
    """Returns the ids of [CLS] A [SEP] (B [SEP]), and the length of the first segment."""
    input_ids = [vocab["[CLS]"], *pieces_a, vocab["[SEP]"]]
    num_first = len(input_ids)
    if pieces_b:
        input_ids += [*pieces_b, vocab["[SEP]"]]
    return input_ids, num_first


# Rows are (input_ids, length of the first segment, index of the example).


def _make_rows(examples, kind, tokenizer, max_seq_length, doc_stride):
    """Returns rows, the number of examples that were too long, and the number of truncated examples."""
    if doc_stride is not None:
        return _window_rows(examples, tokenizer, max_seq_length, doc_stride)
    make = _choice_rows if kind == "multiple_choice" else _pair_rows
    rows, num_cut = make(examples, tokenizer, max_seq_length)
    return rows, num_cut, num_cut


def _pair_rows(examples, tokenizer, max_seq_length):
    rows, num_cut = [], 0
    for index, example in enumerate(examples):
        input_ids, segment_ids, cut = encode_pair(tokenizer, example.text_a, example.text_b, max_seq_length)
        rows.append((input_ids, len(segment_ids) - sum(segment_ids), index))
        num_cut += cut > 0
    return rows, num_cut


def _choice_rows(examples, tokenizer, max_seq_length):
    num_choices = len(examples[0].choices)
    rows, num_cut = [], 0
    for index, example in enumerate(examples):
        if len(example.choices) != num_choices or num_choices < 2:
            raise ValueError(
                f"{example.source}: {len(example.choices)} choices; all examples need the same number, at least two "
                f"(the first example has {num_choices})"
            )
        pairs = [Example(example.id, example.text_a, choice) for choice in example.choices]
        choice_rows, cut = _pair_rows(pairs, tokenizer, max_seq_length)
        rows += [(input_ids, num_first, index) for input_ids, num_first, _ in choice_rows]
        num_cut += cut > 0
    return rows, num_cut


def _window_rows(examples, tokenizer, max_seq_length, doc_stride):
    rows, num_long, num_cut = [], 0, 0
    for index, example in enumerate(examples):
        pieces_a = tokenizer.encode(example.text_a)
        pieces_b = tokenizer.encode(example.text_b) if example.text_b else []
        room = max_seq_length - (3 if pieces_b else 2)
        num_long += len(pieces_a) + len(pieces_b) > room
        room_b = max(room // 2, room - len(pieces_a))
        num_cut += len(pieces_b) > room_b
        pieces_b = pieces_b[:room_b]
        room -= len(pieces_b)
        for start in window_starts(len(pieces_a), room, min(doc_stride, room)):
            rows.append((*_join(tokenizer.vocab, pieces_a[start : start + room], pieces_b), index))
    return rows, num_long, num_cut


def _pack(rows, max_seq_length):
    """Returns rows as padded arrays, without labels."""
    sequences, num_first, example_index = zip(*rows, strict=True)
    lengths = np.fromiter(map(len, sequences), np.int64, len(rows))
    places = np.arange(max_seq_length)
    is_real = places < lengths[:, None]  # [N, T]
    input_ids = np.zeros((len(rows), max_seq_length), np.int32)
    input_ids[is_real] = np.fromiter(itertools.chain.from_iterable(sequences), np.int32, lengths.sum())
    return {
        "input_ids": input_ids,
        "input_mask": is_real.astype(np.int8),
        "segment_ids": (is_real & (places >= np.array(num_first)[:, None])).astype(np.int8),
        "example_index": np.array(example_index, np.int32),
    }


def _label_arrays(examples, labels, kind, what):
    """Returns the labels by the name of their feature; nothing if an example has none."""
    unlabelled = [example for example in examples if example.label is None]
    if len(unlabelled) == len(examples):
        return {}
    if unlabelled:
        log.info(
            "%s: %s of %s examples have no label, so the labels of the others are left out",
            *(what, f"{len(unlabelled):,}", f"{len(examples):,}"),
        )
        return {}
    check_labels(examples, labels, kind)
    if kind == "regression":
        return {"label_values": np.array([example.label for example in examples], np.float32)}
    ids = {label: number for number, label in enumerate(labels)}
    if kind != "multi_label":
        return {"label_ids": np.array([ids[example.label] for example in examples], np.int32)}
    values = np.zeros((len(examples), len(labels)), np.float32)
    for row, example in zip(values, examples, strict=True):
        row[[ids[name] for name in example.label]] = 1.0
    return {"label_values": values}


def _check_lengths(max_seq_length, doc_stride, kind):
    if max_seq_length < 5:
        raise ValueError(
            f"--max_seq_length is {max_seq_length}, but [CLS], [SEP] and a token of each text need 5 or more"
        )
    if doc_stride is None:
        return
    if kind == "multiple_choice":
        raise ValueError("--doc_stride is not for multiple choice, whose texts are cut; leave it out")
    if not 1 <= doc_stride <= max_seq_length - 2:
        raise ValueError(
            f"--doc_stride is {doc_stride}, but must be from 1 to {max_seq_length - 2}, the room for a text in "
            f"{max_seq_length} tokens; windows further apart would skip tokens"
        )
