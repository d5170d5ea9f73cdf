"""Measures --kind=few_shot: accuracy on other texts after 8 and 16 examples of each class, for many random draws.

    python benchmarks/few_shot.py --model=minilm --output=few_shot.json bbc=bbc_news_train.csv sst2=SST-2/train.tsv

Each table is name=file, as for run_classifier.py. All texts are encoded once, with the functions that training uses. A
draw takes examples of each class, fits a head to their vectors, and classifies up to 1,000 texts that are never drawn.
"""

import argparse
import collections
import json
import random
import statistics
import time

import numpy as np
import tensorflow as tf

from bert_keras.data_prep.tasks.columns import Columns
from bert_keras.data_prep.tasks.encoding import make_features
from bert_keras.data_prep.tasks.examples import learn_labels
from bert_keras.data_prep.tasks.tables import Table
from bert_keras.data_prep.tasks.user_data import read_own_file
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import ClassifierModel
from bert_keras.training.evaluation_pass import last
from bert_keras.training.few_shot import few_shot_config, fit_head, load_encoder, vectors_of

NUM_TEST, NUM_POOL = 1000, 200  # texts to test on; texts of each class to draw from
NUMS_OF_EXAMPLES = (8, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+", metavar="name=file")
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--draws", type=int, default=20)
    arguments = parser.parse_args()
    files = few_shot_config(ModelFolder(arguments.model))
    rows = []
    for table in arguments.tables:
        name, _, file = table.partition("=")
        rows += measure(name, file, files, arguments.draws)
        with open(arguments.output, "w", encoding="utf-8") as output:
            json.dump(rows, output, indent=2)


def measure(name: str, file: str, files: ModelFolder, num_draws: int) -> list[dict]:
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
    network = ClassifierModel(files.config, len(labels))
    load_encoder(network, files)
    features = make_features(used, labels, "single_label", files.tokenizer, 128, None, name)
    start = time.monotonic()
    vectors = last(vectors_of(network, tf.distribute.get_strategy(), 32).outputs(features))["vectors"]
    seconds_of_encoding = (time.monotonic() - start) / len(used)
    ids = features["label_ids"]
    by_class = [[row for row in range(len(pool)) if ids[row] == label] for label in range(len(labels))]
    rows = []
    for num_examples in NUMS_OF_EXAMPLES:
        accuracies, seconds = [], []
        for seed in range(num_draws):
            draw = random.Random(seed)
            chosen = [row for of_class in by_class for row in draw.sample(of_class, num_examples)]
            start = time.monotonic()
            kernel, bias = fit_head(vectors[chosen], ids[chosen])
            seconds.append(time.monotonic() - start + seconds_of_encoding * len(chosen))
            answers = (vectors[len(pool) :] @ kernel.T + bias).argmax(-1)
            accuracies.append(float(np.mean(answers == ids[len(pool) :])))
        error = 2.093 * statistics.stdev(accuracies) / num_draws**0.5  # Student's t of 20 draws
        row = {"data": name, "classes": len(labels), "examples_of_each_class": num_examples, "draws": num_draws}
        mean, shown = statistics.mean(accuracies), statistics.mean(seconds)
        row |= {"accuracy": mean, "half_interval": error, "seconds": shown, "texts_tested": len(test)}
        rows.append(row)
        print(f"| {name} | {len(labels)} | {num_examples} | {100 * mean:.1f} % ± {100 * error:.1f} | {shown:.1f} |")
    return rows


if __name__ == "__main__":
    main()
