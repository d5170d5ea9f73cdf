"""Whether an export gives what the network gives: both are asked about sequences of random pieces."""

import numpy as np

from export.fresh_check import largest_difference, scale_of
from export.networks import IdsNetwork

# The largest difference there may be, as a share of the largest number (of 1, where all are smaller): rounding of
# float32. What 8 bits lose depends on the model, and only its metric says whether it matters; but an answer that has
# nothing to do with the network's is an error.
_TOLERANCES = {None: 1e-4, "int8": 1.0}


def random_features(network: IdsNetwork, num_rows: int, num_tokens: int, seed: int = 0) -> dict:
    """Makes sequences of random pieces, ragged and of two segments; the first is of full length.

    Returns:
        dict of int32 [B, T] arrays, what the network takes; masked_lm_positions are [B, 3].
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


def check_agreement(called: str, run, network: IdsNetwork, quantize: str | None = None) -> float:
    """Asks an export and its network about one sequence and about many, of three lengths.

    Args:
        called: str; what the export is, for an error.
        run: function of a dict of int32 arrays that gives a dict of float32 arrays.
        network: the IdsNetwork that it was made from.
        quantize: "int8" or None.

    Returns:
        float; the largest difference of two numbers.

    Raises:
        ValueError: they do not agree, or a number of either is not finite.
    """
    largest = 0.0
    for num_rows, num_tokens in ((1, min(8, network.longest)), (3, network.longest), (2, 2)):
        features = random_features(network, num_rows, num_tokens)
        expected = {name: value.numpy() for name, value in network(features).items()}
        if not all(np.isfinite(value).all() for value in expected.values()):
            raise ValueError("the scores of the model are not finite: its weights are broken; take another checkpoint")
        tolerance = _TOLERANCES[quantize] * scale_of(expected)
        difference = largest_difference(expected, run(features), tolerance, called)
        largest = max(largest, difference)
    return largest
