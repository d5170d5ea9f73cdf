"""The program from flags to files, on questions whose words determine the answers."""

import contextlib
import csv
import functools
import io
import json
import re
import shutil

import keras
import pytest
import tiny_classes
from tiny_squad import LEARNING, paragraphs, without_answers, write_squad, write_start
from training_programs import run_squad
from training_runs import results_in

from bert_keras.cli.flags import run_main
from bert_keras.modeling import open_checkpoint
from bert_keras.tasks.question_answering.metrics import squad_v1_metrics, squad_v2_metrics


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return the paths of files by name: training and evaluation of both versions, and one without answers."""
    folder = tmp_path_factory.mktemp("squad")
    made = {
        "train": paragraphs(160, 1),
        "dev": paragraphs(24, 2),
        "train2": paragraphs(160, 3, with_impossible=True),
        "dev2": paragraphs(32, 4, with_impossible=True),
        "test2": paragraphs(20, 5, with_impossible=True),
    }
    made["questions"] = without_answers(made["dev"])
    return {name: write_squad(folder / f"{name}.json", content) for name, content in made.items()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, data):
    """A finished run: its flags, metrics and output. Tests must not change its folder."""
    keras.utils.set_random_seed(1)
    flags = LEARNING | {
        "init_checkpoint": write_start(tmp_path_factory.mktemp("start")),
        "train_file": data["train"],
        "output_dir": tmp_path_factory.mktemp("trained") / "model",
        "log_steps": 50,
    }
    with contextlib.redirect_stdout(io.StringIO()) as output:
        metrics = run(flags, do_train=True, do_predict=True, predict_file=data["dev"])
    return flags, metrics, " ".join(output.getvalue().split())


@pytest.fixture
def files(trained, tmp_path):
    """The flags of a short run."""
    return {**trained[0], "output_dir": tmp_path / "model"}


@pytest.fixture
def out(trained, tmp_path):
    """A copy of the folder of the finished run."""
    return shutil.copytree(trained[0]["output_dir"], tmp_path / "model")


run = functools.partial(tiny_classes.run, program=run_squad)


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_run_from_questions_to_answers(trained, data, out):
    _, metrics, shown = trained
    assert metrics["exact_match"] > 90
    # The number of steps depends on the 320 questions, not on the number of windows.
    with open(out / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[-1]["step"] == str(int(320 / 16 * 8))
    assert float(rows[-1]["f1"]) == pytest.approx(metrics["f1"], rel=1e-6)

    predictions, nbest = read_json(out / "predictions.json"), read_json(out / "nbest_predictions.json")
    questions = [question for paragraph in paragraphs(24, 2) for question in paragraph["qas"]]
    assert list(predictions) == list(nbest) == [question["id"] for question in questions]
    assert {id_: entries[0]["text"] for id_, entries in nbest.items()} == predictions
    assert max(map(len, nbest.values())) == 5
    official = squad_v1_metrics(read_json_of(data["dev"]), predictions)
    assert metrics == pytest.approx(official)
    results = results_in(out)
    assert list(results) == ["exact_match", "f1", "global_step"]
    assert float(results["exact_match"]) == pytest.approx(metrics["exact_match"], rel=1e-6)
    names = {path.name for path in out.iterdir()}
    assert {"train.tf_record", "eval.tf_record", "run_config.json", "metrics.csv", "model"} <= names
    assert not {"null_odds.json", "predict.tf_record", "eval_predictions.json"} & names

    task = read_json(out / "model" / "task.json")
    assert {name: task[name] for name in list(task)[:9]} == {
        "program": "run_squad",
        "task": "question_answering",
        "max_seq_length": 12,
        "doc_stride": 4,
        "max_query_length": 4,
        "max_answer_length": 4,
        "n_best_size": 5,
        "version_2_with_negative": False,
        "null_score_diff_threshold": 0.0,
    }
    head = {name: open_checkpoint(str(out / "model")).shape(name) for name in ("cls/squad/output_weights",)}
    assert head == {"cls/squad/output_weights": (2, 32)}
    assert "320 questions in 456 windows of 12 tokens: 136 of the questions need more than one; " in shown

    # Only the model, on the same questions without their answers: the lengths are those of the training.
    (out / "predictions.json").unlink()
    assert run({"output_dir": out}, do_predict=True, predict_file=data["questions"]) is None
    assert read_json(out / "predictions.json") == predictions


def read_json_of(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def test_a_run_of_the_second_version_finds_its_threshold(files, data, capsys):
    flags = {**files, "train_file": data["train2"], "version_2_with_negative": True}
    metrics = run(flags, do_train=True, do_predict=True, eval_file=data["dev2"], predict_file=data["test2"])
    out = files["output_dir"]
    assert metrics["best_f1"] > 80
    gold = read_json_of(data["dev2"])
    predictions, odds = read_json(out / "eval_predictions.json"), read_json(out / "eval_null_odds.json")
    official = squad_v2_metrics(gold, predictions, odds, 0.0)
    for name in ("exact", "f1", "HasAns_f1", "NoAns_exact"):
        assert metrics[name] == pytest.approx(official[name]), name
    # The threshold of 0 removes answers for good; the best metrics use all answers.
    best = {
        id_: next((entry["text"] for entry in entries if entry["text"]), "")
        for id_, entries in read_json(out / "eval_nbest_predictions.json").items()
    }
    official = squad_v2_metrics(gold, best, odds, metrics["best_f1_thresh"])
    assert official["best_f1"] == pytest.approx(metrics["best_f1"])
    threshold = read_json(out / "model" / "task.json")["null_score_diff_threshold"]
    assert squad_v2_metrics(gold, best, odds, threshold)["f1"] == pytest.approx(metrics["best_f1"])

    # Other questions use the threshold from the evaluation, in this run and with only the model.
    odds = read_json(out / "null_odds.json")
    nbest = read_json(out / "nbest_predictions.json")
    predictions = read_json(out / "predictions.json")
    for id_, answer in predictions.items():
        best = next((entry["text"] for entry in nbest[id_] if entry["text"]), "")
        assert answer == ("" if odds[id_] > threshold else best)
    assert "" in predictions.values()
    shown = capsys.readouterr().out
    assert re.search(
        r"dev2.json: --null_score_diff_threshold=\S+ gives the best F1, \S+; it is stored with the model", shown
    )
    assert re.search("predictions, compared with the answers of .*test2.json: exact ", shown)
    assert (out / "predict_results.txt").read_text().startswith("HasAns_exact = ")
    # Later predictions do not change the evaluation.
    of_evaluation = {path: path.read_bytes() for path in (out / "eval_results.txt", out / "eval.tf_record")}
    (out / "predict_results.txt").unlink()
    run({"output_dir": out}, do_predict=True, predict_file=data["test2"])
    assert read_json(out / "predictions.json") == predictions
    assert {path: path.read_bytes() for path in of_evaluation} == of_evaluation
    assert (out / "predict_results.txt").read_text().startswith("HasAns_exact = ")
    run({"output_dir": out}, do_predict=True, predict_file=data["test2"], null_score_diff_threshold=-1000)
    assert set(read_json(out / "predictions.json").values()) == {""}


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_a_threshold_that_is_given_is_used_and_stored(files, data, capsys):
    flags = {**files, "train_file": data["train2"], "version_2_with_negative": True, "num_train_epochs": 0.1}
    out = files["output_dir"]
    run(flags, do_train=True, do_predict=True, null_score_diff_threshold=-1000, predict_file=data["dev2"])
    assert set(read_json(out / "predictions.json").values()) == {""}
    assert read_json(out / "model" / "task.json")["null_score_diff_threshold"] == -1000
    capsys.readouterr()
    run({"output_dir": out}, do_predict=True, predict_file=data["dev2"])
    assert set(read_json(out / "predictions.json").values()) == {""}
    assert "--null_score_diff_threshold=-1000, as stored with the model" in capsys.readouterr().out
    run({"output_dir": out}, do_predict=True, predict_file=data["dev2"], null_score_diff_threshold=1000)
    answers, odds = read_json(out / "predictions.json"), read_json(out / "null_odds.json")
    # Some have no valid span, so they have no answer for any threshold.
    assert {id_ for id_, text in answers.items() if not text} == {id_ for id_ in odds if odds[id_] == 1000000.0}


def test_a_squad_checkpoint_without_notes_answers_by_the_flags(trained, data, out, tmp_path):
    (out / "model" / "task.json").unlink()
    flags = {**trained[0], "init_checkpoint": out / "model", "output_dir": tmp_path / "answers"}
    run(flags, do_predict=True, predict_file=data["dev"])
    for name in ("predictions.json", "nbest_predictions.json"):
        assert read_json(tmp_path / "answers" / name) == read_json(out / name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_train": True, "train_file": None}, "^do_train needs train_file, a file of SQuAD's JSON"),
        ({"do_predict": True}, "^do_predict needs predict_file, a file of SQuAD's JSON"),
        (
            {"do_train": True, "max_query_length": 9},
            "^max_seq_length=12 leaves no room for a text after a question of max_query_length=9 and 3 "
            "special tokens; give more than 12",
        ),
        (
            {"do_train": True, "num_seeds": 2},
            "^num_seeds needs evaluations; give eval_file, eval_share, or a pr",
        ),
        ({"do_train": True, "eval_steps": 2}, "^eval_steps needs evaluations; give eval_file, eval_share, or a"),
        (
            {"do_train": True, "learning_rate": "1,2"},
            "^learning_rate needs evaluations; give eval_f",
        ),
    ],
)
def test_mistakes_are_explained_before_any_training(files, changes, message):
    with pytest.raises(ValueError, match=message):
        run({**files, **changes})
    assert not files["output_dir"].exists()


def test_a_mistake_is_one_line_and_nothing_is_written(files, data, capsys):
    argv = [f"--{name}={value}" for name, value in {**files, "train_file": data["train2"], "do_train": True}.items()]
    assert run_main(run_squad.main, ["run_squad.py", *argv]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert 'train2.json question "3-1-where" is marked is_impossible, as in SQuAD 2.0; give --version_2_with' in line
    assert not files["output_dir"].exists()
