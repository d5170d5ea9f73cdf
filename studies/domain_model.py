#!/usr/bin/env python3
"""Pre-trains a model further on a domain's text, and measures with intervals whether this helps a task.

    python studies/domain_model.py --init_checkpoint=uncased_L-12_H-768_A-12 --input_file='reviews/*.txt' \\
        --train_file=train.csv --eval_file=dev.csv --output_dir=reviews_model

The program builds examples from the text, continues the pre-training with masked LM, and then fine-tunes both models,
the given one and the new one, with several seeds. The report has both accuracies, and the difference with its interval
over seeds and examples. The new model is --output_dir/model. An interrupted run continues.
docs/guides/domain_model.md describes each step as a command of its own.
"""

import pathlib
import sys
from typing import Any, cast

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse, require, run_main
from bert_keras.cli.start import start_tensorflow


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_string(
        "init_checkpoint", None, "Required. Model to start from: its folder, or hf://owner/name.", **define
    )
    flags.DEFINE_list(
        "input_file", None, "Required. Text of the domain: paths and patterns, also .jsonl and compressed.", **define
    )
    flags.DEFINE_bool(
        "split_sentences", False, "Split lines into sentences. If not: a sentence on each line.", **define
    )
    flags.DEFINE_string("text_field", None, "Field of the text in JSON lines, Parquet and Arrow.", **define)
    flags.DEFINE_string("train_file", None, "Required. Texts with classes to fine-tune on: CSV, TSV, .jsonl.", **define)
    flags.DEFINE_string("eval_file", None, "Required. Texts with classes to compare the models on.", **define)
    flags.DEFINE_string("text_column", None, "Column of the text. If not given: found by its name.", **define)
    flags.DEFINE_string("label_column", None, "Column of the class. If not given: found by its name.", **define)
    flags.DEFINE_string("output_dir", "domain_model", "Folder for the model and the report.", **define)
    flags.DEFINE_integer("max_seq_length", 128, "Tokens in an example, in both trainings.", 8, **define)
    flags.DEFINE_integer("num_train_steps", 2000, "Steps of the pre-training.", 1, **define)
    flags.DEFINE_integer("train_batch_size", 32, "Examples in an update, in both trainings.", 1, **define)
    flags.DEFINE_float("pretraining_learning_rate", 1e-4, "Highest learning rate of the pre-training.", **define)
    flags.DEFINE_float("learning_rate", 5e-5, "Highest learning rate of the fine-tuning.", **define)
    flags.DEFINE_float("num_train_epochs", 3.0, "Epochs of the fine-tuning.", **define)
    flags.DEFINE_integer("num_seeds", 5, "Fine-tunings of each model; an interval needs 3 or more.", 1, **define)
    flags.DEFINE_string("precision", "float32", "Number format of matrix products, as in the other programs.", **define)
    return values


def main(argv):
    """Runs the program; `argv` is a list of str: the program's name, then its flags."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("init_checkpoint", "input_file", "train_file", "eval_file"))
    open_console()
    start_tensorflow()
    from studies.runner.domain import compare, pretrain_further, read_task

    train, test = read_task(values.train_file, values.eval_file, values.text_column, values.label_column)
    folder, start = pathlib.Path(values.output_dir), values.init_checkpoint
    shared = {name: values[name].value for name in ("train_batch_size", "max_seq_length", "precision")}
    of_text = {name: values[name].value for name in ("split_sentences", "text_field") if values[name].present}
    pretraining = {"learning_rate": values.pretraining_learning_rate, "num_train_steps": values.num_train_steps}
    fine_tuning = {"learning_rate": values.learning_rate, "num_train_epochs": values.num_train_epochs}
    texts = ",".join(values.input_file)
    model = pretrain_further(start, texts, folder / "model", {**shared, **of_text, **pretraining})
    print(compare(start, model, train, test, shared | fine_tuning, values.num_seeds, folder), end="")


def run_program():
    """Runs the program from the command line."""
    cast(Any, sys.stdout).reconfigure(encoding="utf-8")
    sys.exit(run_main(main, sys.argv))


if __name__ == "__main__":
    run_program()
