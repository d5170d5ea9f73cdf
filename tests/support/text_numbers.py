"""Examples for the losses of vectors of texts."""

import numpy as np
import tensorflow as tf

from bert_keras.tasks.vectors.losses import NO_TEXT

# Eight examples: equal first texts, a second text that occurs twice, and missing third texts.
NUMBERS = np.array(
    [[0, 1, 2], [0, 3, NO_TEXT], [4, 5, 1], [6, 7, 8], [9, 7, NO_TEXT], [10, 10, 11], [12, 0, 13], [14, 15, 16]],
    np.int32,
)


def make_examples(seed=0, num_texts=3):
    """Makes eight examples of texts of different lengths."""
    random = np.random.default_rng(seed)
    mask = np.arange(7) < random.integers(2, 8, (8, num_texts, 1))
    return {
        "input_ids": tf.constant(random.integers(1, 40, mask.shape) * mask, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "segment_ids": tf.zeros(mask.shape, tf.int32),
        "text_numbers": tf.constant(NUMBERS[:, :num_texts]),
    }
