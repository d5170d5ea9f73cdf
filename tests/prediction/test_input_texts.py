"""Texts from arguments, lines and tables, before any model sees them."""

import gzip
import io
import re

import pytest

from bert_keras.commands import predict
from bert_keras.mistakes import Mistake
from bert_keras.prediction.arguments import Limits
from bert_keras.tasks.classification.settings import ClassifierSettings
from bert_keras.tasks.few_shot.settings import FewShotSettings
from bert_keras.tasks.reranking.settings import RerankerSettings
from bert_keras.tasks.tables.input_texts import is_table, read_table, read_texts
from bert_keras.tasks.tables.settings import given_columns
from bert_keras.tasks.tagging.settings import NerSettings
from bert_keras.tasks.vectors.settings import VectorSettings


def read(content, form="text", **limits):
    """Returns the (name, text) pairs of standard input."""
    stream = io.TextIOWrapper(io.BytesIO(content))
    return list(read_texts(None, [], stream, form, "--task=x", Limits(**limits)))


def read_file(path):
    return [text for _, text in read_texts(str(path), [], None, "text", "--task=x", Limits())]


def table_texts(path, form="text", trained=(), **given):
    return [text for _, text in read_table(str(path), form, given, dict(trained))]


@pytest.mark.parametrize(
    ("form", "arguments", "expected"),
    [
        ("text", ["he", "a\tb"], [("argument 1", "he"), ("argument 2", "a\tb")]),
        ("pair", ["he", "was", "a", "b"], [("pair 1", ("he", "was")), ("pair 2", ("a", "b"))]),
        ("pair", ["he\twas", "a\t"], [("argument 1", ("he", "was")), ("argument 2", ("a", ""))]),
        ("choices", ["he", "a", "b"], [("the question", ("he", ["a", "b"]))]),
        ("choices", ["he\ta\tb"], [("argument 1", ("he", ["a", "b"]))]),
        ("texts", ["he", "a"], [("the question", ("he", ["a"]))]),
        ("texts", ["he\ta", "so\tb\tc"], [("argument 1", ("he", ["a"])), ("argument 2", ("so", ["b", "c"]))]),
    ],
)
def test_arguments_are_texts_of_the_given_form(form, arguments, expected):
    assert list(read_texts(None, arguments, None, form, "--task=x", Limits())) == expected


@pytest.mark.parametrize(
    ("form", "arguments", "message"),
    [
        ("pair", ["he"], "^--task=x takes two texts for each pair, but 1 were given; give an even number, or each pai"),
        ("pair", ["he", "was", "so"], "takes two texts for each pair, but 3 were given"),
        ("pair", ["he\twas", "so"], "^argument 2 has 0 tabs, but a pair is two texts with one tab between them$"),
        ("pair", ["he\twas\tso"], "^argument 1 has 2 tabs, but a pair is two texts with one tab between them$"),
        ("choices", ["he", "was"], "^--task=x takes a text and two or more choices, but 2 arguments were given; give"),
        ("choices", ["he\twas"], "^argument 1 has 1 tabs, but a text and two or more choices with tabs between the"),
        ("texts", ["he"], "^--task=x takes a query and one or more texts, but 1 arguments were given; give each as an"),
        ("texts", ["he", "so\ta"], "^argument 1 has 0 tabs, but a query and one or more texts with tabs between them"),
        # Python passes the byte 0xff in an argument like this.
        ("text", ["he", "bad \udcff byte"], r"^argument 2: not UTF-8 \(byte 0xff\); give it as UTF-8$"),
    ],
)
def test_mistakes_in_arguments(form, arguments, message):
    with pytest.raises(ValueError, match=message):
        read_texts(None, arguments, None, form, "--task=x", Limits())


@pytest.mark.parametrize("form", ["text", "pair"])
def test_a_blank_line_is_an_error_in_its_place(messages, form):
    text = ("he", "so") if form == "pair" else "he\tso"
    content = b"\xef\xbb\xbfhe\tso\r\n\n\xe2\x80\x8b\t \nhe\tso\n \n\n"
    lines = [(f"standard input line {number}", given) for number, given in enumerate((text, None, None, text), 1)]
    found = read(content, form)
    assert [(source, None if isinstance(given, ValueError) else given) for source, given in found] == lines
    assert str(found[2][1]) == "standard input line 3 is blank; give a text, or remove the line"
    assert messages == ["standard input: blank lines at the end that do not count: 2"]


@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n", "\r\r\n"])
def test_only_line_ends_end_a_text(tmp_path, line_end):
    (tmp_path / "texts.txt").write_bytes(f"he\u2028was\x0c{line_end}so".encode())
    assert read_file(tmp_path / "texts.txt") == ["he\u2028was\x0c", "so"]


def test_other_encodings_and_compressed_files(tmp_path):
    (tmp_path / "utf16.txt").write_bytes("é\n首\n".encode("utf-16"))
    (tmp_path / "texts.txt.gz").write_bytes(gzip.compress("é\n首\n".encode()))
    for name in ("utf16.txt", "texts.txt.gz"):
        assert read_file(tmp_path / name) == ["é", "首"]


def test_standard_input_that_is_not_text_is_refused():
    with pytest.raises(ValueError, match="^standard input is not text but binary data"):
        read(gzip.compress(b"he\n" * 50, mtime=0))


def test_a_bad_line_is_an_error_in_place_of_its_text():
    first, long, bytes_, tabs, last = (
        text for _, text in read(b"a\tb\n%b\n\xff\nc\nd\te" % (b"a" * 200), "pair", max_chars=10)
    )
    assert (first, last) == (("a", "b"), ("d", "e"))
    assert str(long).startswith("standard input line 2 has more than 160 bytes; make it shorter, or raise max_chars")
    assert str(bytes_) == "standard input line 3: not UTF-8 (byte 0xff); save it as UTF-8"
    assert str(tabs) == "standard input line 4 has 0 tabs, but a pair is two texts with one tab between them"


def test_missing_and_empty_input(tmp_path):
    for content in (b"", b"\n \n"):
        with pytest.raises(ValueError, match="^standard input holds no text; give one text a line$"):
            read(content)
    for path in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(FileNotFoundError, match=rf"^input_file={path} is not a file; give a text file, one text"):
            read_file(path)
    with pytest.raises(ValueError, match='^there are both input_file=a.txt and the text "he"; give one of them$'):
        read_texts("a.txt", ["he"], None, "text", "--task=x", Limits())
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    with pytest.raises(ValueError, match="^no text was given; give it as an argument, in input_file or on standard in"):
        read_texts(None, [], terminal, "text", "--task=x", Limits())


def test_the_ending_decides_what_is_a_table():
    for name in ("a.csv", "a.TSV", "a.jsonl", "a.json", "a.csv.gz"):
        assert is_table(name, "text")
    for name in ("a.txt", "csv", "a.txt.gz"):
        assert not is_table(name, "text")


def test_a_txt_file_of_tabs_is_the_table_that_training_takes_it_for(tmp_path):
    (tmp_path / "a.txt").write_text("text\tlabel\nhe was\tin\nso he ate\tout\n")
    assert is_table(str(tmp_path / "a.txt"), "text")
    assert not is_table(str(tmp_path / "a.txt"), "pair")  # a tab separates the texts of a pair
    assert table_texts(tmp_path / "a.txt") == ["he was", "so he ate"]


def test_a_file_is_no_text(tmp_path):
    (tmp_path / "a.csv").write_text("text\nhe was\n")
    with pytest.raises(Mistake, match='^argument 2, ".*a.csv", is a file, but arguments are texts; give input_file$'):
        read_texts(None, ["he was", str(tmp_path / "a.csv")], None, "text", "--task=x", Limits())
    (tmp_path / "tags.txt").write_text("Ada B-PER\nmet O\n\nher O\n")
    with pytest.raises(Mistake, match="tags.txt: its lines are words with tags; give one text a line$"):
        read_file(tmp_path / "tags.txt")
    (tmp_path / "tags.txt").write_text("Ada or O\nmet her\n")
    assert read_file(tmp_path / "tags.txt") == ["Ada or O", "met her"]


@pytest.mark.parametrize("names", ["question,context", "query,passage", "anchor,positive", "Sentence 1,Sentence 2"])
def test_pairs_have_the_usual_names_of_every_task(tmp_path, names):
    (tmp_path / "a.csv").write_text(f"id,{names}\n1,he was,so he ate\n")
    assert table_texts(tmp_path / "a.csv", "pair") == [("he was", "so he ate")]


@pytest.mark.parametrize("answer", ["answer", "answers", "answer_text,answer_start,is_impossible"])
def test_the_answers_of_a_file_of_questions_are_not_its_texts(tmp_path, answer):
    cells = ",".join(["ate", "6", "False"][: 1 + answer.count(",")])
    first, last = f"{answer},context\nhe was,{cells},so he ate\n", f"question,{answer}\nso he ate,he was,{cells}\n"
    for content in (f"question,{first}", f"context,{last}"):
        (tmp_path / "a.csv").write_text(content)
        assert table_texts(tmp_path / "a.csv", "pair") == [("he was", "so he ate")]


def test_columns_are_found_or_named(tmp_path, messages):
    (tmp_path / "a.csv").write_text('id,sentence1,sentence2\n1,he was,so he ate\n2,"a","b"\n')
    pairs = [("he was", "so he ate"), ("a", "b")]
    assert table_texts(tmp_path / "a.csv", "pair") == pairs
    assert messages[1:] == [f'{tmp_path}/a.csv: texts are read from: "sentence1", "sentence2"']
    with pytest.raises(
        Mistake, match='but the file has pairs, "sentence1" and "sentence2"; name one with text_column$'
    ):
        table_texts(tmp_path / "a.csv")
    assert table_texts(tmp_path / "a.csv", text_column="sentence2") == ["so he ate", "b"]
    (tmp_path / "a.jsonl").write_text('{"x": "he was", "y": "so he ate"}\n{"x": "a", "y": "b"}\n')
    assert table_texts(tmp_path / "a.jsonl", "pair", text_column="x", text_pair_column="y") == pairs
    (tmp_path / "a.tsv").write_text("text\tother\nhe was\tx\na\ty\n")
    assert table_texts(tmp_path / "a.tsv") == ["he was", "a"]
    (tmp_path / "b.csv").write_text("q,a,b\nhe was,hungry,in\n")
    assert table_texts(tmp_path / "b.csv", "choices", text_column="q", choice_columns=["a", "b"]) == [
        ("he was", ["hungry", "in"])
    ]


LISTS = [("he", ["so", "in"]), ("she", ["ate"])]
QUERIES = "id,Query,text,negative_1\n1,he was,hungry,in\n2,she,ate,paris\n"


@pytest.mark.parametrize(
    ("content", "given", "trained", "expected"),
    [
        (QUERIES, {}, {}, [("he was", ["hungry", "in"]), ("she", ["ate", "paris"])]),
        (
            QUERIES,
            {"text_column": "Query", "choice_columns": ["negative_1"]},
            {},
            [("he was", ["in"]), ("she", ["paris"])],
        ),
        (QUERIES, {"text_column": "id", "text_pair_column": "text"}, {}, [("1", ["hungry"]), ("2", ["ate"])]),
        ('{"query": "he", "texts": ["so", "in"]}\n{"query": "she", "texts": ["ate"]}\n', {}, {}, LISTS),
        (
            '{"a": "he", "b": ["so", "in"]}\n{"a": "she", "b": ["ate"]}\n',
            {"text_column": "a", "choice_columns": ["b"]},
            {},
            LISTS,
        ),
        ("x,y\nhe,so\n", {}, {"text_column": "x", "text_pair_column": "y"}, [("he", ["so"])]),
        (
            "he was,so,1\nshe is,in,1\n",
            {"text_column": "0", "text_pair_column": "1"},
            {},
            [("he was", ["so"]), ("she is", ["in"])],
        ),
    ],
)
def test_a_row_is_a_query_and_one_or_more_texts(tmp_path, content, given, trained, expected):
    """With usual names, as those of the training, with lists, and with one text, as in files with a row for each."""
    path = tmp_path / ("a.jsonl" if content[0] == "{" else "a.csv")
    path.write_text(content)
    assert table_texts(path, "texts", trained, **given) == expected


def test_a_list_of_choices_needs_two(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "he", "choices": ["so", "in"]}\n{"text": "she", "choices": ["ate"]}\n')
    first, second = table_texts(path, "choices")
    assert first == ("he", ["so", "in"])
    assert str(second) == "a.jsonl line 2: the list has 1 texts, but a text and two or more choices are needed"


@pytest.mark.parametrize(
    ("form", "role", "needed"),
    [
        ("text", "text_pair_column", "single texts"),
        ("text", "choice_columns", "single texts"),
        ("pair", "choice_columns", "pairs of texts"),
        ("choices", "text_pair_column", "a text and two or more choices"),
    ],
)
def test_columns_that_the_model_does_not_take_are_refused(tmp_path, form, role, needed):
    (tmp_path / "a.csv").write_text("text,b,c\nhe,so,in\n")
    columns = ["b", "c"] if role == "choice_columns" else "b"
    with pytest.raises(ValueError, match=f"^{role} has no effect, because the model takes {needed}; leave it out$"):
        table_texts(tmp_path / "a.csv", form, text_column="text", **{role: columns})


def test_the_user_decides_whether_a_table_has_a_header(tmp_path):
    (tmp_path / "a.csv").write_text("he was,note\nshe ate,1\n")
    for has_header, texts in (("true", ["she ate"]), ("false", ["he was", "she ate"])):
        assert table_texts(tmp_path / "a.csv", text_column="0", has_header=has_header) == texts
    message = r"unclear .* if it does, give has_header='true'; if it is data, give has_header='false'$"
    with pytest.raises(ValueError, match=message):
        table_texts(tmp_path / "a.csv", text_column="0")
    assert table_texts(tmp_path / "a.csv", trained={"text_column": "0", "has_header": "false"}) == ["he was", "she ate"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (ClassifierSettings(output_dir="out"), {}),
        (
            ClassifierSettings(output_dir="out", text_column="Subject,Body", has_header="true", label_column="kind"),
            {"text_column": "Subject,Body", "has_header": "true"},
        ),
        (
            ClassifierSettings(output_dir="out", kind="multiple_choice", text_column="q", choice_columns=("a", "b")),
            {"text_column": "q", "choice_columns": ("a", "b")},
        ),
        (RerankerSettings(text_column="q", text_pair_column="t"), {"text_column": "q", "text_pair_column": "t"}),
        (FewShotSettings(text_column="1", has_header="false"), {"text_column": "1", "has_header": "false"}),
        (VectorSettings(text_columns=("q", "t", "other")), {"text_column": "q", "text_pair_column": "t"}),
        (NerSettings(), {}),
    ],
)
def test_a_model_stores_the_columns_of_texts_that_its_run_gives(settings, expected):
    assert given_columns(settings) == expected


def test_columns_of_the_training_are_used_if_the_file_has_them(tmp_path):
    trained = {"text_column": "review", "text_pair_column": None}
    (tmp_path / "a.csv").write_text("text,review\nwrong,he was\nwrong,she ate\n")
    assert table_texts(tmp_path / "a.csv", trained=trained) == ["he was", "she ate"]
    (tmp_path / "a.csv").write_text("text,other\nhe was,wrong\n")
    assert table_texts(tmp_path / "a.csv", trained=trained) == ["he was"]


@pytest.mark.parametrize("content", ["id,text\n7,he was\n", "he was,0\nhe was,1\n", "Text\nhe was\n"])
def test_a_column_number_of_the_training_counts_only_without_known_names(tmp_path, content, messages):
    (tmp_path / "a.csv").write_text(content)
    assert {*table_texts(tmp_path / "a.csv", trained={"text_column": "0"})} == {"he was"}
    message = 'the training read its texts from column 0 by its number; give text_column if it is not "text"'
    assert any(line.endswith(message) for line in messages) == content.startswith("id")


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        ("pair", "text,other\na,b\n", "the column of the second text is not known; name both with text_column and"),
        (
            "choices",
            "q,a,b\na,b,c\n",
            "the columns of a text and two or more choices are not known; name them with text_co",
        ),
        ("text", "id,date\n7,8\n", "no column could be the text; its columns are id, date; a guess is text_column="),
    ],
)
def test_mistakes_in_columns(tmp_path, form, content, message):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        table_texts(tmp_path / "a.csv", form)


@pytest.mark.parametrize(
    ("name", "lines", "errors"),
    [
        (
            "a.csv",
            ["text,label", "he,1", ",2", "she", '"so", 4'],
            {3: 'the column "text" is empty', 4: "1 cell, but the"},
        ),
        ("a.csv", ["text,label", "he", "she"], {2: "1 cell, but the first", 3: "1 cell, but the first"}),
        (
            "a.jsonl",
            ['{"text": "he"}', '{"text": 5}', "[]", '{"text": "so"}', '{"text": " "}', "{"],
            {2: 'the column "text" is 5', 3: "a JSON list", 5: 'the column "text" is empty', 6: "not valid JSON"},
        ),
    ],
)
def test_a_bad_row_is_an_error_in_place_of_its_text(tmp_path, name, lines, errors):
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    rows = list(read_table(str(tmp_path / name), "text", {}, {}))
    first_line = 2 if name == "a.csv" else 1
    assert len(rows) == len(lines) + 1 - first_line
    bad = {line: text for line, (_, text) in enumerate(rows, first_line) if isinstance(text, ValueError)}
    assert list(bad) == list(errors)
    for line, message in errors.items():
        assert str(bad[line]).startswith(f"{name} line {line}: {message}")
        assert "--skip_bad_rows" not in str(bad[line])
        assert rows[line - first_line][0] == f"{name} line {line}"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '["a"]'),
        ("a.jsonl", '{"text": '),
        ("a.csv", "a,b\nc,d"),
        ("a.csv", "text,text\nc,d"),
        ("a.csv", 'text,b\n"c'),
        ("a.csv", "text,b\n c"),
        ("a.csv", "text\n"),
        ("a.tsv", ""),
    ],
)
@pytest.mark.parametrize("form", ["text", "pair", "choices", "texts"])
def test_no_message_advises_a_flag_that_the_program_lacks(tmp_path, name, content, form):
    (tmp_path / name).write_text(content)
    try:
        errors = [text for text in table_texts(tmp_path / name, form) if isinstance(text, ValueError)]
    except ValueError as error:
        errors = [error]
    assert errors
    for error in errors:
        assert set(re.findall(r"--(\w+)", str(error))) <= set(predict.define_flags())


def test_a_text_of_several_columns_is_joined_as_in_training(tmp_path):
    (tmp_path / "a.csv").write_text("Subject,Body\nhelp,it is down\n")
    assert table_texts(tmp_path / "a.csv", trained={"text_column": "Subject,Body"}) == ["help it is down"]
    assert table_texts(tmp_path / "a.csv", text_column="Body,Subject") == ["it is down help"]
