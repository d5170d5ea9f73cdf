"""When a batch starts, and which sequences share it."""

import concurrent.futures
import threading

import extra_serve  # noqa: F401
import numpy as np
import pytest
from running_server import wait_until

from bert_keras.prediction.network import Question, lengths_up_to
from bert_keras.serving.batching import BatchingNetwork
from bert_keras.serving.metrics import Metrics

# Longer than any test.
FOREVER = 10_000.0


class Lengths:
    """A network that returns the number of tokens of each question, and records its batches."""

    lengths, batch_size, num_traces = (16, 32), 2, 0

    def __init__(self):
        self.batches = []

    def answer(self, questions, batch_size, **extra):
        self.batches.append([len(question.input_ids) for question in questions])
        return [(np.array(len(question.input_ids)),) for question in questions]


@pytest.fixture
def network():
    return Lengths()


@pytest.fixture
def ask(network):
    """Return a function that asks with a sequence of some tokens in a thread; a batch has 32 tokens and no deadline."""
    batching = BatchingNetwork(network, 32, FOREVER, Metrics(), {"model": "m", "task": "t"})
    with concurrent.futures.ThreadPoolExecutor(4) as pool:

        def submit(num_tokens):
            return pool.submit(batching.answer, [Question([0] * num_tokens, [0] * num_tokens)])

        yield submit
        batching.close()


@pytest.mark.parametrize(
    ("lengths", "classes"),
    [
        (lengths_up_to(130), [16, 24, 32, 48, 64, 96, 128, 130]),
        (lengths_up_to(12), [12]),
        ([64], [64]),  # all sequences are padded to it
    ],
)
def test_sequences_of_similar_lengths_share_batches(network, lengths, classes):
    network.lengths = lengths
    batching = BatchingNetwork(network, 32, 0.0, Metrics(), {"model": "m", "task": "t"})
    batching.close()
    assert batching.lengths == classes


def test_a_single_client_does_not_wait_for_others(network, ask):
    assert ask(30).result(60)[0][0] == 30  # full
    assert ask(9).result(60)[0][0] == 9
    assert network.batches == [[30], [9]]


def test_after_a_shared_batch_a_sequence_waits_for_others(network, ask):
    first = [ask(5), ask(6)]
    assert [each.result(60)[0][0] for each in first] == [5, 6]
    alone = ask(7)
    wait_until(alone.running)
    other = ask(8)
    assert [alone.result(60)[0][0], other.result(60)[0][0]] == [7, 8]
    assert sorted(map(sorted, network.batches)) == [[5, 6], [7, 8]]


def test_what_waits_is_answered_when_the_network_closes(network):
    batching = BatchingNetwork(network, 32, FOREVER, Metrics(), {"model": "m", "task": "t"})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        alone = pool.submit(batching.answer, [Question([0], [0])])
        wait_until(lambda: batching._queues)
        batching.close()
        assert alone.result(60)[0][0] == 1


def test_calls_take_turns(network):
    may_run, answer = threading.Event(), network.answer
    network.answer = lambda *arguments, **extra: (may_run.wait(60), answer(*arguments, **extra))[1]
    batching = BatchingNetwork(network, 32, 0.0, Metrics(), {"model": "m", "task": "t"})
    with concurrent.futures.ThreadPoolExecutor(3) as pool:

        def ask(*lengths):
            sent = pool.submit(batching.answer, [Question([0] * length, [0] * length) for length in lengths])
            wait_until(lambda: sum(map(len, batching._queues.values())) or network.batches)
            return sent

        large = ask(*[1] * 9, *[20] * 3)
        wait_until(lambda: sum(map(len, batching._queues[16, ()].values())) == 7)  # the first batch has begun
        others = [pool.submit(batching.answer, [Question([0] * 2, [0] * 2)] * 2)]
        wait_until(lambda: len(batching._queues[16, ()]) == 2)
        others.append(pool.submit(batching.answer, [Question([0] * 30, [0] * 30)]))
        wait_until(lambda: len(batching._queues[32, ()]) == 2)
        may_run.set()
        assert [int(rows[0]) for rows in large.result(60)] == [1] * 9 + [20] * 3
        assert [[int(rows[0]) for rows in other.result(60)] for other in others] == [[2, 2], [30]]
        batching.close()
    assert sum(map(len, network.batches)) == 15
    # The first batch was alone. The large call shares each of the next ones, or lets the others go first.
    assert network.batches[0] == [1, 1]
    assert 30 in sum(network.batches[1:4], [])
    assert 2 in sum(network.batches[1:4], [])
