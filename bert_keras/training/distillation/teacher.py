"""Opens the teacher of a distillation: a fine-tuned model, or an export of one."""

import dataclasses
import hashlib
import logging
import os
import pathlib

from bert_keras.modeling import load_weights, open_checkpoint, weights_by_name, weights_to_load
from bert_keras.modeling.checkpoints.hub import local_model
from bert_keras.prediction.loading.exported import open_exported
from bert_keras.prediction.loading.model_files import ModelFiles, find_task, is_export, open_files, read_settings
from bert_keras.storage import writing
from bert_keras.storage.vocabulary import vocabulary_digest
from bert_keras.training.finetuning.model_dir import digest_of_model

log = logging.getLogger("bert_keras")

_INPUTS = ("input_ids", "input_mask", "segment_ids")


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A fine-tuned model that teaches.

    Attributes:
        folder: path of the model.
        settings: dict, its task.json.
        files: ModelFiles; without a checkpoint for an export.
    """

    folder: str
    settings: dict
    files: ModelFiles

    @property
    def is_export(self):
        """True for an export, which gives outputs but no layers."""
        return self.files.checkpoint is None

    @property
    def digest(self):
        """The SHA-256 of the weights, a str; for an export, of all its files."""
        if not self.is_export:
            return digest_of_model(self.folder)
        files = sorted(path for path in pathlib.Path(self.folder).rglob("*") if path.is_file())
        return hashlib.sha256("".join(map(writing.sha256, files)).encode()).hexdigest()

    def network(self, make_task):
        """Loads the network.

        Args:
            make_task: function of a BertConfig that returns a task of `modeling.tasks` with a model of this kind.

        Returns:
            Function of the features of a batch that returns the outputs: a Keras model, except for an export.
        """
        if self.files.checkpoint is None:
            exported = open_exported(self.folder)
            return lambda features: exported({name: features[name] for name in _INPUTS})
        with weights_to_load():
            model = make_task(self.files.config).model
        log.info("teacher: %s", load_weights(weights_by_name(model), self.files.checkpoint))
        model.trainable = False
        return model


def open_teacher(path, tasks, student, max_seq_length, program="run_classifier"):
    """Opens a teacher, and checks that it reads the same sequences as the student.

    Args:
        path: a run folder, the folder of a model or of an export, or hf://owner/name.
        tasks: names in task.json of the tasks that a teacher may have.
        student: ModelFiles.
        max_seq_length: number of tokens in a sequence of the student.
        program: name of the program that trains such a teacher, for the error message.

    Returns:
        Teacher.

    Raises:
        FileNotFoundError: the path does not hold a fine-tuned model.
        ValueError: the model is for another task, or reads other token ids or shorter sequences.
    """
    path = local_model(path)
    settings = _settings_of_layout(path)
    folder = path
    if settings is None:
        found, settings = read_settings(path)
        folder = os.fspath(found)
    if settings["task"] not in tasks:
        raise ValueError(
            f"--teacher={path} is a model for {settings['task']}; give a model of {program}.py, or an export of it"
        )
    files = open_files(folder)
    ours, theirs = student.tokenizer, files.tokenizer
    if vocabulary_digest(ours.vocab) != vocabulary_digest(theirs.vocab):
        raise ValueError(
            f"--teacher={path} has another vocabulary than {student.vocab_file}, but both networks read the same token "
            "ids; give a student with the teacher's vocabulary"
        )
    casing = [(each.basic_tokenizer.do_lower_case, each.basic_tokenizer.strip_accents) for each in (ours, theirs)]
    if casing[0] != casing[1]:
        raise ValueError(
            f"--teacher={path} has do_lower_case={casing[1][0]} and strip_accents={casing[1][1]}, and the student "
            f"{casing[0][0]} and {casing[0][1]}, but both networks read the same token ids; give a student with the "
            "teacher's settings"
        )
    longest = files.config.max_position_embeddings
    if max_seq_length > longest:
        raise ValueError(
            f"--max_seq_length={max_seq_length} is more than the {longest} positions of --teacher={path}; "
            f"give {longest} or less"
        )
    return Teacher(folder, settings, files)


def _settings_of_layout(path):
    """Returns settings as in a task.json for a classifier of the Hugging Face layout; None for any other model."""
    try:
        find_task(path)
        return None
    except FileNotFoundError:
        if is_export(path):
            raise
        checkpoint = open_checkpoint(path)
    if "classifier" not in checkpoint.heads or not checkpoint.labels:
        return None
    labels = checkpoint.labels
    return {"task": "regression", "labels": []} if len(labels) == 1 else {"task": "classification", "labels": labels}
