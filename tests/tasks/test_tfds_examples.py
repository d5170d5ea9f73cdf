"""Examples from TensorFlow Datasets, on generated data: the tests download nothing."""

import re
import sys
import warnings

import pytest

from bert_keras.tasks.benchmarks.glue import GLUE_TASKS
from bert_keras.tasks.benchmarks.tfds import read_tfds
from bert_keras.tasks.classification.labels import LABELS
from bert_keras.tasks.tables.columns import Columns
from bert_keras.tasks.tables.examples import check_labels


@pytest.fixture(scope="module")
def tfds():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow_datasets")


@pytest.fixture
def read(tfds, monkeypatch):
    """Reads four generated records; fails on any download."""

    def refuse(*arguments, **options):
        raise AssertionError("a download was tried")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", refuse)

    def read(*arguments, **options):
        with warnings.catch_warnings(), tfds.testing.mock_data(num_examples=4):
            warnings.simplefilter("ignore")
            return read_tfds(*arguments, **options)

    return read


@pytest.mark.parametrize("task", [task for name, task in GLUE_TASKS.items() if task.tfds and task.name == name])
def test_tasks_of_glue(read, task):
    split, tfds_split = task.tfds.splits[-2:][0]
    examples, labels = read(task.tfds.name, tfds_split if task.name == "mnli-mm" else split)
    assert labels == task.labels
    assert examples[0].source == f"{task.tfds.name} {tfds_split} example 0"
    assert {example.label is None for example in examples} == {split == "test"}
    assert {example.text_b is None for example in examples} == {task.name in ("cola", "sst-2")}
    LABELS[task.kind](labels).check(examples)


def test_examples_of_glue_have_the_order_of_its_files(read):
    """TensorFlow Datasets shuffles the examples; GLUE's site expects answers in file order."""
    examples, _ = read("glue/mrpc", "test")
    ids = [int(example.id) for example in examples]
    assert len(set(ids)) > 1
    assert ids == sorted(ids)
    assert {example.label for example in examples} == {None}


def test_classes_become_their_names(read, messages):
    examples, labels = read("imdb_reviews", "train")
    assert labels == ("neg", "pos")
    assert {example.label for example in examples} == set(labels)
    assert [example.id for example in examples] == ["0", "1", "2", "3"]
    assert messages == ['imdb_reviews: columns label, text; using "text" as the text, "label" as the label']


def test_features_can_be_named(read):
    examples, labels = read("ag_news_subset", "test", Columns("title", "description", "label"))
    assert labels == ("World", "Sports", "Business", "Sci/Tech")
    assert all(example.text_a and example.text_b for example in examples)
    check_labels(examples, labels)
    unlabelled, labels = read("ag_news_subset", "test", Columns("title", label="description"))
    assert labels is None
    assert [example.label for example in unlabelled] == [example.text_b.strip() for example in examples]
    examples, labels = read("ag_news_subset", "test", Columns(None, "title", id="title"))
    assert labels == ("World", "Sports", "Business", "Sci/Tech")
    assert all(example.text_b == example.id != example.text_a for example in examples)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("imdb_reviews", "train", Columns("review")), 'has no feature "review"; its features are label, text'),
        (("no_such_data_set", "train"), 'TensorFlow Datasets has no data set "no_such_data_set"; look the name up'),
        (("glue/ax", "train"), "glue/ax has no train split, only test; leave this step out"),
        (("mnist", "train", Columns("image")), 'mnist train example 0: the feature "image" is not one text'),
        (
            ("imdb_reviews", "train", Columns("text", label="text")),
            "imdb_reviews: text, pair and label are the features text, text; give each its own feature",
        ),
    ],
)
def test_mistakes(read, arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read(*arguments)


def test_a_missing_split(read, tfds, monkeypatch):
    def load(name, split, data_dir):
        raise ValueError(f"Unknown split {split!r}. Should be one of ['test', 'train'].")

    monkeypatch.setattr(tfds, "load", load)
    message = 'cannot read the split "validation" of imdb_reviews; choose another (Unknown split'
    with pytest.raises(ValueError, match=re.escape(message)):
        read("imdb_reviews", "validation")


def test_a_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ValueError, match=r"reading glue/mrpc needs .* not installed: pip install tensorflow-datasets"):
        read_tfds("glue/mrpc", "train")
