"""GLUE submission files."""

import io
import math
import zipfile

import numpy as np
import pytest

from bert_keras.evaluation.classification import CLASSIFICATION_METRICS
from bert_keras.tasks.benchmarks.glue import GLUE_TASKS
from bert_keras.tasks.benchmarks.submission import SUBMISSION_FILES, submission_text, submission_zip

# The metrics that the site uses for a task.
OFFICIAL_METRICS = {
    "cola": {"matthews"},
    "sts-b": {"pearson", "spearman"},
    "ax": {"matthews"},
    **dict.fromkeys(("sst-2", "mnli", "mnli-mm", "qnli", "rte", "wnli"), {"accuracy"}),
    **dict.fromkeys(("mrpc", "qqp"), {"f1", "accuracy"}),
}


def test_the_names_of_the_files():
    names = "CoLA SST-2 MRPC STS-B QQP MNLI-m MNLI-mm QNLI RTE WNLI AX"
    assert list(SUBMISSION_FILES.values()) == [f"{name}.tsv" for name in names.split()]
    assert set(SUBMISSION_FILES) == set(OFFICIAL_METRICS)


@pytest.mark.parametrize("name", OFFICIAL_METRICS)
def test_tasks_have_the_metrics_and_labels_of_the_site(name):
    task = GLUE_TASKS[name]
    assert OFFICIAL_METRICS[name] <= set(task.metrics) <= {*CLASSIFICATION_METRICS, "pearson", "spearman"}
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


def test_numbers_are_clipped():
    text = submission_text("sts-b", np.array([-0.2, 5.04, 2.34567, 4]))
    assert text == "index\tprediction\n0\t0.000\n1\t5.000\n2\t2.346\n3\t4.000\n"


def test_a_wrong_number_of_predictions_is_logged(messages):
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
    ("task", "predictions", "labels", "message"),
    [
        ("imdb", [0], ["0", "1"], '^"imdb" is not a GLUE task; give one of cola, sst-2, mrpc, '),
        ("rte", [0], ["0", "1"], "^the labels of rte are entailment, not_entailment, but 0, 1 were given; a subm"),
        ("mrpc", [0], None, "^the labels of mrpc are 0, 1, but none were given"),
        ("sts-b", [1, math.nan], None, "^prediction 2 of 2 is nan; a file for GLUE's site needs numbers$"),
    ],
)
def test_mistakes(task, predictions, labels, message):
    with pytest.raises(ValueError, match=message):
        submission_text(task, predictions, labels)
    with pytest.raises(ValueError, match="^MNLI.tsv is not a submission file; give some of CoLA.tsv, SST-2.tsv"):
        submission_zip({"MNLI.tsv": "", "RTE.tsv": ""})


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
    messages.clear()
    submission_zip(dict.fromkeys(SUBMISSION_FILES.values(), "index\tprediction\n"))
    assert messages == []
