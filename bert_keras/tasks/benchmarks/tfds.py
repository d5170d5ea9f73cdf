"""Reads examples of TensorFlow Datasets. TensorFlow is imported only when a dataset is read."""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from bert_keras.mistakes import Mistake
from bert_keras.prediction.containers import plain
from bert_keras.tasks.benchmarks.glue import GlueTask, TfdsSource, task_of_tfds
from bert_keras.tasks.tables.column_names import LABEL_NAMES
from bert_keras.tasks.tables.columns import Columns, choose_columns
from bert_keras.tasks.tables.examples import Example, Label, without_undecided
from bert_keras.tasks.tables.labels import LabelReader


def read_tfds(
    name: str,
    split: str,
    columns: Columns | None = None,
    data_dir: str | os.PathLike | None = None,
    kind: str = "single_label",
    has_labels: bool = True,
) -> tuple[list[Example], tuple[str, ...] | None]:
    """Reads one split of a dataset from TensorFlow Datasets, which downloads it if `data_dir` lacks it.

    `split` is the dataset's name for it; tasks of GLUE also accept "train", "dev" and "test", which in "glue/mnli" are
    the matched genres. `columns` are the names of the features; None: those of the GLUE task. Missing names are found
    as those of a user's table. Labels of other datasets are of a `kind`, one of `tasks.tables.settings.KINDS`. Without
    `has_labels`, those of the split are not read.

    Returns the examples, and the labels in the order of their ids; None: the dataset does not name them. Class labels
    become their names; others are read as in a user's file. Tasks of GLUE have the labels of their files, in the same
    order, and no labels in a test split.

    Raises ValueError if tensorflow-datasets is not installed, the dataset, split or feature does not exist, a feature
    is not usable, or the split is empty.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        message = "reading {} needs TensorFlow Datasets, which is not installed: pip install tensorflow-datasets"
        raise Mistake(message, name) from None
    task = task_of_tfds(name)
    source_of_task = task.tfds if task is not None else None
    if source_of_task is not None:
        split = _split_name(source_of_task, split)
    try:
        features: Any = tfds.builder(name, data_dir=data_dir).info.features
    except tfds.core.DatasetNotFoundError:
        raise Mistake('TensorFlow Datasets has no data set "{}"; look the name up in its catalog', name) from None
    columns = _choose_features(name, source_of_task, features, columns)
    names = getattr(features[columns.label], "names", None) if columns.label else None
    if not has_labels or (task is not None and split.startswith("test")):
        columns = dataclasses.replace(columns, label=None)
    labels, examples = LabelReader(columns, task.kind if task else kind, sorted(features)), []
    for number, record in enumerate(_records(tfds, name, split, data_dir, task)):
        source = f"{name} {split} example {number}"
        examples.append(
            Example(
                id=str(number if columns.id is None else _feature(record, columns.id, source)),
                text_a=str(_feature(record, cast(str, columns.text), source)),
                text_b=None if columns.pair is None else str(_feature(record, columns.pair, source)),
                label=None if columns.label is None else _label(record, columns.label, labels, names, task, source),
                source=source,
            )
        )
    if not examples:
        raise Mistake('the split "{}" of {} is empty; choose another', split, name)
    if task is None:
        examples = without_undecided(examples, name)
    return examples, task.labels if task else names and tuple(names)


def _records(
    tfds: Any, name: str, split: str, data_dir: str | os.PathLike | None, task: GlueTask | None
) -> Iterable[dict[str, Any]]:
    try:
        records = tfds.as_numpy(tfds.load(name, split=split, data_dir=data_dir))
    except ValueError as error:
        raise Mistake(
            'TensorFlow Datasets cannot read the split "{}" of {}; choose another ({})', split, name, error
        ) from error
    # TensorFlow Datasets shuffles records. In GLUE, `idx` gives the order of the files, which GLUE's site expects.
    return records if task is None else sorted(records, key=lambda record: int(record["idx"]))


def _split_name(source: TfdsSource, split: str) -> str:
    names = dict(source.splits)
    if split in ("train", "dev", "test") and split not in names:
        raise Mistake("{} has no {} split, only {}; leave this step out", source.name, split, ", ".join(names))
    return names.get(split, split)


def _choose_features(
    name: str, source: TfdsSource | None, features: Mapping[str, Any], given: Columns | None
) -> Columns:
    """Returns the columns of a dataset after checking that it has them and each has one role."""
    if given is None and source is not None:
        columns = Columns(source.text_a, source.text_b, "label", "idx")
    elif given is not None and given.text is not None and given.label is not None:
        columns = given
    else:
        has_label = any(feature.lower() in LABEL_NAMES for feature in features)
        columns = choose_columns(name, sorted(features), given or Columns(), needs_label=has_label)
    for column in (columns.text, columns.pair, columns.label, columns.id):
        if column is not None and column not in features:
            raise Mistake('{} has no feature "{}"; its features are {}', name, column, ", ".join(sorted(features)))
    parts = [column for column in (columns.text, columns.pair, columns.label) if column is not None]
    if len(set(parts)) < len(parts):
        raise Mistake("{}: text, pair and label are the features {}; give each its own feature", name, ", ".join(parts))
    return columns


def _feature(record: Mapping[str, Any], column: str, source: str) -> Any:
    """Returns the str or the number of a feature."""
    value = record[column]
    if np.ndim(value) or isinstance(value, dict):
        raise Mistake('{}: the feature "{}" is not one text or number; choose another', source, column)
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else plain(value)
    except UnicodeDecodeError:
        raise Mistake('{}: the feature "{}" is not a text in UTF-8; choose another', source, column) from None


def _label(
    record: Mapping[str, Any],
    column: str,
    labels: LabelReader,
    names: Sequence[str] | None,
    task: GlueTask | None,
    source: str,
) -> Label | None:
    """Returns the label of a record; None for -1, an unknown class."""
    value = _feature(record, column, source)
    if names is not None and not isinstance(value, str):
        if value < 0:
            return None
        # For some tasks, the class names differ from those in the files; their order is the same.
        known = task.labels if task and names[value] not in task.labels else names
        value = known[value]
    try:
        return labels.read({column: value}, source)
    except Mistake as mistake:
        raise Mistake("{}: {}", source, mistake) from None
