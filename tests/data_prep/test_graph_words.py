"""Words of running text in a graph equal those of `data_prep.text.words` for every text."""

import sys

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference_tokenizer import as_bytes, odd_text

from bert_keras.data_prep.text.graph.tokenization import code_points, cut_out
from bert_keras.data_prep.text.graph.words import WordSplitter
from bert_keras.data_prep.text.words import APOSTROPHES, INNER, INNER_OF_NUMBERS, RUNS, SUFFIXES, split_words


@pytest.fixture(scope="module")
def words_in_graph():
    """Return a function of a list of bytes or str that returns the places and the words of each, from one graph."""
    splitter = WordSplitter()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def split(texts):
        codes, row_splits = code_points(texts)
        starts, ends, word_splits = splitter.split(codes, row_splits)
        offsets = tf.repeat(row_splits[:-1], word_splits[1:] - word_splits[:-1])
        return starts - offsets, ends - offsets, cut_out(codes, starts, ends), word_splits

    def run(texts):
        starts, ends, words, splits = (values.numpy() for values in split(tf.constant(as_bytes(texts), tf.string)))
        places = list(zip(starts.tolist(), ends.tolist(), strict=True))
        words = [word.decode() for word in words]
        return [(places[first:end], words[first:end]) for first, end in zip(splits[:-1], splits[1:], strict=True)]

    return run


def check(words_in_graph, texts):
    expected = []
    for text in as_bytes(texts):
        decoded = text.decode("utf-8", "ignore")
        places = split_words(decoded)
        expected.append((places, [decoded[start:end] for start, end in places]))
    assert words_in_graph(texts) == expected


MARKS = "".join(sorted(INNER | INNER_OF_NUMBERS | APOSTROPHES | RUNS))
SHAPES = st.lists(
    st.sampled_from(
        [
            *MARKS,
            *MARKS,
            *SUFFIXES,
            *map(str.upper, SUFFIXES),
            *"aBÉ\u01c5\u24b61²½٣首ſ\u212a\u0301\u200b\xad_!“ \n\u2028",
        ]
    ),
    max_size=24,
).map("".join)


@settings(max_examples=140)
@given(st.lists(SHAPES, min_size=2, max_size=6) | st.lists(odd_text, max_size=4))
@example(["'s.", "'S.", "'S.A", "x's's.", "I'd-a", "I'd-", "I'm'm", "'ll\u200b-a", "'l\u200bl", "''s''", "x'ſ."])
@example(
    ["A.B.", "A.B.C", "A.B..", "A..B.", "A-B.", ".A.", "..A", "A.\u0301.", "A.B\u200b.", "\u200bA.", "ab.c.", "\u24b6."]
)
@example(
    ["--", "-.-", "---a---", "-'-", "...'s", "1,2,3.", "1,a", "1:2:", ",1,", "½,½", "²,²", "٣,٣", "首-a", "a-首.b"]
)
@example(["a-", "-", "'", "s", ".", "A.", "", "A.", " ", "'s"])
@example(["He (John)\tsaid:\n\u201cNo!\u201d", "co-founded, AT&T O'Neill's 10,000 and/or", "U.S. J. Smith... U.S..."])
@example([])
@example(["", "\u200b", "\n"])
def test_marks_with_their_neighbours_and_odd_texts(words_in_graph, texts):
    check(words_in_graph, texts)


def test_characters_of_all_scripts_next_to_marks(words_in_graph):
    chars = [chr(code) for code in (*range(0x3000), *range(0x3000, sys.maxunicode + 1, 251)) if code >> 11 != 27]
    texts = [f"1,{char}-a {char}." for char in chars]
    for first in range(0, len(texts), 8192):
        check(words_in_graph, [" ".join(texts[first : first + 8192])])
