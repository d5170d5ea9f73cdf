"""Checks that an export computes the same as its network, on the same sequences of random word pieces.

All formats use the same distance: the difference between the two outputs, divided by the variation of the network's
output between sequences. Another network, permuted outputs, zeros and constants have a distance of about 1 or more,
regardless of the scale of the numbers.
"""

import dataclasses

import numpy as np

from bert_keras.export.checks.fresh_process import largest_difference
from bert_keras.export.formats.networks import IdsNetwork

# Maximum distance of an export. LIMITS[None] applies to each number, because only rounding may differ. The others apply
# to the root mean square: single numbers may be far off in 8 or 16 bits. Measured distances: docs/export.md.
LIMITS = {None: 1e-3, "bfloat16": 0.5, "int8": 0.7}
# Maximum float32 rounding error, relative to the largest number. Rounding alone would determine the distance of an
# output that hardly varies.
_ROUNDING = 1e-5
# Rows and tokens of the first batch, which has most of the sequences.
_NUM_ROWS, _NUM_TOKENS = 32, 32


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Difference between the outputs of an export and those of its network.

    Attributes:
        largest_difference: float; of two numbers.
        distance: float; the root mean square of the differences, divided by the variation of the network's output
            between sequences; the maximum over all outputs and batches.
    """

    largest_difference: float
    distance: float


def random_features(network: IdsNetwork, num_rows: int, num_tokens: int, seed: int = 0) -> dict:
    """Makes sequences of random word pieces with different lengths and two segments; the first has full length.

    Returns:
        dict of int32 [B, T] arrays, the inputs of the network; masked_lm_positions is [B, 3].
    """
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


def questions(network: IdsNetwork) -> list[dict]:
    """Makes batches of different shapes for `judge`, because batch size and length are dynamic.

    Returns:
        list of dict of int32 arrays, see `random_features`.
    """
    shapes = (
        (_NUM_ROWS, min(_NUM_TOKENS, network.longest)),
        (1, min(8, network.longest)),
        (3, network.longest),
        (2, 2),
    )
    return [random_features(network, *shape) for shape in shapes]


def judge(called: str, answers: list[dict], network: IdsNetwork, quantize: str | None = None) -> Agreement:
    """Compares the outputs of an export with those of its network.

    Args:
        called: str; the name of the export in an error message.
        answers: list of dict of float32 arrays; the outputs of the export for `questions`.
        network: the source IdsNetwork, in float32.
        quantize: "int8", "bfloat16" or None.

    Returns:
        Agreement.

    Raises:
        ValueError: the outputs do not agree, or a number of either is not finite.
    """
    expected = [{name: value.numpy() for name, value in network(features).items()} for features in questions(network)]
    if not all(np.isfinite(value).all() for outputs in expected for value in outputs.values()):
        raise ValueError("the scores of the model are not finite: its weights are broken; take another checkpoint")
    largest, farthest = 0.0, 0.0
    for name, many in expected[0].items():
        variation = _root_mean_square(many - many.mean(axis=0))
        rounding = _ROUNDING * max(float(np.abs(outputs[name]).max()) for outputs in expected)
        # Wrong names, wrong shapes and numbers that are not finite are errors in every format.
        tolerance = np.finfo(np.float64).max if quantize else LIMITS[None] * variation + rounding
        for outputs, answer in zip(expected, answers, strict=True):
            if set(answer) != set(outputs):
                raise ValueError(
                    f"{called} gives {', '.join(sorted(answer))}, but {', '.join(sorted(outputs))} are expected"
                )
            difference = largest_difference({name: outputs[name]}, {name: answer[name]}, tolerance, called)
            largest = max(largest, difference)
            error = _root_mean_square(answer[name] - outputs[name])
            distance = error / variation if variation > rounding else 0.0
            farthest = max(farthest, distance)
            if not error <= LIMITS[quantize] * variation + rounding:
                raise ValueError(
                    f"{called}: {name} differs from that of the network by {distance:.2g} of its variation between "
                    f"sequences, but at most {LIMITS[quantize]:g} is allowed"
                )
    return Agreement(largest, farthest)


def check_agreement(called: str, run, network: IdsNetwork, quantize: str | None = None) -> Agreement:
    """Runs an export and its network on the same inputs and compares the outputs; see `judge`.

    Args:
        called, network, quantize: see `judge`.
        run: function that maps a dict of int32 arrays to a dict of float32 arrays.
    """
    return judge(called, [run(features) for features in questions(network)], network, quantize)


def _root_mean_square(values):
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))
