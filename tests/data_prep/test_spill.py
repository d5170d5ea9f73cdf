"""Instances on disk."""

import os
import random
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data_prep.pretraining.instances import Instance
from bert_keras.data_prep.pretraining.spill import InstanceSpill

instances = st.lists(
    st.builds(
        Instance,
        tokens=st.lists(st.integers(0, 65535), min_size=1, max_size=60),
        first_length=st.integers(0, 60),
        is_random_next=st.booleans(),
        masked_lm_positions=st.lists(st.integers(0, 60), min_size=3, max_size=3),
        masked_lm_ids=st.lists(st.integers(0, 65535), min_size=3, max_size=3),
    ),
    max_size=20,
)


@given(instances=instances, seed=st.integers())
def test_instances_come_back_in_the_order_of_pythons_shuffle(instances, seed):
    with InstanceSpill(tempfile.gettempdir()) as spill:
        for instance in instances:
            spill.append(instance)
        assert len(spill) == len(instances)
        assert list(spill.every()) == instances
        spill.shuffle(random.Random(seed))
        expected = instances.copy()
        random.Random(seed).shuffle(expected)
        assert list(spill.every()) == expected


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
@pytest.mark.parametrize("num_instances", [1, 10000])
def test_full_disk_is_reported(monkeypatch, num_instances):
    def open_full(dir, buffering):
        return open("/dev/full", "r+b", buffering=buffering)

    monkeypatch.setattr(tempfile, "TemporaryFile", open_full)
    with (  # noqa: PT012 (either call may fail)
        InstanceSpill("folder") as spill,
        pytest.raises(OSError, match="No space left on device: "),
    ):
        for _ in range(num_instances):
            spill.append(Instance([1] * 100, 50, True, [2], [3]))
        list(spill.every())
