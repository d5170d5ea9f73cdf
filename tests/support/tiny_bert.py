"""Small models, random weights and ragged batches."""

import numpy as np

from bert_keras.modeling import BertConfig, PretrainingModel, weights_by_name


def make_config(**changes):
    """Returns a config of width 8; fields can be replaced."""
    sizes = {
        "vocab_size": 40,
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 16,
    }
    return BertConfig(**(sizes | changes))


def make_model(config, seed=0):
    """Returns a pre-training model with random weights."""
    return with_random_weights(PretrainingModel(config), seed)


def with_random_weights(model, seed=0, scale=0.3):
    """Gives every weight of a model a random value, biases and gammas included. Returns the model."""
    rng = np.random.default_rng(seed)
    for name, weight in weights_by_name(model).items():
        weight.assign(scale * rng.standard_normal(weight.shape) + name.endswith("gamma"))
    return model


def make_inputs(random, lengths, num_tokens, vocab_size=40):
    """Makes sequences of random tokens and segments, padded from the given lengths."""
    mask = np.arange(num_tokens) < np.array(lengths)[..., None]
    return {
        "input_ids": (random.integers(1, vocab_size, mask.shape) * mask).astype(np.int32),
        "input_mask": mask.astype(np.int8),
        "segment_ids": (random.integers(0, 2, mask.shape) * mask).astype(np.int8),
    }


def make_features(config, batch_size=4, num_tokens=11, num_predictions=3, seed=0):
    """Makes a batch like the pre-training records: ragged lengths, two segments, padded predictions."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, num_tokens + 1, batch_size)
    first_lengths = rng.integers(2, lengths)
    num_masked = rng.integers(1, num_predictions + 1, batch_size)
    columns = np.arange(num_tokens)
    input_mask = columns < lengths[:, None]
    weights = np.arange(num_predictions) < num_masked[:, None]
    positions = np.stack([np.sort(rng.choice(4, num_predictions, replace=False)) for _ in range(batch_size)])
    labels = rng.integers(0, config.vocab_size, (batch_size, num_predictions))
    return {
        "input_ids": (rng.integers(1, config.vocab_size, (batch_size, num_tokens)) * input_mask).astype(np.int32),
        "input_mask": input_mask.astype(np.int32),
        "segment_ids": ((columns >= first_lengths[:, None]) & input_mask).astype(np.int32),
        "masked_lm_positions": (positions * weights).astype(np.int32),
        "masked_lm_ids": (labels * weights).astype(np.int32),
        "masked_lm_weights": weights.astype(np.float32),
        "next_sentence_labels": rng.integers(0, 2, (batch_size, 1)).astype(np.int32),
    }
