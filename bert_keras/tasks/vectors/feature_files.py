"""The files of extract_features.py: lines of text as in the original BERT; vectors as JSON lines, .npz and HDF5."""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from bert_keras.mistakes import Mistake
from bert_keras.storage import inspection, paths, text_files, writing
from bert_keras.storage.checks import check_ending

if TYPE_CHECKING:  # both load much
    import h5py

    from bert_keras.tasks.vectors.features import Features

# Writes the vectors of a text.
Writer = Callable[["Features"], None]

FORMATS = ("jsonl", "npz", "hdf5")

_ENDINGS = {".jsonl": "jsonl", ".json": "jsonl", ".ndjson": "jsonl", ".npz": "npz", ".h5": "hdf5", ".hdf5": "hdf5"}
# Approximate size of the chunks of an HDF5 dataset.
_CHUNK_BYTES = 1 << 18


def count_lines(path: str | os.PathLike) -> int:
    """Returns the number of lines in a file. Reads the whole file to find invalid lines before other work begins."""
    if not paths.is_file(path):
        raise FileNotFoundError(f"{path} is not a file; give a text file, one text a line")
    if inspection.format_by_name(path) != "text":
        raise Mistake("{} is a table by its name, but each line is read as a text; give a file such as texts.txt", path)
    number = 0
    for number, line in enumerate(text_files.read_lines(path), 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Mistake(
                "{} line {}: not UTF-8 (byte 0x{:02x}); save it as UTF-8", path, number, line[error.start]
            ) from None
    if not number:
        raise Mistake("{} is empty; give one text a line", path)
    return number


def read_lines(path: str | os.PathLike) -> Iterator[str | tuple[str, str]]:
    """Yields each line of a file as `split_line` returns it; blank lines are empty texts."""
    for line in text_files.read_lines(path):
        yield split_line(line.decode("utf-8"))


def split_line(line: str) -> str | tuple[str, str]:
    """Returns the text of a line, or two texts separated by its last " ||| ", as in the original BERT."""
    text_a, separator, text_b = line.strip().rpartition(" ||| ")
    return (text_a, text_b) if separator else text_b


def format_of(output_file: str | os.PathLike, given: str | None = None) -> str:
    """Returns the format for the ending of a file name; "jsonl", as in the original BERT, for an unknown ending.

    Raises a Mistake for an ending that promises another format than the `given` one, or one that is not written.
    """
    check_ending(output_file, "output_file", [ending for ending, its in _ENDINGS.items() if given in (None, its)])
    return given or _ENDINGS.get(pathlib.Path(output_file).suffix.lower(), "jsonl")


@contextlib.contextmanager
def open_feature_file(
    output_file: str | os.PathLike, output_format: str, layers: Sequence[int | str], pooling: str
) -> Iterator[Writer]:
    """Opens a file of vectors as a function that writes the Features of a text; an existing file is replaced.

    The file gets its name only when the block ends without an error. JSON and HDF5 are written text by text; npz stays
    in memory until the end. In npz and HDF5, `values` holds the rows of all texts one after the other. Without pooling,
    text n has the rows `values[starts[n]:starts[n + 1]]`; with pooling, it has row n.
    """
    with (
        writing.whole(output_file) as hidden,
        paths.open_file(hidden, "wb") as file,
        _WRITERS[output_format](file, list(layers), pooling) as write,
    ):
        yield write


@contextlib.contextmanager
def _json_lines(file: BinaryIO, layers: list[int | str], pooling: str) -> Iterator[Writer]:
    """The original BERT's format: one ASCII object per text; with pooling, `layers` replaces `features`."""
    numbers = itertools.count()

    def entries(values: list[list[float]]) -> list[dict[str, Any]]:
        return [{"index": layer, "values": row} for layer, row in zip(layers, values, strict=True)]

    def write(features: "Features") -> None:
        # Equals Python's round for every number: a float32 times 10^6 is exact in a float64, and so are ties.
        values = np.round(features.values.astype(np.float64), 6).tolist()
        line: dict[str, Any] = {"linex_index": next(numbers)}
        if pooling == "none":
            tokens = zip(features.tokens, values, strict=True)
            line["features"] = [{"token": token, "layers": entries(token_values)} for token, token_values in tokens]
        else:
            line["layers"] = entries(values)
        file.write(json.dumps(line).encode("ascii") + b"\n")

    yield write


@contextlib.contextmanager
def _npz(file: BinaryIO, layers: list[int | str], pooling: str) -> Iterator[Writer]:
    """Arrays in one file; see `open_feature_file`."""
    values, tokens, starts = [], [], [0]

    def write(features: "Features") -> None:
        values.append(_rows(features, pooling))
        tokens.extend(features.tokens)
        starts.append(starts[-1] + len(values[-1]))

    yield write
    arrays: dict[str, Any] = {"layers": np.array([str(layer) for layer in layers]), "pooling": np.array(pooling)}
    if pooling == "none":
        arrays |= {"tokens": np.array(tokens), "starts": np.array(starts, np.int64)}
    np.savez(file, values=np.concatenate(values), **arrays)


@contextlib.contextmanager
def _hdf5(file: BinaryIO, layers: list[int | str], pooling: str) -> Iterator[Writer]:
    """The same arrays as datasets that grow; see `open_feature_file`."""
    import h5py

    with contextlib.ExitStack() as stack:
        local = file.name if isinstance(getattr(file, "name", None), str) else None
        if local is None:
            # HDF5 needs random access, which object stores do not allow: write a local file and copy it at the end.
            local = stack.enter_context(tempfile.TemporaryFile())
        datasets = stack.enter_context(h5py.File(local, "w"))
        datasets.attrs["layers"] = [str(layer) for layer in layers]
        datasets.attrs["pooling"] = pooling
        if pooling == "none":
            datasets.create_dataset("starts", data=[0], maxshape=(None,), dtype=np.int64, chunks=(1 << 12,))
            datasets.create_dataset("tokens", (0,), maxshape=(None,), dtype=h5py.string_dtype(), chunks=(1 << 12,))

        def write(features: "Features") -> None:
            rows = _rows(features, pooling)
            if "values" not in datasets:
                shape = rows.shape[1:]
                chunk = (max(1, _CHUNK_BYTES // rows[0].nbytes), *shape)
                datasets.create_dataset("values", (0, *shape), np.float32, maxshape=(None, *shape), chunks=chunk)
            end = _append(datasets["values"], rows)
            if pooling == "none":
                _append(datasets["tokens"], features.tokens)
                _append(datasets["starts"], [end])

        yield write
        datasets.close()
        if not isinstance(local, str):
            local.seek(0)
            shutil.copyfileobj(local, file, 1 << 20)


def _rows(features: "Features", pooling: str) -> np.ndarray:
    return features.values if pooling == "none" else features.values[None]


def _append(dataset: "h5py.Dataset", rows: Sequence[int | str] | np.ndarray) -> int:
    """Appends rows to a dataset and returns its new length."""
    end = dataset.shape[0] + len(rows)
    dataset.resize(end, axis=0)
    dataset[end - len(rows) :] = rows
    return end


_WRITERS = {"jsonl": _json_lines, "npz": _npz, "hdf5": _hdf5}
