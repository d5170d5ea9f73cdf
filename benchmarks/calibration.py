"""Measures --calibrate from finished runs of run_classifier.py with --do_eval: likelihoods, errors, and label sets.

    python benchmarks/calibration.py --output=calibration.json mrpc_run bbc_run

The numbers before and after calibration are those of each run's `calibration.json`. For the label sets, the evaluation
examples are split at random 20 times: the thresholds come from one half, and the coverage from the other.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bert_keras.evaluation.calibration import label_set_thresholds

NUM_SPLITS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--output", required=True)
    parser.add_argument("--coverage", type=float, default=0.9)
    arguments = parser.parse_args()
    rows = []
    for run in map(Path, arguments.runs):
        report = json.loads((run / "calibration.json").read_text())
        facts = {key: report[key] for key in ("temperature", "num_examples", "before", "after", "change_of_nll")}
        rows.append({"run": run.name} | facts | coverages(*answers_of(run), arguments.coverage))
        print(rows[-1], flush=True)
    Path(arguments.output).write_text(json.dumps(rows, indent=2) + "\n")


def answers_of(run: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns the probabilities of a run's evaluation, float [N, C], and the right labels, int [N]."""
    names, rows = _table(run / "eval_predictions.tsv")
    labels = [name.removeprefix("probability of ") for name in names if name.startswith("probability of ")]
    error_names, error_rows = _table(run / "eval_errors.tsv")
    right = {row[0]: row[error_names.index("label")] for row in error_rows}  # other predictions are right
    probabilities = np.array([[float(number) for number in row[2 : 2 + len(labels)]] for row in rows])
    return probabilities, np.array([labels.index(right.get(row[0], row[1])) for row in rows])


def coverages(probabilities: np.ndarray, truth: np.ndarray, wanted: float) -> dict[str, object]:
    """Returns the coverage of label sets over random halves, with and without the label of the answer in each set."""
    shares: dict[str, list[float]] = {"with_answer": [], "by_threshold": [], "size": []}
    for seed in range(NUM_SPLITS):
        order = np.random.default_rng(seed).permutation(len(truth))
        fitted, tested = np.array_split(order, 2)
        threshold = label_set_thresholds(probabilities[fitted, truth[fitted]])[f"{wanted:g}"]
        tested_probabilities, labels = probabilities[tested], truth[tested]
        is_likely = tested_probabilities >= threshold
        is_in_set = is_likely | (tested_probabilities == tested_probabilities.max(-1, keepdims=True))
        rows = np.arange(len(labels))
        shares["with_answer"].append(float(is_in_set[rows, labels].mean()))
        shares["by_threshold"].append(float(is_likely[rows, labels].mean()))
        shares["size"].append(float(is_in_set.sum(-1).mean()))
    means = {name: [float(np.mean(values)), min(values), max(values)] for name, values in shares.items()}
    return {"num_eval_examples": len(truth), "accuracy": float((probabilities.argmax(-1) == truth).mean()), **means}


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    with open(path, encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    return names, rows


if __name__ == "__main__":
    main()
