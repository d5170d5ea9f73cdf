"""Features of examples equal the original BERT's, and windows over long texts."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data_prep.text.model_inputs import encode_pair, share_room
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.tasks.benchmarks.glue import GLUE_TASKS
from bert_keras.tasks.benchmarks.glue_files import read_glue
from bert_keras.tasks.classification.labels import LABELS, Choice
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.tables.encoding import make_features, window_starts
from bert_keras.tasks.tables.examples import Example


@pytest.mark.parametrize(
    ("name", "folder", "golden", "length", "share"),
    [("mrpc", "MRPC", "mrpc_dev_seq48", 48, 61.5), ("cola", "CoLA", "cola_dev_seq16", 16, 16.0)],
)
def test_features_equal_those_of_the_original(shared_dir, messages, name, folder, golden, length, share):
    task = GLUE_TASKS[name]
    tokenizer = FullTokenizer(shared_dir("data/vocab") / "uncased.txt")
    examples = read_glue(task, shared_dir(f"data/glue/{folder}"), "dev")[:200]
    features = make_features(examples, tokenizer, length, what="dev", labels=LABELS[task.kind](task.labels))
    with np.load(shared_dir("golden/classifier_features") / f"{golden}.npz") as expected:
        assert set(features) == {*expected, "example_index"}
        for key, values in expected.items():
            assert features[key].dtype == values.dtype
            np.testing.assert_array_equal(features[key], values)
    assert messages == [f"{share} % of the 200 examples of dev are longer than {length} tokens and are cut"]


def pop_like_the_original(num_a, num_b, room):
    while num_a + num_b > room:
        if num_a > num_b:
            num_a -= 1
        else:
            num_b -= 1
    return num_a, num_b


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 57))
def test_the_longer_text_loses_tokens(num_a, num_b, room):
    assert share_room(num_a, num_b, room) == pop_like_the_original(num_a, num_b, room)


@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 20))
def test_windows_cover_every_piece_and_end_at_the_last(num_pieces, room, doc_stride):
    doc_stride = min(doc_stride, room)
    starts = window_starts(num_pieces, room, doc_stride)
    assert starts == list(range(0, doc_stride * len(starts), doc_stride))
    assert starts[-1] + room >= num_pieces
    assert len(starts) == 1 or starts[-2] + room < num_pieces


def tokens_of(tokenizer, input_ids):
    return "".join(tokenizer.inv_vocab[id_] for id_ in input_ids)


@pytest.mark.parametrize(
    ("text_a", "text_b", "tokens", "num_first", "num_cut"),
    [
        ("a b", None, "[CLS]ab[SEP]", 4, 0),
        ("a b", "", "[CLS]ab[SEP]", 4, 0),
        ("a b c d e f g h", None, "[CLS]abcdef[SEP]", 8, 2),
        ("a b c d e f g h", "\u00ad", "[CLS]abcdef[SEP]", 8, 2),
        ("", "x", "[CLS][SEP]x[SEP]", 2, 0),
        ("a b", "x y z", "[CLS]ab[SEP]xyz[SEP]", 4, 0),
        ("a b c d", "w x y z", "[CLS]abc[SEP]wx[SEP]", 5, 3),
        ("a", "u v w x y z", "[CLS]a[SEP]uvwx[SEP]", 3, 2),
    ],
)
def test_sequences(letters_tokenizer, text_a, text_b, tokens, num_first, num_cut):
    input_ids, segment_ids, cut = encode_pair(letters_tokenizer, text_a, text_b, 8)
    assert tokens_of(letters_tokenizer, input_ids) == tokens
    assert segment_ids == [0] * num_first + [1] * (len(input_ids) - num_first)
    assert cut == num_cut


def unpack(tokenizer, features):
    """Returns the rows of features as text, with | before the second segment; checks mask and padding."""
    rows = []
    length = features["input_ids"].shape[-1]
    for ids, mask, segments in zip(
        *(features[name].reshape(-1, length) for name in ("input_ids", "input_mask", "segment_ids")), strict=True
    ):
        number = int(mask.sum())
        assert mask.tolist() == [1] * number + [0] * (length - number)
        assert not ids[number:].any()
        assert not segments[number:].any()
        first = number - int(segments.sum())
        assert segments[:number].tolist() == [0] * first + [1] * (number - first)
        rows.append(tokens_of(tokenizer, ids[:first]) + "|" + tokens_of(tokenizer, ids[first:number]))
    return rows


def test_windows_over_the_first_text(letters_tokenizer, messages):
    examples = [
        Example("0", "a b c d e f g h", None, "y"),
        Example("1", "a b", "z", "n"),
        Example("2", "a b c d", "v w x y z", "y"),
    ]
    features = make_features(examples, letters_tokenizer, 7, 2, "dev", SingleLabel(("n", "y")))
    assert unpack(letters_tokenizer, features) == [
        "[CLS]abcde[SEP]|",
        "[CLS]cdefg[SEP]|",
        "[CLS]efgh[SEP]|",
        "[CLS]ab[SEP]|z[SEP]",
        "[CLS]ab[SEP]|vw[SEP]",
        "[CLS]cd[SEP]|vw[SEP]",
    ]
    assert features["example_index"].tolist() == [0, 0, 0, 1, 2, 2]
    assert features["label_ids"].tolist() == [1, 1, 1, 0, 1, 1]
    assert features["example_index"].dtype == features["label_ids"].dtype == np.int32
    assert messages == [
        "66.7 % of the 3 examples of dev are longer than 7 tokens and are read through windows: 6 in total, "
        "2 tokens apart; the second text of 1 was cut"
    ]


def test_choices_are_rows_of_their_example(letters_tokenizer, messages):
    examples = [Example("0", "a", None, "1", ("x", "y z")), Example("1", "b c d", None, "0", ("x y z", "u"))]
    features = make_features(examples, letters_tokenizer, 8, what="train", labels=Choice(("0", "1")))
    assert features["input_ids"].shape == (2, 2, 8)
    assert unpack(letters_tokenizer, features) == [
        "[CLS]a[SEP]|x[SEP]",
        "[CLS]a[SEP]|yz[SEP]",
        "[CLS]bcd[SEP]|xy[SEP]",
        "[CLS]bcd[SEP]|u[SEP]",
    ]
    assert features["label_ids"].tolist() == [1, 0]
    assert features["example_index"].tolist() == [0, 1]
    assert messages == ["50.0 % of the 2 examples of train are longer than 8 tokens and are cut"]


def test_labels_of_every_kind(letters_tokenizer, messages):
    def labels_of(kind, labels, *values):
        examples = [Example(str(index), "a", None, value) for index, value in enumerate(values)]
        features = make_features(examples, letters_tokenizer, 8, what="dev", labels=LABELS[kind](labels))
        return {name: values for name, values in features.items() if name.startswith("label")}

    values = labels_of("regression", (), 1.5, -2)["label_values"]
    assert (values.tolist(), values.dtype) == ([1.5, -2.0], np.float32)
    values = labels_of("multi_label", ("a", "b", "c"), ("c", "a"), ())["label_values"]
    assert (values.tolist(), values.dtype) == ([[1, 0, 1], [0, 0, 0]], np.float32)
    assert labels_of("single_label", ("a", "b"), None, None) == {}
    assert messages == ["all 2 examples of dev fit into 8 tokens"] * 3
    assert labels_of("single_label", ("a", "b"), "a", None) == {}
    assert messages[-1] == "dev: 1 of 2 examples have no label, so the labels of the others are left out"


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (None, {}, "dev has no examples; give at least one"),
        ({}, {"max_seq_length": 4}, "max_seq_length is 4, but [CLS], [SEP] and a token of"),
        ({}, {"doc_stride": 0}, "doc_stride is 0, but must be from 1 to 6, the room for a text"),
        ({}, {"doc_stride": 7}, "doc_stride is 7, but must be from 1 to 6"),
        ({"choices": ("b", "c")}, {"doc_stride": 2}, "doc_stride is not for multiple choice"),
        ({"choices": ("b",)}, {}, "dev.csv line 2: 1 choices; all examples need the same number"),
        ({"label": "x"}, {}, 'dev.csv line 2: label "x" is not one of n, y'),
    ],
)
def test_mistakes(letters_tokenizer, values, options, message):
    examples = [] if values is None else [Example("0", "a", source="dev.csv line 2", **values)]
    options = {"max_seq_length": 8, **options}
    with pytest.raises(ValueError, match=re.escape(message)):
        make_features(examples, letters_tokenizer, what="dev", labels=SingleLabel(("n", "y")), **options)


def test_a_vocabulary_without_special_tokens(tmp_path):
    file = tmp_path / "vocab.txt"
    file.write_text("[UNK]\n[CLS]\na\n")
    with pytest.raises(ValueError, match=r"the vocabulary lacks \[SEP\]; give that of the model"):
        make_features([Example("0", "a")], FullTokenizer(file), 8)
