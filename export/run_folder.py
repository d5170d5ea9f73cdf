"""Reads the run that wrote a model, and its evaluation data, to measure exports of the model."""

import logging

from bert_keras.modeling.config import read_json_object
from bert_keras.storage import paths
from bert_keras.training.finetuning.classification import Classification
from bert_keras.training.finetuning.data import EVALUATION_FILE
from bert_keras.training.finetuning.model_dir import is_model_of
from bert_keras.training.finetuning.ner import TokenClassification
from bert_keras.training.finetuning.squad import QuestionAnswering
from bert_keras.training.run_dir import RUN_CONFIG, TRIES_FILE, read_run_config

log = logging.getLogger("bert_keras")

_USUAL_TAGS_FILE = "dev.txt"


def read_run(folder, step):
    """Reads the settings and results of the run that wrote a model.

    Args:
        folder: str; the folder of the model, local or remote.
        step: int; the step in the task.json of the model.

    Returns:
        dict, see `training.run_dir.read_run_config`, with three more keys: "folder", the path of the run folder;
        "evaluation", the dict of its evaluation.json, or None if that is missing or of another step; "tries", the text
        of its tries.tsv or None. The result is None if the model is not in the folder of the run that wrote it.
    """
    run_folder = paths.parent(paths.real(folder))
    config_file = paths.join(run_folder, RUN_CONFIG)
    if not paths.is_file(config_file):
        return None
    if not is_model_of(run_folder, folder):
        log.warning(
            "ignoring %s: nothing shows that this run wrote the model in %s; if it did, run its command again with "
            "the same flags, which records the model without more training",
            *(config_file, folder),
        )
        return None
    evaluation, tries = paths.join(run_folder, EVALUATION_FILE), paths.join(run_folder, TRIES_FILE)
    figures = read_json_object(evaluation) if paths.is_file(evaluation) else None
    return {
        **read_run_config(config_file),
        "folder": run_folder,
        "evaluation": figures if figures and figures.get("step") == step else None,
        "tries": paths.read_text(tries) if paths.is_file(tries) else None,
    }


def reopen_evaluation(run, stored, files, eval_file=None):
    """Reads evaluation data in the same way as the run.

    Args:
        run: result of `read_run`.
        stored: dict, the task.json of the model.
        files: ModelFiles of the model.
        eval_file: path of other data; None: the evaluation data of the run.

    Returns:
        a `training.finetuning.task.Task` for evaluation only; the caller must call its `prepare`.

    Raises:
        FileNotFoundError: the data do not exist.
        ValueError: the run has no evaluation data, and eval_file is None; or see the reader of each task.
    """
    find, open_ = _OF_PROGRAM[run["program"]]
    # The settings of the model override those of the run, which may have changed later.
    settings = {**run["settings"], **{name: stored[name] for name in run["settings"] if name in stored}}
    path = eval_file or find(settings)
    if path is None:
        raise ValueError(f"the run in {run['folder']} has no evaluation data that can be read; give --eval_file")
    if path and not paths.exists(path):
        told = f", the evaluation data of the run in {run['folder']}," if not eval_file else ""
        raise FileNotFoundError(f"{path}{told} does not exist; give --eval_file")
    if eval_file:
        settings |= {"eval_file": eval_file, "eval_share": 0.0, "task_name": None, "tfds": None}
    settings |= {"output_dir": run["folder"], "do_train": False, "do_eval": True, "do_predict": False}
    return open_(settings, stored, files)


def _classes_file(settings):
    """Returns the path of the data; "" if a name identifies them, such as that of a TensorFlow dataset."""
    if settings["task_name"] or settings["tfds"]:
        return settings["data_dir"] or ""
    return settings["eval_file"] or (settings["train_file"] if settings["eval_share"] else None)


def _open_classes(settings, stored, files):
    return Classification(settings, files, stored)


def _questions_file(settings):
    return settings["eval_file"] or settings["predict_file"]


def _open_questions(settings, stored, files):
    return QuestionAnswering({**settings, "eval_file": _questions_file(settings)}, files)


def _tags_file(settings):
    usual = settings["data_dir"] and paths.join(settings["data_dir"], _USUAL_TAGS_FILE)
    return settings["eval_file"] or usual


def _open_tags(settings, stored, files):
    return TokenClassification(settings, files, stored)


# Program -> (function that finds the path of the data, function that reads them).
_OF_PROGRAM = {
    "run_classifier": (_classes_file, _open_classes),
    "run_squad": (_questions_file, _open_questions),
    "run_ner": (_tags_file, _open_tags),
}
