"""The files that a run of run_ner.py reads."""

from typing import Any

from bert_keras.mistakes import Mistake, Setting
from bert_keras.settings.effects import refuse
from bert_keras.storage import paths
from bert_keras.storage.json_rows import has_json_rows
from bert_keras.tasks.tagging.settings import USUAL_EVAL_FILE, NerSettings

# For each file: the flag that uses it, and its name in --data_dir.
_FILES = {
    "train_file": ("do_train", "train.txt"),
    "eval_file": ("do_eval", USUAL_EVAL_FILE),
    "predict_file": ("do_predict", "test.txt"),
}


def find_files(settings: NerSettings) -> dict[str, str]:
    """Returns the paths of the files that the actions of the settings need, by flag name."""
    files = {}
    for name, (action, usual_name) in _FILES.items():
        if not getattr(settings, action):
            continue
        path = getattr(settings, name) or (settings.data_dir and paths.join(settings.data_dir, usual_name))
        if not path:
            raise Mistake("{} needs {}, or {data_dir} with a {}", Setting(action), Setting(name), usual_name)
        files[name] = path
    return files


def check_columns(settings: NerSettings) -> None:
    """Refuses columns for files that have none."""
    files = find_files(settings).values()
    if all(map(has_json_rows, files)):
        reason = f"{', '.join(files)} has no columns, but JSON"
        refuse(settings, dict.fromkeys(("word_column", "tag_column"), reason))


def columns_of(settings: NerSettings, path: str) -> dict[str, Any]:
    """Returns the columns of a file as arguments of `read_conll`; JSON lines have none."""
    columns = {"word_column": settings.word_column, "tag_column": settings.tag_column}
    return {} if has_json_rows(path) else columns
