"""Masking: the original BERT's draws, and properties of every draw."""

import collections
import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data_prep.pretraining.masking import (
    MaskingVocabulary,
    Stream,
    choose,
    choose_spans,
    mask_tokens,
    shuffle,
)
from bert_keras.data_prep.pretraining.settings import SPAN_LENGTHS, PretrainingDataSettings, num_predictions

# Ids: 0 to 4 are special, 5 to 14 begin words, 15 to 24 are continuations.
VOCAB = {
    token: id_
    for id_, token in enumerate(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(10)), *(f"##c{i}" for i in range(10))]
    )
}
VOCABULARY = MaskingVocabulary.from_vocab(VOCAB)
CLS, SEP, MASK = 2, 3, 4

pairs = st.builds(
    lambda a, b: [CLS, *a, SEP, *b, SEP],
    st.lists(st.integers(5, 24), min_size=1, max_size=40),
    st.lists(st.integers(5, 24), min_size=1, max_size=40),
)


def mask(tokens, rng, prob=0.15, limit=20, vocabulary=VOCABULARY, **more):
    return mask_tokens(tokens, vocabulary, rng, PretrainingDataSettings(5000, limit, masked_lm_prob=prob, **more))


class Replacing(random.Random):
    """A generator whose `random()` makes all masked tokens random ones; its bits stay random."""

    def random(self):
        return 0.9

    def getrandbits(self, k):
        # Repeated, because CPython derives integers from random() in a class that overrides only random().
        return super().getrandbits(k)


@given(size=st.integers(0, 300), seed=st.integers())
def test_shuffle_has_the_result_and_the_draws_of_cpython(size, seed):
    ours, theirs = random.Random(seed), random.Random(seed)
    numbers, expected = list(range(size)), list(range(size))
    shuffle(numbers, ours)
    theirs.shuffle(expected)
    assert numbers == expected
    assert ours.random() == theirs.random()


@given(size=st.integers(0, 40), count=st.integers(0, 40), seed=st.integers())
def test_original_chooses_by_shuffling_all(size, count, seed):
    numbers, expected = list(range(size)), list(range(size))
    choose(numbers, count, random.Random(seed))
    random.Random(seed).shuffle(expected)
    assert numbers == expected[:count]


@pytest.mark.parametrize(("size", "count"), [(5, 2), (3, 3), (4, 9), (1, 1), (0, 2)])
def test_a_stream_chooses_every_order_equally_often(size, count):
    rng, seen = Stream(3), collections.Counter()
    for _ in range(4000):
        numbers = list(range(size))
        choose(numbers, count, rng)
        seen[tuple(numbers)] += 1
    orders = list(itertools.permutations(range(size), min(count, size)))
    assert set(seen) == set(orders)
    assert min(seen.values()) > 0.75 * 4000 / len(orders)


@pytest.mark.parametrize(
    ("num_tokens", "prob", "limit", "expected"),
    [(30, 0.15, 20, 4), (128, 0.15, 20, 19), (512, 0.15, 77, 77), (512, 0.15, 20, 20), (3, 0.15, 20, 1), (9, 0, 5, 1)],
)
def test_number_of_predictions_rounds_half_to_even_and_stays_within_one_and_the_limit(
    num_tokens, prob, limit, expected
):
    assert num_predictions(num_tokens, prob, limit) == expected


@given(tokens=pairs, prob=st.floats(0, 1), limit=st.integers(1, 30), words=st.booleans(), seed=st.integers())
def test_masking_keeps_its_promises(tokens, prob, limit, words, seed):
    before = tokens.copy()
    result = mask(tokens, random.Random(seed), prob, limit, do_whole_word_mask=words)
    assert tokens == before
    assert_is_masked(tokens, result, num_predictions(len(tokens), prob, limit))
    if not words:
        assert len(result[1]) == min(num_predictions(len(tokens), prob, limit), len(tokens) - 3)


def assert_is_masked(tokens, result, limit):
    """Checks that `mask_tokens` chose some tokens, changed no others, and returned the right ids."""
    masked, positions, ids = result
    assert len(positions) <= limit
    assert positions == sorted(set(positions))
    assert ids == [tokens[position] for position in positions]
    assert not {CLS, SEP} & set(ids)
    assert all(masked[i] == tokens[i] for i in range(len(tokens)) if i not in positions)


def test_rate_of_one_masks_everything_and_rate_of_zero_one_token():
    tokens = [CLS, 5, 6, 7, SEP, 8, 9, SEP]
    assert mask(tokens, random.Random(0), 1.0, 8)[1] == [1, 2, 3, 5, 6]
    assert mask(tokens, random.Random(0), 1.0, 8, do_whole_word_mask=True)[1] == [1, 2, 3, 5, 6]
    assert len(mask(tokens, random.Random(0), 0.0, 8)[1]) == 1


def test_replacements_are_drawn_by_place_among_the_keys_of_the_vocabulary():
    # Lines: the special tokens, then a b a c. The key "a" has the position of line 5 and the id of line 7.
    vocab = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 7, "b": 6, "c": 8}
    vocabulary = MaskingVocabulary.from_vocab(vocab)
    tokens = [CLS, 6, SEP, 8, 8, 8, 6, 7, SEP]
    masked, positions, ids = mask(tokens, Replacing(7), 1.0, 9, vocabulary)

    draws = random.Random(7)
    order = [1, 3, 4, 5, 6, 7]
    draws.shuffle(order)
    expected = tokens.copy()
    for position in order:
        expected[position] = list(vocab.values())[draws.randint(0, 7)]
    assert masked == expected
    assert 5 not in masked  # no key has the id of the repeated line
    assert (positions, ids) == ([1, 3, 4, 5, 6, 7], [6, 8, 8, 8, 6, 7])


def test_shares_of_mask_kept_and_replaced():
    rng, counts = random.Random(3), collections.Counter()
    tokens = [CLS, *[5] * 60, SEP, *[6] * 60, SEP]
    for _ in range(500):
        masked, positions, _ = mask(tokens, rng, 1.0, 200)
        counts.update("mask" if masked[i] == MASK else "kept" if masked[i] == tokens[i] else "new" for i in positions)
    # One in 25 replacements is the token itself, and one in 25 is the mask.
    assert counts["mask"] / 60000 == pytest.approx(0.8 + 0.1 / 25, abs=0.005)
    assert counts["kept"] / 60000 == pytest.approx(0.1 + 0.1 / 25, abs=0.005)
    assert counts["new"] / 60000 == pytest.approx(0.1 * 23 / 25, abs=0.005)


def assert_words_are_whole(tokens, positions):
    """Checks that a continuation is chosen with the token before it, also across [SEP]."""
    inner = [i for i, token in enumerate(tokens) if token not in (CLS, SEP)]
    for before, after in zip(inner, inner[1:], strict=False):
        if tokens[after] >= 15:
            assert (before in positions) == (after in positions)


@given(tokens=pairs, prob=st.floats(0, 1), seed=st.integers())
def test_whole_words_are_masked_with_all_their_tokens(tokens, prob, seed):
    _, positions, _ = mask(tokens, random.Random(seed), prob, 100, do_whole_word_mask=True)
    assert_words_are_whole(tokens, positions)


def test_word_continues_across_sep_and_too_long_words_are_skipped():
    tokens = [CLS, 15, 5, SEP, 16, 17, SEP]  # words: [1], [2, 4, 5]
    for seed in range(20):
        assert mask(tokens, random.Random(seed), 1.0, 2, do_whole_word_mask=True)[1] == [1]
        assert mask(tokens, random.Random(seed), 1.0, 4, do_whole_word_mask=True)[1] == [1, 2, 4, 5]


def test_a_vocabulary_without_special_tokens_is_refused_with_all_their_names():
    with pytest.raises(ValueError, match=r"the vocabulary of 2 tokens lacks \[UNK\], \[SEP\], \[MASK\]; pre-training"):
        MaskingVocabulary.from_vocab({"[CLS]": 0, "a": 1})


@given(tokens=pairs, kind=st.sampled_from(["ngram", "geometric"]), limit=st.integers(1, 20), seed=st.integers())
def test_spans_are_whole_words_within_the_limit(tokens, kind, limit, seed):
    result = mask(tokens, random.Random(seed), 0.5, limit, masked_spans=kind)
    assert_is_masked(tokens, result, num_predictions(len(tokens), 0.5, limit))
    assert_words_are_whole(tokens, result[1])


@pytest.mark.parametrize(("kind", "mean", "longest"), [("ngram", 18 / 11, 3), ("geometric", 3.797, 10)])
def test_spans_have_the_published_lengths(kind, mean, longest):
    # The first span of a text of one-token words; ten tokens may be masked.
    tokens, rng = [CLS, *[5] * 500, SEP], random.Random(1)
    lengths = [len(choose_spans(tokens, VOCABULARY, rng, 10, SPAN_LENGTHS[kind])[0]) for _ in range(400)]
    assert sum(lengths) / len(lengths) == pytest.approx(mean, rel=0.1)
    assert max(lengths) == longest
    shares = collections.Counter(lengths)
    if kind == "ngram":
        assert shares[1] / 400 == pytest.approx(6 / 11, abs=0.08)
        assert shares[2] / 400 == pytest.approx(3 / 11, abs=0.08)


def test_only_spans_of_spanbert_share_one_fate():
    tokens, num_mixed = [CLS, *[5] * 400, SEP], collections.Counter()
    for kind in ("ngram", "geometric"):
        for seed in range(200):
            masked, positions, _ = mask(tokens, random.Random(seed), 1.0, 3, masked_spans=kind)
            if positions[2] - positions[0] == 2:  # one span of three words
                num_mixed[kind] += len({masked[position] == MASK for position in positions}) == 2
    assert num_mixed["ngram"] > 10
    assert num_mixed["geometric"] == 0


def test_spans_next_to_each_other_share_one_fate():
    tokens, fates = [CLS, *[5] * 30, SEP], collections.Counter()
    for seed in range(40):
        shares = {"masked_spans": "geometric", "replace_prob": 0.5, "keep_prob": 0.5}
        masked, positions, _ = mask(tokens, random.Random(seed), 1.0, 30, **shares)
        assert positions == list(range(1, 31))  # three spans or more, because each has at most ten words
        fates[tuple(sorted(set(masked[1:31])))] += 1
    assert set(fates) == {(MASK,), (5,)}


def test_the_share_of_masked_tokens_is_the_same_with_spans():
    tokens, rng = [CLS, *[5, 15] * 60, SEP, *[6] * 5, SEP], random.Random(2)
    for kind in ("ngram", "geometric"):
        counts = [len(mask(tokens, rng, masked_spans=kind)[1]) for _ in range(50)]
        assert 17 < sum(counts) / 50 <= 19


@pytest.mark.parametrize(
    ("replaced", "kept"), [(1.0, 0.0), (0.0, 0.0), (0.0, 1.0), (0.8, 0.2), (0.9, 0.0), (0.5, 0.25)]
)
def test_other_shares_of_replacements(replaced, kept):
    """Table 8 of the paper has other shares; the chosen positions are the same."""
    tokens = [VOCABULARY.cls_id, *[9] * 4000, VOCABULARY.sep_id]
    shares = {"replace_prob": replaced, "keep_prob": kept}
    masked, positions, _ = mask(tokens, random.Random(1), 0.9, 5000, **shares)
    assert positions == mask(tokens, random.Random(1), 0.9, 5000)[1]
    found = np.array([masked[position] for position in positions])
    # A random token is a mask or the same token by chance.
    chance = (1 - replaced - kept) / len(VOCABULARY.replacement_ids)
    assert np.mean(found == VOCABULARY.mask_id) == pytest.approx(replaced + chance, abs=0.03)
    assert np.mean(found == 9) == pytest.approx(kept + chance, abs=0.03)
