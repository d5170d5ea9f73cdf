"""Prediction with a model: one class per task takes texts and returns answers.

Names are imported on first use, because most of them need TensorFlow, which takes seconds to import.
"""

import importlib

_MODULES = {
    "tasks.multiple_choice": ("Choice", "ChoicePicker"),
    "tasks.entities": ("Entity", "EntityTagger", "TaggedText", "TaggedWord"),
    "tasks.features": ("FeatureExtractor", "Features"),
    "tasks.fill_mask": ("FillMask", "FilledText", "Guess"),
    "opening": ("open_model",),
    "limits": ("Limits",),
    "tasks.next_sentence": ("NextSentence", "PairAnswer"),
    "predictor": ("Unanswered",),
    "tasks.question_answering": ("QuestionAnswer", "QuestionAnswerer", "Span"),
    "tasks.sentence_score": ("SentenceScore", "SentenceScorer", "TokenScore"),
    "tasks.classification": ("Classification", "MultiLabel", "Regression", "TextClassifier"),
    "tasks.sentence_vectors": ("TextVector", "Vectorizer"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 (a list of str)


def __getattr__(name):
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__():
    return sorted({*globals(), *__all__})
