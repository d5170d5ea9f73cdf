"""Reads and compares weights and the state of training."""

import numpy as np

from bert_keras.modeling import open_checkpoint, weights_by_name


def weights_of(model):
    """Returns copies of the weights of a model, a dict of arrays by name."""
    return {name: np.asarray(weight).copy() for name, weight in weights_by_name(model).items()}


def state_of(trainer):
    """Returns copies of the weights, slots and counters of a trainer, a dict of arrays by name."""
    return {name: np.array(variable) for name, variable in trainer.state.items()}


def weights_in(path):
    """Returns all entries of a checkpoint, a dict of arrays by name; the path is one for `open_checkpoint`."""
    checkpoint = open_checkpoint(path)
    return {name: checkpoint.read(name) for name in checkpoint.names}


def assert_bit_equal(first, second):
    """Compares two dicts of arrays; NaN equals the same NaN."""
    assert sorted(first) == sorted(second)
    for name, value in first.items():
        assert (value.dtype, value.shape) == (second[name].dtype, second[name].shape), name
        assert value.tobytes() == second[name].tobytes(), name


def assert_states_close(state, expected, weight_tolerance=1e-4, slot_tolerance=1e-3):
    """Compares two states of a training run.

    Weights are compared by value. Slots have no fixed scale (those of `adam_v` are around 1e-7), so the length of the
    difference is compared with the length of the slot. Zeros, or a slot of another weight, fail.

    Args:
        state: dict of float arrays by name, as `engine.step.Trainer.state` has them.
        expected: dict of the same names.
        weight_tolerance: float, absolute.
        slot_tolerance: float, relative to the length of a slot.
    """
    assert state.keys() == expected.keys()
    for name, value in expected.items():
        if name.endswith(("/key/bias/adam_m", "/key/bias/adam_v")):
            # The softmax of attention does not depend on this bias: its gradient is zero except for rounding.
            assert max(np.abs(state[name]).max(), np.abs(value).max()) < 1e-7, name
        elif name.endswith(("/adam_m", "/adam_v")):
            difference = np.linalg.norm(np.asarray(state[name], np.float64) - value)
            assert difference <= slot_tolerance * np.linalg.norm(np.asarray(value, np.float64)), (name, difference)
        else:
            np.testing.assert_allclose(state[name], value, rtol=0, atol=weight_tolerance, err_msg=name)
