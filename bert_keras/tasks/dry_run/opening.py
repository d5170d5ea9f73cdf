"""The settings of a look: as those of the run, but without its model."""

import dataclasses
import os
from collections.abc import Collection
from typing import Any, TypeVar, cast

from bert_keras.engine.given_settings import over_run, with_absolute_paths
from bert_keras.mistakes import Mistake, Setting
from bert_keras.runs.run_dir import MODEL_DIR
from bert_keras.settings.fields import setting_fields
from bert_keras.settings.groups import FineTuningSettings
from bert_keras.storage.json_files import read_object

S = TypeVar("S", bound=FineTuningSettings)
T = TypeVar("T")

DATA = ("train_file", "eval_file", "predict_file", "unlabeled_file", "data_dir")
# The settings of files, and the actions that read them.
ACTIONS = {"train_file": "do_train", "eval_file": "do_eval", "predict_file": "do_predict"}


def with_actions(settings: T) -> T:
    """Returns the settings with the actions that the files of a command imply, because `--dry_run` needs none."""
    values = {field.name: getattr(settings, field.name) for field in setting_fields(settings)}
    files = {name: action for name, action in (ACTIONS | {"unlabeled_file": "do_train"}).items() if values.get(name)}
    actions = set(files.values())
    if values.get("eval_share") and values["train_file"]:
        actions.add("do_eval")
    if values.get("data_dir") and not any(actions | {name for name in ACTIONS.values() if values.get(name)}):
        actions = {"do_train", "do_eval"}
    return dataclasses.replace(cast(Any, settings), **{name: True for name in actions if name in values})


def open_settings(settings: S, program: str) -> S:
    """Returns the settings over those of the run in the output folder; see `open_fine_tuning`."""
    return with_absolute_paths(over_run(settings, program), DATA)


def files_used(settings: FineTuningSettings) -> list[str]:
    """Returns the names of the settings whose files the run reads."""
    used = needed_files(settings)
    if missing := next((name for name in used if not getattr(settings, name)), None):
        also = ", or {eval_share} of {train_file}" if missing == "eval_file" else "; give the file"
        raise Mistake("{} needs {}" + also, Setting(ACTIONS[missing]), Setting(missing))
    return used


def needed_files(settings: Any) -> list[str]:
    """Returns the names of the settings of files that the actions need; a held-out part needs the training file."""
    held = {"eval_file": False, "train_file": True} if settings.holds_out and settings.do_eval else {}
    return [name for name, action in ACTIONS.items() if held.get(name, getattr(settings, action))]


def teacher_of(settings: FineTuningSettings) -> str | None:
    """Returns the path of the teacher of a run that trains."""
    return getattr(settings, "teacher", None) if settings.do_train else None


def stored_task(settings: FineTuningSettings, tasks: Collection[str]) -> dict[str, Any] | None:
    """Returns the task.json of the teacher, or of the model that a run without training uses, if it is in a folder."""
    teacher = teacher_of(settings)
    if settings.do_train and not teacher:
        return None
    for model in [teacher] if teacher else [settings.output_dir, settings.init_checkpoint]:
        for path in (os.path.join(model or "", *folder, "task.json") for folder in ([MODEL_DIR], [])):
            if model and os.path.isfile(path):
                stored = read_object(path)
                return stored if stored.get("task") in tasks else None
    return None
