"""Compares texts to answers with transformers and sentence-transformers: texts/s with the tokenizing included.

    python benchmarks/answers.py --init_checkpoint=minilm --data_dir=data

`minilm` is a folder of sentence-transformers; it gives the vectors. The other tasks have its encoder and a head with
random weights, the same in both libraries. Models are loaded and warm, and before the turns the answers are compared.
The programs take turns within a round, and each round has other texts. "fastest" is the other library in batches of
similar lengths, with `torch.inference_mode`, sdpa, and the number of texts in a batch and `torch.compile` on or off as
they are the fastest here. "default" is its pipeline or its `encode` and `predict` without settings, in float32. A ratio
is the time of a program divided by that of bert-keras in the same round. With `--int8`, this project's export to
OpenVINO takes part, too; its scales come from the sample texts. Prints a table in Markdown. Needs pip install
'.[peers,openvino]'.
"""

import csv
import gc
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.cli.start import start_tensorflow

if __name__ == "__main__":
    start_tensorflow()

import numpy as np
import torch
from absl import flags

from benchmarks import peers
from benchmarks.answers_peers import PEERS
from benchmarks.machine import check_names, spread
from benchmarks.speed import print_machine
from bert_keras import export_model, open_model
from bert_keras.cli.flags import as_program, parse, require
from bert_keras.mistakes import Mistake
from bert_keras.prediction.arguments import ANSWER_PRECISIONS

# Texts of a turn, which takes one to three seconds on two cores.
NUM_TEXTS = {"vectors": 192, "classes": 320, "tags": 320, "reranker": 12, "questions": 32}
_TEXTS_OF_QUERY = 8
_BATCH_SIZES = (8, 16, 32, 64)
_TASKS_OF_OURS = {"reranker": "rerank", "classes": "classification"}
OURS = "bert-keras"


def define_flags():
    """Returns the flags of this benchmark."""
    values = flags.FlagValues()
    flags.DEFINE_string("init_checkpoint", None, "The encoder, in the folder of a model.", flag_values=values)
    flags.DEFINE_string("data_dir", None, "Folder with glue, conll2003 and squad.", flag_values=values)
    flags.DEFINE_list("tasks", [*PEERS], "Tasks to measure.", flag_values=values)
    precisions = [name for name in ANSWER_PRECISIONS if name != "auto"]
    help_of_precision = 'Number format of all programs but "default".'
    flags.DEFINE_enum("precision", "float32", precisions, help_of_precision, flag_values=values)
    flags.DEFINE_integer("rounds", 7, "Number of turns of each program.", lower_bound=1, flag_values=values)
    flags.DEFINE_float("size", 1.0, "Factor of the number of texts in a turn.", lower_bound=0.01, flag_values=values)
    flags.DEFINE_bool("compile", True, "Whether to try torch.compile, too.", flag_values=values)
    flags.DEFINE_bool("int8", False, "Whether to measure the export to OpenVINO in int8, too.", flag_values=values)
    flags.DEFINE_string("output", None, "JSON file of the results.", flag_values=values)
    return values


def main(argv):
    """Runs the benchmark."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("init_checkpoint", "data_dir"))
    check_names("tasks", values.tasks, PEERS)
    torch.set_num_threads(os.cpu_count())
    packages = ("tensorflow", "keras", "torch", "transformers", "sentence-transformers")
    print_machine(" ".join(argv), packages)
    print("| task | program | texts/s | ratio (lowest to highest) |\n| --- | --- | ---: | ---: |")
    results = []
    for task in values.tasks:
        results += measure(task, values)
    if values.output:
        pathlib.Path(values.output).write_text(json.dumps(results, indent=2) + "\n")


def measure(task, values):
    """Measures a task and prints its rows. Returns a dict for each program."""
    num_texts = max(1, round(values.size * NUM_TEXTS[task]))
    texts = itertools.cycle(TEXTS[task](pathlib.Path(values.data_dir)))
    with tempfile.TemporaryDirectory() as folder:
        peer = PEERS[task](values.init_checkpoint, folder, values.precision)
        ours = open_model(peer.folder, task=_TASKS_OF_OURS.get(task), precision=values.precision).warmup()
        warm = [*itertools.islice(texts, num_texts)]
        compare(peer, ours(warm), peer.fastest(warm, 16), values.precision)
        peer.default(warm[:4])
        setting, batch_size = fastest_setting(peer, warm, values.compile and peers.has_compiler())
        programs = {OURS: ours, f"fastest ({setting})": lambda texts: peer.fastest(texts, batch_size)}
        programs |= {"default": peer.default}
        if values.int8:
            programs["bert-keras int8"] = in_int8(peer.folder, task, pathlib.Path(folder, "int8"))
            programs["bert-keras int8"](warm)
        times = take_turns(programs, texts, num_texts, values.rounds)
    rows = []
    for name, seconds in times.items():
        ratios = [other / own for other, own in zip(seconds, times[OURS], strict=True)]
        rate = num_texts / statistics.median(seconds)
        print(f"| {task} | {name} | {rate:.1f} | {spread(ratios, 2)} |", flush=True)
        rows.append({"task": task, "program": name, "texts_a_turn": num_texts, "seconds": seconds, "ratios": ratios})
    return rows


def in_int8(model, task, folder):
    """Returns the export of a model to OpenVINO in int8, opened."""
    export_model(
        model, export_dir=folder, task=_TASKS_OF_OURS.get(task), format="openvino", quantize="int8", verbose=False
    )
    return open_model(folder)


def fastest_setting(peer, texts, may_compile):
    """Returns the name and the batch size of the peer's fastest setting, which stays on."""
    found, texts = [], texts[: -(-len(texts) // 2)]
    for is_compiled in (False, True)[: 1 + may_compile]:
        peer.compile(is_compiled)
        peer.fastest(texts, _BATCH_SIZES[0])  # compiles
        for batch_size in _BATCH_SIZES:
            found.append((min(seconds_of(peer.fastest, texts, batch_size) for _ in range(2)), is_compiled, batch_size))
    _, is_compiled, batch_size = min(found)
    peer.compile(is_compiled)
    peer.fastest(texts, batch_size)
    return f"batches of {batch_size}{', compiled' if is_compiled else ''}", batch_size


def take_turns(programs, texts, num_texts, rounds):
    """Returns the seconds of each round by program. The order of the programs changes from round to round."""
    times = {name: [] for name in programs}
    for number in range(rounds):
        round_texts = [*itertools.islice(texts, num_texts)]
        names = [*programs]
        for name in names[number % len(names) :] + names[: number % len(names)]:
            gc.collect()
            times[name].append(seconds_of(programs[name], round_texts))
    return times


def seconds_of(function, *arguments):
    """Returns the duration of a call."""
    started = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - started


def compare(peer, ours, theirs, precision):
    """Checks that both libraries give the same answers; in 16 bits, one text in 20 may have other entities or spans.

    Raises:
        Mistake: more answers differ.
    """
    tolerance, may_differ = (1e-4, 0) if precision == "float32" else (5e-2, peer.finds_parts * len(ours) // 20)
    differing = []
    for number, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        own, other = peer.own_values(own), peer.comparable(other)
        is_same = (
            own == other if isinstance(own, str) else len(own) == len(other) and np.allclose(own, other, 0, tolerance)
        )
        if not is_same:
            differing.append(f"text {number}: {own}, {other}")
    if len(differing) > may_differ:
        raise Mistake(
            "{} of {} answers differ, so the weights or the settings do; {}", len(differing), len(ours), differing[0]
        )


def _table(file, *columns):
    with file.open(encoding="utf-8", newline="") as lines:
        return [
            [row[name] for name in columns] for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def _mrpc(folder):
    rows = _table(folder / "glue/MRPC/train.tsv", "#1 String", "#2 String")
    return [row for row in rows if all(row)]


def _queries(folder):
    pairs = _mrpc(folder)
    batches = itertools.batched(pairs, _TEXTS_OF_QUERY) if sys.version_info >= (3, 12) else _batched(pairs)
    return [(pairs_of[0][0], [second for _, second in pairs_of]) for pairs_of in batches]


def _batched(pairs):
    return [pairs[start : start + _TEXTS_OF_QUERY] for start in range(0, len(pairs), _TEXTS_OF_QUERY)]


def _sentences(folder):
    text = (folder / "conll2003/test.txt").read_text(encoding="utf-8")
    blocks = [[line.split()[0] for line in block.splitlines()] for block in text.split("\n\n") if block.strip()]
    return [" ".join(words) for words in blocks if "-DOCSTART-" not in words]


def _questions(folder):
    articles = json.loads((folder / "squad/train_v1_3_articles.json").read_text(encoding="utf-8"))["data"]
    passages = [passage for article in articles for passage in article["paragraphs"]]
    pairs = [(one["question"], passage["context"]) for passage in passages for one in passage["qas"]]
    np.random.default_rng(0).shuffle(pairs)
    return [(str(question), str(context)) for question, context in pairs]


TEXTS = {
    "vectors": lambda folder: [text for pair in _mrpc(folder) for text in pair],
    "classes": lambda folder: [text for (text,) in _table(folder / "glue/SST-2/dev.tsv", "sentence")],
    "tags": _sentences,
    "reranker": _queries,
    "questions": _questions,
}

if __name__ == "__main__":
    as_program(main)
