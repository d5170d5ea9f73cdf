"""Remote files through `tf.io.gfile`, with the errors that Python raises for local files."""

import contextlib
import io
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bert_keras.mistakes import Mistake

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Lines of an error that tell where a graph was made.
_PLACES_IN_A_GRAPH = ("Graph execution error:", "Detected at node", "  File ", "<stack traces unavailable>", "Node: ")


class RemoteFile(io.RawIOBase):
    """A remote file as a raw stream for Python's buffered readers and writers."""

    def __init__(self, path: str, mode: str):
        super().__init__()
        import tensorflow as tf

        self._path, self._mode = path, mode
        self._file = tf.io.gfile.GFile(path, mode)
        with _as_os_errors(path):
            if mode == "rb":
                self._file.size()  # a missing file fails here, as with the built-in open
            else:
                self._file.write(b"")

    def readable(self) -> bool:
        return self._mode == "rb"

    def writable(self) -> bool:
        return self._mode != "rb"

    def seekable(self) -> bool:
        return self._mode == "rb"

    def readinto(self, buffer: bytearray | memoryview) -> int:
        with _as_os_errors(self._path):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _as_os_errors(self._path):
            start = {io.SEEK_SET: 0, io.SEEK_CUR: self._file.tell(), io.SEEK_END: self._file.size()}[whence]
            self._file.seek(start + offset)
        return start + offset

    def tell(self) -> int:
        if self.writable():
            raise io.UnsupportedOperation("the position in a remote file is unknown while it is written")
        with _as_os_errors(self._path):
            return self._file.tell()

    def write(self, data: "ReadableBuffer") -> int:
        content = bytes(data)
        with _as_os_errors(self._path):
            self._file.write(content)
        return len(content)

    def close(self) -> None:
        if not self.closed:
            try:
                with _as_os_errors(self._path):
                    self._file.close()
            finally:
                super().close()


def gfile(function: str, path: str | os.PathLike, *args: Any, **kwargs: Any) -> Any:
    import tensorflow as tf

    with _as_os_errors(path):
        return getattr(tf.io.gfile, function)(os.fspath(path), *args, **kwargs)


def reason_of(error: Any) -> str:
    """Returns the first line of a `tf.errors.OpError`'s message, without TensorFlow's operation names and places."""
    message = re.sub(r"\{\{[^}]*\}\}\s*|\s*\[Op:\w+\]", "", error.message or "").strip()
    lines = [line for line in message.splitlines() if line and not line.startswith(_PLACES_IN_A_GRAPH)]
    return (lines or message.splitlines() or [type(error).__name__])[0].rstrip(":")


@contextlib.contextmanager
def _as_os_errors(path: str | os.PathLike) -> Iterator[None]:
    """Converts TensorFlow's file errors into the exceptions that Python raises for local files."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        scheme = os.fspath(path).partition("://")[0]
        if isinstance(error, tf.errors.UnimplementedError) and f"scheme '{scheme}'" in (error.message or ""):
            raise Mistake(
                "{}: TensorFlow has no file system for {}:// here, only for local files and "
                "gs://; copy the files to a local folder, or mount their place as one",
                os.fspath(path),
                scheme,
            ) from error
        kinds = {
            tf.errors.NotFoundError: FileNotFoundError,
            tf.errors.PermissionDeniedError: PermissionError,
            tf.errors.UnauthenticatedError: PermissionError,
        }
        raise kinds.get(type(error), OSError)(f"{os.fspath(path)}: {reason_of(error)}") from error
