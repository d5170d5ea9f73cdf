"""The tasks of GLUE, XNLI and SWAG, and a reader of their files.

`GLUE_TASKS` has one entry for each task and alias.
"""

import dataclasses
import itertools
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bert_keras.data_prep.tasks.columns import REPEATED_HEADER, list_columns
from bert_keras.data_prep.tasks.examples import Example, to_number
from bert_keras.data_prep.tasks.tables import BadRow, Row, iterate_rows, without_bad_rows
from bert_keras.mistakes import Mistake
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

# A column is a number from 0 (if negative, from the end of the header), or a name in the header.
Column = int | str


@dataclasses.dataclass(frozen=True)
class GlueFile:
    """The content of one file of a task.

    Attributes:
        name: its path in the folder of the task; the language of XNLI replaces {language}.
        text_a, text_b, label, id: columns; None: the file has no such column.
        choices: columns of the endings, for multiple choice; each follows text_b, separated by a space.
        has_header: whether the first row names the columns.
        language: column of the language; rows of other languages are left out.
        is_csv: whether the file is CSV with quotes; otherwise tabs separate cells, and quotes are ordinary characters.
    """

    name: str
    text_a: Column
    text_b: Column | None = None
    label: Column | None = None
    id: Column | None = None
    choices: tuple[Column, ...] = ()
    has_header: bool = True
    language: Column | None = None
    is_csv: bool = False


@dataclasses.dataclass(frozen=True)
class TfdsSource:
    """A task in TensorFlow Datasets: the name of the dataset, its text features, and the name of each split."""

    name: str
    text_a: str
    text_b: str | None = None
    splits: tuple[tuple[str, str], ...] = (("train", "train"), ("dev", "validation"), ("test", "test"))


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """One task, with its `name` in lower case.

    Attributes:
        files: by "train", "dev" and "test"; some tasks lack some of them.
        labels: in the order of their ids; () for regression.
        tfds: None: not available there in this form.
        kind: one of `examples.KINDS`.
        metrics: names as in `evaluation`; the first one is for choosing between runs.
        other_names: names that other libraries and files give the labels, in the order of `labels`. Their numbers are
            names, too, unless libraries number the labels in another order.
    """

    name: str
    files: Mapping[str, GlueFile]
    labels: tuple[str, ...]
    tfds: TfdsSource | None = None
    kind: str = "single_label"
    metrics: tuple[str, ...] = ("accuracy",)
    other_names: tuple[str, ...] = ()
    has_one_order: bool = True

    def label_named(self, name: str) -> str | None:
        """Returns the label with a name in this table, in any case, or with a number; None if there is none."""
        if name in self.labels:
            return name
        numbers = [[str(number), f"{number}.0", f"label_{number}"] for number in range(len(self.labels))]
        for label, other, number in itertools.zip_longest(self.labels, self.other_names, numbers):
            if name.strip().lower() in (label, other, *(number if self.has_one_order else ())):
                return label
        return None


def _indexed_task(
    name: str,
    text_a: str,
    text_b: str | None,
    labels: tuple[str, ...],
    label: str = "label",
    id: str | None = "index",
    **options: Any,
) -> GlueTask:
    """Returns a task whose files have the same named columns; the test file has no label."""
    files = {split: GlueFile(f"{split}.tsv", text_a, text_b, label, id) for split in ("train", "dev")}
    files["test"] = GlueFile("test.tsv", text_a, text_b, None, id or "index")
    tfds = TfdsSource(f"glue/{name.replace('-', '')}", text_a, text_b)
    return GlueTask(name, files, labels, tfds, **options)


def _mnli_task(name: str, genres: str) -> GlueTask:
    files = {
        "train": GlueFile("train.tsv", 8, 9, label=-1, id=0),
        "dev": GlueFile(f"dev_{genres}.tsv", 8, 9, label=-1, id=0),
        "test": GlueFile(f"test_{genres}.tsv", 8, 9, id=0),
    }
    splits = (("train", "train"), ("dev", f"validation_{genres}"), ("test", f"test_{genres}"))
    tfds = TfdsSource("glue/mnli", "premise", "hypothesis", splits)
    return GlueTask(name, files, _THREE_WAY, tfds, has_one_order=False)


def _swag_file(name: str, label: str | None = None) -> GlueFile:
    endings = tuple(f"ending{number}" for number in range(4))
    return GlueFile(name, "sent1", "sent2", label=label, choices=endings, is_csv=True)


_BINARY = ("0", "1")
_THREE_WAY = ("contradiction", "entailment", "neutral")
_TWO_WAY = ("entailment", "not_entailment")

_TASKS = (
    GlueTask(
        name="cola",
        files={
            "train": GlueFile("train.tsv", 3, label=1, has_header=False),
            "dev": GlueFile("dev.tsv", 3, label=1, has_header=False),
            "test": GlueFile("test.tsv", 1, id=0),
        },
        labels=_BINARY,
        other_names=("unacceptable", "acceptable"),
        tfds=TfdsSource("glue/cola", "sentence"),
        metrics=("matthews", "accuracy"),
    ),
    _indexed_task("sst-2", "sentence", None, _BINARY, id=None, other_names=("negative", "positive")),
    GlueTask(
        name="mrpc",
        files={
            "train": GlueFile("train.tsv", 3, 4, label=0),
            "dev": GlueFile("dev.tsv", 3, 4, label=0),
            "test": GlueFile("test.tsv", 3, 4, id=0),
        },
        labels=_BINARY,
        other_names=("not_equivalent", "equivalent"),
        tfds=TfdsSource("glue/mrpc", "sentence1", "sentence2"),
        metrics=("f1", "accuracy"),
    ),
    _indexed_task("sts-b", "sentence1", "sentence2", (), "score", kind="regression", metrics=("spearman", "pearson")),
    _indexed_task(
        *("qqp", "question1", "question2", _BINARY, "is_duplicate", "id"),
        metrics=("f1", "accuracy"),
        other_names=("not_duplicate", "duplicate"),
    ),
    _mnli_task("mnli", "matched"),
    _mnli_task("mnli-mm", "mismatched"),
    _indexed_task("qnli", "question", "sentence", _TWO_WAY),
    _indexed_task("rte", "sentence1", "sentence2", _TWO_WAY),
    _indexed_task("wnli", "sentence1", "sentence2", _BINARY, other_names=("not_entailment", "entailment")),
    GlueTask(
        name="ax",
        files={"test": GlueFile("diagnostic.tsv", "sentence1", "sentence2", id="index")},
        labels=_THREE_WAY,
        has_one_order=False,
        tfds=TfdsSource("glue/ax", "premise", "hypothesis", (("test", "test"),)),
        metrics=("matthews", "accuracy"),
    ),
    GlueTask(
        name="xnli",
        files={
            "train": GlueFile("multinli/multinli.train.{language}.tsv", 0, 1, label=2),
            "dev": GlueFile("xnli.dev.tsv", 6, 7, label=1, language=0),
            "test": GlueFile("xnli.test.tsv", 6, 7, label=1, language=0),
        },
        labels=_THREE_WAY,
        other_names=("contradictory",),
        has_one_order=False,
    ),
    GlueTask(
        name="swag",
        files={
            "train": _swag_file("train.csv", "label"),
            "dev": _swag_file("val.csv", "label"),
            "test": _swag_file("test.csv"),
        },
        labels=("0", "1", "2", "3"),
        kind="multiple_choice",
    ),
)
_ALIASES = {"sst2": "sst-2", "stsb": "sts-b", "diagnostic": "ax", "mnli-m": "mnli"}

GLUE_TASKS: dict[str, GlueTask] = {task.name: task for task in _TASKS}
GLUE_TASKS |= {alias: GLUE_TASKS[name] for alias, name in _ALIASES.items()}


def find_task(name: str) -> GlueTask:
    """Returns the task with a name, in upper or lower case; raises ValueError if it does not exist."""
    task = GLUE_TASKS.get(name.lower())
    if task is None:
        raise Mistake(
            '"{}" is not a task; the tasks are {} (for other data, give your own files)',
            name,
            ", ".join(task.name for task in _TASKS),
        )
    return task


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
    if label is not None and task.kind == "regression":
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
