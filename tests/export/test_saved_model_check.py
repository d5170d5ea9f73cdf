"""The check of a SavedModel in a new process, and the texts for it."""

import io
import json
import pickle
import re
import sys
import types

import numpy as np
import pytest
import tensorflow as tf
from fine_tuned_models import random_classifier

from bert_keras.export.checks import saved_model_check
from bert_keras.export.checks.saved_model_check import check_saved_model, run_in_new_process
from bert_keras.export.checks.texts import built_in_texts, read_check_texts
from bert_keras.tasks.graph.networks import IdsNetwork

TEXTS = {"text": np.array([b"he was hungry", b"paris"], object)}


class EvenText:
    """A text model whose answer many other models would also give."""

    settings = {"task": "classification"}

    @staticmethod
    def answer(texts):
        num_rows = len(texts["text"])
        return {"probabilities": tf.fill([num_rows, 2], 0.5), "is_cut": tf.fill([num_rows], False)}


@pytest.mark.parametrize("quantize", [None, "bfloat16"])
def test_scores_of_another_network_are_found_even_if_its_answers_are_alike(monkeypatch, quantize):
    network, other = (IdsNetwork(random_classifier(2, seed, num_hidden_layers=1), "classification") for seed in (0, 1))
    scores_of, change = network, 0.0

    def run(folder, calls):
        answers = [
            EvenText.answer(inputs) if name == "serving_default" else scores_of(inputs) for name, inputs in calls
        ]
        found = [{name: value.numpy() for name, value in answer.items()} for answer in answers]
        found[0]["probabilities"] += np.float32(change)
        return found, 0.5

    monkeypatch.setattr(saved_model_check, "run_in_new_process", run)
    monkeypatch.setattr(saved_model_check, "compare_with_python", lambda *arguments: (0.0, 2, 0))
    found = check_saved_model("1", EvenText, network, None, TEXTS, quantize)
    assert json.loads(json.dumps(found)) == found
    assert (found["distance"], found["text"], found["num_texts"], found["num_live"]) == (0.0, 0.0, 2, 2)
    change = 2e-4 if quantize is None else 0.06
    with pytest.raises(
        ValueError, match=r"^serving_default in a new process, text 1: probabilities\[0\] is 0.5.*, but 0.5 "
    ):
        check_saved_model("1", EvenText, network, None, TEXTS, quantize)
    scores_of, change = other, 0.0
    with pytest.raises(ValueError, match="^ids in a new process: logits"):
        check_saved_model("1", EvenText, network, None, TEXTS, quantize)


def test_the_new_process_must_not_load_the_project(tmp_path, monkeypatch):
    tf.saved_model.save(tf.Module(), str(tmp_path))
    sent = io.BytesIO(pickle.dumps((str(tmp_path), [], str(tmp_path / "outputs"))))
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=sent))
    with pytest.raises(SystemExit, match="^it has loaded bert_keras$"):
        exec(saved_model_check._PROGRAM, {})
    monkeypatch.setattr(saved_model_check, "_PROGRAM", "import sys; print('a hint'); sys.exit('it is damaged')")
    with pytest.raises(ValueError, match="^the SavedModel does not run in a new process: it is damaged$"):
        run_in_new_process(tmp_path, [])


OF_ONE, OF_PAIRS = {"task": "classification", "is_pair": False}, {"task": "question_answering"}
OF_CHOICES = {"task": "multiple_choice"}


def test_built_in_texts():
    texts = built_in_texts(OF_CHOICES | {"max_seq_length": 100})
    assert texts["text"].shape == (10,)
    assert texts["choices"].shape == (10, 3)
    assert b"" in texts["text"]
    assert any(len(text.split()) > 100 for text in texts["text"])
    with pytest.raises(UnicodeDecodeError):
        b"".join(texts["text"]).decode("utf-8")
    masked = built_in_texts({"task": "fill_mask", "max_seq_length": 10})["text"]
    assert {text.count(b"[MASK]") for text in masked} == {0, 2}


def test_texts_of_a_file(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_bytes(b"a b\r\n\n\xff\tc\n")
    assert read_check_texts(file, OF_ONE)["text"].tolist() == [b"a b", b"\xff\tc"]
    file.write_bytes(b"a\tb\nc\td\n")
    pairs = read_check_texts(file, OF_PAIRS)
    assert [values.tolist() for values in pairs.values()] == [[b"a", b"c"], [b"b", b"d"]]
    file.write_bytes(b"a\tb\tc\nd\te\tf\n")
    assert read_check_texts(file, OF_CHOICES)["choices"].tolist() == [[b"b", b"c"], [b"e", b"f"]]


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        (b"\n \n", OF_ONE, "check_file=FILE holds no text; give one text a line"),
        (b"a\tb\n\nc\n", OF_PAIRS, "FILE line 3 has 0 tabs, but needs 1: two texts, with tabs between"),
        (b"a\tb\tc\nd\te\n", OF_CHOICES, "FILE line 2 has 1 tabs, but needs 2: a text and its choices, the same num"),
        (b"a\tb\n", OF_CHOICES, "FILE line 1 has 1 tabs, but needs 2: a text and its choices"),
        (None, OF_ONE, "check_file=FILE is not a file; give a text file, one text a line"),
    ],
)
def test_a_file_that_has_other_texts(tmp_path, content, settings, message):
    file = tmp_path / "texts.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=f"^{re.escape(message.replace('FILE', str(file)))}"):
        read_check_texts(file, settings)
