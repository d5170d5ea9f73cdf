"""Shuffling on disk orders records by key, for any split into runs, parts and files."""

import os
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data_prep.corpus.workers import WorkFolder
from bert_keras.data_prep.pretraining import shuffling
from bert_keras.data_prep.pretraining.shuffling import RunWriter, _merge_task, read_shuffled, write_ranks
from bert_keras.data_prep.records.tfrecord_format import frame


@pytest.fixture
def folder(tmp_path):
    with WorkFolder(str(tmp_path / "work")) as folder:
        yield folder


def random_keys(count):
    rng = random.Random(1)
    return [rng.getrandbits(64) for _ in range(count)]


def write_runs(folder, keys):
    runs = []
    for name, keys_of_run in (("even", keys[::2]), ("odd", keys[1::2])):
        writer = RunWriter(folder, name)
        for key in keys_of_run:
            writer.write(key, b"record %d" % key)
        writer.close()
        assert writer.runs == [(run, os.path.getsize(folder.file(f"{run}.records"))) for run, _ in writer.runs]
        runs += [run for run, _ in writer.runs]
    return runs


def read(folder, runs, *shares):
    return [record for _, part in read_shuffled([folder.file(run) for run in runs], *shares) for record in part]


@pytest.mark.parametrize(("run_bytes", "num_parts"), [(1, 1), (300, 3), (1 << 20, 40)])
def test_records_come_in_the_order_of_their_keys(folder, run_bytes, num_parts, monkeypatch):
    monkeypatch.setattr(shuffling, "RUN_BYTES", run_bytes)
    keys = [*random_keys(100), 0, (1 << 64) - 1, 1 << 63]
    runs = write_runs(folder, keys)
    assert len(runs) == {1: 103, 300: 10, 1 << 20: 2}[run_bytes]
    shards = [read(folder, runs, shard, 3, num_parts) for shard in range(3)]
    assert [record for shard in shards for record in shard] == list(frame([b"record %d" % key for key in sorted(keys)]))
    # Each file holds the keys of one third of the range, so about a third of them.
    assert [len(shard) for shard in shards] == [sum(shard == key * 3 >> 64 for key in keys) for shard in range(3)]


def test_a_part_takes_no_more_than_its_share(folder, monkeypatch):
    monkeypatch.setattr(shuffling, "RUN_BYTES", 1000)
    runs = [folder.file(run) for run in write_runs(folder, random_keys(2000))]
    parts = list(read_shuffled(runs, 0, 2, 10))
    assert len(parts) == 10
    assert max(len(records) for _, records in parts) < 150
    assert all(len(keys) == len(records) for keys, records in parts)


@given(count=st.integers(0, 40), num_shards=st.integers(1, 5), num_parts=st.integers(1, 3), seed=st.integers())
def test_places_are_those_of_the_original(tmp_path_factory, count, num_shards, num_parts, seed):
    """Python shuffles the records; record j of the result is in file j modulo the number of files."""
    records = list(frame([b"record %d" % number for number in range(count)]))
    order = list(range(count))
    random.Random(seed).shuffle(order)
    with WorkFolder(str(tmp_path_factory.mktemp("work"))) as folder:
        with folder.create("all.records") as file:
            file.writelines(records)
        ends = np.cumsum([0, *map(len, records)]).astype(np.uint64)
        with folder.create("all.index") as index:
            write_ranks(index, np.array(order, np.uint64), ends, num_shards)
        for shard in range(num_shards if count else 0):
            found = read(folder, ["all"], shard, num_shards, num_parts)
            assert found == [records[place] for place in order[shard::num_shards]]


def test_merged_runs_keep_the_order_of_the_runs_where_keys_are_equal(folder, monkeypatch):
    monkeypatch.setattr(shuffling, "RUN_BYTES", 200)
    runs = []
    for name in ("b", "a"):
        writer = RunWriter(folder, name)
        for key in (7, 5, 5, *range(100, 120)):
            writer.write(key, f"{name}{key}".encode())
        writer.close()
        runs += [run for run, _ in writer.runs]
    assert _merge_task(None, folder, "merged", runs) == {}
    expected = [
        f"{name}{key}".encode() for key in (5, 7, *range(100, 120)) for name in "ba" for _ in range(1 + (key == 5))
    ]
    assert read(folder, ["merged"], 0, 1, 1) == read(folder, runs, 0, 1, 1) == list(frame(expected))
    index = np.fromfile(folder.file("merged.index"), np.uint64).reshape(-1, 3)
    assert index[:, 0].tolist() == sorted([7, 5, 5, *range(100, 120)] * 2)
