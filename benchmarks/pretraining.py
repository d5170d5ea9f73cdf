"""Pre-trains BERT-Tiny on real text, and compares held-out metrics over the steps with two baselines.

    python benchmarks/pretraining.py --corpus=wikitext2.txt,bbc.txt --vocab_file=uncased.txt --work_dir=/tmp/pretraining

The corpus has one sentence a line and a blank line between documents; every 20th document is held out. The baselines
use the frequencies of tokens in the training text. One always predicts the most frequent token (accuracy), the other
predicts each token with its frequency as probability (cross-entropy). Prints a table in Markdown, and writes
`curve.png` to the work folder. To continue after an interruption, run the same command again.
"""

import json
import math
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

import numpy as np
from absl import flags

import run_pretraining
from benchmarks.machine import describe_machine
from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse, require, run_main
from bert_keras.data_prep.pretraining.build import build_pretraining_data
from bert_keras.data_prep.pretraining.instances import PretrainingDataSettings
from bert_keras.data_prep.records.reading import open_records
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.training.input.pretraining_batches import evaluation_batches
from bert_keras.training.metrics_log import read_metrics

_HELD_OUT_EVERY = 20
_LENGTH, _PREDICTIONS = 128, 20
_TRAINING = {
    "do_train": True,
    "do_eval": True,
    "bert_config_file": "uncased_L-2_H-128_A-2",
    "max_seq_length": _LENGTH,
    "max_predictions_per_seq": _PREDICTIONS,
    "train_batch_size": 32,
    "eval_batch_size": 32,
    "learning_rate": 1e-3,
    "log_steps": 100,
}


def define_flags():
    """Returns the flags of this benchmark."""
    values = flags.FlagValues()
    flags.DEFINE_string("corpus", None, "Text files, separated by commas.", flag_values=values)
    flags.DEFINE_string("vocab_file", None, "Vocabulary of 30,522 word pieces.", flag_values=values)
    flags.DEFINE_string("work_dir", None, "Folder for records and the run.", flag_values=values)
    flags.DEFINE_integer("num_train_steps", 12000, "Steps.", flag_values=values)
    flags.DEFINE_integer("num_warmup_steps", 1000, "Steps with a rising learning rate.", flag_values=values)
    flags.DEFINE_integer("eval_steps", 1000, "Steps between two evaluations.", flag_values=values)
    return values


def main(argv):
    """Runs the benchmark."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("corpus", "vocab_file", "work_dir"))
    work_dir = pathlib.Path(values.work_dir)
    work_dir.mkdir(parents=True, exist_ok=True)
    open_console()
    text = split_corpus(values.corpus.split(","), work_dir)
    records = build_records(text, values.vocab_file, work_dir)
    settings = {
        **_TRAINING,
        "input_file": records["train"],
        "eval_file": records["held_out"],
        "output_dir": work_dir / "model",
        "vocab_file": values.vocab_file,
        "num_train_steps": values.num_train_steps,
        "num_warmup_steps": values.num_warmup_steps,
        "eval_steps": values.eval_steps,
    }
    command = ["run_pretraining.py", *(f"--{name}={value}" for name, value in settings.items())]
    started = time.monotonic()
    run_pretraining.main(command)
    minutes = (time.monotonic() - started) / 60
    baselines = measure_baselines(text["train"], records["held_out"], values.vocab_file)
    report(work_dir, baselines, " ".join(argv), minutes)


def split_corpus(files, work_dir):
    """Writes train.txt and held_out.txt, unless the folder holds records of another text; returns the paths by name."""
    documents = []
    for file in files:
        blocks = pathlib.Path(file).read_text(encoding="utf-8").split("\n\n")
        documents += [block.strip() for block in blocks if block.strip()]
    parts = {
        "train": [text for number, text in enumerate(documents) if number % _HELD_OUT_EVERY],
        "held_out": documents[::_HELD_OUT_EVERY],
    }
    paths = {name: work_dir / f"{name}.txt" for name in parts}
    for name, texts in parts.items():
        content = "\n\n".join(texts) + "\n"
        was_built = (work_dir / f"{name}.tfrecord").exists() and paths[name].exists()
        if was_built and paths[name].read_text(encoding="utf-8") != content:
            raise ValueError(
                f"{work_dir} holds records of another text than --corpus={','.join(files)}; give another --work_dir, "
                "or remove this one"
            )
        paths[name].write_text(content, encoding="utf-8")
        print(f"{name}: {len(texts)} documents")
    return {name: str(path) for name, path in paths.items()}


def build_records(text, vocab_file, work_dir):
    """Builds the record files that do not exist; returns all paths by name."""
    tokenizer = FullTokenizer(vocab_file)
    paths = {}
    for name, dupe_factor in (("train", 10), ("held_out", 2)):
        paths[name] = str(work_dir / f"{name}.tfrecord")
        settings = PretrainingDataSettings(
            max_seq_length=_LENGTH, max_predictions_per_seq=_PREDICTIONS, dupe_factor=dupe_factor
        )
        if not os.path.exists(paths[name]):
            build_pretraining_data([text[name]], [paths[name]], tokenizer, settings, vocab_file)
    return paths


def measure_baselines(train_text, held_out_records, vocab_file):
    """Returns the baselines' metrics on the held-out records, a dict."""
    tokenizer = FullTokenizer(vocab_file)
    counts = np.ones(len(tokenizer.vocab))  # starts at 1, so that no token has probability 0
    with open(train_text, encoding="utf-8") as file:
        for line in file:
            np.add.at(counts, tokenizer.encode(line), 1)
    records = open_records(held_out_records, _LENGTH, _PREDICTIONS, len(counts))
    labels, is_random_next = [], []
    for batch in evaluation_batches(records, 32).as_numpy_iterator():
        labels.append(batch["masked_lm_ids"][batch["masked_lm_weights"] > 0])
        is_random_next.append(batch["next_sentence_labels"][batch["is_real_example"] > 0, 0])
    labels, is_random_next = np.concatenate(labels), np.concatenate(is_random_next)
    most_frequent = int(np.argmax(counts))
    share = float(is_random_next.mean())
    return {
        "piece": tokenizer.inv_vocab[most_frequent],
        "masked_lm_accuracy": float((labels == most_frequent).mean()),
        "masked_lm_loss": float(-np.log(counts[labels] / counts.sum()).mean()),
        "next_sentence_accuracy": max(share, 1 - share),
        "next_sentence_loss": -share * math.log(share) - (1 - share) * math.log(1 - share),
    }


def report(work_dir, baselines, command, minutes):
    """Prints the table and draws the curve."""
    rows = [row for row in read_metrics(str(work_dir / "model" / "metrics.csv")) if row["split"] == "eval"]
    names = ("masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy")
    summary = json.loads((work_dir / "train.tfrecord.json").read_text(encoding="utf-8"))["summary"]
    print(f"\nCommand: `python {command}`")
    print(
        f"Machine: {describe_machine(('tensorflow', 'keras'))}; {minutes:.0f} minutes of training and evaluation\n"
        f"Training text: {summary['documents']} documents, {summary['tokens']:,} tokens, "
        f"{summary['instances']:,} examples\n"
    )
    print(
        "| held out, after step | MLM loss | MLM accuracy | NSP loss | NSP accuracy |\n| --- | --- | --- | --- | --- |"
    )
    shown = [(f'baselines (always "{baselines["piece"]}"; share of each token)', baselines)]
    shown += [(row["step"], row) for row in rows]
    for label, values in shown:
        figures = [float(values[name]) for name in names]
        print(f"| {label} | {figures[0]:.3f} | {figures[1]:.1%} | {figures[2]:.3f} | {figures[3]:.1%} |")
    draw(rows, names, baselines, work_dir / "curve.png")


def draw(rows, names, baselines, path):
    """Draws the held-out metrics over the steps, with the baselines as dashed lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    for place, name in enumerate(names, 1):
        axes = figure.add_subplot(2, 2, place)
        steps, values = zip(*((int(row["step"]), float(row[name])) for row in rows), strict=True)
        axes.plot(steps, values, "o-", markersize=3, label="BERT-Tiny")
        axes.axhline(baselines[name], linestyle="--", color="gray", label="baseline")
        axes.set_title(f"held-out {name.replace('_', ' ')}")
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=110)
    print(f"\ncurve: {path}")


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
