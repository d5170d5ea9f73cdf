"""Limits of the input size, which bound memory and time. Imports without TensorFlow."""

import dataclasses

from bert_keras.prediction.argument_error import ArgumentError


@dataclasses.dataclass(frozen=True)
class Limits:
    """The largest input that a predictor accepts.

    Attributes:
        max_texts: texts in a list. `Predictor.answers` takes any number, because it holds only a few at a time.
        max_chars: characters in a text; for pairs, in each of the two texts.
        max_sequences: sequences per text: windows, choices, or the tokens of a text to score.
        max_masks: [MASK]s in a text.

    Raises:
        ArgumentError: a limit is not a whole number above 0.
    """

    max_texts: int = 100_000
    max_chars: int = 1_000_000
    max_sequences: int = 1_000
    max_masks: int = 100

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                self._refuse(field.name, value)

    @staticmethod
    def _refuse(field, value):
        raise ArgumentError(lambda name: f"{name(f'limits.{field}')} is {value!r}, but must be a whole number above 0")

    def check(self, field: str, count: int, source: str, things: str) -> None:
        """Checks a count against a limit.

        Args:
            field: name of the limit.
            count: the count in the input.
            source: name of the input, such as "text 1" or "reviews.txt line 7".
            things: name of the counted things.

        Raises:
            ArgumentError: the count is above the limit.
        """
        limit = getattr(self, field)
        if count > limit:
            raise ArgumentError(
                lambda name: (
                    f"{source} has {count:,} {things}, but {name(f'limits.{field}')} is {limit:,}; "
                    f"make it shorter, or raise {name(f'limits.{field}')}"
                )
            )

    def check_text(self, text: str, source: str, what: str = "text") -> None:
        """Checks that a value is a text that a tokenizer can take.

        Args:
            text: the value.
            source: name of the input.
            what: name of the text within the input.

        Raises:
            ValueError: it is not a str, contains half of a surrogate pair (which is not a character), or is too long.
        """
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


def check_not_blank(text: str, source: str, what: str = "text") -> None:
    """Checks that a text contains more than white space.

    Raises:
        ValueError: the text is blank. The message begins with `source`.
    """
    if not text.strip():
        raise ValueError(f"{source} has no word in its {what}; give a {what}")


def shown(value: object) -> str:
    """Returns the representation of a value for an error message, cut to 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
