"""Tagging in a graph equals `EntityTagger` where one window is enough."""

import numpy as np
import pytest
from fine_tuned_models import OF_TAGS, TAGS, randomise, small_config, word_tagger, write_fine_tuned
from hypothesis import example, given, settings
from hypothesis import strategies as st
from known_models import TOKENS
from reference_tokenizer import odd_text
from tiny_exports import Both, open_both

from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer
from bert_keras.data_prep.text.vocabulary_files import tokenizer_config_text
from bert_keras.data_prep.text.words import split_words
from bert_keras.export.formats.saved_model import make_text_model
from bert_keras.modeling import TokenClassifierModel, weights_by_name
from bert_keras.prediction import open_model
from bert_keras.storage.tokenizer.keys import TextRules
from bert_keras.tasks.graph.networks import IdsNetwork


def open_tagger(folder, model, tokenizer, is_traced=False, words="conll"):
    settings = OF_TAGS | {"labels": TAGS, "words": words}
    return open_both(folder, model, "token_classification", tokenizer, is_traced, **settings)


def check(both, *texts):
    """Compares the graph with Python, and the numbers of words with those of Python's splitter."""
    found = both.check(*texts)
    assert not found["is_cut"].any()
    if both.live.settings["words"] == "conll":
        decoded = [text.encode("utf-8", "ignore").decode() for text in texts]
        assert found["num_words"].tolist() == [len(split_words(text)) for text in decoded]
    return found


@pytest.fixture(scope="module")
def linear(tmp_path_factory, tokenizer):
    model = randomise(TokenClassifierModel(small_config(num_hidden_layers=1), len(TAGS)), seed=3)
    return open_tagger(tmp_path_factory.mktemp("linear"), model, tokenizer, is_traced=True)


TEXTS = [
    "He was hungry, so she walks.",
    "Paris's capital U.S. 10,000...",
    "  \u0301 Zoë\u0301 首都a\tI\u200bs\u200b he \U0001f4a9\u2028b\n",
    "a b c d e f g h i j k l m n",
    "Paris",
    "",
    " \u200b\n",
    "\x00a\ufffdb\x01",
]


def test_tags_are_those_of_python(linear):
    found = check(linear, *TEXTS)
    assert found["num_words"].tolist() == [8, 6, 9, 14, 1, 0, 0, 1]
    assert len(set(found["tags"].ravel().tolist())) > 2
    for name, padding in {"words": b"", "tags": b"", "starts": -1, "ends": -1, "probabilities": 0}.items():
        assert check(linear, TEXTS[1])[name][0].tolist() == pytest.approx(found[name][1, :6].tolist(), abs=1e-5)
        assert set(found[name][1, 6:].tolist()) == {padding}
    assert linear.ask()["words"].shape == (0, 0)


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(TOKENS[5:]) | odd_text, max_size=3).map(" ".join), min_size=1, max_size=4))
@example(["\u0301", "\u0301\u0301.", "a\u0301-\u0301b"])
def test_tags_of_odd_texts_are_those_of_python(linear, texts):
    check(linear, *(text for text in texts if num_pieces(linear, text) <= 14))


@pytest.fixture(scope="module")
def by_tokens(tmp_path_factory, tokenizer):
    model = randomise(TokenClassifierModel(small_config(num_hidden_layers=1), len(TAGS)), seed=3)
    return open_tagger(tmp_path_factory.mktemp("tokens"), model, tokenizer, is_traced=True, words="transformers")


def test_words_of_the_tokenizer(by_tokens):
    found = check(by_tokens, *(text for text in TEXTS if any(map(str.isalnum, text))), "New-York/London", "a b-c. " * 2)
    assert found["words"][-2].tolist()[:6] == [b"New", b"-", b"York", b"/", b"London", b""]


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(TOKENS[5:]) | odd_text, max_size=3).map(" ".join), min_size=1, max_size=4))
def test_words_of_odd_texts_are_those_of_python(by_tokens, texts):
    check(by_tokens, *(text for text in texts if num_pieces(by_tokens, text) <= 14))


@pytest.mark.usefixtures("no_graphs")
def test_a_special_token_that_looks_like_a_piece_is_a_word(tmp_path):
    rules = TextRules(("##ing", "[UNK]"), is_foreign=True)
    model = randomise(TokenClassifierModel(small_config(num_hidden_layers=1), len(TAGS)), seed=3)
    write_fine_tuned(tmp_path, model, "token_classification", **OF_TAGS | {"labels": TAGS, "words": "transformers"})
    (tmp_path / "model" / "tokenizer_config.json").write_text(tokenizer_config_text(True, None, rules=rules))
    live = open_model(tmp_path)
    tokenizer = GraphTokenizer(live.tokenizer)
    both = Both(live, make_text_model(IdsNetwork(live.model, "token_classification"), tokenizer, live.settings))
    found = check(both, "##ing walking##ing##ing he")
    assert found["words"][0].tolist() == [b"##ing", b"walking", b"##ing", b"##ing", b"he"]


def num_pieces(both, text):
    """Returns the number of tokens of a text, word by word; a word without tokens counts as one."""
    text = text.encode("utf-8", "ignore").decode()
    encode = both.live.tokenizer.encode
    return sum(max(1, len(encode(text[start:end]))) for start, end in split_words(text))


def test_a_long_text_is_cut(linear):
    fits, more = "he " * 11 + "walked is", "he " * 11 + "walked is is"
    found = linear.check(fits, more, fits + "\u200b", fits + "\u0301", "he " * 13, "he " * 13 + "walks.")
    assert found["is_cut"].tolist() == [False, True, False, False, False, True]
    assert found["num_words"].tolist() == [13] * 6
    assert_same_rows(found, 0, 1)
    assert_same_rows(found, 4, 5)


def test_a_long_word_is_cut(linear):
    word = "a" + "s" * 13
    found = linear.check(word, word + "s", f"{word}s he", f"he {word}", "he")
    assert found["is_cut"].tolist() == [False, True, True, True, False]
    assert found["num_words"].tolist() == [1] * 5
    assert found["words"][:, 0].tolist() == [text.encode() for text in (word, word + "s", word + "s", "he", "he")]
    assert found["ends"][:, 0].tolist() == [14, 15, 15, 2, 2]
    assert_same_rows(found, 1, 2)
    assert_same_rows(found, 3, 4)


def assert_same_rows(found, first, second):
    for name in ("words", "tags", "starts", "ends"):
        assert found[name][first].tolist() == found[name][second].tolist()
    np.testing.assert_allclose(found["probabilities"][first], found["probabilities"][second], rtol=0, atol=1e-5)


def test_the_first_of_equal_tags_is_taken(tmp_path, tokenizer):
    model = word_tagger({"paris": "B-LOC", "he": "B-PER"})
    table = weights_by_name(model)["output_weights"]
    table.assign(table.numpy()[[1, 1, 2, 1, 2]])
    found = open_tagger(tmp_path, model, tokenizer).check("he is in Paris's")
    assert found["tags"].tolist() == [[b"B-PER", b"O", b"O", b"O", b"O"]]


def test_what_is_not_utf8_is_dropped(linear):
    text = b"\xc3He \xe2\x82is\xff, U\xff.S. \xed\xa0\x80P\xc3aris \xf0\x9f"
    found, expected = linear.ask(text), check(linear, text.decode("utf-8", "ignore"))
    assert found["words"].tolist() == [[b"He", b"is", b",", b"U.S.", b"Paris"]]
    assert {name: values.tolist() for name, values in found.items()} == {
        name: values.tolist() for name, values in expected.items()
    }
