"""Finds wrong labels in a table of texts, and the texts without a label that help most with one.

    python check_labels.py --train_file=reviews.csv --init_checkpoint=minilm --output_dir=checked
    python check_labels.py --train_file=reviews.csv --unlabeled_file=more.csv --init_checkpoint=minilm \\
        --output_dir=checked

Each text gets its probabilities from a model of the other texts: a logistic regression on the vectors of the encoder,
or with --fine_tune a fine-tuned model. The tables in --output_dir: suspects.tsv has the texts that contradict their
label, confused_classes.tsv the classes that are taken for each other, duplicates.tsv equal texts with different labels,
leaks.tsv texts of --eval_file that --train_file has, too, and next_labels.tsv the texts to label next.
"""

import sys

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import run_main
from bert_keras.programs.command import PROGRAMS

PROGRAM = PROGRAMS["check_labels"]
define_flags = PROGRAM.define_flags


def main(argv: list[str]) -> None:
    """Runs the program, given its name and its flags."""
    check = PROGRAM.open_run(*PROGRAM.read(argv, __doc__), open_console())
    if check is not None:
        check.execute()


def run_program() -> None:
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))
