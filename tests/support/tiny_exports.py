"""Tiny models of every task, in Python and in a graph."""

import concurrent.futures
import copy
import functools
import json
import re
import shutil
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from fine_tuned_models import FINE_TUNED, random_classifier, write_fine_tuned  # noqa: F401 (for the tests)
from known_models import random_model, randomise, small_config, write_model
from rounding import assert_close

from bert_keras import tasks
from bert_keras.commands import export_model
from bert_keras.export.checks import saved_model_check
from bert_keras.export.checks.agreement import random_features
from bert_keras.export.checks.saved_model_check import compare_with_python
from bert_keras.export.choices import PLACES, network_place
from bert_keras.export.formats import converters, ids_formats
from bert_keras.export.formats.ids_formats import write_ids
from bert_keras.export.formats.saved_model import make_text_model
from bert_keras.modeling import BertModel, ReplacedTokenModel
from bert_keras.prediction import FeatureExtractor, open_model
from bert_keras.tasks.graph.networks import IdsNetwork

# Those with packages that every environment of the tests has; OpenVINO has its own tests.
FORMATS = ("saved_model", "onnx", "litert", "web")
_LAYERS = {"num_hidden_layers": 1}
PRETRAINED = {
    "fill_mask": (lambda: random_model(**_LAYERS), {"max_seq_length": 16, "top_k": 3}),
    "next_sentence": (lambda: random_model(**_LAYERS), {"max_seq_length": 16}),
    "replaced_tokens": (lambda: randomise(ReplacedTokenModel(small_config(**_LAYERS))), {"max_seq_length": 16}),
    # Of two layers, so that the last one is not the first.
    "vectors": (random_model, {"max_seq_length": 16, "pooling": "mean", "layer": -1}),
}
# Networks of one layer, by task, that converters treat in their own ways.
NETWORKS = {
    "fill_mask": lambda: random_model(num_hidden_layers=1),
    # The exact gelu, which converters support as Erf but not as Erfc.
    "vectors": lambda: randomise(
        BertModel(small_config(num_hidden_layers=1, hidden_act="gelu_erf"), return_all_encoder_layers=True)
    ),
    # It reads from left to right.
    "classification": lambda: random_classifier(3, num_hidden_layers=1, is_decoder=True),
}


class Both:
    """A model in Python, `live`, and a TextModel of the same weights, which runs in a graph if it is traced."""

    def __init__(self, live, text_model, is_traced=False):
        self.live, self.text_model = live, text_model
        traced = tf.function(text_model.answer, [text_model.text_signature], autograph=False)
        self._answer = traced if is_traced else text_model.answer

    def changed(self, is_traced=False, **settings):
        """Returns the same model with other settings."""
        live, text_model = copy.copy(self.live), self.text_model
        live.settings = {**text_model.settings, **settings}
        return Both(live, type(text_model)(text_model.network, text_model.tokenizer, live.settings), is_traced)

    def ask(self, *rows):
        """Returns the answers of the text model as a dict of arrays. A row is a str or bytes, or a tuple of texts."""
        return {name: values.numpy() for name, values in self._answer(self._inputs(rows)).items()}

    def check(self, *rows):
        """Compares the answers with those of Python and returns them."""
        found = self.ask(*rows)
        assert compare_with_python(self.text_model, self.live, self._inputs(rows), found, 1e-5)[2] == 0
        return found

    def _inputs(self, rows):
        specs = self.text_model.text_signature
        columns = zip(*rows, strict=True) if len(specs) > 1 else [rows]
        if not rows:
            columns = [np.zeros([0, 2][: len(spec.shape)]) for spec in specs.values()]
        return {name: np.array(_in_bytes(column), object) for name, column in zip(specs, columns, strict=True)}


def open_pretrained(folder, task):
    """Writes the tiny model of a task of pre-training into a folder. Returns its predictor and its task.json."""
    make, settings = PRETRAINED[task]
    path, settings = write_model(folder, make()), {"task": task, **settings}
    if task == "vectors":
        return FeatureExtractor(path, [-1], "mean", settings["max_seq_length"]), settings
    options = {"top_k": settings["top_k"]} if task == "fill_mask" else {}
    return tasks.predictor_of(task)(path, **options), settings


def open_both(folder, model, task, tokenizer, is_traced=False, **settings):
    """Writes a fine-tuned model into the folder of a run, and opens it in both forms."""
    live = open_model(write_fine_tuned(folder, model, task, **settings))
    return Both(live, make_text_model(IdsNetwork(live.model, task), tokenizer, live.settings), is_traced)


def _in_bytes(texts):
    if isinstance(texts, list | tuple):
        return [_in_bytes(text) for text in texts]
    return texts.encode("utf-8", "surrogatepass") if isinstance(texts, str) else texts


def converters_in_this_process():
    """Returns a context in which converters run in the test process, which is faster than in a new process."""
    return mock.patch.object(ids_formats, "_run_converter", converters.convert)


def saved_models_in_this_process():
    """Returns a context in which SavedModels run in the test process, which is faster than in a new process."""

    def run(folder, calls):
        signatures = tf.saved_model.load(str(folder)).signatures
        found = [signatures[name](**{key: tf.constant(x) for key, x in inputs.items()}) for name, inputs in calls]
        return [{name: value.numpy() for name, value in outputs.items()} for outputs in found], 0.0

    return mock.patch.object(saved_model_check, "run_in_new_process", run)


def export_in_this_process(*flags):
    """Runs export_model.py without any other process. Returns what its `main` returns."""
    with converters_in_this_process(), saved_models_in_this_process():
        return export_model.main(["export_model.py", *flags])


def write_export(folder, model_folder, **settings):
    """Copies a model to an export whose network is not in a file. Returns the folder."""
    shutil.copytree(model_folder, folder)
    (folder / "export.json").write_text('{"formats": {}}')
    if settings:
        (folder / "task.json").write_text(json.dumps(settings))
    return folder


def write_network(network, folder, formats=FORMATS):
    """Writes the network of an export as formats, ONNX among them. The SavedModel has only the signature of ids."""
    if "saved_model" in formats:
        of_ids = tf.function(lambda features: network(features)).get_concrete_function(network.signature)
        tf.saved_model.save(network, str(folder / PLACES["saved_model"]), {"ids": of_ids})
    with converters_in_this_process():
        for name in {"onnx", "litert"} & {*formats}:
            write_ids(name, network, folder / PLACES[name])
    (folder / network_place("web")).parent.mkdir()
    shutil.copy(folder / PLACES["onnx"], folder / network_place("web"))
    (folder / "export.json").write_text(json.dumps({"formats": {name: {"path": PLACES[name]} for name in formats}}))


def assert_gives_outputs(run, network, *shape):
    """Checks that a file gives the outputs of its network, in float32, for random inputs of a shape [B, T]."""
    assert sorted(run.input_names) == sorted(network.input_names)
    features = random_features(network, *shape, seed=3)
    expected, found = network(features), run(features)
    assert set(found) == set(expected)
    for output, value in expected.items():
        assert found[output].dtype == np.float32
        np.testing.assert_allclose(found[output], value, rtol=0, atol=1e-5 * np.abs(value).max())


def assert_alone_as_in_company(run, rounding):
    """Checks that a network of a few classes gives texts alone the scores that it gives them in one batch."""
    random, lengths = np.random.default_rng(1), [2, 12, 5, 3, 9, 7]
    ids = [random.integers(1, 30, (1, length), np.int32) for length in lengths]

    def scores(rows):
        mask = np.array([np.arange(max(map(np.size, rows))) < row.size for row in rows], np.int32)
        padded = np.concatenate([np.pad(row, [(0, 0), (0, mask.shape[1] - row.size)]) for row in rows])
        return np.asarray(run({"input_ids": padded, "input_mask": mask, "segment_ids": 0 * mask})["logits"])

    together = scores(ids)
    alone = np.concatenate([scores([row]) for row in ids])
    assert np.ptp(together, axis=0).min() > 0.03 * np.abs(together).max()
    np.testing.assert_allclose(alone, together, rtol=0, atol=rounding * np.abs(together).max())


def assert_threads_may_share(network, model):
    """Checks that the answers of a network to eight threads are those of the model."""
    ids = np.random.default_rng(1).integers(1, 40, (8, 2, 7), np.int32)
    ids *= np.arange(7, dtype=np.int32) < [[7], [4]]
    examples = [{"input_ids": x, "input_mask": np.sign(x), "segment_ids": x * 0} for x in ids]
    expected = [np.asarray(model(example)["logits"]) for example in examples]

    def ask(first):
        return [network(examples[(first + number) % 8])["logits"] for number in range(20)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for first, answers in enumerate(pool.map(ask, range(8))):
            for number, logits in enumerate(answers, first):
                assert_close(logits, expected[number % 8])


def run_card(folder):
    """Runs each Python block of an export's README.md where bert_keras cannot be imported. Returns what they print."""
    pytest.importorskip("tokenizers")
    blocks = re.findall(r"^```python\n(.*?)^```", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    program = "import sys; sys.modules['bert_keras'] = None; exec(compile(sys.argv[1], 'README.md', 'exec'))"
    commands = [[sys.executable, "-P", "-c", program, block] for block in blocks]
    run = functools.partial(subprocess.run, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    for done in (results := [run(command) for command in commands]):
        assert done.returncode == 0, done.stderr
    return [done.stdout for done in results]
