"""Shuffles records on disk: each record gets a random key, and the final order is that of the keys.

Records are written in runs, each sorted by key. While there are more than `MOST_RUNS` runs, groups of `MOST_RUNS` are
merged into one. An output file then takes the records of a range of keys from all runs. So the time is proportional to
the amount of data. Memory holds one run, or a part of similar size.
"""

import bisect
import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert_keras.data_prep.corpus.workers import NotedFile, Work, WorkFolder
from bert_keras.data_prep.records.tfrecord_format import frame
from bert_keras.storage import paths

RUN_BYTES = 32 << 20
MOST_RUNS = 64  # maximum number of runs to read at the same time
_ROWS_AT_ONCE = 1 << 20
_END = 1 << 64  # all keys are below it


def write_run(folder: WorkFolder, name: str, parts: Iterable[tuple[np.ndarray, list[bytes]]]) -> list[NotedFile]:
    """Writes a run: NAME.records, and NAME.index with the key, start and end of each record, in the order of the keys.

    Each part has ascending keys and their framed records; keys must not decrease between parts. Returns both files.
    """
    with folder.create(f"{name}.records") as records, folder.create(f"{name}.index") as index:
        for keys, framed in parts:
            sizes = np.array([len(record) for record in framed], np.uint64)
            ends = np.uint64(records.num_bytes) + np.cumsum(sizes, dtype=np.uint64)
            records.writelines(framed)
            index.write(np.stack([keys, ends - sizes, ends], axis=1))
    return [records, index]


def write_ranks(index: NotedFile, order: np.ndarray, ends: np.ndarray, num_shards: int) -> None:
    """Writes the index of a run whose records get places instead of random keys.

    Record `order[j]` is record j // num_shards of the file j % num_shards, as in the original BERT.

    Args:
        order: uint64 [records].
        ends: offsets of the records, uint64 [1 + records]; begins with 0.
    """
    for shard in range(num_shards):
        places = order[shard::num_shards]
        first, step = shard * _END // num_shards, min(_END - 1, _END // num_shards // max(1, len(places)))
        for start in range(0, len(places), _ROWS_AT_ONCE):
            part = places[start : start + _ROWS_AT_ONCE]
            keys = np.uint64(first) + np.uint64(step) * np.arange(start, start + len(part), dtype=np.uint64)
            index.write(np.stack([keys, ends[part], ends[part + np.uint64(1)]], axis=1))


class RunWriter:
    """Collects records and writes them in runs named PREFIX.0, PREFIX.1 and so on, of at least `RUN_BYTES` each."""

    def __init__(self, folder: WorkFolder, prefix: str):
        self.runs, self.files = [], []  # name and bytes of the records of each run, and all files
        self._folder, self._prefix = folder, prefix
        self._keys, self._records, self._size = [], [], 0

    def write(self, key: int, record: bytes) -> None:
        """Adds a record without framing; the key is from 0 to 2**64 - 1."""
        self._keys.append(key)
        self._records.append(record)
        self._size += len(record)
        if self._size >= RUN_BYTES:
            self.close()

    def close(self) -> None:
        """Writes the remaining records as a run."""
        if not self._keys:
            return
        keys = np.array(self._keys, np.uint64)
        order = np.argsort(keys, stable=True)
        records = [self._records[place] for place in order.tolist()]
        self._keys, self._records, self._size = [], [], 0
        name = f"{self._prefix}.{len(self.runs)}"
        files = write_run(self._folder, name, [(keys[order], list(frame(records)))])
        self.runs.append((name, files[0].num_bytes))
        self.files += files


def read_shuffled(
    runs: Sequence[str], shard: int, num_shards: int, num_parts: int
) -> Iterator[tuple[np.ndarray, list[bytes]]]:
    """Yields keys and framed records of one of `num_shards` equal key ranges, in the order of their keys.

    `runs` are paths without endings; all stay open until the end. Memory holds one of `num_parts` parts of the range.
    """
    total = num_shards * num_parts
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(_Run(run)) for run in runs]
        for part in range(shard * num_parts, (shard + 1) * num_parts):
            first, end = part * _END // total, (part + 1) * _END // total
            pieces = [piece for reader in readers if (piece := reader.read(first, end))]
            if pieces:
                keys = np.concatenate([keys for keys, _ in pieces])
                records = [record for _, records in pieces for record in records]
                order = np.argsort(keys, stable=True)
                yield keys[order], [records[place] for place in order.tolist()]


def merge_all(runs: Sequence[tuple[str, int]], work: Work) -> Sequence[tuple[str, int]]:
    """Merges consecutive runs, each a name and its bytes, until at most `MOST_RUNS` are left, and returns these."""
    level = 0
    while len(runs) > MOST_RUNS:
        level += 1
        groups = [runs[first : first + MOST_RUNS] for first in range(0, len(runs), MOST_RUNS)]
        tasks = {f"merged-{level}-{number:06}": [run for run, _ in group] for number, group in enumerate(groups)}
        sizes = {name: sum(num_bytes for _, num_bytes in group) for name, group in zip(tasks, groups, strict=True)}
        for name, _ in work.run(_merge_task, tasks, "sorting", sizes):
            for file in _files_of(tasks[name]):
                paths.remove(work.folder.file(file))
        runs = [*sizes.items()]
    return runs


def _merge_task(context: object, folder: WorkFolder, name: str, runs: Sequence[str]) -> dict:
    """Merges runs of a folder into one; records with equal keys keep the order of the runs."""
    files = [folder.file(run) for run in runs]
    num_parts = 1 + sum(os.path.getsize(f"{file}.records") for file in files) // RUN_BYTES
    merged = write_run(folder, name, read_shuffled(files, 0, 1, num_parts))
    return folder.finish(name, {}, merged, replaces=_files_of(runs))


def _files_of(runs: Sequence[str]) -> list[str]:
    return [f"{run}.{ending}" for run in runs for ending in ("records", "index")]


class _Run(contextlib.AbstractContextManager):
    def __init__(self, path: str):
        self._index = np.memmap(f"{path}.index", np.uint64, "r").reshape(-1, 3)
        # Unbuffered: records of consecutive keys may be far from each other.
        self._file = open(f"{path}.records", "rb", buffering=0)  # noqa: SIM115 (closed by __exit__)

    def __exit__(self, *exception: object) -> None:
        del self._index  # closes the memory map, because this is the only reference
        self._file.close()

    def read(self, first: int, end: int) -> tuple[np.ndarray, list[bytes]] | None:
        """Returns the keys and framed records with keys in [first, end); None without any."""
        low, high = self._find(first), self._find(end)
        if low == high:
            return None
        records = []
        for start, stop in self._index[low:high, 1:].tolist():
            self._file.seek(start)
            records.append(self._file.read(stop - start))
        return np.array(self._index[low:high, 0]), records

    def _find(self, key: int) -> int:
        """Returns the number of records with lower keys, without reading the whole column of keys."""
        return bisect.bisect_left(range(len(self._index)), key, key=lambda row: int(self._index[row, 0]))
