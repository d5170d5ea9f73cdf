"""Examples of texts with labels, from all that they come in: the files of GLUE, XNLI and SWAG, a user's own files
(`own_files`), TensorFlow Datasets (`tfds_examples`).

Imports without TensorFlow.
"""

import logging
import os
from collections.abc import Sequence

from data_prep.examples import KINDS, Example, Label, check_labels, learn_labels, to_number
from data_prep.glue import Column, GlueFile, GlueTask
from data_prep.own_files import Columns, find_columns, read_own_file
from data_prep.tables import BadRows, read_csv_rows, read_tsv_rows
from data_prep.tfds_examples import read_tfds

__all__ = [
    "KINDS",
    "Columns",
    "Example",
    "Label",
    "check_labels",
    "find_columns",
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
    """Reads one split of a task from the folder that holds its files as they are distributed.

    Args:
        task: row of `GLUE_TASKS`.
        data_dir: the folder.
        split: "train", "dev" or "test".
        xnli_language: of XNLI, the language to read.
        skip_bad_rows: leaves out rows that cannot be read, and counts them in the log.

    Returns:
        The examples, in the order of the file.

    Raises:
        FileNotFoundError: the file is not in the folder.
        ValueError: the task has no such file, or a row cannot be read (names file and line).
    """
    file = _file_of(task, split)
    path = os.path.join(os.fspath(data_dir), file.name.format(language=xnli_language))
    if not os.path.isfile(path):
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
    """Reads a file that has the form of one split of a task; see `read_glue`.

    As in the release quotes in TSV files are ordinary characters. Differs from the release: a row that is too short is
    an error that names it, and test files give no label (there the first one).
    """
    file = _file_of(task, split)
    name = os.path.basename(os.fspath(path))
    rows = (read_csv_rows if file.is_csv else read_tsv_rows)(path)
    places = _places(file, rows[0].cells, name)
    if file.has_header:
        if file.label is not None and rows[0].cells[places[file.label]] in task.labels:
            raise ValueError(
                f"{name} line {rows[0].line}: this is an example, but the first line of this file of {task.name} names "
                "the columns; put the header back"
            )
        rows = rows[1:]
    if file.language is not None:
        rows = _rows_of_language(rows, places[file.language], xnli_language, name)
    spellings, bad_rows, examples = dict(task.other_spellings), BadRows(name, skip_bad_rows), []
    num_cells = max(places.values()) + 1
    for number, (line, cells) in enumerate(rows):
        if len(cells) < num_cells:
            bad_rows.add(line, f"has {len(cells)} of at least {num_cells} cells; restore the row, or --skip_bad_rows")
            continue
        label = None if file.label is None else cells[places[file.label]]
        if label is not None and task.kind == "regression":
            label = to_number(label)
            if label is None:
                bad_rows.add(line, f'"{cells[places[file.label]]}" is no number; correct the label')
                continue
        examples.append(
            Example(
                id=str(number) if file.id is None else cells[places[file.id]],
                text_a=cells[places[file.text_a]],
                text_b=None if file.text_b is None or file.choices else cells[places[file.text_b]],
                label=spellings.get(label, label),
                choices=tuple(f"{cells[places[file.text_b]]} {cells[places[ending]]}" for ending in file.choices),
                source=f"{name} line {line}",
            )
        )
    bad_rows.report()
    if not examples:
        raise ValueError(f"{os.fspath(path)} holds no example; give a file with at least one")
    return examples


def _file_of(task, split):
    if split not in task.files:
        raise ValueError(f"the task {task.name} has no {split} file, only {', '.join(task.files)}; leave this step out")
    return task.files[split]


def _places(file: GlueFile, first: Sequence[str], name: str) -> dict[Column, int]:
    """Returns the number of each column of a file, given the cells of its first row."""
    columns = [file.text_a, file.text_b, file.label, file.id, file.language, *file.choices]
    places = {}
    for column in (column for column in columns if column is not None):
        if isinstance(column, int):
            place = column if column >= 0 else len(first) + column
            if not 0 <= place < len(first):
                raise ValueError(f"{name} line 1: {len(first)} cells, but column {column} (from 0) is needed")
        elif column in first:
            place = first.index(column)
        else:
            raise ValueError(
                f'{name} line 1: no column "{column}" among {", ".join(first)}; give the file as it is distributed'
            )
        places[column] = place
    return places


def _rows_of_language(rows, place, language, name):
    languages = sorted({row.cells[place] for row in rows if len(row.cells) > place})
    if language not in languages:
        raise ValueError(f'{name} has no rows of the language "{language}"; it has {", ".join(languages)}')
    chosen = [row for row in rows if len(row.cells) <= place or row.cells[place] == language]
    log.info("%s: %s of %s rows are of the language %s", name, f"{len(chosen):,}", f"{len(rows):,}", language)
    return chosen
