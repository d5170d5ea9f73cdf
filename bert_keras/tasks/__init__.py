"""The tasks: what programs train and models answer. This list names them, and gives a part of a task by name."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_keras.prediction.predictor import Predictor
    from bert_keras.settings.groups import FineTuningSettings
    from bert_keras.tasks.finetuning.task import Task
    from bert_keras.tasks.graph.text_model import TextModel

# The class that answers texts in a graph, by the name in task.json.
_GRAPHS = {
    **dict.fromkeys(("classification", "regression", "multi_label"), "classification.graph.ClassModel"),
    "multiple_choice": "choice.graph.ChoiceModel",
    "rerank": "reranking.graph.RankModel",
    "question_answering": "question_answering.graph.SpanModel",
    "token_classification": "tagging.graph.TagModel",
    "fill_mask": "pretraining.graph.FillMaskModel",
    "next_sentence": "pretraining.graph.NextSentenceModel",
    "replaced_tokens": "pretraining.graph.ReplacedTokensModel",
    "vectors": "vectors.graph.VectorModel",
}
# The settings of a program that trains a task, and the class of the task.
_PROGRAMS = {
    "run_classifier": ("classification.settings.ClassifierSettings", "classification.task.Classification"),
    "run_few_shot": ("few_shot.settings.FewShotSettings", "classification.task.Classification"),
    "run_ner": ("tagging.settings.NerSettings", "tagging.task.TokenClassification"),
    "run_reranker": ("reranking.settings.RerankerSettings", "reranking.task.Reranking"),
    "run_sentence_vectors": ("vectors.settings.VectorSettings", "vectors.task.SentenceVectors"),
    "run_squad": ("question_answering.settings.SquadSettings", "question_answering.task.QuestionAnswering"),
}


def graph_of(task: str) -> "type[TextModel]":
    """Returns the class whose object is the text model of a task, for an export. It needs TensorFlow."""
    return _part(_GRAPHS[task])


def predictor_of(task: str) -> "type[Predictor]":
    """Returns the class that answers texts in Python for a task."""
    from bert_keras import prediction
    from bert_keras.model_folder.tasks import TASKS

    return getattr(prediction, TASKS[task].predictor)


def training_of(program: str) -> "tuple[type[FineTuningSettings], type[Task]]":
    """Returns the settings of a program that trains a task, and the class of the task."""
    settings, task = _PROGRAMS.get(program, _PROGRAMS["run_classifier"])
    return _part(settings), _part(task)


def _part(place: str) -> Any:
    module, _, name = place.rpartition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
