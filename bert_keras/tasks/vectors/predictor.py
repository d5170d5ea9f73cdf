"""Vectors of whole texts from models that were trained for them, and how similar two texts are."""

import dataclasses
import logging
import pathlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from bert_keras.data_prep.text.places import Token, locate
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.model_folder.sentence_transformers import module_files
from bert_keras.modeling import BertModel
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.heads import check_pooling, pool
from bert_keras.modeling.layers import normalize
from bert_keras.prediction.arguments import EMBEDDINGS, PipeOptions, choose_layers, describe_value, parse_layers
from bert_keras.prediction.network import Outputs, ReadOut, Tensors
from bert_keras.prediction.predictor import Counts, Found
from bert_keras.tasks.finetuning.predictor import Arrays, FineTunedPredictor
from bert_keras.tasks.tables.examples import Example
from bert_keras.tasks.vectors.features import FeatureExtractor, ServedVectors, load_encoder

log = logging.getLogger("bert_keras")

# Maximum number of values of a vector to show.
_MOST_NUMBERS = 6


@dataclasses.dataclass(frozen=True)
class TextVector:
    """The vector of a text: the given `text`, and `vector`, a list of H floats."""

    text: str
    vector: list[float]

    def readable(self) -> str:
        shown_numbers = " ".join(f"{value:.4f}" for value in self.vector[:_MOST_NUMBERS])
        num_others = len(self.vector) - _MOST_NUMBERS
        others = f" and {num_others} others; JSON has all" if num_others > 0 else ""
        return f"{self.text}\n  {shown_numbers}{others}"


@dataclasses.dataclass(frozen=True)
class Similarity:
    """The similarity of two texts: `cosine`, the cosine of their vectors, from -1 to 1."""

    text: str
    text_pair: str
    cosine: float

    def readable(self) -> str:
        return f"{self.cosine:.4f}  {self.text}  |  {self.text_pair}"


class Vectorizer(ServedVectors, FineTunedPredictor[str | tuple[str, str], TextVector | Similarity]):
    """Returns one vector per text: `Vectorizer("run")("Paris").vector`.

    A call takes a str and returns a TextVector; given several texts, it returns a list. Tuples of two texts in a list
    give their Similarity: `Vectorizer("run")([("Paris", "a city")])[0].cosine`. The model sets layer, pooling, prefix
    and normalisation. A text that is too long loses its end; the log reports the number of such texts.

    The arguments are those of `FineTunedPredictor`; the path is a run of run_sentence_vectors.py, a folder of
    sentence-transformers, or the folder of an export for vectors. Option of a call:

    - `prefix`: a text before each text, such as "query: "; by default that of the model. Some models were trained with
      one for queries and another one, or none, for the texts to find.
    """

    card_opener = "FeatureExtractor"

    @classmethod
    def open_pretrained(
        cls, model: ModelFolder, settings: dict[str, Any], max_seq_length: int | None, /, **files: Any
    ) -> tuple[FeatureExtractor, dict[str, Any]]:
        layers = parse_layers(settings["layer"], "layer")
        if len(layers) != 1:
            raise Mistake("{layer}={} has {} layers; an export has one, so give one", settings["layer"], len(layers))
        predictor = FeatureExtractor(model, layers, settings["pooling"], max_seq_length, **files)
        return predictor, settings | {"layer": layers[0]}

    @classmethod
    def card_code(cls, settings: Mapping[str, Any]) -> str:
        pooled = {"cls": "[0]", "mean": ".mean(axis=0)", "max": ".max(axis=0)"}[settings["pooling"]]
        length = " / np.linalg.norm(vector)" if settings.get("normalize") else ""
        return f'vector = outputs["sequence_output"][0]{pooled}\nprint((vector{length}).tolist())'

    @classmethod
    def foreign_files(cls, folder: pathlib.Path, settings: Mapping[str, Any], config: BertConfig) -> dict[str, str]:
        return module_files(settings, config.hidden_size)

    def outputs_to_evaluate(self, outputs: dict[str, Any], features: Mapping[str, np.ndarray]) -> dict[str, Any]:
        return {"vectors": self.pool(outputs["sequence_output"], features["input_mask"])}

    def _default_options(self) -> dict[str, Any]:
        return {"prefix": None}

    def _check_options(self, options: dict[str, Any]) -> None:
        if options["prefix"] is not None:
            self.limits.check_text(options["prefix"], "the option prefix")

    if TYPE_CHECKING:  # pairs have other answers than texts

        @overload
        def __call__(
            self, texts: str, *, batch_size: int | None = None, **options: Unpack[PipeOptions]
        ) -> TextVector: ...

        @overload
        def __call__(
            self, texts: Iterable[str], *, batch_size: int | None = None, **options: Unpack[PipeOptions]
        ) -> list[TextVector]: ...

        @overload
        def __call__(
            self, texts: Iterable[tuple[str, str]], *, batch_size: int | None = None, **options: Unpack[PipeOptions]
        ) -> list[Similarity]: ...

        def __call__(self, texts: Any, **options: Any) -> Any: ...

    def _prepare(self) -> None:
        super()._prepare()
        check_pooling(self.config, self.settings["pooling"], str(self.folder))
        [self._layer] = choose_layers((self.settings["layer"],), self.config.num_hidden_layers)
        for name, expected, needed in (("normalize", bool, "true or false"), ("prefix", str, "a text")):
            if not isinstance(self.settings.get(name, expected()), expected):
                raise Mistake(
                    "{}: {} is {}, but must be {}", self.folder, name, describe_value(self.settings[name]), needed
                )

    def _load_model(self) -> BertModel:
        return load_encoder(self.config, self.files.need_checkpoint())

    def _encode(self, text: str | tuple[str, str], source: str) -> tuple[str, ...]:
        if isinstance(text, tuple | list):
            self._check_pair(text, source, ("first text", "second text"))
            return tuple(text)
        self._check_text(text, source)
        return (text,)

    def _features(self, example: tuple[str, ...], counts: Counts, options: dict[str, Any]) -> Arrays:
        return self._features_of([Example("", self._prefix(options) + text) for text in example], counts)

    def _prefix(self, options: Mapping[str, Any]) -> str:
        return self.settings.get("prefix", "") if options["prefix"] is None else options["prefix"]

    def _locate(self, text: str, name: str) -> list[Token]:
        prefix = self._prefix(self.options)
        return locate(self.tokenizer, prefix + text, name, -len(prefix))

    def _report(self, counts: Counts) -> None:
        if counts["cut"]:
            message = "texts longer than %d tokens lost their ends: %d of %d"
            log.warning(message, self.max_seq_length, counts["cut"], counts["texts"])

    def _call(self, features: Tensors) -> Outputs:
        if self.files.is_export:
            return self.model(features)
        outputs = self.model(features["input_ids"], features["input_mask"], features["segment_ids"])
        layers = outputs["all_encoder_layers"]
        return {"sequence_output": outputs["embedding_output"] if self._layer == EMBEDDINGS else layers[self._layer]}

    def pool(self, sequence_output: Any, input_mask: Any) -> Any:
        """Returns the vectors float32 [B, H] of texts, from those of their tokens [B, T, H] and the mask [B, T]."""
        vectors = pool(sequence_output, input_mask, self.settings["pooling"])
        return normalize(vectors) if self.settings.get("normalize") else vectors

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        return (self.pool(outputs["sequence_output"], features["input_mask"]),)

    def _answer(
        self, text: str | tuple[str, str], encoded: tuple[tuple[str, ...], Arrays], found: Found, **options: Any
    ) -> TextVector | Similarity:
        texts, _ = encoded
        vectors = [vector for _, (vector,) in found]  # [H] each
        if len(vectors) == 1:
            return TextVector(texts[0], vectors[0].tolist())
        first, second = (vector / max(float(np.linalg.norm(vector)), 1e-12) for vector in vectors)
        return Similarity(texts[0], texts[1], float(np.dot(first, second)))
