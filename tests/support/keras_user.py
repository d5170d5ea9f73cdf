"""A pre-trained model of an artificial vocabulary, and the functions of a user who builds models on it."""

import keras
import numpy as np
from rounding import assert_close

from bert_keras import (
    BertConfig,
    BertModel,
    FullTokenizer,
    PretrainingModel,
    load_weights,
    open_checkpoint,
    save_safetensors,
    weights_by_name,
)
from bert_keras.modeling import HEAD_PATTERNS

WORDS = "the film was good bad they left ada bob eve lives in rome oslo bonn who where . ?"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]
CONFIG = BertConfig(
    vocab_size=len(TOKENS),
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=24,
    initializer_range=0.3,
)
TEXTS = ["The film was good.", "Bad.", "They left. The film was bad.", "Good good."]
CLASSES = np.array([1, 0, 0, 1])


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def same(tensor, expected, is_rounded=False):
    (assert_close if is_rounded else np.testing.assert_array_equal)(array(tensor), array(expected))


def write_pretrained(folder, seed=0):
    """Writes a model with random weights as a user does. Returns its folder."""
    keras.utils.set_random_seed(seed)
    save_safetensors(folder, weights_by_name(PretrainingModel(CONFIG)), CONFIG)
    FullTokenizer(TOKENS, do_lower_case=True).save(folder)
    return folder


def load_encoder(folder, **options):
    """Returns an encoder with the weights of a checkpoint."""
    checkpoint = open_checkpoint(folder)
    bert = BertModel(checkpoint.config, **options)
    load_weights(weights_by_name(bert), checkpoint, ignored=HEAD_PATTERNS)
    return bert


def functional_inputs(num_tokens=None):
    names = ("input_ids", "input_mask", "segment_ids")
    return {name: keras.Input((num_tokens,), dtype="int32", name=name) for name in names}


def classifier_of(bert, **options):
    """Returns the model of the page: a dense layer on the pooled vector."""
    inputs = functional_inputs()
    return keras.Model(inputs, keras.layers.Dense(2, name="scores", **options)(bert(inputs)["pooled_output"]))


def compiled(model, optimizer):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)  # XLA takes seconds for each model
    return model
