"""The tasks: what programs train and models answer. This list names them, and gives a part of a task by name."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_keras.model_folder.tasks import Ability
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


# The programs of tasks other than those of run_classifier.py.
_PROGRAMS_OF_TASKS = {
    "token_classification": "run_ner",
    "rerank": "run_reranker",
    "vectors": "run_sentence_vectors",
    "question_answering": "run_squad",
}


def graph_of(task: str) -> "type[TextModel] | None":
    """Returns the class whose object is the text model of a task, for an export; None without one. Needs TensorFlow."""
    from bert_keras.model_folder.tasks import TASKS

    return _part(_GRAPHS[task]) if task in _GRAPHS else TASKS[task].graph


def program_of(task: str) -> str:
    """Returns the program that trains and evaluates the models of a task of the project."""
    return _PROGRAMS_OF_TASKS.get(task, "run_classifier")


def training_of(program: str) -> "tuple[type[FineTuningSettings], type[Task]]":
    """Returns the settings of a program that trains a task, and the class of the task."""
    settings, task = _PROGRAMS.get(program, _PROGRAMS["run_classifier"])
    return _part(settings), _part(task)


def _part(place: str) -> Any:
    module, _, name = place.rpartition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def add(name: str, ability: "Ability") -> None:
    """Makes a task of your own known to predictions, the server and exports of this process.

    Args:
        name: of the task, as the `describe` of its training writes it into task.json.
        ability: its classes, the settings in its task.json, and its form on the page.

    Raises:
        ValueError: the project, or an earlier call, has a task or a route with this name.
    """
    from bert_keras.model_folder.tasks import TASKS

    if name in TASKS or ability.route in {each.route for each in TASKS.values()}:
        raise ValueError(f"there is a task {name!r} or a route {ability.route!r} already; choose another name")
    if ability.settings is None:
        raise ValueError(f"the task {name!r} has no settings; give {{}} if its task.json needs none")
    TASKS[name] = ability
