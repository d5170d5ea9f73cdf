"""The network of any task as a function from ids to scores, the source of every export format.

Axes: B batch, T tokens, P predictions, V vocabulary, C classes, H hidden.
"""

import keras
import tensorflow as tf

from bert_keras.modeling import weights_by_name

_IDS = ("input_ids", "input_mask", "segment_ids")
_POSITIONS = "masked_lm_positions"
_EMBEDDINGS = "embeddings"

_LOGITS = ("logits",)
_OUTPUTS = {
    "classification": _LOGITS,
    "regression": _LOGITS,
    "multi_label": _LOGITS,
    "multiple_choice": _LOGITS,
    "question_answering": ("start_logits", "end_logits"),
    "token_classification": _LOGITS,
    "fill_mask": _LOGITS,
    "vectors": ("sequence_output", "pooled_output"),
}


class IdsNetwork(tf.Module):
    """A model as a function of int32 tensors, for conversion to any format.

    The module tracks only the weights of the model, so a file contains them once, under the names of the original BERT.
    Batch and length are dynamic.

    Args:
        model: the Keras model of the task: ClassifierModel (also for multiple choice, which scores one choice at a
            time), SquadModel, TokenClassifierModel, FeatureBasedTagger, PretrainingModel for fill_mask, BertModel for
            vectors.
        task: a task of task.json, or "fill_mask" or "vectors".
        layer: for vectors, the layer of sequence_output: 0 for the first encoder layer, -1 for the last, or
            "embeddings" for the input of the first.
        has_pooler: for vectors, whether the weights of the pooler were loaded. Without them the network does not return
            pooled_output.

    Attributes:
        input_names, output_names: tuples of str.
        weights: dict of weight name to `tf.Variable`.
        longest: int; maximum number of tokens of a sequence.

    Raises:
        ValueError: the task is unknown.
    """

    def __init__(self, model: keras.Model, task: str, layer: int | str = -1, has_pooler: bool = True):
        super().__init__(name="network")
        if task not in _OUTPUTS:
            raise ValueError(f'the task is "{task}", but must be one of {", ".join(_OUTPUTS)}')
        self.input_names = (*_IDS, _POSITIONS) if task == "fill_mask" else _IDS
        self.output_names = _OUTPUTS[task] if has_pooler else _OUTPUTS[task][:1]
        self.weights = {name: weight.value for name, weight in weights_by_name(model).items()}
        self.longest = model.config.max_position_embeddings
        read_out = _of_layer(model, layer) if task == "vectors" else _of_head(model, task)
        function = tf.function(lambda features: self._scores(read_out(features)), autograph=False)
        # Trace once, so that all signatures of a SavedModel share one graph.
        self._function = function.get_concrete_function(self.signature)

    @property
    def signature(self) -> dict[str, tf.TensorSpec]:
        """The `tf.TensorSpec` of each input by name: int32 [B, T]; [B, P] for masked_lm_positions."""
        return {name: tf.TensorSpec([None, None], tf.int32, name) for name in self.input_names}

    def __call__(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Scores sequences.

        Args:
            features: dict that matches `signature`; other keys are ignored.

        Returns:
            dict of float32 by output_names: "logits" [B, C] (regression and multiple choice [B, 1], token
            classification [B, T, C], fill_mask [B, P, V]); "start_logits", "end_logits" [B, T]; "sequence_output"
            [B, T, H], "pooled_output" [B, H].
        """
        return self._function({name: features[name] for name in self.input_names})

    def _scores(self, outputs):
        return {name: tf.cast(outputs[name], tf.float32) for name in self.output_names}


def _of_head(model, task):
    if task != "fill_mask":
        return model
    return lambda features: {"logits": model(features)["masked_lm_logits"]}


def _of_layer(bert, layer):
    def read_out(features):
        outputs = bert(*(features[name] for name in _IDS))
        values = outputs["embedding_output"] if layer == _EMBEDDINGS else outputs["all_encoder_layers"][layer]
        return {"sequence_output": values, "pooled_output": outputs["pooled_output"]}

    return read_out
