"""The texts to check an export with: built-in texts, or those of the user.

They are dicts of arrays of bytes [B, ...], as a SavedModel takes them. `items_of` returns them as a request has them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras.mistakes import MissingFile, Mistake
from bert_keras.storage import paths
from bert_keras.tasks import ability_of
from bert_keras.tasks.ability import LISTS
from bert_keras.tasks.graph.text_model import text_names

_MASK = b" [MASK] "
_NUM_CHOICES = 3
_ORDINARY_TEXTS = (b"He was hungry.", b"So he ate.", b"Paris is in France.", b"Was it 1,000?!")
_ODD_TEXTS = (
    b"",
    b" \t\r\n ",
    "Ünïcödé: e\u0301 ǅ İstanbul straße 東京 한국어 ﬁ \u00ad \u200d \ufffd 🤖 \x7f".encode(),
    b"not UTF-8: \xff ab\xc3 \xe2\x82 \xed\xa0\x80 \xf4\x90\x80\x80 c\x00d",
    b"a" * 300 + b" 'twas--- Germany's co-founded U.S.",
)


def built_in_texts(settings: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns ordinary, empty, odd and too long texts for the task.json of a model; with masks if it fills them."""
    # The numbers make every window of the long text different.
    sentences = (f"Paris is the capital of France {number}. " for number in range(settings["max_seq_length"]))
    return texts_of(settings, [*_ORDINARY_TEXTS, *_ODD_TEXTS, "".join(sentences).encode()])


def texts_of(settings: Mapping[str, Any], texts: list[bytes]) -> dict[str, np.ndarray]:
    """Returns texts as the inputs that the task.json of a model describes; more of them, with masks, if it fills them.

    The second text of a row, and its choices, are the next ones.
    """
    if ability_of(settings["task"]).has_masks:
        texts = [*texts, *(text[: len(text) // 2] + _MASK + text[len(text) // 2 :] + _MASK for text in texts)]

    def moved(number: int) -> list[bytes]:
        return [*texts[number:], *texts[:number]]

    inputs = {}
    for number, name in enumerate(text_names(settings)):
        rows = moved(number)
        if name in LISTS:
            rows = list(zip(*(moved(number + choice) for choice in range(_NUM_CHOICES)), strict=True))
        inputs[name] = np.array(rows, object)
    return inputs


def read_check_texts(path: str, settings: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Reads a file of texts, one a line; tabs separate the texts of a pair, or a text and its list.

    Blank lines are skipped, and bytes that are not UTF-8 are kept. If the model takes single texts, tabs are part of
    the text.
    """
    if not paths.is_file(path):
        raise MissingFile("{check_file}={} is not a file; give a text file, one text a line", path)
    lines = paths.read_bytes(path).replace(b"\r\n", b"\n").split(b"\n")
    rows = [(number, line.split(b"\t")) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise Mistake("{check_file}={} holds no text; give one text a line", path)
    names = text_names(settings)
    if len(names) == 1:
        return {names[0]: np.array([b"\t".join(parts) for _, parts in rows], object)}
    has_choices = names[1] in LISTS
    # All rows of a batch need the same number of choices; use that of the first.
    num_parts = max(len(rows[0][1]), 1 + LISTS[names[1]]) if has_choices else len(names)
    for number, parts in rows:
        if len(parts) != num_parts:
            shape = f"a {names[0]} and its {names[1]}, the same number in all lines" if has_choices else "two texts"
            raise Mistake(
                "{} line {} has {} tabs, but needs {}: {}, with tabs between",
                path,
                number,
                len(parts) - 1,
                num_parts - 1,
                shape,
            )
    firsts = [parts[0] for _, parts in rows]
    others = [parts[1:] if has_choices else parts[1] for _, parts in rows]
    return {names[0]: np.array(firsts, object), names[1]: np.array(others, object)}


def items_of(texts: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Returns texts as dicts of str, without the bytes that are not UTF-8."""
    rows = zip(*texts.values(), strict=True)
    return [{name: _decoded(value) for name, value in zip(texts, row, strict=True)} for row in rows]


def _decoded(value: Any) -> Any:
    return [_decoded(part) for part in value] if isinstance(value, np.ndarray) else value.decode(errors="ignore")
