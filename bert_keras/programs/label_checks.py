"""`check_labels`, and the run of check_labels.py."""

import dataclasses
import functools
import logging
import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np
import rich.console

from bert_keras.cli.flags import require
from bert_keras.data_prep.text.same_text import group_numbers
from bert_keras.engine.evaluation_pass import Inference, last
from bert_keras.engine.report import NO_CALLBACKS, Callbacks, Result
from bert_keras.evaluation.tables import tab_separated
from bert_keras.mistakes import Message, Mistake, Setting
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.prediction.precision import take_precision
from bert_keras.programs.calls import call
from bert_keras.programs.classifier import to_file as to_file
from bert_keras.programs.classifier import train_classifier
from bert_keras.programs.few_shot import train_few_shot
from bert_keras.settings.devices import check_backend
from bert_keras.storage import paths, writing
from bert_keras.storage.checks import check_can_create
from bert_keras.storage.json_rows import name_of
from bert_keras.tasks.classification.data import read_own
from bert_keras.tasks.classification.label_warnings import combined_label
from bert_keras.tasks.classification.settings import LabelCheckSettings
from bert_keras.tasks.classification.suspects import (
    ConfusedClasses,
    Duplicate,
    Leak,
    NextLabel,
    Suspect,
    choose_next,
    find_confused_classes,
    find_duplicates,
    find_leaks,
    find_suspects,
)
from bert_keras.tasks.few_shot.run import few_shot_config, open_encoder, regression
from bert_keras.tasks.finetuning.opening import num_steps_of, with_length
from bert_keras.tasks.tables.encoding import make_features
from bert_keras.tasks.tables.examples import Example, learn_labels
from bert_keras.tasks.tables.header import are_measured

log = logging.getLogger("bert_keras")

# The rows to train on and the held-out ones.
Fold = tuple[np.ndarray, np.ndarray]
# The tables, by the attributes of `LabelCheck`.
TABLES = ("suspects", "confused_classes", "duplicates", "leaks", "next_labels")
_FINE_TUNING_SETTINGS = ("learning_rate", "num_train_epochs", "train_batch_size")
_ENCODER_SETTINGS = ("init_checkpoint", "bert_config_file", "vocab_file", "do_lower_case", "strip_accents", "seed")


@dataclasses.dataclass(frozen=True)
class LabelCheck:
    """The result of `check_labels`; each list is also a table in `folder`, such as suspects.tsv.

    Attributes:
        folder: the output folder.
        accuracy: the share of texts that get their own label from models of the other texts.
        suspects: texts that get another label than their own, the clearest contradiction first.
        confused_classes: pairs of classes by how often one gets the other.
        duplicates: equal texts with different labels; case, blanks and Unicode forms do not count.
        leaks: texts of `eval_data` that the training data also have, or nearly.
        next_labels: texts of `unlabeled_data` in the order to label them.
    """

    folder: str
    accuracy: float
    suspects: list[Suspect]
    confused_classes: list[ConfusedClasses]
    duplicates: list[Duplicate]
    leaks: list[Leak]
    next_labels: list[NextLabel]


def check_labels(
    train_data: Any = None, eval_data: Any = None, unlabeled_data: Any = None, **settings: Any
) -> LabelCheck:
    """Finds labels that may be wrong, and the texts that most need one, as check_labels.py does.

    Each text gets its probabilities from a model that was not trained on it: a logistic regression on the vectors of
    an encoder, with `contrastive_epochs=10` a few-shot model, or with `fine_tune=True` a fine-tuned one. The same call
    continues one that was interrupted.

    Args:
        train_data: texts with one label each, in the forms of `train_classifier`.
        eval_data: texts to evaluate on, in these forms, to find those that `train_data` has, too.
        unlabeled_data: texts without labels, to find those that help most with a label.
        settings: the other flags of check_labels.py, by name, with the same defaults; and `verbose`.

    Raises:
        TypeError: a setting does not exist, or data have an unusable type.
        ValueError, OSError: as the program reports them.
    """
    data = {"train_file": train_data, "eval_file": eval_data, "unlabeled_file": unlabeled_data}
    return call("check_labels", settings, **data).predictions


@dataclasses.dataclass(frozen=True)
class _Check:
    """A check with its settings, its labelled examples and its encoder."""

    settings: LabelCheckSettings
    examples: list[Example]
    evaluated: list[Example]
    unlabeled: list[Example]
    labels: tuple[str, ...]
    files: ModelFolder
    console: rich.console.Console

    def execute(self) -> Result:
        """Returns the `LabelCheck` as the predictions of the result, and writes the tables."""
        settings = self.settings
        evaluated, unlabeled = self.evaluated, self.unlabeled
        encoder = open_encoder(self.files, settings.eval_batch_size, take_precision(settings.precision))
        encode = functools.partial(self._encoded, encoder)
        vectors = encode(self.examples, "train_file")
        ids = np.array([self.labels.index(str(example.label)) for example in self.examples])
        probabilities = self._held_out_probabilities(vectors, ids)
        suspects = find_suspects(self.examples, self.labels, vectors, probabilities)
        leaks, chosen = [], []
        if evaluated:
            leaks = find_leaks(evaluated, encode(evaluated, "eval_file"), self.examples, vectors)
        if unlabeled:
            others = encode(unlabeled, "unlabeled_file")
            guesses = regression().fit(vectors, ids).predict_proba(others)
            chosen = choose_next(unlabeled, self.labels, others, guesses, settings.num_next_labels)
        found = LabelCheck(
            str(settings.output_dir),
            float(np.mean(probabilities.argmax(-1) == ids)),
            suspects,
            find_confused_classes(self.examples, suspects),
            find_duplicates(self.examples),
            leaks,
            chosen,
        )
        self._write(found)
        return Result(predictions=found, is_complete=True)

    def _encoded(self, encoder: Inference, examples: Sequence[Example], setting: str) -> np.ndarray:
        """Returns the vectors, float32 [N, H]."""
        unlabelled = [dataclasses.replace(example, label=None) for example in examples]
        name = paths.name(name_of(getattr(self.settings, setting)))
        length = self.settings.max_seq_length
        features = make_features(unlabelled, self.files.tokenizer, length, None, name)
        log.info("encoding the texts of %s (%s)", name, f"{len(examples):,}")
        return last(encoder.outputs(features))["vectors"]

    def _held_out_probabilities(self, vectors: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Returns the probabilities of each text from a model that was not trained on it, float [N, C]."""
        settings = self.settings
        split = split_by_text(self.examples, ids, settings.folds, settings.seed)
        if not split:
            raise Mistake(
                "{folds}={} cannot be made: equal texts stay together, so a fold would have no text, or all texts of a "
                "label; give less, or add texts",
                settings.folds,
            )
        if not (settings.fine_tune or settings.contrastive_epochs):
            return held_out_probabilities(vectors, ids, split)
        probabilities = np.zeros((len(ids), len(self.labels)))
        for number, (train, held_out) in enumerate(split, 1):
            log.info("fold %d of %d", number, settings.folds)
            probabilities[held_out] = self._trained(number, train, held_out)
        return probabilities

    def _trained(self, number: int, train: Iterable[int], held_out: Iterable[int]) -> np.ndarray:
        """Returns the probabilities of a fold from a model that is trained on the others."""
        settings = self.settings
        rows = [(*self.examples[row].texts, str(self.examples[row].label)) for row in train]
        held_out_texts = [self.examples[row].texts for row in held_out]
        train_model, training_settings = train_few_shot, ("contrastive_epochs",)
        if settings.fine_tune:
            train_model, training_settings = train_classifier, _FINE_TUNING_SETTINGS
        answers = train_model(
            rows,
            predict_data=held_out_texts,
            output_dir=paths.join(settings.output_dir or "", "folds", str(number)),
            predict_batch_size=settings.eval_batch_size,
            verbose=not self.console.quiet,
            **{name: getattr(settings, name) for name in (*_ENCODER_SETTINGS, "max_seq_length", *training_settings)},
        ).predictions
        if answers is None:
            raise KeyboardInterrupt  # a signal ended the training, as the log says
        return np.array([[answer[f"probability of {label}"] for label in self.labels] for answer in answers])

    def _write(self, found: LabelCheck) -> None:
        written = []
        paths.make_dirs(found.folder)
        for name in reversed(TABLES):  # with its first table, the check is complete
            rows = getattr(found, name)
            path = paths.join(found.folder, f"{name}.tsv")
            if rows or name == "suspects":
                write_rows(path, rows)
                written.insert(0, path)
            elif paths.exists(path):
                paths.remove(path)  # of a check that was interrupted
        message = "texts that get another label from models of the other texts: %s of %s (%.1f %% get their own)"
        log.info(message, f"{len(found.suspects):,}", f"{len(self.examples):,}", 100 * found.accuracy)
        num_confident = sum(suspect.is_confident for suspect in found.suspects)
        log.info("suspects that are above the threshold of another class (is_confident): %s", f"{num_confident:,}")
        for pair in found.confused_classes[:3]:
            log.info('"%s" gets "%s": %d of its texts, %.0f %%', *dataclasses.astuple(pair)[:3], 100 * pair.share)
        if found.duplicates:
            log.warning("texts that occur several times, with different labels: %s", f"{found.duplicates[-1].group:,}")
        if found.leaks:
            files = [paths.name(name_of(file or "")) for file in (self.settings.eval_file, self.settings.train_file)]
            log.warning("texts of %s that are also in %s, or nearly: %s", *files, f"{len(found.leaks):,}")
        log.info("Look at %s", ", ".join(written))


def write_rows(path: str, rows: Sequence[Any]) -> None:
    """Writes suspects, or the rows of another table, without columns that are empty everywhere."""
    columns = [field.name for field in dataclasses.fields(rows[0] if rows else Suspect)]
    columns = [column for column in columns if any(getattr(row, column) not in (None, "") for row in rows)]
    cells = [[_format_cell(getattr(row, column)) for column in columns] for row in rows]
    writing.write_text(path, tab_separated(columns, cells))


def held_out_probabilities(vectors: np.ndarray, ids: np.ndarray, split: Iterable[Fold]) -> np.ndarray:
    """Returns the probabilities of each text, float [N, C], from a logistic regression on the vectors of others."""
    probabilities = np.zeros((len(ids), ids.max() + 1))
    for train, held_out in split:
        probabilities[held_out] = regression().fit(vectors[train], ids[train]).predict_proba(vectors[held_out])
    return probabilities


def split_by_text(examples: Sequence[Example], ids: np.ndarray, num_folds: int, seed: int) -> list[Fold]:
    """Returns the rows to train on and the rows that are held out, for each fold; equal texts are in one fold.

    The list is empty if there are too few different texts: a fold would have no text, or all texts of a label.
    """
    from sklearn.model_selection import StratifiedGroupKFold  # it loads only where it is needed

    texts = group_numbers(example.key for example in examples)
    folds = StratifiedGroupKFold(num_folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # `_check_counts` has the real limit
        split = list(folds.split(texts, ids, texts))
    classes = set(ids.tolist())
    is_possible = all(len(held_out) and set(ids[train].tolist()) == classes for train, held_out in split)
    return split if is_possible else []


def open_run(
    settings: LabelCheckSettings, console: rich.console.Console, callbacks: Callbacks = NO_CALLBACKS
) -> _Check:
    """Reads the labelled texts, and opens the encoder of check_labels.py."""
    if callbacks != NO_CALLBACKS:
        raise TypeError("check_labels() calls no functions; leave out on_step, on_evaluation and on_save")
    check_backend(keras.backend.backend())
    require(settings, ("train_file", "init_checkpoint", "output_dir"))
    for names, needed in ((_FINE_TUNING_SETTINGS, "fine_tune"), (("num_next_labels",), "unlabeled_file")):
        if not getattr(settings, needed) and (wrong := [Setting(name) for name in names if name in settings.given]):
            raise Mistake("{} is for {}; give both, or leave it out", wrong[0], Setting(needed))
    if settings.fine_tune and settings.contrastive_epochs:
        raise Mistake("{fine_tune} and {contrastive_epochs} train the folds in different ways; give one of them")
    output_dir = str(settings.output_dir)
    if paths.exists(paths.join(output_dir, f"{TABLES[0]}.tsv")):
        raise Mistake("{output_dir}={} has the {}.tsv of an earlier check; give another folder", output_dir, TABLES[0])
    casing: dict[str, Any] = {"do_lower_case": settings.do_lower_case, "strip_accents": settings.strip_accents}
    files = ModelFolder(settings.init_checkpoint, settings.vocab_file, settings.bert_config_file, **casing).check()
    settings = with_length(settings, files)
    examples, evaluated, unlabeled = (_read(settings, flag) for flag in ("train_file", "eval_file", "unlabeled_file"))
    labels = learn_labels(examples)
    _warn_of_other_kinds(labels)
    _check_counts(settings, examples, labels)
    if not paths.is_remote(output_dir):
        check_can_create(output_dir, Message("{output_dir}={}", output_dir))
    return _Check(settings, examples, evaluated, unlabeled, labels, few_shot_config(files), console)


def _read(settings: LabelCheckSettings, flag: str) -> list[Example]:
    """Returns the examples of a file, with ids only from {id_column}; [] without the file."""
    examples = read_own(settings, flag) if getattr(settings, flag) else []
    return examples if settings.id_column else [dataclasses.replace(example, id="") for example in examples]


def _warn_of_other_kinds(labels: Sequence[str]) -> None:
    """Warns of labels that are probably several ones in a cell, or numbers on a scale."""
    combined, _ = combined_label(labels)
    if combined or are_measured(labels):
        message = 'the label "%s" counts as a class: several labels of a text, or numbers on a scale, cannot be checked'
        log.warning(message, combined or labels[0])


def _check_counts(settings: LabelCheckSettings, examples: Sequence[Example], labels: Sequence[str]) -> None:
    """Checks that the folds can be made, and that each has all labels to train on."""
    by_label = {label: [example for example in examples if example.label == label] for label in labels}
    num_texts = {label: len({*group_numbers(example.key for example in by_label[label])}) for label in labels}
    if rare := next((by_label[label] for label in labels if num_texts[label] < 2), None):
        raise Mistake(
            '{}: the label "{}" has one text{}, but a check needs two of each label; add one, or take it out',
            rare[0].source,
            rare[0].label,
            f", {len(rare)} times" if len(rare) > 1 else "",
        )
    if settings.folds > (most := max(num_texts.values())):
        raise Mistake("{folds}={}, but no label has more than {} texts; give {} or less", settings.folds, most, most)
    if settings.fine_tune:
        num_train = len(examples) - math.ceil(len(examples) / settings.folds)
        num_steps_of(num_train, settings.train_batch_size, settings.num_train_epochs)


def _format_cell(value: object) -> object:
    if isinstance(value, tuple):
        return "; ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else value
