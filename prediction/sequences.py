"""Makes the model's input sequences from tokens. Imports without TensorFlow.

If a text is longer than the model takes, the functions refuse it, cut it, or read it through windows.
"""

import dataclasses
import logging
from collections.abc import Sequence

from bert_keras.data_prep.tasks.encoding import share_room
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.prediction.argument_error import ArgumentError

log = logging.getLogger("bert_keras")

MASK = "[MASK]"
UNKNOWN = "[UNK]"

# Treatments of a text that is longer than the model takes.
LONG_CHOICES = ("error", "truncate", "window")


@dataclasses.dataclass(frozen=True)
class Question:
    """One input sequence of the model.

    Attributes:
        input_ids: token ids with [CLS] and [SEP], T of them.
        segment_ids: segment ids, T of them.
        positions: P positions to predict, each in [0, T); only the masked-LM head uses them.
        target_ids: P token ids, one to score at each position; 0 if no particular token is meant.
    """

    input_ids: Sequence[int]
    segment_ids: Sequence[int]
    positions: Sequence[int] = ()
    target_ids: Sequence[int] = ()


def encode_with_masks(tokenizer: FullTokenizer, text: str, source: str) -> list[int]:
    """Returns the token ids of a text; each literal [MASK] becomes the mask token.

    Differs from the original BERT, whose tokenizer splits [MASK] in a text into a bracket, a word and a bracket.

    Raises:
        ValueError: text is not a str. The message begins with `source`.
    """
    if not isinstance(text, str):
        raise ValueError(f"{source} is of type {type(text).__name__}, but a str is needed")
    mask_id = tokenizer.vocab[MASK]
    first, *others = text.split(MASK)
    ids = tokenizer.encode(first)
    for part in others:
        ids += [mask_id, *tokenizer.encode(part)]
    return ids


def fit_text(ids: list[int], room: int, long: str, source: str) -> list[int]:
    """Fits a text to the model as `long` says.

    Args:
        ids: token ids.
        room: maximum number of tokens.
        long: one of LONG_CHOICES.
        source: name of the text.

    Returns:
        The ids; with "truncate" only the first `room`. With "window" all of them: see `window_start`.

    Raises:
        ArgumentError: the text is too long and `long` is "error".
    """
    if len(ids) > room:
        _tell_length(len(ids), room, long, source, f"only the first {room} are used")
    return ids[:room] if long == "truncate" else ids


def window_start(place: int, num_pieces: int, room: int) -> int:
    """Returns the start of the window of `room` tokens that gives a place the most context on both sides.

    The window stays within the text. A text that fits has one window, at 0.
    """
    return max(0, min(place - room // 2, num_pieces - room))


def fit_pair(first: list[int], second: list[int], room: int, long: str, source: str) -> tuple[list[int], list[int]]:
    """Fits a pair to the model as `long` says.

    "truncate" drops tokens from the end of the longer text, like `_truncate_seq_pair` of the original BERT. "window"
    keeps the tokens around the boundary: the end of the first text and the beginning of the second.

    Raises:
        ArgumentError: the pair is too long and `long` is "error".
    """
    total = len(first) + len(second)
    if total <= room:
        return first, second
    _tell_length(total, room, long, source, f"only {room} are used")
    num_first, num_second = share_room(len(first), len(second), room)
    if long == "window":
        return first[len(first) - num_first :], second[:num_second]
    return first[:num_first], second[:num_second]


def surround(tokenizer: FullTokenizer, *segments: Sequence[int]) -> tuple[list[int], list[int]]:
    """Returns the ids and segment ids of [CLS], followed by each segment and a [SEP]."""
    cls_id, sep_id = tokenizer.vocab["[CLS]"], tokenizer.vocab["[SEP]"]
    input_ids, segment_ids = [cls_id], [0]
    for number, segment in enumerate(segments):
        input_ids += [*segment, sep_id]
        segment_ids += [number] * (len(segment) + 1)
    return input_ids, segment_ids


def _tell_length(num_pieces, room, long, source, consequence):
    told = f"{source} has {num_pieces} tokens, {num_pieces - room} more than the {room} that the model takes"
    if long == "error":
        raise ArgumentError(
            lambda name: f"{told}; make it shorter, or choose {name('long')}=truncate or {name('long')}=window"
        )
    if long == "truncate":
        log.warning("%s; %s", told, consequence)
    else:
        log.info("%s; it is read through windows", told)
