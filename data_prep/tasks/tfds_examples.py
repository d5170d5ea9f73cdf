"""Reads examples from TensorFlow Datasets by name; TensorFlow is imported only when a dataset is read."""

import os

import numpy as np

from bert_keras.data_prep.tasks.columns import LABEL_NAMES, Columns, choose_columns
from bert_keras.data_prep.tasks.examples import Example
from bert_keras.data_prep.tasks.glue import GLUE_TASKS, GlueTask


def read_tfds(
    name: str, split: str, columns: Columns | None = None, data_dir: str | os.PathLike | None = None
) -> tuple[list[Example], tuple[str, ...] | None]:
    """Reads one split of a dataset from TensorFlow Datasets, which downloads it if `data_dir` lacks it.

    Args:
        name: such as "glue/mrpc" or "imdb_reviews".
        split: the dataset's name for it; tasks of GLUE also accept "train", "dev" and "test". In "glue/mnli" these are
            the matched genres; the others are "validation_mismatched" and "test_mismatched".
        columns: the names of the features; None: those of the GLUE task. Missing names (also that of the text) are
            found as in a user's file.
        data_dir: the folder of datasets; None: the default of TensorFlow Datasets.

    Returns:
        The examples, and the labels in the order of their ids; None: the dataset does not name them. Class labels
        become their names. Whole numbers without names become text; other numbers stay. Tasks of GLUE have the labels
        of their files, in the same order, and no labels in a test split.

    Raises:
        ImportError: tensorflow-datasets is not installed.
        ValueError: the dataset, split or feature does not exist, a feature is not usable, or the split is empty.
    """
    tfds = _import_tfds(name)
    task = next((task for task in GLUE_TASKS.values() if task.tfds is not None and task.tfds.name == name), None)
    if task is not None:
        split = _split_name(task, split)
    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError:
        raise ValueError(f'TensorFlow Datasets has no data set "{name}"; look the name up in its catalog') from None
    features = builder.info.features
    columns = _choose(name, task, features, columns)
    for column in (columns.text, columns.pair, columns.label, columns.id):
        if column is not None and column not in features:
            raise ValueError(f'{name} has no feature "{column}"; its features are {", ".join(sorted(features))}')
    parts = [column for column in (columns.text, columns.pair, columns.label) if column is not None]
    if len(set(parts)) < len(parts):
        raise ValueError(f"{name}: text, pair and label are the features {', '.join(parts)}; give each its own feature")
    names = getattr(features[columns.label], "names", None) if columns.label else None
    is_test = task is not None and split.startswith("test")
    examples = []
    for number, record in enumerate(_records(tfds, name, split, data_dir, task)):
        source = f"{name} {split} example {number}"
        has_label = columns.label is not None and not is_test
        examples.append(
            Example(
                id=str(number) if columns.id is None else _to_text(record[columns.id], columns.id, source),
                text_a=_to_text(record[columns.text], columns.text, source),
                text_b=None if columns.pair is None else _to_text(record[columns.pair], columns.pair, source),
                label=_to_label(record[columns.label], names, task, source) if has_label else None,
                source=source,
            )
        )
    if not examples:
        raise ValueError(f'the split "{split}" of {name} is empty; choose another')
    return examples, task.labels if task else names and tuple(names)


def _import_tfds(name):
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise ImportError(
            f"reading {name} needs TensorFlow Datasets, which is not installed: pip install tensorflow-datasets"
        ) from error
    return tensorflow_datasets


def _records(tfds, name, split, data_dir, task):
    """Returns the records of a split, an iterable of dicts."""
    try:
        records = tfds.as_numpy(tfds.load(name, split=split, data_dir=data_dir))
    except ValueError as error:
        raise ValueError(
            f'TensorFlow Datasets cannot read the split "{split}" of {name}; choose another ({error})'
        ) from error
    # TensorFlow Datasets shuffles records. In GLUE, `idx` gives the order of the files, which GLUE's site expects.
    return records if task is None else sorted(records, key=lambda record: int(record["idx"]))


def _split_name(task: GlueTask, split):
    names = dict(task.tfds.splits)
    if split in ("train", "dev", "test") and split not in names:
        raise ValueError(f"{task.tfds.name} has no {split} split, only {', '.join(names)}; leave this step out")
    return names.get(split, split)


def _choose(name, task, features, given):
    if given is None and task is not None:
        return Columns(task.tfds.text_a, task.tfds.text_b, "label", "idx")
    if given is not None and given.text is not None and given.label is not None:
        return given
    has_label = any(feature.lower() in LABEL_NAMES for feature in features)
    return choose_columns(name, sorted(features), given, needs_label=has_label)


def _to_text(value, column, source):
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if np.ndim(value) or isinstance(value, dict):
        raise ValueError(f'{source}: the feature "{column}" is not one text; choose another')
    return str(value)


def _to_label(value, names, task, source):
    """Returns the label of a record; None for -1, an unknown class."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if np.ndim(value) or isinstance(value, dict):
        raise ValueError(f"{source}: the label is not one name or number; choose another feature")
    if names is None:
        return str(value) if np.issubdtype(np.asarray(value).dtype, np.integer) else float(value)
    if value < 0:
        return None
    # For some tasks, the class names differ from those in the files; their order is the same.
    return names[value] if task is None or names[value] in task.labels else task.labels[value]
