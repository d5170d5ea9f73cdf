"""Whether the first row of a table names its columns: every entrance asks the same function."""

import re

import pytest

from bert_keras.mistakes import Mistake
from bert_keras.tasks.reranking.data import read_queries
from bert_keras.tasks.reranking.settings import RerankerSettings
from bert_keras.tasks.tables.column_names import VECTOR_PAIRS, usual_pair
from bert_keras.tasks.tables.columns import NO_COLUMNS, Columns, find_columns, find_header
from bert_keras.tasks.tables.input_texts import read_table
from bert_keras.tasks.tables.tables import Table
from bert_keras.tasks.tables.user_data import read_own_file
from bert_keras.tasks.vectors.data import read_file

SENTENCES = "my parcel never came\nrefund please\nwhere is my order\n"


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        # One column.
        ("text\na\nb\n", "yes"),
        ("\ufeffText\nmy parcel never came\n", "yes"),
        ('"text"\n"my parcel, never"\n', "yes"),
        ("sentence1\nrefund please\n", "yes"),
        (SENTENCES, "unclear"),
        ("What did you like about us?\nThe staff\nIt was cheap\n", "unclear"),
        ("Nachricht\nWo ist mein Paket\nIch will Geld\n", "unclear"),
        ("question\nanswer\nquestion about text\nreview\n", "unclear"),  # usual names as data
        ("4.5\n1.25\n", "no"),
        ("refund please\n", "unclear"),
        # A text and a label.
        ("text,label\na,x\n", "yes"),
        ("Text;Klasse\na;gut\nb;schlecht\nc;gut\nd;schlecht\n", "yes"),
        ("Beschreibung;Preis\na;1\nb;2.5\n", "yes"),
        ("Nachricht;Kategorie\nWo ist es;a\nIch will es;b\nGib es mir;a\nNoch ein Ding;b\n", "yes"),
        ("great,pos\nbad film,neg\ngood film,pos\n", "no"),
        ("question,pos\nbad,mixed\n", "unclear"),
        ("splendid stay,5\nbad room,1\nbad bed,1\nok food,2\nok view,2\n", "no"),
        ('splendid stay,"2,5"\nbad room,1\nbad bed,"1,2"\n', "no"),
        ("a,2020-01-05\nb,2020-02-05\n", "no"),
        ("it was fraud,fraud\nok it was,ham\nok it is,ham\nbuy me now,spam\nbuy me,spam\n", "unclear"),
        ("how are you,question\nfine thanks,statement\nhello there,greeting\n", "unclear"),
        ("Hello,question\nGood morning to all,greeting\nIt is me again,statement\n", "unclear"),
        ("the room was clean,unknown\nnoisy street,1\ngood food,2\n", "unclear"),
        ("good,nan\nbad,1\nok,2\n", "unclear"),
        ("How was it?,score\nIt was good,1\nIt was bad,2\n", "unclear"),
        # More columns.
        (",text,label\n0,a,x\n1,b,y\n", "yes"),
        ("text,label,\na,x,\nb,y,\n", "yes"),
        ("text,label,\na,x,c d\nb,y,e f\n", "unclear"),
        ("0,1\nfirst text,pos\nsecond text,neg\n", "yes"),
        ("id,comment_text,toxic\n7,it is bad,1\n8,it is good,0\n", "yes"),
        ("ArticleId,Text,Category\n1833,worldcom boss launches,business\n", "yes"),
        ("anchor,positive,negative\na b,c d,e f\n", "yes"),
        ("1,first,x\n2,second,y\n", "no"),
        ("A-17,first text,x\nA-18,second text,y\n", "unclear"),
    ],
)
def test_the_first_row_names_the_columns_or_is_data_or_may_be_both(write, content, answer):
    assert find_header(Table(write("own.csv", content))).answer == answer


def test_names_and_flags_of_the_user_decide(write):
    table = Table(write("own.csv", "Nachricht;Art\nWo ist es;x\n"))
    assert find_header(table).answer == "unclear"
    assert find_header(table, Columns("Nachricht")).answer == "yes"
    assert find_header(table, Columns("0", id="Art")).answer == "yes"
    assert find_header(table, Columns("0", label="1")).answer == "unclear"
    assert [find_header(table, NO_COLUMNS, given).answer for given in ("true", "false")] == ["yes", "no"]
    assert all(find_header(table, NO_COLUMNS, given).is_given for given in ("true", "false"))


BOTH_WAYS = (
    'own.csv: it is unclear whether the first row names the columns (row 1 is "my parcel never came"; row 2 is "refund '
    "please\"); if it does, give has_header='true'; if it is data, give has_header='false'"
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "My data,\ntext,label\na,x\n",
            'row 2 names the columns ("text", "label"); remove row 1 ("My data", "")',
        ),
        ("# of 2024\ntext,label\na,x\n", 'row 2 names the columns ("text", "label"); remove row 1 ("# of 2024")'),
        (
            "__label__x a b\n__label__y c\n",
            'lines such as "__label__x a b" are those of fastText; put a tab between label and text, and give '
            "has_header='false', text_column='1', label_column='0'",
        ),
    ],
)
def test_what_the_first_line_is_instead(write, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        find_columns(Table(write("own.csv", content)))


@pytest.mark.parametrize("has_header", ["true", "false"])
def test_a_text_without_a_header_is_never_lost(write, has_header):
    rows = SENTENCES.splitlines()[has_header == "true" :]
    for name in ("own.csv", "own.tsv", "own.txt"):
        file = write(name, SENTENCES)
        readers = (
            lambda file, **given: read_own_file(Table(file), NO_COLUMNS, **given),
            lambda file, **given: list(read_table(str(file), "text", given, {})),
        )
        for read in readers:
            with pytest.raises(ValueError, match=re.escape(BOTH_WAYS.replace("own.csv", name))):
                read(file)
            assert len(read(file, has_header=has_header)) == len(rows)
        if name == "own.txt":  # vectors have a text on each line
            assert len(read_file(Table(file)).rows) == 3
            continue
        with pytest.raises(ValueError, match=re.escape(BOTH_WAYS.replace("own.csv", name))):
            read_file(Table(file))
        assert read_file(Table(file), has_header=has_header).rows == [(row,) for row in rows]


def test_queries_without_a_header_are_asked_about(write):
    file = str(write("own.csv", "first question,its text,1\nsecond one,other text,2\nfirst question,no text,0\n"))
    with pytest.raises(
        ValueError,
        match="the first row is data, because .* a guess is has_header='false', text_column='0'.*; it is for all files",
    ):
        read_queries(file, RerankerSettings())
    columns = {"text_column": "0", "text_pair_column": "1", "label_column": "2"}
    assert len(read_queries(file, RerankerSettings(has_header="false", **columns)).rows) == 3


@pytest.mark.parametrize(
    ("content", "needs_label"),
    [
        ("the room was clean,4.5\nnoisy street,1.25\nit was fine,3.75\n", True),
        ("it was fraud,fraud\nok it was,ham\nok it is,ham\nbuy me now,spam\nbuy me,spam\n", True),
        ("my parcel never came,A-17\nrefund please,A-18\n", False),
        ("7,first text,x\n8,second text,y\n", False),
    ],
)
def test_advice_loses_no_row(write, content, needs_label):
    file = write("own.csv", content)
    with pytest.raises(ValueError, match="has_header") as caught:
        find_columns(Table(file), needs_label=needs_label)
    advice = str(caught.value)[str(caught.value).index("has_header='false'") :]
    given = dict(re.findall(r"(\w+)='(\w+)'", advice))
    columns = Columns(given["text_column"], label=given.get("label_column"))
    assert len(read_own_file(Table(file), columns, has_header="false")) == content.count("\n")


@pytest.mark.parametrize(
    ("content", "columns", "line", "num_left"),
    [
        ("text,label\na,x\ntext,label\nb,y\n", NO_COLUMNS, 3, 2),
        ("text,label\na,x\nb,y\nText, Label\nc,x\n", NO_COLUMNS, 4, 3),
        ("Nachricht,Art\na,x\nNachricht,Art\nb,y\n", Columns("Nachricht", label="Art"), 3, 2),
        ("text,label\na,x\nlabel,text\nb,y\n", NO_COLUMNS, 3, 2),
        ("good film,1\nbad film,0\ntext,label\nok film,1\n", Columns("0", label="1"), 3, 3),
    ],
)
def test_a_header_that_is_repeated_is_an_error_with_its_line(write, messages, content, columns, line, num_left):
    file = write("own.csv", content)
    problem = f"own.csv line {line}: the row names the columns again, as in joined files; remove it"
    with pytest.raises(ValueError, match=re.escape(f"{problem} (skip_bad_rows leaves such rows out)")):
        read_own_file(Table(file), columns, needs_label=True, skip_bad_rows=False)
    assert len(read_own_file(Table(file), columns, needs_label=True, skip_bad_rows=True)) == num_left
    assert messages[-1] == f"own.csv: 1 bad row is left out; the first: {problem}"


def test_rows_of_json_may_repeat_their_names(write):
    file = write("own.jsonl", '{"text": "a", "label": "x"}\n{"text": "text", "label": "label"}\n')
    with pytest.raises(ValueError, match=r"own.jsonl line 2: the row names the columns again"):
        read_own_file(Table(file), NO_COLUMNS, needs_label=True)
    file = write("own.csv", "text\ntexts\nreview\n")
    assert len(read_own_file(Table(file), NO_COLUMNS, has_header="true")) == 2


def test_problems_with_columns_and_rows_are_reported_together(write):
    file = write("own.csv", "text,klass\na b,x\n,y\nc d\ne f,x\n")
    with pytest.raises(ValueError, match="no column could be the label") as caught:
        read_own_file(Table(file), NO_COLUMNS, needs_label=True)
    assert 'besides, own.csv line 3: the column "text" is empty' in str(caught.value)
    assert "; own.csv line 4: 1 cell, but the first row has 2" in str(caught.value)


@pytest.mark.parametrize(
    ("header", "advice"),
    [
        ("complaint,channel,request", 'label_column may be "channel" (2 values), "request" (3 values)'),
        ("complaint,toxic,obscene", "label_column='toxic,obscene', kind='multi_label'"),
        ("complaint,day,request", "a guess is text_column='complaint', label_column='request'"),
        ("complaint,stars", "a guess is text_column='complaint', label_column='stars', kind='regression'"),
        ("complaint,whole", "a guess is text_column='complaint', label_column='whole'"),
    ],
)
def test_the_guess_lists_the_candidates(write, header, advice):
    cells = {
        "channel": "mail mail web web mail web",
        "request": "pay move pay stop stop move",
        "toxic": "1 0 0 1 0 0",
        "obscene": "0 0 1 1 0 0",
        "day": "1 2 3 4 5 6",
        "stars": "4.5 1 2 2.5 5 1",
        "whole": "4.0 1.0 2.0 2.0 5.0 1.0",
    }
    columns = [cells[name].split() for name in header.split(",")[1:]]
    rows = [f"it never came to me {number},{','.join(row)}" for number, row in enumerate(zip(*columns, strict=True))]
    file = write("own.csv", "\n".join([header, *rows]) + "\n")
    with pytest.raises(ValueError, match=f"{re.escape(advice)}$"):
        find_columns(Table(file))


def test_inputs_that_others_found(shared_dir):
    folder = shared_dir("data/awkward/third")
    for name in ("predict_no_header.csv", "predict_no_header.txt", "predict_two_columns_no_header.csv"):
        with pytest.raises(ValueError, match="it is unclear whether the first row names the columns"):
            read_own_file(Table(folder / name), NO_COLUMNS)
        assert len(read_own_file(Table(folder / name), Columns("0"), has_header="false")) == 3
    assert len(read_own_file(Table(folder / "rating_no_header.csv"), Columns("0", label="1"), needs_label=True)) == 5
    numbers = read_own_file(Table(folder / "regression_no_header.csv"), Columns("0", label="1"), "regression", True)
    assert [example.label for example in numbers] == [4.5, 1.25, 3.75]
    with pytest.raises(ValueError, match=re.escape('line 2: a blank follows a closing quote, as in [ film" ,]')):
        Table(folder / "csv_blank_after_quote.csv")


@pytest.mark.parametrize(
    ("column", "cells", "is_refused"),
    [
        ("is_duplicate", "0 1 0 1", True),
        ("relatedness", "0.8 2.25 4 3.5", True),
        ("grade", "3 1 2 3", True),
        ("same", "yes no no yes", True),
        ("relation", "entailment neutral entailment contradiction", True),
        ("qid1", "7 7 8 9", False),
        ("pair_ID", "4 4 8 9", False),
        ("length", "4 5 8 9", False),  # each is different, so they may number the rows
        ("genre", "news news forum forum", False),
        ("split", "1 1 1 1", False),
    ],
)
def test_scores_with_an_unusual_name_are_not_ignored(write, column, cells, is_refused):
    rows = [f"a text {number},another {number},{cell}" for number, cell in enumerate(cells.split())]
    file = write("pairs.csv", "\n".join(["sentence1,sentence2," + column, *rows]))
    if is_refused:
        with pytest.raises(Mistake, match=f'the column "{column}" may say which .* give score_column={column} for'):
            read_file(Table(file))
    else:
        assert read_file(Table(file)).kind == "pairs"
    with pytest.raises(Mistake, match='named "texts"; its columns are .* name the texts with text_columns$'):
        read_file(Table(file), ("texts", "sentence2"))
    for named in ({"text_columns": ("sentence1", "sentence2")}, {"has_labels": False}):
        assert read_file(Table(file), **named).kind == "pairs"


@pytest.mark.parametrize(
    ("names", "cells", "kind"),
    [
        ("first,second,score", "1 0 0.5", "scores"),
        ("first,second,Similarity Score", "1 0 0.5", "scores"),
        ("first,second,label", "entailment neutral entailment", "inferences"),
        ("first,second,label", "news news forum", "pairs"),
        ("first,score,second", "1 0 0.5", "pairs"),
    ],
)
def test_named_texts_keep_scores_with_a_usual_name(write, names, cells, kind):
    rows = [f"a text {number},another {number},{cell}" for number, cell in enumerate(cells.split())]
    texts = read_file(Table(write("pairs.csv", "\n".join([names, *rows]))), tuple(names.split(",")[:2]))
    assert (texts.kind, len(texts.rows)) == {"inferences": ("pairs", 2)}.get(kind, (kind, 3))


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        ("query,passage", ("query", "passage")),
        ("Question,Context", ("Question", "Context")),
        ("Sentence 1,Sentence 2", ("Sentence 1", "Sentence 2")),
        ("sentence_A,sentence_B", ("sentence_A", "sentence_B")),
        ("id,Text-1,Text-2", ("Text-1", "Text-2")),
    ],
)
def test_usual_names_of_pairs_may_have_blanks_and_capitals(write, names, pair):
    assert usual_pair(names.split(","), VECTOR_PAIRS) == pair
    rows = [",".join(f"the {name} {number}" for name in names.split(",")) for number in range(3)]
    rows = [f"{row},{number / 2}" for number, row in enumerate(rows)]
    assert read_file(Table(write("pairs.csv", "\n".join([names + ",Score", *rows])))).kind == "scores"


def test_a_table_of_texts_without_usual_names_is_answered_with_its_columns(write):
    rows = [f"{number},a first text {number},a second text {number},{number % 2}" for number in range(4)]
    table = write("pairs.csv", "\n".join(["key,left,right,equal", *rows]))
    with pytest.raises(Mistake, match="a guess is text_columns='left,right', score_column='equal'$"):
        read_file(Table(table))
