"""Arguments of the predictors and their limits. Imports without TensorFlow."""

import dataclasses
import logging
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypedDict

from bert_keras.mistakes import Mistake, Setting, several
from bert_keras.prediction.containers import plain
from bert_keras.settings.devices import PRECISIONS
from bert_keras.settings.fields import setting

log = logging.getLogger("bert_keras")

# Treatments of a text that is longer than the model takes, and of one that cannot be answered.
LONG_CHOICES = ("error", "truncate", "window")
ON_ERROR = ("stop", "report")
# Tokens that a sentence score masks: one, or also the rest of its word.
PLL_CHOICES = ("original", "within_word_l2r")
# Precisions of answers: those of training, but TensorFloat-32 is a setting of the whole process.
ANSWER_PRECISIONS = ("auto", *(name for name in PRECISIONS if name != "tf32"))
# Name of the input of the first layer, which the original BERT cannot extract.
EMBEDDINGS = "embeddings"

# Maximum number of combining marks in a row. Unicode puts them in order in a time that grows with the square of their
# number, and no other Python thread runs meanwhile. Scripts need fewer than 10; "stream-safe" texts have at most 30.
_MOST_MARKS = 100
# Marks whose own class is 0, but which decompose to others.
_COMPOSED_MARKS = "\u0f73\u0f75\u0f81"
# The original BERT's default.
_DEFAULT_LAYERS = (-1, -2, -3, -4)


def check_choice(argument: str, value: object, choices: Sequence[str]) -> None:
    """Checks that an argument has one of the given values."""
    if value not in choices:
        raise Mistake('{} is "{}", but must be one of {}', Setting(argument), value, [*choices])


def check_top_k(value: object, most: int, things: str) -> None:
    """Checks a number of best answers, given the maximum, `most`, which is the number of some things."""
    if type(value) is not int or not 1 <= value <= most:
        raise Mistake("{top_k} is {!r}, but must be from 1 to {} {}", value, things, most)


def check_threshold(value: object, lowest: float = 0.0, highest: float = 1.0) -> None:
    """Checks a threshold."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
        needed = f"a number from {lowest:g} to {highest:g}" if math.isfinite(highest) else "a number"
        raise Mistake("{threshold} is {!r}, but must be {}", value, needed)


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

    def __post_init__(self) -> None:
        for field, value in vars(self).items():
            if type(value) is not int or value < 1:
                raise Mistake("{} is {!r}, but must be a whole number above 0", Setting(field), value)

    def check(self, field: str, count: int, source: str, things: str) -> None:
        """Checks the count of some things in the input called `source` against the limit `field`."""
        if count > (limit := getattr(self, field)):
            raise Mistake(
                "{0} has {1:,} {2}, but {3} is {4:,}; make it shorter, or raise {3}",
                source,
                count,
                things,
                Setting(field),
                limit,
            )

    def check_text(self, text: str, source: str, what: str = "text") -> None:
        """Checks that `text`, which is `what` in the input `source`, is a text that a tokenizer can take."""
        if not isinstance(text, str):
            raise Mistake("{} is of type {}, but a str is needed", source, type(text).__name__)
        self.check("max_chars", len(text), source, "characters" if what == "text" else f"characters in its {what}")
        check_characters(text, source, f" of its {what}")
        if not text.isascii() and (place := _too_many_marks(text)) is not None:
            raise Mistake(
                "{}: from character {} of its {} on there are more than {} combining marks in a row, which no script "
                "has; remove them",
                source,
                place + 1,
                what,
                _MOST_MARKS,
            )


class CallOptions(TypedDict, total=False):
    """The options of a call, of all classes. Each class lists those that it has, and refuses the others."""

    top_k: int | None
    threshold: float | None
    prefix: str | None
    candidates: Sequence[str] | None
    pll: str | None
    raw_scores: bool | None
    coverage: float | None
    why: bool | Literal["gradients"] | None


class PipeOptions(CallOptions, total=False):
    """The arguments of `Predictor.pipe` that a call of the object also takes."""

    sources: Iterable[str] | None
    advance: Callable[[], None]


class OpenOptions(CallOptions, total=False):
    """The arguments of the classes that `open_model` also takes; `long` is for the heads of pre-training."""

    is_pair: bool | None
    words: str | None
    limits: Limits | None
    labels: Sequence[str] | Mapping[str, str] | None
    device: str | None
    format: str | None
    precision: str
    long: str


def check_characters(text: str, source: str, of: str = "") -> None:
    """Refuses half of a surrogate pair, which UTF-8 cannot hold; `of` follows its number in the message."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Mistake(
            "{}: character {}{} is \\u{:04x}, half of a surrogate pair, which is not a character; give text that was "
            "read as UTF-8",
            *(source, error.start + 1, of, ord(text[error.start])),
        ) from None


def _too_many_marks(text: str) -> int | None:
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
    if isinstance(names, Mapping):
        if unknown := [label for label in names if label not in labels]:
            raise Mistake("{labels} has {!r}, but the model's labels are {}", unknown[0], list(labels))
        names = [names.get(label, label) for label in labels]
    is_iterable = isinstance(names, Iterable) and not isinstance(names, str)
    names = plain([*names] if is_iterable else names)
    are_names = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not are_names or len(set(names)) != len(names) or len(names) != len(labels):
        raise Mistake(
            "{labels} is {}, but a different str is needed for each of the {} labels: {}",
            describe_value(names),
            len(labels),
            list(labels),
        )
    return list(names)


def describe_value(value: object) -> str:
    """Returns the representation of a value for an error message, cut to 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def parse_layers(text: str, setting: str = "layers") -> list[int | str]:
    """Returns the layers of a comma-separated list, such as "-1,-2" or "embeddings,0"."""
    layers = []
    for entry in (part.strip() for part in text.split(",")):
        try:
            layers.append(entry if entry == EMBEDDINGS else int(entry))
        except ValueError:
            raise Mistake(
                '{} is "{}", and "{}" is not a layer; give whole numbers (0 the first layer, -1 the last) or "{}", '
                "separated by commas",
                Setting(setting),
                text,
                entry,
                EMBEDDINGS,
            ) from None
    return layers


def choose_layers(layers: Sequence[int | str] | None, num_hidden_layers: int) -> tuple[int | str, ...]:
    """Checks the requested layers of a model; None: the last four, or all if the model has fewer."""
    if layers is None:
        layers = _DEFAULT_LAYERS[:num_hidden_layers]
        if layers != _DEFAULT_LAYERS:
            listed = ", ".join(map(str, layers))
            log.info("the model has %s, so all of them are taken: %s", several(num_hidden_layers, "layers"), listed)
    if not isinstance(layers, Iterable):
        raise Mistake("{layers} is {!r}, but must be a list, such as [-1]", layers)
    if not layers:
        raise Mistake('{layers} is empty; give at least one, such as -1 for the last layer, or "{}"', EMBEDDINGS)
    for layer in layers:
        if layer != EMBEDDINGS and layer not in range(-num_hidden_layers, num_hidden_layers):
            raise Mistake(
                "the model has no layer {0}: its {1} layers are 0 to {2}, or from the end -1 to -{1}; give these, or "
                '"{3}" for the input of the first',
                layer,
                num_hidden_layers,
                num_hidden_layers - 1,
                EMBEDDINGS,
            )
    return tuple(layers)


def answer_precision() -> str:
    """Returns the setting of a program that answers with a model."""
    return setting(
        "Number format of the weights and of matrix products. bfloat16 and float16 have 16 bits. auto: bfloat16 if the "
        "hardware is fast in it, else float32.",
        "auto",
        choices=ANSWER_PRECISIONS,
    )


@dataclasses.dataclass(frozen=True)
class LimitSettings(Limits):
    """The limits that are flags."""

    max_chars: int = setting("Maximum number of characters in a text.", Limits.max_chars, lower_bound=1)
    max_sequences: int = setting(
        "Maximum number of sequences that a text needs: windows, choices, tokens to score, or hidden words.",
        Limits.max_sequences,
        lower_bound=1,
    )
    max_masks: int = setting("Maximum number of [MASK]s in a text.", Limits.max_masks, lower_bound=1)
