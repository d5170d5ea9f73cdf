"""A folder that a program writes as a whole: it is new, and appears under its name only when all is well."""

import contextlib
import errno
import os
import pathlib
import re
import shutil


def check_new_folder(path, flag, file_endings=()):
    """Refuses a folder that cannot be written, or would be overwritten, before any work is done.

    Args:
        path: str.
        flag: str; the name of the flag that gave it.
        file_endings: tuple of str; how names of files end that it may be mistaken for.

    Raises:
        ValueError: it is remote, a file, one that TensorFlow cannot read from, or not empty.
    """
    if "://" in path:
        raise ValueError(f"--{flag}={path} is a remote path; give a local folder")
    if set("[*?") & set(os.path.realpath(path)):
        raise ValueError(f"--{flag}={path}: TensorFlow takes [ * ? in a path for a pattern; rename it")
    if path.endswith(file_endings) or os.path.isfile(path):
        raise ValueError(f"--{flag}={path} names a file; give the folder that the files are to be put into")
    names = sorted(os.listdir(path)) if os.path.isdir(path) else []
    if names := [name for name in names if not _is_left_over(name)]:
        raise ValueError(
            f"--{flag}={path} holds {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}; "
            "nothing is overwritten, so give a folder that is new or empty"
        )


@contextlib.contextmanager
def folder_that_appears_when_done(path, flag, last):
    """Gives a folder to write to, as a `pathlib.Path`, which gets its name only if all goes well.

    Args:
        path, flag: as of `check_new_folder`, which has been asked.
        last: tuple of str; how the names of files end that are to appear after all others, where the folder is there
            already: those by which what is in it is found.

    Raises:
        ValueError: it cannot be made.
    """
    path = pathlib.Path(os.path.realpath(path))
    # A folder that is there may be a mount, which cannot be replaced: its files are moved up within it.
    is_there = path.is_dir()
    name = f".unfinished-{os.getpid()}"
    unfinished = path / name if is_there else path.with_name(f".{path.name}{name}")
    try:
        for left_over in filter(_is_left_over, os.listdir(path) if is_there else ()):
            shutil.rmtree(path / left_over)
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise ValueError(f"--{flag}={path} cannot be made: {error.strerror} ({error.filename})") from None
    try:
        yield unfinished
        if is_there:
            for file in sorted(unfinished.iterdir(), key=lambda file: (file.name.endswith(last), file.name)):
                file.rename(path / file.name)
        else:
            unfinished.rename(path)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _is_left_over(name):
    """Returns whether a name is that of a folder that was being written by a process which was killed."""
    unfinished = re.fullmatch(r"\.unfinished-(\d+)", name)
    if not unfinished:
        return False
    try:
        os.kill(int(unfinished[1]), 0)  # sends nothing, but finds the process
    except OSError as error:
        return error.errno == errno.ESRCH
    return False
