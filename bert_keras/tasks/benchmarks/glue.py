"""The tasks of GLUE, XNLI and SWAG, and the form of their files.

`GLUE_TASKS` has one entry for each task and alias.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from bert_keras.mistakes import Mistake

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
        kind: one of `tasks.tables.settings.KINDS`.
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

    @property
    def has_numbers(self) -> bool:
        """Whether labels are numbers."""
        return self.kind == "regression"

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


def task_of_tfds(name: str) -> GlueTask | None:
    """Returns the task that a dataset of TensorFlow Datasets has; None for other datasets."""
    return next((task for task in _TASKS if task.tfds is not None and task.tfds.name == name), None)


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
