"""Warnings about evaluations with misleading metrics."""

import json

import numpy as np
import pytest

from bert_keras.data_prep.text.same_text import Placed, key_of
from bert_keras.runs.run_dir import RunDir
from bert_keras.tasks.finetuning.data import (
    describe_evaluation_data,
    warn_of_replaced_reports,
    warn_of_trained_data,
)

FEATURES = {"input_ids": np.arange(6).reshape(3, 2), "label_ids": np.zeros(3)}


@pytest.fixture
def files(tmp_path):
    names = {"train": "a\n", "copy": "a\n", "other": "b\n", "longer": "aa\n"}
    names["eval_data-01234567.jsonl"] = "a\n"
    for name, text in names.items():
        (tmp_path / name).write_text(text)
    files = {"memory": str(tmp_path / "eval_data-01234567.jsonl")}
    return {name: str(tmp_path / name) for name in names} | files | {"none": None, "missing": str(tmp_path / "missing")}


@pytest.mark.parametrize(
    ("evaluated", "is_warned"),
    [
        ("train", True),
        ("copy", True),
        ("other", False),
        ("memory", True),
        ("longer", False),
        ("none", False),
        ("missing", False),
    ],
)
def test_an_evaluation_on_the_data_of_training_is_warned_of(files, messages, evaluated, is_warned):
    for settings in ({"eval_file": files[evaluated]}, {"eval_file": None, "predict_file": files[evaluated]}):
        warn_of_trained_data({"train_file": files["train"], **settings})
        assert len(messages) == is_warned
        shown = "eval_data" if evaluated == "memory" else files[evaluated]
        assert all(f"{shown} is the training data" in message for message in messages)
        messages.clear()
    # The classifier does not score its predictions.
    warn_of_trained_data({"train_file": files["train"], "do_eval": True, "predict_file": files[evaluated]})
    warn_of_trained_data({"train_file": None, "eval_file": files["train"]})
    assert messages == []


def placed(name, *texts):
    return [Placed(key_of([text] if isinstance(text, str) else text), f"{name} {n}") for n, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("train", "evaluated", "told"),
    [
        (("a", "b", "c"), ("d", "B ", "\u200bc"), "2 of 3, such as dev 1 (the same as train 1)"),
        (("a", "a", "b"), ("a",), "1 of 1, such as dev 0 (the same as train 0)"),
        ((("a", "b"), ("c", "d")), (("x", "y"), ("D", "c")), "1 of 2, such as dev 1 (the same as train 1)"),
        (("a", "b"), ("c", "a b"), None),
        ((("a", "b"),), ("a", "b"), None),
        (("a", "b"), (), None),
    ],
)
def test_texts_of_training_among_those_of_the_evaluation_are_warned_of(messages, train, evaluated, told):
    texts = {"train": placed("train", *train), "eval": placed("dev", *evaluated)}
    warn_of_trained_data({"train_file": "train", "eval_file": "dev"}, texts)
    expected = f"texts to evaluate on that the training data also have: {told}; the metrics are too good"
    assert [message.startswith(expected) for message in messages] == [True] * (told is not None)


def test_a_copy_of_the_file_is_warned_of_once(files, messages):
    warn_of_trained_data(
        {"train_file": files["train"], "eval_file": files["copy"]},
        {"train": placed("train", "a"), "eval": placed("dev", "a")},
    )
    assert len(messages) == 1


def test_reports_on_other_data_are_not_replaced_without_a_warning(tmp_path, messages):
    run_dir = RunDir(str(tmp_path), "run_classifier")
    before = describe_evaluation_data({"eval_file": "dev.tsv"}, FEATURES)
    assert (before["source"], before["num_rows"]) == ("dev.tsv", 3)
    other = describe_evaluation_data(
        {"eval_file": None, "eval_share": 0.2, "train_file": "train.tsv"}, {**FEATURES, "label_ids": np.ones(3)}
    )
    assert other["source"] == "0.2 of train.tsv"
    assert describe_evaluation_data({"tfds": "glue/mrpc", "data_dir": "cache"}, FEATURES)["source"] == "glue/mrpc"
    warn_of_replaced_reports(run_dir, before)
    run_dir.write_text("evaluation.json", json.dumps({"metrics": {"accuracy": 0.7}, "data": before}))
    warn_of_replaced_reports(run_dir, describe_evaluation_data({"eval_file": "moved.tsv"}, FEATURES))
    run_dir.write_text("evaluation.json", '{"metrics": ')  # damaged
    warn_of_replaced_reports(run_dir, other)
    assert messages == []
    run_dir.write_text("evaluation.json", json.dumps({"metrics": {"accuracy": 0.7}, "data": before}))
    warn_of_replaced_reports(run_dir, other)
    assert messages == [
        f"the reports in {tmp_path} are of dev.tsv (accuracy 70.0 %), and are replaced by those of 0.2 of train.tsv; "
        f"to keep them, evaluate into another output_dir, with init_checkpoint={tmp_path}"
    ]
    warn_of_replaced_reports(run_dir, {**before, "sha256": ""})
    assert "are replaced by those of dev.tsv after a change; " in messages[-1]
