"""What the tests of data preparation share."""

import logging

import pytest

from data_prep.tokenization import FullTokenizer

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]


class _Collector(logging.Handler):
    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


@pytest.fixture
def messages():
    """The lines that the project logs during a test; works whatever an entry point did to the logger before."""
    collector, log = _Collector(), logging.getLogger("bert_keras")
    level = log.level
    log.addHandler(collector)
    log.setLevel(logging.INFO)
    yield collector.messages
    log.removeHandler(collector)
    log.setLevel(level)


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
