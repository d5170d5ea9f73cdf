"""Reads the files that a training run has next to its model: its settings, and examples for the page of the server."""

import logging
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.storage import paths
from bert_keras.storage.json_files import read_json, read_object

log = logging.getLogger("bert_keras")

# In the folder of a run, so that neither its model nor an export has texts of the user.
PAGE_EXAMPLES_FILE = "page_examples.json"

_RUN_CONFIG = "run_config.json"
_MODEL_OF_RUN = "model"


def settings_of_run(folder: str) -> dict[str, Any]:
    """Returns the settings of the training run in whose folder the model is, by name; {} without one."""
    file = _file_of_run(folder, _RUN_CONFIG)
    settings = read_object(file).get("settings") if file else None
    return settings if isinstance(settings, dict) else {}


def page_examples(folder: str) -> list[dict[str, Any]]:
    """Returns examples for the page of the server, of the training run in whose folder the model is: texts by field."""
    file = _file_of_run(folder, PAGE_EXAMPLES_FILE)
    if not file:
        return []
    examples = read_json(file, "give a JSON list")
    if not isinstance(examples, list) or not all(map(_is_example, examples)):
        raise Mistake(
            '{}: a list of objects with texts is needed, such as [{{"text": "..."}}]; correct the file, or delete it',
            file,
        )
    if examples:
        log.info("the page shows texts of the training data, those in %s; delete the file to leave them out", file)
    return examples


def _file_of_run(folder: str, name: str) -> str | None:
    """Returns the path of a file in the folder of the training run in whose folder the model is."""
    folder = folder.rstrip("/")
    folders = [folder, *([paths.parent(folder)] if paths.name(folder) == _MODEL_OF_RUN else [])]
    return next((file for place in folders if paths.is_file(file := paths.join(place, name))), None)


def _is_example(value: Any) -> bool:
    """Whether a value is an object whose values are texts or lists of texts."""
    texts = value.values() if isinstance(value, dict) else ()
    return bool(texts) and all(
        isinstance(item, str) for text in texts for item in (text if isinstance(text, list) else [text])
    )
