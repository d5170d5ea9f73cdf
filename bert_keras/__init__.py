"""BERT on TensorFlow and Keras.

Each public name is imported at its first use: most of them need TensorFlow, which takes seconds to import.
"""

import importlib
import pathlib
from typing import TYPE_CHECKING

# In a clone, `modeling` and `data_prep` are next to this folder; the links to them may be missing.
_CLONE = pathlib.Path(__file__).resolve().parents[1]
if (_CLONE / "bert_keras").is_dir() and (_CLONE / "modeling" / "checkpoints").is_dir():
    __path__.append(str(_CLONE))

_NAMES = {
    "modeling": (
        *("BertConfig", "BertModel", "ClassifierModel", "MultipleChoiceModel", "PretrainingModel", "SquadModel"),
        *("TokenClassifierModel", "load_weights", "open_checkpoint", "read_config", "save_checkpoint"),
        *("save_safetensors", "weights_by_name", "AdamWeightDecay", "LearningRateSchedule"),
    ),
    "modeling.lora": ("enable_lora", "load_lora", "merge_lora", "save_lora"),
    "cli.start": ("start_tensorflow",),
    "modeling.checkpoints.downloads": ("download_model",),
    "modeling.released": ("released_models",),
    "data_prep.text.tokenization": ("FullTokenizer",),
    "data_prep.text.graph.layer": ("TokenizerLayer",),
    "prediction": (
        *("ChoicePicker", "EntityTagger", "FeatureExtractor", "FillMask", "Limits", "NextSentence"),
        *("QuestionAnswerer", "SentenceScorer", "TextClassifier", "Unanswered", "Vectorizer", "open_model"),
    ),
    "export.api": ("export_model",),
    "training.api.calls": ("TrainedModel",),
    "training.api.classifier": ("train_classifier",),
    "training.api.ner": ("train_ner",),
    "training.api.pretraining": ("pretrain",),
    "training.api.sentence_vectors": ("train_sentence_vectors",),
    "training.api.squad": ("train_squad",),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll] (a list of str)


def __getattr__(name):
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bert_keras.cli.start import without_greetings

    with without_greetings():
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__():
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:  # the same names, for editors and type checkers
    from bert_keras.cli.start import start_tensorflow
    from bert_keras.data_prep.text.graph.layer import TokenizerLayer
    from bert_keras.data_prep.text.tokenization import FullTokenizer
    from bert_keras.export.api import export_model
    from bert_keras.modeling import (
        AdamWeightDecay,
        BertConfig,
        BertModel,
        ClassifierModel,
        LearningRateSchedule,
        MultipleChoiceModel,
        PretrainingModel,
        SquadModel,
        TokenClassifierModel,
        load_weights,
        open_checkpoint,
        read_config,
        save_checkpoint,
        save_safetensors,
        weights_by_name,
    )
    from bert_keras.modeling.checkpoints.downloads import download_model
    from bert_keras.modeling.lora import enable_lora, load_lora, merge_lora, save_lora
    from bert_keras.modeling.released import released_models
    from bert_keras.prediction import (
        ChoicePicker,
        EntityTagger,
        FeatureExtractor,
        FillMask,
        Limits,
        NextSentence,
        QuestionAnswerer,
        SentenceScorer,
        TextClassifier,
        Unanswered,
        Vectorizer,
        open_model,
    )
    from bert_keras.training.api.calls import TrainedModel
    from bert_keras.training.api.classifier import train_classifier
    from bert_keras.training.api.ner import train_ner
    from bert_keras.training.api.pretraining import pretrain
    from bert_keras.training.api.sentence_vectors import train_sentence_vectors
    from bert_keras.training.api.squad import train_squad
