"""Instances set aside in a temporary file, so that they can be written in a shuffled order without filling memory."""

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


class InstanceSpill:
    """A sequence of instances on disk; in memory it takes eight bytes for each.

    The file has no name, so that nothing is left of it when the process ends, however it ends. It takes about 350
    bytes for an instance of 128 tokens. A context manager.

    Args:
        folder: where the file is; needs room for it.
        largest: no id, length or position is larger than this.
    """

    def __init__(self, folder: str, largest: int):
        self._typecode = "H" if largest < 1 << 16 else "I"
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder, buffering=1 << 20)  # noqa: SIM115 (closed by __exit__)
        self._places = array("Q")
        self._size = self._longest = 0

    def __enter__(self) -> "InstanceSpill":
        return self

    def __exit__(self, *exception) -> None:
        # Closing writes what is buffered, which fails once more on a full disk; nobody needs it any longer.
        with contextlib.suppress(OSError):
            self._file.close()

    def __len__(self) -> int:
        return len(self._places)

    def append(self, instance: Instance) -> None:
        """Adds an instance at the end.

        Raises:
            OSError: it cannot be written, as on a full disk.
        """
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
        """Puts the instances into a random order, drawn as the original draws it."""
        shuffle(self._places, rng)

    def __iter__(self) -> Iterator[Instance]:
        """Reads the instances in their present order; see `every`."""
        return self.every()

    def every(self, step: int = 1, first: int = 0) -> Iterator[Instance]:
        """Reads the instances number first, first + step and so on of the present order.

        Raises:
            OSError: the last of them cannot be written, as on a full disk.
        """
        try:
            self._file.flush()
        except OSError as error:
            raise self._explain(error) from error
        # Unbuffered: a buffer would read kilobytes around each instance for nothing.
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
