"""The complete networks: BERT with the heads of a task, from features to logits.

You can call all models by position, `model(input_ids, input_mask, segment_ids)`, or with a dict of the inputs,
`model(features)`; see `BaseModel.__call__`. The dict has

- int32 [B, T] "input_ids", and if needed "input_mask" and "segment_ids"; other keys, such as labels, are ignored.

They also take

- dropout_seed: int32 [2] (uint32 on JAX) for dropout from this seed;
- training: bool; True: dropout from a new seed at each call. Keras sets it in `fit`.

Without both, no dropout is applied. You make a model from a BertConfig, for a classifier the number of classes C, and
`name`, `dtype` and `trainable` of a Keras model.

Features of packed rows also have "sequence_ids", "position_ids" and "cls_positions", see `BertModel`. Outputs for a
sequence then have the shape [B, S, ...] instead of [B, ...].

The weights have the names of the original checkpoints, so models fine-tuned with the original BERT can be loaded.

Axes: B batch, T tokens, P predictions, V vocabulary, C classes, K choices, S sequences of a packed row.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bert_keras.mistakes import Mistake
from bert_keras.modeling.base import TOKEN_INPUTS, BaseModel
from bert_keras.modeling.bert import BertModel
from bert_keras.modeling.checkpoints.files import Checkpoint
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.heads import (
    LinearHead,
    MaskedLmHead,
    ReplacedTokenHead,
    SpanBoundaryHead,
    check_pooling,
    pool,
)
from bert_keras.modeling.layers import normalize
from bert_keras.modeling.number_format import dtype_policy


@keras.saving.register_keras_serializable(package="bert_keras")
class PretrainingModel(BaseModel):
    """BERT with the heads of its two pre-training tasks."""

    uses_pooler = True
    input_names = (*BaseModel.input_names, "masked_lm_positions")
    required_inputs = ("input_ids", "masked_lm_positions")

    def __init__(self, config: BertConfig, name: str = "pretraining", **kwargs: Any) -> None:
        super().__init__(config, name=name, **kwargs)
        with dtype_policy(self.dtype_policy):
            self.bert = BertModel(config)
            self.masked_lm_head = MaskedLmHead(config)
            self.next_sentence_head = LinearHead(config, 2, ("cls", "seq_relationship"), config.initializer_range)
        self._finish()

    def call(self, features: dict[str, Any], dropout_seed: Any = None, training: bool | None = None) -> dict[str, Any]:
        """Scores the masked tokens, at int32 [B, P] features["masked_lm_positions"], and the order of the segments.

        Returns:
            dict of "masked_lm_logits" float32 [B, P, V] and "next_sentence_logits" float32 [B, 2]. Class 0
            means that the second segment follows the first, class 1 that it comes from another place.
        """
        encoded = self._encode(features, self._dropout_seed(dropout_seed, training))
        return self._with_all_layers(self._outputs(encoded, features), encoded)

    def _outputs(self, encoded: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        return {
            "masked_lm_logits": self.masked_lm_head(
                encoded["sequence_output"], features["masked_lm_positions"], self.bert.embedding_table
            ),
            "next_sentence_logits": self.next_sentence_head(encoded["pooled_output"]),
        }


@keras.saving.register_keras_serializable(package="bert_keras")
class SpanBoundaryModel(PretrainingModel):
    """A `PretrainingModel` that also predicts each token of a masked span from the two tokens around it: SpanBERT.

    It also takes int32 [B, P] "masked_lm_left_positions" and "masked_lm_right_positions", the tokens before and after
    the span of each masked token, and also returns "span_boundary_logits" float32 [B, P, V].
    """

    input_names = (*PretrainingModel.input_names, "masked_lm_left_positions", "masked_lm_right_positions")
    required_inputs = (*PretrainingModel.required_inputs, *input_names[-2:])

    def __init__(self, config: BertConfig, name: str = "span_boundary_pretraining", **kwargs: Any) -> None:
        super().__init__(config, name=name, **kwargs)
        with dtype_policy(self.dtype_policy):
            # It draws its random weights last, so the others are those of a PretrainingModel of the same seed.
            self.span_boundary_head = SpanBoundaryHead(config)
        self._finish()

    def _outputs(self, encoded: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        positions = (features[f"masked_lm_{name}positions"] for name in ("", "left_", "right_"))
        head, table = self.span_boundary_head, self.bert.embedding_table
        logits = head(encoded["sequence_output"], *positions, embedding_table=table)
        return super()._outputs(encoded, features) | {"span_boundary_logits": logits}


@keras.saving.register_keras_serializable(package="bert_keras")
class ReplacedTokenModel(BaseModel):
    """BERT with the head that tells original tokens from replaced ones: the discriminator of ELECTRA."""

    def __init__(self, config: BertConfig, name: str = "replaced_tokens", **kwargs: Any) -> None:
        super().__init__(config, name=name, **kwargs)
        with dtype_policy(self.dtype_policy):
            self.bert = BertModel(config)
            self.head = ReplacedTokenHead(config)
        self._finish()

    def call(self, features: dict[str, Any], dropout_seed: Any = None, training: bool | None = None) -> dict[str, Any]:
        """Returns a dict of "logits" float32 [B, T]; above 0, the token is probably a replacement."""
        encoded = self._encode(features, self._dropout_seed(dropout_seed, training))
        return {"logits": self.head(encoded["sequence_output"])}


class FineTunedModel(BaseModel):
    """Base class of the models with one linear head.

    Args:
        config: BertConfig.
        make_head: function without arguments that makes the head, a Keras layer.
        **kwargs: see `BaseModel`.

    Attributes:
        is_per_token: bool; True: the head takes sequence_output, and the second axis of the outputs is the token axis.
            False: the head takes pooled_output.
    """

    is_per_token = False

    def __init__(self, config: BertConfig, make_head: Callable[[], keras.layers.Layer], **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        with dtype_policy(self.dtype_policy):
            # The head draws its random weights first, and is the last in `weights`.
            head = make_head()
            self.bert = BertModel(config)
        self.head = head
        self._finish()

    def call(self, features: dict[str, Any], dropout_seed: Any = None, training: bool | None = None) -> dict[str, Any]:
        """Returns a dict of "logits" float32 [B, C], or [B, T, C] if the model is per token."""
        dropout_seed = self._dropout_seed(dropout_seed, training)
        encoded = self._encode(features, dropout_seed)
        x = encoded["sequence_output" if self.is_per_token else "pooled_output"]
        return self._with_all_layers({"logits": self.head(x, dropout_seed=dropout_seed)}, encoded)


class _ModelOfClasses(FineTunedModel):
    """Base class of the models with a number of classes, which Keras saves."""

    def __init__(self, config: BertConfig, num_classes: int, **kwargs: Any) -> None:
        super().__init__(config, lambda: LinearHead(config, num_classes, has_dropout=True), **kwargs)
        self.num_classes = num_classes

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"num_classes": self.num_classes}

    @classmethod
    def _sizes_of_head(cls, checkpoint: Checkpoint, options: dict[str, Any]) -> dict[str, Any]:
        return {"num_classes": cls._num_classes(checkpoint, "output_bias", options.get("num_classes"))}


@keras.saving.register_keras_serializable(package="bert_keras")
class ClassifierModel(_ModelOfClasses):
    """BERT with a head that gives a sequence, or a pair of sequences, one of several classes (paper, section 4.1).

    With one class, the model is a regression, and the logit is the predicted number.
    Source: `create_model` of the original run_classifier.py.
    """

    head_name = "classifier"
    uses_pooler = True

    def __init__(self, config: BertConfig, num_classes: int, name: str = "classification", **kwargs: Any) -> None:
        super().__init__(config, num_classes, name=name, **kwargs)


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenClassifierModel(_ModelOfClasses):
    """BERT with a head that gives each token one of several classes (paper, section 5.3).

    The original BERT has no program for it. The weights have the names of the original classifier.
    """

    head_name = "token_classifier"
    is_per_token = True

    def __init__(self, config: BertConfig, num_classes: int, name: str = "token_classification", **kwargs: Any) -> None:
        super().__init__(config, num_classes, name=name, **kwargs)


@keras.saving.register_keras_serializable(package="bert_keras")
class MultipleChoiceModel(FineTunedModel):
    """BERT that picks one of several continuations; a classifier with one class scores each (paper, section 4.4)."""

    head_name = "multiple_choice"
    uses_pooler = True
    input_axes = ("batch", "choices", "tokens")

    def __init__(self, config: BertConfig, name: str = "multiple_choice", **kwargs: Any) -> None:
        super().__init__(config, lambda: LinearHead(config, 1, has_dropout=True), name=name, **kwargs)

    def call(self, features: dict[str, Any], dropout_seed: Any = None, training: bool | None = None) -> dict[str, Any]:
        """Scores the choices; the three inputs are int32 [B, K, T] here. Returns a dict of "logits" float32 [B, K]."""
        _, num_choices, num_tokens = ops.shape(features["input_ids"])
        present = [name for name in TOKEN_INPUTS if name in features]
        flat = {name: ops.reshape(features[name], (-1, num_tokens)) for name in present}  # [B * K, T]
        outputs = super().call(flat, dropout_seed, training)  # logits [B * K, 1]
        return outputs | {"logits": ops.reshape(outputs["logits"], (-1, num_choices))}


@keras.saving.register_keras_serializable(package="bert_keras")
class SquadModel(FineTunedModel):
    """BERT with a head that finds the answer to a question in a text (paper, section 4.2).

    Source: `create_model` of the original run_squad.py.
    """

    is_per_token = True

    def __init__(self, config: BertConfig, name: str = "question_answering", **kwargs: Any) -> None:
        super().__init__(config, lambda: LinearHead(config, 2, ("cls", "squad")), name=name, **kwargs)

    def call(self, features: dict[str, Any], dropout_seed: Any = None, training: bool | None = None) -> dict[str, Any]:
        """Scores each token as the start and the end of the answer.

        Returns:
            dict of "start_logits" and "end_logits", float32 [B, T].
        """
        outputs = super().call(features, dropout_seed, training)
        logits = outputs.pop("logits")  # [B, T, 2]
        return outputs | {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}


@keras.saving.register_keras_serializable(package="bert_keras")
class SentenceModel(BaseModel):
    """BERT that turns each text into one vector, so that texts of similar meaning have similar vectors.

    Source: Reimers and Gurevych 2019, "Sentence-BERT".

    Args:
        config: BertConfig.
        pooling: "cls", "mean" or "max", see `pool`. A model that reads left to right cannot have "cls".
        is_normalized: whether the vectors have the length 1.
        **kwargs: see `BaseModel`.
    """

    input_axes = ("batch", "texts", "tokens")
    is_per_token = False

    def __init__(
        self,
        config: BertConfig,
        pooling: str = "mean",
        is_normalized: bool = False,
        name: str = "sentence_vectors",
        **kwargs: Any,
    ) -> None:
        super().__init__(config, name=name, **kwargs)
        check_pooling(config, pooling)
        self.pooling = pooling
        self.is_normalized = is_normalized
        with dtype_policy(self.dtype_policy):
            self.bert = BertModel(config)
        self._finish()

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"pooling": self.pooling, "is_normalized": self.is_normalized}

    @classmethod
    def _sizes_of_head(cls, checkpoint: Checkpoint, options: dict[str, Any]) -> dict[str, Any]:
        if "pooling" not in options:
            raise Mistake(
                'the weights in {} do not say how vectors are made; give pooling="cls", "mean" or '
                '"max", and is_normalized, as in their training',
                checkpoint.prefix,
            )
        return {}

    def call(self, features: dict[str, Any], dropout_seed: Any = None, training: bool | None = None) -> dict[str, Any]:
        """Encodes the K texts of each example; the three inputs are int32 [B, K, T] here.

        Returns a dict of "vectors" float32 [B, K, H].
        """
        _, num_texts, num_tokens = ops.shape(features["input_ids"])
        present = [name for name in TOKEN_INPUTS if name in features]
        flat = {name: ops.reshape(features[name], (-1, num_tokens)) for name in present}  # [B * K, T]
        encoded = self._encode(flat, self._dropout_seed(dropout_seed, training))
        mask = flat.get("input_mask", ops.ones_like(flat["input_ids"]))
        vectors = pool(encoded["sequence_output"], mask, self.pooling)  # [B * K, H]
        vectors = normalize(vectors) if self.is_normalized else vectors
        return {"vectors": ops.reshape(vectors, (-1, num_texts, self.config.hidden_size))}
