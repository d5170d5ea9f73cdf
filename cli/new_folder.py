"""Writes a new folder as a whole: it gets its name only when all its files are complete."""

import contextlib
import glob
import os
import pathlib
import shutil

from bert_keras.storage import paths, writing


def check_new_folder(path, flag, file_endings=()):
    """Refuses a folder that cannot be written or would be overwritten, before any work is done.

    Args:
        path: str.
        flag: str; the name of the flag that gave it.
        file_endings: tuple of str; endings that show that the path is a file, not a folder.

    Raises:
        ValueError: the path is remote, a file, not writable, not readable by TensorFlow, or a folder with contents.
    """
    if paths.is_remote(path):
        raise ValueError(f"--{flag}={path} is a remote path; give a local folder, and copy it when it is complete")
    if set("[*?") & set(os.path.realpath(path)):
        raise ValueError(f"--{flag}={path}: TensorFlow takes [ * ? in a path for a pattern; rename it")
    if path.endswith(file_endings) or os.path.isfile(path):
        raise ValueError(f"--{flag}={path} names a file; give the folder that the files are to be put into")
    names = sorted(os.listdir(path)) if os.path.isdir(path) else []
    if names := [name for name in names if not writing.is_left_over(name)]:
        raise ValueError(
            f"--{flag}={path} holds {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}; "
            "nothing is overwritten, so give a folder that is new or empty"
        )
    above = pathlib.Path(os.path.realpath(path))
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise ValueError(f"--{flag}={path} cannot be created, because {above} is a file; give another folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ValueError(f"--{flag}={path} cannot be written, because {above} is read-only; give another folder")


@contextlib.contextmanager
def folder_that_appears_when_done(path, flag, last):
    """Yields a folder to write to, as a `pathlib.Path`. It gets its final name only if the block succeeds.

    Args:
        path, flag: as of `check_new_folder`, which must have accepted them.
        last: tuple of str; endings of files that appear last in an existing folder, because readers look for them.

    Raises:
        ValueError: the folder cannot be created.
        OSError: the disk is full; no unfinished files remain.
    """
    path = pathlib.Path(os.path.realpath(path))
    # An existing folder may be a mount, which cannot be replaced: move the files up within it.
    is_there = path.is_dir()
    unfinished = path / f".unfinished-{os.getpid()}" if is_there else pathlib.Path(writing.unfinished_name(path))
    try:
        for each in path.iterdir() if is_there else path.parent.glob(f".{glob.escape(path.name)}.unfinished-*"):
            if writing.is_left_over(each.name):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise ValueError(f"--{flag}={path} cannot be created: {error.strerror} ({error.filename})") from None
    try:
        with _one_sentence(path, flag):
            yield unfinished
            for file in unfinished.rglob("*"):
                writing.flush(file)
            if is_there:
                for file in sorted(unfinished.iterdir(), key=lambda file: (file.name.endswith(last), file.name)):
                    file.rename(path / file.name)
            else:
                unfinished.rename(path)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextlib.contextmanager
def _one_sentence(path, flag):
    """Replaces any library's error about a full disk by one sentence."""
    try:
        yield
    except Exception as error:
        # TensorFlow, safetensors and the converters have their own exceptions, but quote the system's message.
        reasons = [os.strerror(number) for number in writing.FULL if os.strerror(number) in str(error)]
        if not reasons:
            raise
        raise OSError(
            f"--{flag}={path} cannot be written ({reasons[0]}); make room on its disk, or give another folder"
        ) from error
