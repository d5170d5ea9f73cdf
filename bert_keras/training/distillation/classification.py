"""Distillation of the tasks of run_classifier.py: a student learns from labels, a teacher, or both."""

import dataclasses
import logging

import numpy as np

from bert_keras.training.distillation.finetuning import Taught
from bert_keras.training.finetuning.classification import Classification
from bert_keras.training.finetuning.classification_data import digest_of, read_unlabeled
from bert_keras.training.finetuning.classification_settings import source_of

log = logging.getLogger("bert_keras")


class Distillation(Taught, Classification):
    """The task of run_distillation.py: that of run_classifier.py with a teacher. The constructor reads all examples.

    Args:
        settings, files, stored: as for `Classification`.
        teacher: a `training.distillation.teacher.Teacher`; None if the run does not train.
    """

    program = "run_distillation"
    has_label_weights = True
    free_settings = (*Classification.free_settings, "teacher", "unlabeled_file")

    def __init__(self, settings, files, stored=None, teacher=None):
        has_labels = source_of(settings) != "your own files" or bool(settings["train_file"])
        stored = teacher.settings if teacher else stored
        super().__init__({**settings, "do_train": settings["do_train"] and has_labels}, files, stored)
        self._unlabeled, self.has_labels = [], has_labels
        if teacher is None:
            return
        recipe = self.learn_from(teacher, settings, files, has_labels)
        if settings["unlabeled_file"]:
            # Any label: its weight in the loss is 0.
            label = {"regression": 0.0, "multi_label": ()}.get(self.data.kind, (*self.data.labels, None)[0])
            texts = read_unlabeled(settings, self.data, stored)
            self._unlabeled = [dataclasses.replace(example, label=label) for example in texts]
            log.info("texts that only the teacher labels: %s", f"{len(texts):,}")
        self.num_train_examples += len(self._unlabeled)
        if not self.num_train_examples:
            raise ValueError("no data to train on; give --train_file, --unlabeled_file or both")
        if not has_labels and not recipe.soft:
            log.warning("without labels and with --soft_loss_weight=0, the head of the student learns nothing")

    @property
    def facts(self):
        """The facts of `Classification`, with those of the texts without labels, and the digest of the teacher."""
        return {
            **super().facts,
            "unlabeled": digest_of(self._unlabeled)[:16] if self._unlabeled else None,
            "teacher_sha256": self.teacher and self.teacher.digest,
        }

    def describe(self):
        described = super().describe()
        if self._unlabeled:  # there may be no other examples
            described["is_pair"] = any(example.text_b for example in self._unlabeled)
        return described

    def prepare(self, folder):
        super().prepare(folder)
        if self.teacher is None:
            return
        parts = [(self.train_features, 1.0), (self._features(folder, "unlabeled", self._unlabeled or None), 0.0)]
        parts = [
            {**features, "label_weights": np.full(len(features["input_ids"]), weight, np.float32)}
            for features, weight in parts
            if features is not None
        ]
        self.train_features = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
