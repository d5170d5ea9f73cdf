"""Trains models in small shapes with and without a teacher, and prints their scores, sizes and speeds.

    python benchmarks/distillation.py --work_dir=runs --data_dir=data/glue --model=MODEL

The teacher is the model, a folder or hf://owner/name, fine-tuned on SST-2 and on MRPC. The students have the shapes of
BERT-Tiny and BERT-Mini, the vocabulary of the teacher, and random weights at the start. Three seeds of each. The speed
is that of classifying the evaluation sentences on the CPU, in texts for each second of the processor; the models take
turns. The same command continues after an interruption.
"""

import argparse
import json
import math
import pathlib
import shlex
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # it runs without installation

from benchmarks.machine import describe_machine, spread
from bert_keras import BertConfig, TextClassifier, distill_classifier, open_checkpoint, train_classifier
from bert_keras.cli.flags import ending_at_sigterm

SHAPES = {"BERT-Tiny": (2, 128, 2), "BERT-Mini": (4, 256, 4)}  # layers, width, heads
# Of three rates each, the best without a teacher, with one seed. With 5e-4, BERT-Mini learns nothing.
LEARNING_RATES = {"BERT-Tiny": 5e-4, "BERT-Mini": 1e-4}
NUM_SEEDS, NUM_TURNS = 3, 3
SHARED = {"train_batch_size": 32, "eval_batch_size": 64, "precision": "bfloat16", "pack": True, "verbose": False}
TASKS = {
    "sst-2": ("SST-2", {"max_seq_length": 64, "num_train_epochs": 1}),
    "mrpc": ("MRPC", {"max_seq_length": 128, "num_train_epochs": 3}),
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
    """Trains and evaluates, or reads what an earlier call stored; returns (accuracy, number of weights)."""
    stored = folder / "benchmark.json"
    if not stored.exists():
        found = call(output_dir=folder, **settings)
        checkpoint = open_checkpoint(folder)
        num_weights = sum(math.prod(checkpoint.shape(name)) for name in checkpoint.names if "adam_" not in name)
        stored.write_text(json.dumps([found.metrics["accuracy"], num_weights]), encoding="utf-8")
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
    name, shared = TASKS[task]
    data = {"task_name": task, "data_dir": pathlib.Path(arguments.data_dir, name), "do_train": True, "do_eval": True}
    shared = {**SHARED, **shared, **data}
    work_dir = pathlib.Path(arguments.work_dir, task)
    teacher = work_dir / "teacher"
    start = {"init_checkpoint": arguments.model, "learning_rate": 5e-5}
    runs = {"teacher": [(teacher, trained(teacher, train_classifier, shared | start))]}
    for shape, config in configs.items():
        start = {"bert_config_file": config, "vocab_file": vocab, "learning_rate": LEARNING_RATES[shape]}
        for kind, call, extra in (
            ("without a teacher", train_classifier, {}),
            ("with the teacher", distill_classifier, {"teacher": teacher}),
        ):
            folders = [work_dir / f"{shape} {kind} {seed}" for seed in range(NUM_SEEDS)]
            runs[f"{shape} {kind}"] = [
                (folder, trained(folder, call, {**shared, **start, **extra, "seed": seed}))
                for seed, folder in enumerate(folders)
            ]
    texts = texts_of(data["data_dir"] / "dev.tsv", task)
    speeds = speeds_of([found[0][0] for found in runs.values()], texts)
    for row, found in runs.items():
        scores = [100 * accuracy for _, (accuracy, _) in found]
        scores = spread(scores, 1) if len(scores) > 1 else f"{scores[0]:.1f}"
        yield [name, row, f"{found[0][1][1] / 1e6:.1f} million", scores, len(found), spread(speeds[found[0][0]], 0)]


def texts_of(file, task):
    """Returns the texts of the evaluation data, or pairs of texts."""
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    return [(row[3], row[4]) for row in rows] if task == "mrpc" else [row[0] for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("work_dir", "data_dir", "model"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    arguments = parser.parse_args()
    configs, vocab = write_configs(pathlib.Path(arguments.work_dir, "start"), arguments.model)
    print(f"`python {shlex.join(['benchmarks/distillation.py', *sys.argv[1:]])}`\n")
    print(f"{describe_machine(('tensorflow', 'keras'))}.\n")
    print("| task | model | weights | accuracy, %, median (range) | seeds | texts for each CPU second |")
    print("| --- | --- | --- | --- | --- | --- |")
    for task in arguments.tasks:
        for row in measure(task, arguments, configs, vocab):
            print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    with ending_at_sigterm():
        main()
