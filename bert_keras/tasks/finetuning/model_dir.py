"""The folder `model` in a run folder: a complete model to use; and the same files for the run's own checkpoints.

bert_config.json, vocab.txt, tokenizer_config.json   as next to any checkpoint
task.json                                            the task: its kind, labels, lengths and metrics
model.ckpt-<step>.*, checkpoint                      the weights only, a third of a training checkpoint
adapter.safetensors                                  after a run with LoRA: the weights that it trained

The file model.sha256 in the run folder holds the digest of these weights. It detects a model that was copied from
another run, whose metrics are different.
"""

import logging
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from bert_keras.mistakes import Message, Mistake
from bert_keras.model_folder.folder import TASK_FILE, ModelFolder
from bert_keras.modeling import POOLER_PATTERNS, load_weights, open_checkpoint, weights_by_name
from bert_keras.modeling.checkpoints.files import ADAPTER_FILE
from bert_keras.modeling.checkpoints.loading import entries_of_other_heads, load_all_weights
from bert_keras.modeling.lora import adapter_bytes, has_lora, merged_weights
from bert_keras.runs.run_dir import MODEL_DIR, RunDir
from bert_keras.settings.groups import FineTuningSettings
from bert_keras.storage import paths
from bert_keras.storage.json_files import readable_json
from bert_keras.tasks.finetuning.task import Task
from bert_keras.tasks.tables.settings import given_columns

log = logging.getLogger("bert_keras")

_DIGEST_FILE = "model.sha256"


def write_model(
    run_dir: RunDir,
    task: Task,
    settings: FineTuningSettings,
    files: ModelFolder,
    model: keras.Model,
    step: int,
    metrics: Mapping[str, float],
) -> None:
    """Writes the model to use, and replaces an earlier one. `metrics` are those of this step's evaluation, or empty."""
    model_dir = run_dir.within(MODEL_DIR)
    model_dir.create()
    _write_surroundings(model_dir, files)
    if has_lora(model):
        base = paths.name(paths.parent(files.need_checkpoint().prefix))
        model_dir.write_text(ADAPTER_FILE, adapter_bytes(model, base))
    model_dir.save(step, merged_weights(model), num_kept=1)
    _write_task(model_dir, task, settings, step=step, metrics=metrics)


def describe_run(run_dir: RunDir, task: Task, settings: FineTuningSettings, files: ModelFolder) -> None:
    """Writes what the checkpoints of a run need to be used, so that a run that is interrupted is a model, too."""
    _write_surroundings(run_dir, files)
    _write_task(run_dir, task, settings)


def _write_surroundings(folder: RunDir, files: ModelFolder) -> None:
    for name, content in files.text_files().items():
        folder.write_text(name, content)


def _write_task(folder: RunDir, task: Task, settings: FineTuningSettings, **results: Any) -> None:
    description = {"program": task.program, **task.describe(), **given_columns(settings), **results}
    folder.write_text(TASK_FILE, readable_json(description))


def has_model(run_dir: RunDir) -> bool:
    """Returns whether the run folder has a complete model."""
    model_dir = run_dir.within(MODEL_DIR)
    return paths.is_file(model_dir.file(TASK_FILE)) and bool(model_dir.latest_step())


def is_calibrated(run_dir: RunDir) -> bool:
    """Returns whether the weights of the run's model are divided by a temperature."""
    return "temperature" in (ModelFolder(run_dir.file(MODEL_DIR)).task or {})


def scale_head(model: keras.Model, temperature: np.ndarray) -> None:
    """Divides the weights of a classifier's head, and so its logits, by a temperature for each class, float [C]."""
    weights = weights_by_name(model)
    for name, divisor in (("output_weights", temperature[:, None]), ("output_bias", temperature)):
        weights[name].assign(keras.ops.convert_to_numpy(weights[name]) / divisor)


def note_model(run_dir: RunDir) -> None:
    """Stores the digest of the run's model in the run folder."""
    if run_dir.is_writable:
        run_dir.write_text(_DIGEST_FILE, f"{ModelFolder(run_dir.file(MODEL_DIR)).digest}\n")


def is_model_of(run_folder: str, folder: str) -> bool:
    """Returns whether `folder` holds the model that the run in `run_folder` wrote last."""
    file = paths.join(run_folder, _DIGEST_FILE)
    return paths.is_file(file) and paths.read_text(file).strip() == ModelFolder(folder).digest


def load_model(model: keras.Model, run_dir: RunDir, files: ModelFolder) -> int:
    """Loads the weights to use, and returns their step; 0 for `files`.

    They are those of the run's model, else of its newest checkpoint, else of `files`, the model to start from.
    """
    used = run_dir.in_use()
    prefix = used and used.latest_checkpoint()
    checkpoint = open_checkpoint(prefix) if prefix else files.need_checkpoint()
    log.info("%s", load_all_weights(model, checkpoint))
    return used.latest_step() if used else 0


def load_start(model: keras.Model, files: ModelFolder, new_head: bool, labels: list[str] | None = None) -> None:
    """Loads the weights that training starts from: the encoder, and the head if the checkpoint has it.

    Without a checkpoint all weights stay random; with `new_head` those of the head. `files` is the model to start from,
    and `labels` are those of the new head.
    """
    checkpoint = files.checkpoint
    if checkpoint is None:
        log.warning(Message("no {init_checkpoint}: training starts from random numbers, without any pre-training"))
        return
    weights = weights_by_name(model)
    head = [name for name in weights if not name.startswith("bert/")]
    if new_head:
        weights = {name: weight for name, weight in weights.items() if name not in head}
    has_head = not new_head and set(head) & set(checkpoint.names)
    if has_head and labels and (held_labels := files.labels) and labels != held_labels:
        raise Mistake(
            "{} has a head for the labels {}, and {} are needed; give {new_head} to start it from random numbers",
            checkpoint.prefix,
            held_labels,
            labels,
        )
    for name in (name for name in head if name in weights and name in checkpoint.names):
        held = checkpoint.shape(name)
        if held != tuple(weights[name].shape):
            raise Mistake(
                "{} has a head of another shape: {} is {}, and {} is needed; give {new_head} to start it "
                "from random numbers",
                checkpoint.prefix,
                name,
                f"{list(held)}",
                f"{list(weights[name].shape)}",
            )
    ignored = (*head, *entries_of_other_heads(checkpoint, weights))
    report = load_weights(weights, checkpoint, new_allowed=(*head, *POOLER_PATTERNS), ignored=ignored)
    log.info("%s%s", report, f"; initialized at random: {', '.join(head)}" if new_head else "")
