"""Prints the table of released models."""

from collections.abc import Iterable
from typing import Any

import rich.console
import rich.table

from bert_keras.cli.program_names import as_started

_WIDTH_OF_PIPES = 250  # columns; no line wraps


def print_models(console: rich.console.Console, models: Iterable[Any]) -> None:
    """Prints one row for each model; in a pipe also its number of parameters and its address, and no line wraps."""
    is_short = console.is_terminal
    if not is_short:
        console.width = _WIDTH_OF_PIPES
    table = rich.table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("name", "weights", "case", "use", *(() if is_short else ("parameters", "address"))):
        table.add_column(name, justify="right" if name == "weights" else "left", no_wrap=name != "use")
    for model in models:
        use = f"{model.advice} ({model.alias})" if model.alias else model.advice
        more = () if is_short else (f"{model.num_parameters:,}", model.address)
        table.add_row(model.name, model.readable_size, "uncased" if model.do_lower_case else "cased", use, *more)
    console.print(table)
    if is_short:
        advice = as_started("To download one: python convert_checkpoint.py --download=NAME")
        console.print(advice, markup=False, highlight=False)
