"""Reads the files of the tasks of GLUE, XNLI and SWAG as examples."""

import logging
import os
from collections.abc import Mapping, Sequence

from bert_keras.mistakes import Mistake
from bert_keras.storage import paths
from bert_keras.storage.csv_rows import Row, iterate_rows
from bert_keras.tasks.benchmarks.glue import Column, GlueFile, GlueTask
from bert_keras.tasks.tables.columns import REPEATED_HEADER, list_columns
from bert_keras.tasks.tables.examples import Example
from bert_keras.tasks.tables.header import to_number
from bert_keras.tasks.tables.tables import BadRow, without_bad_rows

log = logging.getLogger("bert_keras")


def read_glue(
    task: GlueTask,
    data_dir: str | os.PathLike,
    split: str,
    xnli_language: str = "zh",
    skip_bad_rows: bool | None = None,
) -> list[Example]:
    """Reads one split ("train", "dev" or "test") of a task from the folder with its distributed files.

    Raises FileNotFoundError if the folder does not contain the file; see `read_glue_file`.
    """
    path = paths.join(data_dir, *_file_of(task, split).name.format(language=xnli_language).split("/"))
    if not paths.is_file(path):
        names = ", ".join(other.name.format(language=xnli_language) for other in task.files.values())
        needed = f"the task {task.name} needs the files {names}, named as distributed"
        raise FileNotFoundError(f'"{path}" does not exist; {needed}, in the data folder')
    return read_glue_file(task, path, split, xnli_language, skip_bad_rows)


def read_glue_file(
    task: GlueTask, path: str | os.PathLike, split: str, xnli_language: str = "zh", skip_bad_rows: bool | None = None
) -> list[Example]:
    """Reads a file in the format of one split of a task; ValueError if there is none, or for the first unreadable row.

    Differs from the original: a short row causes an error that names it, and examples of test files have no label (in
    the original they have the first label).
    """
    file = _file_of(task, split)
    name = paths.name(path)
    rows = list(iterate_rows(path, file.is_csv))
    places = _find_places(file, rows[0], name)
    if file.has_header:
        header, *rows = rows
        if file.label is not None and task.label_named(header.cells[places[file.label]]) is not None:
            raise Mistake(
                "{} line {}: this is an example, but the first line of this file of {} names "
                "the columns; put the header back",
                name,
                header.line,
                task.name,
            )
    if file.language is not None:
        rows = _rows_of_language(rows, places[file.language], xnli_language, name)
    first = header.cells if file.has_header else None
    examples = (
        _make_example(task, file, places, row.cells, number, f"{name} line {row.line}")
        if row.cells != first
        else BadRow(f"{name} line {row.line}", REPEATED_HEADER)
        for number, row in enumerate(rows)
    )
    examples = without_bad_rows(name, examples, skip_bad_rows)
    if not examples:
        raise Mistake("{} has no example; give a file with at least one", os.fspath(path))
    return examples


def _file_of(task: GlueTask, split: str) -> GlueFile:
    if split not in task.files:
        raise Mistake(
            "the task {} has no {} file, only {}; leave this step out", task.name, split, ", ".join(task.files)
        )
    return task.files[split]


def _find_places(file: GlueFile, first: Row, name: str) -> dict[Column, int]:
    """Returns the index of each column of a file, given its first row."""
    columns = [file.text_a, file.text_b, file.label, file.id, file.language, *file.choices]
    places, advice = {}, "give the file as distributed"
    for column in (column for column in columns if column is not None):
        if isinstance(column, int):
            places[column] = column % len(first.cells) if column < 0 else column
        elif column in first.cells:
            places[column] = first.cells.index(column)
        else:
            names = list_columns(first.cells)
            raise Mistake('{} line {}: no column "{}" among {}; {}', name, first.line, column, names, advice)
    num_cells = max(places.values()) + 1
    if len(first.cells) < num_cells:
        found = f"{len(first.cells)} cells, but this file has at least {num_cells}"
        raise Mistake("{} line {}: {}; {}", name, first.line, found, advice)
    return places


def _make_example(
    task: GlueTask, file: GlueFile, places: Mapping[Column, int], cells: Sequence[str], number: int, source: str
) -> Example | BadRow:
    num_cells = max(places.values()) + 1
    if len(cells) < num_cells:
        return BadRow(source, f"{len(cells)} of at least {num_cells} cells; restore the row")
    values: dict[Column | None, str] = {column: cells[place] for column, place in places.items()}
    label, text_b = values.get(file.label), values.get(file.text_b)
    if label is not None and task.has_numbers:
        label = to_number(label)
        if label is None:
            return BadRow(source, f'the label "{values[file.label]}" is not a finite number; correct it')
    return Example(
        id=str(number) if file.id is None else values[file.id],
        text_a=values[file.text_a],
        text_b=None if file.choices else text_b,
        label=label if not isinstance(label, str) else task.label_named(label) or label,
        choices=tuple(f"{text_b} {values[ending]}" for ending in file.choices),
        source=source,
    )


def _rows_of_language(rows: Sequence[Row], place: int, language: str, name: str) -> list[Row]:
    languages = sorted({row.cells[place] for row in rows if len(row.cells) > place})
    if language not in languages:
        raise Mistake('{} has no rows of the language "{}"; it has {}', name, language, ", ".join(languages))
    chosen = [row for row in rows if len(row.cells) <= place or row.cells[place] == language]
    log.info("%s: %s of %s rows are of the language %s", name, f"{len(chosen):,}", f"{len(rows):,}", language)
    return chosen
