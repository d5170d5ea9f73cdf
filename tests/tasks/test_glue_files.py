"""Reading the files of GLUE, XNLI and SWAG as distributed."""

import collections
import re

import pytest

from bert_keras.tasks.benchmarks.glue import GLUE_TASKS, find_task
from bert_keras.tasks.benchmarks.glue_files import read_glue, read_glue_file
from bert_keras.tasks.classification.labels import LABELS
from bert_keras.tasks.tables.examples import Example


@pytest.fixture
def write(tmp_path):
    def write(name, *rows, separator="\t", end="\n"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes("".join(separator.join(row) + end for row in rows).encode("utf-8"))
        return file

    return write


def read(name, folder, split, **options):
    """Reads the examples of a split, and checks their labels."""
    task = find_task(name)
    examples = read_glue(task, folder, split, **options)
    LABELS[task.kind](task.labels).check(examples)
    return examples


@pytest.mark.parametrize(
    ("name", "folder", "numbers"),
    [
        ("cola", "CoLA", {"train": 8551, "dev": 1043, "test": 1063}),
        ("sst-2", "SST-2", {"train": 67349, "dev": 872, "test": 1821}),
        # The copy lacks one of the 3,668 rows of MRPC's training file.
        ("mrpc", "MRPC", {"train": 3667, "dev": 408, "test": 1725}),
        ("sts-b", "STS-B", {"train": 5749, "dev": 1500, "test": 1379}),
        ("qnli", "QNLI", {"dev": 5463, "test": 5463}),
        ("rte", "RTE", {"train": 2490, "dev": 277, "test": 3000}),
        ("wnli", "WNLI", {"train": 635, "dev": 71, "test": 146}),
        ("ax", "diagnostic", {"test": 1104}),
    ],
)
def test_the_distributed_files_are_read_whole(shared_dir, name, folder, numbers):
    path = shared_dir(f"data/glue/{folder}")
    for split, number in numbers.items():
        examples = read(name, path, split)
        assert len(examples) == number
        assert {example.label is None for example in examples} == {split == "test"}
        assert {example.text_b is None for example in examples} == {name in ("cola", "sst-2")}
        assert [example.id for example in examples] == [str(index) for index in range(number)]
        assert all(example.text_a.strip() for example in examples)


def test_the_labels_of_the_distributed_files(shared_dir):
    folder = shared_dir("data/glue")
    counts = collections.Counter(example.label for example in read("mrpc", folder / "MRPC", "dev"))
    assert counts == {"1": 279, "0": 129}
    counts = collections.Counter(example.label for example in read("rte", folder / "RTE", "dev"))
    assert counts == {"entailment": 146, "not_entailment": 131}
    scores = [example.label for example in read("sts-b", folder / "STS-B", "dev")]
    assert (min(scores), max(scores), scores[:2]) == (0.0, 5.0, [5.0, 4.75])


def test_cola_has_a_header_in_its_test_file_only(write, tmp_path):
    write("dev.tsv", ("src", "0", "*", 'He "said.'), ("src", "1", "", "She said."))
    write("test.tsv", ("index", "sentence"), ("7", "They said."))
    assert read("cola", tmp_path, "dev") == [
        Example("0", 'He "said.', None, "0", (), "dev.tsv line 1"),
        Example("1", "She said.", None, "1", (), "dev.tsv line 2"),
    ]
    assert read("cola", tmp_path, "test") == [Example("7", "They said.", None, None, (), "test.tsv line 2")]


QQP = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")


def test_qqp(write, tmp_path):
    write("train.tsv", QQP, ("133273", "1", "2", 'What is "A"?', "", "0"))
    write("test.tsv", ("id", "question1", "question2"), ("0", "Who?", "Whom?"))
    assert read("qqp", tmp_path, "train") == [Example("133273", 'What is "A"?', "", "0", (), "train.tsv line 2")]
    assert read("qqp", tmp_path, "test") == [Example("0", "Who?", "Whom?", None, (), "test.tsv line 2")]


def test_broken_rows_are_errors_or_left_out(write, tmp_path, messages):
    rows = [("1", "2", "3", "a", "b", "1"), ("4", "5", "6", "a"), ("b", "0"), ("7", "8", "9", "c", "d", "0")]
    write("train.tsv", QQP, *rows)
    with pytest.raises(ValueError, match=r"train.tsv line 3: 4 of at least 6 cells; restore the row"):
        read("qqp", tmp_path, "train")
    examples = read("qqp", tmp_path, "train", skip_bad_rows=True)
    assert [(example.id, example.source) for example in examples] == [
        ("1", "train.tsv line 2"),
        ("7", "train.tsv line 5"),
    ]
    assert messages == [
        "train.tsv: 2 bad rows are left out; the first: train.tsv line 3: 4 of at least 6 cells; restore the row"
    ]


@pytest.mark.parametrize(("name", "kind"), [("mnli", "matched"), ("mnli-mm", "mismatched")])
def test_mnli_has_its_label_in_the_last_column(write, tmp_path, name, kind):
    columns = ["index", "promptID", "pairID", "genre", "parse1", "parse2", "parse3", "parse4", "sentence1", "sentence2"]
    row = ["31", *"bcdefgh", "One.", "Two."]
    write("train.tsv", [*columns, "label1", "gold_label"], [*row, "neutral", "entailment"])
    votes = [f"label{number}" for number in range(1, 6)]
    write(f"dev_{kind}.tsv", [*columns, *votes, "gold_label"], [*row, *["neutral"] * 5, "contradiction"])
    write(f"test_{kind}.tsv", columns, row)
    assert read(name, tmp_path, "train") == [Example("31", "One.", "Two.", "entailment", (), "train.tsv line 2")]
    assert read(name, tmp_path, "dev") == [Example("31", "One.", "Two.", "contradiction", (), f"dev_{kind}.tsv line 2")]
    assert read(name, tmp_path, "test") == [Example("31", "One.", "Two.", None, (), f"test_{kind}.tsv line 2")]


def test_xnli_reads_one_language(write, tmp_path, messages):
    write("multinli/multinli.train.de.tsv", ("premise", "hypo", "label"), ("Eins.", "Zwei.", "contradictory"))
    header = ("language", "gold_label", *"abcd", "sentence1", "sentence2", "promptID")
    rows = [(language, "neutral", *"abcd", f"{language} 1", f"{language} 2", "1") for language in ("ar", "de", "zh")]
    write("xnli.dev.tsv", header, *rows)
    write("xnli.test.tsv", header, *rows)
    assert read("xnli", tmp_path, "train", xnli_language="de") == [
        Example("0", "Eins.", "Zwei.", "contradiction", (), "multinli.train.de.tsv line 2")
    ]
    assert read("xnli", tmp_path, "dev", xnli_language="de") == [
        Example("0", "de 1", "de 2", "neutral", (), "xnli.dev.tsv line 3")
    ]
    assert read("xnli", tmp_path, "test") == [Example("0", "zh 1", "zh 2", "neutral", (), "xnli.test.tsv line 4")]
    assert messages == [
        "xnli.dev.tsv: 1 of 3 rows are of the language de",
        "xnli.test.tsv: 1 of 3 rows are of the language zh",
    ]
    with pytest.raises(ValueError, match='xnli.dev.tsv has no rows of the language "fr"; it has ar, de, zh'):
        read("xnli", tmp_path, "dev", xnli_language="fr")


def test_swag_has_four_endings_to_choose_from(write, tmp_path):
    columns = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source"]
    columns += [f"ending{number}" for number in range(4)]
    row = ["0", "v_1", "39", '"She sits. She"', '"She sits, ""well""."', "She", "gold", "a.", "b.", '"c, c."', "d."]
    write("val.csv", [*columns, "label"], [*row, "2"], separator=",")
    write("test.csv", columns, row, separator=",")
    choices = ("She a.", "She b.", "She c, c.", "She d.")
    assert read("swag", tmp_path, "dev") == [Example("0", 'She sits, "well".', None, "2", choices, "val.csv line 2")]
    assert read("swag", tmp_path, "test") == [Example("0", 'She sits, "well".', None, None, choices, "test.csv line 2")]


def test_a_file_may_have_another_name(write):
    file = write("gold.tsv", ("index", "sentence1", "sentence2", "label"), ("0", "a", "b", "entailment"))
    [example] = read_glue_file(find_task("RTE"), file, "dev")
    assert example == Example("0", "a", "b", "entailment", (), "gold.tsv line 2")


RTE = ("index", "sentence1", "sentence2", "label")
STS_B = ("index", "sentence1", "sentence2", "score")


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("cola", [("sentence", "label")], "dev.tsv line 1: 2 cells, but this file has at least 4; give the file"),
        ("rte", [("sentence1", "label")], 'dev.tsv line 1: no column "sentence2" among sentence1, label; give the'),
        ("mrpc", [("1", "5", "6", "a", "b")], "dev.tsv line 1: this is an example, but the first line of this file of"),
        ("rte", [RTE], "dev.tsv has no example; give a file with"),
        ("ax", [], "the task ax has no dev file, only test; leave this step out"),
        ("rte", [RTE, ("0", "a", "b", "yes")], 'dev.tsv line 2: label "yes" is not one of entailment, not_entailment'),
        ("sts-b", [STS_B, ("0", "a", "b", "high")], 'line 2: the label "high" is not a finite number; correct it'),
    ],
)
def test_files_of_another_form(write, tmp_path, name, rows, message):
    write("dev.tsv", *rows)
    with pytest.raises(ValueError, match=re.escape(message)):
        read(name, tmp_path, "dev")


def test_a_folder_without_the_file(tmp_path):
    message = "the task qnli needs the files train.tsv, dev.tsv, test.tsv, named as distributed, in the data folder"
    with pytest.raises(FileNotFoundError, match=message):
        read("qnli", tmp_path, "dev")


def test_tasks_are_found_by_name_and_alias():
    assert find_task("MNLI").name == "mnli"
    assert find_task("SST2") is GLUE_TASKS["sst-2"]
    assert find_task("stsb").name == "sts-b"
    assert find_task("diagnostic").name == "ax"
    with pytest.raises(ValueError, match=r'"mprc" is not a task; the tasks are cola, .* swag \(for other data'):
        find_task("mprc")


def test_the_metrics_for_choosing_between_runs():
    others = {"cola": "matthews", "ax": "matthews", "sts-b": "spearman", "mrpc": "f1", "qqp": "f1"}
    for name, task in GLUE_TASKS.items():
        assert task.metrics[0] == others.get(task.name, "accuracy"), name
    kinds = {"sts-b": "regression", "swag": "multiple_choice"}
    assert all(task.kind == kinds.get(task.name, "single_label") for task in GLUE_TASKS.values())
    assert GLUE_TASKS["xnli"].labels == ("contradiction", "entailment", "neutral")


@pytest.mark.parametrize(
    ("task", "names", "labels"),
    [
        ("mrpc", ["equivalent", "not_equivalent", "1.0", "label_0"], ["1", "0", "1", "0"]),
        ("qqp", ["duplicate", "Not_Duplicate"], ["1", "0"]),
        ("sst-2", ["POSITIVE", "negative", "LABEL_1"], ["1", "0", "1"]),
        ("cola", ["acceptable", "unacceptable"], ["1", "0"]),
        ("rte", ["0", "1", "Entailment"], ["entailment", "not_entailment", "entailment"]),
        ("qnli", ["1", "LABEL_0"], ["not_entailment", "entailment"]),
        ("wnli", ["entailment", "not_entailment"], ["1", "0"]),
        ("mnli", ["ENTAILMENT", "0", "label_2", "contradictory"], ["entailment", None, None, None]),
        ("xnli", ["contradictory", "1"], ["contradiction", None]),
        ("mrpc", ["yes", "2", "", "nan"], [None] * 4),
    ],
)
def test_labels_have_the_names_of_other_libraries(task, names, labels):
    assert list(map(GLUE_TASKS[task].label_named, names)) == labels


@pytest.mark.parametrize(
    ("task", "header", "row", "number"),
    [
        ("sst-2", ("sentence", "label"), ("a b", "1"), 3),
        ("mrpc", ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"), ("1", "2", "3", "a", "b"), 5),
        ("sts-b", ("index", "sentence1", "sentence2", "score"), ("0", "a", "b", "2.5"), 2),
    ],
)
def test_a_header_that_is_repeated_is_an_error_with_its_line(write, task, header, row, number):
    rows = [row] * 6
    rows[number - 2] = header
    file = write("dev.tsv", header, *rows)
    with pytest.raises(ValueError, match=f"^dev.tsv line {number}: the row names the columns again, as in jo"):
        read_glue_file(GLUE_TASKS[task], file, "dev")
    assert len(read_glue_file(GLUE_TASKS[task], file, "dev", skip_bad_rows=True)) == 5
