"""SavedModels of every task: their contents, and answers without this project's code."""

import pathlib
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from fine_tuned_models import (
    OF_ANSWERS,
    OF_TAGS,
    OF_TEXTS,
    TAGS,
    random_answerer,
    random_classifier,
    randomise,
    small_config,
)
from known_models import TOKENS, random_model
from tensorflow.core.protobuf import saved_model_pb2

from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.formats.saved_model import make_text_model, write_saved_model
from bert_keras.modeling import BertModel, TokenClassifierModel

ONE_LAYER = {"num_hidden_layers": 1}
LABELS = {"labels": ["bad", "good", "\u00fc"]}
# Task -> its model and its settings.
TASKS = {
    "classification": (lambda: random_classifier(3, **ONE_LAYER), {**OF_TEXTS, **LABELS, "is_pair": True}),
    "regression": (lambda: random_classifier(1, **ONE_LAYER), OF_TEXTS),
    "multi_label": (lambda: random_classifier(3, **ONE_LAYER), {**OF_TEXTS, **LABELS}),
    "multiple_choice": (lambda: random_classifier(1, **ONE_LAYER), {"max_seq_length": 16}),
    "question_answering": (lambda: random_answerer(**ONE_LAYER), OF_ANSWERS),
    "token_classification": (
        lambda: randomise(TokenClassifierModel(small_config(**ONE_LAYER), len(TAGS))),
        {**OF_TAGS, "labels": TAGS},
    ),
    "fill_mask": (random_model, {"max_seq_length": 16, "top_k": 3}),
    "vectors": (
        lambda: randomise(BertModel(small_config(**ONE_LAYER))),
        {"max_seq_length": 16, "pooling": "mean", "layer": -1},
    ),
}

LOADING = """
import pickle, sys
import tensorflow as tf
import tensorflow_text

with open("calls.pickle", "rb") as file:
    calls_of = pickle.load(file)
answers = {}
for task, (path, calls) in calls_of.items():
    signatures = tf.saved_model.load(path, tags=["serve"]).signatures
    for signature, inputs in calls:
        given = signatures[signature](**{name: tf.constant(value) for name, value in inputs.items()})
        answers.setdefault(task, []).append({name: value.numpy() for name, value in given.items()})
with open("answers.pickle", "wb") as file:
    pickle.dump(answers, file)
assert "bert_keras" not in sys.modules
"""


@pytest.fixture(scope="session")
def saved(tokenizer, tmp_path_factory):
    """The text model and the path of its SavedModel by task."""
    both = {}
    for task, (make_model, settings) in TASKS.items():
        text_model = make_text_model(IdsNetwork(make_model(), task), tokenizer, {"task": task, **settings})
        both[task] = text_model, write_saved_model(text_model, tmp_path_factory.mktemp(task) / "export")
    return both


def rows_of(text_model, texts, num_rows):
    """Makes rows of a text model's inputs, as arrays of bytes; all inputs of a row differ."""
    rows = {}
    for number, (name, shape) in enumerate(text_model.inputs.items()):
        columns = [[*texts[number + column :], *texts][:num_rows] for column in range(3 if len(shape) == 2 else 1)]
        values = np.array(columns, object).T
        rows[name] = values if len(shape) == 2 else values[:, 0]
    return rows


def ids_of(network, num_rows, num_tokens):
    random = np.random.default_rng(num_tokens)
    lengths = random.integers(2, num_tokens + 1, num_rows)[:, None]
    is_real = np.arange(num_tokens) < lengths
    features = {
        "input_ids": random.integers(5, len(TOKENS), is_real.shape) * is_real,
        "input_mask": is_real,
        "segment_ids": is_real & (np.arange(num_tokens) > 3),
        "masked_lm_positions": random.integers(0, 2, (num_rows, 3)),
    }
    return {name: features[name].astype(np.int32) for name in network.input_names}


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        value = value.numpy()
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        if value.dtype == np.float32:
            np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-5, err_msg=name)
        else:
            assert found[name].tolist() == value.tolist(), name


@pytest.mark.slow  # traces and writes eight models
def test_proof_that_all_tasks_answer_in_a_process_without_the_project(saved, texts, tmp_path):
    texts = [text.encode() for text in texts] + [b"", b"un\xff paris\xe2\x82 [MASK]", b"[MASK] is " * 20, b"[MASK]"]
    calls, expected = {}, {}
    for task, (text_model, path) in saved.items():
        network = text_model.network
        moved = shutil.copytree(path, tmp_path / "elsewhere" / task)
        of_texts = [rows_of(text_model, texts, num_rows) for num_rows in (len(texts), 1, 0)]
        of_ids = [ids_of(network, *sizes) for sizes in ((1, 5), (3, 16), (0, 4))]
        calls[task] = str(moved), [("serving_default", rows) for rows in of_texts] + [("ids", ids) for ids in of_ids]
        expected[task] = [text_model.answer(rows) for rows in of_texts] + [network(ids) for ids in of_ids]
        for rows, answers in zip(of_texts, expected[task], strict=False):
            assert {value.shape[0] for value in answers.values()} == {len(next(iter(rows.values())))}
            assert answers["is_cut"].dtype == tf.bool
        assert 0 < np.sum(expected[task][0]["is_cut"]) < len(texts)
    (tmp_path / "calls.pickle").write_bytes(pickle.dumps(calls))
    command = [sys.executable, "-I", "-c", LOADING]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = pickle.loads((tmp_path / "answers.pickle").read_bytes())
    assert list(answers) == list(TASKS)
    for task, found in answers.items():
        for of_call, of_model in zip(found, expected[task], strict=True):
            assert_same(of_call, of_model)


# The contents of a SavedModel.


@pytest.mark.parametrize("task", TASKS)
def test_each_weight_is_in_the_file_once(saved, task):
    text_model, path = saved[task]
    shapes = tf.train.load_checkpoint(f"{path}/variables/variables").get_variable_to_shape_map()
    assert shapes.pop("_CHECKPOINTABLE_OBJECT_GRAPH") == []
    expected = [weight.shape.as_list() for weight in text_model.network.weights.values()]
    assert sorted(shapes.values()) == sorted(expected)


@pytest.mark.parametrize("task", TASKS)
def test_nothing_in_it_is_of_this_machine(saved, task):
    text_model, path = saved[task]
    [content] = saved_model_pb2.SavedModel.FromString((pathlib.Path(path) / "saved_model.pb").read_bytes()).meta_graphs
    assert content.meta_info_def.tags == ["serve"]
    assert set(content.signature_def) == {"serving_default", "ids", "__saved_model_init_op"}
    of_text, of_ids = content.signature_def["serving_default"], content.signature_def["ids"]
    assert set(of_text.inputs) == set(text_model.inputs)
    assert set(of_ids.inputs) == set(text_model.network.input_names)
    assert set(of_ids.outputs) == set(text_model.network.output_names)
    for tensor in (*of_text.inputs.values(), *of_text.outputs.values(), *of_ids.inputs.values()):
        assert tensor.tensor_shape.dim[0].size == -1
    ops = {node.op for function in content.graph_def.library.function for node in function.node_def}
    assert not [op for op in ops if "Py" in op]


def test_a_folder_that_tensorflow_serving_takes(saved):
    text_model, path = saved["classification"]
    path = pathlib.Path(path)
    assert path.name == "1"
    assert [entry.name for entry in path.parent.iterdir()] == ["1"]
    assert (path / "assets" / "vocab.txt").read_text().split() == TOKENS


# Mistakes.


def test_it_is_whole_or_not_there(saved, tmp_path, monkeypatch):
    text_model, path = saved["regression"]
    with pytest.raises(ValueError, match=r"export/1 already exists; give another folder, or remove it$"):
        write_saved_model(text_model, pathlib.Path(path).parent)

    def save_half(_, folder, signatures):
        pathlib.Path(folder).mkdir()
        (pathlib.Path(folder) / "saved_model.pb").write_text("half")
        raise OSError("the disk is full")

    monkeypatch.setattr(tf.saved_model, "save", save_half)
    with pytest.raises(OSError, match="the disk is full"):
        write_saved_model(text_model, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_ids_that_the_model_does_not_take(saved):
    _, path = saved["classification"]
    score = tf.saved_model.load(path).signatures["ids"]
    ids = tf.ones([2, 41], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="input_ids is longer than the 40 tokens that the model"):
        score(input_ids=ids, input_mask=ids, segment_ids=ids)
    with pytest.raises(tf.errors.InvalidArgumentError, match="segment_ids and input_ids differ in shape"):
        score(input_ids=ids[:, :4], input_mask=ids[:, :4], segment_ids=ids[:1, :4])
