"""report.html of run_classifier.py: for every kind of labels, its numbers, and runs with several tries or none."""

import csv
import json
import math
import re
import shlex
import shutil

import numpy as np
import pytest
from report_pages import ReportPage, page_in
from tiny_classes import run, table_in, texts, write_encoder, write_mrpc, write_rows, write_start
from training_programs import check_labels, run_classifier, run_few_shot, run_reranker

from bert_keras.cli.flags import parse
from bert_keras.commands import export_model, predict, serve
from bert_keras.engine.report import in_words
from bert_keras.evaluation.intervals import wilson
from bert_keras.runs.run_dir import RunDir
from bert_keras.tasks.classification.data import ClassificationData
from bert_keras.tasks.classification.report.page import sections_of
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.finetuning.task import Task
from bert_keras.tasks.reports.page import Findings, write_page
from bert_keras.tasks.reranking.data import Queries
from bert_keras.tasks.reranking.task import Reranking
from bert_keras.tasks.tables.examples import Example

pytestmark = pytest.mark.usefixtures("no_graphs")

SCRIPT = "<script>alert(1)</script>"
ROWS = [(f"{SCRIPT} {text}", label) for text, label in texts(24, 1)]
QUERIES = [(f"{text} {number}", "good film", "sad film") for number, (text, _) in enumerate(texts(12, 2))]
# Kind -> header and rows of its file, its flags, and the headings between those that all pages have.
KINDS = {
    "single_label": ("text,label", ROWS, {}, ["Confusions", "Classes", "Calibration"]),
    "pairs": (
        "text_a,text_b,label",
        [(text, f"then {text}", label) for text, label in ROWS],
        {"kind": "single_label"},
        ["Confusions", "Classes", "Calibration"],
    ),
    "multi_label": (
        "text,label",
        [(text, f"{label};x" if number % 3 else "") for number, (text, label) in enumerate(ROWS)],
        {"label_separator": ";"},
        ["Classes", "Calibration"],
    ),
    "regression": ("text,label", [(text, number / 4) for number, (text, _) in enumerate(ROWS)], {}, []),
    "multiple_choice": (
        "text,one,two,label",
        [(text, "good", SCRIPT, number % 2) for number, (text, _) in enumerate(ROWS)],
        {"choice_columns": "one,two"},
        ["Confusions", "Classes", "Calibration"],
    ),
    "few_shot": ("text,label", ROWS, {}, ["Confusions", "Classes", "Calibration"]),
    "rerank": ("query,positive,negative", QUERIES, {}, []),
}
# The kinds that are not those of run_classifier.py have a program.
PROGRAMS = {"few_shot": run_few_shot, "rerank": run_reranker}
TEXTS = {"regression": ["Largest differences", "Longest texts"], "rerank": ["Worst queries"]}


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """The models to start from."""
    folder = tmp_path_factory.mktemp("start")
    return write_start(folder / "start"), write_encoder(folder / "encoder")


def flags_of(kind, folder, starts):
    header, rows, flags, _ = KINDS[kind]
    path = write_rows(folder / f"{kind}.csv", header, rows, ",")
    start = starts[kind == "few_shot"]
    given = {"train_file": path, "eval_file": path, "init_checkpoint": start, "max_seq_length": 12}
    given |= {} if kind in PROGRAMS else {"kind": kind}
    return given | ({"contrastive_epochs": 1} if kind == "few_shot" else {"max_steps": 2}) | flags


@pytest.fixture(scope="module", params=KINDS)
def finished(request, tmp_path_factory, starts):
    """The kind, folder, flags and metrics of a run."""
    from eager import without_graphs

    folder = tmp_path_factory.mktemp(request.param)
    flags = flags_of(request.param, folder, starts) | {"output_dir": folder / f"my {request.param}"}
    with without_graphs(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Task, "shortfall", lambda *arguments: None)  # two steps make no useful model
        metrics = run(flags, "do_train", "do_eval", program=PROGRAMS.get(request.param, run_classifier))
    return request.param, flags["output_dir"], flags, metrics


def shown(name, value):
    return in_words({name: value}).removeprefix(f"{name} ")


def test_a_page_has_the_sections_of_its_kind(finished):
    kind, folder, *_ = finished
    page = page_in(folder)
    of_texts = TEXTS.get(kind, ["Most suspicious labels", "Longest texts"])
    assert [*page.tables] == ["Metrics", *KINDS[kind][3], "Learning curves", *of_texts, "What to do next"]
    assert "<svg" in page.text


def test_the_metrics_are_those_of_the_evaluation(finished):
    kind, folder, _, metrics = finished
    page, stored = page_in(folder), json.loads((folder / "evaluation.json").read_text())
    assert stored["metrics"] == pytest.approx(metrics)
    header, *rows = page.tables["Metrics"]
    assert header == ["", "value", "95 % interval", *(["baseline"] if stored["baseline"] else [])]
    assert [row[:2] for row in rows] == [[name, shown(name, value)] for name, value in stored["metrics"].items()]
    for name, _, interval, *baseline in rows:
        assert baseline in ([], [shown(name, stored["baseline"][name])] if name in stored["baseline"] else [""])
        if name == "loss" or (kind != "rerank" and name != "accuracy"):  # with fewer than 50 rows
            assert interval == ""
            continue
        low, high = (float(part.removesuffix(" %")) for part in interval.split(" to "))
        value = stored["metrics"][name] * (100 if "%" in interval else 1)
        assert -100 <= low <= high <= 100
        assert low - 1e-3 <= value <= high + 1e-3


def test_texts_of_the_user_are_escaped(finished):
    _, folder, *_ = finished
    page = page_in(folder)
    assert "script" not in page.tags
    if "rerank" not in folder.name:
        assert any(text.startswith(SCRIPT) for text in page.texts["Longest texts"])


@pytest.mark.parametrize("finished", ["single_label", "multi_label", "few_shot", "rerank"], indirect=True)
def test_the_commands_have_the_paths_of_the_user_and_work(finished, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind, folder, flags, _ = finished
    commands = [
        shlex.split(text.replace("\\\n", " "))[1:]
        for text in page_in(folder).texts["What to do next"]
        if text.lstrip().startswith("python ")
    ]
    used = ["predict.py", "serve.py", "export_model.py"]
    of_classes = {"single_label": 1, "pairs": 1, "few_shot": 1, "multi_label": 1}
    trainer = PROGRAMS.get(kind, run_classifier)
    trainer_file = f"{trainer.name}.py"
    expected = [*used, *([trainer_file] if kind != "rerank" else [])]
    expected += ["check_labels.py"] * (kind in ("single_label", "pairs", "few_shot"))
    expected += [trainer_file] * of_classes.get(kind, 0)
    assert [name for name, *_ in commands][: len(expected)] == expected
    assert f"--model_dir={folder}" in commands[0]
    for name, *arguments in commands:
        program = {
            "serve.py": serve,
            "export_model.py": export_model,
            "check_labels.py": check_labels,
            trainer_file: trainer,
        }.get(name)
        if program == trainer and "--do_train" in arguments and kind in ("single_label", "few_shot"):
            assert math.isfinite(trainer.main([name, *arguments])["loss"])
        elif program:
            parse(program.define_flags(), [name, *arguments], "")
        else:
            predict.main([name, *arguments])
            assert capsys.readouterr().out.strip()
    if "check_labels.py" in expected:
        assert f"--train_file={flags['train_file']}" in commands[4]


def test_a_model_of_no_use_is_told_in_place_of_commands_for_it(tmp_path, starts, capsys):
    path = write_rows(tmp_path / "data.csv", "text,label", [(text, "a") for text, _ in ROWS] + [("sad", "b")] * 2, ",")
    flags = {"train_file": path, "eval_file": path, "init_checkpoint": starts[0], "output_dir": tmp_path / "out"}
    run(flags, "do_train", "do_eval", max_steps=2, max_seq_length=12, learning_rate=1e-9, class_weights="1,0.001")
    warning = (
        "is not better than the baseline (most frequent class), 92.3 %: the model is of no use yet. Train again in "
    )
    warning += (
        "another --output_dir; try a lower --learning_rate (here 1e-09), more --max_steps (here 2), several seeds"
    )
    output = " ".join(capsys.readouterr().out.split())
    assert warning in output
    assert "Now try the model" not in output
    page = page_in(tmp_path / "out")
    assert page.text.count(warning) == 2
    assert "predict.py" not in " ".join(page.texts["What to do next"])


def test_the_commands_keep_how_the_file_is_read(tmp_path, starts, monkeypatch):
    """Each setting of a table reaches the commands, which work on the same file."""
    monkeypatch.setattr(Task, "shortfall", lambda *arguments: None)
    lines = [f"{number},x,{text},{label}" for number, (text, label) in enumerate(texts(24, 1))]
    (tmp_path / "odd.csv").write_text("\n".join([*lines, "24,x", ""]))  # no header, and a row that is too short
    odd = {"skip_bad_rows": True, "has_header": "false", "id_column": 0, "text_column": 2, "label_column": 3}
    flags = {"train_file": tmp_path / "odd.csv", "eval_share": 0.3, "init_checkpoint": starts[0], "max_steps": 2}
    flags |= {"max_seq_length": 12, "output_dir": tmp_path / "out"}
    run(flags | odd, "do_train", "do_eval")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "your.csv").write_text("\n".join(lines))
    texts_of_page = [text for text in page_in(tmp_path / "out").texts["What to do next"] if " python " in f" {text} "]
    words = [shlex.split(text.replace("\\\n", " "))[1:] for text in texts_of_page]
    [check] = [arguments for name, *arguments in words if name == "check_labels.py"]
    settings = vars_of(check)
    assert settings == {name: str(value).lower() for name, value in odd.items()} | settings
    check_labels.main(["check_labels.py", *check, "--folds=2"])
    assert (tmp_path / "out_labels" / "suspects.tsv").is_file()
    again = [arguments for name, *arguments in words if name == "run_classifier.py"]
    assert len(again) == 2
    for arguments in again:
        run_classifier.main(["run_classifier.py", *arguments])


def vars_of(arguments):
    return dict(argument.removeprefix("--").split("=", 1) for argument in arguments)


def test_the_lists_show_what_their_titles_say(tmp_path, starts):
    rows = [(text, label) for text, label in texts(30, 4)] + [("so " * 9, "neg"), ("goodsgoodsgoods", "pos")]
    path = write_rows(tmp_path / "data.csv", "text,label", rows, ",")
    flags = {"train_file": path, "eval_file": path, "init_checkpoint": starts[0], "output_dir": tmp_path / "out"}
    run(flags, "do_train", "do_eval", max_steps=2, max_seq_length=8)
    page = page_in(tmp_path / "out")
    numbers = [int(found[1]) for text in page.texts["Longest texts"] if (found := re.match(r"(\d+) tokens", text))]
    assert len(numbers) == 10
    assert numbers == sorted(numbers, reverse=True)
    names = [text for text in page.texts["Most suspicious labels"] if text in ("neg", "pos")]  # in bold
    pairs = list(zip(names[::2], names[1::2], strict=True))
    assert pairs
    assert all(label != answer for label, answer in pairs)


@pytest.mark.parametrize("finished", ["single_label", "multi_label", "few_shot", "rerank"], indirect=True)
def test_an_evaluation_later_writes_the_page_again(finished, monkeypatch):
    monkeypatch.setattr(Task, "shortfall", lambda *arguments: None)  # as in the run
    kind, folder, flags, _ = finished
    before = (folder / "report.html").read_text()
    (folder / "report.html").unlink()
    program = PROGRAMS.get(kind, run_classifier)
    run({"output_dir": folder, "eval_file": flags["eval_file"]}, "do_eval", program=program)
    after = (folder / "report.html").read_text()
    assert ReportPage(after).tables["Metrics"] == ReportPage(before).tables["Metrics"]
    assert after == before


@pytest.mark.parametrize("finished", ["single_label"], indirect=True)
def test_confusions_and_suspects_are_those_of_the_predictions(finished):
    page, rows = page_in(finished[1]), table_in(finished[1] / "eval_predictions.tsv")
    header, *counts = page.tables["Confusions"]
    labels = ["neg", "pos"]
    assert header[1:] == labels
    for label, (name, *cells) in zip(labels, counts, strict=True):
        answers = [row["prediction"] for row, (_, truth) in zip(rows, ROWS, strict=True) if truth == label]
        assert (name, [int(cell or 0) for cell in cells]) == (label, [answers.count(other) for other in labels])
    of_truth = [float(row[f"probability of {label}"]) for row, (_, label) in zip(rows, ROWS, strict=True)]
    first = int(np.argmin(of_truth))
    facts = page.texts["Most suspicious labels"]
    assert ROWS[first][0] in facts
    assert any(f"probability {min(of_truth):.4f}" in text for text in facts)
    num_wrong = sum(row["prediction"] != label for row, (_, label) in zip(rows, ROWS, strict=True))
    assert sum(text.startswith(SCRIPT) for text in facts) == min(20, num_wrong) > 0
    assert page.texts["Longest texts"][0].startswith(
        "24 of 24 examples fill all 12 tokens of a sequence; a longer text"
    )


@pytest.mark.parametrize("finished", ["single_label"], indirect=True)
def test_the_interval_is_that_of_the_rows(finished, tmp_path):
    """The mean of many rows is almost normal."""
    rows = ROWS * 10
    path = write_rows(tmp_path / "many.csv", "text,label", rows, ",")
    folder = shutil.copytree(finished[1], tmp_path / "out")
    accuracy = run({"output_dir": folder, "eval_file": path}, "do_eval")["accuracy"]
    [interval] = [row[2] for row in page_in(tmp_path / "out").tables["Metrics"] if row[0] == "accuracy"]
    error = 1.96 * math.sqrt(accuracy * (1 - accuracy) / len(rows))
    bounds = [float(part.removesuffix(" %")) / 100 for part in interval.split(" to ")]
    assert bounds == pytest.approx([accuracy - error, accuracy + error], abs=0.01)


def test_all_tries_are_on_the_page_and_windows_are_counted(tmp_path, starts):
    flags = flags_of("single_label", tmp_path, starts) | {"output_dir": tmp_path / "out", "max_steps": 1}
    run(flags, "do_train", "do_eval", num_seeds=2, doc_stride=5)
    page = page_in(tmp_path / "out")
    with open(tmp_path / "out" / "tries.tsv", newline="") as file:
        assert page.tables["Tries"] == list(csv.reader(file, delimiter="\t"))
    assert "Learning curves" in page.tables
    told, facts, *_ = page.texts["Longest texts"]
    assert told == "24 of 24 examples fill all 12 tokens of a sequence; the rest is in more sequences."
    assert " tokensin " in facts
    assert "doc_stride" not in " ".join(page.texts["What to do next"])


def test_a_calibrated_run_shows_both_times(tmp_path, starts):
    flags = flags_of("single_label", tmp_path, starts) | {"output_dir": tmp_path / "out"}
    run(flags, "do_train", "do_eval", "calibrate")
    report = json.loads((tmp_path / "out" / "calibration.json").read_text())

    def check():
        page = page_in(tmp_path / "out")
        [told] = page.texts["Calibration"]
        assert told.startswith(
            f"The expected calibration error is {report['after']['ece']:.3f}; before the calibration it was "
            f"{report['before']['ece']:.3f} (grey). On the dashed line"
        )
        assert [row[0] for row in page.tables["Calibration"][1:]] == [
            f"{row['threshold']:g}" for row in report["answered"]
        ]
        assert [row[1] for row in page.tables["Calibration"][1:]] == [
            f"{100 * row['share']:.1f} %" for row in report["answered"]
        ]
        assert "--calibrate" not in " ".join(page.texts["What to do next"])

    check()
    run({"output_dir": tmp_path / "out"}, "do_eval")
    check()
    other = write_rows(tmp_path / "other.csv", "text,label", ROWS[:10], ",")
    run({"output_dir": tmp_path / "out"}, "do_eval", eval_file=other)
    [told] = page_in(tmp_path / "out").texts["Calibration"]
    assert "before" not in told


def test_a_model_in_another_folder_is_named_in_the_commands(tmp_path, starts, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Task, "shortfall", lambda *arguments: None)
    flags = flags_of("single_label", tmp_path, starts) | {"output_dir": tmp_path / "out"}
    run(flags, "do_train")
    run({"output_dir": tmp_path / "out", "predict_file": flags["train_file"]}, "do_predict")
    assert not (tmp_path / "out" / "report.html").exists()
    other = {"init_checkpoint": tmp_path / "out", "output_dir": tmp_path / "other", "eval_file": flags["eval_file"]}
    run(other, "do_eval")
    page = page_in(tmp_path / "other")
    assert "Learning curves" not in page.tables
    text = " ".join(page.texts["What to do next"])
    assert "--model_dir=out" in text
    assert str(tmp_path) not in page.text
    assert "(single_label.csv)" in page.text
    assert "run_classifier.py" not in text


def test_the_commands_of_a_known_task_are_those_of_its_kind(tmp_path, starts):
    folder, header = write_mrpc(tmp_path / "mrpc"), "\t".join(("index", *"abcdef")) + "\tsentence1\tsentence2\tscore"
    for split in ("train", "dev"):
        rows = [(*"1234567", text, f"then {text}", number / 5) for number, (text, _) in enumerate(ROWS)]
        write_rows(tmp_path / "stsb" / f"{split}.tsv", header, rows)
    for task, data_dir, is_of_classes in (("mrpc", folder, True), ("sts-b", tmp_path / "stsb", False)):
        flags = {"task_name": task, "data_dir": data_dir, "init_checkpoint": starts[0], "max_seq_length": 12}
        run(flags, "do_train", "do_eval", output_dir=tmp_path / f"out {task}", max_steps=2)
        text = " ".join(page_in(tmp_path / f"out {task}").texts["What to do next"])
        assert ("--calibrate" in text) == is_of_classes
        assert "check_labels.py" not in text


@pytest.mark.parametrize("num_labels", [2, 30, 31, 3000])
def test_a_page_of_many_labels_is_small(tmp_path, num_labels):
    labels = tuple(f"label {number} {SCRIPT}{'x' * 300}" for number in range(num_labels))
    dev = [Example(str(n), f"text {n} " + 500 * "word ", label=labels[n % num_labels]) for n in range(2 * num_labels)]
    data = ClassificationData(SingleLabel(labels), ("accuracy",), None, None, dev, None)
    answers = np.random.default_rng(0).dirichlet(np.ones(num_labels), 2 * num_labels)
    truth, decided = np.arange(2 * num_labels) % num_labels, answers.argmax(-1)
    outcome = answers.max(-1), truth == decided, answers[np.arange(len(truth)), truth]
    run_dir = RunDir(str(tmp_path), "run_classifier")
    numbers, of_texts = sections_of(run_dir, data, answers, outcome)
    described = {"metrics": {"accuracy": 0.5}, "baseline": None, "step": 1, "data": {"source": SCRIPT}}
    task = {"task": "classification"}
    write_page(run_dir, "a model", task, described, Findings(len(dev), "examples", {}, of_texts, numbers))
    page = page_in(tmp_path)
    assert "script" not in page.tags
    assert len(page.text) < 150_000
    header, *rows = page.tables["Confusions"]
    if num_labels <= 30:
        assert sum(int(cell or 0) for _, *cells in rows for cell in cells) == len(dev)
        assert len(header) == num_labels + 1
        return
    assert len(rows) == len(page.tables["Classes"]) - 1 == 30
    pairs = list(zip(truth[truth != decided].tolist(), decided[truth != decided].tolist(), strict=True))
    assert int(rows[0][1]) == max(map(pairs.count, set(pairs)))
    scores = [float(row[3]) for row in page.tables["Classes"][1:]]
    assert scores == sorted(scores)
    assert f"of the {num_labels:,} labels" in page.texts["Confusions"][0]


def test_the_queries_with_the_worst_places_come_first(tmp_path):
    queries = {"a": {"x": 1.0, "y": 0.0}, "b": {"x": 0.0, "y": 0.0, "z": 2.0}, "c": {"x": 1.0, "y": 0.0}}
    task = Reranking.__new__(Reranking)
    task._eval = Queries("file", queries, [])
    outputs = {"logits": np.float32([[1], [2], [3], [2], [1], [5], [4]])}
    found = task.findings(RunDir(str(tmp_path), "run_classifier"), outputs)
    assert (found.num_rows, found.unit, set(found.intervals)) == (
        3,
        "queries",
        {"mrr_at_10", "ndcg_at_10", "recall_at_10"},
    )
    page = ReportPage(f"<h2>Worst</h2>{found.texts['Worst queries']}")
    assert page.texts["Worst"][1:] == [
        *("the first text that fits has place 3 of 3", "b", "1: x", "3: z"),
        *("the first text that fits has place 2 of 2", "a", "1: y", "2: x"),
    ]
    assert found.intervals["mrr_at_10"] == pytest.approx(wilson((1 / 2 + 1 / 3 + 1) / 3, 3))  # there are few queries
