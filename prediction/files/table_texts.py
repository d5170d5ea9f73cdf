"""Reads texts from a table (CSV, TSV, JSON lines). Imports without TensorFlow."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from bert_keras.data_prep.tasks.columns import KNOWN_NAMES, Columns, find_columns, read_columns
from bert_keras.data_prep.tasks.tables import BadRow
from bert_keras.data_prep.tasks.user_data import iterate_own_file
from bert_keras.prediction.files.input_texts import Text, begun
from bert_keras.storage import paths, text_files

log = logging.getLogger("bert_keras")

# All other files, such as `.txt`, have one text a line.
_ENDINGS = (".csv", ".tsv", ".jsonl", ".json")


def is_table(input_file: str) -> bool:
    """Returns whether a file is a table, by the ending of its name."""
    name = input_file.lower()
    for ending in text_files.COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    return name.endswith(_ENDINGS)


def columns_of_training(model_dir: str) -> dict[str, Any]:
    """Returns the settings of a training run, given its folder or the folder `model` in it; {} if it has none.

    Raises:
        ValueError: its run_config.json is damaged.
    """
    from bert_keras.modeling.config import read_json_object  # loads TensorFlow

    folder = paths.parent(model_dir.rstrip("/")) if paths.name(model_dir.rstrip("/")) == "model" else model_dir
    file = paths.join(folder, "run_config.json")
    settings = read_json_object(file).get("settings") if paths.is_file(file) else None
    return settings if isinstance(settings, dict) else {}


def read_table(
    input_file: str, shape: str, given: Mapping[str, Any], trained: Mapping[str, Any]
) -> Iterator[tuple[str, Text]]:
    """Reads the texts of a table one at a time. Logs the columns.

    Args:
        input_file: path.
        shape: form of a text: "text", "pair" or "choices".
        given: `text_column`, `text_pair_column`, `choice_columns` and `has_header`; None or empty if not given.
        trained: the columns of the model's training, used if the file has them.

    Returns:
        Iterator over (name of the text for error messages, text). A text is a str, a tuple (text, text), or a tuple
        (text, list of choices); or the ValueError that says why the row is not valid.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file cannot be read, or it is not clear which columns hold the texts.
    """
    columns = _columns(input_file, shape, given, trained)
    taken = [columns.text, *([columns.pair] if columns.pair else columns.choices)]
    log.info("%s: texts are read from: %s", input_file, ", ".join(f'"{column}"' for column in taken))
    has_header = given.get("has_header") or "auto"
    examples = iterate_own_file(input_file, columns, has_header=has_header, keep_bad_rows=True)
    rows = ((example.source, _text_of(example, shape)) for example in examples)
    return begun(rows, f"{input_file} holds no row; give at least one")


def _columns(input_file, shape, given, trained):
    names = read_columns(input_file)
    chosen = {role: given.get(role) or _known(trained.get(role), names) for role in ("text_column", "text_pair_column")}
    text, pair = chosen["text_column"], chosen["text_pair_column"] if shape == "pair" else None
    if shape == "choices":
        choices = given.get("choice_columns") or [_known(name, names) for name in trained.get("choice_columns") or ()]
        if not text or len(choices) < 2 or None in choices:
            raise ValueError(
                f"{input_file}: the columns of the text and its choices are not known; name them with --text_column "
                "and --choice_columns"
            )
        return Columns(text, choices=tuple(choices))
    if not text:
        found = find_columns(input_file, Columns(pair=pair), needs_label=False)
        text, pair = found.text, found.pair if shape == "pair" else None
    if shape == "pair" and not pair:
        raise ValueError(
            f"{input_file}: the model takes pairs, but the column of the second text is not known; name both with "
            "--text_column and --text_pair_column"
        )
    return Columns(text, pair)


def _known(column, names):
    """Returns a column of the training if the file has it; a number counts only if the first row has no known name."""
    has_usual_name = any(name.lower() in KNOWN_NAMES for name in names)
    is_number = (column or "").isdecimal() and int(column) < len(names) and not has_usual_name
    return column if column in names or is_number else None


def _text_of(example, shape):
    if isinstance(example, BadRow):
        return example.error
    if shape == "choices":
        return example.text_a, list(example.choices)
    return example.text_a if shape == "text" else (example.text_a, example.text_b or "")
