"""Compares the speed of sentence scores with minicons on the same weights and sentences.

    python benchmarks/minimal_pairs.py --model=bert_mini --data_dir=blimp

`--model` is a folder in the layout of Hugging Face, which convert_checkpoint.py --format=safetensors writes. The
sentences are those of the first pairs of each paradigm. Both programs score them by the pseudo-log-likelihood within
words from left to right, on the CPU, and take turns on parts of the sentences, so that other load on the machine
affects them alike. Each size of minicons' batches is measured; the fastest counts. Needs pip install minicons torch.
"""

import argparse
import dataclasses
import pathlib
import shlex
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # it runs without installation

import numpy as np
from minicons import scorer

from benchmarks.machine import describe_machine, spread
from bert_keras.data_prep.tasks.minimal_pairs import read_paradigms
from bert_keras.prediction import SentenceScorer

METRIC = "within_word_l2r"


def read_sentences(folder, num_pairs):
    """Returns the different sentences of the first pairs of each paradigm, in a random order."""
    paradigms = [dataclasses.replace(one, pairs=one.pairs[:num_pairs]) for one in read_paradigms(folder)]
    sentences = list(dict.fromkeys(text for one in paradigms for pair in one.pairs for text in pair))
    np.random.default_rng(0).shuffle(sentences)
    return sentences


def make_theirs(model, batch_size):
    """Returns minicons' function of sentences to the sums of their log-probabilities."""
    masked = scorer.MaskedLMScorer(model, "cpu")

    def score(sentences):
        found = []
        for start in range(0, len(sentences), batch_size):
            batch = sentences[start : start + batch_size]
            found += masked.sequence_score(batch, reduction=lambda x: x.sum(0).item(), PLL_metric=METRIC)
        return found

    return score


def make_ours(model):
    """Returns our function of sentences to the sums of their log-probabilities."""
    ours = SentenceScorer(model, batch_size=128, pll=METRIC)
    return lambda sentences: [answer.log_probability for answer in ours(sentences)]


def main():
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data_dir", required=True, help="folder with minimal pairs, such as blimp")
    parser.add_argument("--num_pairs", type=int, default=2, help="pairs of each paradigm")
    parser.add_argument("--parts", type=int, default=5, help="number of turns")
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 8, 32], help="sentences, for minicons")
    options = parser.parse_args()
    print(" ".join(["$ python", *map(shlex.quote, sys.argv)]))
    print(describe_machine(("tensorflow", "keras", "torch", "transformers", "minicons")))
    sentences = read_sentences(options.data_dir, options.num_pairs)
    programs = {"bert-keras": make_ours(options.model)}
    programs |= {f"minicons, {size} at a time": make_theirs(options.model, size) for size in options.batch_sizes}
    for score in programs.values():
        score(sentences[:32])
    speeds, scores = {name: [] for name in programs}, {name: [] for name in programs}
    for part in np.array_split(sentences, options.parts):
        for name, score in programs.items():
            start = time.perf_counter()
            scores[name] += score(part.tolist())
            speeds[name].append(len(part) / (time.perf_counter() - start))
    for name, values in speeds.items():
        print(f"{name:24} {spread(values, 1)} sentences/s")
    fastest = max(list(programs)[1:], key=lambda name: statistics.median(speeds[name]))
    ratios = [ours / theirs for ours, theirs in zip(speeds["bert-keras"], speeds[fastest], strict=True)]
    print(f"bert-keras is {spread(ratios, 1)} times as fast as {fastest}")
    print(f"largest difference of a score: {np.abs(np.subtract(scores['bert-keras'], scores[fastest])).max():.1e}")


if __name__ == "__main__":
    main()
