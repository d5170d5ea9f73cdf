"""Measures what each filter of create_pretraining_data.py costs: speed on one core, and memory.

    python benchmarks/cleaning.py --corpus='texts/*.txt' --megabytes=100

Each row is a separate process, which cleans the text alone, without tokenizing. MB are 10^6 bytes of text for each
second of the processor. Memory is the highest of the process, without mapped files. A larger text is the original plus
copies with shuffled sentences; it is written to TMPDIR. Each --flags gives a row: flags with a space between them.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # it runs without installation

from benchmarks.create_pretraining_data import memory_of, read_text, write_text
from benchmarks.machine import describe_machine, spread

ROWS = ["--eval_share=0.02", "--remove_duplicates=exact", "--drop_repeated_lines=5"]


def measure(text_file, row):
    """Cleans a text with the flags of a row in this process; returns the CPU seconds and the report."""
    from bert_keras.cli.progress import Progress
    from bert_keras.data_prep.cleaning.text_cleaning import clean_texts
    from bert_keras.data_prep.cleaning.text_flags import read_cleaning
    from bert_keras.data_prep.corpus.text_lines import TextFile
    from bert_keras.data_prep.corpus.workers import ThisProcess, WorkFolder
    from bert_keras.data_prep.pretraining.flags import define_flags

    values = define_flags()
    values(["cleaning", *row.split()], known_only=True)
    texts, cleaning = [TextFile(text_file, text_file)], read_cleaning(values)
    with (
        tempfile.TemporaryDirectory(dir=os.path.dirname(text_file)) as parent,
        WorkFolder(os.path.join(parent, "work")) as folder,
    ):
        started = time.process_time()
        found = clean_texts(texts, cleaning, False, folder, ThisProcess(None).run, Progress())
    return {"seconds": time.process_time() - started, "report": found.report}


def measure_apart(text_file, row):
    """Runs `measure` in its own process, and adds its peak memory in bytes."""
    command = [sys.executable, __file__, f"--measure={text_file}", f"--flags={row}"]
    memory = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while True:
            try:
                output, errors = process.communicate(timeout=0.02)
                break
            except subprocess.TimeoutExpired:
                memory = max(memory, memory_of(process.pid))
    if process.returncode:
        raise RuntimeError(f"{shlex.join(command)} failed:\n{errors}")
    return {**json.loads(output.splitlines()[-1]), "memory": memory}


def main(arguments):
    """Measures every row and prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="../shared/data/corpus/*.txt", help="pattern of the text files")
    parser.add_argument("--megabytes", type=float, default=100, help="about so many MB (1e6 bytes) of text")
    parser.add_argument("--flags", action="append", help="a row; may be repeated")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each row")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measure(options.measure, *options.flags)))
        return
    documents = read_text(options.corpus)
    if not documents:
        parser.error(f"--corpus={options.corpus} matches no text")
    once = sum(len(sentence) for document in documents for sentence in document) + len(documents)
    print(f"`python {shlex.join(['benchmarks/cleaning.py', *arguments])}`\n")
    print(f"{describe_machine()}.\n")
    print("| flags | MB/s | peak memory | removed or held out |")
    print("| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text")
        write_text(text, documents, max(1, round(options.megabytes * 1e6 / once)))
        size = os.path.getsize(text)
        for row in options.flags or ROWS:
            found = [measure_apart(text, row) for _ in range(options.repeats)]
            speeds = [size / 1e6 / each["seconds"] for each in found]
            memory = max(each["memory"] for each in found)
            report = found[0]["report"]
            removed = sum(part["characters"] for name, part in report.items() if name != "before")
            print(
                f"| `{row}` | {spread(speeds, 1)} | {memory / 1e6:.0f} MB "
                f"| {100 * removed / report['before']['characters']:.1f} % |"
            )
        print(f"\nThe text has {size / 1e6:.1f} MB and {report['before']['documents']:,} documents.")


if __name__ == "__main__":
    main(sys.argv[1:])
