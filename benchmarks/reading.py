"""Measures how fast batches are read. Reading must be much faster than training.

    python benchmarks/reading.py --corpus=wikitext2.txt,bbc.txt --vocab_file=uncased.txt

For pre-training, the program builds record files from the text and reads them as `run_pretraining.py` does: in shuffled
order, parsed in batches. It measures plain records, records with dynamic masking, and packed records. For fine-tuning,
it measures features in memory with the same lengths, plain and packed. Prints a table in Markdown.
"""

import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

import numpy as np
from absl import flags

from benchmarks import speed
from benchmarks.machine import use_device
from bert_keras.cli.flags import parse, require, run_main
from bert_keras.data_prep.pretraining.build import build_pretraining_data
from bert_keras.data_prep.pretraining.instances import PretrainingDataSettings
from bert_keras.data_prep.records.reading import open_records
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.training.input import feature_batches, pretraining_batches
from bert_keras.training.input.packed_batches import pack_batches

_INPUTS = ("input_ids", "input_mask", "segment_ids")


def define_flags():
    """Returns the flags of this benchmark."""
    values = flags.FlagValues()
    flags.DEFINE_list("corpus", None, "Text files.", flag_values=values)
    flags.DEFINE_string("vocab_file", None, "Vocabulary.", flag_values=values)
    flags.DEFINE_integer("batch_size", 32, "Examples of a batch.", flag_values=values)
    flags.DEFINE_integer("rounds", 3, "Number of times to read each.", flag_values=values)
    flags.DEFINE_float("seconds", 3.0, "Minimum duration of reading, in seconds.", flag_values=values)
    return values


def main(argv):
    """Runs the benchmark."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("corpus", "vocab_file"))
    speed.print_machine(" ".join(argv), ("tensorflow",), use_device("cpu"))
    print("| | length | examples/s | lowest to highest |")
    print("| --- | ---: | ---: | ---: |")
    for num_tokens in speed.PREDICTIONS:
        with tempfile.TemporaryDirectory() as folder:
            for name, batches in datasets(values, num_tokens, folder).items():
                rates = [measure(batches, values.batch_size, values.seconds) for _ in range(values.rounds)]
                median, lowest, highest = (f"{f(rates):,.0f}" for f in (statistics.median, min, max))
                print(f"| {name} | {num_tokens} | {median} | {lowest} to {highest} |", flush=True)


def datasets(values, num_tokens, folder):
    """Builds records and returns the datasets to read, a dict of `tf.data.Dataset` by name."""
    plain, dynamic = (build_records(values, num_tokens, folder, is_dynamic) for is_dynamic in (False, True))
    batches = pretraining_batches.training_batches(plain, values.batch_size, seed=1)
    some = list(batches.take(64).as_numpy_iterator())
    features = {name: np.concatenate([batch[name] for batch in some]) for name in _INPUTS}
    features["label_ids"] = np.zeros(len(features["input_ids"]), np.int32)
    of_features = feature_batches.training_batches(features, values.batch_size, seed=1)
    return {
        "records": batches,
        "records, masked while reading": pretraining_batches.training_batches(dynamic, values.batch_size, seed=1),
        "records, packed": pack_batches(batches),
        "features": of_features,
        "features, packed": pack_batches(of_features),
    }


def build_records(values, num_tokens, folder, is_dynamic):
    """Builds four record files and returns them as `PretrainingRecords`."""
    settings = PretrainingDataSettings(
        max_seq_length=num_tokens,
        max_predictions_per_seq=speed.PREDICTIONS[num_tokens],
        dupe_factor=1,
        dynamic_masking=is_dynamic,
    )
    files = [os.path.join(folder, f"{is_dynamic}-{number}.tfrecord") for number in range(4)]
    tokenizer = FullTokenizer(values.vocab_file)
    build_pretraining_data(values.corpus, files, tokenizer, settings, values.vocab_file)
    return open_records(",".join(files), num_tokens, speed.PREDICTIONS[num_tokens], len(tokenizer.vocab))


def measure(batches, batch_size, seconds):
    """Reads batches for `seconds` after a warm-up, and returns examples/s."""
    iterator = iter(batches)
    for _ in range(10):
        next(iterator)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        next(iterator)
        count += 1
    return count * batch_size / (time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
