"""Questions in the forms of other projects: rows of JSON and tables, and the forms of their answers."""

import json
import re

import pytest

from bert_keras.mistakes import Mistake
from bert_keras.tasks.question_answering.metrics import is_version_2
from bert_keras.tasks.question_answering.question_files import read_articles
from bert_keras.tasks.question_answering.squad_files import make_examples, unanswered_ids

CONTEXT = "The harbour of Brest was rebuilt in 1954 by the town."
ROW = {"context": CONTEXT, "question": "When?"}
ANSWER = {"text": "1954", "answer_start": 36}
ANSWERS = [
    {"answers": [ANSWER]},
    {"answers": ANSWER},
    {"answers": {"text": ["1954"], "answer_start": [36]}},
    {"answers": {"text": ["1954"], "answer_start": [36.0]}, "title": "Brest", "id": "x"},
    {"answer": "1954", "answer_start": 36},
    {"answer_text": "1954", "start": 36},
    {"answer": "1954"},
    {"answer": ANSWER},
    {"answers": ["1954"]},
    {"answers": "1954"},
    {"answers": [{"text": "1954"}]},
    {"answers": {"text": ["1954"]}},
    {"answers": None, "answer": [ANSWER], "is_impossible": False},
    # As rows of csv.DictReader, or of pandas if another row has no place.
    {"answer": "1954", "answer_start": "36"},
    {"answers": {"text": ["1954"], "answer_start": ["36.0"]}, "is_impossible": "False"},
]


@pytest.fixture
def read(write):
    def read_examples(content, name="train.json", is_training=True, version_2_with_negative=False):
        path = write(name, content if isinstance(content, str) else json.dumps(content))
        return make_examples(read_articles(path), path, is_training, version_2_with_negative)

    return read_examples


def nested(**question):
    return {"data": [{"paragraphs": [{"context": CONTEXT, "qas": [{"id": "1", "question": "When?", **question}]}]}]}


@pytest.mark.parametrize("version_2_with_negative", [False, True])
@pytest.mark.parametrize("form", ["lines", "list", "data", "pretty"])
@pytest.mark.parametrize("answers", ANSWERS)
def test_rows_and_their_answers(read, answers, form, version_2_with_negative):
    rows = [ROW | answers, ROW | answers | {"id": 7}]
    contents = {"lines": "\n".join(map(json.dumps, rows)), "list": rows, "data": {"data": rows}}
    contents["pretty"] = json.dumps(rows, indent=2)
    examples = read(contents[form], version_2_with_negative=version_2_with_negative)
    assert [(one.answer_text, one.start_position, one.is_impossible) for one in examples] == [("1954", 7, False)] * 2
    assert [one.question_id for one in examples] == [answers.get("id", "0"), "7"]
    assert examples[0].passage is examples[1].passage
    [example] = read(nested(**answers | {"id": "1", "is_impossible": False}))
    assert (example.answer_text, example.start_position) == ("1954", 7)


@pytest.mark.parametrize("name", ["squad_flat.jsonl", "squad_dict_answers.json"])
def test_files_of_other_projects(shared_dir, name):
    path = str(shared_dir("data/awkward/third") / name)
    [example] = make_examples(read_articles(path), path, True, False)
    assert (example.question_id, example.answer_text, example.start_position) == ("1", "1954", 7)


@pytest.mark.parametrize(
    "nothing",
    [
        {"answers": []},
        {"answers": {"text": [], "answer_start": []}},
        {"answer": ""},
        {"answer": None},
        {"answers": {}},
        {"answers": [], "is_impossible": True},
        {"answer": "", "is_impossible": "True"},
    ],
)
def test_no_answer_is_an_impossible_question(read, write, nothing):
    rows = [ROW | ANSWERS[0], ROW | nothing]
    first, second = read(rows, version_2_with_negative=True)
    assert (first.is_impossible, second.is_impossible) == (False, True)
    with pytest.raises(
        ValueError, match="train.json line 1 object 2 (has no answer; to train on it, give|is marked is_imp)"
    ):
        read(rows)
    articles = read_articles(write("a.json", json.dumps(rows)))
    assert is_version_2(articles)
    assert unanswered_ids(articles, True) == []
    assert unanswered_ids(articles, False) == ["1"]


def test_rows_without_answers_can_be_predicted_only(read, write):
    [example] = read([ROW], is_training=False, version_2_with_negative=True)
    assert example.question == "When?"
    path = write("a.json", json.dumps([ROW]))
    assert unanswered_ids(read_articles(path), True) == ["0"]
    # An unknown name of the answers must not make all questions impossible.
    for version_2_with_negative in (False, True):
        with pytest.raises(Mistake, match='train.json line 1 object 1 has neither "answer" nor "answers"; give one'):
            read([ROW | {"response": "1954"}], version_2_with_negative=version_2_with_negative)


def test_the_dict_answers_of_nested_questions(read):
    [example] = read(nested(answers={"text": ["1954"], "answer_start": [36]}), version_2_with_negative=True)
    assert example.answer_text == "1954"
    [example] = read(nested(answers={"text": [], "answer_start": []}), version_2_with_negative=True)
    assert example.is_impossible
    [example] = read({"context": CONTEXT, "qas": nested(answers=[ANSWER])["data"][0]["paragraphs"][0]["qas"]})
    assert example.answer_text == "1954"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", f'context,question,answer,answer_start,id\n"{CONTEXT}",When?,1954,36,5\n'),
        ("a.tsv", f"Question\tPassage\tanswer\nWhen?\t{CONTEXT}\t1954\n"),
        ("a.csv", f'context;question;answers\n{CONTEXT};When?;"{{""text"": [""1954""], ""answer_start"": [36]}}"\n'),
        ("a.csv", f"context;question;answers\n{CONTEXT};When?;{{'text': ['1954'], 'answer_start': [36]}}\n"),
        # As pandas writes the arrays of a dataset.
        (
            "a.csv",
            "context;question;answers\n"
            f"{CONTEXT};When?;{{'text': array(['1954'], dtype=object), 'answer_start': array([36], dtype=int32)}}\n",
        ),
        ("a.csv", f"context,question,answers\n{CONTEXT},When?,1954\n"),
        ("a.csv", f"context,question,answer,answer_start,is_impossible\n{CONTEXT},When?,1954,36.0,False\n"),
        ("a.csv", f"context,question,answer,answer_start,is_impossible\n{CONTEXT},When?,1954,,\n"),
        ("a.txt", f"{json.dumps(ROW | ANSWERS[0])}\n"),
    ],
)
def test_tables(read, name, content):
    [example] = read(content, name)
    assert (example.answer_text, example.start_position) == ("1954", 7)


def test_offsets_in_utf16_units(read, messages):
    context = "\U0001f600 \U0001f600 one two \U0001f600 one two"
    starts = {"code points": [0, 8, 14, 20], "UTF-16 units": [0, 10, 17, 24]}
    for unit, numbers in starts.items():
        answers = zip(["\U0001f600", "two", "one", None], numbers, strict=True)
        rows = [
            {"context": context, "question": "?", "answers": {"text": [text], "answer_start": [start]}}
            for text, start in answers
            if text
        ]
        messages.clear()
        assert [(one.start_position, one.answer_text) for one in read(rows)] == [
            (0, "\U0001f600"),
            (3, "two"),
            (5, "one"),
        ]
        told = [
            line
            for line in messages
            if line.endswith("answer_start counts UTF-16 units, as the answers after emoji show: 2")
        ]
        assert len(told) == (unit != "code points")


def test_misplaced_answers_stay_misplaced(read, messages):
    context = "\U0001f600 one two one"
    rows = [
        {"context": context, "question": "?", "answer": text, "answer_start": start}
        for text, start in (("one", 2), ("two", 6), ("two", 7), ("two", 2), ("one", 6))
    ]
    assert [one.start_position for one in read(rows)] == [1, 2, 2]
    assert messages[-1].endswith("2 of 5 questions are left out, because their answer is not at its answer_start: 3, 4")


def test_an_answer_at_several_places_is_in_the_log(read, messages):
    [first, second] = read([{"context": "a b a", "question": "?", "answer": answer} for answer in "ab"])
    assert (first.start_position, second.start_position) == (0, 1)
    assert "answers without answer_start that their context has more than once, the first counts: 1" in messages[0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "?"}, 'has no text "context"; every question needs it'),
        ({"question": 3, "context": "a"}, 'has no text "question"'),
        ({"context": "a"}, "is neither an article nor a question, but has context"),
        (ROW | {"answer": "1955"}, 'the answer "1955" is not in the context; give its exact words'),
        (
            ROW | {"answers": {"text": ["a"], "answer_start": []}},
            'which must be a list, or lists "text" and "answer_start"',
        ),
        (ROW | {"answers": {"text": ["a", "b"], "answer_start": 3}}, "of the same length"),
        (ROW | {"answers": [1954]}, "in its answers, is 1954 where an object with the key "),
        (ROW | {"answers": ["1955"]}, ': the answer "1955" is not in the context; give its exact words'),
        (ROW | {"answers": [ANSWER, ANSWER]}, "has 2 answers, but training needs exactly one"),
        (ROW | {"answer": "1954", "answer_start": "x"}, 'has "x" for "answer_start", which must be a whole number'),
        (
            ROW | {"answers": [ANSWER], "is_impossible": "no"},
            'has "no" for "is_impossible", which must be true or false',
        ),
        ("x", "a JSON str instead of an object; give a file of questions, such as SQuAD's JSON"),
    ],
)
def test_mistakes_name_the_line(read, row, message):
    content = f"[{json.dumps(ROW | ANSWERS[0])},\n{json.dumps(row)}]"
    with pytest.raises(ValueError, match="train.json line 2.*" + re.escape(message)):
        read(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "text,label\na,1\n",
            "a.csv has the columns text, label, but questions need columns such as context, question",
        ),
        ("context,question,answer\na,b\n", "a.csv line 2: 2 cells, but the first row has 3; look for"),
        (
            "context,question,answer\na b,c,b\ncontext,question,answer\n",
            "a.csv line 3: the row names the columns again",
        ),
        (
            "context,question,answers\na,b,c\n",
            'line 2: the answer "c" is not in the context; give its exact words',
        ),
        (
            "context,question,answers\na,b,[c]\n",
            'line 2: the answers are "[c]", but must be JSON such as {"text"',
        ),
        (f"context,question,answers\na,b,{'[' * 100_000}\n", "but must be JSON such as"),
    ],
)
def test_mistakes_in_tables(read, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read(content, "a.csv")
