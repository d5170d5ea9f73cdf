"""Checks of outputs before any work starts."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

from bert_keras.storage import paths, writing


def check_output_file(path: str | os.PathLike, flag: str, inputs: Mapping[str, Any] | None = None) -> None:
    """Raises ValueError for an output file that cannot be written or would replace an input. Creates nothing.

    A missing folder is an error, because programs create folders only for flags such as `--output_dir`. `inputs` has a
    file, a list of files or None by flag; `flag` is the user's name for the file, such as "--output_file".
    """
    if not path:
        raise ValueError(f"{flag} is empty; give the file to write")
    path = paths.local(path)
    if paths.is_dir(path):
        raise ValueError(f"{flag}={path} is a folder; give the file to write, for example {paths.join(path, 'out')}")
    folder = paths.parent(path)
    if not paths.is_remote(path) and not paths.is_special(path):
        if not os.path.isdir(folder):
            raise ValueError(f"{flag}={path}: the folder {folder} does not exist; create it, or give another file")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ValueError(f"{flag}={path}: the folder {folder} cannot be written to; give a file in another folder")
    if not paths.is_remote(path) and os.path.exists(path) and not os.access(path, os.W_OK):
        raise ValueError(f"{flag}={path} is read-only; give another file, or change its permissions")
    for input_flag, files in (inputs or {}).items():
        for file in [files] if isinstance(files, (str, os.PathLike)) else files or ():
            if file and is_same_file(path, file):
                raise ValueError(f"{flag}={path} is also {input_flag}, which would be lost; give another file")


def is_same_file(path: str | os.PathLike, other: str | os.PathLike) -> bool:
    """Returns whether two paths lead to the same file, also through links; neither has to exist."""
    path, other = paths.local(path), paths.local(other)
    if paths.is_remote(path) or paths.is_remote(other):
        return path == other
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def check_new_folder(path: str, flag: str, file_endings: tuple[str, ...] = ()) -> None:
    """Raises ValueError for a folder that cannot be written, would be overwritten, or cannot be read by TensorFlow.

    `flag` has no dashes. `file_endings` show that the path is a file, not a folder.
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
    check_can_create(path, f"--{flag}={path}")


def check_can_create(folder: str | os.PathLike, what: str) -> None:
    """Raises ValueError if a local folder cannot be created or, where it exists, written to; `what` names it."""
    above = pathlib.Path(os.path.realpath(folder))
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise ValueError(f"{what} cannot be created, because {above} is a file; give another folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ValueError(
            f"{what} cannot be written, because {above} is read-only; give another folder, or change its permissions"
        )
