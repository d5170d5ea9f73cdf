"""Measures --kind=few_shot: accuracy on other texts after 8 and 16 examples of each class, for many random draws.

    python benchmarks/few_shot.py --model=minilm --output=few_shot.json bbc=bbc_news_train.csv sst2=SST-2/train.tsv

Each table is name=file, as for run_classifier.py. All texts are encoded once, with the functions that training uses. A
draw takes examples of each class, fits a head to their vectors, and classifies up to 1,000 texts that are never drawn.
--fine_tuned also fine-tunes the whole model on the first of these draws, for ten epochs, at a learning rate of 1e-4.
"""

import argparse
import collections
import json
import pathlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.intervals import half_interval
from bert_keras.data_prep.tasks.columns import Columns
from bert_keras.data_prep.tasks.encoding import make_features
from bert_keras.data_prep.tasks.examples import Example, learn_labels
from bert_keras.data_prep.tasks.tables import Table
from bert_keras.data_prep.tasks.user_data import read_own_file
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.training.api.classifier import train_classifier
from bert_keras.training.evaluation_pass import last
from bert_keras.training.few_shot import few_shot_config, fit_head, open_encoder

NUM_TEST, NUM_POOL = 1000, 200  # texts to test on; texts of each class to draw from
NUMS_OF_EXAMPLES = (8, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tables", nargs="+", metavar="name=file")
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--fine_tuned", type=int, default=0, help="number of draws to fine-tune on")
    arguments = parser.parse_args()
    files = few_shot_config(ModelFolder(arguments.model))
    rows = []
    for table in arguments.tables:
        name, _, file = table.partition("=")
        rows += measure(name, file, files, arguments.draws, arguments.fine_tuned)
        with open(arguments.output, "w", encoding="utf-8") as output:
            json.dump(rows, output, indent=2)


def measure(name: str, file: str, files: ModelFolder, num_draws: int, num_fine_tuned: int) -> list[dict]:
    examples = read_own_file(Table(file), Columns(None, None, None, None), "single_label", True, False, "auto")
    labels = learn_labels(examples, "single_label")
    random.Random(0).shuffle(examples)
    pool, test, counts = [], [], collections.Counter()
    for example in examples:
        if counts[example.label] < NUM_POOL and len(test) >= min(NUM_TEST, len(examples) // 2):
            counts[example.label] += 1
            pool.append(example)
        elif len(test) < NUM_TEST:
            test.append(example)
    used = [*pool, *test]
    encoder = open_encoder(files, 32)
    features = make_features(used, labels, "single_label", files.tokenizer, 128, None, name)
    start = time.monotonic()
    vectors = last(encoder.outputs(features))["vectors"]
    seconds_of_encoding = (time.monotonic() - start) / len(used)
    ids = features["label_ids"]
    by_class = [[row for row in range(len(pool)) if ids[row] == label] for label in range(len(labels))]
    rows = []
    for num_examples in NUMS_OF_EXAMPLES:
        accuracies, seconds, draws = [], [], []
        for seed in range(num_draws):
            draw = random.Random(seed)
            chosen = [row for of_class in by_class for row in draw.sample(of_class, num_examples)]
            draws.append(chosen)
            start = time.monotonic()
            kernel, bias = fit_head(vectors[chosen], ids[chosen])
            seconds.append(time.monotonic() - start + seconds_of_encoding * len(chosen))
            answers = (vectors[len(pool) :] @ kernel.T + bias).argmax(-1)
            accuracies.append(float(np.mean(answers == ids[len(pool) :])))
        facts = {
            "data": name,
            "classes": len(labels),
            "examples_of_each_class": num_examples,
            "texts_tested": len(test),
        }
        rows.append(facts | {"kind": "few_shot", **_summary(accuracies, seconds)})
        print(rows[-1], flush=True)
        if num_fine_tuned:
            results = [fine_tune([pool[row] for row in chosen], test, files) for chosen in draws[:num_fine_tuned]]
            rows.append(facts | {"kind": "fine-tuned", **_summary(*zip(*results, strict=True))})
            print(rows[-1], flush=True)
    return rows


def fine_tune(train: Sequence[Example], test: Sequence[Example], files: ModelFolder) -> tuple[float, float]:
    """Returns the accuracy of a fine-tuned model, and the seconds with its evaluation."""
    data = [[(example.text_a, example.label) for example in examples] for examples in (train, test)]
    settings = {"init_checkpoint": files.path, "learning_rate": 1e-4, "num_train_epochs": 10, "eval_batch_size": 32}
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        metrics = train_classifier(*data, output_dir=f"{folder}/run", verbose=False, **settings).metrics or {}
    return metrics["accuracy"], time.monotonic() - start


def _summary(accuracies: Sequence[float], seconds: Sequence[float]) -> dict[str, float]:
    """Returns the means, and half of the interval of the mean accuracy."""
    mean = {"accuracy": statistics.mean(accuracies), "half_interval": half_interval(accuracies)}
    return {"draws": len(accuracies), **mean, "seconds": statistics.mean(seconds)}


if __name__ == "__main__":
    main()
