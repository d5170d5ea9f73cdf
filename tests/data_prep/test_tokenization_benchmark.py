import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from reference_tokenizer import write_vocab

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "tokenization.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("tokenization_benchmark", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_differences_are_counted_by_sentence(benchmark):
    lines = [str(number) for number in range(100)]
    encoders = {"first": lambda line: [int(line)], "second": lambda line: [min(int(line), 90)]}
    speeds, differences = benchmark.measure(lines, encoders)
    assert differences == {"first": 0, "second": 9}
    assert all(speed > 0 for speed in speeds.values())


def test_repeated_text_has_the_size_asked_for(benchmark):
    lines = [f"sentence {number}" for number in range(100)]
    repeated = benchmark.repeat_and_shuffle(lines, megabytes=0.01)
    assert 10_000 <= benchmark.num_bytes(repeated) < 10_013
    assert set(repeated) == set(lines)
    assert [len(chunk) for chunk in benchmark.in_chunks(["four"] * 7, size=15)] == [3, 3, 1]


def test_table(tmp_path):
    vocab_file = write_vocab(tmp_path / "vocab.txt", "[UNK]", "un", "##want", "##ed")
    (tmp_path / "text.txt").write_text("unwanted\n\nun wanted\n", encoding="utf-8")
    command = [sys.executable, BENCHMARK, f"--vocab={vocab_file}", "--megabytes=0.001", "--repeats=1"]
    done = subprocess.run([*command, f"--corpus={tmp_path}/t*.txt"], capture_output=True, text=True, check=True)
    rows = [row for row in done.stdout.splitlines() if "FullTokenizer.encode" in row]
    assert [row.split("|")[1].strip() for row in rows] == [
        "the corpus, 0.0 MB, from cold",
        "the corpus, 0.0 MB, again",
        "0.0 MB, its sentences repeated and shuffled, from cold",
    ]
    assert all(row.endswith("| 0 |") for row in rows)

    done = subprocess.run([*command, "--corpus=none*"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("error: --corpus=none* matches no text\n")
