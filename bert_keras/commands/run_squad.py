"""Trains a model that finds answers to questions in texts (SQuAD 1.1 and 2.0), evaluates it and predicts.

    python run_squad.py --do_train --do_predict --train_file=train-v1.1.json --predict_file=dev-v1.1.json \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=squad_model

For SQuAD 2.0, where a text may not contain the answer, give --version_2_with_negative. To resume an interrupted run,
run the same command again. Without --do_train, the program uses the model in --output_dir. The flags of the original
BERT keep their names, defaults and meaning.
"""

import sys

from bert_keras.cli.flags import run_main
from bert_keras.programs.command import PROGRAMS, run_command

PROGRAM = PROGRAMS["run_squad"]
define_flags = PROGRAM.define_flags


def main(argv: list[str]) -> dict[str, float] | None:
    """Runs the program, and returns the metrics of the last evaluation."""
    return run_command(argv, PROGRAM, __doc__)


def run_program() -> None:
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))
