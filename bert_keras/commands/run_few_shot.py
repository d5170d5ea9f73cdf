"""Makes a classifier from a few texts of each class, or from the names of the classes, evaluates it and predicts.

    python run_few_shot.py --do_train --do_eval --train_file=labelled.csv --eval_file=test.csv \\
        --init_checkpoint=minilm --output_dir=first

The encoder first learns to give the texts of a class similar vectors; then a logistic regression on the vectors becomes
the head. The best encoders for it are those for vectors of sentences. Without --do_train, the program uses the model in
--output_dir.
"""

import sys

from bert_keras.cli.flags import run_main
from bert_keras.programs.command import PROGRAMS, run_command

PROGRAM = PROGRAMS["run_few_shot"]
define_flags = PROGRAM.define_flags


def main(argv: list[str]) -> dict[str, float] | None:
    """Runs the program, and returns the metrics of the last evaluation."""
    return run_command(argv, PROGRAM, __doc__)


def run_program() -> None:
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))
