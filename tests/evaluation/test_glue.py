"""GLUE submission files."""

import io
import math
import zipfile

import numpy as np
import pytest

from bert_keras.data_prep.tasks.glue import GLUE_TASKS
from bert_keras.evaluation.classification import CLASSIFICATION_METRICS, REGRESSION_METRICS
from bert_keras.evaluation.glue import SUBMISSION_FILES, submission_text, submission_zip

# The metric that the site uses for a task.
OFFICIAL_FIGURES = {
    "cola": {"matthews"},
    "sst-2": {"accuracy"},
    "mrpc": {"f1", "accuracy"},
    "sts-b": {"pearson", "spearman"},
    "qqp": {"f1", "accuracy"},
    "mnli": {"accuracy"},
    "mnli-mm": {"accuracy"},
    "qnli": {"accuracy"},
    "rte": {"accuracy"},
    "wnli": {"accuracy"},
    "ax": {"matthews"},
}


def test_the_tasks_and_their_files():
    assert list(SUBMISSION_FILES.values()) == (
        ["CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv"]
        + ["RTE.tsv", "WNLI.tsv", "AX.tsv"]
    )
    assert set(SUBMISSION_FILES) == set(OFFICIAL_FIGURES)


@pytest.mark.parametrize("name", OFFICIAL_FIGURES)
def test_the_table_of_tasks_has_the_official_figures(name):
    task = GLUE_TASKS[name]
    assert OFFICIAL_FIGURES[name] <= set(task.metrics)
    assert set(task.metrics) <= {*CLASSIFICATION_METRICS, *REGRESSION_METRICS}
    # The label names of the table are those that the site expects.
    predictions = [0.5] if name == "sts-b" else range(len(task.labels))
    rows = submission_text(name, predictions, task.labels or None).splitlines()[1:]
    assert [row.split("\t")[1] for row in rows] == (["0.500"] if name == "sts-b" else list(task.labels))


def test_classes_are_written_by_name():
    assert submission_text("rte", np.array([1, 0]), ["entailment", "not_entailment"]) == (
        "index\tprediction\n0\tnot_entailment\n1\tentailment\n"
    )
    # The ids have the model's order.
    assert submission_text("mrpc", [1, 0], ["1", "0"]) == "index\tprediction\n0\t0\n1\t1\n"
    assert submission_text("ax", [2], ["neutral", "entailment", "contradiction"]).endswith("\n0\tcontradiction\n")


def test_numbers_are_cut_to_the_scale():
    text = submission_text("sts-b", np.array([-0.2, 5.04, 2.34567, 4]))
    assert text == "index\tprediction\n0\t0.000\n1\t5.000\n2\t2.346\n3\t4.000\n"


def test_a_file_that_the_site_will_refuse_is_said(messages):
    submission_text("wnli", [0] * 146, ["0", "1"])
    assert messages == []
    submission_text("wnli", [0] * 71, ["0", "1"])
    assert messages == [
        "WNLI.tsv has 71 predictions, but the test.tsv of the task has 146 examples: GLUE's site will reject it"
    ]


@pytest.mark.parametrize("name", ["CoLA", "SST-2", "MRPC", "STS-B", "QNLI", "RTE", "WNLI", "diagnostic"])
def test_the_numbers_of_examples_are_those_of_the_files(shared_dir, messages, name):
    folder = shared_dir(f"data/glue/{name}")
    file = folder / ("diagnostic.tsv" if name == "diagnostic" else "test.tsv")
    num_examples = len(file.read_text(encoding="utf-8").rstrip("\n").split("\n")) - 1
    task = GLUE_TASKS[name.lower()]
    submission_text(task.name, [0] * num_examples, task.labels)
    assert messages == []


@pytest.mark.parametrize(
    ("task", "predictions", "labels", "sentence"),
    [
        ("imdb", [0], ["0", "1"], '^"imdb" is not a GLUE task; give one of cola, sst-2, mrpc, '),
        (
            "rte",
            [0],
            ["0", "1"],
            "^the labels of rte are entailment, not_entailment, but 0, 1 were given; a submission",
        ),
        ("mrpc", [0], None, "^the labels of mrpc are 0, 1, but none were given"),
        ("sts-b", [1, math.nan], None, "^prediction 2 of 2 is nan; a file for GLUE's site needs numbers$"),
    ],
)
def test_what_is_no_submission(task, predictions, labels, sentence):
    with pytest.raises(ValueError, match=sentence):
        submission_text(task, predictions, labels)


def test_the_zip(messages):
    texts = {"RTE.tsv": "index\tprediction\n0\tentailment\n", "CoLA.tsv": "index\tprediction\n"}
    content = submission_zip(texts)
    assert content == submission_zip(dict(reversed(texts.items())))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {name: archive.read(name).decode() for name in archive.namelist()} == texts
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o644}
    assert messages[0] == (
        "the submission lacks SST-2.tsv, MRPC.tsv, STS-B.tsv, QQP.tsv, MNLI-m.tsv, MNLI-mm.tsv, QNLI.tsv, WNLI.tsv, "
        "AX.tsv; GLUE's site needs all 11 files"
    )


def test_a_whole_zip_lacks_nothing(messages):
    submission_zip(dict.fromkeys(SUBMISSION_FILES.values(), "index\tprediction\n"))
    assert messages == []


def test_other_names_are_no_part_of_a_submission():
    with pytest.raises(ValueError, match="^MNLI.tsv is not a submission file; give some of CoLA.tsv, SST-2.tsv"):
        submission_zip({"MNLI.tsv": "", "RTE.tsv": ""})
