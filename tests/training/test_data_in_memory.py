"""Sentences and questions in memory are read as those of files, and messages name their rows."""

import collections
import datetime
import decimal
import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_keras import pretrain
from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.documents import inspect_texts
from bert_keras.data_prep.corpus.raw_text import TextOptions
from bert_keras.data_prep.corpus.text_sources import local_texts
from bert_keras.data_prep.corpus.workers import ThisProcess, Work, WorkFolder
from bert_keras.programs import classifier, ner, pretraining, reranker, sentence_vectors, squad
from bert_keras.programs.data import DataFiles
from bert_keras.storage.inspection import FORMATS
from bert_keras.storage.json_rows import name_of
from bert_keras.tasks.question_answering.question_files import read_articles
from bert_keras.tasks.question_answering.squad_files import make_examples
from bert_keras.tasks.reranking.data import check_queries, read_queries, split_queries
from bert_keras.tasks.reranking.settings import RerankerSettings
from bert_keras.tasks.tagging.conll import read_conll
from bert_keras.tasks.vectors.data import read_texts, split_texts
from bert_keras.tasks.vectors.settings import VectorSettings

WORDS, TAGS = ["Anna", "is"], ["B-PER", "O"]
SPAN = {"start": 0, "end": 4, "label": "PER"}
SENTENCES = {
    "tuples": [(WORDS, TAGS)] * 2,
    "columns": ([WORDS] * 2, [TAGS] * 2),
    "dicts": [{"tokens": WORDS, "ner_tags": TAGS}] * 2,
    "dict of columns": {"tokens": [WORDS] * 2, "labels": [np.array(TAGS)] * 2},
    "data": {"data": [{"words": WORDS, "tags": TAGS}] * 2, "version": 1},
    "generator": ({"words": WORDS, "tags": TAGS} for _ in range(2)),
    "spans": [{"text": "Anna is", "label": [(0, 4, "PER")]}, {"text": "Anna is", "spans": [SPAN]}],
    "tasks": [{"data": {"text": "Anna is"}, "annotations": [{"result": [{"value": {**SPAN, "labels": ["PER"]}}]}]}] * 2,
    "words": {"sentence_id": [0, 0, 1.0, None], "words": WORDS * 2, "labels": TAGS * 2},
    "dataset": tf.data.Dataset.from_tensor_slices({"words": [WORDS] * 2, "ner_tags": [TAGS] * 2}),
}
CONTEXT, QUESTION = "Ada lives in Rome.", "Where?"
ANSWERS = {"text": ["Rome"], "answer_start": [13]}
QUESTIONS = {
    "dicts": [{"context": CONTEXT, "question": QUESTION, "answers": ANSWERS}] * 2,
    "columns": {"context": [CONTEXT] * 2, "question": [QUESTION] * 2, "answer": ["Rome"] * 2},
    "SQuAD": {
        "data": [
            {
                "paragraphs": [
                    {
                        "context": CONTEXT,
                        "qas": [
                            {"id": str(number), "question": QUESTION, "answers": [{"text": "Rome", "answer_start": 13}]}
                            for number in range(2)
                        ],
                    }
                ]
            }
        ],
        "version": "1.1",
    },
    "one article": [
        {
            "context": CONTEXT,
            "qas": [{"id": str(number), "question": QUESTION, "answers": ANSWERS} for number in range(2)],
        }
    ],
}


def write(program, data, tmp_path):
    return DataFiles(str(tmp_path)).add("train_data", program.to_file(data, "train_data"))


@pytest.mark.parametrize("form", SENTENCES)
def test_sentences(tmp_path, form):
    sentences = read_conll(write(ner, SENTENCES[form], tmp_path))
    assert [(one.words, one.tags) for one in sentences] == [(WORDS, TAGS)] * 2
    assert sentences[1].place().startswith("train_data row 2" if form == "words" else "train_data row 1 word 1")


@pytest.mark.parametrize("form", ["dicts", "dict of columns", "words"])
def test_tables_of_sentences(tmp_path, form):
    pandas = pytest.importorskip("pandas")
    sentences = read_conll(write(ner, pandas.DataFrame(SENTENCES[form]), tmp_path))
    assert [(one.words, one.tags) for one in sentences] == [(WORDS, TAGS)] * 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([(WORDS, TAGS), (WORDS, ["O"])], "row 1 has 2 words but 1 tags"),
        ([(WORDS, TAGS), (WORDS, [3, 0])], r'row 1: "tags" is \[3, 0\], but a tag is a text such as B-PER'),
        ([(WORDS, TAGS), (WORDS, ["B-PER", "PER"])], 'row 1 word 2: the tag "PER" is not one of BIO'),
        ([{"text": "a b", "label": []}, {"text": "a b", "label": [[0, 2, "X"], [0, 3, "Y"]]}], "row 1: the spans "),
        (
            {"sentence": [0, 1, 0], "word": [*"abc"], "tag": [*"OOO"]},
            'row 2 continues the sentence "0", whose words ended in row 0',
        ),
        ([{"words": WORDS}], 'row 0 has only words; add "tags"'),
    ],
)
def test_mistakes_in_sentences(tmp_path, data, message):
    with pytest.raises(ValueError, match=f"^train_data:? {message}"):
        read_conll(write(ner, data, tmp_path))


@pytest.mark.parametrize("form", QUESTIONS)
def test_questions(tmp_path, form):
    path = write(squad, QUESTIONS[form], tmp_path)
    examples = make_examples(read_articles(path), name_of(path), True, False)
    assert [(one.question_id, one.answer_text, one.start_position) for one in examples] == [
        ("0", "Rome", 3),
        ("1", "Rome", 3),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"answer": "Oslo"}, 'row 1: the answer "Oslo" is not in the context'),
        ({"answers": {"text": ["Rome"], "answer_start": []}}, "row 1 has .* the same length"),
        ({"answers": []}, "row 1 has no answer; to train on it, give"),
        ({"question": None}, 'row 1 has no text "question"'),
        ({"id": "0"}, None),
    ],
)
def test_mistakes_in_questions(tmp_path, messages, row, message):
    good = {"context": CONTEXT, "question": QUESTION, "answers": ANSWERS, "id": "0"}
    bad = {key: value for key, value in good.items() if key not in ("answers", "id") or "id" in row} | row
    path = write(squad, [good, bad], tmp_path)
    if message is None:
        make_examples(read_articles(path), name_of(path), True, False)
        assert messages[-1].startswith("train_data has 1 repeated id; ")
        return
    with pytest.raises(ValueError, match=f"^train_data {message}"):
        make_examples(read_articles(path), name_of(path), True, False)


PAIRS = [{"sentence1": f"he {number}", "sentence2": "she", "score": number % 3} for number in range(12)]
SCORED = [{"query": f"he {number // 2}", "text": f"she {number}", "score": number % 2} for number in range(12)]


@pytest.mark.parametrize(
    ("program", "settings", "read", "data", "problem"),
    [
        (
            sentence_vectors,
            VectorSettings,
            lambda settings: split_texts(settings, {"train_file": read_texts(settings, "train_file")}),
            PAIRS,
            ([row | {"score": 0} for row in PAIRS], "train_data: all scores are 0; "),
        ),
        (
            reranker,
            RerankerSettings,
            lambda settings: [
                check_queries(queries, name)
                for name, queries in split_queries(
                    settings, {"train_file": read_queries(settings.train_file, settings)}
                )[0].items()
            ],
            SCORED,
            ([row | {"score": 1} for row in SCORED], "train_data: all texts fit their queries, "),
        ),
    ],
    ids=["vectors", "reranker"],
)
def test_texts_and_queries(tmp_path, messages, program, settings, read, data, problem):
    def read_data(data):
        return read(settings(train_file=write(program, data, tmp_path), eval_share=0.25, do_train=True, do_eval=True))

    read_data(data)
    assert [line for line in messages if line.startswith("train_data: ") and " held out for evaluation" in line]
    with pytest.raises(ValueError, match=f"^{problem[1]}"):
        read_data(problem[0])
    assert not [line for line in messages if ".jsonl" in line]


def rows(data, name="train_data", program=classifier):
    return [json.loads(line) for line in program.to_file(data, name)[0].decode().splitlines()]


ROWS = [{"text": "a b", "label": "x"}, {"text": "c d", "label": "y"}]
LABELLED = collections.namedtuple("LABELLED", "label text")


@pytest.mark.parametrize("data", [tuple(ROWS), [LABELLED("x", "a b"), LABELLED("y", "c d")]])
def test_rows(data):
    assert rows(data) == ROWS


@pytest.mark.parametrize("data", [[("a", "b", 0.5)] * 2, (["a"] * 2, ["b"] * 2, np.array([0.5, 0.5], np.float32))])
def test_a_number_after_two_texts_for_vectors_is_their_score(data):
    assert rows(data, program=sentence_vectors) == [{"anchor": "a", "positive": "b", "score": 0.5}] * 2
    assert rows([("a", "b", "c")], program=sentence_vectors) == [{"anchor": "a", "positive": "b", "negative": "c"}]


@pytest.mark.parametrize("texts", ["a b", b"a b", 3, {"a b": 0}])
def test_columns_are_lists_of_values(texts):
    """A text would give a row for each of its characters, and a dict one for each of its names."""
    assert rows({"text": ["a b"]}, "predict_data") == [{"text": "a b"}]
    with pytest.raises(ValueError, match=r'^predict_data: the column "text" is of the type \w+, but it must be a list'):
        rows({"text": texts}, "predict_data")


@pytest.mark.parametrize("text", ["a\udcff", b"a\xff", ["b", {"c": "a\udcff"}]])
def test_a_text_that_is_not_unicode_is_named_by_its_row(text):
    message = (
        r'^train_data row 1: the column "text": character 2 is \\udcff, half of a surrogate pair, .* read as UTF-8$'
    )
    with pytest.raises(ValueError, match=message):
        rows([{"text": "b"}, {"text": text}])


def test_tables_keep_their_columns():
    """The names of an index are columns, as in the file that `to_csv` writes, and no column replaces another."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    table = pandas.DataFrame(ROWS)
    assert rows(table) == rows(table.set_index([[7, 8]])) == rows(pyarrow.Table.from_pylist(ROWS)) == ROWS
    assert rows(table.set_index(pandas.Index([7, 8], name="id"))) == [{"id": 7} | ROWS[0], {"id": 8} | ROWS[1]]
    assert rows(table.set_index("text", drop=False)) == rows(table.set_index("text")) == ROWS
    twice = pandas.DataFrame([["a b", "c d", "x"]], columns=["text", "text", "label"])
    for data in (twice, pyarrow.table([["a b"], ["c d"], ["x"]], names=[*twice.columns])):
        with pytest.raises(ValueError, match='^train_data has several columns "text"'):
            rows(data)


def test_sets_have_one_order_in_every_process():
    labels = [f"label {number}" for number in range(10)]
    assert rows([{"text": "a b", "label": {*labels}}]) == [{"text": "a b", "label": labels}]
    with pytest.raises(TypeError, match=r"^train_data is of the type set; give a path, a list"):
        rows({("a b", "x"), ("c d", "y")})


@pytest.mark.parametrize(
    ("value", "text"),
    [(datetime.date(2020, 1, 2), "2020-01-02"), (decimal.Decimal("1.50"), "1.50"), (bytearray(b"a"), "a")],
)
def test_values_are_the_texts_that_a_table_has(value, text):
    assert rows([ROWS[0] | {"other": value}]) == [ROWS[0] | {"other": text}]
    with pytest.raises(ValueError, match='^train_data row 0: the column "other" is of the type object; give a text'):
        rows([ROWS[0] | {"other": object()}])


SENTENCES_OF = [["first one", "second one"], ["third one", "fourth one"]]
FORMS_OF_DOCUMENTS = {
    "a tuple": tuple(SENTENCES_OF),
    "an empty sentence": [["first one", "", "second one"], SENTENCES_OF[1]],
    "an empty line": ["first one\n\nsecond one\n", "third one\rfourth one"],
    "nothing": [*SENTENCES_OF, None, ""],
    "dicts": [{"text": sentences, "year": 2020} for sentences in SENTENCES_OF],
    "columns": {"text": map("\n".join, SENTENCES_OF), "year": [1, 2]},
}


def documents_of(path, **options):
    """Returns the sentences of each document that the builder of examples reads."""
    options = TextOptions(**options)
    [form] = inspect_texts([path], options)
    with WorkFolder(os.path.join(os.path.dirname(path), "work")) as folder:
        [text] = local_texts([form], Work(ThisProcess(None), folder, Progress()), options)
        content = pathlib.Path(text.path).read_text(encoding="utf-8")
        folder.delete()
    return [document.split("\n") for document in content.strip().split("\n\n") if document]


@pytest.mark.parametrize("form", FORMS_OF_DOCUMENTS)
def test_documents_end_where_the_data_say(tmp_path, form):
    assert documents_of(write(pretraining, FORMS_OF_DOCUMENTS[form], tmp_path)) == SENTENCES_OF


def test_documents_may_be_in_another_column(tmp_path):
    path = write(pretraining, {"body": SENTENCES_OF, "text": ["no", "no"]}, tmp_path)
    assert documents_of(path, text_field="body") == SENTENCES_OF


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (["a", 3], {}, 'train_data row 1: "text" is of the type int, but text is needed'),
        ([{"body": "a"}], {}, 'train_data row 0: has no field "text", but body; name the field'),
        (["a"], {"documents": "line"}, "documents=line is for text files, but train_data has one document a row"),
        (["a.csv", "b.csv"], {}, 'train_data document 0 is the name of the file "a.csv"; to read files, give'),
    ],
)
def test_mistakes_in_documents(tmp_path, monkeypatch, data, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("text\nno")
    with pytest.raises(ValueError, match=f"^{message}"):
        documents_of(write(pretraining, data, tmp_path), **options)


@pytest.mark.parametrize("ending", [".txt", ".TXT.gz", *FORMATS, ".csv.gz", ".parquet", ".arrow"])
def test_pretraining_builds_examples_of_every_format_of_text(tmp_path, ending):
    with pytest.raises(ValueError, match=r"^missing: vocab_file"):
        pretrain(tmp_path / f"a{ending}", output_dir=tmp_path / "run", bert_config_file="uncased_L-2_H-128_A-2")
