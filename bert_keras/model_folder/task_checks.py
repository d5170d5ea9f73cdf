"""Reads, checks and shows what the files of a model say about its task: its name, its classes and its length."""

import os
from collections.abc import Sequence
from typing import Any

from bert_keras.mistakes import MissingFile, Mistake, several
from bert_keras.modeling.checkpoints.files import open_checkpoint
from bert_keras.modeling.released import find_released
from bert_keras.storage import paths
from bert_keras.storage.checks import TASK_FILE, part_of_model
from bert_keras.storage.json_files import read_object

_LABELS_SHOWN = 5


def read_task(file: str) -> dict[str, Any]:
    """Returns the content of a task.json, which names its task."""
    values = read_object(file)
    if not isinstance(values.get("task"), str):
        raise Mistake("{} does not name its task; take the file that the training wrote", file)
    return values


def without_task(path: os.PathLike[str], folder: str) -> MissingFile:
    """Returns the Mistake for a model, given by its path and its folder, that is not fine-tuned."""
    found, hint = "does not exist", ""
    if _is_model(folder) and not find_released(paths.name(folder.rstrip("/"))):
        return MissingFile(
            "{} is an encoder without a task: its files name none ({}, or the class in a config.json); train it, as "
            "{init_checkpoint} of a program such as run_classifier.py, read its vectors with extract_features.py, in "
            "Python FeatureExtractor, or write the file if the weights are fine-tuned",
            path,
            TASK_FILE,
        )
    if paths.is_dir(folder) and (explanation := part_of_model(folder)):
        return MissingFile("{}", explanation)
    if paths.is_file(paths.join(folder, "saved_model.pb")):
        return MissingFile("{} is only a SavedModel; give the folder of an export, which has an export.json", path)
    if paths.is_dir(folder):
        found = f"has no fine-tuned model: neither {TASK_FILE} nor model/{TASK_FILE} is there"
    if find_released(paths.name(folder.rstrip("/"))):
        hint = "; a released model is not fine-tuned: give it as {init_checkpoint}, or in Python to FillMask"
    return MissingFile("{} {}; give the folder of a run that has trained" + hint, path, found)


def _is_model(folder: str) -> bool:
    try:
        return open_checkpoint(folder).config is not None
    except (OSError, Mistake):
        return False


def agreed_labels(folder: str, task_labels: list[str] | None, config_labels: list[str] | None) -> list[str] | None:
    """Returns the names of the classes in task.json, or else in config.json; a Mistake if they are different.

    The names LABEL_0, LABEL_1, ... that other libraries write if there are none do not count.
    """
    if config_labels == [f"LABEL_{number}" for number in range(len(config_labels or ()))]:
        config_labels = None
    if config_labels and task_labels and config_labels != task_labels:
        raise Mistake(
            "{} names the classes {} in {} and {} in config.json; correct one of them, or give {labels}",
            folder,
            [*task_labels],
            TASK_FILE,
            [*config_labels],
        )
    return task_labels or config_labels


def check_length(length: int, num_positions: int, folder: str, has_task_file: bool) -> None:
    """Raises a Mistake for a maximum number of tokens above the positions of the network."""
    if length > num_positions:
        source, advice = paths.join(folder, TASK_FILE), "take the file that the training wrote"
        if not has_task_file:
            source, advice = folder, "correct the length in sentence_bert_config.json"
        raise Mistake(
            "{}: max_seq_length is {}, but the model has {} positions; {}", source, length, num_positions, advice
        )


def shown_model(
    kind: str, folder: str | os.PathLike, task: str | None, labels: Sequence[str] | None, *facts: str
) -> str:
    """Returns one line that shows an object with a model: its class, folder, task, at most five labels, and facts."""
    parts = [repr(os.fspath(folder)), *([f"task={task!r}"] if task else [])]
    if labels and isinstance(labels, list | tuple):  # a damaged model can be shown, too
        num_others = len(labels) - _LABELS_SHOWN
        others = [f"and {several(num_others, 'others')}"] if num_others > 0 else []
        quoted_labels = [*map(repr, labels[:_LABELS_SHOWN]), *others]
        parts.append(f"labels=[{', '.join(quoted_labels)}]")
    return f"{kind}({', '.join([*parts, *facts])})"
