import itertools
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference_tokenizer import MODES, as_bytes, odd_text, write_odd_vocab, write_vocab

from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer, code_points
from bert_keras.data_prep.text.model_inputs import encode_pair
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.tasks.pretraining.predictor import encode_with_masks


def in_both_ways(*arguments):
    """Returns the tokenizer in the graph, and that in Python."""
    tokenizer = FullTokenizer(*arguments)
    return GraphTokenizer(tokenizer), tokenizer


# Lo and unassigned code points are sampled in the tests of odd texts; the slow test has all. Cs are not characters.
NOT_TESTED = ("Cn", "Co", "Cs", "Lo")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The tokenizers for odd text, in the graph and in Python, by (do_lower_case, strip_accents)."""
    vocab_file = write_odd_vocab(tmp_path_factory.mktemp("vocab") / "vocab.txt")
    return {mode: in_both_ways(vocab_file, *mode) for mode in MODES}


def split_words(graph, texts):
    """Returns the words before word pieces of each text."""
    codes, row_splits = code_points(texts)
    words, starts, sources = graph._split(codes)
    words = [word.decode() for word in tf.strings.unicode_encode(words, "UTF-8").numpy()]
    splits = tf.searchsorted(starts, tf.searchsorted(sources, row_splits)).numpy()
    return [words[first:end] for first, end in itertools.pairwise(splits)]


def assert_equal(tokenizers, texts):
    graph, python = tokenizers
    texts = as_bytes(texts)
    expected = [
        [(python.vocab[token], start, end) for token, start, end in python.tokenize_with_offsets(text)]
        for text in texts
    ]
    inputs = tf.constant(texts, tf.string, [len(texts)])
    assert graph.tokenize(inputs).to_list() == [python.encode(text) for text in texts]
    rows = zip(*(ragged.to_list() for ragged in graph.tokenize_with_offsets(inputs)), strict=True)
    assert [list(zip(*row, strict=True)) for row in rows] == expected
    assert split_words(graph, inputs) == [python.basic_tokenizer.tokenize(text) for text in texts]


# Equal to the original BERT and to the tokenizer in Python.


def test_ids_are_those_of_the_original(golden_texts):
    arguments, texts, ids = golden_texts
    tokenizers = in_both_ways(*arguments)
    assert tokenizers[0].tokenize(as_bytes(texts)).to_list() == ids
    assert_equal(tokenizers, texts[::12])


def assert_equal_words(tokenizers, chars):
    graph, python = tokenizers
    for first in range(0, len(chars), 8192):
        text = " ".join(f"a{char}b" for char in chars[first : first + 8192])
        assert split_words(graph, [text]) == [python.basic_tokenizer.tokenize(text)]


def test_assigned_characters(both):
    chars = [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char) not in NOT_TESTED]
    assert_equal_words(both[True, None], chars)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_code_point(both, mode):
    chars = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]
    assert len(chars) == 1_112_064
    assert_equal_words(both[mode], chars)


def test_ascii_characters_side_by_side(both):
    chars = [chr(code) for code in range(32, 127) if not chr(code).isalnum()] + list("azAZ09\t\n\r")
    assert_equal(both[True, None], [f"{a}{b} un{a}{b}running" for a in chars for b in chars])


sigma_text = st.text(alphabet="ΣΣAas'.:\u00ad\u0345\u0301\x00 \u2028中1_ªǅ\u200b", max_size=12)
marks_text = st.text(
    alphabet="a!中\u302e\u302f\ufe20\u093c\u0327\u034f\u0488\U0001d15e\U0001d165\U0001d16d\U00016ff0안"
)


@settings(max_examples=60)
@given(st.lists(odd_text | sigma_text | marks_text, max_size=4), st.sampled_from(MODES))
@example(["ΑΣ", "Α", "ΑΣ.\u0301b Σ", "Α\x00Σ\x00 ΑΣ\u2028Σ"], (True, None))
@example(["\u302e\ufe20\u093c\u302f" * 3, "a\ufe20\u302e!\u0301\u302e中\u0301\u302e\U0001d15e\u302e"], (True, None))
@example(["e\u0301", "\u0301e", "x", "\u0130\uc548\U0001d15e"], (False, True))
@example([], (True, None))
@example(["", " ", "\u3000", "\x00"], (True, None))
def test_odd_texts_final_sigmas_and_marks(both, texts, mode):
    assert_equal(both[mode], texts)


@settings(max_examples=50)
@given(
    st.lists(
        st.sampled_from(
            [b"\xe2", b"\x82", b"\xac", b"\xf0\x9f", b"\x92\xa9", b"\xed\xa0\x80", b"\xc0\x80", b"\xff", b"a"]
        )
        | st.binary(max_size=3)
        | st.sampled_from(["é", " ", "中", "\ufffd", "\ufeff", "\uffff", "Σ"]).map(str.encode),
        max_size=12,
    ).map(b"".join)
)
@example(b"a\xe2\x82")
@example(b"\xef\xbb\xbfa\xef\xbf\xbdb")
@example(b"\xf4\x90\x80\x80a\xf5b\xf8\x88\x80\x80\x80c")
def test_what_is_not_utf8_is_dropped(both, text):
    assert_equal(both[True, None], [text, b"un\xff", text + text])


def test_long_words(both):
    texts = [char * length for char in "abé中안\U0001d15eİ" for length in (66, 67, 100, 101, 199, 200, 201, 2000)]
    texts += ["a" * 200 + "\x00", "a" * 200 + "\u0301", "a" * 201 + "!", "un " + "b" * 999 + " un"]
    for mode in MODES[:2]:
        assert_equal(both[mode], texts)


ODD_TOKENS = [
    *("[UNK]", "a", "", "b", "a", "  ##b  ", "##", "\u3000", "x y", "## y", "\x0b", "c\x00d", "##\x01e", "don't"),
    *("a.b", "##.", ".b", ".", "#", "###", "##b", "x", "y", "c", "\u00e9", "##\u0301", "z" * 201, "0", "##1"),
]
ODD_TEXTS = [
    *("", "a ab abb", "x y xy x  y", "## # ### #b", "c\x00d cd c\x0bd", "don't a.b .b a. b", "é e\u0301 aé", "\x01"),
    *("z" * 201, " 0", "a0 01 a1", "[UNK] [CLS]", "unk", "\u3000 ", "\u2028a"),
]


def test_odd_vocabulary(tmp_path):
    vocab_file = write_vocab(tmp_path / "vocab.txt", *ODD_TOKENS)
    tokenizers = in_both_ways(vocab_file)
    assert_equal(tokenizers, ODD_TEXTS)
    for text in ODD_TEXTS[::3]:
        assert_equal(tokenizers, [text])


# Masks and special tokens.


@pytest.fixture(scope="module")
def with_masks(tmp_path_factory):
    """Like `both` for one mode, with a vocabulary that has [MASK] and two repeated tokens."""
    vocab_file = write_odd_vocab(tmp_path_factory.mktemp("vocab") / "vocab.txt", "un", "[MASK]", "##un")
    return in_both_ways(vocab_file)


@settings(max_examples=25)
@given(st.lists(st.lists(odd_text | st.sampled_from(["[MASK]", "[MA", "SK]"]), max_size=5).map("".join), max_size=4))
@example([])
@example(["", "[MASK]", "[MASK][MASK]un[MASK]un [MASK]", "[[MASK]] [MASK [mask]", "ΑΣ[MASK]Σ[MASK]\u0301"])
def test_literal_masks(with_masks, texts):
    graph, python = with_masks
    texts = as_bytes(texts)
    inputs = tf.constant(texts, tf.string, [len(texts)])
    expected = [encode_with_masks(python, text.decode(errors="ignore")) for text in texts]
    assert graph.tokenize_with_masks(inputs).to_list() == expected
    broken = tf.constant([text.replace(b"MASK", b"MA\xe2\x82SK") for text in texts], tf.string, [len(texts)])
    assert graph.tokenize_with_masks(broken).to_list() == expected


def test_tokens_of_ids(with_masks):
    graph, python = with_masks
    assert graph.mask_id == python.vocab["[MASK]"] == python.vocab_size - 2
    tokens = [token.decode() for token in graph.tokens_of(tf.range(python.vocab_size)).numpy()]
    lost = {2, 3}  # un and ##un, whose id is that of their last line
    assert [tokens[id_] for id_ in lost] == ["[UNK]"] * 2
    assert tokens == ["[UNK]" if id_ in lost else python.inv_vocab[id_] for id_ in range(python.vocab_size)]
    assert graph.tokens_of([[0, 1]]).shape == (1, 2)


# The input of a model.


@pytest.mark.parametrize("has_second", [True, False])
@pytest.mark.parametrize("max_seq_length", [5, 9])
def test_packing_is_that_of_python(letters_vocab_file, max_seq_length, has_second):
    graph, python = in_both_ways(letters_vocab_file)
    pairs = [("abcdefgh"[:a], "klmnopqr"[:b] if has_second else None) for a in range(9) for b in range(9)]
    first, second = (graph.tokenize([text or "" for text in texts]) for texts in zip(*pairs, strict=True))
    for rows in (slice(None), slice(1), slice(40, 41), slice(0)):
        features, is_cut = graph.pack(first[rows], second[rows] if has_second else None, max_seq_length)
        expected = python(pairs[rows], max_seq_length, pad_to_longest=True)
        assert list(features) == list(expected)
        for name, values in features.items():
            np.testing.assert_array_equal(values, expected[name], err_msg=name)
            assert values.dtype == tf.int32
        assert is_cut.numpy().tolist() == [encode_pair(python, *pair, max_seq_length)[2] > 0 for pair in pairs[rows]]


# Mistakes.


def test_vocabularies_that_are_refused(tmp_path):
    name = tmp_path / "vocab.txt"
    with pytest.raises(ValueError, match=r"vocab.txt lacks \[UNK\], the token for unknown words; add it$"):
        GraphTokenizer(FullTokenizer(["a", "[CLS]"]), name)
    tokens = ["[UNK]", "##" + "中" * 85 + "a", "##" + "中" * 86]
    with pytest.raises(ValueError, match=r"vocab.txt line 3: a token of 258 bytes, but a graph allows at most 256;"):
        GraphTokenizer(FullTokenizer(tokens), write_vocab(name, *tokens))


def test_input_that_cannot_be_packed():
    tokenizer = GraphTokenizer(FullTokenizer(["[UNK]", "a", "[CLS]"]))
    ids = tokenizer.tokenize(["a"])
    with pytest.raises(ValueError, match=r"^the vocabulary lacks \[CLS\] or \[SEP\], which a model's input needs"):
        tokenizer.pack(ids, ids, 8)
    tokenizer = GraphTokenizer(FullTokenizer(["[UNK]", "a", "[CLS]", "[SEP]"]))
    with pytest.raises(
        ValueError, match=r"^sequence_length is 4, but \[CLS\], \[SEP\] and a token of each text need 5"
    ):
        tokenizer.pack(ids, None, 4)
    with pytest.raises(ValueError, match=r"^the vocabulary lacks \[MASK\]; give that of a model that was pre-"):
        tokenizer.tokenize_with_masks(["a"])
