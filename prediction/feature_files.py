"""The files of extract_features.py: lines of text as in the original BERT; vectors as JSON lines, .npz and HDF5."""

import codecs
import contextlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import numpy as np

from bert_keras.storage import paths
from bert_keras.storage.writing import replace_file

FORMATS = ("jsonl", "npz", "hdf5")

_ENDINGS = {".npz": "npz", ".h5": "hdf5", ".hdf5": "hdf5"}
# Approximate size of the chunks of an HDF5 dataset.
_CHUNK_BYTES = 1 << 18


def count_lines(path: str | os.PathLike) -> int:
    """Returns the number of lines in a file. Reads the whole file to find invalid lines before other work begins."""
    if not paths.is_file(path):
        raise FileNotFoundError(f"{path} is not a file; give a text file, one text a line")
    number = 0
    with paths.open_file(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path} line {number}: not UTF-8 (byte 0x{line[error.start]:02x}); save it as UTF-8"
                ) from None
    if not number:
        raise ValueError(f"{path} is empty; give one text a line")
    return number


def read_lines(path: str | os.PathLike) -> Iterator[str | tuple[str, str]]:
    """Yields each line of a file as `split_line` returns it; blank lines are empty texts."""
    with paths.open_file(path) as file:
        for number, line in enumerate(file):
            yield split_line((line if number else line.removeprefix(codecs.BOM_UTF8)).decode("utf-8"))


def split_line(line: str) -> str | tuple[str, str]:
    """Returns the text of a line, or two texts separated by its last " ||| ", as in the original BERT."""
    text_a, separator, text_b = line.strip().rpartition(" ||| ")
    return (text_a, text_b) if separator else text_b


def format_of(output_file):
    """Returns the format for the ending of a file name; "jsonl", as in the original BERT, for any other ending."""
    return _ENDINGS.get(pathlib.Path(output_file).suffix.lower(), "jsonl")


@contextlib.contextmanager
def open_feature_file(output_file, output_format, layers, pooling):
    """Opens a file of vectors as a writer with the method `write(features)`; an existing file is replaced.

    The file gets its name only when the block ends without an error. JSON and HDF5 are written text by text; npz stays
    in memory until the end. In npz and HDF5, `values` holds the rows of all texts one after the other. Without pooling,
    text n has the rows `values[starts[n]:starts[n + 1]]`; with pooling, it has row n.
    """
    with replace_file(output_file) as file, _WRITERS[output_format](file, layers, pooling) as writer:
        yield writer
        writer.finish()


class _Writer:
    """Base class of the writers."""

    def __init__(self, file, layers, pooling):
        self._layers = list(layers)
        self._pooling = pooling
        self._file = file
        self._num_written = 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        """Does nothing: `open_feature_file` closes the file."""

    def finish(self):
        """Writes the rest of the file."""


class _JsonLines(_Writer):
    """The original BERT's format: one ASCII object per text; with pooling, `layers` replaces `features`."""

    def write(self, features):
        # Equals Python's round for every number: a float32 times 10^6 is exact in a float64, and so are ties.
        values = np.round(features.values.astype(np.float64), 6).tolist()
        line = {"linex_index": self._num_written}
        if self._pooling == "none":
            line["features"] = [
                {"token": token, "layers": self._entries(layers)}
                for token, layers in zip(features.tokens, values, strict=True)
            ]
        else:
            line["layers"] = self._entries(values)
        self._file.write(json.dumps(line).encode("ascii") + b"\n")
        self._num_written += 1

    def _entries(self, values):
        return [{"index": layer, "values": row} for layer, row in zip(self._layers, values, strict=True)]


class _Npz(_Writer):
    """Arrays in one file; see `open_feature_file`."""

    def __init__(self, file, layers, pooling):
        super().__init__(file, layers, pooling)
        self._values, self._tokens, self._starts = [], [], [0]

    def write(self, features):
        self._values.append(features.values if self._pooling == "none" else features.values[None])
        self._tokens += features.tokens
        self._starts.append(self._starts[-1] + len(self._values[-1]))

    def finish(self):
        arrays = {"layers": np.array([str(layer) for layer in self._layers]), "pooling": np.array(self._pooling)}
        if self._pooling == "none":
            arrays |= {"tokens": np.array(self._tokens), "starts": np.array(self._starts, np.int64)}
        np.savez(self._file, values=np.concatenate(self._values), **arrays)


class _Hdf5(_Writer):
    """The same arrays as datasets that grow; see `open_feature_file`."""

    def __init__(self, file, layers, pooling):
        import h5py

        super().__init__(file, layers, pooling)
        # HDF5 needs random access, which object stores do not allow: write a local file and copy it at the end.
        self._copied_to = None if isinstance(getattr(file, "name", None), str) else file
        self._local = tempfile.TemporaryFile() if self._copied_to else None  # noqa: SIM115 (closed in __exit__)
        self._file = file = h5py.File(self._local or file.name, "w")
        file.attrs["layers"] = [str(layer) for layer in self._layers]
        file.attrs["pooling"] = self._pooling
        if self._pooling == "none":
            file.create_dataset("starts", data=[0], maxshape=(None,), dtype=np.int64, chunks=(1 << 12,))
            file.create_dataset("tokens", (0,), maxshape=(None,), dtype=h5py.string_dtype(), chunks=(1 << 12,))

    def finish(self):
        self._file.close()
        if self._local:
            self._local.seek(0)
            shutil.copyfileobj(self._local, self._copied_to, 1 << 20)

    def __exit__(self, *exception):
        self._file.close()
        if self._local:
            self._local.close()

    def write(self, features):
        rows = features.values if self._pooling == "none" else features.values[None]
        if "values" not in self._file:
            shape = rows.shape[1:]
            chunk = (max(1, _CHUNK_BYTES // rows[0].nbytes), *shape)
            self._file.create_dataset("values", (0, *shape), np.float32, maxshape=(None, *shape), chunks=chunk)
        end = _append(self._file["values"], rows)
        if self._pooling == "none":
            _append(self._file["tokens"], features.tokens)
            _append(self._file["starts"], [end])


def _append(dataset, rows):
    """Appends rows to a dataset and returns its new length."""
    end = dataset.shape[0] + len(rows)
    dataset.resize(end, axis=0)
    dataset[end - len(rows) :] = rows
    return end


_WRITERS = {"jsonl": _JsonLines, "npz": _Npz, "hdf5": _Hdf5}
