"""The complete networks: BERT with the heads of a task, from features to logits.

All models are called as `model(features, dropout_seed=None)` with

- features: dict with int32 [B, T] "input_ids", "input_mask" and "segment_ids"; other keys are ignored;
- dropout_seed: int32 [2] (uint32 on JAX) to train with dropout, None to predict.

They are made from a BertConfig and, for a classifier, the number of classes C.

Features of packed rows also have "sequence_ids", "position_ids" and "cls_positions", see `BertModel`. Outputs for a
sequence then have the shape [B, S, ...] instead of [B, ...].

The weights have the names of the original checkpoints, so models fine-tuned with the original BERT can be loaded.

Axes: B batch, T tokens, P predictions, V vocabulary, C classes, K choices, S sequences of a packed row.
"""

import keras
from keras import ops

from bert_keras.modeling.bert import BertModel
from bert_keras.modeling.heads import LinearHead, MaskedLmHead

_INPUTS = ("input_ids", "input_mask", "segment_ids")
_PACKED_INPUTS = ("sequence_ids", "position_ids", "cls_positions")


class PretrainingModel(keras.Model):
    """BERT with the heads of its two pre-training tasks."""

    def __init__(self, config, name="pretraining"):
        super().__init__(name=name)
        self.config = config
        self.bert = BertModel(config)
        self.masked_lm_head = MaskedLmHead(config)
        self.next_sentence_head = LinearHead(config, 2, ("cls", "seq_relationship"), config.initializer_range)
        self.built = True

    def call(self, features, dropout_seed=None):
        """Scores the masked tokens, at int32 [B, P] features["masked_lm_positions"], and the order of the segments.

        Returns:
            dict of "masked_lm_logits" float32 [B, P, V] and "next_sentence_logits" float32 [B, 2]. Class 0
            means that the second segment follows the first, class 1 that it comes from another place.
        """
        encoded = _encode(self.bert, features, dropout_seed)
        return {
            "masked_lm_logits": self.masked_lm_head(
                encoded["sequence_output"], features["masked_lm_positions"], self.bert.embedding_table
            ),
            "next_sentence_logits": self.next_sentence_head(encoded["pooled_output"]),
        }


class FineTunedModel(keras.Model):
    """Base class of the models with one linear head.

    Attributes:
        is_per_token: bool; True: the head takes sequence_output, and the second axis of the outputs is the token axis.
            False: the head takes pooled_output.
    """

    is_per_token = False

    def __init__(self, config, head, name):
        super().__init__(name=name)
        self.config = config
        self.bert = BertModel(config)
        self.head = head
        self.built = True

    def call(self, features, dropout_seed=None):
        """Returns a dict of "logits" float32 [B, C], or [B, T, C] if the model is per token."""
        encoded = _encode(self.bert, features, dropout_seed)
        x = encoded["sequence_output" if self.is_per_token else "pooled_output"]
        return {"logits": self.head(x, dropout_seed=dropout_seed)}


class ClassifierModel(FineTunedModel):
    """BERT with a head that gives a sequence, or a pair of sequences, one of several classes (paper, section 4.1).

    With one class, the model is a regression, and the logit is the predicted number.
    Source: `create_model` of the original run_classifier.py.
    """

    def __init__(self, config, num_classes, name="classification"):
        super().__init__(config, LinearHead(config, num_classes, has_dropout=True), name)


class TokenClassifierModel(FineTunedModel):
    """BERT with a head that gives each token one of several classes (paper, section 5.3).

    The original BERT has no program for it. The weights have the names of the original classifier.
    """

    is_per_token = True

    def __init__(self, config, num_classes, name="token_classification"):
        super().__init__(config, LinearHead(config, num_classes, has_dropout=True), name)


class MultipleChoiceModel(FineTunedModel):
    """BERT that picks one of several continuations; a classifier with one class scores each (paper, section 4.4)."""

    def __init__(self, config, name="multiple_choice"):
        super().__init__(config, LinearHead(config, num_classes=1, has_dropout=True), name)

    def call(self, features, dropout_seed=None):
        """Scores the choices; the three inputs are int32 [B, K, T] here. Returns a dict of "logits" float32 [B, K]."""
        _, num_choices, num_tokens = ops.shape(features["input_ids"])
        flat = {name: ops.reshape(features[name], (-1, num_tokens)) for name in _INPUTS}  # [B * K, T]
        logits = super().call(flat, dropout_seed)["logits"]  # [B * K, 1]
        return {"logits": ops.reshape(logits, (-1, num_choices))}


class SquadModel(FineTunedModel):
    """BERT with a head that finds the answer to a question in a text (paper, section 4.2).

    Source: `create_model` of the original run_squad.py.
    """

    is_per_token = True

    def __init__(self, config, name="question_answering"):
        super().__init__(config, LinearHead(config, 2, ("cls", "squad")), name)

    def call(self, features, dropout_seed=None):
        """Scores each token as the start and the end of the answer.

        Returns:
            dict of "start_logits" and "end_logits", float32 [B, T].
        """
        logits = super().call(features, dropout_seed)["logits"]  # [B, T, 2]
        return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}


def _encode(bert, features, dropout_seed):
    present = [name for name in _PACKED_INPUTS if name in features]
    return bert(dropout_seed=dropout_seed, **{name: features[name] for name in (*_INPUTS, *present)})
