"""The settings of a look: as those of the run, but without its model."""

import os
from collections.abc import Collection
from typing import Any, TypeVar

from absl import flags

from bert_keras.cli.flags import given_flags
from bert_keras.mistakes import Mistake, Setting
from bert_keras.runs.run_dir import MODEL_DIR
from bert_keras.settings.effects import check_effects
from bert_keras.settings.fields import read_flags
from bert_keras.settings.groups import FineTuningSettings
from bert_keras.storage.json_files import read_json
from bert_keras.tasks.settings.reading import take_run_config, take_settings_of_run, with_absolute_paths

S = TypeVar("S", bound=FineTuningSettings)

DATA = ("train_file", "eval_file", "predict_file", "unlabeled_file", "data_dir")
# The settings of files, and the actions that read them.
ACTIONS = {"train_file": "do_train", "eval_file": "do_eval", "predict_file": "do_predict"}


def take_actions(values: flags.FlagValues) -> None:
    """Sets the actions that the files of a command imply, because `--dry_run` needs none."""
    for name, action in (ACTIONS | {"unlabeled_file": "do_train"}).items():
        if action in values and name in values and values[name].value:
            setattr(values, action, True)
    if "eval_share" in values and values.eval_share and values.train_file:
        values.do_eval = True
    if values["data_dir"].value if "data_dir" in values else False:
        actions = [action for action in ACTIONS.values() if action in values]
        if not any(values[action].value for action in actions):
            values.do_train = values.do_eval = True


def open_settings(values: flags.FlagValues, group: type[S], program: str) -> S:
    """Returns the settings that the flags and the run in the output folder define; see `open_fine_tuning`."""
    take_run_config(values, values.run_config, program)
    take_settings_of_run(values, program)
    settings = with_absolute_paths(read_flags(group, values), DATA)
    check_effects(settings, given_flags(values), {"program": program})
    return settings


def files_used(settings: FineTuningSettings) -> list[str]:
    """Returns the names of the settings whose files the run reads."""
    used = [name for name, action in ACTIONS.items() if getattr(settings, action)]
    if missing := next((name for name in used if not getattr(settings, name)), None):
        raise Mistake("{} needs {}; give the file", Setting(ACTIONS[missing]), Setting(missing))
    return used


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
                stored = read_json(path)
                return stored if stored.get("task") in tasks else None
    return None
