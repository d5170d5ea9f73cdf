"""Shuffling on disk: the order of the keys, whatever lies in one run, one part or one file."""

import os
import random

import pytest

from data_prep.record_shuffle import RunWriter, read_shuffled, remove_runs
from data_prep.tfrecords import frame


def random_keys(count):
    rng = random.Random(1)
    return [rng.getrandbits(64) for _ in range(count)]


def write_runs(folder, keys, run_bytes, num_prefixes=2):
    runs = []
    for prefix in range(num_prefixes):
        name = str(folder / f"{run_bytes}-{prefix}")
        writer = RunWriter(name, run_bytes)
        for number, key in enumerate(keys):
            if number % num_prefixes == prefix:
                writer.write(key, b"record %d" % key)
        writer.close()
        runs += [f"{name}.{number}" for number in range(len(writer.sizes))]
        assert sum(writer.sizes) == sum(os.path.getsize(f"{run}.records") for run in runs if run.startswith(name))
    return runs


@pytest.mark.parametrize(("run_bytes", "num_parts"), [(1, 1), (300, 3), (1 << 20, 40)])
def test_records_come_in_the_order_of_their_keys(tmp_path, run_bytes, num_parts):
    keys = [*random_keys(100), 0, (1 << 64) - 1, 1 << 63]
    runs = write_runs(tmp_path, keys, run_bytes)
    assert len(runs) == {1: 103, 300: 10, 1 << 20: 2}[run_bytes]
    shards = [[record for part in read_shuffled(runs, shard, 3, num_parts) for record in part] for shard in range(3)]
    assert [record for shard in shards for record in shard] == list(frame([b"record %d" % key for key in sorted(keys)]))
    # A file holds the keys of its third, so about as many as the others.
    assert [len(shard) for shard in shards] == [sum(shard == key * 3 >> 64 for key in keys) for shard in range(3)]
    remove_runs(runs)
    assert os.listdir(tmp_path) == []


def test_a_part_takes_no_more_than_its_share(tmp_path):
    runs = write_runs(tmp_path, random_keys(2000), 1000)
    assert max(len(part) for part in read_shuffled(runs, 0, 2, 10)) < 150
