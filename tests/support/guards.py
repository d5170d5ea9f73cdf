"""Lists of what a rule looks at. A rule that looks at nothing holds always, so the lists have an expected minimum."""


def at_least(number, found):
    """Return what a rule looks at, sorted, as a list.

    Args:
        number: the smallest plausible number. Fewer mean that a folder moved, or that a pattern fits no longer.
        found: iterable.

    Raises:
        AssertionError: if there are fewer.
    """
    found = sorted(found)
    assert len(found) >= number, f"the rule has only {len(found)} things to look at, but at least {number} are expected"
    return found
