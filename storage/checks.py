"""Checks of outputs before any work starts."""

import os

from bert_keras.storage import paths


def check_output_file(path, flag, inputs=None):
    """Rejects an output file that cannot be written or would replace an input.

    The function creates nothing. A missing folder is an error, because programs create folders only for flags such as
    `--output_dir`.

    Args:
        path: str; the file to write, local or remote.
        flag: str; the user's name for it, such as "--output_file".
        inputs: dict from the user's name for an input, such as "--vocab_file", to a file or a list of files. None and
            empty values are ignored.

    Raises:
        ValueError: the path is empty, a folder, read-only or one of the inputs, or its folder is missing or not
            writable.
    """
    if not path:
        raise ValueError(f"{flag} is empty; give the file to write")
    if paths.is_dir(path):
        raise ValueError(f"{flag}={path} is a folder; give the file to write, for example {paths.join(path, 'out')}")
    folder = paths.parent(path)
    if not paths.is_remote(path) and not paths.is_special(path):
        if not os.path.isdir(folder):
            raise ValueError(f"{flag}={path}: there is no folder {folder}; create it, or give another file")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ValueError(f"{flag}={path}: the folder {folder} cannot be written to; give a file in another folder")
    if not paths.is_remote(path) and os.path.exists(path) and not os.access(path, os.W_OK):
        raise ValueError(f"{flag}={path} is read-only; give another file, or change its permissions")
    for input_flag, files in (inputs or {}).items():
        for file in [files] if isinstance(files, (str, os.PathLike)) else files or ():
            if file and is_same_file(path, file):
                raise ValueError(f"{flag}={path} is also {input_flag}, which would be lost; give another file")


def is_same_file(path, other):
    """Returns whether two paths lead to the same file, also through links; neither has to exist."""
    if paths.is_remote(path) or paths.is_remote(other):
        return os.fspath(path) == os.fspath(other)
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)
