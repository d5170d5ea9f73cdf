"""Teachers of run_classifier.py, run_ner.py and run_squad.py, from flags to files."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tiny_classes
import tiny_squad
from converted import convert
from eager import without_graphs
from fine_tuned_models import OF_ANSWERS, OF_TAGS, OF_TEXTS, TAGS, random_answerer, random_classifier, write_fine_tuned
from known_models import TOKENS, make_config, randomise, small_config, write_model
from states import assert_bit_equal, weights_in
from training_programs import run_classifier, run_ner, run_squad
from training_runs import rows_of, stop_after

from bert_keras import train_classifier
from bert_keras.commands import export_model, predict
from bert_keras.export.run_folder import read_run, reopen_evaluation
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import PretrainingModel, TokenClassifierModel
from bert_keras.prediction import TextClassifier
from bert_keras.settings.groups import TeacherSettings
from bert_keras.tasks.distillation.teacher import open_teacher

TAG_OF = {"paris": "B-LOC", "london": "B-LOC", "he": "B-PER", "she": "B-PER", "is": "O", "the": "O", "was": "O"}
DRAW = np.random.default_rng(1)
TEXTS = [" ".join(DRAW.choice(list(TAG_OF), 6)) for _ in range(64)]
TEACHER_ONLY = {"label_loss_weight": 0, "soft_loss_weight": 1}
WINDOWS = {name: OF_ANSWERS[name] for name in ("max_seq_length", "doc_stride", "max_query_length")}
SHORT = {"train_batch_size": 16, "learning_rate": 0.01, "max_steps": 4, "log_steps": 1, "iterations_per_loop": 1}
OF_LAYERS = {"hidden_loss_weight": 1.0, "teacher_layers": "0,1"}
WITHOUT_LAYERS = dict.fromkeys(OF_LAYERS)


def call(program, flags, *actions):
    return tiny_classes.run(flags, *actions, program=program)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a teacher of each program, an untrained student of two narrow layers, and data."""
    folder = tmp_path_factory.mktemp("distillation")
    one_layer = {"num_hidden_layers": 1}
    for program, model, task, settings in (
        (
            run_classifier,
            random_classifier(2, **one_layer, max_position_embeddings=24),
            "classification",
            OF_TEXTS | {"labels": ["bad", "good"]},
        ),
        (
            run_ner,
            randomise(TokenClassifierModel(small_config(**one_layer), len(TAGS))),
            "token_classification",
            OF_TAGS | {"labels": TAGS},
        ),
        (run_squad, random_answerer(**one_layer), "question_answering", OF_ANSWERS),
    ):
        write_fine_tuned(folder / program.name, model, task, **settings)
    other = shutil.copytree(folder / "run_classifier" / "model", folder / "other")
    (other / "vocab.txt").write_text("".join(f"{token}\n" for token in [*TOKENS[:-1], "new"]))
    keras.utils.set_random_seed(2)
    config = make_config(num_hidden_layers=2, hidden_size=12, hidden_act="gelu")
    write_model(folder / "student", PretrainingModel(config), TOKENS)
    tiny_classes.write_rows(folder / "texts.csv", "text", [(text,) for text in TEXTS])
    tiny_classes.write_rows(folder / "dev.csv", "text,label", [(text, "good") for text in TEXTS[:8]], ",")
    tiny_classes.write_rows(folder / "other.csv", "text,label", [(text, "pos") for text in TEXTS[:8]], ",")
    (folder / "tags.txt").write_text(
        "\n\n".join("\n".join(f"{word} {TAG_OF[word]}" for word in text.split()) for text in TEXTS) + "\n"
    )
    answer = [{"text": "paris", "answer_start": 0}]
    questions = [
        {"context": f"paris {text}", "qas": [{"id": str(number), "question": "he was", "answers": answer}]}
        for number, text in enumerate(TEXTS)
    ]
    tiny_squad.write_squad(folder / "train.json", questions)
    return folder


@pytest.fixture(scope="module")
def flags_of(folder):
    """Return a function of a program that returns the flags of a short run; `output_dir` belongs to the test."""

    def flags_of(program):
        data = {
            run_classifier: {"unlabeled_file": folder / "texts.csv", "max_seq_length": 16, **OF_LAYERS},
            run_ner: {"train_file": folder / "tags.txt", "max_seq_length": 16, **TEACHER_ONLY},
            run_squad: {"train_file": folder / "train.json", **WINDOWS, **TEACHER_ONLY},
        }
        start = {"teacher": folder / program.name, "init_checkpoint": folder / "student"}
        return SHORT | data[program] | start

    return flags_of


@pytest.fixture(scope="module")
def taught(tmp_path_factory, folder, flags_of):
    """The folder of a classifier that has learnt without any label; tests must not change it."""
    output_dir = tmp_path_factory.mktemp("runs") / "taught"
    flags = flags_of(run_classifier) | {"output_dir": output_dir, "eval_file": folder / "dev.csv"}
    with without_graphs():
        call(run_classifier, flags, "do_train", "do_eval", "deterministic")
    return output_dir


def assert_came_closer(folder):
    rows = [row for row in rows_of(folder) if row["split"] == "train"]
    assert float(rows[-1]["soft_loss"]) < 0.9 * float(rows[0]["soft_loss"])


@pytest.mark.parametrize("program", [run_ner, run_squad], ids=lambda program: program.name)
@pytest.mark.usefixtures("no_graphs")
def test_a_student_of_each_program_comes_closer_to_its_teacher(flags_of, program, tmp_path):
    call(program, flags_of(program) | {"output_dir": tmp_path / "out"}, "do_train")
    assert_came_closer(tmp_path / "out")


def test_a_student_comes_closer_on_texts_without_labels(taught):
    assert_came_closer(taught)
    task = json.loads((taught / "model" / "task.json").read_text())
    assert (task["program"], task["task"], task["labels"]) == ("run_classifier", "classification", ["bad", "good"])
    assert json.loads((taught / "model" / "bert_config.json").read_text())["hidden_size"] == 12
    assert weights_in(taught / "model.ckpt-4")["loss/projection"].shape == (12, 16)
    assert "loss/projection" not in weights_in(taught / "model")


@pytest.mark.usefixtures("no_graphs")
def test_a_stopped_run_continues_from_python_as_if_it_had_not_stopped(taught, flags_of, tmp_path, monkeypatch):
    flags = flags_of(run_classifier) | {"output_dir": tmp_path / "out"}
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        assert call(run_classifier, flags, "do_train", "deterministic") is None
    assert not (tmp_path / "out" / "model").exists()
    settings = {name: value for name, value in flags.items() if name != "unlabeled_file"}
    run = train_classifier(unlabeled_data=TEXTS, predict_data=TEXTS[:3], **settings, deterministic=True, verbose=False)
    assert_bit_equal(*(weights_in(path / "model.ckpt-4") for path in (taught, tmp_path / "out")))
    answers = [answer.label for answer in TextClassifier(taught)(TEXTS[:3])]
    assert [row["prediction"] for row in run.predictions] == answers


@pytest.mark.usefixtures("no_graphs")
def test_the_run_folder_works_with_the_other_programs(taught, capsys, tmp_path):
    metrics = json.loads((taught / "evaluation.json").read_text())["metrics"]
    assert call(run_classifier, {"output_dir": shutil.copytree(taught, tmp_path / "out")}, "do_eval") == metrics
    capsys.readouterr()
    predict.main(["predict.py", f"--model_dir={taught}", "he was the"])
    assert "good" in capsys.readouterr().out
    task = json.loads((taught / "model" / "task.json").read_text())
    run = read_run(str(taught / "model"), task["step"])
    assert len(reopen_evaluation(run, task, ModelFolder(taught).check()).eval_features["input_ids"]) == 8


def test_a_safetensors_folder_of_another_library_teaches(folder, tmp_path):
    """Its config.json names the classes; it has no task.json."""
    safe = convert(folder / "run_classifier", tmp_path / "safe")
    (safe / "task.json").unlink()
    settings = TeacherSettings(max_seq_length=16, teacher=str(safe))
    student = ModelFolder(folder / "student", do_lower_case=True).check()
    opened = open_teacher(settings, ["classification"], student, "run_classifier")
    assert (opened.settings["task"], opened.settings["labels"]) == ("classification", ["bad", "good"])
    cased = ModelFolder(folder / "student", do_lower_case=False).check()
    with pytest.raises(ValueError, match="do_lower_case=True and strip_accents=True, and the student False and False"):
        open_teacher(settings, ["classification"], cased, "run_classifier")


@pytest.mark.parametrize(
    ("program", "changes", "message"),
    [
        (
            run_classifier,
            WITHOUT_LAYERS | {"teacher": None},
            "^unlabeled_file has no effect without teacher; give both",
        ),
        (run_classifier, {"teacher": Path("other")}, "other has another vocabulary than"),
        (
            run_classifier,
            {"teacher": Path("run_ner")},
            "is a model for token_classification; give a model of run_class",
        ),
        (run_classifier, {"max_seq_length": 40}, "^max_seq_length=40 is more than the 24 positions of teacher="),
        (run_classifier, {"unlabeled_file": None}, "^no data given; give"),
        (
            run_classifier,
            {"unlabeled_file": None, "eval_file": Path("dev.csv")},
            "^do_train needs train_file, or teacher and unlabeled_file$",
        ),
        (
            run_classifier,
            WITHOUT_LAYERS | {"soft_loss_weight": 0},
            "^all weights of the losses against the teacher are",
        ),
        (
            run_classifier,
            {"label_smoothing": 0.1},
            "does not apply: no training example has a label",
        ),
        (run_classifier, {"teacher_layers": None}, "^the 1 layers of the teacher are not a multiple of"),
        (
            run_classifier,
            {"train_file": Path("other.csv")},
            'line 2: label "pos" is not one of bad, good; a student has the labels of its teacher$',
        ),
        (run_classifier, {"kind": "regression"}, "^kind=regression, but the model is one of the kind single_label"),
        (run_ner, {"document_context": True}, "was trained with document_context=False, but this run has .*=True"),
        (run_squad, {"version_2_with_negative": True}, "was trained with version_2_with_negative=False, but this ru"),
    ],
)
def test_mistakes_write_nothing(folder, flags_of, tmp_path, program, changes, message):
    changes = {name: folder / value if isinstance(value, Path) else value for name, value in changes.items()}
    with pytest.raises(ValueError, match=message):
        call(program, flags_of(program) | {"output_dir": tmp_path / "out"} | changes, "do_train")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def learning(tmp_path_factory):
    """Return the flags by program of a run that learns; `output_dir` belongs to the test."""
    folder = tmp_path_factory.mktemp("learning")
    for number, (name, count) in enumerate({"train": 160, "dev": 30}.items(), 1):
        tiny_classes.write_texts(folder / f"{name}.csv", count, number)
        tiny_squad.write_squad(folder / f"{name}.json", tiny_squad.paragraphs(count, number))
    texts = [(text,) for text, _ in tiny_classes.texts(160, 3)]
    tiny_classes.write_rows(folder / "texts.csv", "text", texts)
    for name, rows in (("train", TEXTS), ("dev", TEXTS[:16])):
        tags = ("\n".join(f"{word} {TAG_OF[word]}" for word in text.split()) for text in rows)
        (folder / f"{name}.txt").write_text("\n\n".join(tags) + "\n")
    keras.utils.set_random_seed(1)
    start = write_model(folder / "start", PretrainingModel(make_config(hidden_size=16, hidden_act="gelu")), TOKENS)
    short = {"max_seq_length": 12, "train_batch_size": 16, "learning_rate": 0.003, "num_train_epochs": 6}
    return {
        run_classifier: short
        | {
            "init_checkpoint": tiny_classes.write_start(folder / "classes"),
            "train_file": folder / "train.csv",
            "eval_file": folder / "dev.csv",
        },
        run_ner: short | {"data_dir": folder, "init_checkpoint": start, "train_batch_size": 8, "num_train_epochs": 15},
        run_squad: tiny_squad.LEARNING
        | {
            "init_checkpoint": tiny_squad.write_start(folder / "answers"),
            "train_file": folder / "train.json",
            "eval_file": folder / "dev.json",
        },
    }


@pytest.mark.slow  # two runs that learn
@pytest.mark.parametrize(
    ("program", "metric"),
    [(run_ner, "f1"), (run_squad, "f1")],  # the next test has classes
    ids=lambda each: getattr(each, "name", each),
)
def test_a_student_learns_what_its_teacher_knows(learning, program, metric, tmp_path):
    flags, actions = learning[program], ("do_train",) if program is run_squad else ("do_train", "do_eval")
    known = call(program, flags | {"output_dir": tmp_path / "teacher"}, *actions)[metric]
    taught = flags | TEACHER_ONLY | {"teacher": tmp_path / "teacher", "output_dir": tmp_path / "out"}
    learnt = call(program, taught, *actions)[metric]
    if program is run_squad:
        assert learnt > 0.9 * known > 45.0
    else:
        assert learnt == known == 1.0


@pytest.mark.slow  # 120 steps; tests/training/test_distillation_loss.py has each loss, also of packed rows
def test_labels_and_layers_and_texts_together(learning, tmp_path):
    """The teacher has one layer and other widths; metrics.csv has the mean of each loss."""
    flags = learning[run_classifier]
    known = call(run_classifier, flags | {"output_dir": tmp_path / "teacher"}, "do_train", "do_eval")
    assert known["accuracy"] == 1.0
    config = make_config(vocab_size=len(tiny_classes.VOCABULARY), num_hidden_layers=2, hidden_size=12)
    config.to_json_file(tmp_path / "student.json")
    more = {
        "teacher": tmp_path / "teacher",
        "init_checkpoint": None,
        "bert_config_file": tmp_path / "student.json",
        "vocab_file": flags["init_checkpoint"] / "vocab.txt",
        "unlabeled_file": flags["train_file"].parent / "texts.csv",
        "hidden_loss_weight": 0.1,
        "attention_loss_weight": 0.1,
        "teacher_layers": "0,1",
        "output_dir": tmp_path / "out",
        "pack": True,
    }
    assert call(run_classifier, flags | more, "do_train", "do_eval")["accuracy"] == 1.0
    header = (tmp_path / "out" / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"loss", "accuracy", "soft_loss", "hidden_loss", "attention_loss"} <= set(header)


@pytest.mark.slow  # it writes and reads an export
@pytest.mark.usefixtures("no_graphs")
def test_an_export_teaches_like_the_model(folder, flags_of, tmp_path, monkeypatch):
    export, flags = tmp_path / "export", flags_of(run_classifier) | WITHOUT_LAYERS
    arguments = {"model_dir": folder / "run_classifier", "export_dir": export, "format": "onnx"}
    export_model.main(["export_model.py", *(f"--{name}={value}" for name, value in arguments.items())])
    for name, changes in (("model", {}), ("export", {"teacher": export})):
        call(run_classifier, flags | changes | {"output_dir": tmp_path / f"by_{name}"}, "do_train")
    of_model, of_export = (weights_in(tmp_path / f"by_{name}" / "model") for name in ("model", "export"))
    for name, value in of_model.items():
        np.testing.assert_allclose(value, of_export[name], atol=1e-4, err_msg=name)
    for changes, message in (
        ({"jit": True}, "^jit cannot compile a teacher that is an export"),
        ({"pack": True}, "^pack does not apply: the teacher is an export"),
        (OF_LAYERS, "^hidden_loss_weight and attention_loss_weight compare layers, which an export does not give"),
    ):
        with pytest.raises(ValueError, match=message):
            call(run_classifier, flags | changes | {"teacher": export, "output_dir": tmp_path / "no"}, "do_train")
    monkeypatch.setattr("bert_keras.programs.classifier.strategy_of", lambda settings: None)
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(ValueError, match="^teacher=.* is an export, which needs TensorFlow; give its run for"):
        call(run_classifier, flags | {"teacher": export, "output_dir": tmp_path / "no"}, "do_train")
