"""The base class of the pre-training tasks: it loads the head that the task needs, and makes sequences of tokens.

If a text is longer than the model takes, the functions refuse it, cut it, or read it through windows.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import keras
import numpy as np

from bert_keras.data_prep.text.model_inputs import share_room
from bert_keras.data_prep.text.places import Ids, Token, locate
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.mistakes import Mistake, Remedy
from bert_keras.model_folder.exported import ExportedNetwork
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import (
    POOLER_PATTERNS,
    PretrainingModel,
    ReplacedTokenModel,
    load_weights,
    weights_by_name,
    weights_to_load,
)
from bert_keras.modeling.checkpoints.loading import entries_of_other_heads
from bert_keras.prediction.arguments import LONG_CHOICES, CallOptions, Limits, check_choice
from bert_keras.prediction.loaded_model import Answer, Text
from bert_keras.tasks import ability_of
from bert_keras.tasks.predictor import TaskPredictor

log = logging.getLogger("bert_keras")

MASK = "[MASK]"
UNKNOWN = "[UNK]"

# Name of each head in messages, and prefixes of the weights that it needs.
_HEADS = {
    "masked_lm": ("masked-LM head", ("cls/predictions/",)),
    "next_sentence": ("next-sentence head", ("bert/pooler/", "cls/seq_relationship/")),
    "replaced_token": ("replaced-token head", ("cls/replaced_token/",)),
}


class PretrainedPredictor(TaskPredictor[Text, Answer]):
    """A pre-trained model, loaded for one task. It has the attributes of `LoadedModel`.

    Args:
        path: a checkpoint (its folder, its prefix, one of its files, or a run folder), or an export for this task.
        batch_size: maximum number of sequences in a batch.
        long: the treatment of a text that is longer than the model takes: "error", "truncate" or "window".
        vocab_file: the vocabulary; None: vocab.txt in the checkpoint's folder.
        config_file: the config; None: the config in the checkpoint's folder.
        do_lower_case: whether to lower-case text; None: the setting in the model's folder, or else a guess from the
            vocabulary. The log reports the choice.
        limits: Limits of the input; None: the defaults.
        device: "cpu", "gpu", or one of several, such as "gpu:1"; None: a GPU if there is one.
        format: of an export, "saved_model", "onnx", "openvino", "litert" or "web"; None: the first that it has.
        model: the attribute `model` of another predictor of the same checkpoint. The two share its encoder in memory;
            only the head of this task is read from the checkpoint. None: the object has its own weights.
        strip_accents: whether texts lose their accents; None: the setting in the model's folder, or else the same as
            do_lower_case.
        precision: as in `TextClassifier`; with `model`, that of the other predictor.
        options: other defaults of the options of a call, which the class lists.

    Raises:
        FileNotFoundError: a part of the model is missing.
        ValueError: the parts do not fit, the model lacks the task's head, an argument is not valid, or Keras does not
            run on TensorFlow.
    """

    num_special_tokens = 2
    network_class: type = PretrainingModel

    def __init__(
        self,
        path: str | os.PathLike,
        batch_size: int = 64,
        long: str = "error",
        vocab_file: str | os.PathLike | None = None,
        config_file: str | os.PathLike | None = None,
        do_lower_case: bool | None = None,
        limits: Limits | None = None,
        device: str | None = None,
        format: str | None = None,
        model: PretrainingModel | ReplacedTokenModel | None = None,
        strip_accents: bool | None = None,
        precision: str = "auto",
        **options: Unpack[CallOptions],
    ):
        check_choice("long", long, LONG_CHOICES)
        self.long, self._shared = long, model
        text_options: dict[str, Any] = {"vocab_file": vocab_file, "config_file": config_file, "uses_head": True}
        text_options |= {"do_lower_case": do_lower_case, "strip_accents": strip_accents}
        loading: dict[str, Any] = {"device": device, "format": format, "precision": precision}
        super().__init__(path, batch_size, limits, {**options}, **loading, **text_options)

    def _prepare(self) -> None:
        super()._prepare()
        check_shared(self._shared, self.files, self.network_class)
        self.room = self.max_seq_length - self.num_special_tokens
        if self.room < self.num_special_tokens - 1:
            raise Mistake(
                "the model takes {} tokens, too few for text and the {} special tokens of this task",
                self.max_seq_length,
                self.num_special_tokens,
            )

    def _ids_of_text(self, text: str) -> list[int]:
        return encode_with_masks(self.tokenizer, text)

    def _fit(self, ids: list[int], source: str) -> list[int]:
        return fit_text(ids, self.room, self.long, source)

    def _window_start(self, place: int, num_tokens: int) -> int:
        return window_start(place, num_tokens, self.room)

    def _surround(self, *segments: Sequence[int]) -> tuple[list[int], list[int]]:
        """Returns the ids and segment ids of [CLS], followed by each segment and a [SEP]."""
        cls_id, sep_id = self.tokenizer.vocab["[CLS]"], self.tokenizer.vocab["[SEP]"]
        input_ids, segment_ids = [cls_id], [0]
        for number, segment in enumerate(segments):
            input_ids += [*segment, sep_id]
            segment_ids += [number] * (len(segment) + 1)
        return input_ids, segment_ids

    def _locate(self, text: str, name: str) -> list[Token]:
        tokens, start, mask_id = [], 0, self.tokenizer.vocab[MASK]
        for part in text.split(MASK):
            mask = start + len(part), start + len(part) + len(MASK)
            tokens += [*locate(self.tokenizer, part, name, start), Token(mask_id, *mask, name, mask)]
            start = mask[1]
        return tokens[:-1]  # no mask follows the last part

    def tokens(self, texts: Mapping[str, Any], source: str = "text 1") -> list[tuple[list[Token], Ids]]:
        # Several questions may mask other tokens of one sequence.
        found = super().tokens(texts, source)
        return list({tuple(token.id for token in tokens): (tokens, ids) for tokens, ids in found}.values())

    def _load_model(self) -> PretrainingModel | ReplacedTokenModel:
        """Loads the encoder, unless it is shared, and one head, and ignores the other head."""
        checkpoint = self.files.need_checkpoint()
        with weights_to_load():
            model = self._shared or self.network_class(self.config)
        called, prefixes = _HEADS[str(self.head)]
        others = tuple(
            prefix for head, (_, head_prefixes) in _HEADS.items() if head != self.head for prefix in head_prefixes
        )
        needed = {name: weight for name, weight in weights_by_name(model).items() if not name.startswith(others)}
        missing = [name for name in needed if name.startswith(prefixes) and name not in checkpoint.names]
        if missing:
            raise Mistake(
                "{} has no {}: it lacks {}; give a checkpoint of pre-training, with its heads",
                checkpoint.prefix,
                called,
                ", ".join(missing),
            )
        ignored = (*entries_of_other_heads(checkpoint, needed), *POOLER_PATTERNS)
        if self._shared:
            needed, ignored = {name: weight for name, weight in needed.items() if name.startswith(prefixes)}, ("*",)
        log.info("%s", load_weights(needed, checkpoint, ignored=ignored))
        biases = [weight for name, weight in needed.items() if name.startswith(prefixes) and name.endswith("bias")]
        # They start at 0, and the first step of training changes them.
        if not any(np.any(keras.ops.convert_to_numpy(bias)) for bias in biases):
            message = "the %s of %s was never trained (its biases are 0), so its answers are random: pre-train its task"
            log.warning(message, called, checkpoint.prefix)
        return model

    def _open_network(self) -> ExportedNetwork:
        network, name = super()._open_network(), ability_of(self.settings["task"]).logits
        return lambda features: {name: network(features)["logits"]}


def check_shared(
    model: PretrainingModel | ReplacedTokenModel | None, files: ModelFolder, network_class: type | None = None
) -> None:
    """Checks a network that an object shares with another predictor.

    files are those of the object, and network_class is the class of its own model; None if it needs only the encoder.
    """
    if model is None:
        return
    if not isinstance(model, network_class or PretrainingModel | ReplacedTokenModel) or files.checkpoint is None:
        raise Mistake(
            "model can only be shared among predictors of a checkpoint of pre-training; give the attribute model of a "
            "FillMask, NextSentence, SentenceScorer or ReplacedTokenFinder of the same checkpoint, or leave it out"
        )
    if model.config.to_dict() != files.config.to_dict():
        raise Mistake("model has another config than {}; share one of the same checkpoint", files.checkpoint.prefix)


def encode_with_masks(tokenizer: FullTokenizer, text: str) -> list[int]:
    """Returns the token ids of a text; each literal [MASK] becomes the mask token.

    Differs from the original BERT, whose tokenizer splits [MASK] in a text into a bracket, a word and a bracket.
    """
    first, *others = text.split(MASK)
    ids = tokenizer.encode(first)
    for part in others:
        ids += [tokenizer.vocab[MASK], *tokenizer.encode(part)]
    return ids


def fit_text(ids: list[int], room: int, long: str, source: str) -> list[int]:
    """Returns the ids of a text; with `long` "truncate" only the first `room`, with "window" all."""
    if len(ids) > room:
        _tell_length(len(ids), room, long, source, f"only the first {room} are used")
    return ids[:room] if long == "truncate" else ids


def window_start(place: int, num_tokens: int, room: int) -> int:
    """Returns the start of the window of `room` tokens that gives a place the most context on both sides.

    The window stays within the text. A text that fits has one window, at 0.
    """
    return max(0, min(place - room // 2, num_tokens - room))


def fit_pair(
    first: list[int], second: list[int], room: int, long: str, source: str, is_foreign: bool = False
) -> tuple[list[int], list[int]]:
    """Fits a pair to the model as `long` says.

    "truncate" drops tokens from the end of the longer text, like `_truncate_seq_pair` of the original BERT. "window"
    keeps the tokens around the boundary: the end of the first text and the beginning of the second.
    """
    total = len(first) + len(second)
    if total <= room:
        return first, second
    _tell_length(total, room, long, source, f"only {room} are used")
    num_first, num_second = share_room(len(first), len(second), room, is_foreign)
    if long == "window":
        return first[len(first) - num_first :], second[:num_second]
    return first[:num_first], second[:num_second]


def _tell_length(num_tokens: int, room: int, long: str, source: str, consequence: str) -> None:
    message = f"{source} has {num_tokens} tokens, {num_tokens - room} more than the {room} that the model takes"
    if long == "error":
        raise Mistake("{}; make it shorter{}", message, Remedy(", or choose {long}=truncate or {long}=window"))
    if long == "truncate":
        log.warning("%s; %s", message, consequence)
    else:
        log.info("%s; it is read through windows", message)
