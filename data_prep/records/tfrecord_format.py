"""Writes the TFRecord format without TensorFlow: length, record, a checksum for each; optionally gzip."""

import contextlib
import functools
import gzip
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import numpy as np

from bert_keras.storage import paths

_POLYNOMIAL = 0x82F63B78  # CRC-32C, bits reversed
_LEAD = b"Td\x1fd"  # changes the state 0 to all ones, the start state of a checksum
_RECORDS_AT_ONCE = 1024


@functools.cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Tables for 32 bits of input: the effect of the first and of the second 16 bits on the state."""
    state = np.arange(1 << 16, dtype=np.uint32)
    tables = []
    for _ in range(2):
        for _ in range(16):
            state = (state >> 1) ^ np.where(state & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
        tables.append(state)
    return tables[1], tables[0]


def checksums(records: Sequence[bytes]) -> np.ndarray:
    """Returns the masked CRC-32C of each record, uint32, as in TFRecord files.

    Processes all records together, four bytes per step. Records are aligned at their ends, because zeros before a
    record do not change the state 0.
    """
    width = -(-(max(map(len, records)) + len(_LEAD)) // 4) * 4
    aligned = b"".join([(_LEAD + record).rjust(width, b"\0") for record in records])
    words = np.frombuffer(aligned, "<u4").reshape(len(records), -1)
    first_half, second_half = _tables()
    state = np.zeros(len(records), np.uint32)
    for word in np.ascontiguousarray(words.T):
        state ^= word
        state = first_half[state & 0xFFFF] ^ second_half[state >> 16]
    state = ~state
    return ((state >> 15) | (state << 17)) + np.uint32(0xA282EAD8)


@functools.lru_cache(maxsize=1 << 16)
def _header(length: int) -> bytes:
    encoded = length.to_bytes(8, "little")
    return encoded + checksums([encoded]).astype("<u4").tobytes()


def frame(records: Iterable[bytes]) -> Iterator[bytes]:
    """Yields each record in the format of the file: length and bytes, each followed by a checksum.

    Many records per call are much faster.
    """
    records = iter(records)
    while batch := list(itertools.islice(records, _RECORDS_AT_ONCE)):
        footers = checksums(batch).astype("<u4").tobytes()
        for number, record in enumerate(batch):
            yield b"".join((_header(len(record)), record, footers[4 * number : 4 * number + 4]))


def compressing(file: BinaryIO, is_gzip: bool) -> contextlib.AbstractContextManager[BinaryIO | gzip.GzipFile]:
    """Returns a file whose content goes to `file`, which stays open; deterministic for one version of zlib."""
    return gzip.GzipFile("", "wb", 6, file, mtime=0) if is_gzip else contextlib.nullcontext(file)


def is_gzip_file(path: str) -> bool:
    """Returns whether a record file is compressed; a record with these length bytes would have 560 kB."""
    with paths.open_file(path) as file:
        return file.read(3) == b"\x1f\x8b\x08"
