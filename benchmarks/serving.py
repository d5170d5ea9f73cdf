"""Compares serve.py with unbatched serving and with servers of other libraries: requests/s and response times.

    python benchmarks/serving.py --init_checkpoint=minilm
    python benchmarks/serving.py --init_checkpoint=minilm --infinity=infinity/bin/infinity_emb

Each program is a server process; all of them stay open and take turns, so that other load on the machine affects them
alike. A request has one text of 3 to 60 words (--num_words); short ones are more frequent, because the logarithm of the
length is uniform. Each client sends its next request when it has the answer to the last. "unbatched" is serve.py with
one text in a batch. The peers have the same web framework and weights, see `serving_peer.py`. infinity is a server of
vectors that makes batches, too; it needs an environment of its own, because it runs with NumPy 1 only. Before the
turns, the answers of all programs are compared. Prints a table in Markdown. Needs pip install '.[peers,serve]'.
"""

import asyncio
import collections
import contextlib
import json
import math
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np
from absl import flags

from benchmarks import load_client
from benchmarks.machine import spread
from benchmarks.speed import print_machine
from bert_keras.cli.flags import as_program, parse, require
from bert_keras.mistakes import Mistake

ROOT = pathlib.Path(__file__).resolve().parents[1]
_PACKAGES = ("tensorflow", "starlette", "uvicorn", "torch", "transformers", "sentence-transformers")
_MAX_SEQ_LENGTH = 256
_NUM_TEXTS = 512
_UNBATCHED = ("--max_batch_tokens=1", "--batch_timeout_ms=0")
# The change of a number that rounding may cause.
_LARGEST_CHANGES = {"float32": 1e-4, "bfloat16": 0.02}
OURS = "bert-keras"
# A server: its address, and the id of its process.
Program = collections.namedtuple("Program", ("url", "process_id"))
# The peer of a task, the route of serve.py, and functions from a text to the body of its request and from the body of
# the answer to its numbers.
Task = collections.namedtuple("Task", ("peer", "route", "body", "numbers"))
TASKS = {
    "classes": Task(
        "transformers",
        "v1/classify",
        lambda text: {"model": "classes", "text": text},
        lambda answer: answer["answers"][0]["probabilities"]["yes"],
    ),
    "vectors": Task(
        "sentence-transformers",
        "v1/embeddings",
        lambda text: {"model": "vectors", "input": text},
        lambda answer: answer["data"][0]["embedding"],
    ),
}


def define_flags():
    """Returns the flags of this benchmark."""
    values = flags.FlagValues()
    flags.DEFINE_string("init_checkpoint", None, "The encoder, a folder in Hugging Face's format.", flag_values=values)
    flags.DEFINE_list("num_clients", ["1", "8", "64"], "Numbers of clients at a time.", flag_values=values)
    flags.DEFINE_list("num_words", ["3", "60"], "Lowest and highest number of words in a text.", flag_values=values)
    flags.DEFINE_integer("rounds", 3, "Number of turns of each program.", lower_bound=1, flag_values=values)
    flags.DEFINE_float("seconds", 5.0, "Duration of a turn, in seconds.", flag_values=values)
    flags.DEFINE_enum(
        "precision", "float32", [*_LARGEST_CHANGES], "The number format of all servers.", flag_values=values
    )
    flags.DEFINE_bool("peers", True, "Whether to run the other libraries.", flag_values=values)
    flags.DEFINE_string("infinity", None, "The program infinity_emb, to compare with it.", flag_values=values)
    return values


def main(argv):
    """Runs the benchmark."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("init_checkpoint",))
    checkpoint = os.path.abspath(values.init_checkpoint)  # the servers start in another folder
    print_machine(" ".join(argv), _PACKAGES if values.peers else _PACKAGES[:3])
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as servers:
        folders = make_models(checkpoint, pathlib.Path(folder))
        programs = open_servers(folders, values.peers, values.precision, servers)
        if values.infinity:
            program = os.path.abspath(values.infinity)
            programs["vectors", "infinity"] = _start_infinity(program, folders["vectors"], values.precision, servers)
        texts = make_texts(checkpoint, *map(int, values.num_words))
        compare_answers(programs, texts[:20], values.precision)
        turns, costs = take_turns(programs, texts, list(map(int, values.num_clients)), values.rounds, values.seconds)
    print_table(turns, costs)


def make_models(checkpoint, folder):
    """Writes a classifier with a random head. Returns the folder of each task; vectors are those of the checkpoint."""
    import torch
    import transformers

    torch.manual_seed(0)
    classes = folder / "classes"
    model = transformers.AutoModelForSequenceClassification.from_pretrained(checkpoint, id2label={0: "no", 1: "yes"})
    model.save_pretrained(classes)
    transformers.AutoTokenizer.from_pretrained(checkpoint).save_pretrained(classes)
    (classes / "vocab.txt").write_bytes(pathlib.Path(checkpoint, "vocab.txt").read_bytes())
    settings = {"task": "classification", "labels": ["no", "yes"], "is_pair": False, "doc_stride": None}
    (classes / "task.json").write_text(json.dumps(settings | {"max_seq_length": _MAX_SEQ_LENGTH}))
    return {"classes": str(classes), "vectors": str(checkpoint)}


def open_servers(folders, has_peers, precision, stack):
    """Starts serve.py, and the peers if they are wanted, in a precision, given the folder of each task.

    Returns a Program for each task and name; the stack ends the processes.
    """
    models = [
        "serve.py",
        "--port=0",
        f"--precision={precision}",
        *(f"--model={task}={folder}" for task, folder in folders.items()),
    ]
    ours = {OURS: _start(models, stack), f"{OURS} unbatched": _start([*models, *_UNBATCHED], stack)}
    programs = {}
    for name, task in TASKS.items():
        programs |= {
            (name, who): Program(f"{server.url}/{task.route}", server.process_id) for who, server in ours.items()
        }
        if has_peers:
            programs[name, task.peer] = _start(
                ["benchmarks/serving_peer.py", task.peer, folders[name], precision], stack
            )
    return programs


def _start_infinity(program, folder, precision, stack):
    """Starts infinity with a port that is free now. Returns its Program when it is ready."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    options = ["--model-id", folder, "--served-model-name", "vectors", "--dtype", precision, "--device", "cpu"]
    # Its own attention would need one more package; this one is sdpa.
    options += ["--engine", "torch", "--no-bettertransformer", "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    process, url = stack.enter_context(started_server([program, "v2", *options], environment))
    return Program(f"{url}/embeddings", process.pid)


def _start(command, stack):
    """Starts a server. Returns its Program when it is ready."""
    process, url = stack.enter_context(started_server([sys.executable, *command]))
    return Program(url, process.pid)


@contextlib.contextmanager
def started_server(
    command: Sequence[str], environment: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen, str]]:
    """Runs a program that serves. Yields its process and its address when it is ready.

    Raises:
        Mistake: the program ended before it was ready.
    """
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=log, env=environment)
        try:
            yield process, _wait_for_address(process, command, log)
        finally:
            process.terminate()
            process.wait()
        log.seek(0)
        if (text := log.read()) and "Traceback" in text:
            raise Mistake("{} reports an exception:\n{}", " ".join(command), text)


def _wait_for_address(process, command, log):
    while True:
        log.seek(0)
        text = log.read()
        found = re.search(r"(?:serving at|running on) (\S+)", text)
        if found and ("serve.py" not in command or re.search(r"\bready; ", text)):
            return found[1]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
            raise Mistake("{} ended:\n{}", " ".join(command), text)


def make_texts(checkpoint, shortest, longest):
    """Returns texts of mixed lengths whose words are one token each."""
    random = np.random.default_rng(0)
    tokens = pathlib.Path(checkpoint, "vocab.txt").read_text(encoding="utf-8").split()
    words = [token for token in tokens if token.isascii() and token.isalpha()]
    lengths = np.exp(random.uniform(np.log(shortest), np.log(longest), _NUM_TEXTS)).round().astype(int)
    return [" ".join(random.choice(words, length)) for length in lengths]


def compare_answers(programs, texts, precision):
    """Checks that the programs of a task give the same answers."""

    async def answers(task, url):
        return [task.numbers(await load_client.ask(url, task.body(text))) for text in texts]

    for name, task in TASKS.items():
        found = {
            who: asyncio.run(answers(task, program.url))
            for (task_name, who), program in programs.items()
            if task_name == name
        }
        for who, values in found.items():
            if not np.allclose(values, found[OURS], rtol=1e-3, atol=_LARGEST_CHANGES[precision]):
                raise Mistake("{} gives other {} than {}; the weights or the settings differ", who, name, OURS)


def take_turns(programs, texts, nums_clients, rounds, seconds):
    """Returns lists of Turns, and of the processor time of a request in s, by task, number of clients and program."""
    turns, costs = {}, {}
    for number in range(rounds + 1):  # the first round fills caches
        for num_clients in nums_clients:
            for (task, name), program in programs.items():
                print(f"round {number} of {rounds}: {task}, {num_clients} clients, {name}", file=sys.stderr)
                bodies = [json.dumps(TASKS[task].body(text)).encode() for text in texts]
                requests = [load_client.http_request(program.url, body, headers=load_client.JSON) for body in bodies]
                before = processor_seconds(program.process_id)
                turn = asyncio.run(load_client.run_turn(program.url, requests, num_clients, seconds if number else 1.0))
                if number:
                    key = task, num_clients, name
                    turns.setdefault(key, []).append(turn)
                    cost = (processor_seconds(program.process_id) - before) / len(turn.times)
                    costs.setdefault(key, []).append(cost)
    return turns, costs


def processor_seconds(process_id):
    """Returns the processor time that a process has used, in seconds; nan where the system has no /proc."""
    try:
        fields = pathlib.Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def print_table(turns, costs):
    """Prints medians of the turns. The ratio is the requests/s of bert-keras divided by those of the program."""
    print(
        "| task | clients | program | requests/s (lowest to highest) | ratio | p50, ms | p95, ms | p99, ms | p99/p50 | "
        "processor time of a request, ms |"
    )
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for key, found in sorted(turns.items(), key=lambda item: item[0][:2]):
        task, num_clients, name = key
        ours = turns[task, num_clients, OURS]
        ratio = statistics.median(mine.rate / turn.rate for mine, turn in zip(ours, found, strict=True))
        times = [statistics.median(turn.percentile(share) for turn in found) for share in (0.5, 0.95, 0.99)]
        cells = [task, str(num_clients), name, spread([turn.rate for turn in found], 1), f"{ratio:.2f}"]
        cells += [*(f"{1000 * seconds:.0f}" for seconds in times), f"{times[2] / times[0]:.1f}"]
        cells.append(f"{1000 * statistics.median(costs[key]):.1f}")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    as_program(main)
