#!/usr/bin/env python3
"""Learns a WordPiece vocabulary from text files.

    python data_prep/build_vocab.py --input_file='texts/*.txt' --vocab_file=vocab.txt --vocab_size=30522

The reserved tokens have the same ids as in the released vocabularies. A table shows how well the vocabulary covers the
text.
"""

import dataclasses
import importlib.util
import logging
import os
import sys
from typing import Any

if not __package__:
    # Python looks for modules in the folder of a script, data_prep/; the packages are in the folder above.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from absl import flags
from rich.table import Table

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse, require, run_main
from bert_keras.cli.progress import progress_on
from bert_keras.cli.start import start_tensorflow
from bert_keras.data_prep.corpus.documents import check_text_files, find_text_files
from bert_keras.data_prep.corpus.text_flags import INPUT_FILE, define_text_flags, read_text_options
from bert_keras.data_prep.corpus.text_sources import received
from bert_keras.data_prep.text.splitting import BasicTokenizer
from bert_keras.data_prep.text.vocabulary_learning import count_words, cover, learn_vocabulary
from bert_keras.storage import paths, writing
from bert_keras.storage.checks import check_output_file

log = logging.getLogger("bert_keras")


def define_flags() -> flags.FlagValues:
    """Returns the flags of this program."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_string("input_file", None, INPUT_FILE, **define)
    flags.DEFINE_string("vocab_file", None, "Required. Vocabulary to write; it must not exist.", **define)
    flags.DEFINE_integer("vocab_size", 30522, "Number of word pieces in the vocabulary.", **define)
    flags.DEFINE_bool("do_lower_case", True, "Lower-case texts and strip accents.", **define)
    flags.DEFINE_integer(
        "num_unused", 994, "Number of [unusedN] tokens, for words that you add.", lower_bound=0, **define
    )
    flags.DEFINE_integer(
        "alphabet_size", 1000, "Number of frequent characters that become tokens.", lower_bound=1, **define
    )
    flags.DEFINE_integer("num_workers", 1, "Number of processes. The vocabulary does not depend on it.", 1, **define)
    define_text_flags(values)
    flags.DEFINE_bool("strict_utf8", False, "Refuse text that is not UTF-8 instead of dropping bytes.", **define)
    return values


def main(argv: list[str]) -> dict:
    """Builds a vocabulary; returns "vocab_size" and the attributes of `Coverage`."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("input_file", "vocab_file"))
    if importlib.util.find_spec("tensorflow_text") is None:
        raise ValueError("tensorflow-text is not installed: pip install tensorflow-text (on Windows, use WSL2)")
    found_files, text_options = find_text_files(values.input_file), read_text_options(values)
    check_output_file(values.vocab_file, "--vocab_file", {"--input_file": found_files})
    if paths.exists(values.vocab_file):
        raise ValueError(f"--vocab_file={values.vocab_file} exists, and models may depend on it; choose another name")

    console = open_console()
    tokenizer = BasicTokenizer(values.do_lower_case)
    with received(found_files) as input_files, progress_on(console) as progress:
        check_text_files(input_files, text_options)
        counts = count_words(input_files, tokenizer, values.num_workers, values.strict_utf8, progress, text_options)
    start_tensorflow()  # TensorFlow Text learns the vocabulary; the counting processes have ended
    pieces = learn_vocabulary(counts, values.vocab_size, values.num_unused, values.alphabet_size)
    writing.write_text(values.vocab_file, "".join(f"{piece}\n" for piece in pieces))
    summary = {"vocab_size": len(pieces), **dataclasses.asdict(cover(counts, pieces))}
    console.print(_table(summary))
    log.info("wrote %s; use it with --do_lower_case=%s", values.vocab_file, values.do_lower_case)
    return summary


def _table(summary: dict) -> Table:
    table = Table("", "of the text", show_edge=False)
    table.columns[1].justify = "right"
    table.add_row("tokens in the vocabulary", f"{summary['vocab_size']:,}")
    table.add_row("words", f"{summary['num_words']:,}")
    table.add_row("different words", f"{summary['num_different']:,}")
    table.add_row("words that are one token", f"{100 * summary['whole_share']:.2f} %")
    table.add_row("word pieces per word", f"{summary['pieces_per_word']:.3f}")
    table.add_row("unknown words ([UNK])", f"{100 * summary['unknown_share']:.2f} %")
    if summary["unknown_characters"]:
        table.add_row("most frequent unknown characters", " ".join(summary["unknown_characters"]))
    return table


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
