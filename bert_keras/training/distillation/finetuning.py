"""Fine-tuning with a teacher, for every task."""

from bert_keras.training.distillation.loss import DistillationTask
from bert_keras.training.distillation.recipe import recipe_of
from bert_keras.training.finetuning.ner import TokenClassification
from bert_keras.training.finetuning.squad import QuestionAnswering
from bert_keras.training.finetuning.task import Task


class Taught(Task):
    """Adds a teacher to a fine-tuning task. Inherit from it first, and call `learn_from` in the constructor."""

    teacher = None
    has_label_weights = False
    _recipe = None

    def learn_from(self, teacher, settings, files, has_labels=True):
        """Sets the teacher and the losses, and returns the Recipe. Without labels, the task's own loss is left out.

        Args:
            teacher: a `training.distillation.teacher.Teacher`.
            settings: dict of flag values by name.
            files: ModelFiles of the student.
        """
        self.teacher = teacher
        settings = settings if has_labels else settings | {"label_loss_weight": 0.0}
        self._recipe = recipe_of(settings, None if teacher.is_export else teacher.files.config, files.config)
        if teacher.is_export:
            self.cannot_pack = "the teacher is an export, which reads one example in a row"
            if settings["jit"]:
                raise ValueError("--jit cannot compile a teacher that is an export; leave it out, or give its run")
        return self._recipe

    def make_network(self, config):
        task = super().make_network(config)
        if self.teacher is None:
            return task
        return DistillationTask(task, self.teacher.network(super().make_network), self._recipe, self.has_label_weights)


class TaughtTagger(Taught, TokenClassification):
    """The task of run_ner.py with a teacher, whose tags the student learns."""

    free_settings = (*TokenClassification.free_settings, "teacher")

    def __init__(self, settings, files, stored, teacher):
        if settings["tagger"] != "linear" or teacher.settings.get("tagger", "linear") != "linear":
            raise ValueError("--teacher needs --tagger=linear, for the student and for the teacher")
        _check_same("--document_context", settings["document_context"], teacher, "document_context")
        if stored and stored["labels"] != teacher.settings["labels"]:
            raise ValueError(
                f"--teacher={teacher.folder} has the tags {', '.join(teacher.settings['labels'])}, but the student has "
                f"{', '.join(stored['labels'])}; give models with the same tags in the same order"
            )
        super().__init__(settings, files, teacher.settings)
        self.learn_from(teacher, settings, files)
        self.facts = {**self.facts, "teacher_sha256": teacher.digest}


class TaughtAnswers(Taught, QuestionAnswering):
    """The task of run_squad.py with a teacher."""

    free_settings = (*QuestionAnswering.free_settings, "teacher")

    def __init__(self, settings, files, is_threshold_given, is_evaluated, teacher):
        name = "version_2_with_negative"
        _check_same(f"--{name}", settings[name], teacher, name)
        super().__init__(settings, files, is_threshold_given, is_evaluated)
        self.learn_from(teacher, settings, files)
        self.facts = {**self.facts, "teacher_sha256": teacher.digest}


def _check_same(flag, ours, teacher, name):
    theirs = teacher.settings.get(name, False)
    if ours != theirs:
        raise ValueError(
            f"--teacher={teacher.folder} was trained with {flag}={theirs}, but this run has {flag}={ours}; use the "
            "same value for both"
        )
