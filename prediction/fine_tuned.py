"""What the fine-tuned tasks have in common: the folder of a model, and texts that become rows of features."""

import logging

import numpy as np

from modeling import load_weights, weights_by_name
from prediction.exported import open_exported
from prediction.model_files import TASK_FILE, is_export, open_export_files, open_model_files
from prediction.network import Network, lengths_up_to
from prediction.predictor import Predictor
from prediction.sequences import Question
from prediction.task_file import check_length, read_settings

log = logging.getLogger("bert_keras")


class FineTunedPredictor(Predictor):
    """A fine-tuned model that has been loaded to answer.

    Args:
        path: the folder of a run, or of its model, or of an export.
        batch_size: how many sequences are looked at together, at most.

    Attributes:
        settings: dict; what the task.json of the model says.
        files: ModelFiles.
        config: BertConfig.
        tokenizer: FullTokenizer.
        model: the Keras model, its weights loaded; the network of an export.

    Raises:
        FileNotFoundError: a part of the model is not there.
        ValueError: a part is damaged, does not fit the others, or is for another task.
    """

    tasks = ()
    # The name of the head's weights whose first axis is the classes.
    head_weight = "output_weights"

    def __init__(self, path, batch_size=16):
        folder, self.settings = read_settings(path)
        if self.settings["task"] not in self.tasks:
            raise ValueError(
                f"{folder} is a model for {self.settings['task']}, and {type(self).__name__} is for "
                f"{', '.join(self.tasks)}; open it with prediction.open_model"
            )
        self.files = open_export_files(folder) if is_export(folder) else open_model_files(folder)
        self.config = self.files.config
        self.tokenizer = self.files.tokenizer
        self.max_seq_length = check_length(self.settings, self.config, folder)
        self.model = self._open_network(folder) if is_export(folder) else self._load_model(folder)
        self.network = Network(self.model, self._read_out, self._lengths(), batch_size)

    def _load_model(self, folder):
        """Returns the Keras model with the weights of the checkpoint."""
        checkpoint = self.files.checkpoint
        if self.head_weight in checkpoint.names:
            _check_num_classes(self.num_classes, checkpoint.shape(self.head_weight)[0], checkpoint.prefix, folder)
        model = self._make_model(self.config)
        log.info("%s", load_weights(weights_by_name(model), checkpoint))
        return model

    def _open_network(self, folder):
        """Returns the network of an export."""
        network = open_exported(folder)
        two_tokens = np.ones((1, 2), np.int32)
        outputs = network({"input_ids": two_tokens, "input_mask": two_tokens, "segment_ids": two_tokens})
        if "logits" in outputs:
            _check_num_classes(self.num_classes, outputs["logits"].shape[-1], folder, folder)
        return network

    @property
    def num_classes(self):
        """How many classes the head has, an int."""
        return len(self.settings["labels"])

    def _make_model(self, config):
        """Returns the model whose weights the checkpoint has."""
        raise NotImplementedError

    def _lengths(self):
        """Returns what sequences are padded to."""
        return lengths_up_to(self.max_seq_length)

    def _encode_all(self, texts, sources):
        """Makes the rows of all texts together, so that the log tells of all of them at once."""
        if not texts:
            return []
        examples = [self._encode(text, source) for text, source in zip(texts, sources, strict=True)]
        features, example_index = self._features(examples)
        starts = np.searchsorted(example_index, np.arange(len(examples) + 1))
        return [
            (example, {name: values[start:end] for name, values in features.items()})
            for example, start, end in zip(examples, starts[:-1], starts[1:], strict=True)
        ]

    def _features(self, examples):
        """Returns features, and int [N]: to which of the examples each of their rows belongs, ascending."""
        raise NotImplementedError

    def _questions(self, encoded):
        _, rows = encoded
        for ids, segment_ids, mask in zip(rows["input_ids"], rows["segment_ids"], rows["input_mask"], strict=True):
            num_tokens = int(mask.sum())
            yield Question(ids[:num_tokens], segment_ids[:num_tokens])


def check_text(text, source, name="text"):
    """Refuses what is no text.

    Raises:
        ValueError: it is no str, or holds nothing but white space; the message begins with `source`.
    """
    if not isinstance(text, str):
        raise ValueError(f"{source} is of type {type(text).__name__}, but a str is needed")
    if not text.strip():
        raise ValueError(f"{source} has no word in its {name}; give a {name}")


def check_pair(pair, source, names, may_lack_second=False):
    """Refuses what is not two texts; `names` says what they are, may_lack_second whether the second may be empty.

    Raises:
        ValueError: it is not; the message begins with `source`.
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"{source} is {pair!r}, but a pair of two texts is needed: {' and '.join(names)}")
    for text, name in zip(pair, names, strict=True):
        if not (may_lack_second and name == names[1] and text == ""):
            check_text(text, source, name)


def check_finite(scores, text):
    """Refuses scores of a text that are no numbers.

    Raises:
        ValueError: one is not finite.
    """
    if not np.isfinite(scores).all():
        raise ValueError(
            f'the scores of "{text[:40]}" are not finite: the weights of the model are broken; '
            "take one of another run, with a lower learning rate"
        )


def _check_num_classes(num_classes, num_found, found_in, folder):
    """Refuses a head that has other classes than the task.json says."""
    if num_found != num_classes:
        raise ValueError(
            f"{found_in} has a head of {num_found} classes, but {folder / TASK_FILE} "
            f"is of a model with {num_classes}; they are of two runs, so take the folder of one"
        )
