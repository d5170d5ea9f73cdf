"""Benchmarks record facts of the machine, and measure in their own processes."""

import asyncio
import http.server
import json
import os
import pathlib
import platform
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf
from guards import at_least

from benchmarks import machine, memory
from benchmarks.intervals import half_interval
from bert_keras.mistakes import Mistake

# They measure; no program imports them.
pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).resolve().parents[1]
SAMPLE_VOCAB = ROOT / "data_prep" / "sample" / "vocab.txt"
BENCHMARKS = ROOT / "benchmarks"


def has_no_peer(path):
    text = path.read_text(encoding="utf-8")
    return "ArgumentParser" in text and "bert_keras" in text


def test_the_processor_is_named_or_else_the_kind_of_machine(tmp_path, monkeypatch):
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "CPU_INFO", str(info))
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "fast64")
    assert machine.processor_name() == "fast64"
    info.write_text("processor\t: 0\nBogoMIPS\t: 100.00\n")
    assert machine.processor_name() == "fast64"
    info.write_text("processor\t: 0\nmodel name\t: Chip: 5 GHz\nprocessor\t: 1\nmodel name\t: Chip: 5 GHz\n")
    assert machine.processor_name() == "Chip: 5 GHz"


def test_the_interval_of_a_mean_is_that_of_student():
    # The quantile of two degrees of freedom is 4.303, in every table.
    assert half_interval([1.0, 2.0, 3.0]) == pytest.approx(4.3027 / 3**0.5, rel=1e-4)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flags\t\t: fpu avx avx2 avx512f avx512_bf16 amx_tile sse", "avx2, avx512f, avx512_bf16, amx_tile"),
        ("Features\t: fp asimd sve i8mm bf16", "asimd, sve, i8mm, bf16"),
        ("bugs\t\t: avx2", "instruction sets unknown"),
    ],
)
def test_the_machine_is_described_with_its_instruction_sets(tmp_path, monkeypatch, line, expected):
    info = tmp_path / "cpuinfo"
    info.write_text(f"model name\t: Chip\n{line}\n")
    monkeypatch.setattr(machine, "CPU_INFO", str(info))
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 2)
    start = f"2 cores, Chip ({expected}); Python {platform.python_version()}"
    assert machine.describe_machine() == start
    assert machine.describe_machine(["numpy"]) == f"{start}, numpy {np.__version__}"


def test_tensorflow_uses_the_device_that_is_asked_for(monkeypatch):
    gpus, hidden = [], []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *arguments: hidden.append(arguments))
    with pytest.raises(Mistake, match="--device=gpu: TensorFlow finds no GPU; install bert-keras.gpu., or give"):
        memory.use_device("gpu")
    gpus.append("A")
    memory.use_device("gpu")
    assert not hidden
    memory.use_device("cpu")
    assert hidden == [([], "GPU")]


def test_the_peak_is_that_of_the_fastest_product(monkeypatch):
    def products(x, precision):
        assert (x.shape, precision) == ((8, 8), "float32")
        return [lambda wait=wait: times.append(times[-1] + wait) for wait in (1e-3, 2e-4, 3e-3)]

    times = [0.0]
    monkeypatch.setattr(machine, "_products", products)
    monkeypatch.setattr(machine.time, "perf_counter", lambda: times[-1])
    assert machine.peak_speed("float32", sizes=[8], seconds=0.01) == pytest.approx(2 * 8**3 / 2e-4)


def test_every_library_multiplies():
    x = np.eye(4, dtype=np.float32)
    results = [multiply() for multiply in machine._products(x, "float32")]
    assert len(results) >= 3
    assert [np.ravel(result)[0] for result in results] == [1] * len(results)
    assert len(list(machine._products(x, "bfloat16"))) == len(results) - 1


def test_median_comes_with_its_range():
    assert machine.spread([0.5, 3.0, 2.0], 1) == "2.0 (0.5 to 3.0)"


def test_operations_are_those_of_the_products():
    from benchmarks import speed

    config = speed.read_config("uncased_L-12_H-768_A-12")
    # Without attention to other tokens: two operations for each of the 84,934,656 weights of the encoder's kernels.
    kernels = 12 * (4 * 768**2 + 2 * 768 * 3072)
    batch = speed.make_batch(config, 1, 1)
    assert speed.encoder_operations(config, batch) == 2 * kernels + 2 * 12 * 2 * 768
    batch = speed.make_batch(config, 2, 128)
    assert batch["masked_lm_ids"].shape == (2, 20)
    masked_lm = 2 * 40 * (768**2 + 768 * 30522)
    assert speed.pretraining_operations(config, batch) == 3 * (speed.encoder_operations(config, batch) + masked_lm)


def test_programs_take_turns_and_are_compared_with_the_fastest_peer(capsys):
    from benchmarks import speed

    calls = []
    programs = {name: lambda name=name: calls.append(name) for name in ("one", "two")}
    times = speed.take_turns(programs, rounds=2, seconds=0.0)
    assert calls == ["one", "one", "two", "two", "one", "two", "one", "two"]
    assert {name: len(values) for name, values in times.items()} == {"one": 2, "two": 2}

    times = {
        "bert-keras float32": [0.5, 0.4, 0.1],
        "one float32": [2.0, 2.0, 2.0],
        "two float32": [1.0, 0.8, 0.9],
    }
    speed.print_table(times, batch_size=8, operations=1e9, peaks={"float32": 1e11})
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == [
        "| bert-keras float32 | 20 | 16 to 80 | 2.25 | 2% |",
        "| one float32 | 4 | 4 to 4 | 0.45 | 0% |",
        "| two float32 | 8.89 | 8 to 10 | 1.00 | 1% |",
    ]


def test_memory_of_a_gpu_is_that_of_its_tensors(monkeypatch):
    asked = []
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda name: asked.append(name) or {"peak": 123})
    assert memory.peak_memory("gpu") == 123
    assert asked == ["GPU:0"]


def test_memory_is_that_of_a_new_process_with_real_steps(tmp_path, capsys):
    config = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config |= {"intermediate_size": 64, "max_position_embeddings": 512}
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps(config))
    large_parent = np.ones(2**28)  # 2 GB, which a new process must not count
    flags = ["--num_tokens=512", "--recompute=true", "--gradient_accumulation_steps=2", "--batch_size=2,48"]
    memory.main(["memory.py", f"--bert_config_file={path}", *flags])
    rows = rows_of(capsys.readouterr().out)
    assert [row[:-2] for row in rows] == [[str(path), "512", "float32", "true", "2", size] for size in ("2", "48")]
    small, large = (float(row[-2]) * 2**30 for row in rows)
    # The attention scores of a part of the batch take 48 / 2 * 2 * 512 * 512 * 4 bytes = 48 MB, several times.
    assert 200 * 2**20 < small < large - 48 * 2**20
    assert small < large_parent.nbytes
    assert all(float(row[-1]) > 0 for row in rows)
    with pytest.raises(Mistake, match="'nowhere.json'.* was not measured: .*nowhere.json"):
        memory.main(["memory.py", "--bert_config_file=nowhere.json"])


def test_a_setting_that_memory_does_not_know_is_refused():
    with pytest.raises(Mistake, match='^--recompute has "True", but must be some of false, true$'):
        memory.main(["memory.py", "--recompute=false,True"])


@pytest.mark.parametrize("name", at_least(5, (path.name for path in BENCHMARKS.glob("*.py") if has_no_peer(path))))
def test_a_benchmark_measures_the_clone_that_it_is_in(name, tmp_path):
    (tmp_path / "bert_keras.py").write_text("raise SystemExit('the installed package')")
    command, environment = [sys.executable, BENCHMARKS / name, "--help"], {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Echo(http.server.BaseHTTPRequestHandler):
    """Returns the body of a request, after it has asked for it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802 (the name in http.server)
        self.send_response_only(100)
        self.end_headers()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def test_clients_send_all_requests_and_measure_their_times():
    from benchmarks import load_client

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}/a"
        assert asyncio.run(load_client.ask(url, {"a": 1})) == {"a": 1}
        turn = asyncio.run(load_client.run_turn(url, [load_client.http_request(url, b"[1]")], 4, 0.1))
        server.shutdown()
    assert len(turn.times) >= 4
    assert turn.times == sorted(turn.times)
    turn = load_client.Turn(1.0, [float(number) for number in range(100)])
    assert [turn.percentile(share) for share in (0, 0.5, 0.99, 1)] == [0, 50, 99, 99]


@pytest.fixture
def corpus(tmp_path):
    """Five documents, the fifth equal to the first."""
    lines = [f"the number of this line is {number}" for number in range(8)]
    documents = ["\n".join(lines[start : start + 2]) for start in (0, 2, 4, 6, 0)]
    file = tmp_path / "corpus.txt"
    file.write_text("\n\n".join(documents) + "\n")
    return file


def rows_of(table):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")][2:]


def test_the_builder_is_measured_with_its_memory_and_disk(corpus, tmp_path, capsys):
    from benchmarks import create_pretraining_data

    folder = tmp_path / "records"
    folder.mkdir()
    arguments = [f"--corpus={corpus}", f"--vocab={SAMPLE_VOCAB}", "--times=1", "--workers=2", "--dupe=1", "--length=64"]
    create_pretraining_data.main([*arguments, "--gzip", f"--records={folder}"])
    [(text, workers, instances, *_, records)] = rows_of(capsys.readouterr().out)
    assert (text, workers) == ("0.0 MB", "2")
    assert int(instances) >= 5  # at least one of each document
    assert records.endswith(" MB")
    assert not list(folder.iterdir())
