"""Measures building pre-training examples: speed with one process or several, peak memory and disk as the text grows.

    python benchmarks/create_pretraining_data.py --corpus='texts/*.txt' --vocab=vocab.txt
    python benchmarks/create_pretraining_data.py --corpus='texts/*.txt' --vocab=vocab.txt \\
        --gigabytes=1,4,16 --dupe=1 --gzip

Each size is built in its own process, limited with its workers to one core per worker. The default settings are those
of the original BERT's sample command (length 128, 20 predictions, dupe_factor 5). The time runs from the first byte
read to the last record file in place, and includes the start of the workers. Memory is the sum over all processes,
sampled every 20 ms, without mapped files: the system drops those when another program needs the memory. Disk is the
most that the records and the work folder take, sampled every second. A larger text is the original plus copies with
shuffled sentences; it is written to TMPDIR.
"""

import argparse
import contextlib
import glob
import json
import math
import os
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # it runs without installation

from benchmarks.machine import describe_machine
from bert_keras.cli.progress import Progress


class Stopwatch(Progress):
    """Measures the time of each step of the work."""

    def __init__(self):
        super().__init__()
        self.seconds = {}

    def start(self, what, total, unit):
        """Starts the clock for `what`."""
        super().start(what, total, unit)
        self._name, self._since = what, time.perf_counter()

    def finish(self):
        """Stores the elapsed seconds."""
        self.seconds[self._name] = time.perf_counter() - self._since


def measure(text_file, record_file, vocab_file, settings, num_workers):
    """Builds examples from one file in this process and its workers; returns a dict of measurements."""
    from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
    from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
    from bert_keras.data_prep.text.tokenization import FullTokenizer

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-num_workers:])
    stopwatch, started = Stopwatch(), time.perf_counter()
    summary = build_pretraining_data(
        Build(
            [text_file],
            [record_file],
            FullTokenizer(vocab_file),
            PretrainingDataSettings(**settings),
            progress=stopwatch,
            num_workers=num_workers,
            is_gzip=record_file.endswith(".gz"),
            work_dir=os.path.dirname(text_file),
        )
    )
    seconds = time.perf_counter() - started
    return {**summary, **stopwatch.seconds, "seconds": seconds, "cpu_seconds": sum(os.times()[:4])}


def memory_of(process):
    """Returns the memory of a process and its children in bytes without mapped files; 0 if the process has ended."""
    try:
        with open(f"/proc/{process}/statm") as file:
            _, resident, mapped, *_ = map(int, file.read().split())
        memory = (resident - mapped) * os.sysconf("SC_PAGE_SIZE")
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children") as file:
                memory += sum(map(memory_of, file.read().split()))
        return memory
    except (FileNotFoundError, ProcessLookupError):
        return 0


def size_of(folder):
    """Returns the size of all files in a folder and the folders in it in bytes, without files that just disappeared."""
    size = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                size += os.path.getsize(os.path.join(parent, name))
    return size


def measure_apart(text_file, record_file, options, num_workers):
    """Runs `measure` in its own process, and adds its peak memory, its peak disk and the size of the output."""
    command = [sys.executable, __file__, f"--measure={text_file}", f"--vocab={options.vocab}", f"--dupe={options.dupe}"]
    command += [f"--length={options.length}", f"--workers={num_workers}", f"--records={record_file}"]
    folders, size_of_text = {os.path.dirname(text_file), os.path.dirname(record_file)}, os.path.getsize(text_file)
    memory = disk = 0
    next_look = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            memory = max(memory, memory_of(process.pid))
            if time.monotonic() >= next_look:
                disk = max(disk, sum(map(size_of, folders)) - size_of_text)
                next_look += 1
            time.sleep(0.02)
        output = process.stdout.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    sizes = {"memory": memory, "disk": disk, "output": sum(map(size_of, folders)) - size_of_text}
    return {**json.loads(output.splitlines()[-1]), **sizes}


def write_text(file, documents, times):
    """Writes the documents, then `times` - 1 copies of the same structure with shuffled sentences."""
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
    """Returns the documents of the files, each a list of lines."""
    documents = [[]]
    for file in sorted(glob.glob(pattern)):
        for line in pathlib.Path(file).read_bytes().splitlines(keepends=True):
            if line.strip():
                documents[-1].append(line)
            else:
                documents.append([])
    return [document for document in documents if document]


def print_table(rows, arguments):
    """Prints the measurements as a Markdown table, with the command and the machine."""
    print(f"`python {shlex.join(['benchmarks/create_pretraining_data.py', *arguments])}`\n")
    load = f"load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    print(f"{describe_machine()}; {load}.\n")
    print(
        "| text | workers | instances | seconds (reading, building, writing) | CPU s | instances/s | peak memory "
        "| peak disk | records |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        parts = ", ".join(f"{row[name]:.1f}" for name in ("reading", "building instances", "writing"))
        print(
            f"| {row['bytes'] / 1e6:,.1f} MB | {row['workers']} "
            f"| {row['instances']:,} | {row['seconds']:.1f} ({parts}) | {row['cpu_seconds']:.1f} "
            f"| {row['instances'] / row['seconds']:,.0f} | {row['memory'] / 1e6:.0f} MB "
            f"| {row['disk'] / 1e6:,.0f} MB | {row['output'] / 1e6:,.0f} MB |"
        )


def main(arguments):
    """Measures every requested size with every number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="../shared/data/corpus/*.txt", help="pattern of the text files")
    parser.add_argument("--vocab", default="../shared/data/vocab/uncased.txt", help="vocabulary")
    parser.add_argument("--dupe", type=int, default=5, help="dupe_factor")
    parser.add_argument("--length", type=int, default=128, help="max_seq_length")
    parser.add_argument("--times", default="1,4,12", help="sizes, in times the corpus")
    parser.add_argument("--gigabytes", help="sizes of about so many GB (1e9 bytes) instead")
    parser.add_argument("--workers", default="1,2", help="numbers of workers")
    parser.add_argument("--gzip", action="store_true", help="compress the records")
    parser.add_argument("--records", help="folder for the records; default: the folder of the text")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        settings = {"max_seq_length": options.length, "dupe_factor": options.dupe}
        # 20 for 128, and 77 for 512: the original BERT's numbers.
        settings["max_predictions_per_seq"] = math.ceil(0.15 * options.length)
        print(json.dumps(measure(options.measure, options.records, options.vocab, settings, int(options.workers))))
        return
    documents, rows = read_text(options.corpus), []
    if not documents:
        parser.error(f"--corpus={options.corpus} matches no text")
    sizes = [int(times) for times in options.times.split(",")]
    if options.gigabytes:
        once = sum(len(sentence) for document in documents for sentence in document) + len(documents)
        sizes = [round(float(size) * 1e9 / once) or 1 for size in options.gigabytes.split(",")]
    for times in sizes:
        for num_workers in map(int, options.workers.split(",")):
            with contextlib.ExitStack() as stack:
                text, records = (
                    os.path.join(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)), name)
                    for folder, name in ((None, "text"), (options.records, "records.gz" if options.gzip else "records"))
                )
                write_text(text, documents, times)
                rows.append({"bytes": os.path.getsize(text), "workers": num_workers})
                rows[-1].update(measure_apart(text, records, options, num_workers))
    print_table(rows, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
