"""Stores instances in a temporary file, so that they can be shuffled without filling memory."""

import contextlib
import itertools
import pickle
import random
import tempfile
from array import array
from collections.abc import Iterator
from typing import Any

from bert_keras.data_prep.pretraining.instances import Instance
from bert_keras.data_prep.pretraining.masking import shuffle
from bert_keras.storage import writing


class InstanceSpill(contextlib.AbstractContextManager):
    """Sequence of instances on disk, with eight bytes of memory for each. A context manager.

    The file has no name, so it disappears when the process ends, even after a crash. An instance of 128 tokens takes
    about 500 bytes.
    """

    def __init__(self, folder: str):
        self._folder = folder
        # Any: its type depends on the system.
        self._file: Any = tempfile.TemporaryFile(dir=folder, buffering=1 << 20)  # noqa: SIM115 (closed by __exit__)
        self._places = array("Q")
        self._size = self._longest = 0

    def __exit__(self, *exception) -> None:
        # Closing flushes the buffer, which fails again on a full disk. Nothing needs the data any more.
        with contextlib.suppress(OSError):
            self._file.close()

    def __len__(self) -> int:
        return len(self._places)

    def append(self, instance: Instance) -> None:
        encoded = pickle.dumps(tuple(instance))
        with writing.named(self._folder):
            self._file.write(encoded)
        self._places.append(self._size)
        self._size += len(encoded)
        self._longest = max(self._longest, len(encoded))

    def shuffle(self, rng: random.Random) -> None:
        shuffle(self._places, rng)

    def every(self, step: int = 1, first: int = 0) -> Iterator[Instance]:
        """Reads the instances first, first + step and so on of the current order."""
        with writing.named(self._folder):
            self._file.flush()
        # Unbuffered: a buffer would read kilobytes around each instance.
        file = self._file.raw
        for place in itertools.islice(self._places, first, None, step):
            file.seek(place)
            yield Instance(*pickle.loads(file.read(self._longest)))  # the bytes after the instance are ignored
