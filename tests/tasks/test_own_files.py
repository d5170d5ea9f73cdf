"""A user's own files: columns, examples, and rejected input."""

import json
import re

import pytest

from bert_keras.mistakes import Message
from bert_keras.tasks.tables.columns import Columns, find_columns
from bert_keras.tasks.tables.examples import Example
from bert_keras.tasks.tables.header import YES, Header
from bert_keras.tasks.tables.tables import Table
from bert_keras.tasks.tables.user_data import iterate_own_file, read_own_file

TEXT_AND_LABEL = Columns("text", label="label")


@pytest.fixture
def read(write):
    """Return a function that writes a file of labelled texts and returns its examples."""

    def read(name, content, columns=TEXT_AND_LABEL, kind="single_label", needs_label=True, **options):
        return read_own_file(Table(write(name, content)), columns, kind, needs_label, **options)

    return read


def texts_of(examples):
    return [example.text_a for example in examples]


def labels_of(examples):
    return [example.label for example in examples]


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("own.csv", b'\xef\xbb\xbflabel,text,other\n 1 ,"a, b",x\n\n0,c,y\n', (2, 4)),
        ("own.tsv", "label\ttext\n1\ta, b\n\n0\tc\n", (2, 4)),
        ("own.txt", "label\t text \r\n1\ta, b\r\n\r\n0\tc\r\n", (2, 4)),
        ("own.jsonl", '{"text": "a, b", "label": 1}\n\n{"label": "0", "text": "c"}\n', (1, 3)),
        ("own.json", '{"text": "a, b", "label": 1}\n\n{"label": 0, "text": "c", "more": null}\n', (1, 3)),
    ],
)
def test_every_format_gives_the_same_examples(read, name, content, lines):
    assert read(name, content) == [
        Example("0", "a, b", None, "1", (), f"{name} line {lines[0]}"),
        Example("1", "c", None, "0", (), f"{name} line {lines[1]}"),
    ]


def test_pairs_ids_numbers_and_choices(read):
    content = "key,a,b,score\nx,one,two,2.5\ny,three,,-1e1\n"
    assert read("own.csv", content, Columns("a", "b", "score", "key"), "regression") == [
        Example("x", "one", "two", 2.5, (), "own.csv line 2"),
        Example("y", "three", "", -10.0, (), "own.csv line 3"),
    ]
    columns = Columns("text", label="label", choices=("first", "second"))
    assert read("own.csv", "text,first,second,label\na,b,c,1\n", columns, "multiple_choice") == [
        Example("0", "a", None, "1", ("b", "c"), "own.csv line 2")
    ]
    lists = '{"text": "a", "first": ["b"], "second": ["c", "d"], "label": 1}\n'
    assert read("own.jsonl", lists, columns, "multiple_choice")[0].choices == ("b", "c", "d")
    with pytest.raises(ValueError, match=r'^own.jsonl line 1: the column "second" is 3, but a text is needed'):
        read("own.jsonl", lists.replace('"d"', "3"), columns, "multiple_choice")


def test_several_labels_in_a_cell(read):
    columns = Columns("text", label="labels", label_separator="|")
    examples = read("own.csv", "text,labels\na,red| blue\nb,\nc,red|red\n", columns, "multi_label")
    assert labels_of(examples) == [("red", "blue"), (), ("red",)]
    content = '{"text": "a", "labels": ["red", 3]}\n{"text": "b", "labels": []}\n'
    assert labels_of(read("own.jsonl", content, columns, "multi_label")) == [("red", "3"), ()]


NO_HEADER = 'no header, the first row is 1, a, because "1" is a number among numbers (has_header=true skips it)'
NAMES = "the first row names the columns: {} (has_header=false reads it as data)"


@pytest.mark.parametrize(
    ("content", "columns", "texts", "message"),
    [
        ("1,a\n0,b\n", Columns("1", label="0"), ["a", "b"], NO_HEADER),
        ("1,a\n0,b\n", Columns("1"), ["a", "b"], NO_HEADER),
        ("0,1\n0,b\n", Columns("1", label="0"), ["b"], NAMES.format("0, 1, because it has the numbers of the columns")),
        (
            "Label,Text\n0,b\n",
            Columns("1", label="0"),
            ["b"],
            NAMES.format("Label, Text, because its cells are usual names"),
        ),
        ("label,b\n0,a\n", Columns("1", label="label"), ["a"], None),
    ],
)
def test_numbers_of_columns(read, messages, content, columns, texts, message):
    assert texts_of(read("own.csv", content, columns, needs_label=columns.label is not None)) == texts
    assert messages == ([f"own.csv: {message}"] if message else [])


@pytest.mark.parametrize("columns", [Columns("2021", label="2020"), Columns("2021", label="0")])
def test_a_number_without_a_column_is_a_name(read, columns):
    assert texts_of(read("own.csv", "2020,2021\n0,b\n", columns, has_header="true")) == ["b"]


def test_the_user_may_say_whether_there_is_a_header(read, messages):
    for has_header, texts in (("auto", ["a", "b"]), ("false", ["a", "b"]), ("true", ["b"])):
        assert texts_of(read("own.csv", "a,1\nb,0\n", Columns("0", label="1"), has_header=has_header)) == texts
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("header", "columns", "taken"),
    [
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
        (
            "gold_label,sentence1,sentence2",
            Columns("sentence1", "sentence2", "gold_label"),
            '"sentence1" as the text, "sentence2" as the second text, "gold_label" as the label',
        ),
    ],
)
def test_columns_are_found_by_their_usual_names(write, messages, header, columns, taken):
    file = write("own.csv", f"{header}\n1,2,3\n")
    assert find_columns(Table(file)) == columns
    assert messages == [f"{file}: columns {header.replace(',', ', ')}; using {taken}"]


def test_given_columns_are_kept(write, messages):
    file = write("own.csv", "review,text,stars,label\na,b,c,d\n")
    assert find_columns(Table(file), Columns("review", label="stars")) == Columns("review", None, "stars")
    assert messages == []
    assert find_columns(Table(file), Columns(pair="text")) == Columns("review", "text", "label")


def test_a_file_for_prediction_needs_no_label(write):
    assert find_columns(Table(write("own.csv", "text,label\na,?\n")), needs_label=False) == Columns("text")
    assert find_columns(Table(write("own.txt", "Text\na\n")), needs_label=False) == Columns("Text")
    assert find_columns(Table(write("own.jsonl", 'x\n{"text": "a", "n": 1}\n')), needs_label=False) == Columns("text")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "own.csv",
            "Nachricht;Kategorie\nWo ist mein Paket?;Versand\nIch will Geld;Zahlung\nNoch ein Paket;Versand\n",
            "no column is given for the text and the label; it is unclear whether the first row "
            'names the columns (row 1 is "Nachricht", "Kategorie"; row 2 is "Wo ist mein Paket?", "Versand"); if it '
            "does, give has_header='true', text_column='0', label_column='1'; if it is data, give has_header='false', "
            "text_column='0', label_column='1'",
        ),
        (
            "own.csv",
            "product_code,complaint,when\na,it broke at once,1\na,it is too small,2\nb,it never came,3\n",
            "a guess is text_column='complaint', label_column='product_code'",
        ),
        (
            "own.jsonl",
            '{"Subject": "Help with it", "Queue": "x", "Body": "It does not work"}\n'
            '{"Subject": "No money here", "Queue": "y", "Body": "Where is it now"}\n'
            '{"Subject": "More of it", "Queue": "x", "Body": null}\n',
            "no column could be the label; its columns are Subject, Queue, Body; a guess is text_column='Body', "
            "label_column='Queue'; text_column=Subject,Body joins texts of several columns",
        ),
        (
            "own.csv",
            "the text,my class\nlong text,b\n",
            """give has_header='true', text_column='0', label_column='1'; if it is data, give has_header='false', """,
        ),
        (
            "own.csv",
            "text,review,label\n1,2,3\n",
            "several columns could be the text; its columns are text, review, label",
        ),
        (
            "own.csv",
            "text,b\n1,2\n",
            "no column could be the label; its columns are text, b; a guess is text_column='text', label_column='b'",
        ),
        (
            "own.csv",
            "my first text,good\nmy second,bad\nthird,good\n",
            'the first row is data, because "good" is in the same column of another row, so columns have numbers, from '
            "0; a guess is has_header='false', text_column='0', label_column='1'",
        ),
        ("own.jsonl", "nothing\n", "own.jsonl line 1: not valid JSON"),
        ("own.csv", f"{'x' * 50},1\n", f'(row 1 is "{"x" * 40}...", "1"); if'),
    ],
)
def test_columns_that_are_not_found(write, name, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        find_columns(Table(write(name, content)))


ALL = "Body Queue"


@pytest.mark.parametrize(
    ("given", "problems", "guess"),
    [
        (
            Columns("body", label="queue"),
            ['"body", did you mean "Body"?', '"queue", did you mean "Queue"?'],
            "Body Queue",
        ),
        (
            Columns("Bodies", label="Ques"),
            ['"Bodies", did you mean "Body"?', '"Ques", did you mean "Queue"?'],
            "Body Queue",
        ),
        (Columns("Subject,Bdy", label="Queue"), ['"Bdy", did you mean "Body"?'], "Subject,Body Queue"),
        (Columns("nothing", label="9"), ['"nothing"', '"9"'], ALL),
        (Columns("Body", label="Queue", id="number"), ['"number"'], ALL),
    ],
)
def test_all_wrong_columns_are_named_at_once(write, given, problems, guess):
    file = write("own.csv", "Subject,Body,Queue\nhelp,the page is down,a\npay,no money came,b\nmore,where is it,a\n")
    text, label = guess.split()
    message = "; ".join(f"no column is named {problem}" for problem in problems)
    header = Header(YES, Message("you see it"))
    with pytest.raises(
        ValueError, match=re.escape(f"{file}: {message}; its columns are Subject, Body, Queue; a guess is")
    ):
        find_columns(Table(file), given, header=header)
    with pytest.raises(ValueError, match=re.escape(f"text_column='{text}', label_column='{label}'")):
        find_columns(Table(file), given, header=header)


@pytest.mark.parametrize(("name", "separator"), [("own.csv", ","), ("own.tsv", "\t")])
def test_a_text_of_several_columns(write, name, separator):
    rows = [("Subject", "Body", "Queue"), ("help", "it is down", "a"), ("", "no money", "b"), ("so", " ", "a")]
    file = write(name, "\n".join(map(separator.join, rows)))
    columns = find_columns(Table(file), Columns("Subject, Body", label="Queue"))
    assert [each.text_a for each in read_own_file(Table(file), columns)] == ["help it is down", "no money", "so"]
    numbers = Columns("0,1", label="2")
    assert [each.text_a for each in read_own_file(Table(file), numbers, has_header="true")] == [
        "help it is down",
        "no money",
        "so",
    ]
    pairs = read_own_file(Table(file), Columns("Queue", "Body,Subject"))
    assert [(each.text_a, each.text_b) for each in pairs][:2] == [("a", "it is down help"), ("b", "no money")]
    with pytest.raises(ValueError, match='the column "Queue" is both the text and the label'):
        read_own_file(Table(file), Columns("Body,Queue", label="Queue"))
    with pytest.raises(
        ValueError, match='own.csv line 2: the columns "a", "b" are empty; give a text, or remove the row'
    ):
        read_own_file(Table(write("own.csv", "a,b,c\n,,x\n")), Columns("a,b"))
    # A name with a comma is one column; null and missing values are empty.
    assert read_own_file(Table(write("own.csv", '"a,b",c\nx,y\n')), Columns("a,b"))[0].text_a == "x"
    rows = read_own_file(Table(write("own.jsonl", '{"a": null, "b": "x"}\n{"a": "y"}\n')), Columns("a,b"))
    assert [row.text_a for row in rows] == ["x", "y"]


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("text,label\n", TEXT_AND_LABEL, "own.csv has a header and no rows; give a file"),
        (
            "a,b\n1,2\n",
            TEXT_AND_LABEL,
            'own.csv: no column is named "text"; no column is named "label"; it is unclear whether the first row names',
        ),
        ("Text,b\n1,2\n", TEXT_AND_LABEL, 'no column is named "text", did you mean "Text"?; no column is named'),
        ("1,a\n", Columns("2", label="0"), 'own.csv: no column is named "2"; it is unclear whether the first row'),
        ("text,text,label\na,b,c\n", TEXT_AND_LABEL, 'has more than one column "text"; rename all but one of them'),
        ("text,label\n\u200b \u3164,1\n", TEXT_AND_LABEL, 'own.csv line 2: the column "text" is empty; give a text'),
        ("text,label\n ,1\n", TEXT_AND_LABEL, 'own.csv line 2: the column "text" is empty; give a text, or remove'),
        ("text,label\na,\n", TEXT_AND_LABEL, 'line 2: the column "label" is empty; every example needs a label here'),
        (
            "id,text,label\n,a,1\n",
            Columns("text", None, "label", "id"),
            'the column "id" is empty; every row needs one',
        ),
        (
            "id,text,label\nx,a,1\ny,b,1\nx,c,1\n",
            Columns("text", None, "label", "id"),
            'own.csv line 4: the id "x" is also in line 2; ids must be unique',
        ),
        (
            "text\na\n",
            Columns("text"),
            "its columns are text; a guess is text_column='text'; no other column can have the labels, so add one",
        ),
        ("text,label\na,1\n", Columns("text", label="text"), 'the column "text" is both the text and the label; give'),
        ("a,1\nb,0\n", Columns("0", label="0"), 'the column "0" is both the text and the label'),
        ("text,label\na,1\n", Columns("text", label="0"), 'the column "0" is both the text and the label'),
        ("text,b,label\na,1,0\n", Columns("text", "text", "label"), '"text" is both the text and the text_pair'),
        (
            "text,b,label\na,1,0\n",
            Columns("text", label="label", choices=("label", "b")),
            'the column "label" is both the label and the choice 0',
        ),
    ],
)
def test_mistakes_in_columns(read, content, columns, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read("own.csv", content, columns)


@pytest.mark.parametrize(
    ("label", "kind", "message"),
    [
        ("high", "regression", 'own.csv line 2: the label "high" is not a finite number; correct it'),
        ("nan", "regression", 'the label "nan" is not a finite number'),
        ("True", "regression", 'the label "True" is not a finite number; write 1 for true and 0 for false'),
        *(
            (f'"{cell}"', "regression", f'the label "{cell}" is not a finite number; {advice}')
            for cell, advice in {
                "0,5": "write 0.5",
                "-1.234.567,5": "write -1234567.5",
                "1,234": "write 1234 or 1.234, whichever it is",
                "1,234.50": "write 1234.50",
                "-1,234,567": "write -1234567",
                "0,123": "write 0.123",
                "1,2,3": "write the number alone",
                "5 %": "write the number alone",
                "No": "write 1 for yes and 0 for no",
            }.items()
        ),
        ("red||blue", "multi_label", 'own.csv line 2: the labels "red||blue" include an empty label; remove it'),
    ],
)
def test_mistakes_in_labels(read, label, kind, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read("own.csv", f"text;label\na;{label}\n", Columns("text", label="label", label_separator="|"), kind)


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        (
            '{"a": 1}\n',
            Columns("0", label="a"),
            'own.jsonl: no column is named "0"; its columns are a; a guess',
        ),
        (
            '{"train": [{"text": "a"}], "test": [["b"]], "meta": {"label": 1}}\n',
            Columns(),
            "its columns are train, test, meta; name text_column and label_column; objects and lists of them are "
            "neither texts nor labels: train, test, meta",
        ),
        (
            '{"text": "so", "cats": {"good": 1}}\n',
            Columns(),
            "a guess is text_column='text'; no other column can have the labels, so add one; objects and lists of them "
            "are neither texts nor labels: cats",
        ),
        (
            json.dumps({f"column {number}": "a" for number in range(30)}),
            Columns("text", label="label"),
            "column 18, column 19 and 10 more; a guess",
        ),
        ('{"text": "a", "label": 1}\n{"text": "b"}\n', TEXT_AND_LABEL, 'line 2: the column "label" is empty'),
        ('{"text": 5, "label": 1}\n', TEXT_AND_LABEL, 'the column "text" is 5, but a text is needed'),
        (
            '{"text": "a", "label": [1]}\n',
            TEXT_AND_LABEL,
            "label is the list [1], but one label is needed; lists are for",
        ),
        ('{"text": "a", "label": NaN}\n', TEXT_AND_LABEL, '"label" is NaN, but a name or a finite number is needed'),
        (
            '{"text": "a", "label": 1}\n{"text": "b", "label": true}\n',
            TEXT_AND_LABEL,
            "line 2: the label is true, but that of line 1 is 1; write all labels as numbers, or all as true and false",
        ),
        (
            '{"text": "a", "label": false}\n{"text": "b", "label": 0.0}\n',
            TEXT_AND_LABEL,
            "line 2: the label is 0.0, but that of line 1 is false",
        ),
    ],
)
def test_mistakes_in_json_lines(read, content, columns, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read("own.jsonl", content, columns)


def test_has_header_of_the_wrong_files(read):
    with pytest.raises(ValueError, match='no column is named "text"; the first row is data, because has_header=false'):
        read("own.csv", "text,1\n", Columns("text", label="1"), has_header="false")
    with pytest.raises(ValueError, match="own.jsonl is JSON, whose rows have names instead of a header; give has_hea"):
        read("own.jsonl", '{"0": "a"}\n', Columns("0"), needs_label=False, has_header="true")


def test_numbers_of_json_that_are_equal_are_one_class(read):
    lines = [f'{{"text": "a", "label": {label}}}\n' for label in ("1", "1.0", "1e0", "-0.0", '"1"', "1.5", "2e300")]
    assert labels_of(read("own.jsonl", "".join(lines))) == ["1", "1", "1", "0", "1", "1.5", "2e+300"]
    assert labels_of(read("own.jsonl", '{"text": "a", "label": [1, 1.0, 2]}\n', kind="multi_label")) == [("1", "2")]


def test_examples_can_be_read_one_by_one(write):
    examples = iterate_own_file(Table(write("own.csv", "text,label\na,1\nb,0\nc\n")), Columns("text"))
    assert [next(examples).text_a, next(examples).text_a] == ["a", "b"]
    assert next(examples).source == "own.csv line 4"


def test_bad_rows_can_be_left_out_and_are_counted(read, messages):
    examples = read("own.csv", "text,label\na,1\nb\n,1\nc,0\nd,\n", skip_bad_rows=True)
    assert [(example.text_a, example.source) for example in examples] == [
        ("a", "own.csv line 2"),
        ("c", "own.csv line 5"),
    ]
    assert messages == [
        "own.csv: 3 bad rows are left out; the first: own.csv line 3: 1 cell, but the first row has 2; look for a "
        "missing separator, or one that needs quotes"
    ]
    mistakes = {"own.csv": ("text,label\nb\n", ": no row can be read"), "own.jsonl": ("b\n", " line 1: not valid JSON")}
    for name, (content, problem) in mistakes.items():
        with pytest.raises(ValueError, match=f"{name}{problem}"):
            read(name, content, skip_bad_rows=True)


def test_the_news_stories(shared_dir):
    file = shared_dir("data/bbc") / "bbc_news_train.csv"
    examples = read_own_file(Table(file), find_columns(Table(file), Columns(id="ArticleId")), needs_label=True)
    assert len(examples) == 1490
    assert {example.label for example in examples} == {"business", "entertainment", "politics", "sport", "tech"}
