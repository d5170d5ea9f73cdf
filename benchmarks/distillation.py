"""Trains models in small shapes with and without a teacher, and prints their scores, sizes and speeds.

    python benchmarks/distillation.py --work_dir=runs --data_dir=data/glue --model=MODEL

The teacher is the model, a folder or hf://owner/name, fine-tuned on SST-2, on MRPC, and on 500 labels of SST-2. In the
last case, the students with the teacher also read 10,000 texts without labels. The students have the shapes of
BERT-Tiny and BERT-Mini, the vocabulary of the teacher, and random weights at the start. Three seeds of each. The
intervals of 95 % are over seeds and examples (multibootstrap). The speed is that of classifying the evaluation
sentences on the CPU, in texts for each second of the processor; the models take turns. The same command continues after
an interruption.
"""

import argparse
import json
import math
import pathlib
import shlex
import shutil
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # it runs without installation

from benchmarks.machine import describe_machine, spread
from bert_keras import BertConfig, TextClassifier, distill_classifier, open_checkpoint, train_classifier
from bert_keras.cli.flags import ending_at_sigterm
from studies.runner.intervals import Scores, difference_of, interval_of
from studies.runner.probes import right_values
from studies.runner.report import percent

SHAPES = {"BERT-Tiny": (2, 128, 2), "BERT-Mini": (4, 256, 4)}  # layers, width, heads
# Of three rates each, the best without a teacher, with one seed. With 5e-4, BERT-Mini learns nothing.
LEARNING_RATES = {"BERT-Tiny": 5e-4, "BERT-Mini": 1e-4}
NUM_SEEDS, NUM_TURNS = 3, 3
SHARED = {"train_batch_size": 32, "eval_batch_size": 64, "precision": "bfloat16", "pack": True, "verbose": False}
FEW, NUM_LABELS, NUM_TEXTS = "few-labels", 500, 10_000
# The name, the settings of all trainings, and of those of the teacher, of students without one, and with one.
TASKS = {
    "sst-2": ("SST-2", {"max_seq_length": 64, "num_train_epochs": 1}, {}, {}, {}),
    "mrpc": ("MRPC", {"max_seq_length": 128, "num_train_epochs": 3}, {}, {}, {}),
    FEW: (
        f"SST-2, {NUM_LABELS} labels",
        {"max_seq_length": 64},
        *({"num_train_epochs": number} for number in (5, 20, 2)),
    ),
}


def write_configs(folder, model):
    """Writes the configs of the students; returns their files by shape, and the vocabulary."""
    checkpoint = open_checkpoint(model)
    if checkpoint.config is None or checkpoint.vocab_file is None:
        raise SystemExit(f"{model} has no config or no vocabulary; give a complete model")
    folder.mkdir(parents=True, exist_ok=True)
    vocab = shutil.copy(checkpoint.vocab_file, folder / "vocab.txt")
    files = {}
    for name, (layers, width, heads) in SHAPES.items():
        shape = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
        values = checkpoint.config.to_dict() | shape | {"intermediate_size": 4 * width}
        files[name] = folder / f"{name}.json"
        BertConfig.from_dict(values).to_json_file(files[name])
    return files, vocab


def trained(folder, call, settings):
    """Trains and evaluates, or reads what an earlier call stored; returns the number of weights."""
    stored = folder / "benchmark.json"
    if not stored.exists():
        call(output_dir=folder, **settings)
        checkpoint = open_checkpoint(folder)
        num_weights = sum(math.prod(checkpoint.shape(name)) for name in checkpoint.names if "adam_" not in name)
        stored.write_text(json.dumps(num_weights), encoding="utf-8")
    return json.loads(stored.read_text(encoding="utf-8"))


def speeds_of(folders, texts):
    """Returns texts for each second of the processor, a list for each folder."""
    models = {folder: TextClassifier(folder, batch_size=32) for folder in folders}
    found = {folder: [] for folder in folders}
    for turn in range(NUM_TURNS + 1):  # the first compiles
        for folder, model in models.items():
            start = time.process_time()
            model(texts)
            if turn:
                found[folder].append(len(texts) / (time.process_time() - start))
    return found


def measure(task, arguments, configs, vocab):
    """Yields the rows of the table for one task."""
    name, shared, of_teacher, alone, taught = TASKS[task]
    work_dir = pathlib.Path(arguments.work_dir, task)
    data, unlabeled, dev = data_of(task, pathlib.Path(arguments.data_dir), work_dir)
    shared = {**SHARED, **shared, **data, "do_train": True, "do_eval": True}
    teacher = work_dir / "teacher"
    start = {"init_checkpoint": arguments.model, "learning_rate": 5e-5}
    runs = {"teacher": [(teacher, trained(teacher, train_classifier, {**shared, **of_teacher, **start}))]}
    for shape, config in configs.items():
        start = {"bert_config_file": config, "vocab_file": vocab, "learning_rate": LEARNING_RATES[shape]}
        for kind, call, extra in (
            ("without a teacher", train_classifier, alone),
            ("with the teacher", distill_classifier, {**taught, **unlabeled, "teacher": teacher}),
        ):
            folders = [work_dir / f"{shape} {kind} {seed}" for seed in range(NUM_SEEDS)]
            runs[f"{shape} {kind}"] = [
                (folder, trained(folder, call, {**shared, **start, **extra, "seed": seed}))
                for seed, folder in enumerate(folders)
            ]
    texts, labels = read_dev(dev, task)
    speeds = speeds_of([found[0][0] for found in runs.values()], texts)
    right = {row: right_answers([folder for folder, _ in found], labels) for row, found in runs.items()}
    for row, found in runs.items():
        advantage = ""
        if row.endswith("with the teacher"):
            advantage = percent(difference_of(right[row], right[row.replace("with the", "without a")]))
        num_weights, speed = f"{found[0][1] / 1e6:.1f} million", spread(speeds[found[0][0]], 0)
        yield [name, row, num_weights, percent(interval_of(right[row])), advantage, len(found), speed]


def data_of(task, data_dir, work_dir):
    """Returns the data of all trainings, those of students with the teacher, and the evaluation file."""
    folder = data_dir / TASKS["sst-2" if task == FEW else task][0]
    dev = folder / "dev.tsv"
    if task != FEW:
        return {"task_name": task, "data_dir": folder}, {}, dev
    work_dir.mkdir(parents=True, exist_ok=True)
    header, *rows = (folder / "train.tsv").read_text(encoding="utf-8").splitlines()
    texts = [row.split("\t")[0] for row in rows[NUM_LABELS : NUM_LABELS + NUM_TEXTS]]
    files = {"train_file": [header, *rows[:NUM_LABELS]], "unlabeled_file": [header.split("\t")[0], *texts]}
    for file, lines in files.items():
        (work_dir / f"{file}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    train, unlabeled = ({file: work_dir / f"{file}.tsv"} for file in files)
    return {**train, "eval_file": dev}, unlabeled, dev


def right_answers(folders, labels):
    """Returns the `Scores` of runs: 1 for each right answer."""
    values = []
    for folder in folders:
        rows = (folder / "eval_predictions.tsv").read_text(encoding="utf-8").splitlines()[1:]
        answers = [row.split("\t")[1] for row in rows]
        values.append(np.stack(right_values(answers, labels), axis=-1))
    return Scores(np.stack(values))


def read_dev(file, task):
    """Returns the texts of the evaluation data, or pairs of texts, and the labels."""
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    texts = [(row[3], row[4]) for row in rows] if task == "mrpc" else [row[0] for row in rows]
    return texts, [row[0] if task == "mrpc" else row[1] for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("work_dir", "data_dir", "model"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    arguments = parser.parse_args()
    configs, vocab = write_configs(pathlib.Path(arguments.work_dir, "start"), arguments.model)
    print(f"`python {shlex.join(['benchmarks/distillation.py', *sys.argv[1:]])}`\n")
    print(f"{describe_machine(('tensorflow', 'keras'))}.\n")
    print("| task | model | weights | accuracy, % | with, minus without | seeds | texts for each CPU second |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for task in arguments.tasks:
        for row in measure(task, arguments, configs, vocab):
            print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    with ending_at_sigterm():
        main()
