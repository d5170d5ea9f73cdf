"""Reads labelled texts: the files of GLUE, XNLI and SWAG, users' files (`user_files`), and TensorFlow Datasets."""

import logging
import os

from bert_keras.data_prep.tasks.columns import Columns, find_columns, list_columns
from bert_keras.data_prep.tasks.examples import KINDS, Example, Label, check_labels, learn_labels, to_number
from bert_keras.data_prep.tasks.glue import Column, GlueFile, GlueTask
from bert_keras.data_prep.tasks.tables import BadRows, Row, read_csv_rows, read_tsv_rows
from bert_keras.data_prep.tasks.tfds_examples import read_tfds
from bert_keras.data_prep.tasks.user_files import iterate_own_file, read_own_file
from bert_keras.storage import paths

__all__ = [
    "KINDS",
    "Columns",
    "Example",
    "Label",
    "check_labels",
    "find_columns",
    "iterate_own_file",
    "learn_labels",
    "read_glue",
    "read_glue_file",
    "read_own_file",
    "read_tfds",
]

log = logging.getLogger("bert_keras")


def read_glue(
    task: GlueTask,
    data_dir: str | os.PathLike,
    split: str,
    xnli_language: str = "zh",
    skip_bad_rows: bool = False,
) -> list[Example]:
    """Reads one split of a task from the folder with its distributed files.

    Args:
        task: a value of `GLUE_TASKS`.
        data_dir: the folder.
        split: "train", "dev" or "test".
        xnli_language: for XNLI, the language to read.
        skip_bad_rows: leaves out unreadable rows, and counts them in the log.

    Returns:
        The examples, in the order of the file.

    Raises:
        FileNotFoundError: the folder does not contain the file.
        ValueError: the task has no such file, or a row is unreadable (names file and line).
    """
    file = _file_of(task, split)
    path = paths.join(data_dir, *file.name.format(language=xnli_language).split("/"))
    if not paths.is_file(path):
        names = ", ".join(other.name.format(language=xnli_language) for other in task.files.values())
        raise FileNotFoundError(
            f'there is no "{path}"; the task {task.name} needs the files {names}, named as distributed, in the data '
            "folder"
        )
    return read_glue_file(task, path, split, xnli_language, skip_bad_rows)


def read_glue_file(
    task: GlueTask,
    path: str | os.PathLike,
    split: str,
    xnli_language: str = "zh",
    skip_bad_rows: bool = False,
) -> list[Example]:
    """Reads a file in the format of one split of a task; see `read_glue`.

    As in the original BERT, quotes in TSV files are ordinary characters. Differs from the original: a short row causes
    an error that names it, and examples of test files have no label (in the original they have the first label).
    """
    file = _file_of(task, split)
    name = paths.name(path)
    rows = (read_csv_rows if file.is_csv else read_tsv_rows)(path)
    places = _places(file, rows[0], name)
    if file.has_header:
        header, *rows = rows
        if file.label is not None and header.cells[places[file.label]] in task.labels:
            raise ValueError(
                f"{name} line {header.line}: this is an example, but the first line of this file of {task.name} names "
                "the columns; put the header back"
            )
    if file.language is not None:
        rows = _rows_of_language(rows, places[file.language], xnli_language, name)
    bad_rows, examples = BadRows(name, skip_bad_rows), []
    for number, row in enumerate(rows):
        try:
            examples.append(_glue_example(task, file, places, row.cells, number, f"{name} line {row.line}"))
        except ValueError as error:
            bad_rows.add(row.line, str(error))
    bad_rows.report()
    if not examples:
        raise ValueError(f"{os.fspath(path)} has no example; give a file with at least one")
    return examples


def _file_of(task, split):
    if split not in task.files:
        raise ValueError(f"the task {task.name} has no {split} file, only {', '.join(task.files)}; leave this step out")
    return task.files[split]


def _places(file: GlueFile, first: Row, name: str) -> dict[Column, int]:
    """Returns the index of each column of a file, given its first row."""
    columns = [file.text_a, file.text_b, file.label, file.id, file.language, *file.choices]
    places = {}
    for column in (column for column in columns if column is not None):
        if isinstance(column, int):
            places[column] = column % len(first.cells) if column < 0 else column
        elif column in first.cells:
            places[column] = first.cells.index(column)
        else:
            raise ValueError(
                f'{name} line {first.line}: no column "{column}" among {list_columns(first.cells)}; '
                "give the file as distributed"
            )
    num_cells = max(places.values()) + 1
    if len(first.cells) < num_cells:
        raise ValueError(
            f"{name} line {first.line}: {len(first.cells)} cells, but this file has at least {num_cells}; "
            "give the file as distributed"
        )
    return places


def _glue_example(task, file, places, cells, number, source):
    """Returns the example of a row; the caller adds file and line to a ValueError."""
    num_cells = max(places.values()) + 1
    if len(cells) < num_cells:
        raise ValueError(f"{len(cells)} of at least {num_cells} cells; restore the row")

    def cell(column):
        return None if column is None else cells[places[column]]

    label = cell(file.label)
    if label is not None and task.kind == "regression":
        label = to_number(label)
        if label is None:
            raise ValueError(f'the label "{cell(file.label)}" is not a finite number; correct it')
    text_b = cell(file.text_b)
    return Example(
        id=str(number) if file.id is None else cell(file.id),
        text_a=cell(file.text_a),
        text_b=None if file.choices else text_b,
        label=dict(task.other_spellings).get(label, label),
        choices=tuple(f"{text_b} {cell(ending)}" for ending in file.choices),
        source=source,
    )


def _rows_of_language(rows, place, language, name):
    languages = sorted({row.cells[place] for row in rows if len(row.cells) > place})
    if language not in languages:
        raise ValueError(f'{name} has no rows of the language "{language}"; it has {", ".join(languages)}')
    chosen = [row for row in rows if len(row.cells) <= place or row.cells[place] == language]
    log.info("%s: %s of %s rows are of the language %s", name, f"{len(chosen):,}", f"{len(rows):,}", language)
    return chosen
