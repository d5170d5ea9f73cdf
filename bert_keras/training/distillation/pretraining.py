"""The teacher of a pre-training, as for DistilBERT (Sanh et al. 2019, arXiv:1910.01108)."""

import logging

from bert_keras.data_prep.text.tokenization import load_vocab
from bert_keras.mistakes import Mistake
from bert_keras.modeling import PretrainingModel, load_weights, open_checkpoint, weights_by_name, weights_to_load
from bert_keras.modeling.checkpoints.loading import entries_of_other_heads
from bert_keras.storage.vocabulary import vocabulary_digest
from bert_keras.training.distillation.loss import DistillationLoss
from bert_keras.training.distillation.recipe import recipe_of
from bert_keras.training.finetuning.model_dir import digest_of_model

log = logging.getLogger("bert_keras")


class PretrainingTeacher:
    """A checkpoint with a masked-LM head that teaches a student of the same vocabulary.

    Args:
        settings: dict of flag values by name.
        config: BertConfig of the student.
    """

    def __init__(self, settings, config):
        path = settings["teacher"]
        self._path, self._checkpoint = path, open_checkpoint(path)
        theirs, vocab_file = self._checkpoint.config, self._checkpoint.vocab_file
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
        ours = settings["vocab_file"]
        if ours and vocab_file and vocabulary_digest(load_vocab(ours)) != vocabulary_digest(load_vocab(vocab_file)):
            raise Mistake(
                "{teacher}={} has another vocabulary than {vocab_file}={}; give records of the teacher's vocabulary",
                path,
                ours,
            )
        if settings["max_seq_length"] > self._config.max_position_embeddings:
            raise Mistake(
                "{max_seq_length}={} is more than the {} positions of {teacher}={}; build shorter records",
                settings["max_seq_length"],
                self._config.max_position_embeddings,
                path,
            )

    @property
    def digest(self):
        """The SHA-256 of the weights, a str."""
        return digest_of_model(self._path)

    def teach(self, loss):
        """Adds the losses against the teacher to a loss of `modeling.losses`. Call it in the strategy's scope."""
        with weights_to_load():
            model = PretrainingModel(self._config)
        weights, heads = weights_by_name(model), ("bert/pooler/*", "cls/seq_relationship/*")
        ignored = entries_of_other_heads(self._checkpoint, weights)
        report = load_weights(weights, self._checkpoint, new_allowed=heads, ignored=ignored)
        log.info("teacher: %s", report)
        model.trainable = False
        return DistillationLoss(loss, model, self._recipe)
