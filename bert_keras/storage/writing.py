"""Writes files and folders as a whole: they get their final names only when they are complete and on the disk.

Until then they have a hidden name in the same folder, `.NAME.unfinished-HOST-PROCESS-TOKEN`. The next program on that
host that writes the same name removes it if its process has died.
"""

import contextlib
import errno
import hashlib
import logging
import os
import pathlib
import re
import secrets
import shutil
import socket
from collections.abc import Iterator
from typing import Any

from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

_UNFINISHED = re.compile(r"\..*\.unfinished-(.+)-(\d+)-[0-9a-f]{8}")
# The names that this process writes now. Other names with its number are of an earlier process: in containers,
# programs have the same number again and again.
_written: set[str] = set()
# The disk or the user's quota is full, or the file is too large.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Errors of file systems that cannot flush or lock a file or folder, among them Lustre and FUSE.
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EACCES, errno.EISDIR, errno.ENOLCK)


@contextlib.contextmanager
def whole(path: str | os.PathLike) -> Iterator[str]:
    """Yields a path to write a file to; the file replaces `path` only if the block ends without an error.

    The path is hidden and in the same folder. A link stays a link: the function replaces its target. The path of a
    device or pipe, such as /dev/null, is the given one.
    """
    if paths.is_special(path):
        yield os.fspath(path)
        return
    path = paths.real(path)
    with unfinished(path) as hidden, named(path, hidden):
        yield hidden
        publish(hidden, path)


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike, last: tuple[str, ...]) -> Iterator[pathlib.Path]:
    """Yields a new folder to write to, which gets the name `path` only if the block ends without an error.

    `checks.check_new_folder` must have accepted `path`. Files whose names end with one of `last` appear last in an
    existing folder, because readers look for them.
    """
    path = pathlib.Path(paths.real(path))
    # An existing folder may be a mount, which cannot be replaced: move the files up within it.
    is_there = path.is_dir()
    with unfinished(path / path.name if is_there else path) as hidden, named(path, hidden):
        os.makedirs(hidden)
        folder = pathlib.Path(hidden)
        yield folder
        if not is_there:
            publish(hidden, path)
            return
        _flush_all(folder)
        for file in sorted(folder.iterdir(), key=lambda file: (file.name.endswith(last), file.name)):
            file.rename(path / file.name)


@contextlib.contextmanager
def named(path: str | os.PathLike, hidden: str | None = None) -> Iterator[None]:
    """Puts the final name into errors of writing, also into a full disk that a library reports with its own class."""
    try:
        yield
    except Exception as error:
        file = getattr(error, "filename", None)
        # A failed write has no file name, but other operations in the block are unlikely to report these.
        numbers = [number for number in FULL if os.strerror(number) in str(error)]
        if isinstance(error, OSError) and error.errno and (file == hidden or error.errno == errno.EIO):
            numbers = [error.errno]
        is_here = file is None or (hidden is not None and str(file).startswith(hidden))
        if not (numbers and is_here):
            raise
        raise OSError(numbers[0], os.strerror(numbers[0]), os.fspath(path)) from error


def write_text(path: str | os.PathLike, text: str) -> None:
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | os.PathLike, data: bytes) -> None:
    with whole(path) as hidden, paths.open_file(hidden, "wb") as file:
        file.write(data)


@contextlib.contextmanager
def unfinished(path: str | os.PathLike) -> Iterator[str]:
    """Yields a hidden path, in the same folder, for a file or folder that will become `path`.

    At the end, removes what is still there; at the start, what killed processes left for the same path.
    """
    folder, name = paths.parent(path), hidden_name(path)
    if not paths.is_remote(folder):
        remove_left_over(folder, _prefix(path))
    hidden = paths.join(folder, name)
    _written.add(name)
    try:
        yield hidden
    finally:
        _written.remove(name)
        shutil.rmtree(hidden, ignore_errors=True) if os.path.isdir(hidden) else paths.remove(hidden)


@contextlib.contextmanager
def scratch(path: str | os.PathLike) -> Iterator[str]:
    """Yields a hidden folder, which only this user may read, for the steps that make `path`; see `unfinished`."""
    with unfinished(path) as hidden:
        os.mkdir(hidden, 0o700)
        yield hidden


def hidden_name(path: str | os.PathLike) -> str:
    """Returns a name, which no pattern for files matches, for unfinished work on a path by this process."""
    return f"{_prefix(path)}{_host()}-{os.getpid()}-{secrets.token_hex(4)}"


def publish(hidden: str | os.PathLike, path: str | os.PathLike) -> None:
    """Flushes a complete file or folder to the disk, then gives it its final name; see `move`."""
    if not paths.is_remote(path):
        _flush_all(pathlib.Path(hidden))
    move(hidden, path)
    flush(paths.parent(path))


def move(hidden: str | os.PathLike, path: str | os.PathLike) -> None:
    """Gives a flushed file or folder its final name, also on another disk, and the mode of the file it replaces."""
    if paths.is_remote(path) and not paths.is_remote(hidden):
        paths.copy(hidden, path)
        return
    if not paths.is_remote(path) and os.path.isfile(path):
        shutil.copymode(path, hidden)
    try:
        paths.move(hidden, path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with whole(path) as copy:
            paths.copy(hidden, copy)


def is_left_over(name: str) -> bool:
    """Returns whether a name belongs to unfinished work of a process of this host that no longer runs."""
    found = _UNFINISHED.fullmatch(name)
    return bool(found) and found[1] == _host() and not _is_running(int(found[2]), name)


def remove_left_over(folder: str | os.PathLike, prefix: str = "", is_locked: bool = False) -> None:
    """Removes unfinished work of killed processes from a folder, as far as this user may.

    With `is_locked`, nobody else writes to the folder, and all unfinished work goes, also that of other hosts.
    """
    try:
        names = paths.list_dir(folder)
    except OSError:
        return  # there is no such folder yet
    for name in names:
        path, found = paths.join(folder, name), _UNFINISHED.fullmatch(name)
        if found and name.startswith(prefix) and (is_locked or is_left_over(name)):
            with contextlib.suppress(OSError):
                paths.remove_dir(path) if paths.is_dir(path) else paths.remove(path)
        elif found and name.startswith(prefix) and found[1] != _host():
            log.info("%s is of a program on %s; if it has ended, delete this", path, found[1])


def flush(path: str | os.PathLike) -> None:
    """Flushes a local file, or the list of names of a local folder, so that it survives a power failure.

    Nothing happens on file systems that cannot do this. A remote file is safe once it is closed.
    """
    if paths.is_remote(path) or (os.name == "nt" and os.path.isdir(path)):  # Windows cannot open folders
        return
    try:
        descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    except PermissionError:  # a writable folder without permission to list it
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        log.debug("%s cannot be flushed to the disk: %s", path, error.strerror)
    finally:
        os.close(descriptor)


def sha256(path: str | os.PathLike) -> str:
    with paths.open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lock(path: str | os.PathLike) -> Any:
    """Takes a lock file, which no other process can take until this one closes it or ends.

    Windows, object stores and some network file systems do not support locks; the function then returns None. Raises
    BlockingIOError if another process holds the lock.
    """
    if paths.is_remote(path) or os.name == "nt":
        return None
    import fcntl

    file = open(path, "a")  # noqa: SIM115 (the caller closes it)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        if error.errno not in _UNSUPPORTED:
            raise
        reason, folder = error.strerror, paths.parent(path)
        log.warning("the file system of %s has no locks (%s): let no other process write there", folder, reason)
        return None
    return file


def _prefix(path: str | os.PathLike) -> str:
    return f".{paths.name(path).lstrip('.')}.unfinished-"


def _host() -> str:
    try:
        # Containers may share the name of their host, but each counts its processes from 1.
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return "-".join([re.sub(r"[^\w.-]", "_", socket.gethostname()), *re.findall(r"\d+", namespace)])


def _is_running(process: int, name: str) -> bool:
    if process == os.getpid() or os.name == "nt":  # Windows has no signal that only asks
        return process != os.getpid() or name in _written
    try:
        os.kill(process, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _flush_all(path: pathlib.Path) -> None:
    for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
        flush(file)
