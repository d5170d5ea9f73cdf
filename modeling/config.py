"""The configuration of a BERT, read from and written to `bert_config.json`."""

import dataclasses
import json
import logging
import os
from collections.abc import Collection
from typing import Any

from bert_keras.mistakes import Mistake, closest
from bert_keras.modeling.released import find_released, released_models
from bert_keras.storage import json_files, writing

log = logging.getLogger("bert_keras")

HIDDEN_ACTIVATIONS = ("gelu", "gelu_erf", "relu", "tanh", "linear")
POOLER_ACTIVATIONS = (*HIDDEN_ACTIVATIONS, "unit_length")

# Keys in the files of the original Chinese and multilingual models; the original code does not read them.
RELEASED_EXTRA_KEYS = (
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
)

# Constant of the original BERT; its config files do not contain it.
LAYER_NORM_EPS = 1e-12

# Dropout before a new head in fine-tuning; a constant of the original BERT, too.
FINE_TUNING_DROPOUT = 0.1

# Layers may share their weights, so nothing else bounds their number in a file.
MAX_LAYERS = 1000

# The default of the original BERT for files without type_vocab_size.
TYPE_VOCAB_SIZE_OF_SILENT_FILES = 16

_PROBABILITIES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")
_POSITIVE_NUMBERS = ("initializer_range", "layer_norm_eps")
# The values of a field in files, and the meaning of null.
_CHOICES = {
    "hidden_act": (HIDDEN_ACTIVATIONS, "linear"),
    "pooler_act": (POOLER_ACTIVATIONS, "linear"),
    "pooling": (("cls", "mean", "max"), "cls"),
}


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The sizes and other hyperparameters of a BERT.

    Field names, defaults and the JSON form are those of `BertConfig` in the original modeling.py. Differences:

    - `type_vocab_size` is 2 by default, as in every released model. The original default is 16, and a JSON file
      without this key is still read as 16.
    - Unknown keys, wrong types and impossible sizes are errors here instead of failing later.
    - `hidden_act` is a name, never a function, so every config can be written to a file.

    Args:
        vocab_size: number of word pieces, V.
        hidden_size: width of the hidden vectors, H; a multiple of `num_attention_heads`.
        num_hidden_layers: number of encoder layers, L.
        num_attention_heads: attention heads of each layer, N.
        intermediate_size: width of the feed-forward inner layer, I.
        hidden_act: activation of the inner layer and of the masked-LM head, in upper or lower case: "gelu" (the tanh
            form, as in the original BERT), "gelu_erf" (the exact form), "relu", "tanh", "linear" (or None).
        hidden_dropout_prob: dropout of embeddings and sub-layer outputs, in [0, 1); None: 0.
        attention_probs_dropout_prob: dropout of the attention probabilities, in [0, 1); None: 0.
        max_position_embeddings: length of the longest sequence, in tokens.
        type_vocab_size: number of segment types; 0: the model has no segments, as DistilBERT.
        initializer_range: standard deviation of the truncated normal that initialises kernels and tables.
        layer_norm_eps: added to the variance in every layer normalisation. In the original BERT it is always 1e-12;
            files contain only other values.
        embedding_size: width of the embeddings, E, which a projection then maps to H (ALBERT, ELECTRA). None: H and
            no projection. This and the next three are not in files of the original BERT.
        has_shared_layers: whether all encoder layers have the same weights (ALBERT).
        pooler_act: activation of the pooler: "tanh" in BERT, "relu" in DistilBERT and "gelu_erf" in ELECTRA;
            "unit_length" divides each vector by its length.
        is_decoder: whether the model reads left to right: a token sees only itself and earlier tokens, and the pooler
            reads the last token. The name is that of the Hugging Face config.
        classifier_dropout: dropout before the linear layer of a classifier, in [0, 1). In the original BERT it is
            always 0.1; files contain only other values.
        pooling: what the pooler reads: "cls", the vector of [CLS] as in the original BERT (of the last token with
            `is_decoder`); or the "mean" or "max" of the vectors of all tokens. Files contain only other values than
            "cls".
        released_extras: pairs of name and value of the extra keys in the original Chinese and multilingual files. The
            network ignores them; `to_dict` writes them back.

    Raises:
        ValueError: a value is not valid.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = LAYER_NORM_EPS
    embedding_size: int | None = None
    has_shared_layers: bool = False
    pooler_act: str = "tanh"
    is_decoder: bool = False
    classifier_dropout: float = FINE_TUNING_DROPOUT
    pooling: str = "cls"
    released_extras: tuple[tuple[str, object], ...] = ()

    def __post_init__(self) -> None:
        for name in (*_SIZES, "embedding_size"):
            value = getattr(self, name)
            least = 0 if name == "type_vocab_size" else 1
            if name == "embedding_size" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise Mistake("{} is {!r}, but must be a whole number of at least {}", name, value, least)
        if self.num_hidden_layers > MAX_LAYERS:
            raise Mistake("num_hidden_layers is {}, but must be at most {}", self.num_hidden_layers, MAX_LAYERS)
        for name in _PROBABILITIES:
            value = getattr(self, name)
            value = 0 if value is None else value  # null in a file means no dropout, as in the original BERT
            if not _is_number(value) or not 0 <= value < 1:
                raise Mistake("{} is {!r}, but must be a number from 0 up to, not including, 1", name, value)
            object.__setattr__(self, name, float(value))
        for name in _POSITIVE_NUMBERS:
            value = getattr(self, name)
            if not _is_number(value) or not value > 0:
                raise Mistake("{} is {!r}, but must be a number above 0", name, value)
        for name in ("has_shared_layers", "is_decoder"):
            if not isinstance(getattr(self, name), bool):
                raise Mistake("{} is {!r}, but must be true or false", name, getattr(self, name))
        for field, (known, default) in _CHOICES.items():
            name = default if getattr(self, field) in (None, "") else getattr(self, field)
            if not isinstance(name, str) or name.lower() not in known:
                raise Mistake("{} is {!r}, but must be one of {}", field, name, ", ".join(known))
            object.__setattr__(self, field, name.lower())
        if self.hidden_size % self.num_attention_heads:
            raise Mistake(
                "hidden_size {} is not a multiple of num_attention_heads "
                "{}; every head needs the same whole number of columns",
                self.hidden_size,
                self.num_attention_heads,
            )

    @property
    def head_size(self) -> int:
        """Width of one attention head, D = H / N."""
        return self.hidden_size // self.num_attention_heads

    @property
    def embedding_width(self) -> int:
        """Width of the embeddings: E, or H without an `embedding_size`."""
        return self.embedding_size or self.hidden_size

    @property
    def num_layers_of_weights(self) -> int:
        """Number of encoder layers with separate weights: 1 if they are shared, else L."""
        return 1 if self.has_shared_layers else self.num_hidden_layers

    @classmethod
    def from_dict(cls, values: dict[str, Any], source: str = "the config") -> "BertConfig":
        """Makes a config from a dictionary with the keys of `bert_config.json`; `source` is its name in errors.

        Raises:
            ValueError: a key is unknown, `vocab_size` is missing, or a value is not valid.
        """
        fields = [field.name for field in dataclasses.fields(cls) if field.name != "released_extras"]
        for key in values:
            if key not in fields and key not in RELEASED_EXTRA_KEYS:
                raise Mistake('{} has an unknown key "{}"; {}', source, key, _suggestion(key, fields))
        if "vocab_size" not in values:
            raise Mistake("{} has no vocab_size; give it the number of lines of the vocabulary file", source)
        known = {key: value for key, value in values.items() if key in fields}
        if "type_vocab_size" not in known:
            log.warning(
                "%s has no type_vocab_size; read as %d, as the original BERT does (every released model has 2)",
                source,
                TYPE_VOCAB_SIZE_OF_SILENT_FILES,
            )
            known["type_vocab_size"] = TYPE_VOCAB_SIZE_OF_SILENT_FILES
        # The usual reason is a deleted line; the model would then not fit its checkpoint.
        silent = [f"{name} (read as {getattr(cls, name)})" for name in _SIZES if name not in known]
        if silent:
            log.warning(
                "%s has no %s; add the model's values, unless these defaults are right", source, ", ".join(silent)
            )
        extras = tuple((key, values[key]) for key in RELEASED_EXTRA_KEYS if key in values)
        try:
            return cls(**known, released_extras=extras)
        except Mistake as error:
            raise Mistake("{}: {}", source, error) from None

    @classmethod
    def from_json_file(cls, json_file: str | os.PathLike) -> "BertConfig":
        """Reads `bert_config.json`.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: the file is not a JSON object, or `from_dict` rejects its contents.
        """
        return cls.from_dict(json_files.read_object(json_file), source=os.fspath(json_file))

    @classmethod
    def from_name(cls, name: str) -> "BertConfig":
        """Makes the config of a released model from its name, such as "uncased_L-2_H-128_A-2" or "tiny".

        Raises:
            ValueError: the name is not one of `released_names()`.
        """
        model = find_released(name)
        if model is None:
            raise Mistake('no released model is called "{}"; {}', name, _suggestion(name, released_names()))
        return cls(
            vocab_size=model.vocab_size,
            hidden_size=model.hidden_size,
            num_hidden_layers=model.num_hidden_layers,
            num_attention_heads=model.num_attention_heads,
            intermediate_size=4 * model.hidden_size,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the keys and values of `bert_config.json`."""
        values = dataclasses.asdict(self)
        for name, default in _DEFAULTS_OF_THE_ORIGINAL.items():
            if values[name] == default:
                del values[name]
        return values | dict(values.pop("released_extras"))

    def to_json_string(self) -> str:
        """Returns the JSON text in the original format: indented by two, keys sorted, a newline at the end."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

    def to_json_file(self, json_file: str | os.PathLike) -> None:
        """Writes `bert_config.json` atomically."""
        writing.write_text(json_file, self.to_json_string())


# The fields whose values are whole numbers of at least 1.
_SIZES = tuple(field.name for field in dataclasses.fields(BertConfig) if field.type is int)
# The fields that files of the original BERT do not have, and their values there.
_DEFAULTS_OF_THE_ORIGINAL = {
    "layer_norm_eps": LAYER_NORM_EPS,
    "embedding_size": None,
    "has_shared_layers": False,
    "pooler_act": "tanh",
    "is_decoder": False,
    "classifier_dropout": FINE_TUNING_DROPOUT,
    "pooling": "cls",
}


def released_names() -> list[str]:
    """Returns the names for `BertConfig.from_name`, aliases first."""
    models = released_models()
    return [*(model.alias for model in models if model.alias), *(model.name for model in models)]


def _suggestion(word: str, known: Collection[str]) -> str:
    close = closest(word, known)
    return f'did you mean "{close}"?' if close else f"known are {', '.join(known)}"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
