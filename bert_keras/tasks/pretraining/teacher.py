"""The teacher of a pre-training, as for DistilBERT (Sanh et al. 2019, arXiv:1910.01108)."""

import logging

from bert_keras.data_prep.text.tokenization import load_vocab
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import BertConfig, PretrainingModel, weights_to_load
from bert_keras.modeling.checkpoints.loading import load_all_weights
from bert_keras.modeling.checkpoints.names import SENTENCE_PATTERNS
from bert_keras.modeling.losses import Loss
from bert_keras.tasks.distillation.loss import DistillationLoss
from bert_keras.tasks.distillation.recipe import check_same_input, recipe_of
from bert_keras.tasks.pretraining.settings import PretrainingSettings

log = logging.getLogger("bert_keras")


class PretrainingTeacher:
    """A checkpoint with a masked-LM head that teaches a student of the same vocabulary.

    Args:
        config: that of the student.
        vocab_file: the vocabulary of its records; None: unknown.

    Attributes:
        files: those of the teacher.
    """

    def __init__(self, settings: PretrainingSettings, config: BertConfig, vocab_file: str | None) -> None:
        path = settings.teacher or ""
        self.files = ModelFolder(path)
        self._checkpoint = self.files.need_checkpoint()
        theirs = self._checkpoint.config
        if theirs is None or "masked_lm" not in self._checkpoint.heads:
            lacks = "config" if theirs is None else "masked-LM head"
            raise Mistake("{teacher}={} has no {}; give a pre-trained model with its config and its heads", path, lacks)
        self._config = theirs
        self._recipe = recipe_of(settings, self._config, config)
        if self._config.vocab_size != config.vocab_size:
            raise Mistake(
                "{teacher}={} has {} tokens, but the student has {}; both read the same token ids, so give a "
                "student with the teacher's vocabulary",
                path,
                self._config.vocab_size,
                config.vocab_size,
            )
        files = self._checkpoint.vocab_file, vocab_file
        vocab, ours = (load_vocab(file) if file else None for file in files)
        check_same_input(path, theirs, vocab, ours, files[1] or "", settings.max_seq_length)

    def teach(self, loss: Loss) -> DistillationLoss:
        """Adds the losses against the teacher to the student's loss. Call it in the strategy's scope."""
        with weights_to_load():
            model = PretrainingModel(self._config)
        log.info("teacher: %s", load_all_weights(model, self._checkpoint, new_allowed=SENTENCE_PATTERNS))
        model.trainable = False
        return DistillationLoss(loss, model, self._recipe)
