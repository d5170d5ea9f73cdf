"""Small networks as Keras models, with a batch of two texts; for every backend."""

import keras
import numpy as np
from keras import ops
from tiny_bert import make_config

from bert_keras.modeling import (
    BertModel,
    ClassifierModel,
    MultipleChoiceModel,
    PretrainingModel,
    SquadModel,
    TokenClassifierModel,
)

CONFIG = make_config(num_hidden_layers=1)
IDS = np.array([[2, 7, 9, 3, 0], [2, 5, 4, 8, 3]], np.int32)
INPUTS = {"input_ids": IDS, "input_mask": (IDS > 0).astype(np.int32), "segment_ids": (IDS == 3).astype(np.int32)}
MODELS = {
    "encoder": lambda **options: BertModel(CONFIG, **options),
    "all layers": lambda **options: BertModel(CONFIG, return_all_encoder_layers=True, **options),
    "pretraining": lambda **options: PretrainingModel(CONFIG, **options),
    "classifier": lambda **options: ClassifierModel(CONFIG, 3, **options),
    "token classifier": lambda **options: TokenClassifierModel(CONFIG, 3, **options),
    "choices": lambda **options: MultipleChoiceModel(CONFIG, **options),
    "squad": lambda **options: SquadModel(CONFIG, **options),
}


def inputs_of(model):
    """Returns the inputs that a model takes."""
    if isinstance(model, MultipleChoiceModel):
        return {name: np.stack([values, values[:, ::-1]], axis=1) for name, values in INPUTS.items()}
    return INPUTS | ({"masked_lm_positions": [[1, 2], [3, 0]]} if isinstance(model, PretrainingModel) else {})


def arrays(outputs):
    """Returns the tensors of a structure as float32 arrays, a list."""
    return [ops.convert_to_numpy(ops.cast(x, "float32")) for x in keras.tree.flatten(outputs)]


def assert_same(outputs, expected):
    keras.tree.assert_same_structure(outputs, expected)
    for array, expected_array in zip(arrays(outputs), arrays(expected), strict=True):
        np.testing.assert_array_equal(array, expected_array)


def functional_model(bert, **options):
    """Returns a model of 3 numbers for each text: the means over its tokens go through a dense layer."""
    inputs = {name: keras.Input((5,), dtype="int32", name=name) for name in INPUTS}
    x = keras.layers.GlobalAveragePooling1D()(bert(inputs, **options)["sequence_output"])
    return keras.Model(inputs, keras.layers.Dense(3, name="answer")(x))
