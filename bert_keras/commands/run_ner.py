"""Trains a model that tags words, for example named entities (paper, section 5.3), evaluates it and predicts.

    python run_ner.py --do_train --do_eval --do_predict --data_dir=conll2003 \\
        --init_checkpoint=cased_L-12_H-768_A-12 --output_dir=ner_model

Files are CoNLL columns, with one word and its tag on each line, or JSON lines of words and tags. To resume an
interrupted run, run the same command again. Without --do_train, the program uses the model in --output_dir.
"""

import sys

from bert_keras.cli.flags import run_main
from bert_keras.programs.command import PROGRAMS, run_command

PROGRAM = PROGRAMS["run_ner"]
define_flags = PROGRAM.define_flags


def main(argv: list[str]) -> dict[str, float] | None:
    """Runs the program, and returns the metrics of the last evaluation."""
    return run_command(argv, PROGRAM, __doc__)


def run_program() -> None:
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))
