"""Reads the examples of a classification run: a known task, your own files, or TensorFlow Datasets."""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bert_keras.mistakes import Mistake, Setting
from bert_keras.tasks.benchmarks.glue import GlueTask, find_task, task_of_tfds
from bert_keras.tasks.benchmarks.glue_files import read_glue
from bert_keras.tasks.benchmarks.tfds import read_tfds
from bert_keras.tasks.classification.held_out import hold_out, hold_out_for_calibration
from bert_keras.tasks.classification.kinds import source_of
from bert_keras.tasks.classification.label_warnings import listed, log_labels, warn_of_contradictions
from bert_keras.tasks.classification.labels import LABELS
from bert_keras.tasks.classification.settings import ClassifierSettings, LabelCheckSettings
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.tables.columns import Columns
from bert_keras.tasks.tables.encoding import check_examples
from bert_keras.tasks.tables.examples import Example, in_order, learn_scale, naming_teacher
from bert_keras.tasks.tables.held_out import check_same_rest
from bert_keras.tasks.tables.tables import Table
from bert_keras.tasks.tables.user_data import read_own_file

log = logging.getLogger("bert_keras")

# Returns the examples of the file that a setting names.
Reader = Callable[[ClassifierSettings, str], list[Example]]


@dataclasses.dataclass(frozen=True)
class ClassificationData:
    """The examples, labels and metrics of a run.

    Attributes:
        kind: the kind of the labels, with their names.
        metrics: their names; the first one compares checkpoints, settings and seeds.
        glue: the known task that the data are of; None for other data.
        train, dev, test: None for splits that the run does not use.
        unlabeled: texts to train on, whose labels mean nothing; None without such a file.
        calibration: labelled examples that are held out to find the temperature of --calibrate; None without it.
    """

    kind: SingleLabel
    metrics: tuple[str, ...]
    glue: GlueTask | None
    train: list[Example] | None
    dev: list[Example] | None
    test: list[Example] | None
    unlabeled: list[Example] | None = None
    calibration: list[Example] | None = None

    @property
    def has_labels(self) -> bool:
        """Whether the examples to train on have labels, if there are any."""
        return self.train is not None or self.unlabeled is None

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels in the order of their ids; () for numbers."""
        return self.kind.names

    def check_lengths(self, settings: ClassifierSettings) -> None:
        """Refuses lengths and numbers of choices with which no features can be made."""
        for examples in (self.train, self.dev, self.test, self.unlabeled, self.calibration):
            check_examples(examples or (), settings.max_seq_length, settings.doc_stride)


def read_classification_data(
    settings: ClassifierSettings,
    stored: dict[str, Any] | None,
    held: Sequence[str] | None = None,
    read: Reader | None = None,
) -> ClassificationData:
    """Reads and checks all examples of a run, see `tasks.classification.task.Classification`.

    `held` are the labels of the head to start from; the labels of a file have their order. `read` reads one of the
    user's files; None: `read_own`.

    Raises:
        FileNotFoundError: a file does not exist.
        ValueError: flags contradict each other, or an example is not valid (the message names file and line).
    """
    source = source_of(settings)
    unlabeled_file = settings.unlabeled_file if settings.do_train else None
    if unlabeled_file and source == "your own files" and not settings.train_file:
        settings = dataclasses.replace(settings, do_train=False)  # there are no labels to learn
    if source == "task_name":
        data = _read_known_task(settings)
    elif source == "tfds":
        data = _read_tfds(settings, stored, held)
    else:
        data = _read_own_files(settings, stored, held, read or read_own)
    if stored and tuple(stored["labels"]) != data.labels:
        raise Mistake(
            "the model has the labels {}, but the data have {}; give data of the task that the model was trained for",
            listed(stored["labels"]),
            listed(data.labels),
        )
    if data.kind.has_classes:
        warn_of_contradictions([*(data.train or ()), *(data.calibration or ()), *(data.dev or ())])
    if unlabeled_file:
        # With any label: its weight in the loss is 0.
        label, unlabeled = data.kind.any_label(), (read or read_own)(settings, "unlabeled_file")
        log.info("texts that only the teacher labels: %s", f"{len(unlabeled):,}")
        unlabeled = [dataclasses.replace(example, label=label) for example in unlabeled]
        data = dataclasses.replace(data, unlabeled=unlabeled)
    _check_pairs(data, stored)
    return data


def digest_of(examples: Iterable[Example]) -> str:
    """Returns the SHA-256 of the examples' ids, texts and labels."""
    digest = hashlib.sha256()
    for example in examples:
        values = [example.id, example.text_a, example.text_b, example.choices, example.label]
        digest.update(json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def facts_of(labels: Sequence[str], train: Sequence[Example]) -> dict[str, Any]:
    """Returns JSON values that identify the training data."""
    return {"labels": list(labels), "training_examples": len(train), "their_sha256": digest_of(train)[:16]}


def _read_known_task(settings: ClassifierSettings) -> ClassificationData:
    task = find_task(settings.task_name or "")
    kind = LABELS[task.kind](task.labels)

    def read(split: str, has_labels: bool) -> list[Example]:
        examples = read_glue(task, settings.data_dir or "", split, settings.xnli_language, settings.skip_bad_rows)
        if has_labels:
            kind.check(examples)
        return examples

    return _data(settings, kind, task, *_wanted(settings, read, ("train", "dev", "test")))


def _read_own_files(
    settings: ClassifierSettings, stored: dict[str, Any] | None, held: Sequence[str] | None, read: Reader
) -> ClassificationData:
    check_files(settings)
    train = labels = None
    if settings.do_train or (settings.do_eval and settings.holds_out):
        train = read(settings, "train_file")
        labels = tuple(stored["labels"] if stored else in_order(_learn_labels(settings, train), held))
    dev = read(settings, "eval_file") if settings.do_eval and settings.eval_file else None
    test = read(settings, "predict_file") if settings.do_predict else None
    if settings.holds_out and train is not None:
        train, dev = hold_out(train, settings.eval_share, settings.train_file or "", settings.kind)
    if not settings.do_train:
        if train is not None and labels is not None:
            rest = hold_out_for_calibration(settings, train, settings.kind)[0]
            check_same_rest(settings, {"data": facts_of(labels, rest)})
        train, labels = None, None
    return _with_labels(settings, labels, stored, train, dev if settings.do_eval else None, test)


def check_files(settings: ClassifierSettings) -> None:
    """Checks that the settings name a file of the user for each action."""
    for what, flag in (("do_train", "train_file"), ("do_predict", "predict_file")):
        has_other = what == "do_train" and settings.unlabeled_file
        if getattr(settings, what) and not getattr(settings, flag) and not has_other:
            other = ", or {teacher} and {unlabeled_file}" if what == "do_train" else ""
            raise Mistake("{} needs {}" + other, Setting(what), Setting(flag))
    if settings.do_eval and not (settings.eval_file or settings.holds_out):
        raise Mistake("{do_eval} needs {eval_file}, or {eval_share} of {train_file} to hold out")


def _learn_labels(settings: ClassifierSettings, train: Sequence[Example]) -> tuple[str, ...]:
    """Returns the labels of the examples to train on, also those of columns of 0 and 1 that are 0 everywhere."""
    labels = LABELS[settings.kind].learn(train)
    given = [name.strip() for name in (settings.label_column or "").split(",")]
    if len(given) == 1:
        return labels
    header = Table(settings.train_file or "").names if any(map(str.isdecimal, given)) else ()
    by_number = [header[int(name)] if name.isdecimal() and int(name) < len(header) else name for name in given]
    return next((tuple(sorted(named)) for named in (given, by_number) if {*labels} < {*named}), labels)


def read_own(settings: ClassifierSettings | LabelCheckSettings, flag: str) -> list[Example]:
    """Reads one of the user's files; ignores labels in a file to predict."""
    columns, kind = _columns_of(settings), getattr(settings, "kind", "single_label")
    needs_label = flag not in ("predict_file", "unlabeled_file")
    if not needs_label:
        columns = dataclasses.replace(columns, label=None)
    table = Table(getattr(settings, flag))
    return read_own_file(table, columns, kind, needs_label, settings.skip_bad_rows, settings.has_header)


def _columns_of(settings: ClassifierSettings | LabelCheckSettings) -> Columns:
    columns = (settings.text_column, settings.text_pair_column, settings.label_column, settings.id_column)
    separator, choices = getattr(settings, "label_separator", None), getattr(settings, "choice_columns", ())
    return Columns(*columns, separator, tuple(choices))


def _read_tfds(
    settings: ClassifierSettings, stored: dict[str, Any] | None, held: Sequence[str] | None
) -> ClassificationData:
    name = settings.tfds or ""
    task = task_of_tfds(name)
    splits = ("train", "dev", "test") if task else ("train", settings.tfds_eval_split, settings.tfds_predict_split)
    columns = None if task else _columns_of(settings)
    names = []

    def read(split: str, has_labels: bool) -> list[Example]:
        examples, labels = read_tfds(name, split, columns, settings.data_dir, settings.kind, has_labels)
        names.append(labels)
        return examples

    found = _wanted(settings, read, splits)
    if task is not None:
        return _data(settings, LABELS[task.kind](task.labels), task, *found)
    labels = None if found[0] is None else tuple(in_order(LABELS[settings.kind].learn(found[0]), held))
    return _with_labels(settings, labels, stored or {"labels": names[0]}, *found)


def _wanted(
    settings: ClassifierSettings, read: Callable[[str, bool], list[Example]], splits: Sequence[str]
) -> list[list[Example] | None]:
    """Reads the splits that the run uses, without labels for the one to predict; None for the others."""
    actions = ("do_train", "do_eval", "do_predict")
    return [
        read(split, action != "do_predict") if getattr(settings, action) else None
        for action, split in zip(actions, splits, strict=True)
    ]


def _with_labels(
    settings: ClassifierSettings,
    labels: Sequence[str] | None,
    stored: dict[str, Any] | None,
    *splits: list[Example] | None,
) -> ClassificationData:
    """Returns the data with the labels of the training examples, else those of the model."""
    train, dev, _ = splits
    if labels is None:
        labels = stored["labels"] if stored else None
    if labels is None:
        raise Mistake(
            "the labels are not known: give the {output_dir} of a run that has trained, or train with {do_train}"
        )
    kind = LABELS[settings.kind](labels, (stored or {}).get("label_scale"))
    with naming_teacher(settings):
        for examples in (train, dev):
            kind.check(examples or ())
    if train is not None and not kind.has_classes:
        kind.scale = learn_scale(train)
    data = _data(settings, kind, None, *splits)
    if data.train is not None:
        log_labels(data.train, data.kind)
    return data


def _data(
    settings: ClassifierSettings, kind: SingleLabel, task: GlueTask | None, *splits: list[Example] | None
) -> ClassificationData:
    train, dev, test = splits
    metrics = _metrics(settings.metric, kind, task.metrics if task else kind.metrics)
    calibration = None
    if train is not None:
        train, calibration = hold_out_for_calibration(settings, train, kind.kind)
    return ClassificationData(kind, metrics, task, train, dev, test, calibration=calibration)


def _metrics(chosen: str | None, kind: SingleLabel, names: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of the metrics; the chosen one comes first."""
    names = tuple(dict.fromkeys((*names, kind.metrics[0])))
    if chosen is None:
        return names
    if chosen not in (known := kind.selecting_metrics()):
        raise Mistake("{metric}={} is not one of the metrics of such data: {}", chosen, [*known])
    return tuple(dict.fromkeys((chosen, *names)))


def _check_pairs(data: ClassificationData, stored: dict[str, Any] | None) -> None:
    """Checks that all examples are single texts, or all are pairs, as in the model's training data."""
    is_pair = stored.get("is_pair") if stored else None
    for examples in (data.train, data.dev, data.test, data.unlabeled):
        if examples is None:
            continue
        has_pairs = any(example.text_b is not None for example in examples)
        is_pair = has_pairs if is_pair is None else is_pair
        if has_pairs != is_pair:
            advice = "second text with {text_pair_column}" if is_pair else "only text with {text_column}"
            raise Mistake(
                "{}: {}, but the model is trained on {}; name the " + advice,
                examples[0].source,
                _form(has_pairs),
                _form(is_pair),
            )


def _form(is_pair: bool) -> str:
    return "a pair of texts" if is_pair else "a single text"
