"""Trains vectors of texts: texts of similar meaning get similar vectors. Evaluates them and writes them.

    python run_sentence_vectors.py --do_train --do_eval --train_file=pairs.tsv --eval_file=STS-B/dev.tsv \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=vectors_model

The columns of --train_file decide the loss: pairs and triplets are ranked among the texts of a batch, scored pairs
teach the cosine, and single texts are recognized again under dropout (SimCSE). The columns of --eval_file decide the
metrics: correlation, retrieval or clustering. To resume an interrupted run, run the same command again.
"""

import sys

from bert_keras.cli.flags import run_main
from bert_keras.programs.command import PROGRAMS, run_command

PROGRAM = PROGRAMS["run_sentence_vectors"]
define_flags = PROGRAM.define_flags


def main(argv: list[str]) -> dict[str, float] | None:
    """Runs the program, and returns the metrics of the last evaluation."""
    return run_command(argv, PROGRAM, __doc__)


def run_program() -> None:
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))
