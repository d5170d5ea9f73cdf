"""The facts about a predictor that exports and the server need: how to compare, show, convert and serve its model."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling.config import BertConfig
from bert_keras.prediction.containers import given_fields


@dataclasses.dataclass(frozen=True)
class RankedField:
    """The field of an answer that holds guesses, those with the highest number first, or a list of them for each place.

    Another way of computing the same numbers may exchange guesses of almost the same number.

    Attributes:
        name: of the field.
        number: name of the number in a guess.
        best: names of the other fields of the answer that repeat the first guess.
        is_whole: whether no guess is missing; else the last one may be another.
    """

    name: str
    number: str = "probability"
    best: tuple[str, ...] = ()
    is_whole: bool = False


class ExportFacts:
    """The base of `Predictor` with these facts; the defaults suit most tasks."""

    # The guesses of an answer, if it has some.
    ranked: ClassVar[RankedField | None] = None
    # For model cards: whether long texts are always read through windows; other arguments of `enable_truncation` of the
    # package tokenizers; and the class of bert_keras that opens an export if predict.py does not.
    reads_windows: ClassVar[bool] = False
    card_truncation: ClassVar[str] = ""
    card_opener: ClassVar[str | None] = None

    @classmethod
    def open_pretrained(
        cls, model: ModelFolder, settings: dict[str, Any], max_seq_length: int | None, /, **files: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Opens a pre-trained model for an export with settings of the task, which it also returns as in a task.json.

        files are the arguments of the class about the files of the model.
        """
        make: Any = cls
        return make(model, **settings, **files), settings

    @classmethod
    def card_code(cls, settings: Mapping[str, Any]) -> str:
        """Returns Python for a model card that prints the answer to its texts, from the task.json of the model.

        The code may use the variables `outputs`, arrays by the names of the outputs of the network; `rows`, the
        encodings of the package tokenizers; the texts by their names; `tokenizer`; `labels`; and `np`. By default, it
        prints the outputs.
        """
        return "print({name: scores.tolist() for name, scores in outputs.items()})"

    @classmethod
    def problem_type(cls, settings: Mapping[str, Any]) -> str | None:
        """Returns the one of `PROBLEM_TYPES` with which other libraries make the scores of a model from its logits.

        The result is None if the task has no such type.
        """
        return None

    @classmethod
    def foreign_files(cls, folder: pathlib.Path, settings: Mapping[str, Any], config: BertConfig) -> dict[str, str]:
        """Returns the texts of the files, by name, that sentence-transformers also needs in the Hugging Face layout.

        They replace the files of these names in the folder. settings is the task.json of the model.
        """
        return {}

    def outputs_to_evaluate(self, outputs: dict[str, Any], features: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Returns what `Task.evaluate` takes, from the outputs of an exported network for features."""
        return outputs

    def served_fields(self, text: Any, answer: Any) -> dict[str, Any]:
        """Returns what the server replies to a text, from the answer to it."""
        return given_fields(answer)
