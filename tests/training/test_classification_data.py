"""The data of a run, its log lines about them, and rejected data."""

import json
import sys
import types
import warnings

import numpy as np
import pytest

from bert_keras.mistakes import Mistake
from bert_keras.storage import paths
from bert_keras.tasks.classification.data import digest_of, read_classification_data
from bert_keras.tasks.classification.kinds import complete_settings
from bert_keras.tasks.classification.settings import ClassifierSettings
from bert_keras.tasks.question_answering.question_files import read_articles
from bert_keras.tasks.reranking.data import read_queries
from bert_keras.tasks.reranking.settings import RerankerSettings
from bert_keras.tasks.tables.input_texts import read_table
from bert_keras.tasks.tables.tables import Table
from bert_keras.tasks.tagging.conll import read_conll
from bert_keras.tasks.vectors.data import read_file


def settings_of(stored=None, given=None, **changes):
    given = frozenset(changes if given is None else given)
    return complete_settings(ClassifierSettings(**{"output_dir": "out"} | changes, given=given), stored)


@pytest.fixture
def write(tmp_path):
    def write(name, *lines):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    return write


def read(stored=None, **changes):
    settings = settings_of(**changes)
    settings.check_effects()
    return read_classification_data(settings, stored)


def test_labels_are_learnt_from_training_and_said(write, messages):
    train = write("train.csv", "text,label", "a,10", "b,9", "c,9")
    data = read(do_train=True, train_file=train)
    assert data.labels == ("9", "10")
    assert data.metrics == ("accuracy", "f1_macro")
    assert [example.label for example in data.train] == ["10", "9", "9"]
    assert (data.dev, data.test, data.glue) == (None, None, None)
    assert messages[-1] == "2 labels, with their examples to train on: 9 (2), 10 (1)"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("has_columns", [True, False])
def test_each_table_is_opened_once(write, monkeypatch, name, has_columns):
    rows = {
        "a.csv": ["text,label", "b,1", "c,0"],
        "a.jsonl": ['{"text": "b", "label": 1}', '{"text": "c", "label": 0}'],
    }
    words = write("words.csv", "Sentence #,Word,Tag", "Sentence: 1,he,O", ",ate,O")
    table, opened, open_file = write(name, *rows[name]), [], paths.open_file
    monkeypatch.setattr(paths, "open_file", lambda path, *more: opened.append(path) or open_file(path, *more))
    columns = {"text_column": "text", "label_column": "label"} if has_columns else {}
    assert len(read(do_train=True, train_file=table, **columns).train) == 2
    assert len(read_file(Table(table), ["text"] if has_columns else ()).rows) == 2
    assert len(list(read_table(table, "text", {"text_column": columns.get("text_column")}, {}))) == 2
    assert len(read_conll(words)) == 1
    queries = write("queries.csv", "query,text,score", "a,b,1", "a,c,0")
    assert len(read_queries(queries, RerankerSettings()).rows) == 2
    questions = write("questions.csv", "id,context,question,answer", "1,rivers flow,what?,rivers")
    assert len(read_articles(questions)) == 1
    assert opened == [table, table, table, words, queries, questions]


def test_what_is_held_out_is_the_same_every_time_and_the_rest_is_trained_on(write, messages):
    rows = [f"text {number},{number % 2}" for number in range(50)]
    train = write("train.csv", "text,label", *rows)
    data = read(do_train=True, do_eval=True, train_file=train, eval_share=0.3, seed=1)
    assert (len(data.train), len(data.dev)) == (35, 15)
    texts = [example.text_a for example in data.train + data.dev]
    assert sorted(texts) == sorted(row.split(",")[0] for row in rows)
    # In file order, but neither its end nor its beginning.
    numbers = [int(example.id) for example in data.dev]
    assert numbers == sorted(numbers)
    assert numbers not in (list(range(15)), list(range(35, 50)))
    other = read(do_train=True, do_eval=True, train_file=train, eval_share=0.3, seed=2)
    assert digest_of(other.dev) == digest_of(data.dev)
    assert "train.csv: 15 of 50 examples, chosen at random within each label, are held out for evaluation" in messages
    # Without an evaluation now, a later one is possible.
    assert digest_of(read(do_train=True, train_file=train, eval_share=0.3).train) == digest_of(data.train)


def test_what_is_hardly_meant_is_said(write, messages):
    read(do_train=True, train_file=write("n.csv", "text,label", *(f"t{number},{number / 8}" for number in range(30))))
    assert messages[-1] == ("30 labels are many for 30 examples: check label_column; numbers need kind=regression")
    assert messages[-2].endswith("and 10 more")
    read(do_train=True, train_file=write("m.csv", "text,labels", "a,x|y", "b,y"), kind="multi_label")
    assert messages[-1] == (
        "no example has more than one label; if a cell has several, name what separates them with label_separator; "
        "if each has one, kind=single_label fits"
    )
    rows = [f"t{number},{('NaN', 'a', 'none')[number % 3]}" for number in range(7)]
    read(do_train=True, train_file=write("p.csv", "text,label", *rows))
    assert messages[-1] == (
        "labels that programs write for missing values: NaN (3), none (2); remove their rows if they are"
    )


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (("good", "bad", "good,late", "bad, late"), 'label "bad, late" counts as one class; if it is several labels, '),
        (("a|b", "b|c", "c|a"), 'label "a|b" counts as one class; if it is several labels, '),
        (("a;b", "a;c", "b"), "give kind=multi_label and label_separator=;"),
        (("a|b", "c|b"), "give kind=multi_label and label_separator=|"),
        (("Albany, NY", "Buffalo, NY", "Newark, NJ"), None),
        (("Arts, crafts", "Sports", "yes,"), None),
        (("4,5", "5", "5,5"), None),
    ],
)
def test_a_label_of_others_is_told(write, messages, labels, told):
    rows = [f'text {number},"{label}"' for number, label in enumerate(labels * 2)]
    read(do_train=True, train_file=write("t.csv", "text,label", *rows))
    found = [message for message in messages if "if it is several labels" in message]
    assert [told in message for message in found] == [True] * (told is not None)


def test_copies_with_random_labels_are_not_learnt_by_heart(shared_dir, messages):
    train = str(shared_dir("data/awkward/third/duplicates_random_labels.csv"))
    data = read(do_train=True, do_eval=True, train_file=train, eval_share=0.25)
    assert (len(data.train), len(data.dev)) == (180, 60)
    known = {example.text_a: example.label for example in data.train}
    answers = [known.get(example.text_a, "yes") for example in data.dev]
    right = sum(answer == example.label for answer, example in zip(answers, data.dev, strict=True))
    assert 15 <= right <= 45  # all of them, if rows are held out
    assert any("; equal texts (180 copies) stay together" in message for message in messages)


@pytest.mark.parametrize(
    ("kind", "rows", "told"),
    [
        ("single_label", ("a,x", "b,y", "A ,y", "a,y", "b,y"), "1, such as t.csv line 2 (x) and t.csv line 4 (y)"),
        ("single_label", ("a,x", "b,y", "a,x", "b,y"), None),
        ("multi_label", ("a,x|y", "b,x", "a,y|x", "b,x|y"), "1, such as t.csv line 3 (x) and t.csv line 5 (x, y)"),
        ("multi_label", ("a,x|y", "a,", "b,y", "b,"), "2, such as t.csv line 2 (x, y) and t.csv line 3 (no label)"),
        ("regression", ("a,1", "a,2", "b,3"), None),
    ],
)
def test_equal_texts_with_different_labels_are_told_once(write, messages, kind, rows, told):
    train = write("t.csv", "text,label", *rows)
    read(do_train=True, train_file=train, kind=kind, label_separator="|" if kind == "multi_label" else None)
    found = [message for message in messages if "that occur with different labels" in message]
    assert [message.replace(train, "t.csv") for message in found] == (
        [f"texts that occur with different labels: {told}; no model can answer both"] if told else []
    )


def test_choices_in_another_order_are_another_question(write, messages):
    rows = ("q,a,b,0", "q,a,b,1", "Q,A,b,0", "q,c,d,1")
    train = write("t.csv", "text,one,two,label", *rows)
    settings = {"kind": "multiple_choice", "choice_columns": ("one", "two"), "text_column": "text"}
    read(do_train=True, train_file=train, label_column="label", **settings)
    assert any("that occur with different labels: 1, such as" in message for message in messages)


def test_choices_have_no_second_text(write, messages):
    train = write("t.csv", "sentence1,sentence2,one,two,label", "q,s,a,b,0", "q,s,a,b,1")
    data = read(do_train=True, train_file=train, kind="multiple_choice", choice_columns=("one", "two"))
    assert (data.train[0].text_a, data.train[0].text_b, data.train[0].choices) == ("q", None, ("a", "b"))
    assert any(message.endswith('using "sentence1" as the text, "label" as the label') for message in messages)


def test_choices_may_be_lists(write):
    train = write("t.jsonl", *(f'{{"ctx": "q {number}", "endings": ["a", "b"], "label": "1"}}' for number in range(2)))
    settings = {"kind": "multiple_choice", "text_column": "ctx", "choice_columns": ("endings",)}
    data = read(do_train=True, train_file=train, **settings)
    assert [(row.text_a, row.choices, row.label) for row in data.train] == [(f"q {n}", ("a", "b"), "1") for n in (0, 1)]


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("text,A,B,right", "q,so,in,"),
        ("text,one,two,right", "q,so,in,"),
        ("text,choices,right", "q,\"['so', 'in']\","),
        ("text,choices,right", "q,['so' 'in'],"),  # as pandas writes arrays
    ],
)
def test_a_label_may_name_its_choice(write, messages, header, cells):
    names = header.split(",")[1:-1]
    labels = ["1", "in", "B", *([names[1]] if len(names) > 1 else [])]
    train = write("train.csv", "\n".join([header, *(f"{cells}{label}" for label in labels)]))
    for columns in (names, [str(number) for number in range(1, 1 + len(names))]):
        settings = {"kind": "multiple_choice", "choice_columns": tuple(columns), "label_column": "right"}
        data = read(do_train=True, train_file=train, **settings)
        assert [(row.choices, row.label) for row in data.train] == [(("so", "in"), "1")] * len(labels)
    assert not any("is a list" in message for message in messages)


@pytest.mark.parametrize(
    ("row", "guess"),
    [
        (
            '{"ctx": "q %d", "endings": ["a b", "c %d"], "label": 1}',
            "choice_columns='endings', kind='multiple_choice'$",
        ),
        ('{"ctx": "q %d", "parts": ["a b", "c %d"], "label": 2}', "text_column='ctx', label_column='label'$"),
        ('{"ctx": "q %d", "mood": ["a b", "c %d"]}', "text_column='ctx', label_column='mood'$"),
    ],
)
def test_a_list_is_no_text_but_may_have_the_choices(write, row, guess):
    train = write("t.jsonl", *(row % (number, number) for number in range(4)))
    with pytest.raises(ValueError, match=f"no column could be the text; .*a guess is .*{guess}"):
        read(do_train=True, train_file=train)


def test_calibration_and_evaluation_share_no_text(write):
    rows = [f"{' ' * copy}text {number},{number % 2}" for copy in range(3) for number in range(60)]
    settings = {"do_train": True, "do_eval": True, "train_file": write("t.csv", "text,label", *rows)}
    data = read(**settings, eval_share=0.2, calibrate=True)
    parts = [{example.key for example in part} for part in (data.train, data.dev, data.calibration)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 60
    assert len(data.dev) == 36
    assert len(data.calibration) == pytest.approx(14, abs=2)


def test_a_file_to_predict_may_have_any_labels(write):
    files = {"train_file": write("train.csv", "text,label", "a,x", "b,y"), "do_train": True, "do_predict": True}
    for name, lines in (("a", ("text", "c")), ("b", ("label,text", "?,c")), ("c", ("label,text", ",c"))):
        data = read(**files, predict_file=write(f"{name}.csv", *lines))
        assert [(example.text_a, example.label) for example in data.test] == [("c", None)]
        named = {"text_column": "text", "label_column": "label"}
        data = read(**files, **named, predict_file=write(f"{name}.csv", *lines))
        assert [(example.text_a, example.label) for example in data.test] == [("c", None)]


def test_a_file_without_a_header_has_columns_by_number(write):
    train = write("train.csv", "7,first,x", "8,second,y")
    with pytest.raises(
        ValueError,
        match='the first row is data, because "7" is a number among numbers, so columns have numbers, from 0; a gue',
    ):
        read(do_train=True, train_file=train)
    data = read(do_train=True, train_file=train, text_column="1", label_column="2")
    assert [(example.text_a, example.label) for example in data.train] == [("first", "x"), ("second", "y")]


@pytest.mark.parametrize("label_column", ["toxic,threat,insult", "1,2,3"])
def test_a_column_of_labels_that_is_0_everywhere_is_a_label(write, messages, label_column):
    train = write("train.csv", "text,toxic,threat,insult", "a,1,0,0", "b,0,0,1")
    dev = write("dev.csv", "text,toxic,threat,insult", "a,0,1,1")
    files = {"do_train": True, "do_eval": True, "train_file": train, "eval_file": dev, "kind": "multi_label"}
    data = read(**files, label_column=label_column)
    assert data.labels == ("insult", "threat", "toxic")
    assert data.dev[0].label == ("threat", "insult")
    assert "no example to train on has the label threat" in messages


@pytest.mark.parametrize(
    ("kind", "labels", "metric", "names"),
    [
        ("single_label", "xy", None, ("accuracy", "f1_macro")),
        ("single_label", "xy", "f1", ("f1", "accuracy", "f1_macro")),
        ("single_label", "xyz", "f1_macro", ("f1_macro", "accuracy")),
        ("regression", "123", "pearson", ("pearson", "spearman", "mae", "rmse")),
        ("multi_label", "xyz", "accuracy", ("accuracy", "f1_micro", "f1_macro")),
    ],
)
def test_the_figure_that_counts_comes_first(write, kind, labels, metric, names):
    train = write("train.csv", "text,label", *(f"t,{label}" for label in labels))
    assert (
        read(do_train=True, do_eval=True, train_file=train, eval_file=train, kind=kind, metric=metric).metrics == names
    )


@pytest.mark.parametrize(
    ("kind", "labels", "metric", "known"),
    [
        ("single_label", "xyz", "f1", "accuracy, f1_macro, matthews"),
        ("single_label", "xy", "pearson", "accuracy, f1, f1_macro, matthews"),
        ("regression", "12", "accuracy", "spearman, pearson"),
        ("multi_label", "xyz", "matthews", "f1_micro, f1_macro, accuracy"),
    ],
)
def test_a_figure_that_the_data_do_not_have_is_refused(write, kind, labels, metric, known):
    train = write("train.csv", "text,label", *(f"t,{label}" for label in labels))
    with pytest.raises(ValueError, match=f"^metric={metric} is not one of the metrics of such data: {known}$"):
        read(do_train=True, do_eval=True, train_file=train, eval_file=train, kind=kind, metric=metric)


TRAIN = {"do_train": True, "train_file": "train.csv"}
MRPC = {"do_train": True, "task_name": "mrpc", "data_dir": "glue"}
TFDS = {"do_train": True, "tfds": "imdb_reviews"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"do_train": True}, "no data given; give task_name and data_dir, tfds, or train_file and the like"),
        (
            {"do_train": True, "predict_file": "new.csv"},
            "do_train needs train_file, or teacher and unlabeled_file",
        ),
        ({**TRAIN, "do_predict": True}, "do_predict needs predict_file"),
        ({**TRAIN, "do_eval": True}, "do_eval needs eval_file, or eval_share of train_file to hold out"),
        ({**TRAIN, "task_name": "mrpc"}, "task_name and train_file both name the data; give .*"),
        ({**TRAIN, "tfds": "glue/mrpc"}, "tfds and train_file both name the data; give task_name .*"),
        (
            {**TRAIN, "eval_share": 0.001},
            "eval_share=0.001 of 3 examples leaves 3 to train and 0 to evaluate on; give another share, or .*",
        ),
        (
            {**TRAIN, "has_header": "false"},
            "train.csv: no column is given for the text and the label; the first row is data, because has_header=false "
            "says so, so columns have numbers, from 0; a guess is has_header='false', text_column='1'"
            ", label_column='0'",
        ),
        (
            {"do_eval": True, "eval_file": "train.csv"},
            "the labels are not known: give the output_dir of a run that has trained, or train with do_train",
        ),
        (
            {**TRAIN, "choice_columns": ["a", "b"]},
            "choice_columns has no effect without kind=multiple_choice; give both, or leave it out",
        ),
        (
            {**TRAIN, "kind": "multiple_choice"},
            "kind=multiple_choice needs choice_columns: columns separated by commas, or one of lists",
        ),
        (
            TRAIN
            | {"kind": "multiple_choice", "choice_columns": ["a", "b"]}
            | {"text_column": "text", "text_pair_column": "start"},
            "text_pair_column has no effect with kind=multiple_choice, which pairs the text with each choice; leave it "
            "out, or join both texts with text_column=text,start",
        ),
        ({**MRPC, "data_dir": None}, "task_name=mrpc needs data_dir, the folder with its files"),
        ({**MRPC, "task_name": "ax"}, "the task ax has no train file, only test; leave this step out"),
        ({**TFDS, "eval_share": 0.1}, "eval_share has no effect with tfds; leave one of the two out"),
        ({**TFDS, "has_header": "true"}, "has_header has no effect with tfds; leave one of the two out"),
        ({**TFDS, "kind": "multiple_choice"}, "kind=multiple_choice needs your own files, not tfds"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(write, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    write("train.csv", "text,label", "a,x", "b,y", "c,x")
    with pytest.raises(ValueError, match=f"^{message}$"):
        read(**{name: value for name, value in flags.items() if value is not None})


def test_tensorflow_datasets_that_are_not_installed_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ValueError, match="^reading imdb_reviews needs TensorFlow Datasets, which is not installed: "):
        read(**TFDS)


def test_labels_and_choices_out_of_range_are_named_by_their_line(write):
    train = write("train.csv", "text,a,b,label", "t,x,y,0", "t,x,y,2")
    with pytest.raises(
        ValueError,
        match='^train.csv line 3: the label "2" is none of the 2 choices; give its number from 0',
    ):
        read(do_train=True, train_file=train, kind="multiple_choice", choice_columns=["a", "b"])


def test_data_of_the_command_line_take_the_place_of_those_of_the_run():
    stored = {"task": "regression", "labels": []}
    of_the_run = {"task_name": "sts-b", "data_dir": "glue", "do_predict": True}
    settings = settings_of(stored, {"do_predict", "predict_file"}, **of_the_run, predict_file="own.csv")
    assert (settings.task_name, settings.predict_file, settings.kind) == (None, "own.csv", "regression")
    of_the_run = {"train_file": "a.csv", "eval_share": 0.2, "text_column": "body", "id_column": "key"}
    changed = of_the_run | {"tfds": "imdb_reviews", "id_column": "nr"}
    settings = settings_of(None, {"tfds", "id_column"}, **changed)
    assert [getattr(settings, name) for name in ("train_file", "eval_share", "text_column", "id_column")] == [
        None,
        0,
        None,
        "nr",
    ]
    # An additional file does not count as another source.
    settings = settings_of(None, {"predict_file"}, **of_the_run, predict_file="b.csv")
    assert (settings.train_file, settings.text_column) == ("a.csv", "body")


def test_a_task_of_glue_may_come_from_tensorflow_datasets():
    tfds = pytest.importorskip("tensorflow_datasets")
    with warnings.catch_warnings(), tfds.testing.mock_data(num_examples=4):
        warnings.simplefilter("ignore")
        data = read(tfds="glue/mrpc", do_train=True, do_eval=True, do_predict=True)
    assert (data.glue.name, data.labels, data.metrics) == ("mrpc", ("0", "1"), ("f1", "accuracy"))
    assert [len(examples) for examples in (data.train, data.dev, data.test)] == [4, 4, 4]
    assert {example.label for example in data.test} == {None}


@pytest.fixture
def read_records(monkeypatch):
    """Reads records with these labels, whose classes may have names, as a dataset of TensorFlow Datasets."""

    def read_records(values, names=None, **settings):
        label = types.SimpleNamespace(names=names) if names else object()
        builder = types.SimpleNamespace(info=types.SimpleNamespace(features={"text": object(), "label": label}))
        records = [{"text": b"text %d" % number, "label": value} for number, value in enumerate(values)]
        stand_in = types.SimpleNamespace(builder=lambda *_, **__: builder, load=lambda *_, **__: records)
        stand_in.as_numpy, stand_in.core = list, types.SimpleNamespace(DatasetNotFoundError=KeyError)
        monkeypatch.setitem(sys.modules, "tensorflow_datasets", stand_in)
        return read(tfds="own", **{"do_train": True} | settings)

    return read_records


@pytest.mark.parametrize(
    ("kind", "values", "names", "labels"),
    [
        ("regression", [np.int64(3), np.int64(5)], None, [3.0, 5.0]),
        ("regression", [b"0.5", b"2"], None, [0.5, 2.0]),
        ("single_label", [np.int64(3), np.float32(0.5), np.float32(1)], None, ["3", "0.5", "1"]),
        ("single_label", [np.True_, False], None, ["True", "False"]),
        ("single_label", [np.int64(1), np.int64(0)], ["no", "yes"], ["yes", "no"]),
        # One of these names is a part of the other.
        ("multi_label", [b"sports", b"port, sea"], None, [("sports",), ("port", "sea")]),
        ("multi_label", [np.int64(0), np.int64(1)], ["port", "sports"], [("port",), ("sports",)]),
    ],
)
def test_labels_of_tensorflow_datasets_are_those_of_a_file(read_records, kind, values, names, labels):
    more = {"label_separator": ","} if kind == "multi_label" else {}
    data = read_records(values, names, kind=kind, **more)
    assert [example.label for example in data.train] == labels
    if kind == "multi_label":
        assert data.kind.targets(data.train).sum(-1).tolist() == [len(names) for names in labels]


def test_mistakes_in_records_of_tensorflow_datasets(read_records):
    for kind, values, message in (
        ("regression", [b"good"], 'the label "good" is not a finite number; correct it'),
        ("single_label", [b""], 'the column "label" is empty; every example needs a label here'),
        ("single_label", [b"\xff"], 'the feature "label" is not a text in UTF-8; choose another'),
    ):
        with pytest.raises(Mistake, match=f"^own train example 0: {message}"):
            read_records(values, kind=kind)
    stored = {"task": "classification", "labels": ["a", "b"], "is_pair": False}
    data = read_records([b"", b"c"], stored=stored, do_train=False, do_predict=True)
    assert [example.label for example in data.test] == [None, None]


def test_the_user_says_whether_there_is_a_header(write, messages):
    train = write("train.csv", "a,x", "b,y", "c,x", "d,y")
    columns = {"text_column": "0", "label_column": "1"}
    for has_header, texts in (("auto", "abcd"), ("false", "abcd"), ("true", "bcd")):
        data = read(do_train=True, train_file=train, **columns, has_header=has_header)
        assert [example.text_a for example in data.train] == list(texts)


def test_held_out_examples_of_a_changed_file_are_not_evaluated_on(write, tmp_path):
    train = write("train.csv", "text,label", *(f"t{number},{number % 2}" for number in range(10)))
    stored = {"task": "classification", "labels": ["0", "1"], "is_pair": False}
    settings = {"do_eval": True, "train_file": train, "eval_share": 0.2, "output_dir": str(tmp_path)}
    message = r"^eval_share=0.2 of .*train.csv: the model in .* was not trained on exactly the rest of it; give"
    with pytest.raises(ValueError, match=message):
        read(stored, **settings)
    facts = {"data": {"labels": ["0", "1"], "training_examples": 8, "their_sha256": "0" * 16}}
    (tmp_path / "run_config.json").write_text(json.dumps({"program": "p", "settings": {}, "facts": facts}))
    with pytest.raises(ValueError, match=message):
        read(stored, **settings)
    trained = read(do_train=True, train_file=train, eval_share=0.2)
    facts["data"]["their_sha256"] = digest_of(trained.train)[:16]
    (tmp_path / "run_config.json").write_text(json.dumps({"program": "p", "settings": {}, "facts": facts}))
    assert len(read(stored, **settings).dev) == 2


def test_pairs_and_single_texts_are_not_mixed(write):
    pairs = write("pairs.csv", "text,text_pair,label", "a,b,x", "c,d,y")
    single = write("single.csv", "text,label", "a,x")
    with pytest.raises(
        ValueError, match=r"^single.csv line 2: a single text, but the model is trained on a pair of texts"
    ):
        read(do_train=True, do_eval=True, train_file=pairs, eval_file=single)
    stored = {"task": "classification", "labels": ["x", "y"], "is_pair": True}
    with pytest.raises(ValueError, match=r"single text, .*; name the second text with text_pair_column$"):
        read(stored, do_predict=True, predict_file=single)
    read({**stored, "is_pair": False}, do_predict=True, predict_file=pairs, text_column="text")
