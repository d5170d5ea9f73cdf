"""How the programs that classify read tables."""

import dataclasses
from collections.abc import Callable
from typing import Any

from bert_keras.settings.effects import ON
from bert_keras.settings.fields import free, setting
from bert_keras.settings.numbers import ListedParser
from bert_keras.tasks.tables.columns import HEADERS

# The kinds of labels, and the task in the task.json of a model that gives them.
KINDS = {
    "single_label": "classification",
    "regression": "regression",
    "multi_label": "multi_label",
    "multiple_choice": "multiple_choice",
}
# Data that have their own form.
KNOWN = {"task_name": ON}
TFDS = {"tfds": ON}
# How a run reads texts from tables, which predictions with its model repeat.
_TEXT_SETTINGS = {"text_column": None, "text_pair_column": None, "choice_columns": (), "has_header": "auto"}


def header_setting(make: Callable[..., Any] = setting, **conditions: Any) -> Any:
    """Makes the field has_header; `make` is `setting` or `free`."""
    text = "Whether the first row of a .csv or .tsv file names the columns. auto: decided from its content."
    return make(text, "auto", choices=HEADERS, **conditions)


def given_columns(settings: object) -> dict[str, Any]:
    """Returns how the settings of a run say that texts are read from tables, for task.json."""
    values = {name: getattr(settings, name, default) for name, default in _TEXT_SETTINGS.items()}
    return {name: value for name, value in values.items() if value and value != _TEXT_SETTINGS[name]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnSettings:
    """How programs that classify read the user's tables."""

    title = "Columns of your own data"

    text_column: str | None = setting(
        "Column of the text: its name, or its number from 0; Subject,Body joins two. If not given: found by its name.",
        None,
        parser=ListedParser(),
        unless=KNOWN,
    )
    text_pair_column: str | None = setting(
        "Column of the second text of a pair. If not given: found by its name.",
        None,
        parser=ListedParser(),
        unless=KNOWN,
    )
    label_column: str | None = setting(
        "Column of the label. If not given: found by its name.", None, parser=ListedParser(), unless=KNOWN
    )
    id_column: str | None = free(
        "Column of the id, for the tables of results. If not given: predictions have the row number from 0.",
        None,
        parser=ListedParser(),
        unless=KNOWN,
    )
    has_header: str = header_setting(unless=KNOWN | TFDS)
    skip_bad_rows: bool = setting("Leave out rows that cannot be read, and count them.", False, unless=TFDS)
