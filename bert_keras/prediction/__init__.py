"""Prediction with a model: one class per task takes texts and returns answers.

Names are imported on first use, because most of them need TensorFlow, which takes seconds to import.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from bert_keras.prediction.tasks.registry import TASKS

_MODULES = {
    "arguments": ("Limits",),
    "predictor": ("Unanswered",),
    "tasks.classification": ("Classification", "MultiLabel", "Regression", "TextClassifier"),
    "tasks.entities": ("Entity", "EntityTagger", "TaggedText", "TaggedWord"),
    "tasks.features": ("FeatureExtractor", "Features", "Similarity", "TextVector", "Vectorizer"),
    "tasks.fill_mask": ("FillMask", "FilledText", "Guess"),
    "tasks.multiple_choice": ("Choice", "ChoicePicker"),
    "tasks.next_sentence": ("NextSentence", "PairAnswer"),
    "tasks.question_answering": ("QuestionAnswer", "QuestionAnswerer", "Span"),
    "tasks.sentence_score": ("SentenceScore", "SentenceScorer", "TokenScore"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted([*_MODULE_OF, "open_model"])  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll] (a list of str)


def open_model(path: str | os.PathLike, batch_size: int = 16, **options: Any) -> Any:
    """Loads a fine-tuned model or an export for any task.

    Args:
        path: a run folder, its folder `model`, the folder of an export or of sentence-transformers, or
            `hf://owner/name`.
        batch_size: maximum number of sequences in a batch.
        options: the other arguments of the class.

    Returns:
        TextClassifier, ChoicePicker, QuestionAnswerer, EntityTagger or Vectorizer; for an export of a pre-trained
        model also FillMask.

    Raises:
        FileNotFoundError: a part of the model is missing.
        ValueError: a part is damaged, or does not fit the others.
    """
    from bert_keras.cli.start import without_greetings

    with without_greetings():
        from bert_keras.prediction.loading.model_files import read_settings

    _, settings = read_settings(path)
    predictor = __getattr__(TASKS[settings["task"]].predictor)
    return predictor(path, batch_size=batch_size, **options)


def __getattr__(name):
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__():
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:  # the same names, for editors and type checkers
    from bert_keras.prediction.arguments import Limits
    from bert_keras.prediction.predictor import Unanswered
    from bert_keras.prediction.tasks.classification import Classification, MultiLabel, Regression, TextClassifier
    from bert_keras.prediction.tasks.entities import Entity, EntityTagger, TaggedText, TaggedWord
    from bert_keras.prediction.tasks.features import (
        FeatureExtractor,
        Features,
        Similarity,
        TextVector,
        Vectorizer,
    )
    from bert_keras.prediction.tasks.fill_mask import FilledText, FillMask, Guess
    from bert_keras.prediction.tasks.multiple_choice import Choice, ChoicePicker
    from bert_keras.prediction.tasks.next_sentence import NextSentence, PairAnswer
    from bert_keras.prediction.tasks.question_answering import QuestionAnswer, QuestionAnswerer, Span
    from bert_keras.prediction.tasks.sentence_score import SentenceScore, SentenceScorer, TokenScore
