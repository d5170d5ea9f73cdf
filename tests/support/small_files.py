"""Fixtures of tests that read small files; the conftest.py of a folder imports them."""

import pytest
from reference_tokenizer import MODES, write_odd_vocab
from tiny_data import SPECIAL_TOKENS

from bert_keras.data_prep.text.tokenization import FullTokenizer

LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file of text or bytes and returns its path."""

    def write(name, content):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return file

    return write


@pytest.fixture
def letters_vocab_file(tmp_path):
    """A vocabulary of the special tokens, the letters a to z, and the same with ##: 57 entries."""
    file = tmp_path / "letters.vocab"
    file.write_text("".join(f"{token}\n" for token in [*SPECIAL_TOKENS, *LETTERS, *(f"##{c}" for c in LETTERS)]))
    return file


@pytest.fixture
def letters_tokenizer(letters_vocab_file):
    """A `FullTokenizer` of `letters_vocab_file`: a word of n letters has n tokens."""
    return FullTokenizer(letters_vocab_file)


@pytest.fixture(scope="session")
def odd_tokenizer(tmp_path_factory):
    """A `FullTokenizer` of the vocabulary for odd text, with the tokens that begin and end a sequence."""
    return FullTokenizer(write_odd_vocab(tmp_path_factory.mktemp("vocab") / "vocab.txt", "[CLS]", "[SEP]"))


@pytest.fixture(scope="session")
def odd_tokenizers(tmp_path_factory):
    """Tokenizers of the vocabulary for odd text, by (do_lower_case, strip_accents)."""
    vocab_file = write_odd_vocab(tmp_path_factory.mktemp("vocab") / "vocab.txt")
    return {mode: FullTokenizer(vocab_file, *mode) for mode in MODES}
