"""Measures check_labels.py: how many of its first suspects are wrong labels, and what its choice of texts is worth.

    python benchmarks/label_checks.py --model=minilm --output=labels.json --text_column=Text --label_column=Category \\
        bbc_news_train.csv

In each of 20 draws, 5 % of the labels become another one at random. The precision is the share of them among as many
first suspects. Recall and precision are also those of all suspects, and of the confident ones; the average precision is
that of all texts in the order of the check, and in that of cleanlab, by the probability of the label. All of these are
also measured with two copies of each text with a wrong label, and with folds that separate equal texts.

The learning curve starts from five texts of each class and adds 20 at a time, those that the check chooses or random
ones; half of the texts are there to measure the accuracy. With --fine_tune it measures the precision
in fewer draws, with three folds and a fine-tuned model for each; finished draws are kept in the folder OUTPUT.draws.
"""

import argparse
import collections
import csv
import dataclasses
import json
import pathlib
import random
import sys
from collections.abc import Sequence

import numpy as np
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.intervals import half_interval
from bert_keras import check_labels
from bert_keras.data_prep.text.same_text import group_numbers
from bert_keras.engine.evaluation_pass import last
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.programs.label_checks import split_by_text
from bert_keras.tasks.classification.suspects import are_confident, choose_next
from bert_keras.tasks.few_shot.run import few_shot_config, open_encoder, regression
from bert_keras.tasks.tables.columns import Columns
from bert_keras.tasks.tables.encoding import make_features
from bert_keras.tasks.tables.examples import Example, learn_labels
from bert_keras.tasks.tables.tables import Table
from bert_keras.tasks.tables.user_data import read_own_file

SHARE_OF_WRONG, NUM_DRAWS, NUM_TIMES = 0.05, 20, 3
NUM_AT_START, NUM_ADDED, NUM_ROUNDS = 5, 20, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--text_column")
    parser.add_argument("--label_column")
    parser.add_argument("--num_texts", type=int, help="use only the first")
    parser.add_argument("--fine_tune", type=int, default=0, help="number of draws to fine-tune on")
    parser.add_argument("--num_train_epochs", type=float, default=3.0)
    parser.add_argument("--max_seq_length", type=int, default=128)
    arguments = parser.parse_args()
    columns = Columns(arguments.text_column, None, arguments.label_column, None)
    examples = read_own_file(Table(arguments.file), columns, "single_label", True, False, "auto")
    examples = examples[: arguments.num_texts]
    labels = learn_labels(examples)
    facts = {"file": pathlib.Path(arguments.file).name, "texts": len(examples), "classes": len(labels)}
    if arguments.fine_tune:
        names = ("num_train_epochs", "max_seq_length")
        settings = {"init_checkpoint": arguments.model, **{name: getattr(arguments, name) for name in names}}
        folders = [pathlib.Path(f"{arguments.output}.draws") / str(seed) for seed in range(arguments.fine_tune)]
        precisions = [precision_of_fine_tuned(examples, labels, *draw, settings) for draw in enumerate(folders)]
        results = {"settings": settings, "precisions": precisions}
        results |= {"precision": _interval(precisions)} if len(precisions) > 1 else {}
    else:
        vectors = encode(examples, labels, few_shot_config(ModelFolder(arguments.model)))
        facts["different_texts"] = len({*group_numbers(example.key for example in examples)})
        results = {
            "draws": measure_draws(examples, labels, vectors),
            "curve": learning_curve(examples, labels, vectors),
        }
    pathlib.Path(arguments.output).write_text(json.dumps(facts | results, indent=2) + "\n")
    print(json.dumps(facts | results, indent=2))


def encode(examples: Sequence[Example], labels: Sequence[str], files: ModelFolder) -> np.ndarray:
    features = make_features(examples, files.tokenizer, 128)
    return last(open_encoder(files, 32).outputs(features))["vectors"]


def flip(examples: Sequence[Example], labels: Sequence[str], seed: int) -> tuple[list[Example], set[str]]:
    """Returns the examples with some labels changed, and the sources of these."""
    draw = random.Random(seed)
    flipped = {*draw.sample(range(len(examples)), round(SHARE_OF_WRONG * len(examples)))}
    changed = [
        dataclasses.replace(example, label=draw.choice([label for label in labels if label != example.label]))
        if number in flipped
        else example
        for number, example in enumerate(examples)
    ]
    return changed, {examples[number].source for number in flipped}


def measure_draws(examples: Sequence[Example], labels: Sequence[str], vectors: np.ndarray) -> list[dict]:
    """Returns the figures with and without copies of the wrong texts, for folds of texts and of rows."""
    found: dict[tuple, list[dict[str, float]]] = collections.defaultdict(list)
    for seed in range(NUM_DRAWS):
        changed, wrong = flip(examples, labels, seed)
        is_wrong = np.array([example.source in wrong for example in changed])
        for times in (1, NUM_TIMES):
            rows = np.repeat(np.arange(len(changed)), np.where(is_wrong, times, 1))
            ids = np.array([labels.index(str(changed[row].label)) for row in rows])
            by_text = split_by_text([changed[row] for row in rows], ids, 5, seed)
            by_row = StratifiedKFold(5, shuffle=True, random_state=seed).split(rows, ids)
            for folds, split in (("texts", by_text), ("rows", by_row)):
                probabilities = np.zeros((len(rows), len(labels)))
                for train, held_out in split:
                    model = regression().fit(vectors[rows[train]], ids[train])
                    probabilities[held_out] = model.predict_proba(vectors[rows[held_out]])
                found[times, folds].append(figures(probabilities, ids, is_wrong[rows]))
    return [
        {"times": times, "folds": folds, **{name: _interval([one[name] for one in ones]) for name in ones[0]}}
        for (times, folds), ones in found.items()
    ]


def figures(probabilities: np.ndarray, ids: np.ndarray, is_wrong: np.ndarray) -> dict[str, float]:
    """Returns the figures of a draw, as the top of this file describes them."""
    places = np.arange(len(ids))
    label_probabilities = probabilities[places, ids]
    others = probabilities.copy()
    others[places, ids] = -1
    margins = label_probabilities - others.max(-1)
    first = np.argsort(margins, kind="stable")[: min(is_wrong.sum(), np.sum(margins < 0))]
    sets = {"suspects": margins < 0, "confident": are_confident(probabilities, ids)}
    return {
        "precision": is_wrong[first].sum() / is_wrong.sum(),
        **{f"recall of {name}": is_wrong[chosen].sum() / is_wrong.sum() for name, chosen in sets.items()},
        **{f"precision of {name}": is_wrong[chosen].mean() for name, chosen in sets.items()},
        "average precision": average_precision_score(is_wrong, -margins),
        "average precision of cleanlab": average_precision_score(is_wrong, -label_probabilities),
    }


def precision_of_fine_tuned(
    examples: Sequence[Example], labels: Sequence[str], seed: int, folder: pathlib.Path, settings: dict
) -> float:
    changed, wrong = flip(examples, labels, seed)
    table = folder / "suspects.tsv"
    if not table.exists():
        rows = [{"id": example.source, "text": example.text_a, "label": example.label} for example in changed]
        check_labels(rows, output_dir=folder, id_column="id", folds=3, fine_tune=True, **settings)
    with table.open(encoding="utf-8", newline="") as file:
        suspects = [*csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return sum(suspect["id"] in wrong for suspect in suspects[: len(wrong)]) / len(wrong)


def learning_curve(examples: Sequence[Example], labels: Sequence[str], vectors: np.ndarray) -> list[dict]:
    """Returns the accuracy after each round, of chosen and of random texts, and their difference."""
    ids = np.array([labels.index(str(example.label)) for example in examples])
    texts = np.array(group_numbers(example.key for example in examples))
    accuracies = collections.defaultdict(list)
    for seed in range(NUM_DRAWS):
        halves = np.array_split(np.random.default_rng(seed).permutation(texts.max() + 1), 2)
        pool, test = (np.concatenate([np.flatnonzero(texts == text) for text in half]) for half in halves)
        start = [row for label in range(len(labels)) for row in pool[ids[pool] == label][:NUM_AT_START]]
        for way in ("chosen", "random"):
            used = [*start]
            for number in range(NUM_ROUNDS + 1):
                model = regression().fit(vectors[used], ids[used])
                accuracies[number, way].append(float(np.mean(model.predict(vectors[test]) == ids[test])))
                left = [row for row in pool if row not in {*used}]
                if way == "random":
                    used += left[:NUM_ADDED]
                    continue
                candidates = [dataclasses.replace(examples[row], source=str(row)) for row in left]
                guesses = model.predict_proba(vectors[left])
                used += [int(one.source) for one in choose_next(candidates, labels, vectors[left], guesses, NUM_ADDED)]
    return [
        {
            "labels": NUM_AT_START * len(labels) + NUM_ADDED * number,
            "chosen": _interval(accuracies[number, "chosen"]),
            "random": _interval(accuracies[number, "random"]),
            "difference": _interval([*np.subtract(accuracies[number, "chosen"], accuracies[number, "random"])]),
        }
        for number in range(NUM_ROUNDS + 1)
    ]


def _interval(values: Sequence[float]) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "half_interval": half_interval(values)}


if __name__ == "__main__":
    main()
