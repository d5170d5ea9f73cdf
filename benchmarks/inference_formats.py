"""Measures one classifier in every export format: size, time to load, and speed.

    python benchmarks/inference_formats.py --init_checkpoint=minilm --work_dir=/tmp/formats

The encoder is pre-trained; its head of two classes is random, which takes the same time. One process loads all formats,
and they take turns, so that other load on the machine affects them alike. Each word of the texts is one token. Formats
named "text" take text and tokenize it, the others take token ids. Prints a table in Markdown.
"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks.machine import describe_machine, make_work_dir, spread, use_device
from bert_keras.cli.flags import parse, require, run_main
from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer
from bert_keras.export.formats.ids_formats import write_ids
from bert_keras.export.formats.networks import IdsNetwork, in_bfloat16
from bert_keras.export.formats.saved_model import make_text_model, write_saved_model
from bert_keras.modeling import HEAD_PATTERNS, POOLER_PATTERNS, ClassifierModel, load_weights, weights_by_name
from bert_keras.prediction.loading.exported import open_litert, open_onnx, open_saved_model
from bert_keras.prediction.loading.model_files import open_model_files

# Rows and tokens of each question.
SHAPES = {"one of 12 tokens": (1, 12), "one of 128": (1, 128), "64 of 128": (64, 128)}
_LABELS = ("no", "yes")


def define_flags():
    """Returns the flags of this benchmark."""
    values = flags.FlagValues()
    flags.DEFINE_string("init_checkpoint", None, "The encoder, a folder.", flag_values=values)
    flags.DEFINE_string("work_dir", None, "Folder for the exports; new or empty.", flag_values=values)
    flags.DEFINE_integer("num_rounds", 15, "Number of measurements.", lower_bound=1, flag_values=values)
    return values


def main(argv):
    """Runs the benchmark."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("init_checkpoint", "work_dir"))
    use_device("cpu")  # as the other formats do
    work_dir = make_work_dir(values.work_dir)
    files = open_model_files(values.init_checkpoint)
    model = ClassifierModel(files.config, len(_LABELS))
    load_weights(
        weights_by_name(model),
        files.checkpoint,
        new_allowed=("output_weights", "output_bias", *POOLER_PATTERNS),
        ignored=HEAD_PATTERNS,
    )
    network = IdsNetwork(model, "classification")
    asked = {name: make_question(files.tokenizer, *shape) for name, shape in SHAPES.items()}
    sizes, openers = write_all(model, files, network, work_dir)
    loaded, load_seconds = load_all(openers)
    calls = {"live model": lambda question: network(question["features"])["logits"].numpy()} | loaded
    seconds = measure(calls, asked, values.num_rounds)
    differences = {name: difference(call, network, asked["64 of 128"]) for name, call in calls.items()}
    versions = describe_machine(("tensorflow", "keras", "onnxruntime", "ai-edge-litert"))
    print(f"`python {' '.join(argv)}`\n\n{versions}; all on the CPU.\n")
    print(f"Median (lowest to highest) of {values.num_rounds} rounds.\n")
    print_table(calls, sizes, load_seconds, seconds, differences)


def make_question(tokenizer, num_rows, num_tokens):
    """Makes random texts of `num_tokens` tokens, and their features."""
    random = np.random.default_rng(num_rows + num_tokens)
    words = [token for token in tokenizer.vocab if token.isascii() and token.isalpha()]
    texts = [" ".join(random.choice(words, num_tokens - 2)) for _ in range(num_rows)]
    ids = [
        [tokenizer.vocab[token] for token in ("[CLS]", *tokenizer.tokenize(text), "[SEP]")][:num_tokens]
        for text in texts
    ]
    ids = np.array(ids, np.int32)
    features = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    return {"texts": texts, "features": features}


def write_all(model, files, network, work_dir):
    """Writes the model in every format; returns sizes in bytes and functions, both by name.

    Each function loads a format and returns it as a function of a question from `make_question`.
    """
    settings = {"task": "classification", "labels": list(_LABELS), "is_pair": False}
    settings |= {"max_seq_length": 128, "doc_stride": None}
    half = IdsNetwork(in_bfloat16(model, lambda: ClassifierModel(files.config, len(_LABELS))), "classification")
    sizes, openers = {}, {}
    for name, each in (("SavedModel", network), ("SavedModel, bfloat16", half)):
        print(f"writing {name} ...", file=sys.stderr)
        preparation = files.preparation
        tokenizer = GraphTokenizer(files.vocab_file, preparation.do_lower_case, preparation.strip_accents)
        path = write_saved_model(make_text_model(each, tokenizer, settings), work_dir / name.replace(", ", "_"))
        sizes[name] = sum(file.stat().st_size for file in pathlib.Path(path).rglob("*") if file.is_file())
        openers[name] = lambda path=path: of_ids(open_saved_model(path))
        openers[f"{name}, text"] = lambda path=path: of_text(path)
        sizes[f"{name}, text"] = sizes[name]
    for name, format_, opener, quantize in (
        ("ONNX Runtime", "onnx", open_onnx, None),
        ("ONNX Runtime, int8", "onnx", open_onnx, "int8"),
        ("LiteRT", "litert", open_litert, None),
        ("LiteRT, int8", "litert", open_litert, "int8"),
    ):
        print(f"writing {name} ...", file=sys.stderr)
        path = work_dir / name.replace(", ", "_").replace(" ", "_")
        write_ids(format_, IdsNetwork(model, "classification"), path, quantize)
        sizes[name] = path.stat().st_size
        openers[name] = lambda path=path, opener=opener: of_ids(opener(path))
    return sizes, openers


def of_ids(run):
    """Returns a network as a function from the features of a question to logits."""
    return lambda question: np.asarray(run(question["features"])["logits"])


def of_text(path):
    """Returns the text signature of a SavedModel as a function from the texts of a question to probabilities."""
    loaded = tf.saved_model.load(path)

    def run(question):
        return loaded.signatures["serving_default"](text=tf.constant(question["texts"]))["probabilities"].numpy()

    return run


def load_all(openers, num_times=3):
    """Loads every format `num_times` times; returns functions of a question, and lists of seconds, by name."""
    seconds = {name: [] for name in openers}
    loaded = {}
    for number in range(num_times):
        print(f"loading, {number + 1} of {num_times} ...", file=sys.stderr)
        for name, opener in openers.items():
            started = time.perf_counter()
            loaded[name] = opener()
            seconds[name].append(time.perf_counter() - started)
    return loaded, seconds


def measure(calls, asked, num_rounds):
    """Times all formats on all questions, in turns; returns lists of seconds by (format, question)."""
    seconds = {(name, shape): [] for name in calls for shape in asked}
    for number in range(num_rounds + 1):  # the first round traces and plans, so it does not count
        print(f"measuring, {number} of {num_rounds} ...", file=sys.stderr)
        for name, call in calls.items():
            for shape, question in asked.items():
                num_calls = 5 if number and len(question["texts"]) == 1 else 1
                started = time.perf_counter()
                for _ in range(num_calls):
                    call(question)
                if number:
                    seconds[name, shape].append((time.perf_counter() - started) / num_calls)
    return seconds


def difference(call, network, question):
    """Returns the largest difference between a format's probabilities and those of the live model."""
    expected = tf.nn.softmax(network(question["features"])["logits"]).numpy()
    found = call(question)
    is_probability = np.allclose(found.sum(axis=1), 1, atol=1e-2) and (found >= 0).all()
    return float(np.abs(expected - (found if is_probability else tf.nn.softmax(found).numpy())).max())


def print_table(calls, sizes, load_seconds, seconds, differences):
    """Prints the measurements of all formats."""
    one_short, one_long, many = SHAPES
    num_rows = SHAPES[many][0]
    print(
        f"| format | MB | load, s | {one_short}, ms | {one_long}, ms | {many}, rows/s | largest difference of a "
        "probability |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in calls:
        rates = [num_rows / each for each in seconds[name, many]]
        cells = [
            f"{sizes[name] / 1e6:.1f}" if name in sizes else "",
            spread(load_seconds[name], 2) if name in load_seconds else "",
            *(spread([1000 * each for each in seconds[name, shape]], 1) for shape in (one_short, one_long)),
            spread(rates, 0),
            f"{differences[name]:.1e}" if name in sizes else "",
        ]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
