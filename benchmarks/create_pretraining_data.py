"""Measures building pre-training examples: speed on one core, and peak memory as the text grows.

    python benchmarks/create_pretraining_data.py --corpus='texts/*.txt' --vocab=vocab.txt

Each size is built in a process of its own, held to one core, with the settings of the release's sample command
(length 128, 20 predictions, dupe_factor 5). The clock runs from the first byte read to the last record file in place;
importing TensorFlow is left out. A larger text is the original followed by copies of it whose sentences are shuffled.
"""

import argparse
import glob
import json
import os
import pathlib
import platform
import random
import shlex
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # it runs without installation

from benchmarks.machine import processor_name
from data_prep.progress import Progress


class Stopwatch(Progress):
    """Takes the time of each piece of work."""

    def __init__(self):
        super().__init__()
        self.seconds = {}

    def start(self, what, total, unit):
        """Begins to count."""
        super().start(what, total, unit)
        self._name, self._since = what, time.perf_counter()

    def finish(self):
        """Adds what went by."""
        self.seconds[self._name] = time.perf_counter() - self._since


def peak_memory():
    """Returns the most memory this process ever had, in bytes."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def measure(text_file, vocab_file, dupe_factor):
    """Builds examples from one file in this process and returns the figures."""
    import tensorflow as tf

    from data_prep.pretraining import PretrainingDataSettings, build_pretraining_data
    from data_prep.tokenization import FullTokenizer

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    memory_before, stopwatch, started = peak_memory(), Stopwatch(), time.perf_counter()
    summary = build_pretraining_data(
        [text_file],
        [f"{text_file}.tfrecord"],
        FullTokenizer(vocab_file),
        PretrainingDataSettings(dupe_factor=dupe_factor),
        progress=stopwatch,
    )
    return {
        **summary,
        **stopwatch.seconds,
        "seconds": time.perf_counter() - started,
        "memory_before": memory_before,
        "memory": peak_memory(),
        "tensorflow": tf.__version__,
    }


def measure_apart(text_file, vocab_file, dupe_factor):
    """Runs `measure` in a process of its own."""
    command = [sys.executable, __file__, f"--measure={text_file}", f"--vocab={vocab_file}", f"--dupe={dupe_factor}"]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def write_text(file, documents, times):
    """Writes the documents, and after them `times` - 1 copies of the same shape made of shuffled sentences."""
    sentences = [sentence for document in documents for sentence in document]
    rng = random.Random(0)
    with open(file, "wb") as output:
        for copy in range(times):
            if copy:
                rng.shuffle(sentences)
            remaining = iter(sentences)
            for document in documents:
                output.writelines(next(remaining) for _ in document)
                output.write(b"\n")


def read_text(pattern):
    """Returns the documents of the files as lists of lines."""
    documents = [[]]
    for file in sorted(glob.glob(pattern)):
        for line in pathlib.Path(file).read_bytes().splitlines(keepends=True):
            if line.strip():
                documents[-1].append(line)
            else:
                documents.append([])
    return [document for document in documents if document]


def print_table(rows, arguments):
    """Prints the figures as a table in Markdown, and what they were measured with."""
    print(f"`python {shlex.join(['benchmarks/create_pretraining_data.py', *arguments])}`\n")
    print(f"{processor_name()}, one core; Python {platform.python_version()}, TensorFlow {rows[0]['tensorflow']}.\n")
    print("| text | tokens | instances | seconds (reading, building, writing) | instances/s | peak memory |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        parts = ", ".join(f"{row[name]:.1f}" for name in ("reading", "building instances", "writing"))
        print(
            f"| {row['times']} x {row['bytes'] / row['times'] / 1e6:.2f} MB | {row['tokens']:,} | {row['instances']:,} "
            f"| {row['seconds']:.1f} ({parts}) | {row['instances'] / row['seconds']:,.0f} "
            f"| {row['memory'] / 1e6:.0f} MB |"
        )
    first, last = rows[0], rows[-1]
    print(
        f"\nBefore any text is read the process takes {first['memory_before'] / 1e6:.0f} MB, TensorFlow for the most."
    )
    if last["tokens"] > first["tokens"]:
        slope = (last["memory"] - first["memory"]) / (last["tokens"] - first["tokens"])
        print(f"From the smallest to the largest text peak memory grows by {slope:.1f} bytes for each token.")


def main(arguments):
    """Measures every size asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="../shared/data/corpus/*.txt", help="pattern of the text files")
    parser.add_argument("--vocab", default="../shared/data/vocab/uncased.txt", help="vocabulary")
    parser.add_argument("--dupe", type=int, default=5, help="dupe_factor")
    parser.add_argument("--times", default="1,4,16", help="sizes, in times the corpus")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measure(options.measure, options.vocab, options.dupe)))
        return
    documents, rows = read_text(options.corpus), []
    if not documents:
        parser.error(f"--corpus={options.corpus} matches no text")
    for times in map(int, options.times.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            text = os.path.join(folder, "text")
            write_text(text, documents, times)
            rows.append({"times": times, "bytes": os.path.getsize(text)})
            rows[-1].update(measure_apart(text, options.vocab, options.dupe))
    print_table(rows, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
