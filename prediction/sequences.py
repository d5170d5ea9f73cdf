"""From pieces of text to the sequences that the model is asked about. Imports without TensorFlow.

A text that is longer than the model takes is refused, cut, or looked at through windows.
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

# What to do with a text that is longer than the model takes.
LONG_CHOICES = ("error", "truncate", "window")


@dataclasses.dataclass(frozen=True)
class Question:
    """One sequence for the model.

    Attributes:
        input_ids: its ids with [CLS] and [SEP], T of them.
        segment_ids: T.
        positions: the P places asked about, each in [0, T); only the masked-LM head looks at them.
        target_ids: the id asked about at each of them, P; 0 where no particular one is.
    """

    input_ids: Sequence[int]
    segment_ids: Sequence[int]
    positions: Sequence[int] = ()
    target_ids: Sequence[int] = ()


def encode_with_masks(tokenizer: FullTokenizer, text: str, source: str) -> list[int]:
    """Returns the ids of a text in which each literal [MASK] is the mask.

    Differs from the release: its tokenizer takes [MASK] in a text for a bracket, a word and a bracket.

    Raises:
        ValueError: text is no str; the message begins with `source`.
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
    """Applies the choice for long texts to one text.

    Args:
        ids: of its pieces.
        room: how many pieces the model takes.
        long: one of LONG_CHOICES.
        source: what to call the text.

    Returns:
        ids; only the first `room` of them for "truncate". For "window" all: see `window_start`.

    Raises:
        ValueError: it is too long and `long` is "error".
    """
    if len(ids) > room:
        _tell_length(len(ids), room, long, source, f"only the first {room} are looked at")
    return ids[:room] if long == "truncate" else ids


def window_start(place: int, num_pieces: int, room: int) -> int:
    """Returns where the window of `room` pieces starts in which a place has most text on both sides.

    It stays within the text; a text that fits has one window, at 0.
    """
    return max(0, min(place - room // 2, num_pieces - room))


def fit_pair(first: list[int], second: list[int], room: int, long: str, source: str) -> tuple[list[int], list[int]]:
    """Applies the choice for long texts to a pair.

    "truncate" drops pieces from the end of the longer one, as the release's `_truncate_seq_pair`. "window" keeps what
    is next to the place where the two meet: the end of the first and the beginning of the second.

    Raises:
        ValueError: together they are too long and `long` is "error".
    """
    total = len(first) + len(second)
    if total <= room:
        return first, second
    _tell_length(total, room, long, source, f"only {room} are looked at")
    num_first, num_second = share_room(len(first), len(second), room)
    if long == "window":
        return first[len(first) - num_first :], second[:num_second]
    return first[:num_first], second[:num_second]


def surround(tokenizer: FullTokenizer, *segments: Sequence[int]) -> tuple[list[int], list[int]]:
    """Returns the ids and segment ids of [CLS] and each segment followed by [SEP]."""
    cls_id, sep_id = tokenizer.vocab["[CLS]"], tokenizer.vocab["[SEP]"]
    input_ids, segment_ids = [cls_id], [0]
    for number, segment in enumerate(segments):
        input_ids += [*segment, sep_id]
        segment_ids += [number] * (len(segment) + 1)
    return input_ids, segment_ids


def _tell_length(num_pieces, room, long, source, consequence):
    told = f"{source} has {num_pieces} pieces, {num_pieces - room} more than the {room} that the model takes"
    if long == "error":
        raise ArgumentError(
            lambda name: f"{told}; make it shorter, or choose {name('long')}=truncate or {name('long')}=window"
        )
    if long == "truncate":
        log.warning("%s; %s", told, consequence)
    else:
        log.info("%s; it is looked at through windows", told)
