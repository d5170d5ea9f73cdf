"""Flags that say how to read text, shared by the programs that read it."""

import dataclasses
from typing import Any

from absl import flags

from bert_keras.data_prep.cleaning.filters import DUPLICATES, NORMALIZATIONS, Cleaning
from bert_keras.data_prep.corpus.raw_text import DOCUMENTS, RELEASE, TextOptions

INPUT_FILE = (
    "Required. Text files, JSON lines, Parquet or Arrow, also compressed: paths, patterns and folders, separated by "
    "commas; - is standard input."
)
_BOOLEANS = {
    "split_sentences": "Split each line into sentences by rules.",
    "join_lines": "Join the lines up to a blank line before splitting: for text with a fixed width.",
}


def define_text_flags(values: flags.FlagValues) -> None:
    """Defines the flags of `TextOptions`."""
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_string(
        "text_field",
        None,
        "Field of JSON lines, or column of Parquet and Arrow, with the text: one document a row. If not given: text.",
        **define,
    )
    flags.DEFINE_enum(
        "documents",
        RELEASE.documents,
        DOCUMENTS,
        "Where a document of a text file ends: at a blank line, with the file, with the line, or before a heading "
        "of Markdown or Wikipedia.",
        **define,
    )
    for name, meaning in _BOOLEANS.items():
        flags.DEFINE_bool(name, False, meaning, **define)


def read_text_options(values: flags.FlagValues) -> TextOptions:
    """Returns the options; raises ValueError for options that contradict each other."""
    return TextOptions(values.text_field, values.documents, values.split_sentences, values.join_lines)


def define_cleaning_flags(values: flags.FlagValues) -> None:
    """Defines the flags of `Cleaning`, except the seed."""
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_enum(
        "unicode_normalization", "none", NORMALIZATIONS, "Unicode normal form to give the text first.", **define
    )
    flags.DEFINE_integer(
        "drop_repeated_lines",
        0,
        "Remove lines that occur in at least this many different documents, such as menus. 0 keeps all.",
        **define,
    )
    flags.DEFINE_integer("min_document_words", 0, "Remove documents with fewer words.", **define)
    flags.DEFINE_enum(
        "remove_duplicates",
        "none",
        DUPLICATES,
        "Remove documents that equal an earlier one, apart from case and white space.",
        **define,
    )
    flags.DEFINE_float(
        "eval_share",
        0.0,
        "Share of the documents to hold out. A hash of the text and --random_seed choose them; "
        "--eval_output_file gets their examples.",
        **define,
    )


def read_cleaning(values: flags.FlagValues) -> Cleaning:
    """Returns what to clean and hold out; raises ValueError for an invalid value."""
    given = values.flag_values_dict()
    return Cleaning(**{field.name: given[field.name] for field in dataclasses.fields(Cleaning)})
