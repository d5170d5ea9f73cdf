"""What the tests of the three tasks share."""

import logging

import pytest


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
