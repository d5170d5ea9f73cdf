"""Sends random requests to serve.py, and then a steady load; checks answers, places and memory.

    python benchmarks/serving_robustness.py
    python benchmarks/serving_robustness.py --num_requests=2000 --minutes=5

The model is small, with random weights: a checkpoint for four tasks. First come --num_requests random requests (see
`fuzzed_requests.py`): broken JSON, wrong types, Unicode, huge and slow bodies, wrong paths and headers, clients that go
away. None may get a status 5xx or no answer, and none may keep its place. Then several clients send valid requests of
all lengths for --minutes, and the program prints the memory of the server each minute. It ends with status 1 after a
mistake of the server.
"""

import asyncio
import collections
import itertools
import json
import pathlib
import random
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

import requests
from absl import flags

from benchmarks import fuzzed_requests, load_client
from benchmarks.server_process import started_server
from benchmarks.speed import print_machine
from bert_keras.cli.flags import parse, run_main
from bert_keras.modeling import BertConfig, PretrainingModel, save_checkpoint, weights_by_name

_MAX_BODY_BYTES = 200_000
_TASKS = "fill_mask,next_sentence,score,vectors"
_NUM_WORDS = 1000
_WORDS = [f"word{number}" for number in range(_NUM_WORDS)]


def define_flags():
    """Returns the flags of this program."""
    values = flags.FlagValues()
    flags.DEFINE_integer("num_requests", 20_000, "Number of random requests.", lower_bound=0, flag_values=values)
    flags.DEFINE_float("minutes", 30.0, "Duration of the load.", lower_bound=0.0, flag_values=values)
    flags.DEFINE_integer("num_clients", 16, "Number of clients at a time.", lower_bound=1, flag_values=values)
    flags.DEFINE_integer("seed", 0, "Seed of the random requests.", flag_values=values)
    return values


def main(argv):
    """Runs the checks."""
    values = define_flags()
    parse(values, argv, __doc__)
    print_machine(" ".join(argv), ("tensorflow", "starlette", "uvicorn"))
    with tempfile.TemporaryDirectory() as folder:
        write_model(pathlib.Path(folder))
        limits = [f"--max_body_bytes={_MAX_BODY_BYTES}", "--max_queue=64", "--max_items=100"]
        with started_server(["serve.py", "--port=0", f"--tasks={_TASKS}", f"--model=bert={folder}/bert", *limits]) as (
            process,
            url,
        ):
            send_random(url, process.pid, values.num_requests, values.num_clients, values.seed)
            print_memory(url, process.pid, values.minutes, values.num_clients)


def write_model(folder):
    """Writes a checkpoint of BERT-Tiny's size."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS]
    sizes = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512}
    model = PretrainingModel(BertConfig(vocab_size=len(tokens), **sizes))
    (folder / "bert").mkdir()
    save_checkpoint(folder / "bert" / "bert_model.ckpt", weights_by_name(model))
    model.config.to_json_file(folder / "bert" / "bert_config.json")
    (folder / "bert" / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))


def valid_requests(num_words):
    """Returns the path and the body of a request for each route, with texts of a number of words."""
    words = random.Random(num_words).choices(_WORDS, k=num_words)
    text, other = " ".join(words), " ".join(words[::-1])
    return [
        ("/v1/fill-mask", {"text": f"{text} [MASK] .", "top_k": 3}),
        ("/v1/next-sentence", {"items": [{"text_a": text[:900], "text_b": other[:900]}]}),
        ("/v1/score", {"items": [" ".join(words[:30])]}),
        ("/v1/embeddings", {"items": [text, other], "model": "bert"}),
        ("/v1/embeddings", {"input": [text, other], "model": "bert", "encoding_format": "base64"}),
    ]


def send_random(url, process_id, num_requests, num_clients, seed):
    """Sends random requests and prints their outcomes; raises ValueError if one shows a mistake of the server."""
    samples, before = valid_requests(4), memory_of(process_id)
    expected = [requests.post(url + path, json=body, timeout=60).json() for path, body in samples]
    outcomes, started = collections.Counter(), time.monotonic()
    for first in range(0, num_requests, 1000):
        numbers = range(first, min(first + 1000, num_requests))
        attempts = [fuzzed_requests.make_attempt(number, samples, _MAX_BODY_BYTES, seed) for number in numbers]
        found = asyncio.run(fuzzed_requests.send_all(url, attempts, num_clients))
        outcomes.update(zip((attempt.kind for attempt in attempts), found, strict=True))
        for number, attempt, outcome in zip(numbers, attempts, found, strict=True):
            if fuzzed_requests.is_mistake(outcome):
                raise ValueError(f"request {number} of seed {seed} ({attempt.kind}): {outcome}: {attempt.data[:2000]}")
        print(f"{numbers.stop} random requests", file=sys.stderr)
    deadline = time.monotonic() + 60
    while "bert_requests_admitted 0.0" not in requests.get(f"{url}/metrics", timeout=60).text:
        if time.monotonic() > deadline:
            raise ValueError("requests that have ended still have their places")
    if expected != [requests.post(url + path, json=body, timeout=60).json() for path, body in samples]:
        raise ValueError("the server does not give the same answers as before the random requests")
    print(f"{num_requests} random requests in {time.monotonic() - started:.0f} s, outcomes:\n")
    print("| kind | outcomes |\n| --- | --- |")
    for kind in fuzzed_requests.KINDS:
        of_kind = {outcome: count for (each, outcome), count in sorted(outcomes.items()) if each == kind}
        print(f"| {kind} | {', '.join(f'{outcome}: {count}' for outcome, count in of_kind.items())} |")
    print(f"\nMemory: {before:.0f} MB before, {memory_of(process_id):.0f} MB after\n", flush=True)


def print_memory(url, process_id, minutes, num_clients):
    """Sends valid requests, and prints their number and the server's memory each minute."""
    lengths = itertools.cycle((1, 5, 12, 25, 50, 100, 200, 400))
    print("| minute | requests/s | memory, MB |\n| ---: | ---: | ---: |", flush=True)
    ended = time.monotonic() + 60 * minutes
    for minute in itertools.count(1):
        left = ended - time.monotonic()
        if left <= 0:
            break
        found = [request for _ in range(8) for request in valid_requests(next(lengths))]
        data = [load_client.http_request(url + path, json.dumps(body).encode()) for path, body in found]
        turn = asyncio.run(load_client.run_turn(url, data, num_clients, min(60.0, left)))
        print(f"| {minute} | {turn.rate:.0f} | {memory_of(process_id):.1f} |", flush=True)


def memory_of(process_id):
    """Returns the memory that a process occupies, in MB (Linux)."""
    lines = pathlib.Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1000


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
