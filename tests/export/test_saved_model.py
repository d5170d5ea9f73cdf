"""SavedModels of every task: their contents, and answers without this project's code."""

import functools
import pathlib
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from known_models import TOKENS
from tensorflow.core.protobuf import saved_model_pb2
from tiny_exports import FINE_TUNED, PRETRAINED

from bert_keras.export.checks.agreement import random_features
from bert_keras.export.checks.texts import built_in_texts
from bert_keras.export.formats.saved_model import write_saved_model

TASKS = [*FINE_TUNED, *PRETRAINED]
# Writing a SavedModel takes seconds, so the quick tests write one.
SOME_TASKS = [TASKS[0], *(pytest.param(task, marks=pytest.mark.slow) for task in TASKS[1:])]

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


@pytest.fixture(scope="module")
def saved(open_task, tmp_path_factory):
    """Return a function that returns the text model and the path of the SavedModel of a task."""

    @functools.cache
    def save(task):
        text_model = open_task(task).text_model
        return text_model, pathlib.Path(write_saved_model(text_model, tmp_path_factory.mktemp(task) / "export"))

    return save


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
def test_proof_that_all_tasks_answer_in_a_process_without_the_project(saved, tmp_path):
    calls, expected = {}, {}
    for task in TASKS:
        text_model, path = saved(task)
        moved = shutil.copytree(path, tmp_path / "elsewhere" / task)
        texts = built_in_texts(text_model.settings)
        of_texts = [{name: rows[:num_rows] for name, rows in texts.items()} for num_rows in (99, 1, 0)]
        of_ids = [random_features(text_model.network, *sizes) for sizes in ((1, 5), (3, 16))]
        of_ids.append({name: np.zeros([0, 4], np.int32) for name in text_model.network.input_names})
        calls[task] = str(moved), [("serving_default", rows) for rows in of_texts] + [("ids", ids) for ids in of_ids]
        expected[task] = [text_model.answer(rows) for rows in of_texts] + [text_model.network(ids) for ids in of_ids]
        assert 0 < np.sum(expected[task][0]["is_cut"]) < len(expected[task][0]["is_cut"])
    (tmp_path / "calls.pickle").write_bytes(pickle.dumps(calls))
    command = [sys.executable, "-I", "-c", LOADING]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = pickle.loads((tmp_path / "answers.pickle").read_bytes())
    assert list(answers) == TASKS
    for task, found in answers.items():
        for of_call, of_model in zip(found, expected[task], strict=True):
            assert_same(of_call, of_model)


@pytest.mark.parametrize("task", SOME_TASKS)
def test_its_contents(saved, task):
    text_model, path = saved(task)
    # Each weight is in the file once.
    shapes = tf.train.load_checkpoint(f"{path}/variables/variables").get_variable_to_shape_map()
    assert shapes.pop("_CHECKPOINTABLE_OBJECT_GRAPH") == []
    expected = [weight.shape.as_list() for weight in text_model.network.weights.values()]
    assert sorted(shapes.values()) == sorted(expected)
    # The batch is dynamic, and no operation needs this Python.
    [content] = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes()).meta_graphs
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
    # TensorFlow Serving needs a version, and readers the vocabulary.
    assert [entry.name for entry in path.parent.iterdir()] == ["1"]
    assert (path / "assets" / "vocab.txt").read_text().split() == TOKENS


def test_ids_that_the_model_does_not_support(saved):
    _, path = saved("classification")
    score = tf.saved_model.load(str(path)).signatures["ids"]
    ids = tf.ones([2, 41], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="input_ids is longer than the 40 tokens that the model"):
        score(input_ids=ids, input_mask=ids, segment_ids=ids)
    with pytest.raises(tf.errors.InvalidArgumentError, match="segment_ids and input_ids differ in shape"):
        score(input_ids=ids[:, :4], input_mask=ids[:, :4], segment_ids=ids[:1, :4])
