"""Checks of outputs before any work starts."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from bert_keras.mistakes import Message, Mistake, Setting, some_of
from bert_keras.storage import inspection, paths, writing
from bert_keras.storage.hub import SCHEME

TASK_FILE = "task.json"
# Files in the folders of exports, models and runs.
_MODEL_FILES = ("export.json", TASK_FILE, "run_config.json", "modules.json")


def check_output_file(path: str | os.PathLike, setting: str, inputs: Mapping[str, Any] | None = None) -> None:
    """Raises a Mistake for an output file that cannot be written or would replace an input. Creates nothing.

    A missing folder is an error, because programs create folders only for settings such as output_dir. `setting` is the
    name of the one that has `path`; `inputs` has a file, a list of files or None by setting.
    """
    output = Message("{}={}", Setting(setting), path)
    if not path:
        raise Mistake("{} is empty; give the file to write", Setting(setting))
    paths.check_address(path)
    path = paths.local(path)
    if paths.is_dir(path):
        raise Mistake("{} is a folder; give the file to write, for example {}", output, paths.join(path, "out"))
    folder = paths.parent(path)
    if not paths.is_remote(path) and not paths.is_special(path):
        if not os.path.isdir(folder):
            raise Mistake("{}: the folder {} does not exist; create it, or give another file", output, folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise Mistake("{}: the folder {} cannot be written to; give a file in another folder", output, folder)
    if not paths.is_remote(path) and os.path.exists(path) and not os.access(path, os.W_OK):
        raise Mistake("{} is read-only; give another file, or change its permissions", output)
    for input_setting, files in (inputs or {}).items():
        for file in [files] if isinstance(files, (str, os.PathLike)) else files or ():
            if file and is_same_file(path, file):
                raise Mistake("{} is also {}, which would be lost; give another file", output, Setting(input_setting))


def check_ending(path: str | os.PathLike, setting: str, written: Sequence[str]) -> None:
    """Raises a Mistake for an output file whose name promises a format that is not written; `written` are those."""
    ending = os.path.splitext(path)[1].lower()
    if ending in inspection.KNOWN_ENDINGS and ending not in written:
        advice = ", ".join(written) or ".txt"
        one_of = "one of " * (len(written) > 1)
        raise Mistake(
            "{}={}: no {} file is written here; end it with {}", Setting(setting), path, ending, one_of + advice
        )


def is_same_file(path: str | os.PathLike, other: str | os.PathLike) -> bool:
    """Returns whether two paths lead to the same file, also through links; neither has to exist."""
    path, other = paths.real(path), paths.real(other)
    return path == other or os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def check_new_folder(path: str, setting: str, file_endings: tuple[str, ...] = ()) -> None:
    """Raises a Mistake for a folder that cannot be written, would be overwritten, or cannot be read by TensorFlow.

    `setting` is the name of the one that has `path`. `file_endings` show that the path is a file, not a folder.
    """
    output = Message("{}={}", Setting(setting), path)
    if paths.is_remote(path):
        raise Mistake("{} is a remote path; give a local folder, and copy it when it is complete", output)
    if set("[*?") & set(os.path.realpath(path)):
        raise Mistake("{}: TensorFlow takes [ * ? in a path for a pattern; rename it", output)
    if path.endswith(file_endings) or os.path.isfile(path):
        raise Mistake("{} names a file; give the folder that the files are to be put into", output)
    names = sorted(os.listdir(path)) if os.path.isdir(path) else []
    if names := [name for name in names if not writing.is_left_over(name)]:
        first_names = some_of(names, 3)
        raise Mistake("{} holds {}; nothing is overwritten, so give a folder that is new or empty", output, first_names)
    check_can_create(path, output)


def check_can_create(folder: str | os.PathLike, called: str | Message) -> None:
    """Raises a Mistake if a local folder, which is `called` so, cannot be created or, where it exists, written to."""
    above = pathlib.Path(os.path.realpath(folder))
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise Mistake("{} cannot be created, because {} is a file; give another folder", called, above)
    if not os.access(above, os.W_OK | os.X_OK):
        raise Mistake(
            "{} cannot be written, because {} is read-only; give another folder, or change its permissions",
            called,
            above,
        )


def part_of_model(folder: str | os.PathLike) -> str:
    """Returns a sentence about a folder that is an export, a part of a model's folder or a web page; "" for others."""
    above, place = None, paths.local(folder).rstrip("/")
    if paths.is_file(paths.join(place, _MODEL_FILES[0])):
        return f"{folder} is an export, which has no checkpoint; give the run or the model that it was made from"
    is_page = all(paths.is_file(paths.join(place, name)) for name in ("index.html", "model.json"))
    for _ in range(2):  # a try of a run, and the variables of a SavedModel, are two folders below it
        place = paths.parent(place) if paths.is_remote(place) else os.path.dirname(os.path.abspath(place))
        above = above or next((place for name in _MODEL_FILES if paths.is_file(paths.join(place, name))), None)
    if is_page:
        advice = f", {above}" if above else " that it was copied from"
        return f"{folder} is a page for a web browser; give the folder of the export{advice}"
    return f"{folder} is only a part of {above}; give that folder" if above else ""


def refuse_fine_tuned(init_checkpoint: str | os.PathLike) -> None:
    """Refuses a fine-tuned model as a pre-trained one; it has another setting, and needs no task."""
    place = os.fspath(init_checkpoint)
    files = [] if place.startswith(SCHEME) else [paths.join(place, TASK_FILE), paths.join(place, "model", TASK_FILE)]
    if any(map(paths.is_file, files)):
        raise Mistake("{init_checkpoint}={} is a fine-tuned model; give it as {model_dir}", place)
