"""Reads a user's examples: CSV, TSV and JSON lines files, and datasets of TensorFlow Datasets.

TensorFlow is imported only when a dataset is read.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from bert_keras.data_prep.tasks.column_names import LABEL_NAMES
from bert_keras.data_prep.tasks.columns import Columns, choose_columns, find_columns, parts_of, read_table
from bert_keras.data_prep.tasks.examples import Example, Label, to_number
from bert_keras.data_prep.tasks.glue import GLUE_TASKS, GlueTask, TfdsSource
from bert_keras.data_prep.tasks.tables import BadRow, Table, without_bad_rows
from bert_keras.storage import text_files


def read_own_file(
    table: Table,
    columns: Columns,
    kind: str = "single_label",
    needs_label: bool = False,
    skip_bad_rows: bool | None = None,
    has_header: str = "auto",
) -> list[Example]:
    """Reads the examples of a user's table of texts; see `iterate_own_file`.

    An unreadable row is a ValueError, with file and line; `skip_bad_rows` leaves such rows out and logs their number.
    None is for programs that do not have this flag.
    """
    rows = iterate_own_file(table, columns, kind, needs_label, has_header)
    examples = without_bad_rows(table.name, rows, skip_bad_rows)
    if not examples:
        raise ValueError(f"{table.path}: no row can be read; correct the file")
    return examples


def iterate_own_file(
    table: Table,
    columns: Columns,
    kind: str = "single_label",
    needs_label: bool = False,
    has_header: str = "auto",
) -> Iterator[Example | BadRow]:
    """Yields the examples of a user's table of texts one by one, in the order of the file; a BadRow if unreadable.

    Files are .csv, .tsv or .txt (tabs), .jsonl, .ndjson or .json (an object on each line), also compressed. To save
    memory, the rows of CSV and TSV are usually split one by one. Columns that are not given are found. Without
    `needs_label`, an absent column or an empty cell means no label. `kind` is one of `examples.KINDS`, `has_header` one
    of `columns.HEADERS`.
    """
    columns = find_columns(table, columns, needs_label)
    places, rows = read_table(table, columns, needs_label, has_header)
    _check_places(table.path, columns, places)
    places_of_ids, label_places, number = {}, {}, 0
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        where = table.place(row.line)
        source = f"{table.name} {where}"
        try:
            cells = {column: row.cells[place] for column, place in places.items()}
            label = None if columns.label is None else cells.get(columns.label)
            _check_label_type(label, where, label_places)
            example = _own_example(cells, number, columns, kind, needs_label, source)
            other = where if columns.id is None else places_of_ids.setdefault(example.id, where)
            if other != where:
                raise ValueError(f'the id "{example.id}" is also in {other}; ids must be unique')
        except ValueError as error:
            example = BadRow(source, error)
        yield example
        number += 1


def read_tfds(
    name: str, split: str, columns: Columns | None = None, data_dir: str | os.PathLike | None = None
) -> tuple[list[Example], tuple[str, ...] | None]:
    """Reads one split of a dataset from TensorFlow Datasets, which downloads it if `data_dir` lacks it.

    `split` is the dataset's name for it; tasks of GLUE also accept "train", "dev" and "test", which in "glue/mnli" are
    the matched genres. `columns` are the names of the features; None: those of the GLUE task. Missing names are found
    as in a user's file.

    Returns the examples, and the labels in the order of their ids; None: the dataset does not name them. Class labels
    become their names. Whole numbers without names become text; other numbers stay. Tasks of GLUE have the labels of
    their files, in the same order, and no labels in a test split.

    Raises ImportError if tensorflow-datasets is not installed, ValueError if the dataset, split or feature does not
    exist, a feature is not usable, or the split is empty.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise ImportError(
            f"reading {name} needs TensorFlow Datasets, which is not installed: pip install tensorflow-datasets"
        ) from error
    task = next((task for task in GLUE_TASKS.values() if task.tfds is not None and task.tfds.name == name), None)
    source_of_task = task.tfds if task is not None else None
    if source_of_task is not None:
        split = _split_name(source_of_task, split)
    try:
        features: Any = tfds.builder(name, data_dir=data_dir).info.features
    except tfds.core.DatasetNotFoundError:
        raise ValueError(f'TensorFlow Datasets has no data set "{name}"; look the name up in its catalog') from None
    columns = _choose_features(name, source_of_task, features, columns)
    names = getattr(features[columns.label], "names", None) if columns.label else None
    label_column = None if task is not None and split.startswith("test") else columns.label
    examples = []
    for number, record in enumerate(_records(tfds, name, split, data_dir, task)):
        source = f"{name} {split} example {number}"
        examples.append(
            Example(
                id=str(number if columns.id is None else _feature(record, columns.id, source)),
                text_a=str(_feature(record, cast(str, columns.text), source)),
                text_b=None if columns.pair is None else str(_feature(record, columns.pair, source)),
                label=None if label_column is None else _label(_feature(record, label_column, source), names, task),
                source=source,
            )
        )
    if not examples:
        raise ValueError(f'the split "{split}" of {name} is empty; choose another')
    return examples, task.labels if task else names and tuple(names)


def _check_places(path: str, columns: Columns, places: dict[str, int]) -> None:
    """Rejects a column with two roles: a model that reads the label learns nothing else."""
    texts = {"text": columns.text, "text_pair": columns.pair}
    roles: list[tuple[str, str | None]] = [
        (role, part) for role, text in texts.items() if text is not None for part in parts_of(text, places)
    ]
    roles += [("label", columns.label), *((f"choice {number}", each) for number, each in enumerate(columns.choices))]
    taken = {}
    for role, column in roles:
        other = taken.setdefault(places[column], role) if column in places else role
        if other != role:
            raise ValueError(
                f'{path}: the column "{column}" is both the {other} and the {role}; give each its own column'
            )


def _check_label_type(value: Any, place: str, label_places: dict[bool, tuple[float, str]]) -> None:
    """Rejects a file whose labels are both booleans and numbers of JSON, which is a mistake in the data.

    `label_places` keeps the first label of each type and its place.
    """
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, (bool, int, float)):
            continue
        is_boolean = isinstance(each, bool)
        if (not is_boolean) in label_places:
            other, other_place = label_places[not is_boolean]
            raise ValueError(
                f"the label is {json.dumps(each)}, but that of {other_place} is {json.dumps(other)}; "
                "write all labels as numbers, or all as true and false"
            )
        label_places.setdefault(is_boolean, (each, place))


def _own_example(
    cells: dict[str, Any], number: int, columns: Columns, kind: str, needs_label: bool, source: str
) -> Example:
    """Returns the example of a row, whose `cells` are by column; the caller adds file and line to a ValueError."""
    text_b = None if columns.pair is None else _to_text(cells, columns.pair, may_be_empty=True)
    label = _to_label(cells[columns.label], columns, kind) if columns.label in cells else None
    if label == () and not needs_label:
        label = None
    if label is None and needs_label:
        raise ValueError(f'the column "{columns.label}" is empty; every example needs a label here')
    return Example(
        id=str(number) if columns.id is None else _to_name(cells[columns.id], columns.id),
        text_a=_to_text(cells, cast(str, columns.text)),
        text_b=text_b,
        label=label,
        choices=tuple(_to_text(cells, choice) for choice in columns.choices),
        source=source,
    )


def _to_text(cells: Mapping[str, Any], column: str, may_be_empty: bool = False) -> str:
    """Returns the text of a column, or those of several columns with a blank between them; empty ones are left out."""
    parts = parts_of(column, cells)
    if len(parts) > 1:
        texts = ["" if cells[part] is None else _to_text(cells, part, may_be_empty=True) for part in parts]
        joined = " ".join(text for text in texts if not text_files.is_blank(text))
        if not joined and not may_be_empty:
            listed = ", ".join(map(json.dumps, parts))
            raise ValueError(f"the columns {listed} are empty; give a text, or remove the row")
        return joined
    value = cells[column]
    if value is not None and not isinstance(value, str):
        raise ValueError(f'the column "{column}" is {json.dumps(value)[:40]}, but a text is needed')
    if value is None or (not may_be_empty and text_files.is_blank(value)):
        raise ValueError(f'the column "{column}" is empty; give a text, or remove the row')
    return value


def _to_name(value: Any, column: str | None) -> str:
    if isinstance(value, str) and not text_files.is_blank(value):
        return value.strip()
    if value is None or isinstance(value, str):
        raise ValueError(f'the column "{column}" is empty; every row needs one')
    if isinstance(value, (list, dict)):
        raise ValueError(f'the column "{column}" is {json.dumps(value)[:40]}, but a name or a number is needed')
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f'the column "{column}" is {json.dumps(value)}, but a name or a finite number is needed')
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)  # JSON has one number type: 1 and 1.0 are the same
    return json.dumps(value)


def _to_label(value: Any, columns: Columns, kind: str) -> Label | None:
    if kind == "multi_label":
        return _to_labels(value, columns)
    if value is None or isinstance(value, str) and text_files.is_blank(value):
        return None
    if kind != "regression":
        return _to_name(value, columns.label)
    number = None if isinstance(value, bool) else to_number(value)
    if number is None:
        has_comma = isinstance(value, str) and re.fullmatch(r"[+-]?[0-9.]*[0-9],[0-9]+", value.strip())
        hint = "; write a decimal point instead of the comma" if has_comma else ""
        raise ValueError(f'the label "{value}" is not a finite number, as regression needs{hint}')
    return number


def _to_labels(value: Any, columns: Columns) -> tuple[str, ...] | None:
    """Returns the labels in a multi-label cell: () if it is blank, None for a JSON null or a missing key."""
    if value is None:
        return None
    names = value if isinstance(value, list) else [value]
    if isinstance(value, str):
        if text_files.is_blank(value):
            return ()
        names = value.split(columns.label_separator) if columns.label_separator else names
        if any(map(text_files.is_blank, names)):
            raise ValueError(f'the labels "{value}" include an empty label; remove it')
    return tuple(dict.fromkeys(_to_name(name, columns.label) for name in names))


def _records(
    tfds: Any, name: str, split: str, data_dir: str | os.PathLike | None, task: GlueTask | None
) -> Iterable[dict[str, Any]]:
    try:
        records = tfds.as_numpy(tfds.load(name, split=split, data_dir=data_dir))
    except ValueError as error:
        raise ValueError(
            f'TensorFlow Datasets cannot read the split "{split}" of {name}; choose another ({error})'
        ) from error
    # TensorFlow Datasets shuffles records. In GLUE, `idx` gives the order of the files, which GLUE's site expects.
    return records if task is None else sorted(records, key=lambda record: int(record["idx"]))


def _split_name(source: TfdsSource, split: str) -> str:
    names = dict(source.splits)
    if split in ("train", "dev", "test") and split not in names:
        raise ValueError(f"{source.name} has no {split} split, only {', '.join(names)}; leave this step out")
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
            raise ValueError(f'{name} has no feature "{column}"; its features are {", ".join(sorted(features))}')
    parts = [column for column in (columns.text, columns.pair, columns.label) if column is not None]
    if len(set(parts)) < len(parts):
        raise ValueError(f"{name}: text, pair and label are the features {', '.join(parts)}; give each its own feature")
    return columns


def _feature(record: Mapping[str, Any], column: str, source: str) -> Any:
    """Returns the str or the number of a feature."""
    value = record[column]
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if np.ndim(value) or isinstance(value, dict):
        raise ValueError(f'{source}: the feature "{column}" is not one text or number; choose another')
    return value


def _label(value: Any, names: Sequence[str] | None, task: GlueTask | None) -> Label | None:
    """Returns the label of a record; None for -1, an unknown class."""
    if isinstance(value, str):
        return value
    if names is None:
        return str(value) if np.issubdtype(np.asarray(value).dtype, np.integer) else float(value)
    if value < 0:
        return None
    # For some tasks, the class names differ from those in the files; their order is the same.
    name = names[int(value)]
    return name if task is None or name in task.labels else task.labels[value]
