"""The rules of transformers for texts: special tokens, sigmas, private characters, and pairs that are too long."""

import itertools

import pytest
import tensorflow as tf
from text_rules import FOREIGN, TOKENS, texts_with_special_tokens
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from bert_keras.data_prep.text.graph.layer import TokenizerLayer
from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer
from bert_keras.data_prep.text.model_inputs import share_room
from bert_keras.data_prep.text.places import split_by
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.storage.tokenizer.keys import TextRules

MODES = [(True, None), (False, None), (True, False)]
TEXTS = texts_with_special_tokens()


def peer_of(do_lower_case, strip_accents):
    """Returns the same tokenizer of the package tokenizers, which transformers uses."""
    peer = Tokenizer(models.WordPiece({token: id_ for id_, token in enumerate(TOKENS)}, unk_token="[UNK]"))
    peer.normalizer = normalizers.BertNormalizer(lowercase=do_lower_case, strip_accents=strip_accents)
    peer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    peer.add_special_tokens([*FOREIGN.special_tokens])
    peer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return peer


@pytest.mark.parametrize("mode", MODES)
def test_tokens_are_those_of_the_library(mode):
    tokenizer, peer = FullTokenizer(TOKENS, *mode, FOREIGN), peer_of(*mode)
    tokenizer.wordpiece_tokenizer.max_input_chars_per_word = 100
    for text in TEXTS:
        found = peer.encode(text, add_special_tokens=False)
        assert tokenizer.encode(text) == found.ids, text
        assert [tokenizer.vocab[token] for token, _, _ in tokenizer.tokenize_with_offsets(text)] == found.ids, text


@pytest.mark.parametrize("mode", MODES)
def test_words_are_those_of_the_library(mode):
    tokenizer, peer = FullTokenizer(TOKENS, *mode, FOREIGN), peer_of(*mode)
    for text in TEXTS:
        found = peer.encode(text, add_special_tokens=False)
        starts = [found.offsets[found.word_ids.index(word)][0] for word in dict.fromkeys(found.word_ids)]
        words = split_by("transformers", tokenizer, text)
        assert [start for start, _ in words] == starts, text
        # A word has the same tokens alone.
        tokens = [tokenizer.tokenize(text[start:end]) for start, end in words]
        assert sum(tokens, []) == tokenizer.tokenize(text), text


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_gives_the_tokens_and_places_of_python(mode):
    tokenizer = FullTokenizer(TOKENS, *mode, FOREIGN)
    graph = GraphTokenizer(tokenizer)
    found = graph.tokenize_with_offsets(tf.constant(TEXTS))
    rows = zip(TEXTS, *(values.to_list() for values in found), strict=True)
    for text, ids, starts, ends in rows:
        expected = tokenizer.tokenize_with_offsets(text)
        assert ids == [tokenizer.vocab[token] for token, _, _ in expected], text
        assert list(zip(starts, ends, strict=True)) == [(start, end) for _, start, end in expected], text


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize("length", range(5, 14))
def test_pairs_are_cut_as_in_the_library(length):
    tokenizer, peer = FullTokenizer(TOKENS, rules=FOREIGN), peer_of(True, None)
    peer.enable_truncation(length)
    layer = TokenizerLayer(tokenizer, length, pad_to_longest=True)
    texts = [[" ".join(letter * number) for number in range(1, 10)] for letter in "ab"]
    pairs = list(itertools.product(*texts))
    in_graph = {name: values.numpy() for name, values in layer(tuple(map(list, zip(*pairs, strict=True)))).items()}
    for row, pair in enumerate(pairs):
        expected = peer.encode(*pair)
        alone = {name: values[0] for name, values in tokenizer(pair, length, pad_to_longest=True).items()}
        assert alone["input_mask"].all()
        for found in (alone, {name: values[row] for name, values in in_graph.items()}):
            is_real = found["input_mask"] == 1
            assert found["input_ids"][is_real].tolist() == expected.ids
            assert found["segment_ids"][is_real].tolist() == expected.type_ids


def test_a_special_token_that_looks_like_a_piece_is_a_word():
    tokens = [*TOKENS, "##E"]
    text = "##E a ##E##E Σς"
    tokenizer = FullTokenizer(tokens, rules=TextRules(("##E", "[UNK]"), is_foreign=True))
    words = split_by("transformers", tokenizer, text)
    assert [text[start:end] for start, end in words] == ["##E", "a", "##E", "##E", "Σς"]


def test_own_models_keep_the_rules_of_the_original():
    assert share_room(9, 9, 7) == (4, 3)
    assert share_room(9, 9, 7, is_foreign=True) == (3, 4)
    assert FullTokenizer(TOKENS).tokenize("[SEP]ΑΣ") == ["[", "sep", "]", "ας"]
    assert FullTokenizer(TOKENS, rules=FOREIGN).tokenize("[SEP]ΑΣ") == ["[SEP]", "ασ"]


def test_rules_stay_with_a_saved_tokenizer(tmp_path):
    FullTokenizer(TOKENS, rules=FOREIGN).save(tmp_path / "saved")
    assert FullTokenizer.from_checkpoint(tmp_path / "saved").rules == FOREIGN
    layer = TokenizerLayer(FullTokenizer(TOKENS, rules=FOREIGN))
    assert TokenizerLayer.from_config(layer.get_config()).tokenizer.rules == FOREIGN
