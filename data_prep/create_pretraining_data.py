#!/usr/bin/env python3
"""Command line: converts text files to TFRecord files of masked-LM and next-sentence examples.

    python data_prep/create_pretraining_data.py --input_file=text.txt --vocab_file=vocab.txt \\
        --output_file=train.tfrecord

The text needs one sentence per line and a blank line after each document. With the same flags and seed, the examples
equal those of the original BERT, in the same order and files. With --num_workers=2 or more, several processes share the
work; every such number gives the same files. Text, vocabulary and outputs can be remote (gs://bucket/file).
"""

import contextlib
import logging
import os
import re
import sys
from collections.abc import Callable
from dataclasses import fields

if not __package__:
    # Python looks for modules in the folder of a script, data_prep/; the packages are in the folder above.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from absl import flags
from rich.table import Table

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import given_flags, parse, require, run_main
from bert_keras.cli.progress import Progress, ProgressBar
from bert_keras.data_prep.corpus.documents import find_text_files
from bert_keras.data_prep.pretraining.build import PretrainingDataSettings, build_pretraining_data
from bert_keras.data_prep.pretraining.instances import SENTENCE_TASKS
from bert_keras.data_prep.pretraining.masking import SPAN_LENGTHS
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import read_casing
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

_ROWS = {
    "documents": "documents",
    "sentences": "sentences",
    "tokens": "tokens",
    "instances": "instances",
    "masked_share": "masked, of the tokens that are not padding",
    "padding_share": "padding, of all positions",
    "unknown_share": "unknown ([UNK]), of the text's tokens",
}
# Splits a file name into stem and ending: "train-v1.0" and ".tfrecord.gz".
_NAME = re.compile(r"(.*?)((?:\.[A-Za-z_]\w*)?(?:\.gz)?)", re.DOTALL)
_LABELS_SHOWN = {
    "next_sentence": "random next, of the instances",
    "sentence_order": "exchanged, of the instances",
}


def define_flags() -> flags.FlagValues:
    """Returns the flags: those of the original BERT with the same names and defaults, and additional ones."""
    values = flags.FlagValues()
    defaults = PretrainingDataSettings()

    def define(kind, name, default, meaning):
        kind(name, default, meaning, flag_values=values)

    text, number, switch = flags.DEFINE_string, flags.DEFINE_integer, flags.DEFINE_bool
    define(text, "input_file", None, "Text files, may be compressed: names and patterns, separated by commas.")
    define(text, "output_file", None, "TFRecord files to write, separated by commas; examples go to them in turn.")
    define(text, "vocab_file", None, "The WordPiece vocabulary, one token a line.")
    define(
        switch,
        "do_lower_case",
        True,
        "Lower-case and strip accents. If not given, tokenizer_config.json next to the vocabulary decides.",
    )
    define(switch, "strip_accents", None, "Strip accents, or keep them; if not given, as --do_lower_case.")
    define(switch, "do_whole_word_mask", defaults.do_whole_word_mask, "Mask words with all their tokens.")
    define(number, "max_seq_length", defaults.max_seq_length, "Length of every example, in tokens.")
    define(
        number,
        "max_predictions_per_seq",
        defaults.max_predictions_per_seq,
        "The most masked tokens in an example; about max_seq_length * masked_lm_prob.",
    )
    define(number, "random_seed", defaults.random_seed, "Seed of all random choices.")
    define(number, "dupe_factor", defaults.dupe_factor, "Number of times to use the text, each time with other masks.")
    define(flags.DEFINE_float, "masked_lm_prob", defaults.masked_lm_prob, "Share of the tokens to mask.")
    define(
        flags.DEFINE_float,
        "short_seq_prob",
        defaults.short_seq_prob,
        "Probability that a document is cut into shorter examples.",
    )
    define(switch, "strict_utf8", defaults.strict_utf8, "Refuse text that is not UTF-8 instead of dropping bytes.")
    choice = flags.DEFINE_enum
    choice(
        "masked_spans",
        defaults.masked_spans,
        list(SPAN_LENGTHS),
        "Mask spans of words: ngram: up to 3 words, as ALBERT; geometric: up to 10, as SpanBERT.",
        flag_values=values,
    )
    define(switch, "dynamic_masking", defaults.dynamic_masking, "Write examples without masks; training masks them.")
    choice(
        "sentence_task",
        defaults.sentence_task,
        list(SENTENCE_TASKS),
        "sentence_order: detect exchanged segments, as ALBERT; none: whole sentences without a task, as RoBERTa.",
        flag_values=values,
    )
    define(number, "num_workers", 1, "Number of processes. 1 keeps the original order; all others give the same files.")
    define(number, "num_shards", 1, "Record files to write; with more than 1, NAME-00000-of-00010.tfrecord and so on.")
    choice(
        "compression", "none", ("none", "gzip"), "gzip: compressed records, as for a name in .gz.", flag_values=values
    )
    define(text, "work_dir", None, "Local folder for unfinished work; if not given, that of the first output.")
    return values


def main(argv: list[str]) -> dict:
    """Builds examples from command-line arguments.

    Args:
        argv: program name and arguments.

    Returns:
        The summary; see `data_prep.pretraining.summary.Summary.as_dict`.

    Raises:
        FileNotFoundError, ValueError: user error, described in one sentence.
    """
    values = define_flags()
    parse(values, argv, __doc__)
    return build(values, values.num_workers)


def build(values: flags.FlagValues, num_workers: int, start_workers: Callable | None = None) -> dict:
    """Builds examples from parsed flags.

    Args:
        values: flags of `define_flags`; `num_workers` is ignored.
        num_workers, start_workers: see `build_pretraining_data`.

    Returns and raises: see `main`.
    """
    require(values, ("input_file", "output_file", "vocab_file"))
    settings = PretrainingDataSettings(
        **{field.name: values[field.name].value for field in fields(PretrainingDataSettings)}
    )
    input_files = find_text_files(values.input_file)
    output_files = _name_shards([name.strip() for name in values.output_file.split(",")], values.num_shards)
    is_gzip = _is_gzip(output_files, values.compression, "compression" in given_flags(values))
    if values.work_dir and paths.is_remote(values.work_dir):
        raise ValueError(f"--work_dir={values.work_dir} is remote; give a local folder")
    console = open_console()
    tokenizer = FullTokenizer(values.vocab_file, **_casing(values))
    log.info("input: %s", ", ".join(input_files))
    with ProgressBar(console) if console.is_terminal else contextlib.nullcontext(Progress()) as progress:
        summary = build_pretraining_data(
            input_files,
            output_files,
            tokenizer,
            settings,
            values.vocab_file,
            progress,
            num_workers=num_workers,
            is_gzip=is_gzip,
            start_workers=start_workers,
            work_dir=values.work_dir,
        )
    console.print(_table(summary, settings))
    log.info(
        "wrote %s", ", ".join(output_files) if len(output_files) < 10 else f"{output_files[0]} to {output_files[-1]}"
    )
    return summary


def _name_shards(output_files: list[str], num_shards: int) -> list[str]:
    """Returns the names of the record files; several shards are named NAME-00000-of-00010.tfrecord."""
    if num_shards == 1:
        return output_files
    if num_shards < 1:
        raise ValueError(f"--num_shards={num_shards} is not a valid number of files; give 1 or more")
    if len(output_files) > 1:
        raise ValueError(
            f"--output_file names {len(output_files)} files, but --num_shards={num_shards} needs one name; "
            "give one name, or leave out --num_shards"
        )
    stem, ending = _NAME.fullmatch(output_files[0]).groups()
    return [f"{stem}-{number:05}-of-{num_shards:05}{ending}" for number in range(num_shards)]


def _is_gzip(output_files: list[str], compression: str, is_given: bool) -> bool:
    is_named_so = [name.endswith(".gz") for name in output_files]
    if any(is_named_so) and not all(is_named_so):
        raise ValueError("--output_file names compressed files (.gz) and others; give all of them the same ending")
    if is_given and compression == "none" and any(is_named_so):
        raise ValueError(
            f"--compression=none contradicts the name {output_files[0]}; leave out --compression, or the ending .gz"
        )
    return compression == "gzip" or all(is_named_so)


def _casing(values: flags.FlagValues) -> dict[str, bool | None]:
    """Returns the arguments for text preparation; explicit flags override the folder of the vocabulary."""
    casing = {"do_lower_case": values.do_lower_case, "strip_accents": values.strip_accents}
    for name, value in read_casing(values.vocab_file).items():
        if name not in given_flags(values):
            casing[name] = value
            log.info("--%s=%s (set in the tokenizer_config.json next to %s)", name, value, values.vocab_file)
    return casing


def _table(summary: dict, settings: PretrainingDataSettings) -> Table:
    table = Table("", "examples built", show_edge=False)
    table.columns[1].justify = "right"
    left_out = {"random_next_share"} if settings.sentence_task == "none" else set()
    left_out |= {"masked_share"} if settings.dynamic_masking else set()
    rows = {**_ROWS, "random_next_share": _LABELS_SHOWN.get(settings.sentence_task)}
    for name, value in summary.items():
        if name in left_out:
            continue
        is_share = name.endswith("_share")
        table.add_row(rows[name], f"{100 * value:.2f} %" if is_share else f"{value:,}")
    return table


def run() -> None:
    """Runs the program; exits with status 0, or prints a user error and exits with status 1."""
    sys.exit(run_main(main, sys.argv))


if __name__ == "__main__":
    run()
