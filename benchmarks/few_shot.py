"""Measures run_few_shot.py: accuracy on other texts after 8 and 16 examples of each class, for many random draws.

    python benchmarks/few_shot.py --model=minilm --output=few_shot.json bbc=bbc_news_train.csv sst2=SST-2/train.tsv

Each table is name=file, as for run_classifier.py. All texts are encoded once, with the functions that training uses. A
draw takes examples of each class, fits a head to their vectors, and classifies up to 1,000 texts that are never drawn.
This is --contrastive_epochs=0. On the first of these draws, --trained calls `train_few_shot` with its defaults, and
--fine_tuned `train_classifier` with ten epochs at a learning rate of 1e-4. Their results are kept draw by draw, and the
same command continues. --draws_dir keeps texts and draws in name.json, for few_shot_setfit.py.
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
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.intervals import half_interval
from bert_keras.engine.evaluation_pass import last
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.programs.classifier import train_classifier
from bert_keras.programs.few_shot import train_few_shot
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.few_shot.run import few_shot_config, fit_head, open_encoder
from bert_keras.tasks.tables.columns import Columns
from bert_keras.tasks.tables.encoding import make_features
from bert_keras.tasks.tables.examples import Example, learn_labels
from bert_keras.tasks.tables.tables import Table
from bert_keras.tasks.tables.user_data import read_own_file

NUM_TEST, NUM_POOL = 1000, 200  # texts to test on; texts of each class to draw from
NUMS_OF_EXAMPLES = (8, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tables", nargs="+", metavar="name=file")
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--trained", type=int, default=0, help="number of draws to train the encoder on")
    parser.add_argument("--fine_tuned", type=int, default=0, help="number of draws to fine-tune on")
    parser.add_argument("--draws_dir", type=pathlib.Path)
    arguments = parser.parse_args()
    files = few_shot_config(ModelFolder(arguments.model))
    parts = [table.partition("=") for table in arguments.tables]
    tables = [measure(name, file, files, arguments.draws) for name, _, file in parts]
    output = pathlib.Path(arguments.output)
    found = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    for name, _, results, drawn in tables:
        found |= {f"{name} {size} fixed": result for size, result in results.items()}
        if arguments.draws_dir:
            (arguments.draws_dir / f"{name}.json").write_text(json.dumps(drawn), encoding="utf-8")
    for number in range(max(arguments.trained, arguments.fine_tuned)):
        for name, examples, _, drawn in tables:
            test = examples[drawn["first_test"] :]
            for size, draws in drawn["draws"].items():
                train = [examples[row] for row in draws[number]]
                for kind, most in (("trained", arguments.trained), ("fine-tuned", arguments.fine_tuned)):
                    result = found.setdefault(f"{name} {size} {kind}", {"accuracies": [], "seconds": []})
                    if len(result["accuracies"]) == number < most:
                        accuracy, seconds = train_model(kind, train, test, files)
                        result["accuracies"].append(accuracy)
                        result["seconds"].append(seconds)
                        output.write_text(json.dumps(found, indent=1), encoding="utf-8")
    output.write_text(json.dumps(found, indent=1), encoding="utf-8")
    for key, result in found.items():
        if result["accuracies"]:
            print(key, _in_words(result["accuracies"]), f"{statistics.mean(result['seconds']):.1f} s")


def measure(
    name: str, file: str, files: ModelFolder, num_draws: int
) -> tuple[str, list[Example], dict, dict[str, Any]]:
    """Returns the name, the examples, the results by number of examples, and the texts, label ids and draws."""
    examples = read_own_file(Table(file), Columns(None, None, None, None), "single_label", True, False, "auto")
    labels = learn_labels(examples)
    random.Random(0).shuffle(examples)
    pool, test, counts = [], [], collections.Counter()
    for example in examples:
        if counts[example.label] < NUM_POOL and len(test) >= min(NUM_TEST, len(examples) // 2):
            counts[example.label] += 1
            pool.append(example)
        elif len(test) < NUM_TEST:
            test.append(example)
    to_draw = {example.key for example in pool}
    test = [example for example in test if example.key not in to_draw]
    used = [*pool, *test]
    encoder = open_encoder(files, 32)
    features = make_features(used, files.tokenizer, 128, None, name, SingleLabel(labels))
    start = time.monotonic()
    vectors = last(encoder.outputs(features))["vectors"]
    seconds_of_encoding = (time.monotonic() - start) / len(used)
    ids = features["label_ids"]
    by_class = [[row for row in range(len(pool)) if ids[row] == label] for label in range(len(labels))]
    results, draws = {}, {}
    for num_examples in NUMS_OF_EXAMPLES:
        result = results[num_examples] = {"accuracies": [], "seconds": []}
        draws[num_examples] = []
        for seed in range(num_draws):
            draw = random.Random(seed)
            chosen = [row for class_rows in by_class for row in draw.sample(class_rows, num_examples)]
            draws[num_examples].append(chosen)
            start = time.monotonic()
            kernel, bias = fit_head(vectors[chosen], ids[chosen])
            result["seconds"].append(time.monotonic() - start + seconds_of_encoding * len(chosen))
            answers = (vectors[len(pool) :] @ kernel.T + bias).argmax(-1)
            result["accuracies"].append(float(np.mean(answers == ids[len(pool) :])))
    texts = [example.text_a for example in used]
    return name, used, results, {"texts": texts, "labels": ids.tolist(), "first_test": len(pool), "draws": draws}


def train_model(
    kind: str, train: Sequence[Example], test: Sequence[Example], files: ModelFolder
) -> tuple[float, float]:
    """Returns the accuracy of a trained model, and the seconds of the call, with its evaluation."""
    data = [[(example.text_a, example.label) for example in examples] for examples in (train, test)]
    settings = {"init_checkpoint": files.path, "eval_batch_size": 32, "verbose": False}
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        settings["output_dir"] = f"{folder}/run"
        if kind == "trained":
            metrics = train_few_shot(*data, **settings).metrics
        else:
            metrics = train_classifier(*data, learning_rate=1e-4, num_train_epochs=10, **settings).metrics
    return (metrics or {})["accuracy"], time.monotonic() - start


def _in_words(accuracies: Sequence[float]) -> str:
    """Returns the mean with half of its interval."""
    text = f"{100 * statistics.mean(accuracies):.1f}"
    if len(accuracies) > 1:
        text += f" ± {100 * half_interval(accuracies):.1f}"
    return f"{text} % in {len(accuracies)} draws"


if __name__ == "__main__":
    main()
