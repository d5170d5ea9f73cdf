"""`train_classifier`: data in memory, settings by name, callbacks, results."""

import dataclasses
import gc
import inspect
import json
import logging
import os
import pathlib
import random
import signal
import sys
import threading
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from eager import without_graphs
from states import assert_bit_equal, weights_in
from tiny_classes import run, texts, write_start, write_texts
from training_runs import rows_of, stop_after

import bert_keras
from bert_keras import TextClassifier, pretrain, train_classifier
from bert_keras.programs.command import PROGRAMS
from bert_keras.settings.fields import setting_fields

TRAIN, DEV = texts(48, 1), texts(20, 2)
COLUMNS = [list(column) for column in zip(*TRAIN, strict=True)]


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """The settings of a run of six steps from an untrained model."""
    return {
        "init_checkpoint": write_start(tmp_path_factory.mktemp("start")),
        "max_seq_length": 12,
        "train_batch_size": 16,
        "learning_rate": 0.01,
        "num_train_epochs": 2,
        "log_steps": 2,
        "eval_steps": 3,
        "save_checkpoints_steps": 4,
        "iterations_per_loop": 1,
        "eval_batch_size": 64,
    }


@pytest.fixture(scope="module")
def calls():
    """The arguments of the callbacks of `trained`."""
    return {"step": [], "evaluation": [], "save": []}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, short, calls):
    """A finished run on rows in memory."""
    with without_graphs():
        return train_classifier(
            TRAIN,
            DEV,
            [text for text, _ in DEV],
            output_dir=tmp_path_factory.mktemp("runs") / "of_python",
            on_step=lambda *arguments: calls["step"].append(arguments),
            on_evaluation=lambda *arguments: calls["evaluation"].append(arguments),
            on_save=lambda *arguments: calls["save"].append(arguments),
            verbose=False,
            **short,
        )


def call(data, folder, short, **more):
    """Calls the function on data to train on, without a log."""
    return train_classifier(data, **{"output_dir": folder / "new", "verbose": False, **short, "eval_steps": 0, **more})


def facts_in(folder):
    return json.loads((pathlib.Path(folder) / "run_config.json").read_text())["facts"]


@pytest.mark.usefixtures("no_graphs")
def test_the_run_is_that_of_the_program(trained, short, tmp_path):
    files = {
        "train_file": write_texts(tmp_path / "train.csv", 48, 1),
        "eval_file": write_texts(tmp_path / "dev.csv", 20, 2),
    }
    metrics = run({**short, **files}, "do_train", "do_eval", output_dir=tmp_path / "run")
    assert trained.metrics == pytest.approx(metrics, rel=1e-5)
    assert facts_in(trained.folder) == facts_in(tmp_path / "run")
    assert [row["step"] for row in rows_of(trained.folder)] == [row["step"] for row in rows_of(tmp_path / "run")]


def test_the_result_has_the_folder_and_what_is_in_it(trained, short):
    assert repr(trained) == (
        f"TrainedModel({trained.folder!r}, task='classification', labels=['neg', 'pos'], "
        f"loss {trained.metrics['loss']:.4g}, accuracy {100 * trained.metrics['accuracy']:.1f} %, "
        f"f1_macro {trained.metrics['f1_macro']:.4g})"
    )
    assert trained.labels == ["neg", "pos"]
    assert trained.settings["learning_rate"] == short["learning_rate"]
    assert [(row["step"], row["split"]) for row in trained.history] == [
        *((1, "train"), (2, "train"), (3, "eval"), (4, "train"), (6, "train"), (6, "eval"))
    ]
    assert {type(value) for row in trained.history for value in row.values()} == {int, str, float}
    classify = trained.predictor(batch_size=4)
    assert isinstance(classify, TextClassifier)
    answers = classify([text for text, _ in DEV])
    assert [row["prediction"] for row in trained.predictions] == [answer.label for answer in answers]
    np.testing.assert_allclose(
        [row["probability of pos"] for row in trained.predictions],
        [answer.probabilities["pos"] for answer in answers],
        atol=2e-6,
    )


def test_the_callbacks_get_the_rows_and_the_checkpoints(trained, calls):
    rows = {(row["step"], row["split"]): row for row in trained.history}
    assert [step for step, _ in calls["step"]] == [1, 2, 4, 6]
    for split, kind in (("train", "step"), ("eval", "evaluation")):
        for step, metrics in calls[kind]:
            assert metrics == pytest.approx({name: rows[step, split][name] for name in metrics}, rel=1e-6)
    assert [step for step, _ in calls["evaluation"]] == [3, 6]
    assert calls["save"] == [(step, os.path.join(trained.folder, f"model.ckpt-{step}")) for step in (4, 6)]
    assert os.path.exists(calls["save"][-1][1] + ".index")


@pytest.mark.usefixtures("no_graphs")
def test_another_call_evaluates_the_model_and_the_same_call_trains_nothing(trained, short, messages):
    again = train_classifier(eval_data=DEV, output_dir=trained.folder)
    assert again.metrics == pytest.approx(trained.metrics, rel=1e-5)
    assert again.predictions is None
    train_classifier(TRAIN, DEV, output_dir=trained.folder, **short)
    assert any(message.startswith("nothing to train") for message in messages)
    assert len(os.listdir(os.path.join(trained.folder, "data"))) == 3


@pytest.mark.usefixtures("no_graphs")
def test_evaluations_end_training_if_the_callback_returns_true(short, tmp_path):
    steps = []
    ended = call(
        TRAIN,
        tmp_path,
        short,
        eval_data=DEV,
        eval_steps=3,
        on_evaluation=lambda step, _: steps.append(step) or np.True_,
    )
    assert steps == [3]
    assert ended.metrics is not None
    assert ended.predictor()("the film was good").label in ("neg", "pos")


@pytest.mark.usefixtures("no_graphs")
def test_a_call_that_is_stopped_does_not_return_the_predictions_of_an_earlier_call(
    trained, short, tmp_path, monkeypatch
):
    texts_to_predict = [text for text, _ in DEV]
    earlier = train_classifier(
        predict_data=texts_to_predict, init_checkpoint=trained.folder, output_dir=tmp_path / "new", verbose=False
    )
    assert [row["prediction"] for row in earlier.predictions] == [row["prediction"] for row in trained.predictions]
    # The handler of a notebook's user, which does not end the process.
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        with monkeypatch.context() as patch:
            stop_after(patch, 2)
            stopped = call(TRAIN, tmp_path, short, predict_data=texts_to_predict[:3])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stopped.predictions is None
    # The saved model has the labels of the data, and can be evaluated and opened.
    assert train_classifier(eval_data=DEV, output_dir=stopped.folder, verbose=False).metrics["loss"] > 0
    assert stopped.predictor().labels == ["neg", "pos"]
    with pytest.raises(
        ValueError, match="so init_checkpoint=.* would not be used; give another output_dir to use that"
    ):
        train_classifier(eval_data=DEV, output_dir=stopped.folder, init_checkpoint=trained.folder, verbose=False)
    assert len(call(TRAIN, tmp_path, short, predict_data=texts_to_predict[:3]).predictions) == 3


@pytest.mark.usefixtures("no_graphs")
def test_an_exception_of_a_callback_ends_the_run_which_continues_later(short, tmp_path, messages, capsys):
    def fail(step, metrics):
        if step == 6:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        call(TRAIN, tmp_path, short, on_step=fail)
    # The exception still holds the objects of the first call, as in a notebook.
    call(TRAIN, tmp_path, short, verbose=True)
    assert f"resuming from {tmp_path / 'new' / 'model.ckpt-4'}" in messages
    # The log names the arguments of the call.
    assert 'train_data: columns text, label; using "text" as the text' in capsys.readouterr().out


def state_of_process(log):
    return (
        *(log.handlers[:], log.level, log.propagate, logging.root.handlers[:], warnings.filters[:]),
        *(dict(os.environ), [os.fstat(number).st_ino for number in (0, 1, 2)], os.getcwd()),
        *(keras.config.dtype_policy(), keras.config.floatx(), np.geterr(), gc.isenabled(), gc.get_threshold()),
        *(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)),
        [name for name, module in sys.modules.items() if module is None],
    )


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_what_is_set_for_the_process_is_restored(short, tmp_path, capsys):
    log = logging.getLogger("bert_keras")
    handler = logging.NullHandler()
    log.addHandler(handler)
    before = state_of_process(log)
    random.seed(3), np.random.seed(3)
    drawn = random.random(), np.random.random()
    random.seed(3), np.random.seed(3)
    tf.config.experimental.enable_tensor_float_32_execution(True)
    call(TRAIN, tmp_path, short, num_train_epochs=0.5)
    assert capsys.readouterr() == ("", "")
    assert (random.random(), np.random.random()) == drawn
    assert tf.config.experimental.tensor_float_32_execution_enabled()
    assert state_of_process(log) == before
    log.removeHandler(handler)


@pytest.mark.slow
def test_two_threads_train_the_models_that_each_trains_alone(short, tmp_path):
    folders = [tmp_path / name for name in ("alone", "first", "second")]
    call(TRAIN, folders[0], short, max_steps=2)
    threads = [threading.Thread(target=call, args=(TRAIN, folder, short | {"max_steps": 2})) for folder in folders[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone, *others = (weights_in(folder / "new" / "model") for folder in folders)
    for other in others:
        assert_bit_equal(other, alone)


def test_the_home_folder_is_found_in_paths_of_arguments(short, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/home/dev.csv"):
        call(TRAIN, tmp_path, short, eval_data="~/dev.csv", output_dir="~/out")
    write_texts(tmp_path / "home" / "train.csv", 16, 1)
    with without_graphs():
        trained = call("~/train.csv", tmp_path, short, output_dir="~/out", num_train_epochs=1)
    assert trained.folder == str(tmp_path / "home" / "out")
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize(
    "program", [pytest.param(program, id=name) for name, program in PROGRAMS.items() if name != "check_labels"]
)
def test_editors_see_every_flag_as_an_argument(program):
    function = getattr(bert_keras, program.function)
    arguments = inspect.signature(function).parameters
    names = ["train_data", "eval_data", *(["predict_data"] if function is not pretrain else [])]
    assert list(arguments)[: len(names)] == names
    names = {field.name for field in setting_fields(program.settings)}
    assert names | {"on_step", "on_evaluation", "on_save", "verbose"} <= set(arguments)
    internal = {field.name for field in dataclasses.fields(program.settings)} - names
    assert "given" in internal
    assert not internal & set(arguments)
    assert arguments["seed"].default == 12345


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"lerning_rate": 1},
            TypeError,
            r'train_classifier\(\) has no setting "lerning_rate"; did you mean "learning_',
        ),
        ({"kind": "rerank"}, ValueError, "^kind=rerank: to train rerankers, use run_reranker.py, in Python train_"),
        (
            {"dry_run": True},
            TypeError,
            r'train_classifier\(\) has no setting "dry_run"; only run_classifier.py has it$',
        ),
        ({"class_names": ["a"]}, TypeError, r'train_classifier\(\) has no setting "class_names"; '),
        ({"wings": 2}, TypeError, r'train_classifier\(\) has no setting "wings"; help\(train_classifier\) lists all$'),
        ({"learning_rate": "fast"}, ValueError, "^learning_rate=fast: 'fast' is not a number$"),
        ({"train_batch_size": 1.5}, ValueError, "train_batch_size=1.5: 1.5 is not a whole number"),
        ({"seed": True}, ValueError, "seed=True"),
        ({"on_step": "print"}, TypeError, "^on_step is of type str; give a function$"),
        ({"train_file": "a.csv"}, TypeError, r"train_classifier\(\) got train_data and train_file; give one of them"),
        ({"max_seq_length": 25}, ValueError, "^max_seq_length=25 is more than the 24 positions"),
        ({"output_dir": None}, TypeError, r"train_classifier\(\) needs output_dir, the folder of the run"),
        ({"eval_steps": 2}, ValueError, r"^eval_steps has no effect without eval_data \(or do_eval\); give both, "),
        (
            {"do_eval": True},
            ValueError,
            r"^eval_data \(or do_eval\) needs eval_data, or eval_share of train_",
        ),
        ({"init_checkpoint": None}, ValueError, r"^missing: init_checkpoint, .*, bert_config_file, vocab_file\)$"),
    ],
)
def test_settings_that_do_not_fit_are_refused_and_nothing_is_written(short, tmp_path, settings, error, message):
    with pytest.raises(error, match=message):
        call(TRAIN, tmp_path, short, **settings)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (5, TypeError, "train_data is of the type int; give a path, a list of dicts, "),
        ([], ValueError, "train_data has no rows; give at least one"),
        ([("a", "pos"), ("", "neg")], ValueError, '^train_data row 1: the column "text" is empty; '),
        ([()], ValueError, r"row 0 has 0 values and no names; give a dict"),
        ([("a", "b", "c", "d")], ValueError, r"row 0 has 4 values and no names; give a dict, or \(text, label\)"),
        ((["a", "b"], ["pos"]), ValueError, r"columns of different lengths \(column 0: 2, column 1: 1\); "),
        (
            {"text": ["a"], "label": []},
            ValueError,
            r"train_data has columns of different lengths \(text: 1, label: 0\)",
        ),
        (
            [{"text": "a", "label": object()}],
            ValueError,
            'train_data row 0: the column "label" is of the type object; ',
        ),
        (
            [{"a": "x", "b": "y"}],
            ValueError,
            "^train_data: no column could be the text; .* a guess is text_column='a', label_column='b'$",
        ),
        (
            {"complaint": ["it is late", "it is bad"], "by": ["web", "mail"], "about": ["pay", "ship"]},
            ValueError,
            """text_column='complaint'; label_column may be "by" \\(2 values\\), "about" \\(2 values\\)$""",
        ),
        (
            [{"text": "a", "label": ["x"]}, {"text": "b", "label": ["y"]}],
            ValueError,
            r"^train_data row 0: the label is the list \[.x.\], but one label is needed; lists are for kind=multi_lab",
        ),
        (tf.data.Dataset.from_tensors(("a", "pos")).repeat(), ValueError, r"without an end; limit it, .* take\(1000\)"),
        ("missing.csv", FileNotFoundError, "missing.csv"),
    ],
)
def test_data_that_do_not_fit_are_refused_and_nothing_is_written(short, tmp_path, data, error, message):
    with pytest.raises(error, match=message):
        call(data, tmp_path, short)
    assert not (tmp_path / "new").exists()


def test_data_that_were_changed_are_not_overwritten(trained, short):
    path = pathlib.Path(trained.settings["train_file"])
    text = path.read_text()
    path.write_text("mine")
    with pytest.raises(ValueError, match=r"train_data has changed since it was written; remove it|changed since"):
        train_classifier(TRAIN, DEV, output_dir=trained.folder, verbose=False, **short)
    assert path.read_text() == "mine"
    path.write_text(text)
