"""Conversion from flags to files."""

import dataclasses
import json
import os
import re
import shutil
import sys

import numpy as np
import pytest
from converted import CONFIG, TOKENS, arguments, convert, read_json, write_released
from fine_tuned_models import FINE_TUNED, write_fine_tuned
from states import assert_bit_equal, weights_in
from tiny_bert import make_config, make_model

from bert_keras.commands import convert_checkpoint
from bert_keras.data_prep.text.vocabulary_files import tokenizer_config_text
from bert_keras.export import checkpoint_conversion
from bert_keras.modeling import (
    MultipleChoiceModel,
    open_checkpoint,
    save_checkpoint,
    save_safetensors,
    weights_by_name,
)
from bert_keras.modeling.checkpoints.names import LINEAR_HEADS
from bert_keras.prediction import open_model
from bert_keras.runs.run_dir import RunDir
from bert_keras.storage import paths
from bert_keras.storage.writing import hidden_name

TENSORFLOW_FILES = ["bert_config.json", "bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index"]
TENSORFLOW_FILES += ["tokenizer_config.json", "vocab.txt"]
SAFETENSORS_FILES = ["config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"]


@pytest.fixture
def said(messages, monkeypatch):
    """Return a function that returns the log lines so far."""
    # The program would log only to the screen.
    monkeypatch.setattr(convert_checkpoint, "open_console", lambda: None)
    return lambda: "\n".join(messages)


@pytest.fixture
def model_dir(tmp_path):
    return write_released(tmp_path / "released")


@pytest.fixture(scope="module")
def classifier_run(tmp_path_factory):
    """A fine-tuning run of a classifier with three classes."""
    make, settings = FINE_TUNED["classification"]
    return write_fine_tuned(tmp_path_factory.mktemp("classifier") / "run", make(), "classification", **settings)


def test_there_and_back_is_the_same(model_dir, tmp_path, said):
    (tmp_path / "safe").mkdir()
    # Left by a killed process, whose id does not exist: ids are below 2**22.
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr(os, "getpid", lambda: 99999999)
        (tmp_path / hidden_name("back")).mkdir()
    convert(model_dir, tmp_path / "safe")
    assert sorted(os.listdir(tmp_path / "safe")) == SAFETENSORS_FILES
    assert read_json(tmp_path / "safe" / "config.json")["architectures"] == ["BertForPreTraining"]
    settings = json.loads(tokenizer_config_text(True, None, 16))
    assert read_json(tmp_path / "safe" / "tokenizer_config.json") == settings
    assert "guessed from the words of" in said()
    convert(tmp_path / "safe", tmp_path / "back", "tensorflow")
    assert sorted(os.listdir(tmp_path / "back")) == TENSORFLOW_FILES
    assert sorted(os.listdir(tmp_path)) == ["back", "released", "safe"]
    assert_bit_equal(weights_in(model_dir), weights_in(tmp_path / "back"))
    for name in ("bert_config.json", "vocab.txt"):
        assert (tmp_path / "back" / name).read_bytes() == (model_dir / name).read_bytes()
    assert (
        "read back: all 30 entries have the same bits; on a fixed input sequence_output, pooled_output, masked_lm, "
        "next_sentence differ by at most 0"
    ) in said()
    assert f"{tmp_path / 'back'} holds bert_config.json, bert_model.ckpt.data-00000-of-00001" in said()


def test_slots_and_step_of_the_original_are_kept_only_on_demand(golden_dir, tmp_path):
    source, config_file = golden_dir / "pretraining_a/trained", golden_dir / "pretraining_a/bert_config.json"
    convert(source, tmp_path / "safe", "safetensors", bert_config_file=config_file, keep_optimizer=True)
    convert(tmp_path / "safe", tmp_path / "back", "tensorflow", keep_optimizer=True)
    assert_bit_equal(weights_in(source / "model.ckpt-30"), weights_in(tmp_path / "back"))
    convert(tmp_path / "back", tmp_path / "weights", "tensorflow")
    names = open_checkpoint(tmp_path / "weights").names
    assert len(names) == 46
    assert not [name for name in names if "adam" in name or "step" in name]


def test_the_newest_checkpoint_of_a_run(tmp_path):
    run_dir = RunDir(str(tmp_path / "run"), "run_pretraining")
    run_dir.claim({}, {}, ())
    run_dir.write_text("bert_config.json", CONFIG.to_json_string())
    run_dir.write_text("vocab.txt", "\n".join(TOKENS))
    for step in (1, 2):
        run_dir.save(step, weights_by_name(make_model(CONFIG, seed=step)) | {"global_step": np.int64(step)})
    convert(tmp_path / "run", tmp_path / "safe", "safetensors", keep_optimizer=True)
    assert_bit_equal(weights_in(run_dir.latest_checkpoint()), weights_in(tmp_path / "safe"))
    assert open_checkpoint(tmp_path / "safe").read("global_step") == 2
    assert (tmp_path / "safe" / "vocab.txt").read_text().split() == TOKENS


def test_only_the_user_says_what_a_top_level_head_is_for(model_dir, tmp_path, said):
    tensors = {name: value for name, value in weights_in(model_dir).items() if "cls" not in name}
    tensors |= {"output_weights": np.ones((3, 8), np.float32), "output_bias": np.arange(3, dtype=np.float32)}
    save_checkpoint(model_dir / "bert_model.ckpt", tensors)
    convert(model_dir, tmp_path / "safe", "safetensors", head="token_classifier", labels="no,maybe,yes")
    config = read_json(tmp_path / "safe" / "config.json")
    assert config["architectures"] == ["BertForTokenClassification"]
    assert config["id2label"] == {"0": "no", "1": "maybe", "2": "yes"}
    assert open_checkpoint(tmp_path / "safe").labels == ["no", "maybe", "yes"]
    convert(tmp_path / "safe", tmp_path / "back", "tensorflow")
    task = read_json(tmp_path / "back" / "task.json")
    assert (task["task"], task["labels"]) == ("token_classification", ["no", "maybe", "yes"])
    values = read_json(tmp_path / "safe" / "config.json")
    (tmp_path / "safe" / "config.json").write_text(json.dumps(values | {"architectures": None}))
    convert(tmp_path / "safe", tmp_path / "without", "tensorflow", head="token_classifier")
    assert "a TensorFlow checkpoint cannot store the names of classes: no,maybe,yes" in said()
    assert "convert it back with head=token_classifier" in said()
    np.testing.assert_array_equal(open_checkpoint(tmp_path / "back").read("output_bias"), [0, 1, 2])


def test_heads_on_another_token_are_refused(tmp_path, said):
    config = make_config(num_hidden_layers=1, is_decoder=True)
    save_checkpoint(tmp_path / "run" / "bert_model.ckpt", weights_by_name(make_model(config)))
    config.to_json_file(tmp_path / "run" / "bert_config.json")
    with pytest.raises(
        ValueError, match="has is_decoder and the head next_sentence: with transformers this head reads"
    ):
        convert(tmp_path / "run", tmp_path / "refused", "safetensors")
    convert(tmp_path / "run", tmp_path / "safe", "safetensors", head="masked_lm")
    assert "is_decoder: transformers pools the first token and bert-keras the last; do not use pooler_output" in said()


def test_a_choice_has_one_score(tmp_path):
    weights = weights_by_name(MultipleChoiceModel(CONFIG))
    save_safetensors(tmp_path / "safe", weights, CONFIG, "BertForMultipleChoice")
    # Other libraries write class names that this head does not have.
    config_file = tmp_path / "safe" / "config.json"
    config_file.write_text(json.dumps(read_json(config_file) | {"id2label": {"0": "a", "1": "b", "2": "c"}}))
    convert(tmp_path / "safe", tmp_path / "again", "safetensors")
    assert_bit_equal(weights_in(tmp_path / "safe"), weights_in(tmp_path / "again"))
    assert read_json(tmp_path / "again" / "config.json")["architectures"] == ["BertForMultipleChoice"]


CLASSES = "BertForSequenceClassification"
# Task -> its class and its problem_type in transformers, and a question.
TASKS = {
    "classification": (CLASSES, "single_label_classification", ("he was hungry", "so he ate")),
    "multi_label": (CLASSES, "multi_label_classification", "he was hungry"),
    "regression": (CLASSES, "regression", "he was hungry"),
    "multiple_choice": ("BertForMultipleChoice", None, ("he was hungry", ["so he ate", "paris is the capital"])),
    "rerank": (CLASSES, "multi_label_classification", ("he was hungry", ["so he ate", "paris is the capital"])),
    "question_answering": ("BertForQuestionAnswering", None, ("what is paris", "paris is the capital of france")),
    "token_classification": ("BertForTokenClassification", None, "paris is the capital"),
}


@pytest.mark.parametrize("task", FINE_TUNED)
@pytest.mark.usefixtures("no_graphs")
def test_a_fine_tuned_model_stays_usable_in_both_formats(tmp_path, said, task):
    (architecture, problem_type, question), (make, settings) = TASKS[task], FINE_TUNED[task]
    run = write_fine_tuned(tmp_path / "run", make(), task, **settings)
    convert(run, tmp_path / "safe", "safetensors")  # the run without --head: its task names the head
    assert f"{run} is a run of fine-tuning: converting its model in {run / 'model'}" in said()
    convert(tmp_path / "safe", tmp_path / "back", "tensorflow")
    for folder in (tmp_path / "safe", tmp_path / "back"):
        assert read_json(folder / "task.json") == read_json(run / "model" / "task.json")
        assert read_json(folder / "tokenizer_config.json")["do_lower_case"]
    assert_bit_equal(weights_in(run / "model"), weights_in(tmp_path / "back"))
    assert "names of classes" not in said()
    assert "does not store" not in said()
    assert open_model(tmp_path / "back")([question])[0] == open_model(run)([question])[0]
    # The config is enough for other libraries, and to convert the model again.
    (tmp_path / "safe" / "task.json").unlink()
    convert(tmp_path / "safe", tmp_path / "again", "safetensors")
    for folder in ("safe", "again"):
        values = read_json(tmp_path / folder / "config.json")
        assert (values["architectures"], values.get("problem_type")) == ([architecture], problem_type)
        assert values["classifier_dropout"] == 0.1
    if task == "multi_label":
        convert(tmp_path / "safe", tmp_path / "without", "tensorflow")
        assert read_json(tmp_path / "without" / "task.json")["task"] == "multi_label"


def test_names_of_classes_are_in_both_files(classifier_run, tmp_path):
    convert(classifier_run, tmp_path / "safe", "safetensors", labels="a,b,c")
    assert read_json(tmp_path / "safe" / "task.json")["labels"] == ["a", "b", "c"]
    assert open_checkpoint(tmp_path / "safe").labels == ["a", "b", "c"]
    config_file = tmp_path / "safe" / "config.json"
    config_file.write_text(config_file.read_text().replace('"a"', '"d"'))
    message = f"{tmp_path}/safe names the classes a, b, c in task.json and d, b, c in config.json; correct one of t"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        convert(tmp_path / "safe", tmp_path / "out", "tensorflow")
    convert(tmp_path / "safe", tmp_path / "encoder", "tensorflow", head="none")  # without head and task.json
    assert sorted(os.listdir(tmp_path / "encoder")) == TENSORFLOW_FILES


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"head": "token_classifier"}, "was trained for classification and has the head classifier, as task.json says"),
        ({"labels": "a,b"}, "2 labels were given, but the head has 3 rows; give one for each with labels"),
        ({"keep_optimizer": True}, "RUN is a run of fine-tuning, whose model in RUN/model has only weights; lea"),
    ],
    ids=["head", "labels", "optimizer"],
)
def test_flags_that_do_not_fit_a_fine_tuned_model_are_refused(classifier_run, tmp_path, flags, message):
    with pytest.raises(ValueError, match=re.escape(message.replace("RUN", str(classifier_run)))):
        convert(classifier_run, tmp_path / "out", "safetensors", **flags)


def test_an_unknown_task_is_refused(model_dir, tmp_path):
    (model_dir / "task.json").write_text('{"task": "translation"}')
    with pytest.raises(ValueError, match=r'task.json: the task is "translation", but must be one of classification, '):
        convert(model_dir, tmp_path / "out", "safetensors")


def test_a_checkpoint_in_an_object_store(model_dir, tmp_path):
    for name in os.listdir(model_dir):
        paths.copy(model_dir / name, f"ram://bucket/released/{name}")
    convert("ram://bucket/released", tmp_path / "out", "safetensors")
    assert_bit_equal(weights_in(model_dir), weights_in(tmp_path / "out"))
    assert (tmp_path / "out" / "vocab.txt").read_bytes() == (model_dir / "vocab.txt").read_bytes()


def test_pooler_and_vocabulary_may_be_missing(tmp_path, said):
    weights = weights_by_name(make_model(CONFIG))
    kept = {name: value for name, value in weights.items() if not name.startswith(("bert/pooler", "cls/seq"))}
    save_checkpoint(tmp_path / "model" / "bert_model.ckpt", kept)
    CONFIG.to_json_file(tmp_path / "model" / "bert_config.json")
    convert(tmp_path / "model", tmp_path / "safe", "safetensors")
    assert "on a fixed input sequence_output, masked_lm differ by at most 0" in said()
    assert "no vocabulary next to" in said()
    assert_bit_equal(weights_in(tmp_path / "model"), weights_in(tmp_path / "safe"))


def test_the_other_gelu_and_epsilon_and_nan_are_kept(model_dir, tmp_path, said):
    config = dataclasses.replace(CONFIG, hidden_act="gelu_erf", layer_norm_eps=1e-6)
    config.to_json_file(model_dir / "bert_config.json")
    weights = weights_in(model_dir) | {"bert/pooler/dense/bias": np.full(8, np.nan, np.float32)}
    save_checkpoint(model_dir / "bert_model.ckpt", weights)
    convert(model_dir, tmp_path / "safe")
    values = read_json(tmp_path / "safe" / "config.json")
    assert (values["hidden_act"], values["layer_norm_eps"]) == ("gelu", 1e-6)
    convert(tmp_path / "safe", tmp_path / "back", "tensorflow")
    assert (tmp_path / "back" / "bert_config.json").read_text() == (model_dir / "bert_config.json").read_text()
    assert_bit_equal(weights_in(model_dir), weights_in(tmp_path / "back"))
    assert "hidden_act is gelu_erf and layer_norm_eps 1e-06: the original BERT has only the tanh form of" in said()


def test_a_failed_check_leaves_nothing(model_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_conversion, "check_copy", lambda folder, contents, computed: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        convert(model_dir, tmp_path / "out", "tensorflow")
    assert os.listdir(tmp_path) == ["released"]


def test_a_given_casing_is_kept_against_the_words_of_the_vocabulary(model_dir, tmp_path, said):
    convert(model_dir, tmp_path / "out", "tensorflow", do_lower_case="false")
    assert not read_json(tmp_path / "out" / "tokenizer_config.json")["do_lower_case"]
    assert "guessed from the words of" not in said()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"labels": "a,b"}, "labels: no head with named classes is written; leave the flag out"),
        ({"extend_vocab": "DIR/known.txt"}, "has all words of DIR/known.txt already; give other words"),
        ({"extend_vocab": "DIR/known.txt", "input": "DIR/bare"}, "no vocabulary is next to DIR/bare/bert_model.ckpt;"),
        ({"layers": "1,9"}, "layers=1,9 must be numbers from 1 to "),
        ({"layers": "0"}, "layers=0 must be numbers from 1 to "),
        ({"layers": "last"}, "layers=last must be numbers from 1 to "),
    ],
    ids=["labels", "known words", "no vocabulary", "layer 9", "layer 0", "no number"],
)
def test_flags_that_do_not_fit_the_model_are_refused(model_dir, tmp_path, flags, message):
    (tmp_path / "known.txt").write_text("heart\nw3\n")
    shutil.copytree(model_dir, tmp_path / "bare", ignore=shutil.ignore_patterns("vocab.txt"))
    flags = {name: value.replace("DIR", str(tmp_path)) for name, value in flags.items()}
    with pytest.raises(ValueError, match=re.escape(message.replace("DIR", str(tmp_path)))):
        convert(flags.pop("input", model_dir), tmp_path / "out", "safetensors", **flags)


def test_a_mistake_prints_one_line_and_writes_nothing(model_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", arguments(model_dir, tmp_path / "out", "safetensors", head="squad"))
    with pytest.raises(SystemExit) as stop:
        convert_checkpoint.run_program()
    assert stop.value.code == 1
    lines = capsys.readouterr().err.splitlines()
    message = f"--head=squad: {model_dir}/bert_model.ckpt has no such head, its heads are masked_lm, next_sentence"
    assert lines == [f"convert_checkpoint.py: {message}; choose what is there, or none"]
    assert os.listdir(tmp_path) == ["released"]


def test_the_choices_of_head_are_the_linear_heads():
    assert ("none", "masked_lm", *LINEAR_HEADS) == convert_checkpoint.HEAD_CHOICES
