"""Functions for local and remote paths: `gs://bucket/file` works wherever `folder/file` does.

Local paths use Python's own functions, so programs that read only local files do not load TensorFlow. Remote paths use
`tf.io.gfile`, which supports the same addresses as TensorFlow's record and checkpoint operations. Both raise `OSError`
or a subclass; an address that TensorFlow does not support raises a `Mistake`.
"""

import collections
import contextlib
import glob as local_glob
import io
import json
import os
import pathlib
import posixpath
import re
import shutil
import stat
from collections.abc import Iterable
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.storage.remote_files import RemoteFile, gfile

_BUFFER_SIZE = 1 << 20  # large, because every remote read costs a request


# Schemes of addresses, which are followed by ://.
_SCHEMES = re.compile(r"\s*(abfss?|az|file|gcs|gs|hdfs|hf|https?|ram|s3a?|viewfs):(?!//)/*", re.IGNORECASE)


def as_text(path: str | os.PathLike) -> str:
    """Returns a path as a text; refuses anything else that a caller in Python may give."""
    if not isinstance(path, str | os.PathLike):
        raise Mistake("a path is {!r}, of type {}; give a str, or a pathlib.Path", path, type(path).__name__)
    return os.fspath(path)


def is_remote(path: str | os.PathLike) -> bool:
    """Returns whether a path is an address such as `gs://bucket/file`."""
    return "://" in as_text(path)


def local(path: str | os.PathLike) -> str:
    """Returns the path of a local file that is given as an address, such as file:///folder/file; others unchanged.

    The address may have one slash, too: file:/folder/file.
    """
    return re.sub(r"^(\s*)file:(?://(?:localhost)?(?=/)|(?=/(?!/)))", r"\1", as_text(path))


def check_address(path: str | os.PathLike) -> None:
    """Raises a Mistake for an address without its slashes, such as gs:/bucket/file, which would be a local folder."""
    path = local(path)
    if (found := _SCHEMES.match(path)) and not os.path.lexists(path):
        rest = path[found.end() :]
        address = f"{found[1]}://{rest}" if found[1].lower() != "file" else f"/{rest}, or {rest} in this folder"
        raise Mistake(
            "{0} has no // after {1}:; give {2}, or ./{0} for a local file of that name", path, found[1], address
        )


def file_id(path: str | os.PathLike) -> object:
    """Returns what is equal for all paths of the same file or folder, also through links, if it exists."""
    path = local(path)
    if is_remote(path):
        return posixpath.normpath(path)
    status = os.stat(path)
    return status.st_dev, status.st_ino


def given_twice(files: Iterable[str]) -> list[str]:
    """Returns the names of each file that is given more than once, also through links, such as "a.txt = link.txt"."""
    names = collections.defaultdict(list)
    for file in files:
        names[file_id(file)].append(file)
    return [" = ".join(dict.fromkeys(group)) for group in names.values() if len(group) > 1]


def join(folder: str | os.PathLike, *names: str | os.PathLike) -> str:
    folder = os.fspath(folder)
    return posixpath.join(folder, *names) if is_remote(folder) else os.path.join(folder, *names)


def inside(folder: str | os.PathLike, name: object, source: str) -> str:
    """Returns the path of a file that another file names, and checks that the name does not leave the folder.

    A symbolic link in the folder may lead out of it: the caches of Hugging Face consist of such links, and only the
    owner of a folder makes them.

    Args:
        folder: of the file, local or remote.
        name: relative path in the folder; "" is the folder itself.
        source: the file that gives the name, for the message.

    Raises:
        ValueError: the name is not a str, is absolute or contains "..".
    """
    parts = pathlib.PureWindowsPath(str(name))  # splits at both kinds of slashes
    if not isinstance(name, str) or parts.anchor or ".." in parts.parts or is_remote(name) or "\0" in name:
        raise Mistake(
            "{} names {}, but a model names only files in its own folder; take the model from somebody you trust",
            source,
            json.dumps(name),
        )
    return join(folder, name)


def parent(path: str | os.PathLike) -> str:
    """Returns the folder of a file: "." for a bare name."""
    path = os.fspath(path)
    if is_remote(path):
        scheme, rest = path.split("://", 1)
        return f"{scheme}://{posixpath.dirname(rest)}"
    return os.path.dirname(path) or "."


def name(path: str | os.PathLike) -> str:
    path = os.fspath(path)
    return posixpath.basename(path) if is_remote(path) else os.path.basename(path)


def real(path: str | os.PathLike) -> str:
    """Returns the absolute path of a local file with links resolved, or a remote path without trailing slashes."""
    path = local(path)
    return path.rstrip("/") if is_remote(path) else os.path.realpath(path)


def open_file(
    path: str | os.PathLike,
    mode: str = "rb",
    encoding: str | None = None,
    newline: str | None = None,
    errors: str | None = None,
) -> Any:
    """Opens a file like the built-in `open`; the default encoding is UTF-8.

    A remote file appears when it is closed. Appending copies a remote file, so append rarely.
    """
    is_text = "b" not in mode
    if not is_remote(path):
        return open(path, mode, encoding=(encoding or "utf-8") if is_text else None, newline=newline, errors=errors)
    raw = RemoteFile(os.fspath(path), mode.replace("b", "") + "b")
    buffered = (io.BufferedReader if mode[0] == "r" else io.BufferedWriter)(raw, _BUFFER_SIZE)
    if not is_text:
        return buffered
    return io.TextIOWrapper(buffered, encoding=encoding or "utf-8", newline=newline, errors=errors)


def read_bytes(path: str | os.PathLike) -> bytes:
    with open_file(path) as file:
        return file.read()


def read_text(path: str | os.PathLike, encoding: str = "utf-8", errors: str | None = None) -> str:
    """Reads a text that a program has written; `text_files` reads those of users."""
    try:
        with open_file(path, "r", encoding=encoding, errors=errors) as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise Mistake("{} is damaged: byte {:,} is not {}; restore it", path, error.start + 1, encoding) from error


def exists(path: str | os.PathLike) -> bool:
    """Returns whether a path exists. Like `is_dir` and `is_file`, it raises PermissionError if its folder is closed."""
    return gfile("exists", path) if is_remote(path) else _mode(path) is not None


def is_dir(path: str | os.PathLike) -> bool:
    return gfile("isdir", path) if is_remote(path) else stat.S_ISDIR(_mode(path) or 0)


def is_file(path: str | os.PathLike) -> bool:
    return exists(path) and not is_dir(path) if is_remote(path) else stat.S_ISREG(_mode(path) or 0)


def is_special(path: str | os.PathLike) -> bool:
    """Returns whether a local path exists but is neither a file nor a folder, such as a device or a pipe."""
    return not is_remote(path) and os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def check_readable(path: str | os.PathLike) -> None:
    """Raises PermissionError if a local file, or a file in a local folder, exists and this user may not read it.

    Call it before a library opens the path: some say that such a file does not exist, or is damaged.
    """
    if is_remote(path):
        return
    found = [os.fspath(path), *(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)]
    for entry in found:
        if os.path.exists(entry) and not os.access(entry, os.R_OK):
            raise PermissionError(
                f"{entry} exists, but you may not read it; ask its owner for the permission (chmod a+r), or copy it"
            )


def size(path: str | os.PathLike) -> int:
    return gfile("stat", path).length if is_remote(path) else os.path.getsize(path)


def modified(path: str | os.PathLike) -> int:
    """Returns the time of a file's last change, in nanoseconds since 1970."""
    return gfile("stat", path).mtime_nsec if is_remote(path) else os.stat(path).st_mtime_ns


def list_dir(path: str | os.PathLike) -> list[str]:
    """Returns the sorted names in a folder, without trailing slashes."""
    names = gfile("listdir", path) if is_remote(path) else os.listdir(path)
    return sorted(name.rstrip("/") for name in names)


def glob(pattern: str | os.PathLike) -> list[str]:
    """Returns the sorted paths that match a pattern with `*`, `?` and `[...]`."""
    return sorted(gfile("glob", pattern) if is_remote(pattern) else local_glob.glob(os.fspath(pattern)))


def find(pattern: str | os.PathLike) -> list[str]:
    """Returns the path with exactly this name, or else all paths that match it as a pattern."""
    return [os.fspath(pattern)] if exists(pattern) else glob(pattern)


def make_dirs(path: str | os.PathLike) -> None:
    if is_remote(path):
        gfile("makedirs", path)
    else:
        os.makedirs(path, exist_ok=True)


def remove(path: str | os.PathLike) -> None:
    """Removes a file, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        gfile("remove", path) if is_remote(path) else os.remove(path)


def remove_dir(path: str | os.PathLike) -> None:
    """Removes a folder and its content, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        gfile("rmtree", path) if is_remote(path) else shutil.rmtree(path)


def move(source: str | os.PathLike, target: str | os.PathLike) -> None:
    """Renames a file and replaces any file with the new name.

    A local rename is atomic. An object store copies the file, then removes the old one; a program killed in between
    leaves both.
    """
    if is_remote(source):
        gfile("rename", source, os.fspath(target), overwrite=True)
    else:
        os.replace(source, target)


def copy(source: str | os.PathLike, target: str | os.PathLike) -> None:
    """Copies a file, also between this machine and an object store, and replaces any file with the new name."""
    with open_file(source) as original, open_file(target, "wb") as written:
        shutil.copyfileobj(original, written, _BUFFER_SIZE)


def _mode(path: str | os.PathLike) -> int | None:
    """Returns the mode of a local file or folder; None if it does not exist."""
    try:
        return os.stat(path).st_mode
    except PermissionError:  # `os.path.exists` would say that it does not exist
        raise
    except (OSError, ValueError):
        return None
