"""Vectors of texts: one per token or pooled per text, from the encoder's layers or from an export."""

import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.data_prep.text.model_inputs import encode_pair
from bert_keras.mistakes import Mistake
from bert_keras.modeling import POOLER_PATTERNS, BertConfig, BertModel, PretrainingModel, weights_to_load
from bert_keras.modeling.checkpoints.files import Checkpoint
from bert_keras.modeling.checkpoints.loading import load_all_weights
from bert_keras.modeling.heads import check_pooling, pool
from bert_keras.prediction.arguments import EMBEDDINGS, Limits, check_choice, choose_layers, describe_value
from bert_keras.prediction.containers import plain
from bert_keras.prediction.network import Outputs, Question, ReadOut, Results, Tensors, lengths_up_to
from bert_keras.prediction.predictor import Counts, Found, Row
from bert_keras.tasks.predictor import TaskPredictor
from bert_keras.tasks.pretraining.predictor import check_shared
from bert_keras.tasks.vectors import POOLINGS

log = logging.getLogger("bert_keras")

# Maximum size of the vectors of a group of texts.
_BYTES_A_GROUP = 1 << 28
_DEFAULT_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class Features:
    """The vectors of one text.

    Attributes:
        tokens: its tokens with [CLS] and [SEP], T of them.
        values: float32 [T, L, H], with the L layers in the requested order; pooled: [L, H].
    """

    tokens: list[str]
    values: np.ndarray

    @property
    def vector(self) -> np.ndarray:
        """The pooled vector of the first layer, float32 [H]."""
        return self.values[0]


class ServedVectors:
    """A base for predictors whose answers have a `vector`: the server replies with the text and float32 numbers."""

    def served_fields(self, text: Any, answer: Any) -> dict[str, Any]:
        return {"text": text, "vector": np.array(answer.vector, np.float32)}


class FeatureExtractor(ServedVectors, TaskPredictor[str | tuple[str, str], Features]):
    """An encoder that returns vectors: `FeatureExtractor("uncased_L-12_H-768_A-12")("Paris")`.

    A text that is too long loses its end, and a pair loses the end of its longer text, as in the original BERT. The log
    reports the number of cut texts.

    Source: extract_features.py of the original BERT.

    Args:
        path: a checkpoint (its folder, its prefix, one of its files, or a run folder); or the folder of an export for
            vectors, which has one layer.
        layers: numbers of the encoder's layers, 0 the first and -1 the last, as in the original BERT; or "embeddings"
            for the input of the first. None: the last four, or all if the model has fewer; for an export, its layer.
        pooling: "none" for one vector per token; or one vector per text and layer: "cls" for that of [CLS], "mean" or
            "max" over all tokens including [CLS] and [SEP].
        max_seq_length: maximum number of tokens, [CLS] and [SEP] included; None: the maximum of the model, to which the
            default is lowered, too.
        batch_size: maximum number of texts in a batch.
        strategy: a `tf.distribute.Strategy` for several devices; None: one device.
        model: as in `PretrainedPredictor`, whose network then also gives the vectors.
        vocab_file, config_file, do_lower_case, strip_accents, limits, device, format, precision: as in
            `PretrainedPredictor`. The vectors are float32.

    Attributes:
        layers: tuple of the layers. For the others, see `LoadedModel`.

    Raises:
        FileNotFoundError: a part of the model is missing.
        ValueError: the parts do not fit, an argument is not valid, or Keras does not run on TensorFlow.
    """

    takes_pairs = True
    max_group_size = _BYTES_A_GROUP
    # In full groups, more texts of one length share batches.
    is_prompt = False

    def __init__(
        self,
        path: str | os.PathLike,
        layers: Sequence[int | str] | None = None,
        pooling: str = "none",
        max_seq_length: int | None = _DEFAULT_LENGTH,
        batch_size: int = 32,
        vocab_file: str | os.PathLike | None = None,
        config_file: str | os.PathLike | None = None,
        do_lower_case: bool | None = None,
        strategy: tf.distribute.Strategy | None = None,
        limits: Limits | None = None,
        device: str | None = None,
        format: str | None = None,
        model: PretrainingModel | None = None,
        strip_accents: bool | None = None,
        precision: str = "auto",
    ):
        check_choice("pooling", pooling, ("none", *POOLINGS))
        if not isinstance(strategy, tf.distribute.Strategy | None):
            raise Mistake("{strategy} is {!r}, but must be a tf.distribute.Strategy", strategy)
        if strategy is not None and device is not None:
            raise Mistake("there are both {strategy} and {device}; give one of them")
        self._chosen_layers, self.pooling = layers, pooling
        self._chosen_length, self._strategy, self._shared = max_seq_length, strategy, model
        text_options = {"vocab_file": vocab_file, "config_file": config_file}
        text_options |= {"do_lower_case": do_lower_case, "strip_accents": strip_accents}
        loading: dict[str, Any] = {"strategy": strategy, "device": device, "format": format, "precision": precision}
        super().__init__(path, batch_size, limits, {}, **loading, **text_options)

    def _prepare(self) -> None:
        super()._prepare()
        check_shared(self._shared, self.files)
        check_pooling(self.config, self.pooling, str(self.folder))
        layers = self._chosen_layers
        if layers is None and self.settings:
            layers = (self.settings["layer"],)
        self.layers = choose_layers(layers, self.config.num_hidden_layers)
        longest, chosen = self.max_seq_length, plain(self._chosen_length)
        if chosen == _DEFAULT_LENGTH and longest < chosen:
            log.info("texts have at most %d tokens, as many as the model takes", longest)
        elif chosen is not None:
            if type(chosen) is not int or not 3 <= chosen <= longest:
                raise Mistake(
                    "{max_seq_length} is {!r}, but must be from 3 to the {} tokens that the model takes",
                    chosen,
                    longest,
                )
            self.max_seq_length = chosen

    def _lengths(self) -> list[int]:
        # A strategy compiles the network for each length.
        return lengths_up_to(self.max_seq_length, 16, 1) if self._strategy else super()._lengths()

    def _load_model(self) -> BertModel:
        if self._shared:
            self._shared.bert.return_all_encoder_layers = True  # its other users only read the last one
            return self._shared.bert
        with (self._strategy or tf.distribute.get_strategy()).scope():
            return load_encoder(self.config, self.files.need_checkpoint())

    def _open_network(self) -> Callable[[Tensors], Outputs]:
        """Returns the network of an export as a function that names its results like a BertModel."""
        layer = self.settings["layer"]
        if self.layers != (layer,):
            listed = ", ".join(map(str, self.layers))
            raise Mistake("{layers} is {}, but {} has only the layer {}; choose that one", listed, self.folder, layer)
        if self._strategy is not None:
            raise Mistake("{} is an export, which runs on one device; leave out {strategy}", self.folder)
        network = super()._open_network()

        def run(features: Tensors) -> Outputs:
            values = network(features)["sequence_output"]
            return {"embedding_output": values, "all_encoder_layers": {layer: values}}

        return run

    def _call(self, features: Tensors) -> Outputs:
        if self.settings:
            return self.model(features)
        return self.model(features["input_ids"], features["input_mask"], features["segment_ids"])

    def _encode_row(self, row: Row, counts: Counts, options: dict[str, Any], extra: dict[str, Any]) -> Question:
        text_a, text_b = self._as_pair(row.text, row.source)
        input_ids, segment_ids, num_cut = encode_pair(self.tokenizer, text_a, text_b, self.max_seq_length)
        row.is_cut = num_cut > 0
        counts.update(cut=row.is_cut, cut_tokens=num_cut)
        return Question(input_ids, segment_ids)

    def _questions(self, encoded: Question) -> Iterator[Question]:
        yield encoded

    def _size_of(self, row: Row) -> int:
        """Returns the number of bytes of the text's vectors."""
        num_vectors = 0 if row.error else 1 if self.pooling != "none" else len(row.encoded.input_ids)
        return 4 * num_vectors * len(self.layers) * self.config.hidden_size

    def _kept(self, question: Question, row: Results) -> Results:
        [values] = row
        # A copy, so that the memory of the batch can be freed.
        return ((values if self.pooling != "none" else values[: len(question.input_ids)]).copy(),)

    def _answer(self, text: str | tuple[str, str], encoded: Question, found: Found) -> Features:
        [(_, (values,))] = found
        return Features(self.tokenizer.convert_ids_to_tokens(encoded.input_ids), values)

    def _report(self, counts: Counts) -> None:
        if counts["cut"]:
            message = "%d of %d texts are longer than %d tokens; tokens cut off their ends: %d"
            log.warning(message, counts["cut"], counts["texts"], self.max_seq_length, counts["cut_tokens"])

    def _as_pair(self, text: str | tuple[str, str], source: str) -> tuple[str, str | None]:
        """Checks a text or a pair and returns it as a pair; the second is None for a single text."""
        pair = (text, None) if isinstance(text, str) else text
        if pair is text and not (isinstance(text, tuple | list) and [type(part) for part in text] == [str, str]):
            raise Mistake("{} is {}, but a str is needed, or a tuple of two for a pair", source, describe_value(text))
        for part in pair:
            if part is not None:
                self.limits.check_text(part, source)
        return pair

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        layers = [
            outputs["embedding_output"] if layer == EMBEDDINGS else outputs["all_encoder_layers"][layer]
            for layer in self.layers
        ]
        values = tf.stack(layers, axis=2)  # [B, T, L, H]
        if self.pooling == "none":
            return (tf.cast(values, tf.float32),)
        return (pool(values, features["input_mask"], self.pooling),)


def load_encoder(config: BertConfig, checkpoint: Checkpoint) -> BertModel:
    """Returns an encoder that returns all layers, with the weights of a checkpoint, which may have other heads."""
    with weights_to_load():
        model = BertModel(config, return_all_encoder_layers=True)
    log.info("%s", load_all_weights(model, checkpoint, new_allowed=POOLER_PATTERNS))
    return model
