"""The examples of a classification run: of a known task's files, one's own, or TensorFlow Datasets."""

import dataclasses
import hashlib
import json
import logging
import random

from data_prep.classification import (
    Columns,
    check_labels,
    find_columns,
    learn_labels,
    read_glue,
    read_own_file,
    read_tfds,
)
from data_prep.examples import KINDS
from data_prep.glue import GLUE_TASKS, GlueTask, find_task

log = logging.getLogger("bert_keras")

# Which examples are held out does not depend on the seed of the run: runs of several seeds are compared.
_SPLIT_SEED = 12345
_DEFAULT_METRICS = {
    "single_label": ("accuracy", "f1_macro"),
    "regression": ("spearman", "pearson"),
    "multi_label": ("f1_micro", "f1_macro", "accuracy"),
    "multiple_choice": ("accuracy",),
}


@dataclasses.dataclass(frozen=True)
class ClassificationData:
    """What a run works on.

    Attributes:
        kind: one of `data_prep.examples.KINDS`.
        labels: tuple of str in order of their ids; () for regression.
        metrics: names of the figures, the first of which counts.
        glue: GlueTask, where it is a known task.
        train, dev, test: lists of `data_prep.examples.Example`; None for what is not done.
    """

    kind: str
    labels: tuple
    metrics: tuple
    glue: GlueTask | None
    train: list | None
    dev: list | None
    test: list | None


def read_classification_data(settings, stored_labels):
    """Reads all examples of a run.

    Args:
        settings: dict of flag values by name, see `define_flags` of run_classifier.py.
        stored_labels: tuple of str; those of the model that is only evaluated or asked; None where there is none.

    Returns:
        ClassificationData.

    Raises:
        FileNotFoundError: a file is not there.
        ValueError: the flags do not go together, or an example cannot be used (names file and line).
    """
    sources = [name for name in ("task_name", "tfds", "train_file", "eval_file", "predict_file") if settings[name]]
    if "task_name" in sources and len(sources) > 1 or "tfds" in sources and len(sources) > 1:
        raise ValueError(
            f"--{sources[0]} and --{sources[1]} both say where the data are; give --task_name with --data_dir, or "
            "--tfds, or files of your own"
        )
    if not sources:
        raise ValueError("there are no data: give --task_name and --data_dir, --tfds, or --train_file and the like")
    if settings["task_name"]:
        return _of_known_task(settings)
    read = _read_tfds if settings["tfds"] else _read_own_files
    return read(settings, stored_labels)


def digest_of(examples):
    """Returns the SHA-256 of all that examples say, a str; None of None."""
    if examples is None:
        return None
    digest = hashlib.sha256()
    for example in examples:
        values = [example.id, example.text_a, example.text_b, example.choices, example.label]
        digest.update(json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def _of_known_task(settings):
    task = find_task(settings["task_name"])
    if not settings["data_dir"]:
        raise ValueError(f"--task_name={task.name} needs --data_dir, the folder with its files")

    def read(split):
        return read_glue(task, settings["data_dir"], split, settings["xnli_language"], settings["skip_bad_rows"])

    splits = _wanted(settings, read, ("train", "dev", "test"))
    for examples in splits[:2]:
        check_labels(examples or (), task.labels, task.kind)
    return ClassificationData(task.kind, task.labels, _metrics(settings, task.kind, task.metrics), task, *splits)


def _read_own_files(settings, stored_labels):
    for what, flag in (("do_train", "train_file"), ("do_predict", "predict_file")):
        if settings[what] and not settings[flag]:
            raise ValueError(f"--{what} needs --{flag}")
    if settings["do_eval"] and not settings["eval_file"] and not (settings["do_train"] and settings["eval_share"]):
        raise ValueError("--do_eval needs --eval_file, or --eval_share of --train_file to hold out")
    kind = settings["kind"]

    def read(split):
        path = settings[{"train": "train_file", "dev": "eval_file", "test": "predict_file"}[split]]
        if path is None:
            return None
        needs_label = split != "test"
        given = [settings[f"{name}_column"] for name in ("text", "text_pair", "label", "id")]
        if not needs_label:
            given[2] = None  # what a file to predict says there is not looked at
        columns = Columns(
            given[0], given[1], given[2], given[3], settings["label_separator"], settings["choice_columns"]
        )
        if columns.text is None or (needs_label and columns.label is None):
            found = find_columns(path, *given, needs_label=needs_label)
            columns = dataclasses.replace(found, label_separator=columns.label_separator, choices=columns.choices)
        return read_own_file(path, columns, kind, needs_label, settings["skip_bad_rows"])

    train, dev, test = _wanted(settings, read, ("train", "dev", "test"))
    if train is not None and settings["do_eval"] and dev is None:
        train, dev = _hold_out(train, settings["eval_share"])
    return _with_labels(settings, kind, train, dev, test, stored_labels)


def _read_tfds(settings, stored_labels):
    name = settings["tfds"]
    task = next((task for task in GLUE_TASKS.values() if task.tfds is not None and task.tfds.name == name), None)
    splits = (
        ("train", "dev", "test") if task else ("train", settings["tfds_eval_split"], settings["tfds_predict_split"])
    )
    if settings["choice_columns"]:
        raise ValueError("--choice_columns is for files of your own; multiple choice is not read from --tfds")
    given = (settings["text_column"], settings["text_pair_column"], settings["label_column"], settings["id_column"])
    columns = None if task else Columns(*given, settings["label_separator"], settings["choice_columns"])
    names = []

    def read(split):
        examples, labels = read_tfds(name, split, columns, settings["data_dir"])
        names.append(labels)
        return examples

    train, dev, test = _wanted(settings, read, splits)
    if task is not None:
        return ClassificationData(
            task.kind, task.labels, _metrics(settings, task.kind, task.metrics), task, train, dev, test
        )
    known = tuple(names[0]) if names and names[0] else None
    return _with_labels(settings, settings["kind"], train, dev, test, stored_labels or known)


def _wanted(settings, read, splits):
    """Reads the splits that something is to be done with."""
    wanted = (settings["do_train"], settings["do_eval"], settings["do_predict"])
    return [read(split) if is_wanted else None for is_wanted, split in zip(wanted, splits, strict=True)]


def _with_labels(settings, kind, train, dev, test, stored_labels):
    if kind not in KINDS:
        raise ValueError(f"--kind={kind} is not one of {', '.join(KINDS)}")
    labels = stored_labels if train is None else learn_labels(train, kind)
    if labels is None:
        raise ValueError(
            "the labels are not known: give the --output_dir of a run that has trained, or train with --do_train"
        )
    check_labels(dev or (), labels, kind)
    return ClassificationData(
        kind, tuple(labels), _metrics(settings, kind, _DEFAULT_METRICS[kind]), None, train, dev, test
    )


def _metrics(settings, kind, names):
    """Returns the names of the figures, the one that counts first."""
    names = tuple(dict.fromkeys((*names, *_DEFAULT_METRICS[kind][:1])))
    if settings["metric"] is None:
        return names
    known = {"single_label": ("accuracy", "f1", "f1_macro", "matthews")}.get(kind, _DEFAULT_METRICS[kind])
    if settings["metric"] not in known:
        raise ValueError(f"--metric={settings['metric']} is not one of {', '.join(known)}, as data of this kind have")
    return tuple(dict.fromkeys((settings["metric"], *names)))


def _hold_out(examples, share):
    """Splits examples at random, in the same way every time, into those to train and those to evaluate on."""
    order = list(range(len(examples)))
    random.Random(_SPLIT_SEED).shuffle(order)
    num_held_out = round(share * len(examples))
    if not 0 < num_held_out < len(examples):
        raise ValueError(
            f"--eval_share={share} of {len(examples)} examples leaves {len(examples) - num_held_out} to train and "
            f"{num_held_out} to evaluate on; give another share, or --eval_file"
        )
    held_out = set(order[:num_held_out])
    log.info("%d of the %d examples are held out for evaluation, chosen at random", num_held_out, len(examples))
    train = [example for number, example in enumerate(examples) if number not in held_out]
    return train, [example for number, example in enumerate(examples) if number in held_out]
