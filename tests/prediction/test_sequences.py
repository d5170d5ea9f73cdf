"""Masks in text, windows, and long texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.tasks.pretraining.predictor import encode_with_masks, fit_pair, fit_text, window_start

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b", "[", "]", "mask", "sep"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    file.write_text("".join(f"{token}\n" for token in VOCAB))
    return FullTokenizer(file)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a [MASK] b", "a [MASK] b"),
        ("ab[MASK]b", "a ##b [MASK] b"),
        ("[MASK][MASK] [MASK]", "[MASK] [MASK] [MASK]"),
        ("[MASK]", "[MASK]"),
        ("", ""),
        (" \t", ""),
        # Only the mask is special in a text; the rest is tokenised like the original BERT.
        ("[SEP] [mask]", "[ sep ] [ mask ]"),
        ("[[MASK]]", "[ [MASK] ]"),
        ("A é[MASK]", "a [UNK] [MASK]"),
    ],
)
def test_the_mask_is_found_before_the_text_is_split(tokenizer, text, tokens):
    assert encode_with_masks(tokenizer, text) == [VOCAB.index(token) for token in tokens.split()]


def test_long_texts_are_refused_or_cut_or_read_through_windows(messages):
    told = "line 4 has 5 tokens, 2 more than the 3 that the model takes; "
    message = f"^{told}make it shorter, or choose long=truncate or long=window$"
    with pytest.raises(ValueError, match=message):
        fit_text([1, 2, 3, 4, 5], 3, "error", "line 4")
    with pytest.raises(ValueError, match=message):
        fit_pair([1, 2, 3], [4, 5], 3, "error", "line 4")
    assert fit_text([1, 2, 3, 4, 5], 3, "truncate", "line 4") == [1, 2, 3]
    assert fit_text([1, 2, 3, 4, 5], 3, "window", "line 4") == [1, 2, 3, 4, 5]
    assert messages == [f"{told}only the first 3 are used", f"{told}it is read through windows"]


@pytest.mark.parametrize(
    ("place", "num_tokens", "room", "start"),
    [(0, 3, 5, 0), (2, 3, 5, 0), (0, 9, 5, 0), (2, 9, 5, 0), (3, 9, 5, 1), (6, 9, 5, 4), (8, 9, 5, 4), (4, 9, 4, 2)],
)
def test_a_window_has_the_place_in_its_middle_or_ends_with_the_text(place, num_tokens, room, start):
    assert window_start(place, num_tokens, room) == start


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_a_window_holds_its_place_and_wastes_no_room(num_tokens, room, data):
    place = data.draw(st.integers(0, num_tokens - 1))
    start = window_start(place, num_tokens, room)
    assert start <= place < start + room
    assert 0 <= start <= max(0, num_tokens - room)


def truncate_as_the_original(first, second, room):
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    return first, second


@given(st.lists(st.integers(), min_size=1, max_size=12), st.lists(st.integers(), min_size=1, max_size=12), st.data())
def test_a_pair_is_cut_as_in_the_original(first, second, data):
    room = data.draw(st.integers(2, 24))
    kept_first, kept_second = truncate_as_the_original(first, second, room)
    assert fit_pair(first, second, room, "truncate", "pair 1") == (kept_first, kept_second)
    # A window keeps as many tokens of each text, but the last ones of the first text.
    assert fit_pair(first, second, room, "window", "pair 1") == (first[len(first) - len(kept_first) :], kept_second)
