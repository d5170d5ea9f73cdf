"""Files that are written as a whole: a file has its final name only when it is complete and on the disk."""

import contextlib
import errno
import hashlib
import logging
import os
import re
import threading

from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

_UNFINISHED = re.compile(r"\.(.*\.)?unfinished-(\d+)(\..*)?")
# The disk, or the user's share of it, is full.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# What file systems answer that cannot flush a file or a folder, or lock one, among them Lustre and FUSE.
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EACCES, errno.EISDIR, errno.ENOLCK)


@contextlib.contextmanager
def replace_file(path, mode="wb", newline=None):
    """Opens a file to write which replaces the one of that name only when the block ends without an error.

    Until then the data are in a hidden file in the same folder, which is removed when the block fails. A link stays a
    link: the file that it points to is replaced. A device or a pipe, such as /dev/null, is written to as it is.

    Args:
        path: str or path object, local or remote.
        mode: "wb" or "w"; text is UTF-8.
        newline: as of the built-in `open`.

    Yields:
        A file object.

    Raises:
        OSError: it cannot be written; the error has the final name.
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


def write_text(path, text):
    """Writes a text file as a whole, as UTF-8; see `replace_file`."""
    with replace_file(path) as file:
        file.write(text.encode("utf-8"))


def write_bytes(path, data):
    """Writes a file as a whole; see `replace_file`."""
    with replace_file(path) as file:
        file.write(data)


def publish(partial, path):
    """Gives a complete file its final name, after it has been flushed to the disk."""
    flush(partial)
    paths.move(partial, path)
    flush(paths.parent(path))


def unfinished_name(path):
    """Returns the hidden name, in the same folder, of a file that this thread is writing."""
    return paths.join(paths.parent(path), f".{paths.name(path)}.unfinished-{os.getpid()}.{threading.get_ident()}")


def remove_left_over(folder):
    """Removes what processes that no longer run left unfinished in a folder.

    Call it only where no other machine can be writing: processes of other machines look as if they had ended.
    """
    for name in paths.list_dir(folder):
        if is_left_over(name):
            path = paths.join(folder, name)
            paths.remove_dir(path) if paths.is_dir(path) else paths.remove(path)


def is_left_over(name):
    """Returns whether a name is that of an unfinished file or folder whose process no longer runs."""
    unfinished = _UNFINISHED.fullmatch(name)
    return bool(unfinished) and not _is_running(int(unfinished[2]))


def flush(path):
    """Makes sure that a local file, or the list of names of a local folder, survives a power failure.

    File systems that cannot do this are used without it. A remote file is safe once it is closed.

    Raises:
        OSError: the disk reports that it could not be written.
    """
    if paths.is_remote(path) or (os.name == "nt" and os.path.isdir(path)):  # Windows opens no folders
        return
    try:
        descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    except PermissionError:  # a folder that may be written to but not listed
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        log.debug("%s cannot be flushed to the disk: %s", path, error.strerror)
    finally:
        os.close(descriptor)


def sha256(path):
    """Returns the SHA-256 of a file's content, hexadecimal str."""
    digest = hashlib.sha256()
    with paths.open_file(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def lock(path):
    """Takes a lock file, which no other process can take until this one closes it or ends.

    Windows, object stores and some network file systems have no such locks. There the caller goes on without one, and
    the log says so where that is unusual.

    Args:
        path: str; a local file, created where it is missing, or a remote one, of which nothing is created.

    Returns:
        A file object to close; None where there are no locks.

    Raises:
        BlockingIOError: another process holds it.
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
        log.warning(
            "the file system of %s has no locks (%s): make sure that no other process writes there",
            *(paths.parent(path), error.strerror),
        )
        return None
    return file


def _is_running(process):
    try:
        os.kill(process, 0)  # sends nothing, but finds the process
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def _named(path, partial):
    """Raises errors of writing the hidden file with the name that the user gave."""
    try:
        yield
    except OSError as error:
        # A write that fails names no file; what else the block reads is not likely to find a disk full.
        if error.filename != partial and not (error.filename is None and error.errno in FULL):
            raise
        raise type(error)(error.errno, error.strerror, path) from None
