"""Learning a vocabulary: the learned tokens and their order, for any size and any script."""

import collections
import os
import pathlib
import random
import subprocess
import sys

import pytest
from guards import at_least

from bert_keras.data_prep.corpus.coverage import cover
from bert_keras.data_prep.text import learning
from bert_keras.data_prep.text.learning import learn_vocabulary, reserved_tokens
from bert_keras.data_prep.text.splitting import BasicTokenizer


def words_of():
    """Makes 300 words of an artificial language with their frequencies; frequent words are short."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcde", k=rng.randint(1, 2 + number // 20))) for number in range(300)]
    return collections.Counter({word: 1 + 2000 // (number + 1) for number, word in enumerate(words)})


def test_reserved_tokens_have_the_ids_of_the_original(shared_dir):
    tokens = reserved_tokens(994)
    released = shared_dir("data/vocab/uncased.txt").read_text(encoding="utf-8").split("\n")
    assert tokens == released[:999]
    assert reserved_tokens(2) == ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def test_vocabulary_has_the_requested_size_and_the_frequent_words():
    counts = words_of()
    pieces = learn_vocabulary(counts, vocab_size=150, num_unused=3)
    assert len(pieces) == len(set(pieces)) == 150
    assert pieces[:8] == reserved_tokens(3)
    assert pieces[8:13] == list("abcde")
    assert {f"##{letter}" for letter in "abcde"} <= set(pieces)
    assert {word for word, _ in counts.most_common(20)} <= set(pieces)
    assert pieces == learn_vocabulary(dict(sorted(counts.items())), vocab_size=150, num_unused=3)
    coverage = cover(counts, pieces)
    assert coverage.unknown_share == 0
    assert 1 < coverage.pieces_per_word < cover(counts, learn_vocabulary(counts, 40, 3)).pieces_per_word


def test_text_with_few_words_gives_all_of_them_as_tokens():
    assert learn_vocabulary({"ab": 3, "b": 1}, vocab_size=100, num_unused=0)[5:] == ["a", "b", "##b", "ab"]


def syllables_of(first, count):
    """Makes a text of words with a stem and an ending, in the letters after a first one; frequent words are short."""
    rng = random.Random(first)
    letters = [chr(code) for code in range(first, first + 24) if chr(code).isalpha()]
    stems = ["".join(rng.choices(letters, k=rng.randint(2, 3 + number // 60))) for number in range(400)]
    endings = ["".join(rng.choices(letters, k=rng.randint(1, 3))) for _ in range(30)]
    weights = [1 / (number + 1) for number in range(400)]
    return [rng.choices(stems, weights)[0] + rng.choice(endings) for _ in range(count)]


def split_words(name):
    """Returns the words of a text, without spaces for Thai, in two halves with different lines."""
    if name in SCRIPTS:
        words = syllables_of(SCRIPTS[name], 6000)
        if name == "made Thai":
            words = ["".join(words[start : start + 8]) for start in range(0, len(words), 8)]
        lines = [words[start : start + 10] for start in range(0, len(words), 10)]
    else:
        tokenizer = BasicTokenizer(do_lower_case=False)
        lines = [tokenizer.tokenize(line) for line in TEXTS[name].read_text(encoding="utf-8").splitlines()]
    return [collections.Counter(word for line in lines[part::2] for word in line) for part in (0, 1)]


SCRIPTS = {"made Russian": 0x430, "made Arabic": 0x627, "made Hindi": 0x915, "made Thai": 0xE01, "made Latin": 0x61}
TEXTS = {path.stem: path for path in at_least(6, (pathlib.Path(__file__).parent / "languages").glob("*.txt"))}
TEXTS["sample"] = pathlib.Path(__file__).parents[2] / "data_prep" / "sample" / "documents.txt"


@pytest.mark.parametrize("name", [*SCRIPTS, *TEXTS])
def test_a_larger_vocabulary_never_splits_new_words_into_more_pieces(name):
    words, held_out = split_words(name)
    largest = learn_vocabulary(words, 100_000, num_unused=0)
    single = 5 + sum(len(piece.removeprefix("##")) == 1 for piece in largest[5:])
    sizes = [single + step * (len(largest) - single) // 12 for step in range(13)]
    found = [cover(held_out, largest[:size]) for size in sizes]
    averages = [coverage.pieces_per_word for coverage in found]
    assert averages == sorted(averages, reverse=True)
    assert averages[-1] < averages[0] or name == "chinese"
    assert len({coverage.unknown_share for coverage in found}) == 1
    for size in (sizes[0], sizes[5], 2 * len(largest)):
        assert learn_vocabulary(words, size, num_unused=0) == largest[:size]


def test_held_out_text_of_the_internet_needs_fewer_pieces_with_more_tokens(shared_dir):
    """Words of news and of an encyclopedia; 3,000 tokens were once worse than 2,000."""
    words, held_out = (
        collections.Counter(
            BasicTokenizer().tokenize(shared_dir(f"data/corpus/{name}.txt").read_text("utf-8")[:400_000])
        )
        for name in ("wikitext2", "bbc")
    )
    averages = [
        cover(held_out, learn_vocabulary(words, size, num_unused=0)).pieces_per_word
        for size in (500, 1000, 2000, 3000, 4000, 8000, 16000)
    ]
    assert averages == sorted(averages, reverse=True)
    assert averages[-1] < 1.5 < averages[1]


_LEARN = """
import collections, hashlib, random, sys
from bert_keras.data_prep.text.learning import learn_vocabulary

rng = random.Random(1)
words = ["".join(rng.choices("abcdefghij", k=rng.randint(1, 9))) for _ in range(3000)]  # almost all of them once
if sys.argv[1] == "backwards":
    words.reverse()
print(hashlib.sha256("\\n".join(learn_vocabulary(collections.Counter(words), 1500, 0)).encode()).hexdigest())
"""


def test_threads_hashes_and_the_order_of_words_change_nothing():
    """Most pairs of characters are equally frequent, so the order among equals decides."""
    digests = set()
    for threads, order in (("1", "forwards"), ("3", "backwards"), ("2", "forwards")):
        environment = {**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads}
        process = subprocess.run(
            [sys.executable, "-c", _LEARN, order], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(process.stdout)
    assert len(digests) == 1


def test_a_large_text_is_learned_in_proportion(monkeypatch):
    counts = words_of()
    exact = learn_vocabulary(counts, 150, 0)
    many = {word: 10**9 * count for word, count in counts.items()}
    monkeypatch.setattr(learning, "_MOST_OCCURRENCES", counts.total())
    assert learn_vocabulary(many, 150, 0) == exact
    monkeypatch.setattr(learning, "_MOST_OCCURRENCES", counts.total() // 4)
    assert len({*learn_vocabulary(many, 150, 0)} & {*exact}) > 130


def test_an_alphabet_that_does_not_fit_is_refused():
    message = "vocab_size=8 is too small for 7 reserved tokens and 2 characters at the beginning .* need 9; give"
    with pytest.raises(ValueError, match=message):
        learn_vocabulary({"ab": 3}, vocab_size=8, num_unused=2)
    pieces = learn_vocabulary({"ab": 3, "aac": 5, "a": 9}, vocab_size=9, num_unused=0, alphabet_size=1)
    assert set(pieces[5:]) <= {"a", "##a", "aa"}


@pytest.mark.parametrize(
    ("counts", "size", "expected"),
    [
        ({"ab": 3}, 2, {"a", "##b"}),
        ({"ab": 3, "b": 1}, 3, {"a", "##b", "b"}),
        ({"ab": 3, "cd": 2, "ea": 2, "ae": 1, "c": 1}, 7, {"a", "##b", "c", "##d", "e", "##a", "##e"}),
        ({"力": 5, "加": 3}, 2, {"力", "加"}),  # a Chinese character is always a word
    ],
)
def test_a_size_that_only_the_characters_of_the_words_need_is_enough(counts, size, expected):
    pieces = learn_vocabulary(counts, 5 + size, num_unused=0)
    assert set(pieces[5:]) == expected
    assert cover(counts, pieces).unknown_share == 0


def test_the_alphabet_grows_with_the_script():
    counts = {chr(0x4E00 + number): 10 for number in range(1500)} | {chr(0x3400): 1}
    assert cover(counts, learn_vocabulary(counts, 4000, 0)).unknown_share == 1 / 15001
    assert cover(counts, learn_vocabulary(counts, 4000, 0, alphabet_size=1000)).unknown_share == 5001 / 15001


def test_clauses_of_scripts_without_spaces_are_learned_in_parts():
    clause = "".join(chr(0x0E01 + number % 40) for number in range(120))
    pieces = learn_vocabulary({clause: 2, "x" * 60: 3, "ab": 1}, 400, 0)
    assert cover({clause: 2}, pieces).unknown_share == 0
    assert "x" not in "".join(pieces[5:])
