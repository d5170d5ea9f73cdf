"""Reads task.json, which names the task of a model. Imports without TensorFlow."""

import json


def _is_length(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_names(value):
    return isinstance(value, list) and len(value) > 0 and all(isinstance(name, str) for name in value)


# Pairs: valid values in words, and the check of a value.
_LENGTH = "a whole number above 0", _is_length
_LENGTH_OR_NULL = "a whole number above 0, or null", lambda value: value is None or _is_length(value)
_NUMBER = "a number", _is_number
_SWITCH = "true or false", lambda value: isinstance(value, bool)
_NAMES = "a list of names", _is_names
_ANSWER_TEXT = '"release" or "offsets"', lambda value: value in ("release", "offsets")
_POOLING = '"cls", "mean" or "max"', lambda value: value in ("cls", "mean", "max")
_LAYER = (
    'a whole number or "embeddings"',
    lambda value: value == "embeddings" or (isinstance(value, int) and not isinstance(value, bool)),
)
_TAGGER = '"linear" or "bilstm"', lambda value: value in ("linear", "bilstm")

_OF_TEXTS = {"is_pair": _SWITCH, "doc_stride": _LENGTH_OR_NULL}
# Required settings of each task, in addition to max_seq_length.
_VALUES = {
    "classification": {"labels": _NAMES, **_OF_TEXTS},
    "regression": _OF_TEXTS,
    "multi_label": {"labels": _NAMES, **_OF_TEXTS},
    "multiple_choice": {},
    "question_answering": {
        "doc_stride": _LENGTH,
        "max_query_length": _LENGTH,
        "max_answer_length": _LENGTH,
        "n_best_size": _LENGTH,
        "version_2_with_negative": _SWITCH,
        "null_score_diff_threshold": _NUMBER,
        "answer_text": _ANSWER_TEXT,
    },
    "token_classification": {"labels": _NAMES, "tagger": _TAGGER},
}

FINE_TUNED_TASKS = tuple(_VALUES)

# Additional tasks of exports, which are made from pre-trained models.
_VALUES_OF_EXPORTS = {"fill_mask": {"top_k": _LENGTH}, "vectors": {"pooling": _POOLING, "layer": _LAYER}}


def read_settings(path):
    """Reads the task.json of a fine-tuned model or an export and checks that it has all settings of its task.

    Args:
        path: a run folder, its folder `model`, or the folder of an export.

    Returns:
        pathlib.Path of the model's folder, and a dict: `task`, `max_seq_length`, and the other settings of the task.
        The task is one of FINE_TUNED_TASKS; for an export also "fill_mask" or "vectors".

    Raises:
        FileNotFoundError: the path does not hold a fine-tuned model or an export.
        ValueError: its task.json is damaged, names an unknown task, or lacks a setting.
    """
    from bert_keras.prediction.loading.model_files import TASK_FILE, is_export, read_task  # loads TensorFlow

    folder, values = read_task(path)
    file, task = folder / TASK_FILE, values["task"]
    needed_values = _VALUES | _VALUES_OF_EXPORTS if is_export(folder) else _VALUES
    if task not in needed_values:
        raise ValueError(
            f'{file}: the task is "{task}", but must be one of {", ".join(needed_values)}; '
            "give a model that was fine-tuned by a program of this project"
        )
    for name, (needed, is_right) in {"max_seq_length": _LENGTH, **needed_values[task]}.items():
        if name not in values:
            raise ValueError(
                f"{file} has no {name}, which the task {task} needs; take the file that the training wrote"
            )
        if not is_right(values[name]):
            raise ValueError(
                f"{file}: {name} is {json.dumps(values[name])}, but must be {needed}; take the file that the training "
                "wrote"
            )
    return folder, values


def check_length(settings, config, folder):
    """Checks that the model has positions for max_seq_length, and returns it.

    Args:
        settings: the result of `read_settings`.
        config: BertConfig.
        folder: pathlib.Path of the model, for the error message.

    Returns:
        int, the length.

    Raises:
        ValueError: the length is too large.
    """
    from bert_keras.prediction.loading.model_files import TASK_FILE  # loads TensorFlow

    length, num_positions = settings["max_seq_length"], config.max_position_embeddings
    if length > num_positions:
        raise ValueError(
            f"{folder / TASK_FILE}: max_seq_length is {length}, but the model has {num_positions} positions; take the "
            "file that the training wrote"
        )
    return length
