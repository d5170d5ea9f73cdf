"""Dropout: the dropped values, and the inputs of its masks."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from bert_keras.modeling.dropout import Dropout, draw_seed


def seed(*numbers):
    return np.array(numbers, np.int32)


def test_without_a_seed_or_with_a_rate_of_zero_nothing_is_dropped():
    x = np.ones((3, 4), np.float32)
    assert Dropout(0.9, index=0)(x, None) is x
    assert Dropout(0.0, index=0)(x, seed(1, 2)) is x


def test_the_share_dropped_is_the_rate_and_the_rest_is_scaled():
    out = ops.convert_to_numpy(Dropout(0.25, index=0)(np.ones((400, 500), np.float32), seed(1, 2)))
    assert sorted(set(out.ravel().tolist())) == pytest.approx([0.0, 4 / 3])
    assert (out == 0).mean() == pytest.approx(0.25, abs=0.005)


@pytest.mark.parametrize("other", [(3, seed(9, 2)), (3, seed(1, 9)), (4, seed(1, 2))])
def test_only_the_same_seed_and_place_give_the_same_mask(other):
    x = np.ones((200, 300), np.float32)
    index, other_seed = other
    first = ops.convert_to_numpy(Dropout(0.5, index=3)(x, seed(1, 2)))
    np.testing.assert_array_equal(Dropout(0.5, index=3)(x, seed(1, 2)), first)
    second = ops.convert_to_numpy(Dropout(0.5, index=index)(x, other_seed))
    assert (first == second).mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("shape", "numbers"), [((7,), (1, 2)), ((33, 5), (-5, 0)), ((2, 4, 16, 16), (2**31 - 1, -(2**31)))]
)
def test_xla_draws_the_same_masks(shape, numbers):
    def drop(x, seed):
        return Dropout(0.5, index=3)(x, seed)

    expected = drop(tf.ones(shape), tf.constant(numbers))
    assert set(np.unique(expected)) == {0.0, 2.0}
    for is_compiled in (False, True):
        dropped = tf.function(drop, jit_compile=is_compiled)(tf.ones(shape), tf.constant(numbers))
        np.testing.assert_array_equal(dropped, expected)


def test_each_call_and_each_replica_draws_another_seed(monkeypatch):
    def draw(replica_id):
        context = types.SimpleNamespace(replica_id_in_sync_group=replica_id)
        monkeypatch.setattr(tf.distribute, "get_replica_context", lambda: context)
        generator = keras.random.SeedGenerator(7)
        return [draw_seed(generator).numpy().tolist() for _ in range(2)]

    of_first, of_second = draw(0), draw(1)
    assert of_first == draw(0)
    # `Dropout` needs seeds whose first elements differ.
    assert len({first for first, _ in of_first + of_second}) == 4
