"""Base class of the pre-training tasks: loads the checkpoint with the head that the task needs."""

import logging

import keras

from bert_keras.modeling import (
    HEAD_PATTERNS,
    POOLER_PATTERNS,
    PretrainingModel,
    load_weights,
    weights_by_name,
    weights_to_load,
)
from bert_keras.prediction.argument_error import ArgumentError
from bert_keras.prediction.backend import check_backend
from bert_keras.prediction.limits import Limits
from bert_keras.prediction.loading.exported import open_exported
from bert_keras.prediction.loading.model_files import is_export, open_export_files, open_model_files
from bert_keras.prediction.loading.task_file import check_length, read_settings
from bert_keras.prediction.network import Network, lengths_up_to
from bert_keras.prediction.predictor import Predictor
from bert_keras.prediction.sequences import LONG_CHOICES

log = logging.getLogger("bert_keras")

# Name of each head in messages, and prefixes of the weights that it needs.
_HEADS = {
    "masked_lm": ("masked-LM head", ("cls/predictions/",)),
    "next_sentence": ("next-sentence head", ("bert/pooler/", "cls/seq_relationship/")),
}


class PretrainedPredictor(Predictor):
    """A pre-trained model, loaded for one task.

    Args:
        path: a checkpoint (its folder, its prefix, one of its files, or a run folder); or the folder of an export for
            fill_mask.
        batch_size: maximum number of sequences in a batch.
        long: the treatment of a text that is longer than the model takes: "error", "truncate" or "window".
        vocab_file: the vocabulary; None: vocab.txt in the checkpoint's folder.
        config_file: the config; None: the config in the checkpoint's folder.
        do_lower_case: whether to lower-case text; None: the setting in the model's folder, or else a guess from the
            vocabulary. The log reports the choice.
        limits: Limits of the input; None: the defaults.

    Attributes:
        files: ModelFiles.
        config: BertConfig.
        tokenizer: FullTokenizer.
        model: the Keras model with the weights that the task needs, or the network of an export.

    Raises:
        FileNotFoundError: a part of the model is missing.
        ValueError: the parts do not fit, the model lacks the task's head, an argument is not valid, or Keras does not
            run on TensorFlow.
    """

    head = ""
    num_special_tokens = 2

    def __init__(
        self,
        path,
        batch_size=16,
        long="error",
        vocab_file=None,
        config_file=None,
        do_lower_case=None,
        limits=None,
    ):
        check_backend(keras.backend.backend())
        if long not in LONG_CHOICES:
            choices = ", ".join(LONG_CHOICES)
            raise ArgumentError(lambda name: f'{name("long")} is "{long}", but must be one of {choices}')
        self.limits = limits or Limits()
        if is_export(path):
            check_alone(path, vocab_file, config_file, do_lower_case)
            self.files, self.model, longest = _open_export(path, self.head)
        else:
            self.files = open_model_files(path, vocab_file, config_file, do_lower_case)
            with weights_to_load():
                self.model = PretrainingModel(self.files.config)
            _load(self.model, self.files.checkpoint, self.head)
            longest = self.files.longest
        self.long = long
        self.config = self.files.config
        self.tokenizer = self.files.tokenizer
        self.network = Network(self.model, self._read_out, lengths_up_to(longest), batch_size)
        self.room = longest - self.num_special_tokens
        if self.room < self.num_special_tokens - 1:
            raise ValueError(
                f"the model takes {longest} tokens, too few for text and the {self.num_special_tokens} special tokens "
                "of this task"
            )


def _load(model, checkpoint, head):
    """Loads the encoder and one head, and ignores the other head."""
    called, prefixes = _HEADS[head]
    others = tuple(prefix for other, (_, of_it) in _HEADS.items() if other != head for prefix in of_it)
    needed = {name: weight for name, weight in weights_by_name(model).items() if not name.startswith(others)}
    missing = [name for name in needed if name.startswith(prefixes) and name not in checkpoint.names]
    if missing:
        raise ValueError(
            f"{checkpoint.prefix} has no {called}: it lacks {', '.join(missing)}; "
            "give a checkpoint of pre-training, with its heads"
        )
    log.info("%s", load_weights(needed, checkpoint, ignored=HEAD_PATTERNS + POOLER_PATTERNS))


def check_alone(export, vocab_file, config_file, do_lower_case):
    """Refuses vocabulary, config and casing arguments for an export, which has its own.

    Raises:
        ArgumentError: one of them is given.
    """
    given = {"vocab_file": vocab_file, "config_file": config_file, "do_lower_case": do_lower_case}
    given = [argument for argument, value in given.items() if value is not None]
    if given:
        raise ArgumentError(
            lambda name: (
                f"{export} is an export, which sets how to prepare text; leave out {', '.join(map(name, given))}"
            )
        )


def _open_export(folder, head):
    """Returns the files, the network and the maximum sequence length of an export."""
    folder, settings = read_settings(folder)
    if settings["task"] != "fill_mask" or head != "masked_lm":
        raise ValueError(f"{folder} is an export for {settings['task']}; open it with bert_keras.open_model")
    files, network = open_export_files(folder), open_exported(folder)
    longest = check_length(settings, files.config, folder)
    return files, lambda features: {"masked_lm_logits": network(features)["logits"]}, longest
