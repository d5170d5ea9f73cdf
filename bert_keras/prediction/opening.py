"""Opens a model for the task that it was trained for."""

import os
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from bert_keras import prediction
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.model_folder.tasks import TASKS
from bert_keras.prediction.arguments import OpenOptions

if TYPE_CHECKING:  # a call imports the class that it needs
    from bert_keras.prediction import (
        ChoicePicker,
        Classification,
        EntityTagger,
        FillMask,
        MultiLabel,
        NextSentence,
        QuestionAnswerer,
        Regression,
        ReplacedTokenFinder,
        Reranker,
        SentenceScorer,
        TextClassifier,
        Vectorizer,
    )
    from bert_keras.prediction.predictor import Predictor

_Path = str | os.PathLike


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["classification"], **options: Unpack[OpenOptions]
) -> "TextClassifier[Classification]": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["regression"], **options: Unpack[OpenOptions]
) -> "TextClassifier[Regression]": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["multi_label"], **options: Unpack[OpenOptions]
) -> "TextClassifier[MultiLabel]": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["multiple_choice"], **options: Unpack[OpenOptions]
) -> "ChoicePicker": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["rerank"], **options: Unpack[OpenOptions]
) -> "Reranker": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["question_answering"], **options: Unpack[OpenOptions]
) -> "QuestionAnswerer": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["token_classification"], **options: Unpack[OpenOptions]
) -> "EntityTagger": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["vectors"], **options: Unpack[OpenOptions]
) -> "Vectorizer": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["fill_mask"], **options: Unpack[OpenOptions]
) -> "FillMask": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["next_sentence"], **options: Unpack[OpenOptions]
) -> "NextSentence": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["score"], **options: Unpack[OpenOptions]
) -> "SentenceScorer": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["replaced_tokens"], **options: Unpack[OpenOptions]
) -> "ReplacedTokenFinder": ...


@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: str | None = ..., **options: Unpack[OpenOptions]
) -> "Predictor[Any, Any]": ...


def open_model(
    path: str | os.PathLike,
    batch_size: int = 16,
    *,
    task: str | None = None,
    is_pair: bool | None = None,
    **options: Any,
) -> Any:
    """Loads a fine-tuned model or an export for any task.

    Args:
        path: a run folder, its folder `model`, the folder of an export, of sentence-transformers or of a model that
            transformers fine-tuned, or `hf://owner/name`; or `model.onnx` or `model.tflite` of an export.
        batch_size: maximum number of sequences in a batch.
        task, is_pair: what the folder of another library may leave open: the use of a head with one number or several
            uses, and whether a classifier takes pairs of texts (None: each text may be one or a pair).
        options: the other arguments of the class.

    Returns:
        TextClassifier, ChoicePicker, Reranker, QuestionAnswerer, EntityTagger or Vectorizer; for the heads of
        pre-training FillMask, NextSentence, SentenceScorer or ReplacedTokenFinder.

    Raises:
        FileNotFoundError: a part of the model is missing.
        ValueError: a part is damaged, or does not fit the others.
    """
    model = ModelFolder.of(path, task=task, is_pair=is_pair)
    return predictor_of(model.settings["task"])(model, batch_size=batch_size, **options)


def predictor_of(task: str) -> Any:
    """Returns the class that answers the texts of a task."""
    return _class_of(TASKS[task].predictor)


def answer_of(task: str) -> Any:
    """Returns the dataclass of the answers of a task."""
    return _class_of(TASKS[task].answer)


def _class_of(named: Any) -> Any:
    return getattr(prediction, named) if isinstance(named, str) else named
