"""The tables of unicode.json, which the tokenizer in JavaScript reads."""

import unicodedata
from typing import Any

import numpy as np

from bert_keras.data_prep.text.characters import is_dropped_mark
from bert_keras.data_prep.text.graph import code_point_tables as tables
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.words import is_of_word

_SPACES = "".join(char for char in map(chr, range(0x110000)) if char.isspace())


def unicode_tables(tokenizer: FullTokenizer) -> dict[str, Any]:
    """Returns the rules of characters and texts of a tokenizer and of `split_words`, for JSON.

    Returns:
        dict of "unicode_version"; "white_space", the characters that `str.strip` removes; "tokenizer" and "splitter",
        the tables of the two tokenizers; "character_classes", the sum of 1 for a letter or digit (`is_of_word`), 2 for
        a digit and 4 for a capital letter. Each table is a list of runs: the difference from one code point to the
        next, and for how many code points it is the same.
    """
    basic, longest_word = tokenizer.basic_tokenizer, tokenizer.wordpiece_tokenizer.max_input_chars_per_word
    tokenizer_tables = _mode_tables(basic.do_lower_case, basic.strip_accents) | {"longest_word": longest_word}
    if tokenizer.rules.is_foreign:
        tokenizer_tables["sigma_contexts"] = None
    return {
        "unicode_version": unicodedata.unidata_version,
        "white_space": _SPACES,
        "tokenizer": tokenizer_tables | tokenizer.rules.to_json(),
        "splitter": _mode_tables(False, False),
        "character_classes": _runs(tables.table_of(_class_of)),
    }


def _mode_tables(do_lower_case: bool, strip_accents: bool) -> dict[str, Any]:
    table, expansions = tables.character_map(do_lower_case, strip_accents)
    sigma_contexts = tables.table_of(tables.sigma_context, tables.UNCASED)
    return {
        "map": _runs(table),
        "expansion_steps": np.diff(expansions, prepend=0).tolist(),
        "sigma_contexts": _runs(sigma_contexts) if do_lower_case else None,
        "combining_classes": _runs(tables.table_of(unicodedata.combining)) if strip_accents else None,
        "dropped_marks": _runs(tables.table_of(is_dropped_mark)) if strip_accents else None,
    }


def _class_of(char: str) -> int:
    return is_of_word(char) + 2 * char.isdigit() + 4 * char.isupper()


def _runs(table: tuple[np.ndarray, np.ndarray]) -> list[int]:
    """Returns a paged table as runs of equal differences."""
    pages, rows = table
    numbers = rows[pages[:, np.newaxis] + np.arange(1 << tables.PAGE_BITS)].ravel().astype(np.int64)
    steps = np.diff(numbers, prepend=0)
    starts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(steps))])
    counts = np.diff(starts, append=len(steps))
    return np.stack([steps[starts], counts], axis=1).ravel().tolist()
