"""What all networks share: their inputs, the seed of dropout in `fit`, and the config that Keras saves."""

import contextlib
import dataclasses
import logging
import os
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from bert_keras.mistakes import Mistake
from bert_keras.modeling.checkpoints.files import Checkpoint, open_checkpoint
from bert_keras.modeling.checkpoints.hub import model_of_run
from bert_keras.modeling.checkpoints.loading import (
    check_config,
    check_sizes,
    entries_of_other_heads,
    load_weights,
    weights_by_name,
)
from bert_keras.modeling.checkpoints.names import POOLER_PATTERNS, TOP_LEVEL_HEADS, is_of_encoder
from bert_keras.modeling.checkpoints.safetensors_format import warn_about_pooler
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.dropout import draw_seed
from bert_keras.modeling.layers import is_seeded, weights_to_load

log = logging.getLogger("bert_keras")

TOKEN_INPUTS = ("input_ids", "input_mask", "segment_ids")
PACKED_INPUTS = ("sequence_ids", "position_ids", "cls_positions")
_TOKEN_AXES = (*TOKEN_INPUTS, "sequence_ids", "position_ids")


class BaseModel(keras.Model):
    """Base class of the networks: a Keras model that makes all its weights in its constructor.

    Args:
        config: BertConfig.
        **kwargs: `name`, `dtype` (a dtype or the name of a policy, for all layers) and `trainable` of a Keras model.

    Attributes:
        input_names: names of the inputs.
        required_inputs: those without a default.
        input_axes: names of the axes of the inputs of tokens.
        head_name: name of its head in `Checkpoint.heads`, if heads of several classes have the same weights.
        uses_pooler: whether an output depends on the pooler of the encoder.
    """

    input_names: ClassVar[tuple[str, ...]] = (*TOKEN_INPUTS, *PACKED_INPUTS)
    required_inputs: ClassVar[tuple[str, ...]] = ("input_ids",)
    input_axes: ClassVar[tuple[str, ...]] = ("batch", "tokens")
    head_name: ClassVar[str | None] = None
    uses_pooler: ClassVar[bool] = False

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        if not isinstance(config, BertConfig):
            raise TypeError(
                f"the config is of type {type(config).__name__}; give a BertConfig, such as read_config(folder) or "
                "open_checkpoint(folder).config"
            )
        super().__init__(**kwargs)
        self.config = config
        # The seed comes from NumPy, because initialisers draw from `random`: the initial weights stay the same.
        self._seeds = keras.random.SeedGenerator(0 if is_seeded() else int(np.random.randint(2**31 - 1)))

    @classmethod
    def from_checkpoint(
        cls,
        path: str | os.PathLike | Checkpoint,
        config: BertConfig | None = None,
        has_new_head: bool = False,
        **options: Any,
    ) -> Self:
        """Makes the model of a checkpoint and loads its weights, which one line of the log reports.

        Args:
            path: the folder of a model or of a run, the prefix or a file of a checkpoint, `hf://owner/name`, or an open
                Checkpoint.
            config: BertConfig; None: the one in the folder of the checkpoint.
            has_new_head: whether the head gets random weights, to train it, and not those of the checkpoint. So does
                the pooler if the checkpoint has none.
            **options: the other arguments of the class. `num_classes` is by default the size of the checkpoint's head.

        Raises:
            FileNotFoundError: the checkpoint or its config does not exist.
            ValueError: the checkpoint lacks the head or has another one, or a file is damaged or does not fit.
        """
        checkpoint = path if isinstance(path, Checkpoint) else open_checkpoint(model_of_run(path))
        if config is not None:
            check_config(config, checkpoint)
        config = config or checkpoint.config
        if config is None:
            raise FileNotFoundError(
                f"{checkpoint.prefix} has no bert_config.json or config.json in its folder; put it there, or give "
                "config"
            )
        check_sizes(config, checkpoint)
        if cls.uses_pooler and checkpoint.format == "safetensors":
            warn_about_pooler(config, checkpoint.names)
        if not has_new_head:
            options = cls._sizes_of_head(checkpoint, options) | options
        is_whole = not has_new_head and any(name.startswith("bert/pooler/") for name in checkpoint.names)
        with weights_to_load() if is_whole else contextlib.nullcontext():
            model = cls(config, **options)
        model._load(checkpoint, has_new_head)
        return model

    @classmethod
    def _sizes_of_head(cls, checkpoint: Checkpoint, options: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments of the class that the weights of a head set; `options` are those given by the user."""
        return {}

    @classmethod
    def _num_classes(cls, checkpoint: Checkpoint, bias: str, given: int | None) -> int:
        """Returns the size of a head, whose bias has the name `bias`. Another size is refused, unless it is None."""
        if bias not in checkpoint.names:
            raise cls._without_head(checkpoint, [bias])
        [found] = checkpoint.shape(bias)
        if given not in (None, found):
            raise Mistake(
                "{} has a head of {} classes, but num_classes is {}; leave out "
                "num_classes, or give has_new_head=True for a head with random weights",
                checkpoint.prefix,
                found,
                given,
            )
        return found

    @classmethod
    def _without_head(cls, checkpoint: Checkpoint, missing: list[str]) -> Mistake:
        held = f"the heads {', '.join(checkpoint.heads)}" if checkpoint.heads else "no head"
        return Mistake(
            "{} has {}, but {} needs {}; take a checkpoint with "
            "this head, or give has_new_head=True for a head with random weights",
            checkpoint.prefix,
            held,
            cls.__name__,
            ", ".join(missing),
        )

    def _load(self, checkpoint: Checkpoint, has_new_head: bool) -> None:
        weights = weights_by_name(self)
        head_weight_names = [name for name in weights if not is_of_encoder(name)]
        others = [head for head in checkpoint.heads if head in TOP_LEVEL_HEADS and head != self.head_name]
        # Without the class in its config.json, a head counts as that of a classifier.
        classes = checkpoint.hugging_face_config.get("architectures") or ()
        is_certain = others != ["classifier"] or any(name.endswith("ForSequenceClassification") for name in classes)
        is_of_another = self.head_name and others and is_certain
        missing = [name for name in head_weight_names if name not in checkpoint.names]
        missing = [f"the head {self.head_name}"] if is_of_another else missing
        if missing and not has_new_head:
            raise self._without_head(checkpoint, missing)
        if has_new_head:
            weights = {name: weight for name, weight in weights.items() if name not in head_weight_names}
        may_lack_pooler = has_new_head or not (self.uses_pooler and head_weight_names)
        new_allowed = POOLER_PATTERNS if may_lack_pooler else ()
        ignored = entries_of_other_heads(checkpoint, weights)
        report = load_weights(weights, checkpoint, new_allowed=new_allowed, ignored=ignored)
        new = [*report.new, *(head_weight_names if has_new_head else ())]
        is_surprising = bool(report.new) and self.uses_pooler and not has_new_head
        log.log(logging.WARNING if is_surprising else logging.INFO, "%s", dataclasses.replace(report, new=new))

    def __call__(
        self, input_ids: Any, input_mask: Any = None, segment_ids: Any = None, **options: Any
    ) -> dict[str, Any]:
        """Calls the model with inputs by position or name, or with a dict of them.

        Args:
            input_ids: int [B, T], token ids; or a dict of all inputs. It may have other keys, such as labels, if it has
                the three inputs of this signature.
            input_mask: int [B, T], 1 for tokens and 0 for padding; None: all are tokens.
            segment_ids: int [B, T]; None: all are 0.
            **options: the other inputs and the arguments of `call`.

        Raises:
            ValueError: an input is missing, unknown, not of numbers, or of a wrong shape, the sequences are empty or
                too long, or a token id in an array or a list is not in the vocabulary.
        """
        named = {"input_mask": input_mask, "segment_ids": segment_ids}
        named |= {name: options.pop(name) for name in self.input_names if name in options}
        return super().__call__(self._features(input_ids, named), **options)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Self:
        return cls(**(config | {"config": BertConfig.from_dict(config["config"])}))

    def name_in_checkpoint(self, path: str) -> str:
        """Returns the name in a checkpoint of a weight of this model, which does not depend on the model's name.

        `path` is the weight's Keras path. It begins with the layers in which this model was made.
        """
        encoder = self._encoder().embedding_table.path.removesuffix("/embeddings/word_embeddings")
        if path.startswith(f"{encoder}/"):
            return f"bert{path.removeprefix(encoder)}"
        outer = encoder.rpartition("/")[0]
        return path.removeprefix(f"{outer}/") if outer else path

    def _encoder(self) -> keras.Model:
        return self.bert

    def _encode(self, features: dict[str, Any], dropout_seed: Any) -> dict[str, Any]:
        """Returns the outputs of the encoder for the inputs among the features."""
        inputs = {name: features[name] for name in self.bert.input_names if name in features}
        return self.bert(inputs, dropout_seed=dropout_seed)

    def _with_all_layers(self, outputs: dict[str, Any], encoded: dict[str, Any]) -> dict[str, Any]:
        """Returns the outputs of the heads, with those of all layers if the encoder returns them."""
        return outputs | {name: encoded[name] for name in ("embedding_output", "all_encoder_layers") if name in encoded}

    def _finish(self) -> None:
        """Ends each constructor: Keras need not build the model, and `trainable` holds for the layers made since."""
        self.built = True
        if not self.trainable:
            for layer in self.layers:
                layer.trainable = False

    def _dropout_seed(self, dropout_seed: Any, training: bool | None) -> Any:
        """Returns the given seed; without one, a new seed in training and None otherwise."""
        return draw_seed(self._seeds) if dropout_seed is None and training else dropout_seed

    def _features(self, input_ids: Any, named: dict[str, Any]) -> dict[str, Any]:
        """Returns the inputs of a call as a dict without None."""
        named = {name: values for name, values in named.items() if values is not None}
        if not isinstance(input_ids, dict):
            named = {"input_ids": input_ids} | named
        elif named:
            raise ValueError(
                f"{self.name} got a dict of inputs, and also {', '.join(named)}; put all inputs into the dict"
            )
        else:
            named = {name: values for name, values in input_ids.items() if values is not None}
        if missing := [name for name in self.required_inputs if name not in named]:
            raise ValueError(f"{self.name} got the inputs {', '.join(named)}; it also needs {', '.join(missing)}")
        unknown = [name for name in named if name not in self.input_names]
        absent = [name for name in TOKEN_INPUTS if name not in named]
        # Labels may be among the inputs. But an unknown name instead of a known one is probably a mistake.
        if unknown and absent:
            raise ValueError(
                f"{self.name} got the unknown inputs {', '.join(unknown)}, but not {', '.join(absent)}; "
                f"rename them, or leave them out (it takes {', '.join(self.input_names)})"
            )
        features = {name: self._as_array(name, values) for name, values in named.items()}
        self._check({name: features[name] for name in _TOKEN_AXES if name in features})
        return features

    def _as_array(self, name: str, values: Any) -> Any:
        try:
            values = values if hasattr(values, "dtype") else np.asarray(values)
        except ValueError:
            raise ValueError(
                f"{self.name} got {name} with rows of different lengths; pad all rows to one length"
            ) from None
        # An `Input` of Keras is of floats by default. In 16 bits, floats would give wrong ids.
        is_cast = name in self.input_names and "float" in str(values.dtype)
        if is_cast and (numbers := _known_numbers(values)) is not None:
            is_whole = np.isfinite(numbers) & (numbers == np.round(numbers))
            if not is_whole.all():
                raise ValueError(
                    f"{self.name} got {name} with the number {numbers[~is_whole].flat[0]:g}, but needs whole numbers"
                )
        return ops.cast(values, "int32") if is_cast else values

    def _check(self, inputs: dict[str, Any]) -> None:
        shapes = {name: tuple(values.shape) for name, values in inputs.items()}
        for name, shape in shapes.items():
            if any(part in str(inputs[name].dtype) for part in ("<U", "str")):
                raise ValueError(f"{self.name} got texts as {name}; turn them into ids with FullTokenizer")
            if len(shape) != len(self.input_axes):
                axes = ", ".join(self.input_axes)
                raise ValueError(f"{self.name} got {name} of shape {list(shape)}, but needs [{axes}]")
            if not any(part in str(inputs[name].dtype) for part in ("int", "bool")):
                raise ValueError(f"{self.name} got {name} of type {inputs[name].dtype}, but needs whole numbers")
            for size, needed in zip(shape, shapes["input_ids"], strict=True):
                if size != needed and None not in (size, needed):
                    raise ValueError(
                        f"{self.name} got {name} of shape {list(shape)}, but input_ids of shape "
                        f"{list(shapes['input_ids'])}; they must be equal"
                    )
        num_tokens, longest = shapes["input_ids"][-1], self.config.max_position_embeddings
        if num_tokens is not None and num_tokens > longest:
            raise ValueError(
                f"{self.name} got sequences of {num_tokens} tokens, but max_position_embeddings is {longest}; "
                f"make the sequences shorter, or take a config with more positions"
            )
        if num_tokens == 0:
            raise ValueError(f"{self.name} got sequences of 0 tokens; give one token or more")
        ids, size = inputs["input_ids"], self.config.vocab_size
        # The values of a tensor may be on another device, or not known yet.
        if isinstance(ids, np.ndarray) and ids.size and not (ids.min() >= 0 and ids.max() < size):
            wrong = ids[(ids < 0) | (ids >= size)][0]
            raise ValueError(
                f"{self.name} got the token id {wrong}, but its ids are 0 to {size - 1}; take the model's vocabulary"
            )


def _known_numbers(values: Any) -> np.ndarray | None:
    """Returns the numbers of an array or a tensor; None if they are not known yet, as in a graph."""
    try:
        return np.asarray(values if isinstance(values, np.ndarray) else ops.convert_to_numpy(values), np.float64)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):  # each backend has its own
        return None
