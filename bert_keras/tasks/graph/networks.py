"""The network of any task as a function from ids to scores, the source of every export format.

Axes: B batch, T tokens, P predictions, V vocabulary, C classes, H hidden.
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_keras.modeling import weights_by_name, weights_to_load
from bert_keras.modeling.fused import written_for_runtimes
from bert_keras.tasks import ability_of


class IdsNetwork(tf.Module):
    """A Keras model as a function of int32 tensors, for conversion to any format.

    Inputs are [B, T], and for fill_mask also masked_lm_positions [B, P]; B and T are dynamic. Outputs are float32:
    "logits" [B, C] (regression, choices and reranking [B, 1], token classification [B, T, C], fill_mask [B, P, V],
    replaced_tokens [B, T]), "start_logits" and "end_logits" [B, T], "sequence_output" [B, T, H] and "pooled_output"
    [B, H].

    For vectors, the model is a BertModel that returns all layers, and layer is the number of an encoder layer or
    "embeddings". Without has_pooler (the weights of the pooler were not loaded), the network does not return
    pooled_output.

    The module tracks only the weights of the model, so a file contains them once, under the names of the original BERT.
    """

    def __init__(self, model: keras.Model, task: str, layer: int | str = -1, has_pooler: bool = True):
        super().__init__(name="network")
        ability = ability_of(task)
        self.input_names, self.output_names = ability.inputs, ability.outputs
        if not has_pooler:
            self.output_names = tuple(name for name in self.output_names if name != "pooled_output")
        self.weights = {name: weight.value for name, weight in weights_by_name(model).items()}
        self.longest = model.config.max_position_embeddings

        def score(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            if task == "vectors":
                outputs = model(*(features[name] for name in self.input_names))
                layers = outputs["all_encoder_layers"]
                outputs["sequence_output"] = outputs["embedding_output"] if layer == "embeddings" else layers[layer]
            else:
                if task == "next_sentence":
                    # The masked-LM head needs a position.
                    features = {**features, "masked_lm_positions": features["input_ids"][:, :1] * 0}
                outputs = model(features)
            names = {"logits": ability_of(task).logits}
            return {name: tf.cast(outputs[names.get(name, name)], tf.float32) for name in self.output_names}

        # Trace once, so that all signatures of a SavedModel share one graph.
        with written_for_runtimes():
            self._function = tf.function(score, autograph=False).get_concrete_function(self.signature)

    @property
    def signature(self) -> dict[str, tf.TensorSpec]:
        """The `tf.TensorSpec` of each input by name. (`tf.Module` would save an attribute with the model.)"""
        return {name: tf.TensorSpec([None, None], tf.int32, name) for name in self.input_names}

    def __call__(self, features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        """Returns the scores of features, a dict of the inputs; other keys are ignored."""
        return self._function({name: features[name] for name in self.input_names})


def copy_in(precision: str, model: keras.Model) -> keras.Model:
    """Returns a copy of a model that stores and multiplies its weights in another precision, such as "bfloat16".

    Softmax and the statistics of layer normalisation use float32, as in training with mixed precision.
    """
    with weights_to_load():
        copy = type(model).from_config(model.get_config() | {"dtype": precision})
    values = weights_by_name(model)
    for name, weight in weights_by_name(copy).items():
        weight.assign(values[name].value)
    return copy
