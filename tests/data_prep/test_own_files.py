"""A user's own files: columns, examples, and rejected input."""

import re

import pytest

from bert_keras.data_prep.tasks.classification import Columns, Example, find_columns, iterate_own_file, read_own_file


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return file

    return write


TEXT_AND_LABEL = Columns("text", label="label")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("own.csv", b'\xef\xbb\xbflabel,text,other\n 1 ,"a, b",x\n\n0,c,y\n'),
        ("own.tsv", "label\ttext\n1\ta, b\n\n0\tc\n"),
        ("own.txt", "label\t text \r\n1\ta, b\r\n\r\n0\tc\r\n"),
        ("own.jsonl", '{"text": "a, b", "label": 1}\n\n{"label": "0", "text": "c"}\n'),
        ("own.json", '{"text": "a, b", "label": 1}\n\n{"label": 0, "text": "c", "more": null}\n'),
    ],
)
def test_every_format_gives_the_same_examples(write, name, content):
    assert read_own_file(write(name, content), TEXT_AND_LABEL, "single_label", needs_label=True) == [
        Example("0", "a, b", None, "1", (), f"{name} line 2" if "json" not in name else f"{name} line 1"),
        Example("1", "c", None, "0", (), f"{name} line 4" if "json" not in name else f"{name} line 3"),
    ]


def test_pairs_ids_and_numbers_to_learn(write):
    file = write("own.csv", "key,a,b,score\nx,one,two,2.5\ny,three,,-1e1\n")
    assert read_own_file(file, Columns("a", "b", "score", "key"), "regression", needs_label=True) == [
        Example("x", "one", "two", 2.5, (), "own.csv line 2"),
        Example("y", "three", "", -10.0, (), "own.csv line 3"),
    ]


def test_several_labels_in_a_cell(write):
    columns = Columns("text", label="labels", label_separator="|")
    file = write("own.csv", "text,labels\na,red| blue\nb,\nc,red|red\n")
    examples = read_own_file(file, columns, "multi_label", needs_label=True)
    assert [example.label for example in examples] == [("red", "blue"), (), ("red",)]
    file = write("own.jsonl", '{"text": "a", "labels": ["red", 3]}\n{"text": "b", "labels": []}\n')
    examples = read_own_file(file, columns, "multi_label", needs_label=True)
    assert [example.label for example in examples] == [("red", "3"), ()]


def test_choices(write):
    file = write("own.csv", "text,first,second,label\na,b,c,1\n")
    columns = Columns("text", label="label", choices=("first", "second"))
    assert read_own_file(file, columns, "multiple_choice", needs_label=True) == [
        Example("0", "a", None, "1", ("b", "c"), "own.csv line 2")
    ]


def test_labels_may_be_absent_where_they_are_not_needed(write):
    for content in ("text\na\nb\n", "text,label\na,\nb,\n"):
        examples = read_own_file(write("own.csv", content), TEXT_AND_LABEL, "single_label", needs_label=False)
        assert [(example.text_a, example.label) for example in examples] == [("a", None), ("b", None)]
    examples = read_own_file(write("own.csv", "text,label\na,x\n"), TEXT_AND_LABEL, "single_label", needs_label=False)
    assert examples[0].label == "x"


@pytest.mark.parametrize(
    ("content", "columns", "texts", "message"),
    [
        (
            "1,a\n0,b\n",
            Columns("1", label="0"),
            ["a", "b"],
            "there is no header, the first row is 1, a (--has_header=true skips it)",
        ),
        (
            "1,a\n0,b\n",
            Columns("1"),
            ["a", "b"],
            "there is no header, the first row is 1, a (--has_header=true skips it)",
        ),
        ("0,1\n0,b\n", Columns("1", label="0"), ["b"], "the first row names them: 0, 1"),
        ("Label,Text\n0,b\n", Columns("1", label="0"), ["b"], "the first row names them: Label, Text"),
        ("label,b\n0,a\n", Columns("1", label="label"), ["a"], None),
    ],
)
def test_columns_may_be_counted(write, messages, content, columns, texts, message):
    examples = read_own_file(write("own.csv", content), columns, "single_label", needs_label=columns.label is not None)
    assert [example.text_a for example in examples] == texts
    assert messages == ([f"own.csv: columns are counted from 0; {message}"] if message else [])


@pytest.mark.parametrize(
    ("header", "columns", "taken"),
    [
        ("id,text,label", Columns("text", None, "label"), '"text" as the text, "label" as the label'),
        ("ArticleId,Text,Category", Columns("Text", None, "Category"), '"Text" as the text, "Category" as the label'),
        (
            "sentence1,sentence2,class",
            Columns("sentence1", "sentence2", "class"),
            '"sentence1" as the text, "sentence2" as the second text, "class" as the label',
        ),
        (
            "question,sentence,label",
            Columns("question", "sentence", "label"),
            '"question" as the text, "sentence" as the second text, "label" as the label',
        ),
    ],
)
def test_columns_are_found_by_their_usual_names(write, messages, header, columns, taken):
    file = write("own.csv", f"{header}\n1,2,3\n")
    assert find_columns(file) == columns
    assert messages == [f"{file}: columns {header.replace(',', ', ')}; using {taken}"]


def test_columns_that_are_given_are_kept(write, messages):
    file = write("own.csv", "review,text,stars,label\na,b,c,d\n")
    assert find_columns(file, text="review", label="stars") == Columns("review", None, "stars")
    assert messages == []
    assert find_columns(file, pair="text") == Columns("review", "text", "label")


def test_a_file_to_predict_for_needs_no_label(write):
    assert find_columns(write("own.csv", "text,label\na,?\n"), needs_label=False) == Columns("text")
    assert find_columns(write("own.txt", "anything\na\n"), needs_label=False) == Columns("anything")
    assert find_columns(write("own.jsonl", 'x\n{"text": "a", "n": 1}\n'), needs_label=False) == Columns("text")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("own.csv", "a,b\n1,2\n", "no column could be the text among a, b; name it with --text_column"),
        (
            "own.csv",
            "text,review,label\n1,2,3\n",
            "several columns could be the text among text, review, label; name it with --text_column",
        ),
        ("own.csv", "text,b\n1,2\n", "no column could be the label among text, b; name it with --label_column"),
        (
            "own.csv",
            "text,class,label\n1,2,3\n",
            "several columns could be the label among text, class, label; name it with --label_column",
        ),
        ("own.jsonl", "nothing\n", "own.jsonl line 1: not valid JSON"),
        ("own.csv", f"{'x' * 50},1\n", f"among {'x' * 40}..., 1; name it"),
    ],
)
def test_columns_that_cannot_be_found_are_named_with_the_flag(write, name, content, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        find_columns(write(name, content))


@pytest.mark.parametrize(
    ("name", "content", "columns", "kind", "sentence"),
    [
        ("own.csv", "text,label\n", TEXT_AND_LABEL, "single_label", "own.csv has a header and no rows; give a file"),
        ("own.csv", "a,b\n1,2\n", TEXT_AND_LABEL, "single_label", 'own.csv has no column "text"; its columns are a, b'),
        (
            "own.csv",
            "1,a\n",
            Columns("2", label="0"),
            "single_label",
            'own.csv has no column "2"; its columns are 1, a',
        ),
        (
            "own.jsonl",
            '{"a": 1}\n',
            Columns("0", label="a"),
            "single_label",
            'own.jsonl has no column "0"; its columns are a',
        ),
        ("own.csv", "text,text,label\na,b,c\n", TEXT_AND_LABEL, "single_label", 'has more than one column "text"'),
        (
            "own.csv",
            'text,label\n"a\nb",1\nc\n',
            TEXT_AND_LABEL,
            "single_label",
            "own.csv line 4: 1 cell, but the first row has 2; look for a missing separator, or one that needs quotes",
        ),
        (
            "own.tsv",
            "text\tlabel\na\tb\tc\n",
            TEXT_AND_LABEL,
            "single_label",
            "own.tsv line 2: 3 cells, but the first row has 2",
        ),
        ("own.csv", "text,label\n ,1\n", TEXT_AND_LABEL, "single_label", 'own.csv line 2: the column "text" is empty'),
        (
            "own.csv",
            "text,label\na,\n",
            TEXT_AND_LABEL,
            "single_label",
            'own.csv line 2: the column "label" is empty; every example needs a label here',
        ),
        (
            "own.jsonl",
            '{"text": "a", "label": 1}\n{"text": "b"}\n',
            TEXT_AND_LABEL,
            "single_label",
            'own.jsonl line 2: the column "label" is empty',
        ),
        (
            "own.jsonl",
            '{"text": 5, "label": 1}\n',
            TEXT_AND_LABEL,
            "single_label",
            'the column "text" is 5, but a text',
        ),
        (
            "own.jsonl",
            '{"text": "a", "label": [1]}\n',
            TEXT_AND_LABEL,
            "single_label",
            'own.jsonl line 1: the column "label" is [1], but a name or a number is needed',
        ),
        (
            "own.csv",
            "text,label\na,high\n",
            TEXT_AND_LABEL,
            "regression",
            'own.csv line 2: the label "high" is not a finite number, as regression needs',
        ),
        (
            "own.csv",
            "text,label\na,nan\n",
            TEXT_AND_LABEL,
            "regression",
            'own.csv line 2: the label "nan" is not a finite',
        ),
        (
            "own.csv",
            "text,label\na,red||blue\n",
            Columns("text", label="label", label_separator="|"),
            "multi_label",
            'own.csv line 2: the labels "red||blue" include an empty label; remove it',
        ),
        (
            "own.csv",
            "id,text,label\nx,a,1\ny,b,1\nx,c,1\n",
            Columns("text", label="label", id="id"),
            "single_label",
            'own.csv line 4: the id "x" is also in line 2; ids must be unique',
        ),
        ("own.csv", "text\na\n", Columns("text"), "single_label", "examples need labels here; name their column with"),
    ],
)
def test_what_cannot_be_an_example_is_refused_with_file_and_line(write, name, content, columns, kind, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_own_file(write(name, content), columns, kind, needs_label=True)


@pytest.mark.parametrize(
    ("content", "label", "reason"),
    [
        ("Text;Klasse\na;gut\nb;schlecht\nc;gut\nd;schlecht\n", "1", '"Klasse" is in no other row'),
        ("Beschreibung;Preis\na;1\nb;2.5\n", "1", '"Preis" is not a number, as all labels below it are'),
    ],
)
def test_a_header_in_another_language_is_seen_by_its_label(write, messages, content, label, reason):
    file, columns = write("own.csv", content), Columns("0", label=label)
    rows = content.splitlines()[1:]
    examples = read_own_file(file, columns, "single_label", needs_label=True)
    assert [example.text_a for example in examples] == [row[0] for row in rows]
    assert examples[0].source == "own.csv line 2"
    assert messages[-1].startswith(
        f"own.csv: columns are counted from 0; the first row is taken for the header, because {reason}"
    )
    assert messages[-1].endswith("(--has_header=false reads it as data)")
    examples = read_own_file(file, columns, "single_label", needs_label=True, has_header="false")
    assert len(examples) == 1 + len(rows)


def test_the_user_says_whether_there_is_a_header(write, messages):
    file = write("own.csv", "a,1\nb,0\n")
    columns = Columns("0", label="1")
    for has_header, texts in (("auto", ["a", "b"]), ("false", ["a", "b"]), ("true", ["b"])):
        examples = read_own_file(file, columns, "single_label", needs_label=True, has_header=has_header)
        assert [example.text_a for example in examples] == texts
    assert messages == [
        "own.csv: columns are counted from 0; there is no header, the first row is a, 1 (--has_header=true skips it)"
    ]
    with pytest.raises(ValueError, match="with --has_header=false columns have no names; give their numbers"):
        read_own_file(write("own.csv", "text,1\n"), Columns("text", label="1"), "single_label", True, False, "false")
    with pytest.raises(ValueError, match="own.jsonl is JSON lines, which have no header; give --has_header=auto"):
        read_own_file(write("own.jsonl", '{"0": "a"}\n'), Columns("0"), "single_label", False, False, "true")


@pytest.mark.parametrize(
    ("columns", "content", "sentence"),
    [
        (Columns("text", label="text"), "text,label\na,1\n", 'the column "text" is both the text and the label'),
        (Columns("0", label="0"), "a,1\nb,0\n", 'the column "0" is both the text and the label'),
        (Columns("text", label="0"), "text,label\na,1\n", 'the column "0" is both the text and the label'),
        (Columns("text", "text", "label"), "text,label\na,1\n", 'the column "text" is both the text and the text_pair'),
        (
            Columns("text", label="label", choices=("label", "b")),
            "text,b,label\na,1,0\n",
            'the column "label" is both the label and the choice 0',
        ),
    ],
)
def test_a_column_has_one_part(write, columns, content, sentence):
    with pytest.raises(ValueError, match=re.escape(f"own.csv: {sentence}; give each its own column")):
        read_own_file(write("own.csv", content), columns, "single_label", needs_label=True)


def labels_of(file, kind="single_label"):
    return [example.label for example in read_own_file(file, TEXT_AND_LABEL, kind, needs_label=True)]


def test_numbers_of_json_that_are_equal_are_one_class(write):
    lines = [f'{{"text": "a", "label": {label}}}\n' for label in ("1", "1.0", "1e0", "-0.0", '"1"', "1.5", "2e300")]
    assert labels_of(write("own.jsonl", "".join(lines))) == ["1", "1", "1", "0", "1", "1.5", "2e+300"]
    assert labels_of(write("own.jsonl", '{"text": "a", "label": [1, 1.0, 2]}\n'), "multi_label") == [("1", "2")]


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        ("1", "NaN", 'line 2: the column "label" is NaN, but a name or a finite number is needed'),
        ("1", "-Infinity", 'line 2: the column "label" is -Infinity, but a name or a finite number is needed'),
        (
            "1",
            "true",
            "line 2: the label is true, but that of line 1 is 1; write all labels as numbers, or all as true",
        ),
        ("false", "0.0", "line 2: the label is 0.0, but that of line 1 is false"),
    ],
)
def test_labels_of_json_that_are_not_classes_are_refused(write, first, second, sentence):
    file = write("own.jsonl", f'{{"text": "a", "label": {first}}}\n{{"text": "b", "label": {second}}}\n')
    with pytest.raises(ValueError, match=re.escape(f"own.jsonl {sentence}")):
        labels_of(file)


def test_a_decimal_comma_is_named(write):
    file = write("own.csv", 'text;label\na;"1.234,5"\n')
    with pytest.raises(
        ValueError, match=r'line 2: the label "1.234,5" is not a finite number, .*; write a decimal point'
    ):
        labels_of(file, "regression")
    with pytest.raises(ValueError, match=r'the label "many" is not a finite number, as regression needs \(--skip'):
        labels_of(write("own.csv", "text;label\na;many\n"), "regression")


def test_examples_can_be_read_one_by_one(write):
    file = write("own.csv", "text,label\na,1\nb,0\nc\n")
    examples = iterate_own_file(file, Columns("text"))
    assert [next(examples).text_a, next(examples).text_a] == ["a", "b"]
    with pytest.raises(ValueError, match="own.csv line 4: 1 cell, but the first row has 2"):
        next(examples)


def test_bad_rows_can_be_left_out_and_are_counted(write, messages):
    file = write("own.csv", "text,label\na,1\nb\n,1\nc,0\nd,\n")
    examples = read_own_file(file, TEXT_AND_LABEL, "single_label", needs_label=True, skip_bad_rows=True)
    assert [(example.text_a, example.source) for example in examples] == [
        ("a", "own.csv line 2"),
        ("c", "own.csv line 5"),
    ]
    assert messages == [
        "own.csv: 3 bad rows are left out; the first: own.csv line 3: 1 cell, but the first row has 2; look for a "
        "missing separator, or one that needs quotes"
    ]
    for name, content in (("own.csv", "text,label\nb\n"), ("own.jsonl", "b\n")):
        with pytest.raises(ValueError, match=f"{name}: no row can be read; correct the file"):
            read_own_file(write(name, content), TEXT_AND_LABEL, "single_label", needs_label=True, skip_bad_rows=True)


def test_the_news_stories(shared_dir):
    file = shared_dir("data/bbc") / "bbc_news_train.csv"
    examples = read_own_file(file, find_columns(file, id="ArticleId"), "single_label", needs_label=True)
    assert len(examples) == 1490
    assert {example.label for example in examples} == {"business", "entertainment", "politics", "sport", "tech"}
