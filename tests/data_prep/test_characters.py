import itertools
import random
import unicodedata

import pytest
from reference_tokenizer import MODES, words_as_described

from bert_keras.data_prep.text.characters import (
    CLEAN,
    CharacterTable,
    is_cjk_ideograph,
    is_control,
    is_punctuation,
    is_whitespace,
    normalize,
)
from bert_keras.data_prep.text.tokenization import BasicTokenizer


def test_character_classes():
    assert all(map(is_whitespace, " \t\r\n\u00a0"))
    assert not any(map(is_whitespace, "A-"))
    assert is_control("\u0005")
    assert not any(map(is_control, "A \t\r\U0001f4a9\ue000\u0378"))
    assert all(map(is_punctuation, "-$`.!/:@[{~\u3002\u2014"))
    assert not any(map(is_punctuation, "A 0\x1f\x7f\u20ac\u00b0"))
    assert all(map(is_cjk_ideograph, "\u4e00\u9fff\u3400\u4dbf\U00020000\U0002ceaf\uf900\U0002fa1f"))
    assert not any(map(is_cjk_ideograph, "\u33ff\u4dc0\ua000\u3042\u30ab\uc548\U0002ceb0\U00030000a"))


@pytest.fixture(scope="module")
def assigned():
    """All characters except those of the categories Cn, Co and most of Lo, which behave alike."""
    categories = {char: unicodedata.category(char) for char in map(chr, range(0x110000))}
    chars = [char for char, category in categories.items() if category not in ("Cn", "Co", "Lo")]
    return chars + [char for char, category in categories.items() if category == "Lo"][::23]


@pytest.mark.parametrize("mode", MODES)
def test_every_assigned_character_as_described(mode, assigned):
    basic = BasicTokenizer(*mode)
    for start in range(0, len(assigned), 1000):
        text = "".join(f"a{char}B {char} " for char in assigned[start : start + 1000])
        assert basic.tokenize(text) == words_as_described(text, basic.do_lower_case, basic.strip_accents)


def test_white_space_separates_the_cache_of_parts(assigned):
    separators = [char for char in assigned if char.isspace() and not is_control(char)]
    assert len(separators) == 22
    for separator in separators:
        assert separator.translate(CLEAN) in (" ", separator)
        assert ("\u0391\u03a3" + separator + "\u0391").lower() == "\u03b1\u03c2" + separator + "\u03b1"
        assert ("\u0391" + separator + "\u03a3").lower() == "\u03b1" + separator + "\u03c3"
    for cleaned in (" ", "\u2028", "\u2029"):
        assert unicodedata.combining(cleaned) == 0
        assert unicodedata.normalize("NFD", cleaned) == cleaned
    # Characters that cleaning turns into separators also separate in str.split; only removed characters join words.
    assert all(char.isspace() for char in assigned if char.translate(CLEAN) == " ")
    joiners = [char for char in assigned if char.isspace() and is_control(char)]
    assert "".join(joiners) == "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
    assert not any(char.isprintable() for char in joiners)


def test_character_table_is_bounded():
    table = CharacterTable(lambda char: char + char)
    table.max_entries = 3
    assert "abcdea".translate(table) == "aabbccddeeaa"
    assert len(table) == 3


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_long_rows_of_marks_are_normalised_as_short_ones(monkeypatch, form):
    monkeypatch.setattr("bert_keras.data_prep.text.characters._BLOCK", 4)
    rng = random.Random(form)
    marks = [chr(code) for code in range(0x300, 0x370)] + list("\u0f73\u0f75\u0f81\u0e38\u094d\u093c\u05b0\u0345")
    others = list("aA\u00e9\u1e69\uac01\ufb01\u00c5\u212b\u0958\u1100\u1161 x")
    for _ in range(300):
        text = "".join(rng.choices(marks + others, [8] * len(marks) + [3] * len(others), k=rng.randint(1, 60)))
        assert normalize(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("row", ["\u0301\u0316", "\u0344\u0316", "\u0f73\u0f71"])
def test_time_grows_in_proportion_to_a_row_of_marks(monkeypatch, row):
    """Counts the characters that one call sorts, not seconds."""
    longest, plain = [], unicodedata.normalize

    def record(form, text):
        classes = map(unicodedata.combining, text)
        rows = [[*row] for is_mark, row in itertools.groupby(classes, lambda number: number > 0) if is_mark]
        longest.extend(len(row) for row in rows if row != sorted(row))
        return plain(form, text)

    monkeypatch.setattr(unicodedata, "normalize", record)
    assert BasicTokenizer().tokenize("a" + row * 5000 + "b") == ["ab"]
    assert max(longest, default=0) < 2000
