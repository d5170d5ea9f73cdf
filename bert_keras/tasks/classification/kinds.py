"""Completes and checks the settings of a classification run: its data source, kind of task and class weights."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.mistakes import Mistake, Setting
from bert_keras.settings.fields import setting_fields
from bert_keras.tasks.classification.settings import ClassifierSettings, OwnLabelSettings
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.tables.examples import Example
from bert_keras.tasks.tables.settings import KINDS, ColumnSettings

# Settings that say where and how data are read.
_DATA_SETTINGS = {"kind", "skip_bad_rows", "data_dir", "tfds_eval_split", "tfds_predict_split", "xnli_language"}
_OWN_FILES = ("train_file", "eval_file", "predict_file")
# The flags of each data source. A run has exactly one source.
_SOURCES = (("task_name",), ("tfds",), _OWN_FILES)


def complete_settings(settings: ClassifierSettings, stored: dict[str, Any] | None) -> ClassifierSettings:
    """Completes the settings, and checks that they are consistent.

    A data source on the command line replaces that of an earlier run. A trained model determines the kind.

    Args:
        stored: the model's task.json; None if the run trains or the file is missing.
    """
    settings = _keep_one_source(settings)
    if stored is not None:
        kind = next(name for name, task in KINDS.items() if task == stored["task"])
        if "kind" in settings.given and KINDS[settings.kind] != stored["task"]:
            raise Mistake("{kind}={}, but the model is one of the kind {}; leave it out", settings.kind, kind)
        settings = dataclasses.replace(settings, kind=kind)
    _check_source(settings)
    _check_kind(settings)
    return settings


def source_of(settings: ClassifierSettings) -> str:
    """Returns the data source: "task_name", "tfds" or "your own files"."""
    return next((name for name in ("task_name", "tfds") if getattr(settings, name)), "your own files")


def class_weights_of(text: str | None, kind: SingleLabel, train: Sequence[Example] | None) -> list[float] | None:
    """Returns one weight per class from --class_weights: "balanced", or one number for each label in order."""
    if text is None or train is None or not kind.has_one:
        return None
    labels = kind.names
    if text == "balanced":
        counts = kind.counts(train)
        return [len(train) / (len(labels) * max(counts[label], 1)) for label in labels]
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != len(labels) or not all(0 <= weight < np.inf for weight in weights):
        raise Mistake(
            '{class_weights}={} is neither "balanced" nor {} numbers, one for each of {} in this order',
            text,
            len(labels),
            labels,
        )
    if not any(weights):
        raise Mistake("{class_weights}={} gives every label the weight 0; give weights above 0", text)
    return weights


def _check_source(settings: ClassifierSettings) -> None:
    named = [name for source in _SOURCES for name in source if getattr(settings, name)]
    if not named and not settings.unlabeled_file:
        raise Mistake("no data given; give {task_name} and {data_dir}, {tfds}, or {train_file} and the like")
    if len(named) > 1 and named[0] not in _OWN_FILES:
        raise Mistake(
            "{} and {} both name the data; give {task_name} with {data_dir}, or {tfds}, or your own files",
            Setting(named[0]),
            Setting(named[1]),
        )
    if settings.task_name and not settings.data_dir:
        raise Mistake("{task_name}={} needs {data_dir}, the folder with its files", settings.task_name)


def _keep_one_source(settings: ClassifierSettings) -> ClassifierSettings:
    """Resets the data flags of an earlier run if the command line names another source."""
    new_sources = [source for source in _SOURCES if settings.given & {*source}]
    if not new_sources:
        return settings
    forgotten = [name for source in _SOURCES if source not in new_sources for name in source if getattr(settings, name)]
    if not forgotten:
        return settings
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    settings = dataclasses.replace(settings, **{name: defaults[name] for name in forgotten})
    # The columns of the earlier data do not apply to the new data, nor do settings that have no effect on them.
    columns = {field.name for group in (ColumnSettings, OwnLabelSettings) for field in setting_fields(group)}
    columns = columns - {"skip_bad_rows", "kind"} | {"eval_share"}
    unused = {name for name, _ in settings.without_effect()} & _DATA_SETTINGS
    return dataclasses.replace(settings, **{name: defaults[name] for name in (columns | unused) - settings.given})


def _check_kind(settings: ClassifierSettings) -> None:
    if settings.task_name or settings.kind != "multiple_choice":
        return
    if settings.tfds:
        raise Mistake("{kind}=multiple_choice needs your own files, not {tfds}")
    if not settings.choice_columns:
        raise Mistake("{kind}=multiple_choice needs {choice_columns}: columns separated by commas, or one of lists")
    if settings.text_pair_column:
        raise Mistake(
            "{text_pair_column} has no effect with {kind}=multiple_choice, which pairs the text with each choice; "
            "leave it out, or join both texts with {text_column}={}",
            f"{settings.text_column or '...'},{settings.text_pair_column}",
        )
