"""Records shuffled on disk: each has a random key, and the final order is that of the keys.

Records are written in runs, each sorted by key. While there are more than `MOST_RUNS` runs, each group of so many is
merged into one. A file of the result then takes the records of a range of keys from all runs. So the work grows with
the data and not with its square, and memory holds one run, or a part of about that size, whatever there is to shuffle.
"""

import bisect
import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert_keras.data_prep.corpus.workers import NotedFile, WorkFolder
from bert_keras.data_prep.records.tfrecord_format import frame

RUN_BYTES = 32 << 20
MOST_RUNS = 64  # that are read at the same time
_END = 1 << 64  # keys are below


def write_run(folder: WorkFolder, name: str, parts: Iterable[tuple[np.ndarray, list[bytes]]]) -> list[NotedFile]:
    """Writes a run: NAME.records, and NAME.index with the key and the end of each record.

    Args:
        folder: where it goes.
        name: of the run.
        parts: ascending keys, and the framed record of each; the keys of a part are not below those of the part before.

    Returns:
        Both files, the records first.
    """
    with folder.create(f"{name}.records") as records, folder.create(f"{name}.index") as index:
        for keys, framed in parts:
            ends = np.uint64(records.num_bytes) + np.cumsum([len(record) for record in framed], dtype=np.uint64)
            records.writelines(framed)
            index.write(np.stack([keys, ends], axis=1))
    return [records, index]


class RunWriter:
    """Gathers records and writes them in runs, PREFIX.0, PREFIX.1 and so on.

    Args:
        folder: where the runs go.
        prefix: the beginning of their names.
        run_bytes: a run is ended when its records have so many bytes.

    Attributes:
        runs: list of str; the names of the runs that are written.
        sizes: list of int; the bytes of the records of each run.
        files: list of NotedFile; the files of the runs.
    """

    def __init__(self, folder: WorkFolder, prefix: str, run_bytes: int = RUN_BYTES):
        self.runs, self.sizes, self.files = [], [], []
        self._folder, self._prefix, self._run_bytes = folder, prefix, run_bytes
        self._keys, self._records, self._size = [], [], 0

    def write(self, key: int, record: bytes) -> None:
        """Adds a record.

        Args:
            key: from 0 to 2**64 - 1.
            record: the bytes of it.
        """
        self._keys.append(key)
        self._records.append(record)
        self._size += len(record)
        if self._size >= self._run_bytes:
            self.close()

    def close(self) -> None:
        """Writes what is left."""
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
    """Reads the framed records of one of several equal ranges of keys, in the order of their keys.

    Args:
        runs: the paths of all runs, without their endings. Every run is open until the end.
        shard: which range.
        num_shards: of how many.
        num_parts: memory holds a list of one in so many of them at a time.

    Yields:
        Ascending keys, and the records of these keys as they are in a TFRecord file.
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
    """Merges runs of a folder into one; where keys are equal, the order of the runs decides.

    Returns:
        The files of the new run, the records first.
    """
    paths = [folder.file(run) for run in runs]
    num_parts = 1 + sum(os.path.getsize(f"{path}.records") for path in paths) // RUN_BYTES
    return write_run(folder, name, read_shuffled(paths, 0, 1, num_parts))


def files_of_run(run: str) -> list[str]:
    """Returns the names of the files of a run."""
    return [f"{run}.records", f"{run}.index"]


class _Run:
    """A run that is open to read. A context manager."""

    def __init__(self, path: str):
        self._index = np.memmap(f"{path}.index", np.uint64, "r").reshape(-1, 2)
        self._file = open(f"{path}.records", "rb")  # noqa: SIM115 (closed by __exit__)

    def __enter__(self) -> "_Run":
        return self

    def __exit__(self, *exception) -> None:
        self._index = None  # the only reference, so this closes the memory map
        self._file.close()

    def read(self, first: int, end: int) -> tuple[np.ndarray, list[bytes]] | None:
        """Returns the keys and framed records whose keys are in [first, end); None where there are none."""
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
        """Returns the number of records whose keys are lower. The whole column of keys is never read."""
        return bisect.bisect_left(range(len(self._index)), key, key=lambda row: int(self._index[row, 0]))
