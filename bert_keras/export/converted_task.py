"""A fine-tuned model that is converted: its place, class names, task.json and vocabulary."""

import dataclasses
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import TASK_FILE, ModelFolder
from bert_keras.model_folder.preparation import Preparation
from bert_keras.modeling.checkpoints.conversion import Contents
from bert_keras.modeling.checkpoints.files import Checkpoint
from bert_keras.modeling.checkpoints.hugging_face_task import OpenQuestion
from bert_keras.modeling.checkpoints.vocabulary import with_blank_lines
from bert_keras.storage import paths
from bert_keras.storage.json_files import readable_json
from bert_keras.storage.tokenizer.vocabulary import TOKENIZER_CONFIG, VOCAB_FILE, vocabulary_bytes
from bert_keras.tasks import abilities, predictor_of, settings_of

log = logging.getLogger("bert_keras")

_HEADS_WITH_LABELS = {task.head for task in abilities().values() if "labels" in (task.settings or {})}


def open_input(model: ModelFolder, keep_optimizer: bool) -> Checkpoint:
    """Returns the checkpoint of a ModelFolder to convert."""
    if model.is_of_run and keep_optimizer:
        raise Mistake(
            "{keep_optimizer}: {} is a run of fine-tuning, whose model in {} has only weights; leave the "
            "flag out, or give one of the checkpoints {} as {input}, with {bert_config_file}={}",
            model,
            model.folder,
            paths.join(str(model.path), "model.ckpt-<step>"),
            paths.join(model.folder, "bert_config.json"),
        )
    if model.is_of_run:
        log.info("%s is a run of fine-tuning: converting its model in %s", model, model.folder)
    return model.need_checkpoint()


def task_of(model: ModelFolder) -> dict[str, Any] | None:
    """Returns the task of a ModelFolder; None if it has none, or if its files leave open which."""
    try:
        return settings_of(model) if model.task else None
    except OpenQuestion:
        return None


def describe_head(
    contents: Contents, model: ModelFolder, settings: Mapping[str, Any] | None, given: list[str] | None
) -> Contents:
    """Returns Contents with the names of the classes, the `given` ones if any, and the problem type of the head.

    The type says how other libraries make probabilities of a classifier's logits.
    """
    # A head of choices has one score, even if its config names classes. Other heads have no classes.
    if not _HEADS_WITH_LABELS & set(contents.heads):
        if given:
            raise Mistake("{labels}: no head with named classes is written; leave the flag out")
        return contents
    checkpoint = model.need_checkpoint()
    labels, names = given or model.labels, checkpoint.names
    num_rows = checkpoint.shape("output_bias")[0] if "output_bias" in names else None
    if labels and num_rows is not None and len(labels) != num_rows:
        raise Mistake(
            "{} labels were given, but the head has {} rows; give one for each with {labels}", len(labels), num_rows
        )
    problem_type = None
    if "classifier" in contents.heads:
        known = predictor_of(settings["task"]).problem_type(settings) if settings else None
        problem_type = known or checkpoint.problem_type
    return dataclasses.replace(contents, labels=labels, problem_type=problem_type)


def write_task(folder: pathlib.Path, settings: dict[str, Any], contents: Contents, format_: str) -> None:
    """Writes the task.json of a converted model, so that the programs that predict can use it.

    In the format "safetensors", it also writes what sentence-transformers needs.
    """
    labels = contents.labels
    settings = settings | ({"labels": labels} if labels and "labels" in settings else {})
    files = {TASK_FILE: readable_json(settings)}
    if format_ == "safetensors":
        files |= predictor_of(settings["task"]).foreign_files(folder, settings, contents.config)
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def write_vocabulary(
    folder: pathlib.Path, vocab_file: str, tokens: Sequence[str] | None, preparation: Preparation, num_rows: int = 0
) -> None:
    """Writes the vocabulary of a converted model, with the given tokens if not None, and how to prepare text.

    It has a line for each of `num_rows` rows of the table of words, at least.
    """
    content = vocabulary_bytes(vocab_file) if tokens is None else "".join(f"{token}\n" for token in tokens).encode()
    (folder / VOCAB_FILE).write_bytes(with_blank_lines(content, num_rows))
    (folder / TOKENIZER_CONFIG).write_text(preparation.to_text(), encoding="utf-8")
