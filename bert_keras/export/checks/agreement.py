"""Checks that an export computes the same as its network, on the same sequences.

All formats use the same distance: the root mean square of the differences, divided by the variation of the network's
output between sequences. Another network, permuted outputs, zeros and constants have a distance of about 1 or more,
regardless of the scale of the numbers.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from bert_keras.export.checks.comparison import check_names, largest_difference
from bert_keras.mistakes import Mistake
from bert_keras.tasks.graph.networks import IdsNetwork

# Maximum distance of an export. LIMITS[None] applies to each number, because only rounding may differ. The others apply
# to the root mean square: single numbers may be far off in 8 or 16 bits. Measured distances: docs/guides/export.md.
LIMITS = {None: 1e-3, "bfloat16": 0.5, "int8": 0.7}
# Maximum float32 rounding error, relative to the largest number. Rounding alone would determine the distance of an
# output that hardly varies.
_ROUNDING = 1e-5


def random_features(network: IdsNetwork, num_rows: int, num_tokens: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Makes inputs of a network: ragged lengths (the first is full), two segments, and masked_lm_positions [B, 3]."""
    random = np.random.default_rng(seed)
    lengths = random.integers(min(2, num_tokens), num_tokens + 1, (num_rows, 1))
    lengths[0] = num_tokens
    columns = np.arange(num_tokens)
    vocab_size = network.weights["bert/embeddings/word_embeddings"].shape[0]
    input_mask = columns < lengths
    features = {
        "input_ids": random.integers(1, vocab_size, (num_rows, num_tokens)) * input_mask,
        "input_mask": input_mask,
        "segment_ids": (columns >= lengths // 2) & input_mask,
        "masked_lm_positions": random.integers(0, lengths, (num_rows, 3)),
    }
    return {name: features[name].astype(np.int32) for name in network.input_names}


def questions(network: IdsNetwork) -> list[dict[str, np.ndarray]]:
    """Makes batches of different shapes, because batch size and length are dynamic. The first has most sequences."""
    longest = network.longest
    shapes = (32, min(32, longest)), (1, min(8, longest)), (3, longest), (2, 2)
    return [random_features(network, *shape) for shape in shapes]


def batches_of(rows: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Makes a batch of up to 32 inputs of a network, evenly spaced and padded, and a batch of the first alone."""
    chosen = [rows[place] for place in np.unique(np.linspace(0, len(rows) - 1, 32).astype(int))]
    widths = {name: max(row[name].shape[1] for row in chosen) for name in rows[0]}

    def padded(row: Mapping[str, np.ndarray], name: str) -> np.ndarray:
        return np.pad(row[name], [(0, 0), (0, widths[name] - row[name].shape[1])])

    return [{name: np.concatenate([padded(row, name) for row in chosen]) for name in widths}, dict(rows[0])]


def judge(
    called: str,
    answers: Sequence[Mapping[str, np.ndarray]],
    network: IdsNetwork,
    quantize: str | None = None,
    batches: Sequence[Mapping[str, np.ndarray]] | None = None,
) -> dict[str, float]:
    """Compares the outputs of an export for inputs (None: `questions`) with those of its network in float32.

    Returns the largest difference of two numbers, and the largest distance of an output in a batch, as in export.json.
    Raises ValueError if the outputs do not agree, or if a number of either is not finite.
    """
    batches = batches or questions(network)
    expected = [{name: value.numpy() for name, value in network(features).items()} for features in batches]
    if not all(np.isfinite(value).all() for outputs in expected for value in outputs.values()):
        raise Mistake("the scores of the model are not finite: its weights are broken; take another checkpoint")
    largest, farthest = 0.0, 0.0
    for name, many in expected[0].items():
        # Nobody uses the outputs at padding, and rounding to 8 bits can change them much.
        kept = [features["input_mask"] == 1 for features in batches]
        if not all(outputs[name].shape[:2] == mask.shape for outputs, mask in zip(expected, kept, strict=True)):
            kept = [...] * len(batches)  # one output for each sequence
        variation = _root_mean_square((many - many.mean(axis=0))[kept[0]])
        rounding = _ROUNDING * max(float(np.abs(outputs[name]).max()) for outputs in expected)
        # Wrong names, wrong shapes and numbers that are not finite are errors in every format.
        tolerance = np.finfo(np.float64).max if quantize else LIMITS[None] * variation + rounding
        for outputs, answer, places in zip(expected, answers, kept, strict=True):
            check_names(called, outputs, answer)
            difference = largest_difference(called, {name: outputs[name]}, {name: answer[name]}, tolerance)
            largest = max(largest, difference)
            error = _root_mean_square((answer[name] - outputs[name])[places])
            distance = error / variation if variation > rounding else 0.0
            farthest = max(farthest, distance)
            if not error <= LIMITS[quantize] * variation + rounding:
                raise Mistake(
                    "{}: {} differs from that of the network by {:.2g} of its variation between "
                    "sequences, but at most {:g} is allowed",
                    called,
                    name,
                    distance,
                    LIMITS[quantize],
                )
    return {"largest_difference": largest, "distance": farthest}


def _root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))
