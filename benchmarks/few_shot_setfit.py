"""Trains SetFit on the draws that `few_shot.py --draws_dir=draws` has kept, and tests it on the same texts.

    python benchmarks/few_shot_setfit.py --model=minilm --output=setfit.json draws/bbc.json draws/sst2.json

It needs setfit (measured with 1.2.0), not this project. Settings are SetFit's own defaults: contrastive pairs by
oversampling, one epoch, batches of 16, a learning rate of 2e-5, and a logistic regression. Texts are cut at 128 tokens.
"""

import argparse
import json
import pathlib
import statistics
import tempfile
import time
import warnings

import datasets
import numpy as np
import setfit

BATCH_SIZE = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--draws", type=int, default=20)
    arguments = parser.parse_args()
    rows = []
    for file in arguments.files:
        data = json.loads(file.read_text(encoding="utf-8"))
        for num_examples, draws in data["draws"].items():
            results = [train(arguments.model, data, draw) for draw in draws[: arguments.draws]]
            accuracies, seconds = zip(*results, strict=True)
            rows.append(
                {
                    "data": file.stem,
                    "examples_of_each_class": int(num_examples),
                    "accuracy": statistics.mean(accuracies),
                    "accuracies": accuracies,
                    "seconds": statistics.mean(seconds),
                }
            )
            print({key: value for key, value in rows[-1].items() if key != "accuracies"}, flush=True)
            pathlib.Path(arguments.output).write_text(json.dumps(rows, indent=2), encoding="utf-8")


def train(model_name: str, data: dict, draw: list[int]) -> tuple[float, float]:
    """Returns the accuracy of a model that is trained on a draw, and the seconds of its training."""
    texts, labels, first = data["texts"], data["labels"], data["first_test"]
    rows = datasets.Dataset.from_dict(
        {"text": [texts[row] for row in draw], "label": [int(labels[row]) for row in draw]}
    )
    model = setfit.SetFitModel.from_pretrained(model_name)
    model.model_body.max_seq_length = 128
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = setfit.TrainingArguments(folder, batch_size=BATCH_SIZE, save_strategy="no", report_to="none")
        trainer = setfit.Trainer(model=model, args=settings, train_dataset=rows)
        start = time.monotonic()
        trainer.train()
        seconds = time.monotonic() - start
    answers = model.predict(texts[first:], batch_size=128, as_numpy=True, show_progress_bar=False)
    return float(np.mean(np.asarray(answers) == np.array(labels[first:]))), seconds


if __name__ == "__main__":
    main()
