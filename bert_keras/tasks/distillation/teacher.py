"""Opens the teacher of a distillation: a fine-tuned model, or an export of one."""

import dataclasses
import logging
from collections.abc import Callable, Collection
from typing import Any

import keras

from bert_keras.mistakes import Mistake, Setting
from bert_keras.model_folder.exported import open_exported
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import BertConfig, weights_to_load
from bert_keras.modeling.checkpoints.loading import load_all_weights
from bert_keras.modeling.losses import Loss
from bert_keras.settings.groups import TeacherSettings
from bert_keras.tasks import settings_of
from bert_keras.tasks.ability import IDS
from bert_keras.tasks.distillation.loss import DistillationLoss
from bert_keras.tasks.distillation.recipe import Recipe, check_same_input, recipe_of

log = logging.getLogger("bert_keras")


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A fine-tuned model that teaches.

    Attributes:
        settings: its task.json.
        recipe: the losses that the student minimises.
    """

    settings: dict[str, Any]
    files: ModelFolder
    recipe: Recipe

    @property
    def cannot_pack(self) -> str:
        """The reason why examples of the student cannot share a row; empty if they can."""
        return "the teacher is an export, which reads one example in a row" if self.files.is_export else ""

    def check_same(self, name: str, settings: TeacherSettings) -> None:
        """Refuses a student with another value of a setting than the teacher."""
        ours, theirs = getattr(settings, name), self.settings.get(name, False)
        if ours != theirs:
            raise Mistake(
                "{teacher}={0} was trained with {1}={2}, but this run has {1}={3}; use the same value for both",
                self.files.folder,
                Setting(name),
                theirs,
                ours,
            )

    def teach(
        self, loss: Loss, make_network: Callable[[BertConfig], Loss], has_labels: bool, has_label_weights: bool
    ) -> DistillationLoss:
        """Adds the losses against the teacher to the student's loss. Call it in the strategy's scope.

        Args:
            loss: a loss of `modeling.losses`, with the student as its model.
            make_network: returns a loss with a model of this kind for a config.
            has_labels: whether an example has a label; without one, the student's own loss is left out.
            has_label_weights: as of `DistillationLoss`.
        """
        recipe = self.recipe if has_labels else dataclasses.replace(self.recipe, label=0.0)
        return DistillationLoss(loss, self._network(make_network), recipe, has_label_weights)

    def _network(self, make_network: Callable[[BertConfig], Loss]) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """Returns a function of the features of a batch that returns the outputs: a Keras model if not an export."""
        if self.files.checkpoint is None:
            exported = open_exported(self.files.folder)
            return lambda features: exported({name: features[name] for name in IDS})
        with weights_to_load():
            model = make_network(self.files.config).model
        log.info("teacher: %s", load_all_weights(model, self.files.need_checkpoint()))
        model.trainable = False
        return model


def open_teacher(
    settings: TeacherSettings, tasks: Collection[str], student: ModelFolder, program: str, meant: str = "regression"
) -> Teacher:
    """Opens the model of --teacher, and checks that it reads the same sequences as the student.

    Args:
        settings: those of the program. `teacher` is a run folder, the folder of a model or of an export, or
            hf://owner/name.
        tasks: names in task.json of the tasks that a teacher may have.
        student: the files of the model to train.
        program: name of the program, which trains such a teacher, for the error message.
        meant: the task of a teacher that another library leaves open.

    Raises:
        FileNotFoundError: the path does not hold a fine-tuned model.
        ValueError: the model is for another task, reads other token ids or shorter sequences, or does not have the
            layers that the losses compare.
    """
    path = settings.teacher or ""
    # A student learns a number as it is.
    files = ModelFolder(path).with_answer(meant, "regression")
    described = settings_of(files)
    if described["task"] not in tasks:
        raise Mistake(
            "{teacher}={} is a model for {}; give a model of {}.py, or an export of it",
            path,
            described["task"],
            program,
        )
    files.check(may_be_export=True)
    ours, theirs = student.tokenizer, files.tokenizer
    check_same_input(path, files.config, theirs.vocab, ours.vocab, student.vocab_file, settings.max_seq_length)
    basic_tokenizers = (ours.basic_tokenizer, theirs.basic_tokenizer)
    casing = [(tokenizer.do_lower_case, tokenizer.strip_accents) for tokenizer in basic_tokenizers]
    if casing[0] != casing[1]:
        raise Mistake(
            "{teacher}={} has do_lower_case={} and strip_accents={}, and the student {} and {}, but both "
            "networks read the same token ids; give a student with the teacher's settings",
            path,
            casing[1][0],
            casing[1][1],
            casing[0][0],
            casing[0][1],
        )
    recipe = recipe_of(settings, None if files.is_export else files.config, student.config)
    if files.is_export and keras.backend.backend() == "jax":
        raise Mistake("{teacher}={} is an export, which needs TensorFlow; give its run for a training on JAX", path)
    if files.is_export and settings.jit is True:
        raise Mistake("{jit} cannot compile a teacher that is an export; leave it out, or give its run")
    return Teacher(described, files, recipe)
