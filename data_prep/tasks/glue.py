"""Describes the tasks of GLUE, XNLI and SWAG: their files, columns, labels and metrics.

`GLUE_TASKS` has one entry for each task and alias.
"""

import dataclasses
from collections.abc import Mapping

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
    """One task.

    Attributes:
        name: in lower case.
        kind: "single_label", "regression", "multi_label" or "multiple_choice".
        files: GlueFile of "train", "dev" and "test"; some tasks lack some of them.
        labels: in the order of their ids; () for regression.
        metrics: names as in `evaluation`; the first one is for choosing between runs.
        tfds: the task in TensorFlow Datasets; None: not available there in this form.
        other_spellings: pairs of another spelling of a label in files, and the label.
    """

    name: str
    kind: str
    files: Mapping[str, GlueFile]
    labels: tuple[str, ...]
    metrics: tuple[str, ...] = ("accuracy",)
    tfds: TfdsSource | None = None
    other_spellings: tuple[tuple[str, str], ...] = ()

    @property
    def metric(self) -> str:
        """The metric for comparing runs; higher is better."""
        return self.metrics[0]

    @property
    def is_pair(self) -> bool:
        """True if examples have a second text."""
        return any(file.text_b is not None for file in self.files.values())


def _files(train=None, dev=None, test=None):
    return {split: file for split, file in (("train", train), ("dev", dev), ("test", test)) if file is not None}


def _indexed(text_a, text_b, label, id="index"):
    """Returns files with the same named columns; the test file has no label."""
    labelled = {name: GlueFile(f"{name}.tsv", text_a, text_b, label, id) for name in ("train", "dev")}
    return _files(**labelled, test=GlueFile("test.tsv", text_a, text_b, None, id if id else "index"))


def _mnli_files(kind):
    return _files(
        train=GlueFile("train.tsv", 8, 9, label=-1, id=0),
        dev=GlueFile(f"dev_{kind}.tsv", 8, 9, label=-1, id=0),
        test=GlueFile(f"test_{kind}.tsv", 8, 9, id=0),
    )


def _mnli_tfds(kind):
    splits = (("train", "train"), ("dev", f"validation_{kind}"), ("test", f"test_{kind}"))
    return TfdsSource("glue/mnli", "premise", "hypothesis", splits)


def _swag_file(name, label=None):
    endings = tuple(f"ending{number}" for number in range(4))
    return GlueFile(name, "sent1", "sent2", label=label, choices=endings, is_csv=True)


_BINARY = ("0", "1")
_THREE_WAY = ("contradiction", "entailment", "neutral")
_TWO_WAY = ("entailment", "not_entailment")

_TASKS = (
    GlueTask(
        name="cola",
        kind="single_label",
        files=_files(
            train=GlueFile("train.tsv", 3, label=1, has_header=False),
            dev=GlueFile("dev.tsv", 3, label=1, has_header=False),
            test=GlueFile("test.tsv", 1, id=0),
        ),
        labels=_BINARY,
        metrics=("matthews", "accuracy"),
        tfds=TfdsSource("glue/cola", "sentence"),
    ),
    GlueTask(
        name="sst-2",
        kind="single_label",
        files=_indexed("sentence", None, "label", id=None),
        labels=_BINARY,
        tfds=TfdsSource("glue/sst2", "sentence"),
    ),
    GlueTask(
        name="mrpc",
        kind="single_label",
        files=_files(
            train=GlueFile("train.tsv", 3, 4, label=0),
            dev=GlueFile("dev.tsv", 3, 4, label=0),
            test=GlueFile("test.tsv", 3, 4, id=0),
        ),
        labels=_BINARY,
        metrics=("f1", "accuracy"),
        tfds=TfdsSource("glue/mrpc", "sentence1", "sentence2"),
    ),
    GlueTask(
        name="sts-b",
        kind="regression",
        files=_indexed("sentence1", "sentence2", "score"),
        labels=(),
        metrics=("spearman", "pearson"),
        tfds=TfdsSource("glue/stsb", "sentence1", "sentence2"),
    ),
    GlueTask(
        name="qqp",
        kind="single_label",
        files=_indexed("question1", "question2", "is_duplicate", id="id"),
        labels=_BINARY,
        metrics=("f1", "accuracy"),
        tfds=TfdsSource("glue/qqp", "question1", "question2"),
    ),
    GlueTask("mnli", "single_label", _mnli_files("matched"), _THREE_WAY, tfds=_mnli_tfds("matched")),
    GlueTask("mnli-mm", "single_label", _mnli_files("mismatched"), _THREE_WAY, tfds=_mnli_tfds("mismatched")),
    GlueTask(
        name="qnli",
        kind="single_label",
        files=_indexed("question", "sentence", "label"),
        labels=_TWO_WAY,
        tfds=TfdsSource("glue/qnli", "question", "sentence"),
    ),
    GlueTask(
        name="rte",
        kind="single_label",
        files=_indexed("sentence1", "sentence2", "label"),
        labels=_TWO_WAY,
        tfds=TfdsSource("glue/rte", "sentence1", "sentence2"),
    ),
    GlueTask(
        name="wnli",
        kind="single_label",
        files=_indexed("sentence1", "sentence2", "label"),
        labels=_BINARY,
        tfds=TfdsSource("glue/wnli", "sentence1", "sentence2"),
    ),
    GlueTask(
        name="ax",
        kind="single_label",
        files=_files(test=GlueFile("diagnostic.tsv", "sentence1", "sentence2", id="index")),
        labels=_THREE_WAY,
        metrics=("matthews", "accuracy"),
        tfds=TfdsSource("glue/ax", "premise", "hypothesis", (("test", "test"),)),
    ),
    GlueTask(
        name="xnli",
        kind="single_label",
        files=_files(
            train=GlueFile("multinli/multinli.train.{language}.tsv", 0, 1, label=2),
            dev=GlueFile("xnli.dev.tsv", 6, 7, label=1, language=0),
            test=GlueFile("xnli.test.tsv", 6, 7, label=1, language=0),
        ),
        labels=_THREE_WAY,
        other_spellings=(("contradictory", "contradiction"),),
    ),
    GlueTask(
        name="swag",
        kind="multiple_choice",
        files=_files(_swag_file("train.csv", "label"), _swag_file("val.csv", "label"), _swag_file("test.csv")),
        labels=("0", "1", "2", "3"),
    ),
)

# Alternative names of tasks.
ALIASES = {"sst2": "sst-2", "stsb": "sts-b", "diagnostic": "ax", "mnli-m": "mnli"}

GLUE_TASKS: dict[str, GlueTask] = {task.name: task for task in _TASKS}
GLUE_TASKS |= {alias: GLUE_TASKS[name] for alias, name in ALIASES.items()}


def find_task(name: str) -> GlueTask:
    """Returns the task with a name, in upper or lower case; raises ValueError if it does not exist."""
    task = GLUE_TASKS.get(name.lower())
    if task is None:
        raise ValueError(
            f'there is no task "{name}"; the tasks are {", ".join(task.name for task in _TASKS)} '
            "(for other data, give your own files)"
        )
    return task
