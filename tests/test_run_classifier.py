"""The program from flags to files, on texts in which one word determines the class."""

import csv
import json
import re
import shlex
import shutil
import zipfile

import numpy as np
import pytest
from tiny_classes import FILLERS, run, table_in, texts, write_mrpc, write_rows, write_start, write_texts
from training_programs import run_classifier
from training_runs import results_in

from bert_keras.cli.flags import run_main
from bert_keras.commands import predict
from bert_keras.modeling import open_checkpoint
from bert_keras.programs import demo
from bert_keras.tasks.finetuning.model_dir import is_model_of


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The flags of a short run; `output_dir` belongs to the test."""
    folder = tmp_path_factory.mktemp("data")
    return {
        "init_checkpoint": write_start(folder / "start"),
        "train_file": write_texts(folder / "train.csv", 160, 1),
        "eval_file": write_texts(folder / "dev.csv", 30, 2),
        "max_seq_length": 12,
        "train_batch_size": 16,
        "learning_rate": 0.001,
        "num_train_epochs": 10,
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory, files):
    """The folder of a finished run, which tests must not change."""
    folder = tmp_path_factory.mktemp("runs") / "trained"
    metrics = run(files, "do_train", "do_eval", output_dir=folder)
    assert metrics["accuracy"] == 1.0
    return folder


@pytest.fixture
def out(trained, tmp_path):
    """A copy of the folder of a finished run."""
    return shutil.copytree(trained, tmp_path / "out")


def probabilities_in(path):
    return np.array([[float(cell) for cell in line.split("\t")] for line in path.read_text().splitlines()])


def test_training_learns_and_leaves_what_it_promises(trained):
    results = results_in(trained)
    assert list(results) == ["eval_accuracy", "eval_f1_macro", "eval_loss", "global_step", "loss"]
    assert (results["eval_accuracy"], results["global_step"]) == ("1.0", "100")
    assert {path.name for path in trained.iterdir()} >= {
        *("checkpoint", "class_report.txt", "confusion_matrix.tsv", "eval.tf_record", "report.html"),
        *("eval_errors.tsv", "eval_predictions.tsv", "evaluation.json", "metrics.csv", "model", "model.ckpt-100.index"),
        *("learning_curves.png", "page_examples.json", "run_config.json", "train.tf_record"),
    }
    examples = json.loads((trained / "page_examples.json").read_text())
    assert {example["text"] for example in examples} <= {text for text, _ in texts(30, 2)}
    assert (trained / "eval_errors.tsv").read_text() == "id\tsource\tlabel\tprediction\tconfidence\twords\ttext\n"
    rows = table_in(trained / "eval_predictions.tsv")
    assert [(row["text"], row["prediction"]) for row in rows] == texts(30, 2)

    task = json.loads((trained / "model" / "task.json").read_text())
    assert {name: value for name, value in task.items() if name != "metrics"} == {
        "program": "run_classifier",
        "task": "classification",
        "labels": ["neg", "pos"],
        "is_pair": False,
        "max_seq_length": 12,
        "doc_stride": None,
        "step": 100,
    }
    assert open_checkpoint(trained / "model").shape("output_weights") == (2, 16)
    with open(trained / "metrics.csv", newline="") as file:
        last = list(csv.DictReader(file))[-1]
    assert (last["step"], last["split"], last["accuracy"]) == ("100", "eval", "1")


def test_the_folder_of_a_run_is_all_that_prediction_and_evaluation_need(out, tmp_path, files, capsys):
    rows = [(f"n{number}", *row[:1], "?") for number, row in enumerate(texts(9, 7))]
    path = write_rows(tmp_path / "new.csv", "name,text,label", rows, ",")
    assert run({"output_dir": out}, "do_predict", predict_file=path, id_column="name") is None
    table = table_in(out / "predictions.tsv")
    assert [(row["id"], row["text"], row["prediction"]) for row in table] == [
        (f"n{number}", *row) for number, row in enumerate(texts(9, 7))
    ]
    # The original's file: no header, a row for each text in order, a probability for each label, tabs.
    probabilities = probabilities_in(out / "test_results.tsv")
    assert probabilities.shape == (9, 2)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)
    shown = np.array([[float(row[f"probability of {label}"]) for label in ("neg", "pos")] for row in table])
    np.testing.assert_allclose(probabilities, shown, atol=1e-6)

    before = (out / "eval_results.txt").read_text()
    (out / "eval_results.txt").unlink()
    capsys.readouterr()
    assert run({"output_dir": out}, "do_eval")["accuracy"] == 1.0
    assert (out / "eval_results.txt").read_text() == before
    assert "settings that were not given are taken from the run in" in capsys.readouterr().out
    # From another folder: lengths and labels come from the model, the rest from the flags.
    other = run({"init_checkpoint": out, "output_dir": tmp_path / "other"}, "do_eval", eval_file=files["eval_file"])
    assert other == pytest.approx(json.loads((out / "evaluation.json").read_text())["metrics"])


def test_a_finished_run_is_not_trained_again_and_gets_its_digest_back(out, files, tmp_path, capsys):
    (out / "model.sha256").unlink()
    before = [path.read_bytes() for path in (out / "model").glob("*.data-*")]
    flags = {**files, "output_dir": out}
    run(flags, "do_train", "do_eval")
    shown = capsys.readouterr().out
    assert "nothing to train: step 100 of 100 is reached" in shown
    assert "train.tf_record: 160 examples, made earlier from the same data" in shown
    assert is_model_of(str(out), str(out / "model"))
    assert [path.read_bytes() for path in (out / "model").glob("*.data-*")] == before

    rows = [(text, {"pos": "good", "neg": "bad"}[label]) for text, label in texts(160, 1)]
    flags["train_file"] = write_rows(tmp_path / "train.csv", "text,label", rows, ",")
    flags["eval_file"] = flags["train_file"]
    message = (
        r"out holds a run with other settings: data: labels was \['neg', 'pos'\] and is \['bad', 'good'\] now; data: "
        "their content has changed; give the old settings"
    )
    with pytest.raises(ValueError, match=message):
        run(flags, "do_train", "do_eval")


@pytest.fixture
def mrpc(tmp_path):
    return write_mrpc(tmp_path / "MRPC")


@pytest.mark.usefixtures("no_graphs")
def test_a_task_of_glue_from_its_files_to_its_submission(files, mrpc, tmp_path):
    flags = {"task_name": "MRPC", "data_dir": mrpc, "train_file": None, "eval_file": None, "num_train_epochs": 1}
    flags = {**files, **flags, "output_dir": tmp_path / "out", "eval_batch_size": 4, "max_seq_length": 16}
    run(flags, "do_train", "do_eval", "do_predict")
    out = tmp_path / "out"
    results = results_in(out)
    assert list(results) == ["eval_accuracy", "eval_f1", "eval_loss", "global_step", "loss"]
    labels = [int(label == "pos") for _, label in texts(13, 1)]
    predicted = [int(row["prediction"]) for row in table_in(out / "eval_predictions.tsv")]
    assert float(results["eval_accuracy"]) == pytest.approx(np.mean(np.equal(predicted, labels)))

    answers = probabilities_in(out / "test_results.tsv").argmax(1)
    expected = "index\tprediction\n" + "".join(f"{number}\t{answer}\n" for number, answer in enumerate(answers))
    assert (out / "MRPC.tsv").read_text() == expected
    with zipfile.ZipFile(out / "MRPC.zip") as archive:
        assert archive.read("MRPC.tsv").decode() == expected

    # A model as fine-tuned by the original BERT: weights and Adam's slots, a config and a vocabulary.
    released = tmp_path / "released"
    released.mkdir()
    for path in [*out.glob("model.ckpt-2.*"), *(out / "model" / name for name in ("bert_config.json", "vocab.txt"))]:
        shutil.copy(path, released)
    flags = {"task_name": "mrpc", "data_dir": mrpc, "init_checkpoint": released / "model.ckpt-2"}
    names = {"vocab_file": released / "vocab.txt", "bert_config_file": released / "bert_config.json"}
    run({**flags, **names}, "do_predict", output_dir=tmp_path / "again", max_seq_length=16, do_lower_case=True)
    assert (tmp_path / "again" / "test_results.tsv").read_text() == (out / "test_results.tsv").read_text()
    assert (tmp_path / "again" / "MRPC.tsv").read_text() == expected


@pytest.mark.usefixtures("no_graphs")
def test_long_texts_are_answered_by_the_mean_over_their_windows(out, tmp_path):
    words = [*FILLERS, "good", *FILLERS, "bad", *FILLERS][:23]
    path = write_rows(tmp_path / "long.csv", "text", [(" ".join(words),), ("good film",)])
    run({"output_dir": out}, "do_predict", predict_file=path, doc_stride=4)
    spread = probabilities_in(out / "test_results.tsv")
    windows = [" ".join(words[first : first + 10]) for first in (0, 4, 8, 12, 16)]
    path = write_rows(tmp_path / "windows.csv", "text", [(window,) for window in [*windows, "good film"]])
    run({"output_dir": out}, "do_predict", predict_file=path)
    single = probabilities_in(out / "test_results.tsv")
    assert np.ptp(single[:5, 0]) > 0.1
    np.testing.assert_allclose(spread, [single[:5].mean(0), single[5]], atol=1e-6)
    run({"output_dir": out}, "do_predict", predict_file=tmp_path / "long.csv")
    np.testing.assert_allclose(probabilities_in(out / "test_results.tsv"), single[[0, 5]], atol=1e-6)


def test_a_model_is_only_asked_what_it_was_trained_for(out, mrpc):
    flags = {"output_dir": out}
    message = "^the model has the labels neg, pos, but the data have 0, 1; give data of the task that the model was tr"
    with pytest.raises(ValueError, match=message):
        run(flags, "do_eval", task_name="mrpc", data_dir=mrpc)
    with pytest.raises(ValueError, match="^kind=regression, but the model is one of the kind single_label; leave it"):
        run(flags, "do_eval", kind="regression")
    (out / "model" / "task.json").write_text('{"task": "question_answering", "max_seq_length": 12, "doc_stride": 4}')
    with pytest.raises(ValueError, match=r"was trained for question_answering; give one from run_classifier$"):
        run(flags, "do_eval")


def test_a_pretrained_model_alone_cannot_be_asked(files, mrpc, tmp_path):
    flags = {"task_name": "mrpc", "data_dir": mrpc, "init_checkpoint": files["init_checkpoint"], "max_seq_length": 16}
    with pytest.raises(ValueError, match=r"bert_model.ckpt.*output_weights"):
        run(flags, "do_predict", output_dir=tmp_path / "out")


def test_a_mistake_is_one_line_and_nothing_is_written(files, tmp_path, capsys):
    file = write_rows(tmp_path / "dev.csv", "text,label", [("a", "pos"), ("b", "zzz")], ",")
    flags = {**files, "eval_file": file, "output_dir": tmp_path / "out"}
    argv = ["run_classifier.py", "--do_train", "--do_eval", *(f"--{name}={value}" for name, value in flags.items())]
    assert run_main(run_classifier.main, argv) == 1
    assert capsys.readouterr().err == 'run_classifier.py: dev.csv line 3: label "zzz" is not one of neg, pos\n'
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("rerank", "to train rerankers, use run_reranker.py, in Python train_reranker"),
        ("few_shot", "to learn from few labels, use run_few_shot.py, in Python train_few_shot"),
        ("some", "'some' is not one of single_label, regression, multi_label, multiple_choice"),
    ],
)
def test_what_is_not_a_kind_of_labels_is_told_its_program(kind, message, capsys):
    assert run_main(run_classifier.main, ["run_classifier.py", "--do_train", f"--kind={kind}"]) == 1
    expected = f"run_classifier.py: flag --kind={kind}: {message} (--helpfull lists all flags)\n"
    assert capsys.readouterr().err == expected


@pytest.mark.usefixtures("no_graphs")
def test_the_first_update_with_bias_correction_has_the_length_of_the_learning_rate(files, tmp_path):
    """Without it, it is 3.16 times as long: `m` is 0.1 g, and the root of `v` 0.0316 |g|."""
    changes = []
    for value in (False, True):
        out = tmp_path / str(value)
        more = {"warmup_proportion": 0.0, "adam_epsilon": 1e-12, "adam_bias_correction": value}
        run(files, "do_train", output_dir=out, max_steps=1, **more)
        name = "bert/encoder/layer_0/output/dense/bias"
        before, after = (open_checkpoint(str(path)).read(name) for path in (files["init_checkpoint"], out))
        changes.append(np.abs(after - before))
    np.testing.assert_allclose(changes[1], 0.001, rtol=0.02)
    np.testing.assert_allclose(changes[0] / changes[1], np.sqrt(10), rtol=0.02)


@pytest.mark.slow  # the demo, shortened; CI runs it as the README shows
def test_the_demo_trains_on_the_sample_messages_and_shows_the_command_that_it_is(
    tmp_path, monkeypatch, capsys, real_pictures
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(demo._CLASSIFICATION, "num_train_epochs", 2)
    metrics = run_classifier.main(["run_classifier.py"])
    assert 0.35 < metrics["accuracy"] < 1, "the baseline is 0.26"
    output = capsys.readouterr().out
    (command,) = re.findall(r"the same as this command:\n(.*output_dir=\S+)\n", output.replace("\\\n", " "))
    (prediction,) = re.findall(r"Now try the model, .*:\n(.*)\n", output)
    # Neither the command nor a second run trains anything.
    assert run_classifier.main(shlex.split(command)[1:]) == metrics
    assert run_classifier.main(["run_classifier.py"]) == metrics
    assert capsys.readouterr().out.count("nothing to train") == 2
    predict.main(shlex.split(prediction)[1:])
    assert re.search(r"^  0\.\d+  delivery$", capsys.readouterr().out, re.MULTILINE)
    assert "Look at bert_demo/messages/report.html, " in output
    assert "<svg" in (tmp_path / "bert_demo" / "messages" / "report.html").read_text()


def test_the_demo_leaves_a_file_of_the_name_of_its_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert_demo").write_text("mine")
    assert run_main(run_classifier.main, ["run_classifier.py"]) == 1
    assert "bert_demo is a file, but the demo needs a folder of this name; rename the file" in capsys.readouterr().err
    assert (tmp_path / "bert_demo").read_text() == "mine"
