"""Examples from TensorFlow Datasets, by name. TensorFlow is imported only when a data set is read."""

import logging
import os

from data_prep.examples import Example, to_number
from data_prep.glue import GLUE_TASKS, GlueTask
from data_prep.own_files import Columns, choose_columns

log = logging.getLogger("bert_keras")


def read_tfds(
    name: str, split: str, columns: Columns | None = None, data_dir: str | os.PathLike | None = None
) -> tuple[list[Example], tuple[str, ...] | None]:
    """Reads one split of a data set of TensorFlow Datasets.

    Args:
        name: as "glue/mrpc", or "imdb_reviews".
        split: as the data set calls it; of the tasks of GLUE also "train", "dev" or "test".
        columns: the names of the features; None: as the task of GLUE has them, or found as for a user's file.
        data_dir: where data sets are kept; None: where TensorFlow Datasets keeps them.

    Returns:
        The examples, whose labels are names, and the labels in order of their ids (of a task of GLUE those that its
        files have, in the order of its files); None: the data set does not name them.

    Raises:
        ImportError: tensorflow-datasets is not installed.
        ValueError: there is no such data set, split or feature.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise ImportError(
            f"reading {name} needs TensorFlow Datasets, which is not installed: pip install tensorflow-datasets"
        ) from error
    task = _task_of(name)
    if task is not None:
        split = dict(task.tfds.splits).get(split, split)
    builder = tfds.builder(name, data_dir=data_dir)
    features = builder.info.features
    if columns is None:
        columns = _columns_of_task(task) if task else choose_columns(name, tuple(features))
    missing = [
        column
        for column in (columns.text, columns.pair, columns.label, columns.id)
        if column and column not in features
    ]
    if missing:
        raise ValueError(f'{name} has no feature "{missing[0]}"; its features are {", ".join(features)}')
    names = getattr(features[columns.label], "names", None) if columns.label else None
    data = tfds.load(name, split=split, data_dir=data_dir)
    examples = []
    for number, record in enumerate(tfds.as_numpy(data)):
        examples.append(
            Example(
                id=str(number) if columns.id is None else _to_text(record[columns.id]),
                text_a=_to_text(record[columns.text]),
                text_b=None if columns.pair is None else _to_text(record[columns.pair]),
                label=None if columns.label is None else _to_label(record[columns.label], names, task),
                source=f"{name} {split} example {number}",
            )
        )
    return examples, task.labels if task else names and tuple(names)


def _task_of(name) -> GlueTask | None:
    return next((task for task in GLUE_TASKS.values() if task.tfds is not None and task.tfds.name == name), None)


def _columns_of_task(task):
    return Columns(task.tfds.text_a, task.tfds.text_b, "label", "idx")


def _to_text(value):
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _to_label(value, names, task):
    if isinstance(value, bytes):
        return _to_text(value)
    if not names:
        return to_number(value)
    if value < 0:
        return None
    if task is not None and names[value] not in task.labels:
        return task.labels[value]
    return names[value]
