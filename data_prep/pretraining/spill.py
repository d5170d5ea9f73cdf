"""Stores instances in a temporary file, so that they can be shuffled without filling memory."""

import contextlib
import itertools
import random
import tempfile
from array import array
from collections.abc import Iterator

from bert_keras.data_prep.pretraining.instances import Instance
from bert_keras.data_prep.pretraining.masking import shuffle
from bert_keras.data_prep.records.writing import cannot_write

_HEADER = 4


class InstanceSpill(contextlib.AbstractContextManager):
    """Sequence of instances on disk, with eight bytes of memory for each. A context manager.

    The file has no name, so it disappears when the process ends, even after a crash. An instance of 128 tokens takes
    about 350 bytes. `largest` is an upper bound of all ids, lengths and positions.
    """

    def __init__(self, folder: str, largest: int):
        self._typecode = "H" if largest < 1 << 16 else "I"
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder, buffering=1 << 20)  # noqa: SIM115 (closed by __exit__)
        self._places = array("Q")
        self._size = self._longest = 0

    def __exit__(self, *exception) -> None:
        # Closing flushes the buffer, which fails again on a full disk. Nothing needs the data any more.
        with contextlib.suppress(OSError):
            self._file.close()

    def __len__(self) -> int:
        return len(self._places)

    def append(self, instance: Instance) -> None:
        tokens, first_length, is_random_next, positions, ids = instance
        header = [len(tokens), first_length, is_random_next, len(ids)]
        encoded = array(self._typecode, header + positions + ids + tokens).tobytes()
        try:
            self._file.write(encoded)
        except OSError as error:
            raise self._explain(error) from error
        self._places.append(self._size)
        self._size += len(encoded)
        self._longest = max(self._longest, len(encoded))

    def shuffle(self, rng: random.Random) -> None:
        shuffle(self._places, rng)

    def every(self, step: int = 1, first: int = 0) -> Iterator[Instance]:
        """Reads the instances first, first + step and so on of the current order."""
        try:
            self._file.flush()
        except OSError as error:
            raise self._explain(error) from error
        # Unbuffered: a buffer would read kilobytes around each instance.
        file = self._file.raw
        for place in itertools.islice(self._places, first, None, step):
            file.seek(place)
            values = array(self._typecode, file.read(self._longest))
            length, first_length, is_random_next, num_masked = values[:_HEADER]
            numbers = values.tolist()
            ids = _HEADER + num_masked
            tokens = ids + num_masked
            yield Instance(
                numbers[tokens : tokens + length],
                first_length,
                bool(is_random_next),
                numbers[_HEADER:ids],
                numbers[ids:tokens],
            )

    def _explain(self, error: OSError) -> OSError:
        return cannot_write(f'a temporary file in "{self._folder}"', error)
