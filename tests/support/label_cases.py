"""What `top_k` and `threshold` change, for several labels and for one: a table for Python, HTTP and JavaScript."""

import math

import pytest

# The probabilities of the labels of a multi-label model, and their names.
PROBABILITIES = [0.2, 0.7, 0.9, 0.6]
NAMES = {"letters": ["a", "b", "c", "d"], "digits": ["10", "9", "2", "01"]}


def logits_of_labels():
    """Returns the logits of PROBABILITIES."""
    return [math.log(value / (1 - value)) for value in PROBABILITIES]


# Options, the numbers of `labels`, and the numbers of the labels in `probabilities`, in order.
LABEL_CASES = [
    ({}, [1, 2, 3], [0, 1, 2, 3]),
    ({"top_k": 1}, [1, 2, 3], [2]),
    ({"top_k": 2}, [1, 2, 3], [2, 1]),
    ({"top_k": 4}, [1, 2, 3], [2, 1, 3, 0]),
    ({"threshold": 0.1, "top_k": 1}, [0, 1, 2, 3], [2]),
    ({"threshold": 0.65, "top_k": 3}, [1, 2], [2, 1, 3]),
    ({"threshold": 0.95, "top_k": 1}, [], [2]),
    ({"threshold": 1, "top_k": 2}, [], [2, 1]),
    ({"threshold": 0.0}, [0, 1, 2, 3], [0, 1, 2, 3]),
]


def check_labels(answer, names, case, is_ordered=True):
    """Checks an answer in JSON. Objects of JavaScript put names of digits first, so their order is not checked."""
    _, labels, order = case
    assert answer["labels"] == [names[number] for number in labels]
    found, expected = answer["probabilities"], {names[number]: PROBABILITIES[number] for number in order}
    assert list(found) == list(expected) if is_ordered else set(found) == set(expected)
    assert found == {name: pytest.approx(value, abs=1e-5) for name, value in expected.items()}
