"""Flags that say how to read text, shared by the programs that read it."""

from typing import Any

from absl import flags

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
