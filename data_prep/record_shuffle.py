"""Records shuffled on disk: each has a random key, and the final order is that of the keys.

Records are written in runs, each sorted by key. A file of the result takes the records of a range of keys from all
runs. Memory holds one run, or a part of a file of about that size, whatever there is to shuffle.
"""

import os
from collections.abc import Iterator, Sequence

import numpy as np

from data_prep.tfrecords import frame

RUN_BYTES = 32 << 20
_END = 1 << 64  # keys are below


class RunWriter:
    """Writes records in runs: PREFIX.0.records and PREFIX.0.index, PREFIX.1.records and so on.

    Args:
        prefix: the beginning of the files' names.
        run_bytes: a run is ended when its records have so many bytes.

    Attributes:
        sizes: list of int; the bytes of the runs that are written.
    """

    def __init__(self, prefix: str, run_bytes: int = RUN_BYTES):
        self.sizes = []
        self._prefix, self._run_bytes = prefix, run_bytes
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
        ends = np.zeros(len(records), np.uint64)
        name = f"{self._prefix}.{len(self.sizes)}"
        with open(f"{name}.records", "wb") as file:
            end = 0
            for place, framed in enumerate(frame(records)):
                end += file.write(framed)
                ends[place] = end
        np.stack([keys[order], ends]).tofile(f"{name}.index")
        self.sizes.append(end)


def read_shuffled(runs: Sequence[str], shard: int, num_shards: int, num_parts: int) -> Iterator[list[bytes]]:
    """Reads the framed records of one of several equal ranges of keys, in the order of their keys.

    Args:
        runs: the names of all runs, without their endings.
        shard: which range.
        num_shards: of how many.
        num_parts: memory holds a list of one in so many of them at a time.

    Yields:
        Lists of records as they stand in a TFRecord file.
    """
    total = num_shards * num_parts
    for part in range(shard * num_parts, (shard + 1) * num_parts):
        first, end = part * _END // total, (part + 1) * _END // total
        pieces = [piece for run in runs for piece in [_read_run(run, first, end)] if piece]
        keys = np.concatenate([keys for keys, _ in pieces]) if pieces else np.empty(0)
        records = [record for _, records in pieces for record in records]
        yield [records[place] for place in np.argsort(keys, kind="stable").tolist()]


def _read_run(run: str, first: int, end: int) -> tuple[np.ndarray, list[bytes]] | None:
    """Returns the keys and framed records of a run whose keys are in [first, end); None where there are none."""
    index = np.memmap(f"{run}.index", np.uint64, "r").reshape(2, -1)
    keys, ends = index
    low = int(np.searchsorted(keys, np.uint64(first)))
    high = int(np.searchsorted(keys, np.uint64(end))) if end < _END else len(keys)
    if low == high:
        return None
    places = [int(ends[low - 1]) if low else 0, *ends[low:high].tolist()]
    with open(f"{run}.records", "rb") as file:
        file.seek(places[0])
        content = file.read(places[-1] - places[0])
    offset = places[0]
    return np.array(keys[low:high]), [
        content[start - offset : stop - offset] for start, stop in zip(places, places[1:], strict=False)
    ]


def remove_runs(runs: Sequence[str]) -> None:
    """Deletes runs."""
    for run in runs:
        os.remove(f"{run}.records")
        os.remove(f"{run}.index")
