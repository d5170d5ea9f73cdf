"""Pre-trains BERT with masked LM and next sentence prediction on record files of examples.

    python data_prep/create_pretraining_data.py --input_file=text.txt --vocab_file=vocab.txt \\
        --output_file=train.tfrecord
    python run_pretraining.py --do_train --do_eval --bert_config_file=bert_config.json --input_file=train.tfrecord \\
        --eval_file=held_out.tfrecord --output_dir=model

Without any flag, the program runs a demo from text to model in about two minutes. To resume an interrupted run, run the
same command again. The flags of the original BERT keep their names, defaults and meaning.
"""

import sys

from bert_keras.cli.flags import run_main
from bert_keras.programs.command import PROGRAMS, run_command

PROGRAM = PROGRAMS["run_pretraining"]
define_flags = PROGRAM.define_flags


def main(argv: list[str]) -> dict[str, float] | None:
    """Runs the program, and returns the metrics of the last evaluation."""
    if len(argv) == 1:
        from bert_keras.programs.demo import run_demo

        return run_demo(argv[0], PROGRAM)
    return run_command(argv, PROGRAM, __doc__)


def run_program() -> None:
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))
