#!/usr/bin/env python3
"""Trains a small model, the student, to answer like a fine-tuned model, the teacher, and evaluates it and predicts.

    python run_distillation.py --do_train --do_eval --teacher=mrpc --task_name=mrpc --data_dir=glue/MRPC \\
        --init_checkpoint=uncased_L-4_H-256_A-4 --output_dir=mrpc_small
    python run_distillation.py --do_train --do_eval --teacher=reviews --train_file=reviews.csv --eval_file=dev.csv \\
        --unlabeled_file=more.csv --init_checkpoint=uncased_L-4_H-256_A-4 --output_dir=reviews_small

The tasks and their data are those of run_classifier.py, and so are the flags. The texts of --unlabeled_file need no
labels. The result is a run folder like that of run_classifier.py. To resume an interrupted run, run the same command
again.
"""

import sys

from bert_keras.cli.flags import parse, run_main
from bert_keras.cli.start import start_tensorflow
from bert_keras.data_prep.tasks.columns import check_columns

if __name__ == "__main__" and (status := run_main(check_columns, sys.argv)):
    sys.exit(status)  # before TensorFlow, which takes seconds to load
start_tensorflow()

from bert_keras.cli.console import open_console
from bert_keras.training.api.distillation import define_flags, run


def main(argv):
    """Runs the program, and returns the metrics of the last evaluation or None."""
    flag_values = define_flags()
    parse(flag_values, argv, __doc__)
    return run(flag_values, open_console())


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
