#!/usr/bin/env python3
"""Converts text files to TFRecord files of masked-LM and next-sentence examples.

    python data_prep/create_pretraining_data.py --input_file=text.txt --vocab_file=vocab.txt \\
        --output_file=train.tfrecord

The text has one sentence per line and a blank line after each document. For other text, give --split_sentences and
--documents; --dry_run reports what a text gives. With the same flags and seed, the examples equal those of the original
BERT, in the same order and files. With --num_workers=2 or more, several processes share the
work; every such number gives the same files. Text, vocabulary and outputs can be remote (gs://bucket/file).
"""

import dataclasses
import functools
import logging
import os
import sys
from collections.abc import Callable

if not __package__:
    # Python looks for modules in the folder of a script, data_prep/; the packages are in the folder above.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from absl import flags
from rich.table import Table

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, given_flags, parse, require
from bert_keras.cli.progress import progress_on
from bert_keras.data_prep.cleaning.filters import Cleaning
from bert_keras.data_prep.corpus.documents import find_text_files
from bert_keras.data_prep.corpus.raw_text import TextOptions
from bert_keras.data_prep.corpus.text_sources import received
from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
from bert_keras.data_prep.pretraining.flags import Files, casing_of, define_flags, is_gzip, name_outputs
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.pretraining.statistics import measure_text, statistics_table
from bert_keras.data_prep.records.writing import metadata_file
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import tokenizer_file_of
from bert_keras.mistakes import Mistake, some_of
from bert_keras.settings.fields import read_flags
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

_FILES_SHOWN = 10
_ROWS = {
    "documents": "documents",
    "sentences": "sentences",
    "tokens": "tokens",
    "instances": "instances",
    "masked_share": "masked, of the tokens that are not padding",
    "padding_share": "padding, of all positions",
    "unknown_share": "unknown ([UNK]), of the text's tokens",
}
_LABELS = {"next_sentence": "random next, of the instances", "sentence_order": "exchanged, of the instances"}


def main(argv: list[str]) -> dict:
    """Builds examples from command-line arguments; returns the summary of `build_pretraining_data`."""
    values = define_flags()
    parse(values, argv, __doc__)
    return build(values)


def build(values: flags.FlagValues, start_workers: Callable | None = None) -> dict:
    """Builds examples from parsed flags; `start_workers` is that of `Build`."""
    require(values, ("input_file", *(() if values.dry_run else ("output_file",)), "vocab_file"))
    files, settings = read_flags(Files, values), read_flags(PretrainingDataSettings, values)
    text_options, cleaning = read_flags(TextOptions, values), read_flags(Cleaning, values)
    output_files = name_outputs(files.output_file, files.num_shards) if files.output_file else []
    eval_files = name_outputs(files.eval_output_file, called="eval_output_file") if files.eval_output_file else []
    records = [*output_files, *eval_files]
    own_files = [*records, *map(metadata_file, records), files.vocab_file, tokenizer_file_of(files.vocab_file)]
    found_files = find_text_files(files.input_file, own_files)
    if files.work_dir and paths.is_remote(files.work_dir):
        raise Mistake("{work_dir}={} is remote; give a local folder", files.work_dir)
    # The machines of a Beam runner share the folder of the output, but not the system's temporary folder.
    folder = files.work_dir or (paths.parent(files.output_file) if start_workers and files.output_file else None)
    if folder and (files.dry_run or "-" in found_files) and not os.path.isdir(folder):
        raise Mistake("the folder {} does not exist; create it, because the text is copied there first", folder)
    console = open_console()
    tokenizer = FullTokenizer(files.vocab_file, **casing_of(files, given_flags(values)))
    if not files.dry_run:
        log.info("input: %s", some_of(found_files, _FILES_SHOWN, kind=" files"))
    with received(found_files, folder) as input_files, progress_on(console) as progress:
        described = Build(
            input_files,
            output_files,
            tokenizer,
            settings,
            files.vocab_file,
            progress,
            files.num_workers,
            is_gzip=is_gzip(records, values),
            start_workers=start_workers,
            work_dir=folder if files.dry_run else files.work_dir,
            text_options=text_options,
            cleaning=cleaning,
            eval_files=eval_files,
        )
        if files.dry_run:
            statistics = measure_text(described)
        else:
            summary = build_pretraining_data(described)
    if files.dry_run:
        console.print(statistics_table(statistics))
        return dataclasses.asdict(statistics)
    console.print(_table(summary, settings))
    if eval_files:
        log.info("held out: %s examples", f"{summary['eval']['instances']:,}")
    file_names = ", ".join(output_files) if len(output_files) < 10 else f"{output_files[0]} to {output_files[-1]}"
    log.info("wrote %s", ", ".join([file_names, *eval_files]))
    return summary


def _table(summary: dict, settings: PretrainingDataSettings) -> Table:
    table = Table("", "examples built", show_edge=False)
    table.columns[1].justify = "right"
    rows = {**_ROWS, "random_next_share": _LABELS.get(settings.sentence_task)}
    if settings.dynamic_masking:
        del rows["masked_share"]
    for name, value in summary.items():
        if rows.get(name):
            table.add_row(rows[name], f"{100 * value:.2f} %" if name.endswith("_share") else f"{value:,}")
    return table


run_program = functools.partial(as_program, main)

if __name__ == "__main__":
    run_program()
