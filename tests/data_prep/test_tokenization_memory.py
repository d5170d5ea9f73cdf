"""The tokenizer's cache changes only the speed, and its size is bounded."""

import pickle
from concurrent.futures import ThreadPoolExecutor

from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference_tokenizer import MODES, odd_text, pieces_as_described, words_as_described, write_odd_vocab

from bert_keras.data_prep.text.tokenization import BasicTokenizer, FullTokenizer, PieceMemo, WordpieceTokenizer


@settings(max_examples=150)
@given(odd_text, st.sampled_from(MODES))
@example("\u0391\u03a3 \u0391\u03a3\u0391\u03a3.\u03a3 \u0391\u03a3\u00ad", (True, None))
@example("a\x85b\x1cc\u2028\u0301\u0327d \u0301e", (True, None))
@example("\u302e\ufe20\u093c\u302f" * 3, (True, None))
def test_cached_tokens_equal_those_of_the_two_tokenizers(odd_tokenizers, text, mode):
    tokenizer = odd_tokenizers[mode]
    basic = BasicTokenizer(*mode)
    wordpiece = WordpieceTokenizer(tokenizer.vocab)
    words = basic.tokenize(text)
    assert words == words_as_described(text, basic.do_lower_case, basic.strip_accents)
    pieces = [piece for word in words for piece in wordpiece.tokenize(word)]
    assert pieces == [piece for word in words for piece in pieces_as_described(word, tokenizer.vocab)]
    assert tokenizer.tokenize(text) == pieces
    assert tokenizer.encode(text) == [tokenizer.vocab[piece] for piece in pieces]


@given(st.data())
def test_wordpiece_takes_the_longest_match_whatever_the_vocabulary(data):
    tokens = data.draw(st.lists(st.from_regex("(##)?[ab#]{1,6}", fullmatch=True), min_size=1))
    word = "".join(data.draw(st.lists(st.sampled_from([token.removeprefix("##") for token in tokens]), max_size=4)))
    vocab = {token: number for number, token in enumerate(tokens)}
    assert WordpieceTokenizer(vocab).tokenize(word) == pieces_as_described(word, vocab)
    if word:
        limited = WordpieceTokenizer(vocab, unk_token="?", max_input_chars_per_word=len(word) - 1)
        assert limited.tokenize(word) == ["?"]


def test_cache_keeps_two_generations_and_frequent_parts():
    asked = []
    memo = PieceMemo(lambda piece: asked.append(piece) or (piece.upper(),), max_pieces=10)
    for number in range(100):
        assert memo[f"rare{number}"] == (f"RARE{number}",)
        assert memo["often"] == ("OFTEN",)
        assert len(memo) <= 10
        assert len(memo._old) <= 10
    assert asked.count("often") == 1
    assert len(asked) == 101
    assert memo["rare0"] == ("RARE0",)
    assert asked.count("rare0") == 2


def test_cache_leaves_out_long_parts_and_long_results():
    memo = PieceMemo(tuple, max_pieces=10)
    assert memo["x" * 16] == ("x",) * 16
    assert list(memo) == ["x" * 16]
    assert memo["x" * 17] == ("x",) * 17
    assert list(memo) == ["x" * 16]
    memo = PieceMemo(lambda piece: (len(piece),), max_pieces=10)
    assert [memo["x" * 32], memo["x" * 33]] == [(32,), (33,)]
    assert list(memo) == ["x" * 32]


def test_threads_may_share_a_tokenizer(tmp_path):
    tokenizer = FullTokenizer(write_odd_vocab(tmp_path / "vocab.txt"))
    texts = [f"un{number % 50} running{number}" for number in range(500)]
    expected = [tokenizer.encode(text) for text in texts]
    tokenizer._ids.max_pieces = 20
    with ThreadPoolExecutor(4) as pool:
        for ids in pool.map(lambda _: [tokenizer.encode(text) for text in texts], range(4)):
            assert ids == expected


def test_pickles_without_its_memory(tmp_path):
    tokenizer = FullTokenizer(write_odd_vocab(tmp_path / "vocab.txt"), do_lower_case=False, strip_accents=True)
    before = len(pickle.dumps(tokenizer))
    texts = [f"un{number} Énd" for number in range(500)]
    ids = [tokenizer.encode(text) for text in texts]
    assert len(pickle.dumps(tokenizer)) == before
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert [copy.encode(text) for text in texts] == ids
    assert copy.tokenize_with_offsets(texts[0]) == tokenizer.tokenize_with_offsets(texts[0])
