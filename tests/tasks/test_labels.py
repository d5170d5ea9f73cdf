"""Labels of tables: lists in cells, columns of 0 and 1, whole numbers, and labels that mean none."""

import json
import logging
import re

import pytest

from bert_keras.tasks.tables.columns import NO_COLUMNS, Columns
from bert_keras.tasks.tables.examples import learn_labels
from bert_keras.tasks.tables.labels import read_list
from bert_keras.tasks.tables.tables import Table
from bert_keras.tasks.tables.user_data import read_own_file
from bert_keras.tasks.vectors.data import read_file


@pytest.fixture
def labels_of(write):
    """Return a function that writes a table with labels in its cells and returns the labels that are read."""

    def labels_of(cells, kind="single_label", name="own.csv", **columns):
        lines = ["text,labels", *(f'a b,"{str(cell).replace(chr(34), 2 * chr(34))}"' for cell in cells)]
        if name.endswith("jsonl"):
            lines = [json.dumps({"text": "a b", "labels": cell}) for cell in cells]
        file = write(name, "\n".join(lines) + "\n")
        return [example.label for example in read_own_file(Table(file), Columns(**columns), kind, needs_label=True)]

    return labels_of


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("['a', 'b']", ["a", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ("('a', 'b')", ["a", "b"]),
        ("{'b', 'a'}", ["a", "b"]),
        ("['a' 'b']", ["a", "b"]),
        ("['it\\'s' \"b\"\n 'c']", ["it's", "b", "c"]),
        ("array(['a', 'b'], dtype=object)", ["a", "b"]),
        ("array(['a (1)]', \"b')\"], dtype=object)", ["a (1)]", "b')"]),
        (" [] ", []),
        ("[1 0 1]", [1, 0, 1]),
        ("[1. 2.]", [1.0, 2.0]),
        ("[\"x 'a' 'b' y\"]", ["x 'a' 'b' y"]),
        ("['a' 'b', 'c']", None),
        ("[a, b]", None),
        ("[UNK]", None),
        ("(1)", None),
        ("{}", None),
        ("[a", None),
    ],
)
def test_lists_of_python_json_and_numpy_are_read(text, items):
    assert read_list(text) == items


@pytest.mark.parametrize("separator", [None, ","])
@pytest.mark.parametrize(
    "cells",
    [
        ("['a', 'b']", "['b']", "[]", "['c']"),
        ('["a", "b"]', '["b"]', "[]", '["c"]'),
        ("('a', 'b')", "('b',)", "()", "('c',)"),
        ("['a' 'b']", "['b']", "", "['c']"),
    ],
)
def test_lists_in_cells_are_several_labels(labels_of, cells, separator):
    assert labels_of(cells, "multi_label", label_separator=separator) == [("a", "b"), ("b",), (), ("c",)]


@pytest.mark.parametrize(
    ("cells", "kind", "problem"),
    [
        (["['a']", "['b']"], "single_label", "line 2: the label is the list ['a'], but one label is needed; lists are"),
        (["x", "('a', 'b')"], "single_label", "line 3: the label is the list ('a', 'b'), but one"),
        (["['a']", "b"], "multi_label", "line 3: the labels b are not a list, but those of line 2, ['a'], are a list"),
        (["a", "['b']"], "multi_label", "line 3: the labels ['b'] are a list, but those of line 2, a, are not a list"),
        (["[a, b]"], "multi_label", "the labels [a, b] look like a list, but it cannot be read; write a JSON list"),
        (["['a' 'b', 'c']"], "multi_label", "look like a list, but it cannot be read"),
        (["{a,b}"], "multi_label", "look like a list, but it cannot be read"),
        (["['a', None]"], "multi_label", "include an empty label; remove it"),
        (["['a', ['b']]"], "multi_label", "is ['b'], but a name or a number is needed"),
        (["[1, 0, 1]"], "multi_label", "the labels [1, 0, 1] are 0 and 1 for labels without names; give the labels a"),
        (["[0. 1. 0.]"], "multi_label", "are 0 and 1 for labels without names"),
        (["[True, False]"], "multi_label", "are 0 and 1 for labels without names"),
        (["[1, 0]"], "multi_label", "are 0 and 1 for labels without names"),
        (["1,0,0"], "multi_label", "are 0 and 1 for labels without names"),
    ],
)
def test_cells_that_may_mean_something_else_are_refused(labels_of, cells, kind, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        labels_of(cells, kind, label_separator="," if kind == "multi_label" else None)


def test_a_name_in_brackets_is_no_list(labels_of):
    assert labels_of(["[UNK]", "b"]) == ["[UNK]", "b"]
    assert labels_of(["[UNK]", "a|[b]"], "multi_label", label_separator="|") == [("[UNK]",), ("a", "[b]")]
    assert labels_of(["[0, 1]", "[2]"], "multi_label") == [("0", "1"), ("2",)]


@pytest.mark.parametrize("cells", [["pos", ["neg"]], [["a"]]])
def test_lists_of_json_are_for_several_labels(labels_of, cells):
    with pytest.raises(ValueError, match=r"the label is the list .*; lists are for kind=multi_label"):
        labels_of(cells, name="own.jsonl")
    assert labels_of([["a", "b"], [], "c"], "multi_label", "own.jsonl") == [("a", "b"), (), ("c",)]
    with pytest.raises(ValueError, match=re.escape("the labels [0, 1, 0] are 0 and 1 for labels without names")):
        labels_of([[0, 1, 0]], "multi_label", "own.jsonl")


FLAGS = "toxic,severe toxic,threat"


@pytest.mark.parametrize(
    ("name", "content", "label"),
    [
        ("own.csv", "text,toxic,severe toxic,threat\na,1,0,1\nb,0,0,0\nc,1.0,True,0\n", FLAGS),
        ("own.tsv", "toxic\tsevere toxic\tthreat\ttext\n1\t0\t1\ta\n0\t0\t0\tb\n1\t1\tfalse\tc\n", FLAGS),
        ("own.csv", "text,toxic,severe toxic,threat\na,1,0,1\nb,0,0,0\nc,1,1,0\n", "1, 2,3"),
        (
            "own.jsonl",
            "".join(
                json.dumps({"text": "a", "toxic": a, "severe toxic": b, "threat": c}) + "\n"
                for a, b, c in ((1, 0, True), (0.0, 0, False), (1, "1", 0))
            ),
            FLAGS,
        ),
    ],
)
def test_columns_of_0_and_1_are_labels(write, name, content, label):
    columns = Columns("text" if "," in label and "1" not in label else "0", label=label)
    examples = read_own_file(Table(write(name, content)), columns, "multi_label", needs_label=True)
    assert [example.label for example in examples] == [("toxic", "threat"), (), ("toxic", "severe toxic")]


def test_without_a_header_columns_of_labels_are_named_by_their_numbers(write):
    file = write("own.csv", "good film,1,0\nbad film,0,1\n")
    examples = read_own_file(Table(file), Columns("0", label="1,2"), "multi_label", needs_label=True)
    assert [example.label for example in examples] == [("1",), ("2",)]


@pytest.mark.parametrize(
    ("content", "columns", "kind", "problem"),
    [
        ("text,a,b\nx,1,0\ny,2,0\n", Columns("text", label="a,b"), "multi_label", 'line 3: the column "a" is "2", but'),
        ("text,a,b\nx,1,0\ny,1,-1\n", Columns("text", label="a,b"), "multi_label", 'the column "b" is "-1", but colum'),
        ("text,a,b\nx,1,\n", Columns("text", label="a,b"), "multi_label", 'line 2: the column "b" is empty, but colum'),
        ("text,a,b\nx,1,0\n", Columns("text", label="a,c"), "multi_label", 'no column is named "c"'),
        ("text,a,b\nx,1,0\n", Columns("text", label="a,b"), "single_label", "which need kind=multi_label"),
        ("text,a,b\nx,1,0\n", Columns("text", label="text,b"), "multi_label", 'the column "text" is both the text and'),
        (
            "text,a,b\nx,1,0\n",
            Columns("text", label="a,b", label_separator=","),
            "multi_label",
            "label_separator is for the labels in a cell, but label_column=a,b are columns of 0 and 1",
        ),
        ("id,text,a\nx,y,0\n", Columns("text", label="a", id="id,a"), "single_label", '"id,a" (ids are in one column)'),
        ("id,text,a\nx,y,0\n", Columns("text", label="a", id="Id"), "single_label", 'named "Id", did you mean "id"?'),
        (
            "id,text,a\nx,y,0\n",
            Columns("text,txt", label="a"),
            "single_label",
            'no column is named "txt", did you mean',
        ),
    ],
)
def test_mistakes_in_columns_of_labels(write, content, columns, kind, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        read_own_file(Table(write("own.csv", content)), columns, kind, needs_label=True)


@pytest.mark.parametrize(
    ("cells", "name", "expected"),
    [
        (["1", "1.0", "2", "2.0", "1."], "own.csv", ["1", "1", "2", "2", "1"]),
        ([1, 1.0, 2.0, "2", "2.0"], "own.jsonl", ["1", "1", "2", "2", "2"]),
        (["1.0", "1.5", "-0.0", "-3.00"], "own.csv", ["1", "1.5", "0", "-3"]),
        (["01", "02", "1.10"], "own.csv", ["01", "02", "1.10"]),
        ([True, False, "True"], "own.jsonl", ["True", "False", "True"]),
    ],
)
def test_whole_numbers_and_booleans_are_the_same_label_everywhere(labels_of, cells, name, expected):
    assert labels_of(cells, name=name) == expected


@pytest.mark.parametrize("cells", [["01", "1"], ["1.5", "1.50"], ["+1", "1"], ["1e1", "10"]])
def test_labels_of_the_same_value_are_warned_of(write, messages, cells):
    file = write("own.csv", "text,label\n" + "".join(f"a b,{cell}\n" for cell in cells))
    examples = read_own_file(Table(file), NO_COLUMNS, needs_label=True)
    assert len(learn_labels(examples)) == 2
    assert messages[-1].startswith(f'these are different labels: "{cells[0]}" (own.csv line 2), "{cells[1]}"')


INFERENCES = ["entailment", "neutral", "contradiction"]


@pytest.mark.parametrize(
    ("labels", "num_left"),
    [
        ([*INFERENCES, "-", "-"], 3),
        (["entailment", "-1"], 1),
        (["0", "1", "2", "-1"], 3),
        (["-1", "0", "1"], 3),  # sentiment
        (["+", "-"], 2),
    ],
)
def test_a_label_that_means_none_is_left_out_of_inferences(write, messages, labels, num_left):
    rows = "".join(f"a man {number},a dog,{label}\n" for number, label in enumerate(labels))
    examples = read_own_file(Table(write("own.csv", f"premise,hypothesis,label\n{rows}")), NO_COLUMNS, needs_label=True)
    assert len(examples) == num_left
    is_told = f"own.csv: {len(labels) - num_left} inferences whose label is" in messages[-1]
    assert is_told == (num_left < len(labels))


def test_vectors_leave_out_the_same_inferences(write, messages):
    labels = [*INFERENCES, "-"]
    rows = "".join(f"a man {number},a dog {number},{label}\n" for number, label in enumerate(labels))
    found = read_file(Table(write("own.csv", f"premise,hypothesis,gold_label\n{rows}")))
    assert found.rows == [("a man 0", "a dog 0")]
    assert any("1 inferences whose label is" in message for message in messages)


@pytest.mark.parametrize(
    ("texts", "warning"),
    [
        (["b'great film'", 'b"it\'s bad"'], "is bytes as Python shows them, such as"),
        (["['great', 'film']", "['bad']"], "is a list, such as"),
        (["{'a': 1}", '{"b": 2}'], "is an object, such as"),
        (["tf.Tensor(b'x', shape=())", "tf.Tensor(b'y', shape=())"], "is an array or a tensor as Python shows it"),
        (["17", "18.5"], "is a number, such as"),
        (["nan", "good film", "nan"], 'that programs write for a missing value: "nan" (2)'),
        (["None", "good film", "<NA>"], 'a missing value: "None" (1), "<NA>" (1)'),
        (["b'great film'", "bad film"], None),
        (["[sic] good", "[1] bad"], None),
    ],
)
def test_texts_that_are_probably_not_meant_are_warned_of(write, caplog, texts, warning):
    file = write("own.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in texts))
    with caplog.at_level(logging.WARNING, "bert_keras"):
        assert len(read_own_file(Table(file), NO_COLUMNS)) == len(texts)
    assert [warning in record.getMessage() for record in caplog.records] == ([True] if warning else [])


def test_labels_that_others_found(shared_dir):
    folder = shared_dir("data/awkward/third")
    for name, columns, kind, labels in (
        ("labels_python_lists.csv", Columns(label_separator=","), "multi_label", [("a", "b"), ("b",), (), ("c",)]),
        ("labels_json_lists.csv", Columns(label_separator=","), "multi_label", [("x", "y"), ("y",), ()]),
        ("labels_1_and_1.0.csv", NO_COLUMNS, "single_label", ["1", "1", "2", "2", "01"]),
        (
            "labels_one_hot_columns.csv",
            Columns("comment_text", label="toxic,severe_toxic,obscene"),
            "multi_label",
            [("toxic", "obscene"), (), ("toxic", "severe_toxic")],
        ),
    ):
        examples = read_own_file(Table(folder / name), columns, kind, needs_label=True)
        assert [example.label for example in examples] == labels
    for name, kind in (("labels_one_hot_cells.csv", "multi_label"), ("label_single_list.csv", "single_label")):
        with pytest.raises(ValueError, match=f"^{name} line 2: the label"):
            read_own_file(Table(folder / name), NO_COLUMNS, kind, needs_label=True)
    assert len(read_own_file(Table(folder / "snli_dash.csv"), NO_COLUMNS, needs_label=True)) == 9
