"""Compares numbers that float32 computes in two ways."""

import numpy as np
import pytest

# Between processors and between shapes of a batch, two ways to compute a network differ by up to 15 of these steps.
_STEPS = 64


def assert_close(found, expected, atol=0.0):
    """Checks that arrays differ only by the rounding of float32, relative to the largest number that is expected.

    atol is a further difference that is allowed, such as that of printed numbers.
    """
    expected = np.asarray(expected)
    rounding = _STEPS * np.finfo(np.float32).eps * np.abs(expected).max(initial=0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol + rounding)


def flat(answer, tolerance=1e-4):
    """Returns an answer as texts and numbers; the numbers compare to within rounding."""
    if isinstance(answer, dict):
        return [part for key, value in answer.items() for part in [key, *flat(value, tolerance)]]
    if isinstance(answer, np.ndarray):
        return flat(answer.ravel().tolist(), tolerance)
    if isinstance(answer, list | tuple):
        return [part for value in answer for part in flat(value, tolerance)]
    if hasattr(answer, "__dataclass_fields__"):
        return flat(vars(answer), tolerance)
    return [pytest.approx(answer, rel=tolerance, abs=tolerance) if isinstance(answer, float) else answer]
