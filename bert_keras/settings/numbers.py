"""Parsers of flags that absl lacks: for numbers with other limits, for several values, and for true, false or auto."""

import csv
import io
import math
from typing import Any

from absl import flags

from bert_keras.mistakes import Mistake


class NumberParser(flags.ArgumentParser):
    """Parses a float from `lowest` to below `limit`, never NaN or infinity."""

    syntactic_help = "a number"

    def __init__(self, lowest: float, limit: float = math.inf) -> None:
        super().__init__()
        self._lowest = lowest
        self._limit = limit

    def parse(self, argument: str | float) -> float:
        try:
            number = float(argument if isinstance(argument, str) else _number_of(argument, float))
        except (TypeError, ValueError):
            raise Mistake("{!r} is not a number", argument) from None
        if not self._lowest <= number < self._limit:
            end = "" if self._limit == math.inf else f" to below {self._limit}"
            raise Mistake("{:g} is not a number from {:g}{}", number, self._lowest, end)
        return number

    def flag_type(self) -> str:
        return "float"


class NumbersParser(flags.ArgumentParser):
    """Parses numbers separated by commas into a tuple. `is_open`: the lower bound itself is not valid."""

    syntactic_help = "numbers, separated by commas"
    serializer = flags.CsvListSerializer(",")

    def __init__(
        self, kind: type[int] | type[float], lower_bound: float, is_open: bool = False, may_repeat: bool = False
    ) -> None:
        super().__init__()
        self._may_repeat = may_repeat
        self._kind = kind
        self._lower_bound = lower_bound
        self._is_open = is_open

    def parse(self, argument: str | float | list[float] | tuple[float, ...]) -> tuple[float, ...]:
        """Returns the numbers of a text, or of a run_config.json."""
        parts = argument.split(",") if isinstance(argument, str) else argument
        parts = parts if isinstance(parts, (list, tuple)) else [parts]
        numbers = tuple(self._number(part) for part in parts)
        if not self._may_repeat and len(set(numbers)) < len(numbers):
            raise Mistake("a number occurs twice: {!s}", argument)
        return numbers

    def _number(self, part: str | float) -> float:
        try:
            number = self._kind(part if isinstance(part, str) else _number_of(part, self._kind))
        except (TypeError, ValueError):
            name = "a whole number" if self._kind is int else "a number"
            raise Mistake("{!r} is not {}", part.strip() if isinstance(part, str) else part, name) from None
        if not math.isfinite(number):
            raise Mistake("{} is not a finite number", number)
        if not (number > self._lower_bound if self._is_open else number >= self._lower_bound):
            raise Mistake("{} is not {} {}", number, "above" if self._is_open else "at least", self._lower_bound)
        return number

    def flag_type(self) -> str:
        return f"{self._kind.__name__}s"


class SwitchParser(flags.BooleanParser):
    """Parses true, false or auto. A flag with `boolean=True` also has the forms --name and --noname."""

    serializer = flags.ArgumentSerializer()

    def parse(self, argument: str | bool | int) -> Any:
        try:
            return argument if argument == "auto" else super().parse(argument)
        except (TypeError, ValueError):
            raise Mistake("{!r} is not true, false or auto", argument) from None


class TextParser(flags.ArgumentParser):
    """Parses a text that may be missing, but not empty, as it is after `--flag=$NAME` if the shell has no such name."""

    def parse(self, argument: str) -> str:
        if argument == "":
            raise Mistake("it is empty; give a value, or leave it out")
        super().parse(argument)  # refuses what is not a text
        return argument


class ListedParser(TextParser):
    """Parses a text that may have several parts between commas; Python may give them in a list, or as one number."""

    def parse(self, argument: str | int | list[str | float]) -> str:
        if not isinstance(argument, list):
            return super().parse(text_of(argument))
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(map(text_of, argument))
        return line.getvalue()


def text_of(value: str | float) -> str:
    """Returns a text, such as the name of a column, or a number as one. Raises TypeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise TypeError
    return str(value)


def _number_of(value: Any, kind: type[int] | type[float]) -> float:
    """Returns a number of Python. Raises TypeError for anything else, and for a fraction where `kind` is int."""
    if isinstance(value, bool) or not isinstance(value, (int, kind)):
        raise TypeError
    return value
