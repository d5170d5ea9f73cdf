"""Readers shared by the tests of data preparation."""

import numpy as np

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def parsed_examples_of(file):
    """Returns the examples of a record file as protocol messages."""
    import tensorflow as tf  # the tests of the tokenizer do not need it

    return [
        tf.train.Example.FromString(record).features
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    ]


def examples_of(file):
    """Returns the examples of a record file as dicts of lists."""
    return [
        {name: list(value.int64_list.value or value.float_list.value) for name, value in features.feature.items()}
        for features in parsed_examples_of(file)
    ]


def take(dataset, count):
    """Returns the first batches of a dataset as dicts of arrays."""
    return [{name: value.numpy() for name, value in batch.items()} for batch in dataset.take(count)]


def assert_same_batches(found, expected):
    for batch, other in zip(found, expected, strict=True):
        assert batch.keys() == other.keys()
        for name, value in other.items():
            np.testing.assert_array_equal(batch[name], value, err_msg=name)


def gold_file(answers):
    """Returns a SQuAD file of one paragraph: the answer texts by id."""
    questions = [
        {"id": id_, "question": "?", "answers": [{"text": text, "answer_start": 0} for text in texts]}
        for id_, texts in answers.items()
    ]
    return {"version": "x", "data": [{"title": "T", "paragraphs": [{"context": "c", "qas": questions}]}]}
