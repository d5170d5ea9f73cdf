"""Trains a model that scores texts for a query, evaluates it and predicts.

    python run_reranker.py --do_train --do_eval --train_file=queries.csv --eval_file=dev.csv \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=reranker

Files are tables: a query, a text that fits and others that do not, or a query, a text and a score. To resume an
interrupted run, run the same command again. Without --do_train, the program uses the model in --output_dir.
"""

import sys

from bert_keras.cli.flags import run_main
from bert_keras.programs.command import PROGRAMS, run_command

PROGRAM = PROGRAMS["run_reranker"]
define_flags = PROGRAM.define_flags


def main(argv: list[str]) -> dict[str, float] | None:
    """Runs the program, and returns the metrics of the last evaluation."""
    return run_command(argv, PROGRAM, __doc__)


def run_program() -> None:
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))
