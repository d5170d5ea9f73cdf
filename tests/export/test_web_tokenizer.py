"""The tokenizer in JavaScript: equal to FullTokenizer and to the original BERT, in Node."""

import sys
import unicodedata

import pytest
from node import run_node
from reference_tokenizer import MODES, random_texts, write_odd_vocab
from text_rules import FOREIGN, TOKENS, texts_with_special_tokens

from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.words import split_words
from bert_keras.export.formats.web_tokenizer import unicode_tables

pytestmark = pytest.mark.slow  # starts Node

_TOKENIZE = """
import { Tokenizer } from "./tokenizer.js";

function main(cases) {
  return cases.map(({ tables, tokens, texts }) => {
    const tokenizer = new Tokenizer(tables.tokenizer, tokens);
    return texts.map((text) => tokenizer.tokenize(text).flatMap(({ id, start, end }) => [id, start, end]));
  });
}
"""
_SPLIT = """
import { WordSplitter } from "./web_words.js";

function main({ tables, texts }) {
  const splitter = new WordSplitter(tables);
  return texts.map((text) => splitter.split(text));
}
"""


def case_of(tokenizer, texts):
    return {"tables": unicode_tables(tokenizer), "tokens": tokenizer.tokens, "texts": texts}


def expected_of(tokenizer, text):
    found = tokenizer.tokenize_with_offsets(text)
    return [number for token, start, end in found for number in (tokenizer.vocab[token], start, end)]


def check(folder, tokenizers, texts):
    """Compare ids and offsets, all tokenizers in one process."""
    found = run_node(folder, _TOKENIZE, [case_of(tokenizer, texts) for tokenizer in tokenizers])
    for tokenizer, of_texts in zip(tokenizers, found, strict=True):
        for text, numbers in zip(texts, of_texts, strict=True):
            assert numbers == expected_of(tokenizer, text), (tokenizer.casing, text)


def test_the_ids_of_the_original(golden_texts, tmp_path):
    arguments, texts, ids = golden_texts
    tokenizer = FullTokenizer(*arguments)
    check(tmp_path / "node", [tokenizer], texts)
    assert [expected_of(tokenizer, text)[::3] for text in texts] == ids


def test_20000_random_texts(tmp_path):
    vocab_file = write_odd_vocab(tmp_path / "vocab.txt")
    tokenizers = [FullTokenizer(vocab_file, *mode) for mode in MODES]
    words = [token.removeprefix("##") for token in tokenizers[0].vocab]
    check(tmp_path / "node", tokenizers, random_texts(20_000, words))


def test_every_character(tmp_path):
    """Lo and unassigned code points are in the random texts."""
    chars = [
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(char) not in ("Cn", "Co", "Cs", "Lo")
    ]
    texts = [" ".join(f"a{char}b" for char in chars[first : first + 500]) for first in range(0, len(chars), 500)]
    vocab_file = write_odd_vocab(tmp_path / "vocab.txt")
    check(tmp_path / "node", [FullTokenizer(vocab_file, *mode) for mode in MODES], texts)


def test_words_of_running_text(tmp_path):
    marks = [*"-./&_@+'’,:1²ǅ东", "U.S.", "'s", "'LL", "...", "J."]
    texts = random_texts(2_000, marks)
    found = run_node(tmp_path / "node", _SPLIT, {"tables": unicode_tables(FullTokenizer(["[UNK]"])), "texts": texts})
    assert found == [[list(span) for span in split_words(text)] for text in texts]


def test_the_rules_of_another_library(tmp_path):
    """The same texts are in tests/data_prep/test_text_rules.py, for Python and graphs."""
    check(tmp_path / "node", [FullTokenizer(TOKENS, *mode, FOREIGN) for mode in MODES], texts_with_special_tokens())
