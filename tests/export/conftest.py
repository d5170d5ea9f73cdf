"""Fixtures for the tests of text models: a tokenizer in the graph, and text with difficult characters."""

import numpy as np
import pytest
from known_models import TOKENS

# Real words, and characters that change length, reorder, vanish, join or separate.
TEXTS = [
    "Paris is the capital of France.",
    "he was hungry, so she ate",
    "  WALKING walked\twalks\n",
    "Pa\u0301ris \u00e9",
    "\u0391\u03a3 \u0130stanbul \u00df \ufb01",
    "\u200bparis\u00ad is\ufeff",
    "\u4e2dparis\u4e2d",
    "a" * 201 + " london",
    "\x00london\ufffd",
    "\U0001f4a9 is \U0001f468\u200d\U0001f469",
    "e\u0301\uc548\u302e",
    "[mask] [CLS] paris [SEP]",
    "\u2028a\u3000b",
    "is " * 30,
    "walk " * 14,
    "walk " * 15,
]


@pytest.fixture
def converters_in_this_process():
    """Run the converters in the test process, which is faster than in a new process."""
    from tiny_exports import converters_in_this_process

    with converters_in_this_process():
        yield


@pytest.fixture(scope="session")
def texts():
    """Texts for every task; the last three are too long for 16 tokens, fit exactly, and are just too long."""
    return list(TEXTS)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    """The GraphTokenizer of TOKENS."""
    from bert_keras.export.graph.tokenization import GraphTokenizer

    vocab_file = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    vocab_file.write_text("".join(f"{token}\n" for token in TOKENS))
    return GraphTokenizer(vocab_file)


@pytest.fixture(scope="session")
def ask():
    """Return a function of a text model and its texts by name, lists of str or bytes, that returns a dict of arrays."""

    def in_bytes(text):
        return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text

    def ask(text_model, **texts):
        import tensorflow as tf

        arrays = {name: np.vectorize(in_bytes, [object])(np.array(rows, object)) for name, rows in texts.items()}
        answers = text_model.answer({name: tf.constant(rows) for name, rows in arrays.items()})
        return {name: value.numpy() for name, value in answers.items()}

    return ask
