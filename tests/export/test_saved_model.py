"""SavedModels of every task: their contents, and answers from their signatures.

Writing one takes seconds. The quick tests of export_model.py write one and check it in a new process.
"""

import functools
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from known_models import TOKENS
from tensorflow.core.protobuf import saved_model_pb2
from tiny_exports import saved_models_in_this_process

from bert_keras.export.checks.saved_model_check import check_saved_model
from bert_keras.export.checks.texts import built_in_texts
from bert_keras.export.formats.saved_model import write_saved_model
from bert_keras.tasks import abilities

pytestmark = [pytest.mark.slow]
TASKS = [*abilities(is_exported=True)]


@pytest.fixture(scope="module")
def saved(open_task, tmp_path_factory):
    """Return a function that returns the path of the SavedModel of a task."""

    @functools.cache
    def save(task):
        folder = tmp_path_factory.mktemp(task) / "export"
        return pathlib.Path(write_saved_model(open_task(task).text_model, folder))

    return save


@pytest.mark.parametrize("task", TASKS)
def test_its_answers(saved, open_task, task):
    both, path = open_task(task), saved(task)
    text_model = both.text_model
    with saved_models_in_this_process():
        texts = built_in_texts(text_model.settings)
        found = check_saved_model(path, text_model, text_model.network, both.live, texts)
    assert max(found[name] for name in ("text", "ids", "live")) < 2e-5


@pytest.mark.parametrize("task", ["classification", "question_answering"])
def test_no_texts_have_no_answers(saved, open_task, task):
    text_model = open_task(task).text_model
    texts = built_in_texts(text_model.settings)
    signatures = tf.saved_model.load(str(saved(task))).signatures
    answers = signatures["serving_default"](**{name: tf.constant(rows[:0]) for name, rows in texts.items()})
    answers |= signatures["ids"](**dict.fromkeys(text_model.network.input_names, np.zeros([0, 4], np.int32)))
    assert {value.shape[0] for value in answers.values()} == {0}


@pytest.mark.parametrize("task", TASKS)
def test_its_contents(saved, open_task, task):
    text_model, path = open_task(task).text_model, saved(task)
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
    assert set(of_text.inputs) == set(text_model.text_signature)
    assert set(of_ids.inputs) == set(text_model.network.input_names)
    assert set(of_ids.outputs) == set(text_model.network.output_names)
    for tensor in (*of_text.inputs.values(), *of_text.outputs.values(), *of_ids.inputs.values()):
        assert tensor.tensor_shape.dim[0].size == -1
    ops = {node.op for function in content.graph_def.library.function for node in function.node_def}
    assert not [op for op in ops if "Py" in op]
    # TensorFlow Serving needs a version, and readers the vocabulary.
    assert [entry.name for entry in path.parent.iterdir()] == ["1"]
    assert (path / "assets" / "vocab.txt").read_text().split() == TOKENS
