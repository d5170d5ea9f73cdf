"""Pairs of segments: properties of every draw. test_pretraining.py compares the draws with the original BERT's."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.pretraining.instances import Instance, instances_of_document, truncate_pair
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings

VOCAB = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, **{f"w{i}": i for i in range(5, 4000)}}
VOCABULARY = MaskingVocabulary.from_vocab(VOCAB)


def corpus(*documents_of_lengths):
    """Makes documents with the given sentence lengths; every token of the corpus is different, from 5."""
    documents, token = Documents(len(VOCAB)), 5
    for lengths in documents_of_lengths:
        for length in lengths:
            documents.add_sentence([list(range(token, token + length))])
            token += length
        documents.end_document()
    return documents


def segments(instance):
    """Returns the two segments with their original tokens; the second is empty if there is only one."""
    tokens = instance.tokens.copy()
    for position, id_ in zip(instance.masked_lm_positions, instance.masked_lm_ids, strict=True):
        tokens[position] = id_
    assert tokens[0] == 2
    assert tokens[instance.first_length - 1] == tokens[-1] == 3
    return tokens[1 : instance.first_length - 1], tokens[instance.first_length : -1]


def instances_of(documents, settings, seed, index=0):
    return list(instances_of_document(documents, index, settings, VOCABULARY, random.Random(seed)))


@given(
    lengths=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=8), min_size=2, max_size=5),
    max_seq_length=st.integers(5, 60),
    short=st.sampled_from([0.0, 0.5, 1.0]),
    words=st.booleans(),
    seed=st.integers(),
)
def test_pairs_are_stretches_of_documents(lengths, max_seq_length, short, words, seed):
    documents = corpus(*lengths)
    starts = documents.sentence_starts
    settings = PretrainingDataSettings(
        max_seq_length, max_predictions_per_seq=4, short_seq_prob=short, do_whole_word_mask=words
    )
    for index in range(len(documents)):
        first, end = documents.sentences(index)
        own = set(range(starts[first] + 5, starts[end] + 5))
        for instance in instances_of(documents, settings, seed, index):
            a, b = segments(instance)
            assert a == list(range(a[0], a[-1] + 1))
            assert b == list(range(b[0], b[-1] + 1))
            assert len(a) + len(b) + 3 == len(instance.tokens) <= max_seq_length
            assert set(a) <= own
            if not instance.is_random_next:
                assert set(b) <= own
                assert b[0] > a[-1]
            assert 1 <= len(instance.masked_lm_ids) <= 4


def test_every_sentence_is_used_in_every_pass():
    # An epoch covers the whole document: tokens that a random next sentence displaces are used again.
    documents = corpus([3] * 40, [5] * 40)
    settings = PretrainingDataSettings(max_seq_length=40)
    for seed in range(30):
        pairs = [(segments(instance), instance.is_random_next) for instance in instances_of(documents, settings, seed)]
        used = [token for (a, b), is_random_next in pairs for token in a + b * (not is_random_next)]
        missing = set(range(5, 125)) - set(used)
        # Only truncated tokens may be missing: at most the excess of a chunk over the target.
        assert len(missing) <= 3 * len(pairs)
        assert len(used) == len(set(used))


def test_random_next_comes_from_another_document_and_is_long_enough_for_the_target():
    documents = corpus([4] * 6, [2] * 50, [2] * 50)
    settings = PretrainingDataSettings(max_seq_length=30, short_seq_prob=0)
    seen = set()
    for seed in range(50):
        for instance in instances_of(documents, settings, seed):
            a, b = segments(instance)
            if instance.is_random_next:
                seen.add(b[0] > 24)
                # Shorter than the target only where the other document ends.
                assert len(a) + len(b) == 27 or b[-1] in (128, 228)
    assert seen == {True}


def test_single_sentences_always_get_a_random_next():
    documents = corpus([60] * 5, [7])
    settings = PretrainingDataSettings(max_seq_length=32)
    instances = instances_of(documents, settings, 1)
    assert [instance.is_random_next for instance in instances] == [True] * 5


def test_in_a_corpus_of_one_document_the_random_next_comes_from_it():
    documents = corpus([5, 6])
    settings = PretrainingDataSettings(max_seq_length=8, max_predictions_per_seq=2, short_seq_prob=0)
    for seed in range(10):
        for instance in instances_of(documents, settings, seed):
            a, b = segments(instance)
            assert {*a, *b} <= set(range(5, 16))
            assert instance.is_random_next


def test_short_sequences_draw_their_target_once_a_document():
    documents = corpus([1] * 300, [1] * 300)
    for short, seed in ((0.0, 5), (1.0, 5)):
        settings = PretrainingDataSettings(max_seq_length=67, short_seq_prob=short)
        lengths = [len(instance.tokens) for instance in instances_of(documents, settings, seed)]
        draws = random.Random(seed)
        draws.random()
        target = draws.randint(2, 64) if short else 64
        assert max(lengths) == target + 3


@given(
    first=st.integers(1, 200),
    second=st.integers(1, 200),
    max_num_tokens=st.integers(2, 150),
    seed=st.integers(),
)
def test_truncation_equals_taking_tokens_from_lists(first, second, max_num_tokens, seed):
    a, b = list(range(first)), list(range(1000, 1000 + second))
    draws = random.Random(seed)
    while len(a) + len(b) > max_num_tokens:
        longer = a if len(a) > len(b) else b
        del longer[0 if draws.random() < 0.5 else -1]
    ours = random.Random(seed)
    (a_start, a_end), (b_start, b_end) = truncate_pair((0, first), (1000, 1000 + second), max_num_tokens, ours)
    assert a == list(range(a_start, a_end)) != []
    assert b == list(range(b_start, b_end)) != []
    assert ours.random() == draws.random()


def test_features_are_padded():
    instance = Instance([2, 9, 4, 3, 8, 3], 4, True, [2], [7])
    features = {
        "input_ids": [2, 9, 4, 3, 8, 3, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
        "masked_lm_positions": [2, 0, 0],
        "masked_lm_ids": [7, 0, 0],
        "masked_lm_weights": [1.0, 0.0, 0.0],
        "next_sentence_labels": [1],
    }
    assert instance.features(PretrainingDataSettings(8, 3)) == features
    without_task = PretrainingDataSettings(8, 3, sentence_task="none")
    assert instance.features(without_task) == {**features, "next_sentence_labels": [-1]}
    unmasked = PretrainingDataSettings(8, 3, dynamic_masking=True)
    for name in ("positions", "ids", "weights"):
        del features[f"masked_lm_{name}"]
    assert instance.features(unmasked) == features


@given(
    lengths=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=8), min_size=1, max_size=4),
    max_seq_length=st.integers(5, 40),
    short=st.sampled_from([0.0, 1.0]),
    seed=st.integers(),
)
def test_full_sentences_use_every_token_once_and_break_no_sentence_that_fits(lengths, max_seq_length, short, seed):
    documents = corpus(*lengths)
    settings = PretrainingDataSettings(max_seq_length, 3, short_seq_prob=short, sentence_task="none")
    starts = documents.sentence_starts
    for index in range(len(documents)):
        instances = instances_of(documents, settings, seed, index)
        texts = [segments(instance)[0] for instance in instances]
        first, end = documents.sentences(index)
        own_starts = [start + 5 for start in starts[first : end + 1]]
        assert [token for text in texts for token in text] == list(range(own_starts[0], own_starts[-1]))
        assert all(instance.first_length == len(instance.tokens) <= max_seq_length for instance in instances)
        assert not any(instance.is_random_next for instance in instances)
        draws = random.Random(seed)
        draws.random()
        target = draws.randint(2, max_seq_length - 2) if short else max_seq_length - 2
        for text, following in zip(texts, [*texts[1:], None], strict=True):
            cut = text[-1] + 1
            if cut not in own_starts:
                assert len(text) == target  # a sentence that is too long, or the rest of it
                assert not set(own_starts) & set(text[1:])
            elif following:
                next_end = min(start for start in own_starts if start > cut)
                assert len(text) + next_end - cut > target  # the next sentence does not fit


@given(
    lengths=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=8), min_size=1, max_size=4),
    max_seq_length=st.integers(5, 60),
    seed=st.integers(),
)
def test_sentence_order_uses_two_consecutive_segments(lengths, max_seq_length, seed):
    documents = corpus(*lengths)
    starts = documents.sentence_starts
    settings = PretrainingDataSettings(max_seq_length, 3, sentence_task="sentence_order")
    for index in range(len(documents)):
        first, end = documents.sentences(index)
        used = []
        for instance in instances_of(documents, settings, seed, index):
            a, b = segments(instance)
            if instance.is_random_next:
                a, b = b, a
            assert a == list(range(a[0], a[-1] + 1))
            assert b == list(range(b[0], b[-1] + 1))
            assert a[-1] < b[0]
            if len(a) + len(b) + 3 < max_seq_length:
                assert a[-1] + 1 == b[0]  # nothing was truncated
            used += a + b
        assert used == sorted(set(used))
        assert set(used) <= set(range(starts[first] + 5, starts[end] + 5))


@pytest.mark.parametrize("task", ["next_sentence", "sentence_order"])
def test_half_of_the_pairs_are_random_or_exchanged(task):
    documents = corpus([4] * 400, [4] * 400)
    settings = PretrainingDataSettings(64, short_seq_prob=0, sentence_task=task)
    rng, labels = random.Random(0), []
    for _ in range(40):
        instances = list(instances_of_document(documents, 0, settings, VOCABULARY, rng))
        labels += [instance.is_random_next for instance in instances]
        # Every sentence is used.
        assert sum(len(instance.tokens) - 3 for instance in instances) >= 1600 - 3 * len(instances)
    assert sum(labels) / len(labels) == pytest.approx(0.5, abs=0.03 if task == "next_sentence" else 0.04)


def test_a_document_of_one_token_has_no_order():
    settings = PretrainingDataSettings(64, sentence_task="sentence_order")
    assert instances_of(corpus([1]), settings, 0) == []


@pytest.mark.parametrize("task", ["next_sentence", "sentence_order", "none"])
def test_dynamic_masking_leaves_tokens_as_they_are(task):
    documents = corpus([9] * 10, [5] * 10)
    settings = PretrainingDataSettings(40, sentence_task=task, dynamic_masking=True)
    for instance in instances_of(documents, settings, 3):
        assert (instance.masked_lm_positions, instance.masked_lm_ids) == ([], [])
        assert 4 not in instance.tokens


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"max_seq_length": 4, "max_predictions_per_seq": 1}, "max_seq_length=4 is too short: three special tokens"),
        ({"max_predictions_per_seq": 0}, "max_predictions_per_seq=0 is not valid with max_seq_length=128; give"),
        ({"max_predictions_per_seq": 129}, "max_predictions_per_seq=129 is not .* a number from 1 to 128, about"),
        ({"replace_prob": 1.5}, "replace_prob=1.5: 1.5 is not a number from 0 to 1"),
        ({"replace_prob": 0.8, "keep_prob": 0.3}, "replace_prob=0.8 and keep_prob=0.3 are more than 1 together"),
        (
            {"replace_prob": 1.0, "keep_prob": 0.0, "dynamic_masking": True},
            "dynamic_masking masks with replace_prob",
        ),
        ({"masked_lm_prob": 1.01}, "masked_lm_prob=1.01: 1.01 is not a number from 0 to 1"),
        ({"short_seq_prob": -0.1}, "short_seq_prob=-0.1: -0.1 is not a number from 0 to 1"),
        ({"masked_lm_prob": float("nan")}, "masked_lm_prob=nan: nan is not a number"),
        ({"masked_spans": "long"}, "masked_spans=long: 'long' is not one of none, ngram, geometric"),
        ({"sentence_task": "x"}, "sentence_task=x: 'x' is not one of next_sentence, sentence_order, none"),
        (
            {"dynamic_masking": True, "do_whole_word_mask": True},
            "dynamic_masking masks single tokens during training; leave out do_whole_word_mask and",
        ),
        ({"dynamic_masking": True, "masked_spans": "ngram"}, "dynamic_masking masks single tokens"),
        (
            {"chinese_words": "jieba"},
            "chinese_words=jieba is for masks of whole words; also give do_whole_word_mask or masked_spans",
        ),
        ({"chinese_words": "", "do_whole_word_mask": True}, "chinese_words is empty; give jieba, spaces, none, or"),
        (
            {"chinese_words": "spaces", "dynamic_masking": True},
            "chinese_words=spaces is for masks of whole words, but dynamic_masking masks single tokens",
        ),
        ({"dupe_factor": 0}, "dupe_factor=0: 0 is not a whole number from 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        PretrainingDataSettings(**values)
