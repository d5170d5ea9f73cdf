"""The tasks: what programs train and models answer. This list names them, and gives a part of a task by name."""

import contextlib
import importlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bert_keras.mistakes import Mistake
from bert_keras.tasks.ability import LENGTH, Ability

if TYPE_CHECKING:  # most callers do not open a model
    from bert_keras.model_folder.folder import ModelFolder
    from bert_keras.settings.fields import Settings
    from bert_keras.settings.groups import FineTuningSettings

# By the name in task.json and in the flag --task: the folder that has the task, or a task from outside.
_TASKS: dict[str, str | Ability] = {
    **dict.fromkeys(("classification", "regression", "multi_label"), "classification"),
    "multiple_choice": "choice",
    "rerank": "reranking",
    "question_answering": "question_answering",
    "token_classification": "tagging",
    **dict.fromkeys(("fill_mask", "next_sentence", "replaced_tokens", "score"), "pretraining"),
    "vectors": "vectors",
}
# The settings of a program, and the class of the task that it fine-tunes.
_PROGRAMS = {
    "check_labels": ("classification.settings.LabelCheckSettings", ""),
    "run_classifier": ("classification.settings.ClassifierSettings", "classification.task.Classification"),
    "run_few_shot": ("few_shot.settings.FewShotSettings", "classification.task.Classification"),
    "run_ner": ("tagging.settings.NerSettings", "tagging.task.TokenClassification"),
    "run_pretraining": ("pretraining.settings.PretrainingSettings", ""),
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


def ability_of(task: str) -> Ability:
    """Returns what a task can do, by its name in task.json."""
    found = _TASKS[task]
    return found if isinstance(found, Ability) else _part(f"{found}.ABILITIES")[task]


def abilities(**facts: bool) -> dict[str, Ability]:
    """Returns the tasks by their names: all, or those with facts of an `Ability`, such as `is_fine_tuned=True`."""
    found = {task: ability_of(task) for task in _TASKS}
    return {task: known for task, known in found.items() if all(getattr(known, name) == facts[name] for name in facts)}


def predictor_of(task: str) -> Any:
    """Returns the class that answers the texts of a task. Needs TensorFlow."""
    return _part(ability_of(task).predictor)


def answer_of(task: str) -> Any:
    """Returns the dataclass of the answers of a task. Needs TensorFlow."""
    return _part(ability_of(task).answer)


def graph_of(task: str) -> Any:
    """Returns the class whose object is the text model of a task, for an export; None without one. Needs TensorFlow."""
    return _part(ability_of(task).graph)


def program_of(task: str) -> str:
    """Returns the program that trains and evaluates the models of a task of the project."""
    return _PROGRAMS_OF_TASKS.get(task, "run_classifier")


@contextlib.contextmanager
def leading_to_program(task: str) -> Iterator[None]:
    """Adds the program of a task whose training has files of another form to a mistake in a file of texts."""
    try:
        yield
    except Mistake as mistake:
        program = program_of(task)
        if program == "run_classifier" or type(mistake) is not Mistake:
            raise
        message = "{}; to answer a file like that of the training, use {}.py with {do_predict}"
        raise Mistake(message, mistake, program) from None


def settings_class_of(program: str) -> "type[Settings]":
    """Returns the class of the settings of a program."""
    return _part(_PROGRAMS[program][0])


def training_of(program: str) -> "tuple[type[FineTuningSettings], Any]":
    """Returns the settings of a program that trains a task, and the class of the task, a `finetuning.task.Task`."""
    settings, task = _PROGRAMS.get(program, _PROGRAMS["run_classifier"])
    return _part(settings), _part(task)


def _part(place: Any) -> Any:
    """Returns what has a name in a module below this package; a class of a task from outside as it is."""
    if not isinstance(place, str):
        return place
    module, _, name = place.rpartition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def settings_of(model: "ModelFolder") -> dict[str, Any]:
    """Returns the content of the task.json of a model, after a check that it has the settings that its task needs.

    Raises:
        FileNotFoundError: the model is not fine-tuned.
        ValueError: the task is not in the list, or a setting is missing or not valid.
    """
    values, file = model.settings, model.task_file
    if model.task is None:  # a pre-trained model of another library, which says its task itself
        return values
    task, fact = values["task"], "is_exported" if model.is_export else "is_fine_tuned"
    ability = ability_of(task) if task in _TASKS else None
    if ability is None or not getattr(ability, fact):
        raise Mistake(
            '{}: the task is "{}", but must be one of {}; '
            "give a model that was fine-tuned by a program of this project",
            file,
            task,
            ", ".join(abilities(**{fact: True})),
        )
    for name, (needed, is_right) in {"max_seq_length": LENGTH, **(ability.settings or {})}.items():
        if name not in values:
            raise Mistake(
                "{} has no {}, which the task {} needs; take the file that the training wrote", file, name, task
            )
        if not is_right(values[name]):
            raise Mistake(
                "{}: {} is {}, but must be {}; take the file that the training wrote",
                file,
                name,
                json.dumps(values[name]),
                needed,
            )
    return values


def add(name: str, ability: Ability) -> None:
    """Makes your task known to predictions, the server and exports of this process.

    Args:
        name: of the task, as the `describe` of its training writes it into task.json.
        ability: its classes, the settings in its task.json, and its form on the page.

    Raises:
        ValueError: the project, or an earlier call, has a task or a route with this name.
    """
    if name in _TASKS or ability.route in {known.route for known in abilities().values()}:
        raise ValueError(f"there is a task {name!r} or a route {ability.route!r} already; choose another name")
    if ability.settings is None:
        raise ValueError(f"the task {name!r} has no settings; give {{}} if its task.json needs none")
    _TASKS[name] = ability
