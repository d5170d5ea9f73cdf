"""The network of any task as ids in, scores out: what every format of an export is made from.

Axes: B batch, T tokens, P predictions, V vocabulary, C classes, H hidden.
"""

import keras
import tensorflow as tf

from bert_keras.modeling import weights_by_name

_IDS = ("input_ids", "input_mask", "segment_ids")
_POSITIONS = "masked_lm_positions"
_EMBEDDINGS = "embeddings"

# What each task's model gives out.
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
    """A model as a function of int32 tensors that any format can be made from.

    It holds the weights and nothing else of the model, so that they are in a file once, under the release's names.
    Batch and length are dynamic.

    Args:
        model: the Keras model of the task: ClassifierModel (also of multiple choice, whose choices are scored one by
            one), SquadModel, TokenClassifierModel, FeatureBasedTagger, PretrainingModel for fill_mask, BertModel for
            vectors.
        task: one of the tasks of a task.json, or "fill_mask" or "vectors".
        layer: of vectors: what sequence_output is of: the number of a block, as -1 for the last, or "embeddings" for
            what goes into the first.
        has_pooler: of vectors: whether the weights of the pooler were loaded; if not there is no pooled_output.

    Attributes:
        input_names, output_names: tuples of str.
        weights: dict of the name of each weight to its `tf.Variable`.
        longest: the most tokens of a sequence, an int.

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
        # Traced once, so that all signatures of a SavedModel share one graph.
        self._function = function.get_concrete_function(self.signature)

    @property
    def signature(self) -> dict[str, tf.TensorSpec]:
        """The `tf.TensorSpec` of each input by its name: int32 [B, T]; of masked_lm_positions [B, P]."""
        return {name: tf.TensorSpec([None, None], tf.int32, name) for name in self.input_names}

    def __call__(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Scores sequences.

        Args:
            features: dict with what `signature` says; other keys are ignored.

        Returns:
            dict with output_names, float32: "logits" [B, C] (regression, multiple choice [B, 1]; token classification
            [B, T, C]; fill_mask [B, P, V]); "start_logits", "end_logits" [B, T]; "sequence_output" [B, T, H],
            "pooled_output" [B, H].
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
