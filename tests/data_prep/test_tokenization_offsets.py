import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference_tokenizer import MODES, odd_text, write_vocab

from bert_keras.data_prep.text.tokenization import FullTokenizer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("un running", "un[0:2] runn[3:7] ##ing[7:10]"),
        ("\u0130un", "i[0:1] ##un[1:3]"),
        ("\u0130\u0130", "i[0:1] ##i[1:2]"),
        ("\uc548a", "\u110b[0:1] ##\u1161[0:1] ##\u11ab[0:1] ##a[1:2]"),
        ("\u00e9a e\u0301a", "e[0:1] ##a[1:2] e[3:5] ##a[5:6]"),
        ("e\u0301\u0327! \u0301e", "e[0:3] ![3:4] e[6:7]"),
        ("e\u0301!\u0301", "e[0:2] ![2:4]"),
        ("\x00e\u200ba\u00ad", "e[1:2] ##a[3:4]"),
        ("a\x0ba\x1ca\u0085a b", "a[0:1] ##a[2:3] ##a[4:5] ##a[6:7] b[8:9]"),
        ("a\u2028b\u3000e", "a[0:1] b[2:3] e[4:5]"),
        ("e\u4e00\u4e00\u0301e", "e[0:1] \u4e00[1:2] \u4e00[2:4] e[4:5]"),
        ("a\U0001f600\u0301b,un", "[UNK][0:4] ,[4:5] un[5:7]"),
        ("e" * 201, "[UNK][0:201]"),
        ("", ""),
    ],
)
def test_offsets(tmp_path, text, expected):
    jamo = ["\u110b", "##\u1161", "##\u11ab"]
    vocab = ["[UNK]", "un", "##un", "runn", "##ing", "i", "##i", "e", "a", "##a", "b", "!", ",", "\u4e00", *jamo]
    tokenizer = FullTokenizer(write_vocab(tmp_path / "vocab.txt", *vocab))
    offsets = tokenizer.tokenize_with_offsets(text)
    assert " ".join(f"{token}[{start}:{end}]" for token, start, end in offsets) == expected


def test_offsets_where_lower_case_is_longer_and_accents_stay(tmp_path):
    tokenizer = FullTokenizer(write_vocab(tmp_path / "vocab.txt", "[UNK]", "i", "##\u0307", "##s"), strip_accents=False)
    assert tokenizer.tokenize_with_offsets("\u0130S") == [("i", 0, 1), ("##\u0307", 0, 1), ("##s", 1, 2)]


def is_inside(token, text):
    return token in text or token.removeprefix("##") in text


def has_other_marks(text):
    """Returns whether text has combining marks that are kept, which NFD may reorder."""
    return any(unicodedata.combining(char) and unicodedata.category(char) != "Mn" for char in text)


@settings(max_examples=150)
@given(odd_text, st.sampled_from(MODES))
@example("\u302e\ufe20\u093c\u302f" * 3, (True, None))
def test_offsets_are_those_of_tokenize_and_inside_the_text(odd_tokenizers, text, mode):
    tokenizer = odd_tokenizers[mode]
    offsets = tokenizer.tokenize_with_offsets(text)
    assert [token for token, _, _ in offsets] == tokenizer.tokenize(text)
    last_start = last_end = 0
    for token, start, end in offsets:
        assert 0 <= start < end <= len(text)
        assert last_start <= start
        assert last_end <= end
        last_start, last_end = start, end
        # A cut within a word may end it with the other form of sigma.
        behind = "".join(tokenizer.basic_tokenizer.tokenize(text[start:end])).replace("ς", "σ")
        if token != "[UNK]":
            assert is_inside(token.replace("ς", "σ"), behind) or has_other_marks(text)


@given(st.text(alphabet="abunrig019 \t\n!#.,-[]'\u4e00\u3002\u20ac\u3042\u2028\ue000"))
def test_offsets_where_nothing_is_normalised(odd_tokenizers, text):
    last_end = 0
    for token, start, end in odd_tokenizers[False, None].tokenize_with_offsets(text):
        assert last_end <= start
        last_end = end
        if token == "[UNK]":
            assert not any(char.isspace() for char in text[start:end])
        else:
            assert text[start:end] == (token if token in ("#", "##") else token.removeprefix("##"))
