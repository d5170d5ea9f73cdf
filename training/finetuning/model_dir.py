"""The folder `model` of a run: the model to use, complete in itself.

bert_config.json, vocab.txt, tokenizer_config.json   as beside any checkpoint
task.json                                            what it was trained for: kind of task, labels, lengths, figures
model.ckpt-<step>.*, checkpoint                      the weights alone, a third of a checkpoint of training

The file model.sha256 in the folder of the run has the digest of these weights, because a model that was copied there
from another run has other figures.
"""

import json
import logging

from bert_keras.modeling import HEAD_PATTERNS, POOLER_PATTERNS, load_weights, open_checkpoint, weights_by_name
from bert_keras.modeling.config import read_json_object
from bert_keras.prediction.loading.model_files import TASK_FILE, TOKENIZER_FILE, preparation_text
from bert_keras.storage import paths, writing
from bert_keras.training.finetuning.data import EVALUATION_FILE
from bert_keras.training.run_dir import MODEL_DIR

log = logging.getLogger("bert_keras")

_DIGEST_FILE = "model.sha256"
_WEIGHTS = ".data-00000-of-00001"


def write_model(run_dir, work, files, model, step, metrics):
    """Writes the model to use; the one that was there is replaced.

    Args:
        run_dir: a `training.run_dir.RunDir`.
        work: a `training.finetuning.task.FineTuning`.
        files: a `prediction.loading.model_files.ModelFiles`, what training started from.
        model: the network.
        step: int, of its weights.
        metrics: dict of float by name; its evaluation, empty without one.
    """
    model_dir = run_dir.within(MODEL_DIR)
    model_dir.create()
    model_dir.write_text("bert_config.json", files.config.to_json_string())
    model_dir.write_text("vocab.txt", paths.read_bytes(files.vocab_file))
    model_dir.write_text(TOKENIZER_FILE, preparation_text(files.preparation))
    model_dir.save(step, {name: weight.value for name, weight in weights_by_name(model).items()}, num_kept=1)
    description = {"program": work.program, **work.describe(), "step": step, "metrics": metrics}
    model_dir.write_text(TASK_FILE, json.dumps(description, indent=2, ensure_ascii=False) + "\n")


def note_model(run_dir):
    """Notes in the folder of a run which model is its own.

    Args:
        run_dir: a `training.run_dir.RunDir` with a model to use.
    """
    if run_dir.is_writable:
        run_dir.write_text(_DIGEST_FILE, f"{_digest(run_dir.file(MODEL_DIR))}\n")


def is_model_of(run_folder, folder):
    """Returns whether the model in a folder is the one that the run in another folder has written last.

    Runs of earlier versions have no digest; their evaluation must have the step and all figures of the model.

    Args:
        run_folder, folder: str; folders, local or remote.
    """
    file = paths.join(run_folder, _DIGEST_FILE)
    if paths.is_file(file):
        return paths.read_text(file).strip() == _digest(folder)
    files = paths.join(folder, TASK_FILE), paths.join(run_folder, EVALUATION_FILE)
    if not all(map(paths.is_file, files)):
        return False
    of_model, of_run = map(read_json_object, files)
    return bool(of_model.get("metrics")) and all(of_model.get(name) == of_run.get(name) for name in ("step", "metrics"))


def _digest(folder):
    prefix = open_checkpoint(folder).prefix
    return writing.sha256(prefix if paths.is_file(prefix) else f"{prefix}{_WEIGHTS}")


def load_model(model, run_dir, checkpoint):
    """Loads the weights to use: of the run's model, else of its newest checkpoint, else of a checkpoint.

    Args:
        model: the network; the checkpoint must have all of its weights.
        run_dir: a `training.run_dir.RunDir`.
        checkpoint: a `modeling.checkpoints.loading.Checkpoint`, or None.

    Returns:
        int, their step; 0 where it is not of the run.

    Raises:
        ValueError: there are none, or they do not fit.
    """
    model_dir = run_dir.within(MODEL_DIR)
    path = model_dir.latest_checkpoint() or run_dir.latest_checkpoint()
    checkpoint = open_checkpoint(path) if path else checkpoint
    if checkpoint is None:
        raise ValueError(
            f"there is no model: --output_dir={run_dir.path} has none; train one with --do_train, or give "
            "--init_checkpoint"
        )
    log.info("%s", load_weights(weights_by_name(model), checkpoint, ignored=HEAD_PATTERNS))
    return model_dir.latest_step() or run_dir.latest_step()


def load_start(model, checkpoint, new_head, labels=None):
    """Loads what training starts from: the encoder, and the head where the checkpoint has it.

    Args:
        model: the network.
        checkpoint: a `modeling.checkpoints.loading.Checkpoint`; None: training starts from random numbers.
        new_head: whether the head keeps its random numbers in any case.
        labels: list of str, what the head is to tell apart; None where it tells no labels apart.

    Raises:
        ValueError: the checkpoint lacks weights of the encoder, or has others, or a head of another shape or for other
            labels.
    """
    if checkpoint is None:
        log.warning("no --init_checkpoint: training starts from random numbers, without any pre-training")
        return
    weights = weights_by_name(model)
    head = [name for name in weights if not name.startswith("bert/")]
    if new_head:
        weights = {name: weight for name, weight in weights.items() if name not in head}
    held_labels = _labels_beside(checkpoint)
    if not new_head and labels and held_labels and labels != held_labels and set(head) & set(checkpoint.names):
        raise ValueError(
            f"{checkpoint.prefix} has a head for the labels {', '.join(held_labels)}, and {', '.join(labels)} are "
            "needed; give --new_head to start it from random numbers"
        )
    for name in (name for name in head if name in weights and name in checkpoint.names):
        held = checkpoint.shape(name)
        if held != tuple(weights[name].shape):
            raise ValueError(
                f"{checkpoint.prefix} has a head of another shape: {name} is {list(held)}, and "
                f"{list(weights[name].shape)} is needed; give --new_head to start it from random numbers"
            )
    report = load_weights(weights, checkpoint, new_allowed=(*head, *POOLER_PATTERNS), ignored=(*head, *HEAD_PATTERNS))
    log.info("%s%s", report, f"; new as asked for: {', '.join(head)}" if new_head else "")


def _labels_beside(checkpoint):
    """Returns the labels that the task.json beside a checkpoint names; None without one."""
    file = paths.join(paths.parent(checkpoint.prefix), TASK_FILE)
    return read_json_object(file).get("labels") if paths.is_file(file) else None
