"""Data in memory as the files that the training programs read."""

import collections
import hashlib
import json
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.mistakes import Mistake, several
from bert_keras.prediction.arguments import check_characters
from bert_keras.runs.run_dir import RUN_CONFIG
from bert_keras.storage import paths, writing

_FOLDER = "data"
_DIGITS = 8


class DataFiles:
    """The files of a call, in the folder `data` of its run; the name of one has that of the data and a digest."""

    def __init__(self, output_dir: str):
        self._output_dir = output_dir
        self._new: list[str] = []

    def add(self, name: str, content: str | tuple[bytes, str]) -> str:
        """Writes the data `name` of a call, such as "train_data": content and ending of a file, or its path.

        Returns the path. A file that has this content already stays.
        """
        if isinstance(content, str):
            return content
        data, ending = content
        path = self.path(name, data, ending)
        if not paths.is_file(path):
            paths.make_dirs(paths.parent(path))
            writing.write_bytes(path, data)
            self._new.append(path)
        elif paths.read_bytes(path) != data:
            raise Mistake("{} has changed since it was written; remove it", path)
        return path

    def path(self, name: str, content: bytes, ending: str) -> str:
        """Returns the path of a file that is made from `content`."""
        digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
        return paths.join(self._output_dir, _FOLDER, f"{name}-{digest}{ending}")

    def remove_unused(self) -> None:
        """Removes the new files of a call that failed before its run began."""
        config = paths.join(self._output_dir, RUN_CONFIG)
        settings = paths.read_text(config) if paths.is_file(config) else ""
        for path in self._new:
            if paths.name(path) not in settings:
                paths.remove(path)
        for folder in (paths.join(self._output_dir, _FOLDER), self._output_dir):
            if self._new and paths.is_dir(folder) and not paths.list_dir(folder):
                paths.remove_dir(folder)


def json_lines(rows: Iterable[Mapping[str, Any]]) -> tuple[bytes, str]:
    """Returns rows as the content of a JSON lines file, and the ending of its name."""
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return "".join(lines).encode("utf-8", "surrogatepass"), ".jsonl"


def rows_of(data: Any, name: str, columns: Mapping[int, tuple[str, ...]], rank: int = 0) -> Iterator[dict[str, Any]]:
    """Yields the rows of data in memory, at least one, as dicts of JSON values by column.

    Args:
        data: a list or generator of dicts or tuples, a tuple or dict of columns, a table (pandas, polars, pyarrow), or
            a finite `tf.data.Dataset` of dicts or tuples, in batches or not.
        name: of the data, for messages.
        columns: the columns of a tuple by its length; 1: of a row that is neither dict nor tuple; -3: of a tuple of
            three that ends with a number.
        rank: of a column that has the lowest rank in a dataset without batches.
    """
    number = -1
    for number, row in enumerate(iterate(data, name, rank)):
        where = f"{name} row {number}"
        row = row._asdict() if hasattr(row, "_asdict") else row  # a named tuple: its fields may have any order
        if not isinstance(row, Mapping):
            is_tuple = isinstance(row, tuple) or (rank == 0 and isinstance(row, (list, np.ndarray)))
            parts = tuple(row) if is_tuple else (row,)
            if rank == 0 and parts and isinstance(parts[0], tuple):  # a pair of texts, and its label
                parts = (*parts[0], *parts[1:])
            if len(parts) not in columns:
                known = "".join(f", or ({', '.join(names)})" for names in columns.values())
                raise Mistake("{} has {} and no names; give a dict{}", where, several(len(parts), "values"), known)
            is_number = isinstance(parts[-1], numbers.Real) and -len(parts) in columns
            row = dict(zip(columns[-len(parts) if is_number else len(parts)], parts, strict=True))
        yield {str(column): to_json(value, f'{where}: the column "{column}"') for column, value in row.items()}
    if number < 0:
        raise Mistake("{} has no rows; give at least one", name)


def iterate(data: Any, name: str, rank: int) -> Iterable[Any]:
    """Returns an iterable of the rows of data; see `rows_of`."""
    if isinstance(data, tf.data.Dataset):
        return _iterate_dataset(data, name, rank)
    columns = getattr(data, "column_names", getattr(data, "columns", ()))  # of pyarrow; of pandas and polars
    twice = [column for column, count in collections.Counter([*columns]).items() if count > 1]
    if twice:
        raise Mistake('{} has several columns "{}", and a row can have one; rename them', name, twice[0])
    for method in ("to_dicts", "to_pylist"):  # polars, pyarrow
        if hasattr(data, method):
            return getattr(data, method)()
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas; `to_csv` writes the index, too
        index = [level for level in data.index.names if level is not None and level not in data.columns]
        return data.reset_index(index).to_dict("records")
    if isinstance(data, Mapping):
        if isinstance(data.get("data"), list) and sum(isinstance(value, list) for value in data.values()) == 1:
            return data["data"]  # as in a file of JSON
        names = tuple(data)
        return (dict(zip(names, row, strict=True)) for row in _rows_of_columns(data.values(), names, name))
    if isinstance(data, tuple) and not any(isinstance(column, (str, bytes, Mapping)) for column in data):
        return _rows_of_columns(data, [f"column {number}" for number in range(len(data))], name)
    if isinstance(data, (str, bytes, set, frozenset)) or not isinstance(data, Iterable):  # a set has no order
        raise TypeError(
            f"{name} is of the type {type(data).__name__}; give a path, a list of dicts, a tuple of lists, a table or "
            "a tf.data.Dataset"
        )
    return data


def _rows_of_columns(columns: Iterable[Any], names: Sequence[Any], name: str) -> Iterator[tuple]:
    """Returns the rows of columns of the same length."""
    columns = [_column(values, name, column) for column, values in zip(names, columns, strict=True)]
    counts = {column: len(values) for column, values in zip(names, columns, strict=True)}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{column}: {count}" for column, count in counts.items())
        raise Mistake("{} has columns of different lengths ({}); give each row a value in every column", name, found)
    return zip(*columns, strict=True)


def _column(values: Any, name: str, column: Any) -> list[Any]:
    """Returns the values of a column; iterating a text or a table would give its characters or names."""
    is_table = isinstance(values, Mapping) or hasattr(values, "columns") or hasattr(values, "column_names")
    if is_table or isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise Mistake(
            '{}: the column "{}" is of the type {}, but it must be a list with a value for each row; give one row as '
            "a list of a dict",
            name,
            column,
            type(values).__name__,
        )
    return list(values)


def _iterate_dataset(data: tf.data.Dataset, name: str, rank: int) -> Iterator[Any]:
    if data.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise Mistake("{} is a dataset without an end; limit it, for example with take(1000)", name)
    ranks = [spec.shape.rank for spec in tf.nest.flatten(data.element_spec)]
    if None not in ranks and min(ranks) > rank:
        data = data.unbatch()
    return data.as_numpy_iterator()


def to_json(value: Any, where: str) -> Any:
    """Returns a value of Python, NumPy, TensorFlow or pandas as one of JSON; a missing one is None."""
    if isinstance(value, (tf.Tensor, tf.RaggedTensor)):
        value = value.numpy()
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, (bytes, bytearray)):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        check_characters(value, where)
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): to_json(item, where) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)  # its own order differs from run to run, and with it the digest of the data
    if isinstance(value, Iterable):
        return [to_json(item, where) for item in value]
    if type(value).__str__ is not object.__str__:  # a date or a decimal number, as files of tables have them
        return str(value)
    raise Mistake("{} is of the type {}; give a text, a number or a list of them", where, type(value).__name__)
