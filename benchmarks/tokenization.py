"""Compares the tokenizer with the original BERT's on one core: its speed, and every id.

    python benchmarks/tokenization.py --corpus='texts/*.txt' --vocab=vocab.txt

The original tokenizer is that of the package bert-tensorflow 1.0.1. Without this package, `FullTokenizer` is compared
with our `BasicTokenizer` and `WordpieceTokenizer`, which have no cache. The tokenizers take turns on every megabyte of
text, so that other load on the machine affects them alike. Times exclude reading the vocabulary and the text. MB are
10^6 bytes of UTF-8. Needs the standard library only.
"""

import argparse
import glob
import os
import pathlib
import random
import shlex
import sys
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # it runs without installation

from benchmarks.machine import describe_machine, spread
from bert_keras.data_prep.text.tokenization import BasicTokenizer, FullTokenizer, WordpieceTokenizer, load_vocab

RELEASE, PLAIN, OURS = "the original BERT", "BasicTokenizer + WordpieceTokenizer", "FullTokenizer.encode"


def make_release(vocab_file, do_lower_case):
    """Returns the original BERT's function text -> ids; None if its package is not installed."""
    # Its module uses TensorFlow only to open the vocabulary file.
    stand_in = types.ModuleType("tensorflow")
    stand_in.gfile = types.SimpleNamespace(
        GFile=lambda name, mode: open(name, mode, encoding="utf-8", newline="\n")  # noqa: SIM115 its caller closes it
    )
    real = sys.modules.get("tensorflow")
    sys.modules["tensorflow"] = stand_in
    try:
        from bert import tokenization
    except ImportError:
        return None
    finally:
        del sys.modules["tensorflow"]
        if real is not None:
            sys.modules["tensorflow"] = real
    tokenizer = tokenization.FullTokenizer(str(vocab_file), do_lower_case)
    return lambda text: tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))


def make_plain(vocab_file, do_lower_case):
    """Returns the function text -> ids of our two basic tokenizers, which have no cache."""
    vocab = load_vocab(vocab_file)
    basic, wordpiece = BasicTokenizer(do_lower_case), WordpieceTokenizer(vocab)
    return lambda text: [vocab[piece] for word in basic.tokenize(text) for piece in wordpiece.tokenize(word)]


def make_ours(vocab_file, do_lower_case):
    """Returns the function text -> ids of `FullTokenizer`, with an empty cache."""
    return FullTokenizer(vocab_file, do_lower_case).encode


def num_bytes(lines):
    """Returns the size of a text in bytes of UTF-8, including line ends."""
    return sum(len(line.encode()) + 1 for line in lines)


def repeat_and_shuffle(lines, megabytes):
    """Returns a text of this size: copies of the lines in random order."""
    shuffled = lines * (1 + int(megabytes * 1e6) // num_bytes(lines))
    random.Random(1).shuffle(shuffled)
    total, count = 0, 0
    while total < megabytes * 1e6:
        total += num_bytes(shuffled[count : count + 1])
        count += 1
    return shuffled[:count]


def in_chunks(lines, size=1e6):
    """Yields lists of lines of about `size` bytes."""
    chunk, filled = [], 0
    for line in lines:
        chunk.append(line)
        filled += num_bytes([line])
        if filled >= size:
            yield chunk
            chunk, filled = [], 0
    if chunk:
        yield chunk


def measure(lines, encoders):
    """Encodes all lines; returns MB/s, and the number of lines with other ids than the first encoder's, by encoder."""
    seconds, differences = dict.fromkeys(encoders, 0.0), dict.fromkeys(encoders, 0)
    for chunk in in_chunks(lines):
        expected = None
        for name, encode in encoders.items():
            started = time.perf_counter()
            results = [encode(line) for line in chunk]
            seconds[name] += time.perf_counter() - started
            expected = expected or results
            differences[name] += sum(ids != right for ids, right in zip(results, expected, strict=True))
    megabytes = num_bytes(lines) / 1e6
    return {name: megabytes / taken for name, taken in seconds.items()}, differences


def measure_all(lines, args):
    """Measures the corpus with an empty cache, again with a full one, and a shuffled larger text with an empty one."""
    makers = {RELEASE: make_release, PLAIN: make_plain, OURS: make_ours}
    more = repeat_and_shuffle(lines, args.megabytes)
    once = f"the corpus, {num_bytes(lines) / 1e6:.1f} MB"
    shuffled = f"{num_bytes(more) / 1e6:.1f} MB, its sentences repeated and shuffled, from cold"
    speeds, differences = {}, {}

    def note(text, measured):
        for name, speed in measured[0].items():
            speeds.setdefault((text, name), []).append(speed)
            differences[text, name] = differences.get((text, name), 0) + measured[1][name]

    def make_encoders():
        encoders = {name: make(args.vocab, not args.cased) for name, make in makers.items()}
        return {name: encode for name, encode in encoders.items() if encode is not None}

    for number in range(args.repeats):
        print(f"measuring, {number + 1} of {args.repeats} ...", file=sys.stderr)
        encoders = make_encoders()
        note(f"{once}, from cold", measure(lines, encoders))
        note(f"{once}, again", measure(lines, encoders))
        note(shuffled, measure(more, make_encoders()))
    return speeds, differences


def print_table(speeds, differences, repeats):
    """Prints the measurements as a Markdown table, with the command and the machine."""
    base = RELEASE if any(name == RELEASE for _, name in speeds) else PLAIN
    print(f"`python {shlex.join(['benchmarks/tokenization.py', *sys.argv[1:]])}`\n")
    print(f"{describe_machine()}; one core used; median (lowest to highest) of {repeats} runs.")
    if base == PLAIN:
        print("The original BERT is not measured: pip install --no-deps bert-tensorflow==1.0.1 six")
    print(f"\n| text | tokenizer | MB/s | times {base} | sentences with other ids |")
    print("| --- | --- | ---: | ---: | ---: |")
    for (text, name), runs in speeds.items():
        ratios = [run / other for run, other in zip(runs, speeds[text, base], strict=True)]
        print(f"| {text} | {name} | {spread(runs, 2)} | {spread(ratios, 1)} | {differences[text, name]} |")


def main():
    """Measures and prints the table; returns the exit status, which is 1 if any ids differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", required=True, help="pattern of text files, one sentence a line")
    parser.add_argument("--vocab", required=True, help="WordPiece vocabulary")
    parser.add_argument("--megabytes", type=float, default=64, help="size of the repeated and shuffled text")
    parser.add_argument("--repeats", type=int, default=3, help="number of measurements")
    parser.add_argument("--cased", action="store_true", help="keep case and accents")
    args = parser.parse_args()
    files = sorted(glob.glob(args.corpus))
    lines = [line for file in files for line in pathlib.Path(file).read_text(encoding="utf-8").split("\n") if line]
    if not lines:
        parser.error(f"--corpus={args.corpus} matches no text")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    speeds, differences = measure_all(lines, args)
    print_table(speeds, differences, args.repeats)
    return 1 if any(differences.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
