"""Counts the tokens that prediction computes for each token of texts, [CLS] and [SEP] included.

    python benchmarks/padding.py --init_checkpoint=minilm sst2.txt mrpc.txt

A line of a file is a text, or two with a tab between them. The predictor groups and pads the texts as always, but the
network computes nothing. Prints a table in Markdown.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence
from unittest import mock

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.prediction import FeatureExtractor
from bert_keras.prediction.network import Question

BATCH_SIZES = (16, 32, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--init_checkpoint", required=True)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    print("| file | texts | mean length | batch size | batches | computed tokens a token |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for file in arguments.files:
        lines = pathlib.Path(file).read_text(encoding="utf-8").splitlines()
        for size in BATCH_SIZES:
            extract = FeatureExtractor(arguments.init_checkpoint, [-1], "mean", max_seq_length=None, batch_size=size)
            num_real, num_computed, num_batches = count(extract, lines)
            name, mean = pathlib.Path(file).stem, num_real / len(lines)
            print(f"| {name} | {len(lines):,} | {mean:.1f} | {size} | {num_batches} | {num_computed / num_real:.3f} |")


def count(extract: FeatureExtractor, lines: Sequence[str]) -> tuple[int, int, int]:
    """Returns the numbers of tokens without and with padding, and of batches."""
    batches = []

    def run(questions: Sequence[Question], length: int, *_: object) -> list[np.ndarray]:
        batches.append((sum(len(question.input_ids) for question in questions), len(questions) * length))
        return [np.zeros((len(questions), len(extract.layers), extract.config.hidden_size), np.float32)]

    extract.is_prompt = True  # as most predictors
    pairs = (line.partition("\t") for line in lines)
    with mock.patch.object(extract.network, "_run", run):
        for _ in extract.pipe((first, second) if tab else first for first, tab, second in pairs):
            pass
    num_real, num_computed = map(sum, zip(*batches, strict=True))
    return num_real, num_computed, len(batches)


if __name__ == "__main__":
    main()
