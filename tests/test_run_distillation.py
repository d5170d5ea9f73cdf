"""The program from flags to files: a student without labels learns from a teacher that knows which word counts."""

import json
import shutil

import keras
import numpy as np
import pytest
from known_models import make_config, write_model
from states import assert_bit_equal, weights_in
from tiny_classes import VOCABULARY, results_in, texts, write_mrpc, write_rows, write_start, write_texts
from training_runs import stop_after

import convert_checkpoint
import export_model
import predict
import run_classifier
import run_distillation
from bert_keras import distill_classifier
from bert_keras.cli.flags import run_main
from bert_keras.export.run_folder import read_run, reopen_evaluation
from bert_keras.modeling import PretrainingModel
from bert_keras.prediction import TextClassifier
from bert_keras.prediction.loading.model_files import open_model_files
from bert_keras.training.distillation.teacher import open_teacher

SHORT = {"max_seq_length": 12, "train_batch_size": 16, "learning_rate": 0.003, "num_train_epochs": 6}


def call(program, flags, *actions):
    given = {name: value for name, value in flags.items() if value is not None}
    argv = [*(f"--{action}" for action in actions), *(f"--{name}={value}" for name, value in given.items())]
    return program.main([f"{program.__name__}.py", *argv])


def distil(flags, *actions, **more):
    return call(run_distillation, {**flags, **more}, *actions)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A run of run_classifier.py that has learnt the task."""
    folder = tmp_path_factory.mktemp("teacher")
    files = {
        "train_file": write_texts(folder / "train.csv", 160, 1),
        "eval_file": write_texts(folder / "dev.csv", 30, 2),
    }
    start = write_start(folder / "start")
    metrics = call(
        run_classifier,
        SHORT | files | {"init_checkpoint": start, "output_dir": folder / "run"},
        *("do_train", "do_eval"),
    )
    assert metrics["accuracy"] == 1.0
    return folder / "run"


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    """An untrained model of two narrow layers."""
    keras.utils.set_random_seed(2)
    config = make_config(
        vocab_size=len(VOCABULARY), num_hidden_layers=2, hidden_size=12, hidden_act="gelu", max_position_embeddings=24
    )
    return write_model(tmp_path_factory.mktemp("student"), PretrainingModel(config), VOCABULARY)


@pytest.fixture(scope="module")
def unlabeled(tmp_path_factory):
    rows = [(text,) for text, _ in texts(160, 3)]
    return write_rows(tmp_path_factory.mktemp("texts") / "texts.csv", "text", rows, ",")


@pytest.fixture(scope="module")
def flags(teacher, student, unlabeled):
    """The flags of a run without any label; `output_dir` belongs to the test."""
    return SHORT | {
        "teacher": teacher,
        "init_checkpoint": student,
        "unlabeled_file": unlabeled,
        "eval_file": teacher.parent / "dev.csv",
    }


@pytest.fixture(scope="module")
def taught(tmp_path_factory, flags):
    """The folder of a finished run, which tests must not change."""
    folder = tmp_path_factory.mktemp("runs") / "taught"
    assert distil(flags, "do_train", "do_eval", output_dir=folder)["accuracy"] == 1.0
    return folder


def test_a_student_learns_from_texts_without_labels(taught, teacher):
    assert results_in(taught)["eval_accuracy"] == "1.0"
    task = json.loads((taught / "model" / "task.json").read_text())
    assert (task["program"], task["task"], task["labels"]) == ("run_distillation", "classification", ["neg", "pos"])
    assert json.loads((taught / "model" / "bert_config.json").read_text())["hidden_size"] == 12
    said = [text for text, _ in texts(20, 9)]
    ours, theirs = (TextClassifier(folder)(said) for folder in (taught, teacher))
    assert [answer.label for answer in ours] == [answer.label for answer in theirs]


@pytest.mark.slow  # a call of the program
def test_from_python(taught, teacher, student, tmp_path):
    settings = {name: value for name, value in SHORT.items() if name != "num_train_epochs"}
    shared = {"init_checkpoint": student, "verbose": False, **settings}
    with pytest.raises(ValueError, match="^missing: teacher$"):
        distill_classifier(unlabeled_data=["a"], output_dir=tmp_path / "none", **shared)
    said = [text for text, _ in texts(6, 9)]
    run = distill_classifier(
        None,
        texts(30, 2),
        said,
        teacher=teacher,
        unlabeled_data=[text for text, _ in texts(160, 3)],
        output_dir=tmp_path / "run",
        num_train_epochs=6,
        **shared,
    )
    assert run.metrics["accuracy"] == 1.0
    # The same texts from a file make the same model.
    assert_bit_equal(weights_in(tmp_path / "run" / "model"), weights_in(taught / "model"))
    assert [row["prediction"] for row in run.predictions] == [answer.label for answer in run.predictor()(said)]


def test_the_run_folder_works_with_the_other_programs(taught, capsys, tmp_path):
    assert distil({}, "do_eval", output_dir=shutil.copytree(taught, tmp_path / "out"))["accuracy"] == 1.0
    capsys.readouterr()
    predict.main(["predict.py", f"--model_dir={taught}", "the film was great"])
    assert "pos" in capsys.readouterr().out
    run = read_run(str(taught / "model"), json.loads((taught / "model" / "task.json").read_text())["step"])
    task = reopen_evaluation(run, json.loads((taught / "model" / "task.json").read_text()), open_model_files(taught))
    assert len(task.eval_features["input_ids"]) == 30


@pytest.mark.slow  # 120 steps; tests/training/test_distillation_loss.py has each loss, also of packed rows
def test_labels_and_layers_and_texts_together(flags, teacher, tmp_path):
    """The teacher has one layer and other widths; metrics.csv has the mean of each loss."""
    more = {
        "train_file": teacher.parent / "train.csv",
        "hidden_loss_weight": 0.1,
        "attention_loss_weight": 0.1,
        "teacher_layers": "0,1",
        "output_dir": tmp_path / "out",
        "pack": True,
    }
    assert distil(flags, "do_train", "do_eval", **more)["accuracy"] == 1.0
    header = (tmp_path / "out" / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"loss", "accuracy", "soft_loss", "hidden_loss", "attention_loss"} <= set(header)
    names = weights_in(tmp_path / "out" / "model.ckpt-120")
    assert names["loss/projection"].shape == (12, 16)
    assert "loss/projection" not in weights_in(tmp_path / "out" / "model")


@pytest.mark.usefixtures("no_graphs")
def test_a_stopped_run_continues_as_if_it_had_not(flags, tmp_path, monkeypatch):
    more = {"max_steps": 8, "hidden_loss_weight": 1.0, "teacher_layers": "0,1", "iterations_per_loop": 1}
    distil(flags, "do_train", "deterministic", **more, output_dir=tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        assert distil(flags, "do_train", "deterministic", **more, output_dir=tmp_path / "stopped") is None
    assert not (tmp_path / "stopped" / "model").exists()
    distil(flags, "do_train", "deterministic", **more, output_dir=tmp_path / "stopped")
    assert_bit_equal(*(weights_in(tmp_path / name / "model.ckpt-8") for name in ("whole", "stopped")))


@pytest.mark.slow  # it writes and reads an export
def test_an_export_teaches_like_the_model(flags, teacher, tmp_path):
    export_model.main(
        ["export_model.py", f"--model_dir={teacher}", f"--export_dir={tmp_path / 'export'}", "--format=onnx"]
    )
    more = {"max_steps": 4}
    for name, path in (("model", teacher), ("export", tmp_path / "export")):
        distil(flags, "do_train", **more, teacher=path, output_dir=tmp_path / f"by_{name}")
    of_model, of_export = (weights_in(tmp_path / f"by_{name}" / "model") for name in ("model", "export"))
    for name, value in of_model.items():
        np.testing.assert_allclose(value, of_export[name], atol=1e-4, err_msg=name)
    with pytest.raises(ValueError, match="--jit cannot compile a teacher that is an export"):
        distil(flags, "do_train", teacher=tmp_path / "export", jit=True, output_dir=tmp_path / "compiled")
    with pytest.raises(ValueError, match="--pack puts several examples into a row, but the teacher is an export"):
        distil(flags, "do_train", teacher=tmp_path / "export", pack=True, output_dir=tmp_path / "packed")


def test_a_safetensors_folder_of_another_library_teaches(teacher, student, tmp_path):
    """Its config.json names the classes; there is no task.json."""
    arguments = {"input": teacher, "output": tmp_path / "safe", "format": "safetensors"}
    convert_checkpoint.main(["convert_checkpoint.py", *(f"--{name}={value}" for name, value in arguments.items())])
    (tmp_path / "safe" / "task.json").unlink()
    opened = open_teacher(str(tmp_path / "safe"), ["classification"], open_model_files(student, do_lower_case=True), 12)
    assert opened.settings == {"task": "classification", "labels": ["neg", "pos"]}
    with pytest.raises(ValueError, match="is a model for classification; give a model of run_classifier.py"):
        open_teacher(str(teacher), ["regression"], open_model_files(student, do_lower_case=True), 12)
    with pytest.raises(ValueError, match="do_lower_case=True and strip_accents=True, and the student False and False"):
        open_teacher(str(teacher), ["classification"], open_model_files(student, do_lower_case=False), 12)
    with pytest.raises(ValueError, match="--max_seq_length=25 is more than the 24 positions of --teacher="):
        open_teacher(str(teacher), ["classification"], open_model_files(student, do_lower_case=True), 25)


def test_mistakes_are_one_sentence_and_write_nothing(flags, teacher, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(teacher / "model", other)
    (other / "vocab.txt").write_text("".join(f"{token}\n" for token in [*VOCABULARY[:-1], "new"]))
    pairs = write_mrpc(tmp_path / "mrpc")
    mistakes = {
        "missing: --teacher (--help says what each is for)": {"teacher": None},
        f"--teacher={other} has another vocabulary than": {"teacher": other},
        "no data given; give": {"unlabeled_file": None, "eval_file": None},
        "all weights of the losses against the teacher are 0": {"soft_loss_weight": 0},
        "--label_smoothing is for the loss of the labels, but no training example": {"label_smoothing": 0.1},
        "--temperature is for the soft loss, but --soft_loss_weight is 0": {
            "temperature": 3,
            "soft_loss_weight": 0,
            "hidden_loss_weight": 1,
            "teacher_layers": "0,1",
        },
        "the 1 layers of the teacher are not a multiple of": {"hidden_loss_weight": 1},
        "the model has the labels neg, pos, but the data have 0, 1": {
            "task_name": "mrpc",
            "data_dir": pairs,
            "eval_file": None,
        },
        "--kind=regression, but the model is one of the kind single_label": {"kind": "regression"},
    }
    for message, changes in mistakes.items():
        given = {**flags, **changes, "output_dir": tmp_path / "out"}
        argv = [f"--{name}={value}" for name, value in given.items() if value is not None]
        assert run_main(run_distillation.main, ["run_distillation.py", "--do_train", *argv]) == 1, message
        [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("run_distillation.py: ")]
        assert message in line
        assert not (tmp_path / "out" / "run_config.json").exists()
