"""A look at the files of run_classifier.py and check_labels.py."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.mistakes import Mistake
from bert_keras.tasks.classification.data import (
    check_files,
    read_classification_data,
    read_own,
)
from bert_keras.tasks.classification.kinds import class_weights_of, complete_settings, source_of
from bert_keras.tasks.classification.labels import LABELS, SeveralLabels
from bert_keras.tasks.classification.settings import ClassifierSettings, LabelCheckSettings
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.dry_run.findings import Findings
from bert_keras.tasks.dry_run.opening import needed_files, open_settings, stored_task, teacher_of
from bert_keras.tasks.dry_run.pieces import add_pieces, open_tokenizer
from bert_keras.tasks.dry_run.statistics import (
    Texts,
    add_equal_texts,
    add_examples,
    add_shared_texts,
    add_small_classes,
    counted,
    num_words,
    numbers,
    quoted,
    spread,
)
from bert_keras.tasks.tables.examples import Example, learn_labels
from bert_keras.tasks.tables.settings import KINDS


def look(settings: ClassifierSettings, is_whole: bool) -> list[Findings]:
    """Looks at the files of run_classifier.py; not `is_whole`: only for mistakes."""
    together = Findings()
    with together.catching():
        settings = open_settings(settings, "run_classifier")
        stored = stored_task(settings, KINDS.values())
        settings = complete_settings(settings, stored)
        settings.check_effects()
        if not (is_whole or settings.do_train or stored):
            return []  # a model that is not in a folder here decides the kind of the labels
        if settings.tfds:
            if is_whole:
                raise Mistake("{dry_run} looks at files, but {tfds} needs TensorFlow to be read; leave one of them out")
            return []
        if source_of(settings) == "task_name":
            return [*_look_at_known_task(settings, together, is_whole), together]
        return [*look_at_own_files(settings, stored, together, is_whole), together]
    return [together]


def _look_at_known_task(settings: ClassifierSettings, together: Findings, is_whole: bool) -> list[Findings]:
    files = []
    with together.reading(settings.skip_bad_rows):
        data = read_classification_data(settings, None)
        class_weights_of(settings.class_weights, data.kind, data.train)
        if settings.do_train:
            data.check_lengths(settings)
        tokenizer = open_tokenizer(settings, settings.init_checkpoint) if is_whole else None
        for examples in (data.train, data.dev, data.test) if is_whole else ():
            if examples:
                files.append(Findings(examples[0].source.rsplit(" ", 2)[0]))
                _describe(files[-1], examples, dataclasses.replace(settings, kind=data.kind.kind), tokenizer)
    return files


def look_at_own_files(
    settings: ClassifierSettings, stored: dict[str, Any] | None, together: Findings, is_whole: bool
) -> list[Findings]:
    """Looks at the user's files; `stored` is the task.json of the model, which has the labels."""
    files, read = [], {}
    with together.catching():
        check_files(settings)
    for name in _used(settings):
        files.append(Findings(getattr(settings, name), name))
        with files[-1].reading(settings.skip_bad_rows):
            read[name] = read_own(settings, name)
    described = [found for found in files if is_whole and found.setting in read]
    tokenizer = open_tokenizer(settings, settings.init_checkpoint) if is_whole else None
    texts = [_describe(found, read[found.setting], settings, tokenizer) for found in described]
    if not any(found.problems for found in (*files, together)):
        _check_together(settings, stored, read, together, is_whole)
    add_shared_texts(together, texts)
    return files


def _used(settings: ClassifierSettings) -> list[str]:
    """Returns the names of the settings whose files the run reads."""
    names = [*needed_files(settings), *(["unlabeled_file"] if settings.do_train else [])]
    return [name for name in names if getattr(settings, name)]


def _check_together(
    settings: ClassifierSettings,
    stored: dict[str, Any] | None,
    read: dict[str, list[Example]],
    together: Findings,
    is_whole: bool,
) -> None:
    """Checks labels and pairs of all files as the run does, and adds what it would hold out."""
    if stored is None and (not settings.do_train or teacher_of(settings)):
        return  # the labels are those of a model that is not here
    data = None
    with together.reading():
        data = read_classification_data(settings, stored, read=lambda _, name: read[name])
        class_weights_of(settings.class_weights, data.kind, data.train)
        if settings.do_train:  # else a model may decide the lengths
            data.check_lengths(settings)
    if data is None or not data.kind.has_classes or not is_whole:
        return
    if data.dev and settings.eval_share:
        together.add("held out", f"{len(data.dev):,}: {counted(data.kind.counts(data.dev))}")
    if data.train and data.kind.has_one:
        add_small_classes(together, data.kind.counts(data.train), bool(settings.class_weights))


def _describe(
    found: Findings,
    examples: Sequence[Example],
    settings: ClassifierSettings | LabelCheckSettings,
    tokenizer: FullTokenizer | None,
) -> Texts:
    """Adds what a file holds: examples, labels, lengths and equal texts."""
    kind = LABELS[settings.kind if isinstance(settings, ClassifierSettings) else "single_label"]()
    texts = Texts(found.path, [example.placed for example in examples])
    add_examples(found, map(_shown, examples[:3]), len(examples))
    labels = [example.label for example in examples]
    if None not in labels:
        _add_labels(found, examples, kind)
    elif set(labels) != {None}:
        found.add("labels", f"{sum(label is not None for label in labels):,} of {len(labels):,} have one")
    found.add("words", spread([num_words(example.text_a) for example in examples], texts.sources))
    if any(example.text_b for example in examples):
        lengths = [num_words(example.text_b or "") for example in examples]
        found.add("", f"second text: {spread(lengths, texts.sources)}")
    if examples[0].choices:
        lengths = [max(map(num_words, example.choices)) for example in examples]
        found.add("", f"longest choice: {spread(lengths, texts.sources)}")
    add_pieces(found, list(map(_sequence, examples)), tokenizer, settings.max_seq_length)
    add_equal_texts(found, texts, None if None in labels else labels)
    return texts


def _sequence(example: Example) -> tuple[str, ...]:
    """Returns the texts that are in one sequence: of several choices, the longest."""
    return (example.text_a, max(example.choices, key=len)) if example.choices else example.texts


def _shown(example: Example) -> str:
    text = " | ".join(map(quoted, example.texts))
    if example.label is None:
        return text
    label = ", ".join(example.label) if isinstance(example.label, tuple) else example.label
    return f"{label}: {text}"


def _add_labels(found: Findings, examples: Sequence[Example], kind: SingleLabel) -> None:
    labels: list[Any] = [example.label for example in examples]
    if not kind.has_classes:
        found.add("labels", f"numbers from {numbers(labels)}")
        return
    counts = kind.counts(examples)
    found.add("labels", f"{len(counts):,}: {counted(counts)}")
    if isinstance(kind, SeveralLabels):
        several, none = sum(len(names) > 1 for names in labels), labels.count(())
        found.add("", f"{several:,} texts have several labels, {none:,} have none")


def look_at_label_check(settings: LabelCheckSettings, is_whole: bool) -> list[Findings]:
    """Looks at the files of check_labels.py."""
    together, files = Findings(), []
    tokenizer = open_tokenizer(settings, settings.init_checkpoint) if is_whole else None
    texts: list[Texts] = []
    for name in ("train_file", "eval_file", "unlabeled_file"):
        if not getattr(settings, name):
            continue
        files.append(Findings(getattr(settings, name), name))
        examples = None
        with files[-1].reading(settings.skip_bad_rows):
            examples = read_own(settings, name)
            if name == "train_file":
                learn_labels(examples)
        if is_whole and examples:
            texts.append(_describe(files[-1], examples, settings, tokenizer))
    add_shared_texts(together, texts)
    return [*files, together]
