"""Fine-tunes BERT for classification, regression, multi-label or multiple-choice tasks, evaluates and predicts.

    python run_classifier.py --do_train --do_eval --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=mrpc \\
        --task_name=mrpc --data_dir=glue/MRPC
    python run_classifier.py --do_train --do_eval --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=reviews \\
        --train_file=reviews.csv --eval_share=0.2

The data are a GLUE task, XNLI or SWAG by name, your own files (CSV, TSV, JSON lines), or a dataset of TensorFlow
Datasets. Without any flag, the program runs a demo: it trains a tiny BERT on sample messages in a minute. To resume
an interrupted run, run the same command again. The flags of the original BERT keep their names, defaults and meaning.
"""

import sys

from bert_keras.cli.flags import run_main
from bert_keras.programs.command import PROGRAMS, run_command

PROGRAM = PROGRAMS["run_classifier"]
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
