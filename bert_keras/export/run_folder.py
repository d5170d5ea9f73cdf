"""Reads the run that wrote a model, and its evaluation data, to measure exports of the model."""

import logging
import os
import tempfile
from typing import Any

from bert_keras.mistakes import MissingFile, Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.runs.run_dir import RUN_CONFIG, TRIES_FILE, read_run_config
from bert_keras.settings.fields import setting_fields
from bert_keras.settings.groups import FineTuningSettings, values_of
from bert_keras.storage import paths
from bert_keras.storage.json_files import read_optional_object
from bert_keras.tasks import program_of, training_of
from bert_keras.tasks.dry_run.findings import keeping_log
from bert_keras.tasks.finetuning.data import EVALUATION_FILE
from bert_keras.tasks.finetuning.model_dir import is_model_of
from bert_keras.tasks.finetuning.task import Task
from bert_keras.tasks.tables.settings import KINDS

log = logging.getLogger("bert_keras")


def name_of(folder: str | os.PathLike) -> str:
    """Returns the name of a model: that of its folder, or that of the run if it is in the folder `model` of a run."""
    folder = paths.real(folder)
    return paths.name(paths.parent(folder) if paths.name(folder) == "model" else folder)


def read_run(folder: str, step: int | None) -> dict[str, Any] | None:
    """Reads the settings and results of the run that wrote the model in a folder, at the step in its task.json.

    Returns:
        dict of `read_run_config` and "folder", the path of the run folder; "evaluation", the dict of its
        evaluation.json, or None if that is missing or of another step; "tries", the text of its tries.tsv or None. The
        result is None if the model is not in the folder of the run that wrote it.
    """
    run_folder = paths.parent(paths.real(folder))
    config_file = paths.join(run_folder, RUN_CONFIG)
    if not paths.is_file(config_file):
        return None
    if not is_model_of(run_folder, folder):
        log.warning(
            "ignoring %s: nothing shows that this run wrote the model in %s; if it did, run its command again with "
            "the same flags, which records the model without more training",
            config_file,
            folder,
        )
        return None
    evaluation, tries = paths.join(run_folder, EVALUATION_FILE), paths.join(run_folder, TRIES_FILE)
    results = read_optional_object(evaluation)
    return {
        **read_run_config(config_file),
        "folder": run_folder,
        "evaluation": results if results and results.get("step") == step else None,
        "tries": paths.read_text(tries) if paths.is_file(tries) else None,
    }


def run_with_defaults(files: ModelFolder) -> dict[str, Any]:
    """Returns the run that a model without one could come from: the program of its task, with its defaults."""
    task = files.settings["task"]
    if task == "multiple_choice":
        raise Mistake(
            "{eval_file} needs the columns of the choices, which only a run has; leave it out, or give its run"
        )
    program = program_of(task)
    group, _ = training_of(program)
    settings = values_of(group())
    if "kind" in settings:
        settings["kind"] = next(kind for kind, its_task in KINDS.items() if its_task == task)
    return {"program": program, "settings": settings, "folder": files.folder}


def reopen_evaluation(
    run: dict[str, Any], stored: dict[str, Any], files: ModelFolder, eval_file: str | None = None
) -> Task | None:
    """Reads the evaluation data of a run, or other data in the same way, into a `Task` that it prepares.

    Returns None if the run had no evaluation data. stored is the task.json of the model, and files its ModelFolder.
    eval_file must exist.
    """
    program_settings, task_class = training_of(run["program"])
    settings = _settings_of(program_settings, run, stored).for_evaluation(eval_file)
    path = settings.evaluation_data()
    if path is None:
        return None
    if path and not paths.exists(path):
        raise MissingFile(
            "{}, the evaluation data of the run in {}, does not exist; give {eval_file}", path, run["folder"]
        )
    task = task_class.reopened(settings, files, stored)
    with tempfile.TemporaryDirectory() as scratch:
        task.prepare(scratch)
    return task


def training_features(run: dict[str, Any], stored: dict[str, Any], files: ModelFolder) -> Any:
    """Returns the features of the texts that a run trained on; None if they are gone, or cannot be evaluated on.

    Takes the same as `reopen_evaluation`.
    """
    file = run["settings"].get("train_file")
    if not file or not paths.is_file(file):
        return None
    try:
        with keeping_log():  # what it says of data to evaluate on is not true here
            task = reopen_evaluation(run, stored, files, file)
    except Mistake:  # such as texts without labels
        return None
    return task and task.eval_features


def _settings_of(group: type[FineTuningSettings], run: dict, stored: dict) -> FineTuningSettings:
    """Returns the settings of an evaluation; those of the model override those of the run, which may have changed."""
    known = run["settings"] | {name: stored[name] for name in run["settings"] if name in stored}
    known |= {"output_dir": run["folder"], "run_config": None}
    known |= {"do_train": False, "do_eval": True, "do_predict": False}
    names = [field.name for field in setting_fields(group)]
    for name in (name for name in names if name not in known):
        file = paths.join(run["folder"], RUN_CONFIG)
        raise Mistake("{} has no setting {}; copy the file that the run wrote, or train again", file, name)
    return group(**{name: known[name] for name in names})
