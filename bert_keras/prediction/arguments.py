"""Arguments of the predictors, their limits, and their names in errors. Imports without TensorFlow."""

import contextlib
import contextvars
import dataclasses
import logging
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

log = logging.getLogger("bert_keras")

# Treatments of a text that is longer than the model takes, and of one that cannot be answered.
LONG_CHOICES = ("error", "truncate", "window")
ON_ERROR = ("stop", "report")
# Tokens that a sentence score masks: one, or also the rest of its word.
PLL_CHOICES = ("original", "within_word_l2r")
POOLINGS = ("none", "cls", "mean", "max")
# Name of the input of the first layer, which the original BERT cannot extract.
EMBEDDINGS = "embeddings"

# Maximum number of combining marks in a row. Unicode puts them in order in a time that grows with the square of their
# number, and no other Python thread runs meanwhile. Scripts need fewer than 10; "stream-safe" texts have at most 30.
_MOST_MARKS = 100
# Marks whose own class is 0, but which decompose to others.
_COMPOSED_MARKS = "\u0f73\u0f75\u0f81"
# The original BERT's default.
_DEFAULT_LAYERS = (-1, -2, -3, -4)
# Flags of arguments that have another name, in a block of `told_with_flags`; None elsewhere.
_renamed: contextvars.ContextVar[dict[str, str] | None] = contextvars.ContextVar("_renamed", default=None)


def name_of(argument: str) -> str:
    """Returns an argument's name for an error: `limits.max_chars`, or `--max_chars` in a block of `told_with_flags`."""
    renamed = _renamed.get()
    return argument if renamed is None else f"--{renamed.get(argument, argument.rpartition('.')[2])}"


@contextlib.contextmanager
def told_with_flags(**renamed: str) -> Iterator[None]:
    """Makes errors raised in the block name flags; `renamed` has the flags that differ from their arguments."""
    token = _renamed.set({"config_file": "bert_config_file", **renamed})
    try:
        yield
    finally:
        _renamed.reset(token)


def check_backend(backend: str) -> None:
    """Checks that Keras runs on TensorFlow, given the name of its backend."""
    if backend != "tensorflow":
        raise ValueError(
            f"Keras is set to run on {backend} (by KERAS_BACKEND or ~/.keras/keras.json), but prediction and training "
            "need TensorFlow; set KERAS_BACKEND=tensorflow (only the network, `modeling`, also runs on JAX and PyTorch)"
        )


def check_choice(argument: str, value: object, choices: Sequence[str]) -> None:
    """Checks that an argument has one of the given values."""
    if value not in choices:
        raise ValueError(f'{name_of(argument)} is "{value}", but must be one of {", ".join(choices)}')


def check_top_k(value: object, most: int, things: str) -> None:
    """Checks a number of best answers, given the maximum, `most`, which is the number of some things."""
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"{name_of('top_k')} is {value!r}, but must be from 1 to {things} {most}")


def check_threshold(value: object, lowest: float = 0.0, highest: float = 1.0) -> None:
    """Checks a threshold."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
        needed = f"a number from {lowest:g} to {highest:g}" if math.isfinite(highest) else "a number"
        raise ValueError(f"{name_of('threshold')} is {value!r}, but must be {needed}")


@dataclasses.dataclass(frozen=True)
class Limits:
    """The largest input that a predictor accepts, which bounds memory and time.

    Attributes:
        max_texts: texts in a call. The method `pipe` takes any number, because it holds only a few at a time.
        max_chars: characters in a text; for pairs, in each of the two texts.
        max_sequences: sequences per text: windows, choices, or the tokens of a text to score.
        max_masks: [MASK]s in a text.

    Raises:
        ValueError: a limit is not a whole number above 0.
    """

    max_texts: int = 100_000
    max_chars: int = 1_000_000
    max_sequences: int = 1_000
    max_masks: int = 100

    def __post_init__(self):
        for field, value in vars(self).items():
            if type(value) is not int or value < 1:
                raise ValueError(f"{name_of(f'limits.{field}')} is {value!r}, but must be a whole number above 0")

    def check(self, field: str, count: int, source: str, things: str) -> None:
        """Checks the count of some things in the input called `source` against the limit `field`."""
        limit, name = getattr(self, field), name_of(f"limits.{field}")
        if count > limit:
            raise ValueError(
                f"{source} has {count:,} {things}, but {name} is {limit:,}; make it shorter, or raise {name}"
            )

    def check_text(self, text: str, source: str, what: str = "text") -> None:
        """Checks that `text`, which is `what` in the input `source`, is a text that a tokenizer can take."""
        if not isinstance(text, str):
            raise ValueError(f"{source} is of type {type(text).__name__}, but a str is needed")
        self.check("max_chars", len(text), source, "characters" if what == "text" else f"characters in its {what}")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            place = f"character {error.start + 1} of its {what}"
            raise ValueError(
                f"{source}: {place} is \\u{ord(text[error.start]):04x}, half of a surrogate pair, which is not a "
                "character; give text that was read as UTF-8"
            ) from None
        if not text.isascii() and (place := _too_many_marks(text)) is not None:
            raise ValueError(
                f"{source}: from character {place + 1} of its {what} on there are more than {_MOST_MARKS} combining "
                "marks in a row, which no script has; remove them"
            )


def _too_many_marks(text):
    """Returns the place of the first of too many combining marks in a row; None if there are none."""
    start = None
    for place, char in enumerate(text):
        if not unicodedata.combining(char) and char not in _COMPOSED_MARKS:
            start = None
        elif start is None:
            start = place
        elif place - start == _MOST_MARKS:
            return start
    return None


def renamed_labels(labels: Sequence[str], names: Sequence[str] | Mapping[str, str]) -> list[str]:
    """Returns other names of labels: names of all in their order, or a mapping of some labels to names."""
    argument = name_of("labels")
    if isinstance(names, Mapping):
        if unknown := [label for label in names if label not in labels]:
            raise ValueError(f"{argument} has {unknown[0]!r}, but the model's labels are {', '.join(labels)}")
        names = [names.get(label, label) for label in labels]
    are_names = not isinstance(names, str) and all(isinstance(name, str) for name in names)
    if not are_names or len(set(names)) != len(names) or len(names) != len(labels):
        raise ValueError(
            f"{argument} is {shown(names)}, but a different str is needed for each of the {len(labels)} labels: "
            f"{', '.join(labels)}"
        )
    return list(names)


def shown(value: object) -> str:
    """Returns the representation of a value for an error message, cut to 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def parse_layers(text: str) -> list[int | str]:
    """Returns the layers of a comma-separated list, such as "-1,-2" or "embeddings,0"."""
    layers = []
    for entry in (part.strip() for part in text.split(",")):
        try:
            layers.append(entry if entry == EMBEDDINGS else int(entry))
        except ValueError:
            raise ValueError(
                f'{name_of("layers")} is "{text}", and "{entry}" is not a layer; give whole numbers (0 the first '
                f'layer, -1 the last) or "{EMBEDDINGS}", separated by commas'
            ) from None
    return layers


def choose_layers(layers: Sequence[int | str] | None, num_hidden_layers: int) -> tuple[int | str, ...]:
    """Checks the requested layers of a model; None: the last four, or all if the model has fewer."""
    if layers is None:
        layers = _DEFAULT_LAYERS[:num_hidden_layers]
        if layers != _DEFAULT_LAYERS:
            listed = ", ".join(map(str, layers))
            log.info("the model has %d layers, so all of them are taken: %s", num_hidden_layers, listed)
    if not layers:
        raise ValueError(
            f'{name_of("layers")} is empty; give at least one, such as -1 for the last layer, or "{EMBEDDINGS}"'
        )
    for layer in layers:
        if layer != EMBEDDINGS and layer not in range(-num_hidden_layers, num_hidden_layers):
            raise ValueError(
                f"{name_of('layers')} has {layer}, but the model's {num_hidden_layers} layers are 0 to "
                f"{num_hidden_layers - 1}, or from the end -1 to -{num_hidden_layers}; give these, or "
                f'"{EMBEDDINGS}" for the input of the first'
            )
    return tuple(layers)
