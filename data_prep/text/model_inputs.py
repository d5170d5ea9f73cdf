"""Converts texts to model inputs: [CLS] A [SEP] (B [SEP]), truncated like the original BERT, and padded."""

import itertools
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from bert_keras.data_prep.text.vocabulary_files import check_special_tokens

# The least that holds [CLS], two [SEP] and a token of each text.
SHORTEST = 5
# A text or a pair, several of these, or the first and the second texts of several pairs.
Text = str | bytes
Texts = Text | tuple[Text, Text] | Iterable[Text | Sequence[Text]] | tuple[Iterable[Text], Iterable[Text]]
_Value = TypeVar("_Value")


def encode_batch(
    tokenizer: Any,
    texts: Texts,
    sequence_length: int | None,
    pad_to_longest: bool,
    with_offsets: bool,
) -> dict[str, np.ndarray]:
    """Returns texts or pairs as model inputs; see `FullTokenizer.__call__`."""
    check_sequence_length(sequence_length)
    check_special_tokens(tokenizer.vocab, ("[CLS]", "[SEP]"))
    # With offsets, the value of a token is (token, start, end); without, its id.
    if with_offsets:
        encode, cls, sep = tokenizer.tokenize_with_offsets, ("[CLS]", 0, 0), ("[SEP]", 0, 0)
    else:
        encode, cls, sep = tokenizer.encode, tokenizer.cls_id, tokenizer.sep_id
    rows, num_first = [], []
    for first, second in _as_pairs(texts):
        pair = encode(first), encode(second) if second else []
        row, num = join_pair(*pair, sequence_length, cls, sep, tokenizer.rules.is_foreign)
        rows.append(row)
        num_first.append(num)
    if sequence_length is not None and not pad_to_longest:
        num_columns = sequence_length
    else:
        num_columns = max(map(len, rows), default=2)
    ids = [tokenizer.convert_tokens_to_ids(token for token, _, _ in row) for row in rows] if with_offsets else rows
    features = {name: values.astype(np.int32) for name, values in pad_rows(ids, num_first, num_columns).items()}
    if with_offsets:
        features["offsets"] = np.zeros((len(rows), num_columns, 2), np.int32)
        for offsets, row in zip(features["offsets"], rows, strict=True):
            offsets[: len(row)] = [place for _, *place in row]
    return features


def check_sequence_length(sequence_length: int | None) -> None:
    """Checks that a sequence has room for a pair; None is valid."""
    if sequence_length is None or (isinstance(sequence_length, numbers.Integral) and sequence_length >= SHORTEST):
        return
    raise ValueError(
        f"sequence_length is {sequence_length!r}, but [CLS], [SEP] and a token of each text need {SHORTEST} or more"
    )


def _as_pairs(texts: Texts) -> Iterator[tuple[Text, Text | None]]:
    """Yields each text or pair as a pair; the second is None for a single text."""
    if isinstance(texts, Mapping) or not isinstance(texts, Iterable):
        kind = type(texts).__name__
        raise ValueError(f"the texts are of type {kind}; give a list of texts, or a tuple of two lists for pairs")
    rows: Any = texts
    if isinstance(texts, Text):
        rows = [texts]
    elif isinstance(texts, tuple):
        rows = [texts] if all(isinstance(text, Text) for text in texts) else _zipped(texts)
    elif hasattr(texts, "columns"):  # a DataFrame, which iterates over the names of its columns
        rows = rows.to_numpy()
    for number, text in enumerate(rows):
        pair = (text, None) if isinstance(text, Text) else text
        if not (isinstance(pair, tuple | list | np.ndarray) and len(pair) == 2 and isinstance(pair[0], Text)):
            raise ValueError(f"row {number} is {text!r:.100}, but a str is needed, or a tuple of two for a pair")
        first, second = pair
        yield first, second


def _zipped(columns: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    lists = [list(column) for column in columns]
    if len(lists) != 2 or len(lists[0]) != len(lists[1]):
        lengths = ", ".join(str(len(texts)) for texts in lists)
        raise ValueError(
            f"the texts are a tuple of lists of {lengths} texts, but a tuple has two texts, or two lists of one "
            "length: the first and the second texts of pairs; give single texts as a list"
        )
    return zip(*lists, strict=True)


def encode_pair(
    tokenizer: Any, text_a: str, text_b: str | None, max_seq_length: int | None
) -> tuple[list[int], list[int], int]:
    """Encodes a text or a pair like the original BERT; a pair too long loses tokens from the end of the longer text.

    If both are equally long, the second loses a token, or by the rules of transformers the first. A second text without
    tokens is ignored. Returns input_ids, segment_ids (0 for [CLS] A [SEP], 1 for B [SEP]), not padded, and the number
    of removed tokens.
    Source: `_truncate_seq_pair` of the original run_classifier.py.
    """
    ids_a = tokenizer.encode(text_a)
    ids_b = tokenizer.encode(text_b) if text_b else []
    cls_id, sep_id, is_foreign = tokenizer.cls_id, tokenizer.sep_id, tokenizer.rules.is_foreign
    input_ids, num_first = join_pair(ids_a, ids_b, max_seq_length, cls_id, sep_id, is_foreign)
    num_cut = len(ids_a) + len(ids_b) + (3 if ids_b else 2) - len(input_ids)
    return input_ids, [0] * num_first + [1] * (len(input_ids) - num_first), num_cut


def join_pair(
    first: Sequence[_Value],
    second: Sequence[_Value],
    max_seq_length: int | None,
    cls: _Value,
    sep: _Value,
    is_foreign: bool = False,
) -> tuple[list[_Value], int]:
    """Returns [cls, *first, sep] (and [*second, sep]) of one value per token, and the length of the first segment.

    Cuts both texts to max_seq_length values in total, see `share_room`; None: cuts nothing.
    """
    if max_seq_length is not None:
        room = max_seq_length - (3 if second else 2)
        kept_a, kept_b = share_room(len(first), len(second), room, is_foreign)
        first, second = first[:kept_a], second[:kept_b]
    row = [cls, *first, sep]
    num_first = len(row)
    return ([*row, *second, sep] if second else row), num_first


def share_room(num_a: int, num_b: int, room: int, is_foreign: bool = False) -> tuple[int, int]:
    """Returns how many tokens of each text `encode_pair` keeps if both together have room for `room` tokens.

    See `TextRules` for is_foreign.
    """
    if num_a + num_b <= room:
        return num_a, num_b
    # An odd token belongs to the first text, or by the rules of transformers to the longer or else the second one.
    half = room - room // 2 if is_foreign and num_a <= num_b else room // 2
    kept_b = min(num_b, max(half, room - num_a))
    return room - kept_b, kept_b


def pad_rows(rows: Sequence[Sequence[int]], num_first: Sequence[int], num_columns: int) -> dict[str, np.ndarray]:
    """Returns rows of ids and the lengths of their first segments as model inputs [B, T], padded with 0.

    Returns:
        input_ids int32, input_mask int8, segment_ids int8.
    """
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    places = np.arange(num_columns)
    is_real = places < lengths[:, None]  # [B, T]
    input_ids = np.zeros((len(rows), num_columns), np.int32)
    input_ids[is_real] = np.fromiter(itertools.chain.from_iterable(rows), np.int32, lengths.sum())
    is_second = is_real & (places >= np.array(num_first, np.int64)[:, None])
    return {"input_ids": input_ids, "input_mask": is_real.astype(np.int8), "segment_ids": is_second.astype(np.int8)}
