"""The forms of data in memory, as the files that the programs read."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.training.api import classifier, ner, pretraining, squad

TEXTS, LABELS = ["good film", "bad \u00fc\u2028film", 'a "quote"'], ["pos", "neg", "pos"]
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]


def rows_in(module, data, name="train_data"):
    content, ending = module.to_file(data, name)
    assert ending == ".jsonl"
    return [json.loads(line) for line in content.decode().removesuffix("\n").split("\n")]


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        (row for row in ROWS),
        (TEXTS, LABELS),
        (np.array(TEXTS), np.array(LABELS)),
        {"text": TEXTS, "label": LABELS},
        list(zip(TEXTS, LABELS, strict=True)),
        tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)),
        tf.data.Dataset.from_tensor_slices({"text": TEXTS, "label": LABELS}).batch(2),
    ],
    ids=["dicts", "generator", "columns", "arrays", "named columns", "tuples", "dataset", "batches"],
)
def test_rows_of_one_text(data):
    assert rows_in(classifier, data) == ROWS


class Table:
    """A table as its library shows it: `rows` by a method."""

    columns = ("text", "label")

    def __init__(self, method, rows):
        setattr(self, method, lambda *orient: rows if orient in ((), ("records",)) else None)


@pytest.mark.parametrize("method", ["to_dicts", "to_pylist", "to_dict"])
def test_tables_of_polars_pyarrow_and_pandas(method):
    assert rows_in(classifier, Table(method, ROWS)) == ROWS


def test_a_real_table_of_pandas_may_lack_values():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "label": [1, None, 2], 3: pandas.array([1, None, 3], "Int64")})
    assert rows_in(classifier, frame) == [
        {"text": text, "label": label, "3": third}
        for text, label, third in zip(TEXTS, [1.0, None, 2.0], [1, None, 3], strict=True)
    ]
    assert rows_in(classifier, frame["text"], "predict_data") == [{"text": text} for text in TEXTS]
    assert rows_in(classifier, (frame.text, frame.label))[0] == {"text": TEXTS[0], "label": 1.0}


def test_a_real_table_of_pyarrow():
    pyarrow = pytest.importorskip("pyarrow")
    assert rows_in(classifier, pyarrow.table({"text": TEXTS, "label": LABELS})) == ROWS


def test_pairs_of_texts_and_values_of_numpy():
    pairs = [("a", "b"), ("c", "d")]
    expected = [{"text_a": "a", "text_b": "b"}, {"text_a": "c", "text_b": "d"}]
    labelled = [{**row, "label": label} for row, label in zip(expected, (0.5, 2.0), strict=True)]
    assert rows_in(classifier, pairs, "predict_data") == expected
    assert rows_in(classifier, (["a", "c"], ["b", "d"]), "predict_data") == expected
    assert rows_in(classifier, (pairs, np.float32([0.5, 2]))) == labelled
    assert rows_in(classifier, [(*pair, label) for pair, label in zip(pairs, (0.5, 2.0), strict=True)]) == labelled
    values = {"text": b"a", "label": np.array(["x", "y"]), "id": np.int64(3), "more": (np.bool_(True), float("nan"))}
    assert rows_in(classifier, [values]) == [{"text": "a", "label": ["x", "y"], "id": 3, "more": [True, None]}]


def test_sentences():
    words, tags = [["Peter", "flew"], ["London"]], [["B-PER", "O"], ["B-LOC"]]
    expected = [{"words": one, "tags": other} for one, other in zip(words, tags, strict=True)]
    ragged = tf.data.Dataset.from_tensor_slices((tf.ragged.constant(words), tf.ragged.constant(tags)))
    for data in (
        expected,
        (words, tags),
        {"words": words, "tags": tags},
        zip(words, tags, strict=True),
        ragged,
        ragged.batch(2),
    ):
        assert rows_in(ner, data) == expected
    tuples = [tuple(sentence) for sentence in words]
    assert rows_in(ner, (tuples, tags)) == expected
    assert rows_in(ner, words, "predict_data") == [{"words": sentence} for sentence in words]


CONTEXT = "Ada lives in Rome. Ada is in Rome."


def qas_in(data):
    content, ending = squad.to_file(data, "train_data")
    assert ending == ".json"
    (article,) = json.loads(content)["data"]
    return article["paragraphs"]


def test_questions_with_answers_in_each_form():
    first, second = {"text": "Rome", "answer_start": 13}, {"text": "Rome", "answer_start": 29}
    ask = {"context": CONTEXT, "question": "Where?"}
    asked = [
        {**ask, "answer": "Rome"},
        {**ask, "answer": "Rome", "answer_start": 29, "id": "mine"},
        {**ask, "answers": [first, second]},
        {**ask, "answers": {"text": ["Rome"], "answer_start": [29]}},
        {**ask, "answer": ""},
        {**ask, "answers": {"text": [], "answer_start": []}},
        ask,
        {**ask, "context": "Other."},
    ]
    same, other = qas_in(asked)
    assert (same["context"], other["context"]) == (CONTEXT, "Other.")
    assert [question["id"] for question in [*same["qas"], *other["qas"]]] == ["0", "mine", *"234567"]
    answers = [[first], [second], [first, second], [second], [], []]
    assert [question["answers"] for question in same["qas"][:6]] == answers
    assert [question["is_impossible"] for question in same["qas"][:6]] == [False] * 4 + [True] * 2
    assert same["qas"][6] == {"id": "6", "question": "Where?"}
    assert qas_in({"data": [{"paragraphs": ["as they are"]}]}) == ["as they are"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "?"}, 'train_data row 0 has no text in the column "context"; every question needs it'),
        ({"context": "a", "question": "?", "answer": "b"}, 'train_data row 0: the answer "b" is not in the context; '),
    ],
)
def test_questions_that_do_not_fit_are_refused(row, message):
    with pytest.raises(ValueError, match=message):
        qas_in([row])


def test_documents():
    expected = "One.\nTwo.\n\nThree.\n"
    in_lines = ["One.\nTwo.\n", "Three."]
    for data in (in_lines, [["One.", "Two."], ["Three."]], [{"text": text} for text in in_lines], iter(in_lines)):
        assert pretraining.to_file(data, "train_data") == (expected.encode(), ".txt")
    assert pretraining.to_file(tf.data.Dataset.from_tensor_slices(in_lines), "train_data")[0] == expected.encode()
    assert pretraining.to_file([["A\nsentence."]], "train_data")[0] == b"A sentence.\n"
    for data, message in (
        ([3], "train_data document 0 is not a text or a list of"),
        ([], "train_data has no document"),
    ):
        with pytest.raises(ValueError, match=message):
            pretraining.to_file(data, "train_data")
