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

from bert_keras.data_prep.corpus.workers import NotedFile, WorkFolder
from bert_keras.data_prep.records.tfrecord_format import frame

RUN_BYTES = 32 << 20
MOST_RUNS = 64  # maximum number of runs to read at the same time
_END = 1 << 64  # all keys are below it


def write_run(folder: WorkFolder, name: str, parts: Iterable[tuple[np.ndarray, list[bytes]]]) -> list[NotedFile]:
    """Writes a run: NAME.records, and NAME.index with the key and the end offset of each record.

    Each part has ascending keys and their framed records; keys must not decrease between parts. Returns both files.
    """
    with folder.create(f"{name}.records") as records, folder.create(f"{name}.index") as index:
        for keys, framed in parts:
            ends = np.uint64(records.num_bytes) + np.cumsum([len(record) for record in framed], dtype=np.uint64)
            records.writelines(framed)
            index.write(np.stack([keys, ends], axis=1))
    return [records, index]


class RunWriter:
    """Collects records and writes them in runs named PREFIX.0, PREFIX.1 and so on, of at least `RUN_BYTES` each."""

    def __init__(self, folder: WorkFolder, prefix: str):
        self.runs, self.sizes, self.files = [], [], []  # names, bytes of the records, and files of the runs
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
        order = np.argsort(keys, kind="stable")
        records = [self._records[place] for place in order.tolist()]
        self._keys, self._records, self._size = [], [], 0
        name = f"{self._prefix}.{len(self.runs)}"
        files = write_run(self._folder, name, [(keys[order], list(frame(records)))])
        self.runs.append(name)
        self.sizes.append(files[0].num_bytes)
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
                order = np.argsort(keys, kind="stable")
                yield keys[order], [records[place] for place in order.tolist()]


def merge_runs(folder: WorkFolder, name: str, runs: Sequence[str]) -> list[NotedFile]:
    """Merges runs of a folder into one and returns its files; records with equal keys keep the order of the runs."""
    paths = [folder.file(run) for run in runs]
    num_parts = 1 + sum(os.path.getsize(f"{path}.records") for path in paths) // RUN_BYTES
    return write_run(folder, name, read_shuffled(paths, 0, 1, num_parts))


def files_of_runs(runs: Sequence[str]) -> list[str]:
    return [f"{run}.{ending}" for run in runs for ending in ("records", "index")]


class _Run(contextlib.AbstractContextManager):
    def __init__(self, path: str):
        self._index = np.memmap(f"{path}.index", np.uint64, "r").reshape(-1, 2)
        self._file = open(f"{path}.records", "rb")  # noqa: SIM115 (closed by __exit__)

    def __exit__(self, *exception) -> None:
        del self._index  # closes the memory map, because this is the only reference
        self._file.close()

    def read(self, first: int, end: int) -> tuple[np.ndarray, list[bytes]] | None:
        """Returns the keys and framed records with keys in [first, end); None without any."""
        low, high = self._find(first), self._find(end)
        if low == high:
            return None
        places = [int(self._index[low - 1, 1]) if low else 0, *self._index[low:high, 1].tolist()]
        self._file.seek(places[0])
        content = self._file.read(places[-1] - places[0])
        starts = [place - places[0] for place in places]
        return np.array(self._index[low:high, 0]), [
            content[start:stop] for start, stop in zip(starts, starts[1:], strict=False)
        ]

    def _find(self, key: int) -> int:
        """Returns the number of records with lower keys, without reading the whole column of keys."""
        return bisect.bisect_left(range(len(self._index)), key, key=lambda row: int(self._index[row, 0]))
