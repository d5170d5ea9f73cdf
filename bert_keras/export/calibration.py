"""The inputs of a network that show the ranges of its activations, for int8 with fixed scales."""

import itertools
import pathlib
from collections.abc import Mapping

import numpy as np

from bert_keras.data_prep import sample
from bert_keras.export.checks.texts import built_in_texts, items_of, texts_of
from bert_keras.export.source import Source
from bert_keras.mistakes import Mistake
from bert_keras.prediction.network import Question

_NUM_ROWS = 300
_NUM_SAMPLES = 100
# Sentences in a sample text.
_LENGTHS = (1, 2, 4, 8)


def calibration_of(source: Source) -> list[dict[str, np.ndarray]]:
    """Returns inputs of the network of a Source, each of one example without padding.

    They are examples of its data, evenly spaced, or of the sample texts where it has none.
    """
    names = source.network.input_names
    if source.calibration is None:
        return [{name: inputs[name] for name in names} for inputs in itertools.chain(*sample_inputs(source))]
    num_rows, num_tokens = len(source.calibration["input_ids"]), source.calibration["input_ids"].shape[-1]
    chosen = np.unique(np.linspace(0, num_rows - 1, _NUM_ROWS).astype(int))
    rows = ({name: source.calibration[name][row].reshape(-1, num_tokens) for name in names} for row in chosen)
    return [_without_padding(row) for row in rows]


def sample_inputs(source: Source, is_built_in: bool = False) -> list[list[dict[str, np.ndarray]]]:
    """Returns the inputs of a Source for each sample text, or for each built-in text, one for each of its sequences."""
    texts = built_in_texts(source.settings) if is_built_in else texts_of(source.settings, _sentences())
    inputs = []
    for item in items_of(texts):
        text = tuple(item.values()) if len(item) > 1 else next(iter(item.values()))
        try:
            _, questions = source.predictor.sequences(text)
        except Mistake:  # empty texts
            continue
        inputs.append([_features_of(question) for question in questions])
    return inputs


def _sentences() -> list[bytes]:
    lines = pathlib.Path(sample.__file__).with_name("documents.txt").read_bytes().splitlines()
    lengths = np.resize(_LENGTHS, _NUM_SAMPLES)
    starts = np.cumsum(lengths) - lengths
    return [b" ".join(lines[start : start + length]) for start, length in zip(starts, lengths, strict=True)]


def _without_padding(row: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    num_tokens = int(row["input_mask"].sum(axis=-1).max())
    return {name: values[:, :num_tokens].astype(np.int32) for name, values in row.items()}


def _features_of(question: Question) -> dict[str, np.ndarray]:
    values = {
        "input_ids": question.input_ids,
        "input_mask": np.ones_like(question.input_ids),
        "segment_ids": question.segment_ids,
        "masked_lm_positions": question.positions or [0],
    }
    return {name: np.array([value], np.int32) for name, value in values.items()}
