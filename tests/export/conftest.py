"""Fixtures for the tests of text models: a tokenizer in the graph, and a model of each task in both forms."""

import functools

import pytest
from known_models import TOKENS
from tiny_exports import FINE_TUNED, Both, converters_in_this_process, open_both, open_pretrained

from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.export.formats.saved_model import make_text_model
from bert_keras.tasks.graph.networks import IdsNetwork


@pytest.fixture
def in_this_process():
    """Run the converters in the test process, which is faster than in a new process."""
    with converters_in_this_process():
        yield


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    """The GraphTokenizer of TOKENS."""
    vocab_file = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    vocab_file.write_text("".join(f"{token}\n" for token in TOKENS))
    return GraphTokenizer(FullTokenizer(vocab_file), vocab_file)


@pytest.fixture(scope="session")
def open_task(tmp_path_factory, tokenizer):
    """Return a function that returns the tiny model of a task in Python and in the graph, a `Both`."""
    folder = tmp_path_factory.mktemp("models")

    @functools.cache
    def open_(task):
        if task in FINE_TUNED:
            make, settings = FINE_TUNED[task]
            return open_both(folder / task, make(), task, tokenizer, **settings)
        predictor, settings = open_pretrained(folder / task, task)
        network = IdsNetwork(predictor.model, task)
        return Both(predictor, make_text_model(network, tokenizer, settings))

    return open_
