"""Writes files and folders as a whole: they get their final names only when they are complete and on the disk."""

import contextlib
import errno
import glob
import hashlib
import logging
import os
import pathlib
import re
import shutil
import threading
from collections.abc import Iterator
from typing import Any

from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

_UNFINISHED = re.compile(r"\.(.*\.)?unfinished-(\d+)(\..*)?")
# The disk or the user's quota is full, or the file is too large.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Errors of file systems that cannot flush or lock a file or folder, among them Lustre and FUSE.
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EACCES, errno.EISDIR, errno.ENOLCK)


@contextlib.contextmanager
def replace_file(path: str | os.PathLike, mode: str = "wb", newline: str | None = None) -> Iterator[Any]:
    """Opens a file for writing that replaces the file of that name only if the block ends without an error.

    Until then a hidden file in the same folder holds the data; it is removed if the block fails. A link stays a link:
    the function replaces its target. A device or pipe, such as /dev/null, is written to directly. Errors have the final
    name. Text is UTF-8.
    """
    if paths.is_special(path):
        with paths.open_file(path, mode, newline=newline) as file:
            yield file
        return
    path = paths.real(path)
    partial = unfinished_name(path)
    try:
        with _named(path, partial):
            with paths.open_file(partial, mode, newline=newline) as file:
                yield file
            publish(partial, path)
    finally:
        paths.remove(partial)


def write_text(path: str | os.PathLike, text: str) -> None:
    with replace_file(path) as file:
        file.write(text.encode("utf-8"))


def write_bytes(path: str | os.PathLike, data: bytes) -> None:
    with replace_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def folder_that_appears_when_done(path: str | os.PathLike, flag: str, last: tuple[str, ...]) -> Iterator[pathlib.Path]:
    """Yields a new folder to write to, as a `pathlib.Path`; it gets its final name only if the block succeeds.

    If the block fails, no unfinished files remain. `checks.check_new_folder` must have accepted `path` and `flag`.
    Files whose names end with one of `last` appear last in an existing folder, because readers look for them.
    """
    path = pathlib.Path(os.path.realpath(path))
    # An existing folder may be a mount, which cannot be replaced: move the files up within it.
    is_there = path.is_dir()
    unfinished = path / f".unfinished-{os.getpid()}" if is_there else pathlib.Path(unfinished_name(path))
    try:
        for each in path.iterdir() if is_there else path.parent.glob(f".{glob.escape(path.name)}.unfinished-*"):
            if is_left_over(each.name):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise ValueError(f"--{flag}={path} cannot be created: {error.strerror} ({error.filename})") from None
    try:
        yield unfinished
        for file in unfinished.rglob("*"):
            flush(file)
        if is_there:
            for file in sorted(unfinished.iterdir(), key=lambda file: (file.name.endswith(last), file.name)):
                file.rename(path / file.name)
        else:
            unfinished.rename(path)
    except Exception as error:
        # TensorFlow, safetensors and the converters have their own exceptions, but quote the system's message.
        reasons = [os.strerror(number) for number in FULL if os.strerror(number) in str(error)]
        if not reasons:
            raise
        raise OSError(
            f"--{flag}={path} cannot be written ({reasons[0]}); make room on its disk, or give another folder"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def publish(partial: str | os.PathLike, path: str | os.PathLike) -> None:
    """Flushes a complete file to the disk, then gives it its final name and the permissions of the file it replaces."""
    keep_permissions(partial, path)
    flush(partial)
    paths.move(partial, path)
    flush(paths.parent(path))


def keep_permissions(partial: str | os.PathLike, path: str | os.PathLike) -> None:
    """Gives a local file the permissions of the file that it will replace, if there is one."""
    if not paths.is_remote(path) and os.path.exists(path):
        shutil.copymode(path, partial)


def unfinished_name(path: str | os.PathLike) -> str:
    """Returns the hidden name, in the same folder, for a file while this thread writes it."""
    return paths.join(paths.parent(path), f".{paths.name(path)}.unfinished-{os.getpid()}.{threading.get_ident()}")


def is_left_over(name: str) -> bool:
    """Returns whether a name belongs to an unfinished file or folder whose process no longer runs."""
    unfinished = _UNFINISHED.fullmatch(name)
    return bool(unfinished) and not _is_running(int(unfinished[2]))


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
        folder = paths.parent(path)
        log.warning(
            "the file system of %s has no locks (%s): make sure that no other process writes there",
            folder,
            error.strerror,
        )
        return None
    return file


def _is_running(process):
    try:
        os.kill(process, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def _named(path, partial):
    """Replaces the hidden file's name with the user's name in write errors."""
    try:
        yield
    except OSError as error:
        # A failed write has no file name, but other operations in the block are unlikely to report a full disk.
        if error.filename != partial and not (error.filename is None and error.errno in FULL):
            raise
        raise type(error)(error.errno, error.strerror, path) from None
