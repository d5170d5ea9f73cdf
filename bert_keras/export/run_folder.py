"""Reads the run that wrote a model, and its evaluation data, to measure exports of the model."""

import logging
import tempfile

from bert_keras.mistakes import MissingFile, Mistake
from bert_keras.modeling.config import read_json_object
from bert_keras.storage import paths
from bert_keras.training.finetuning.classification import Classification
from bert_keras.training.finetuning.data import EVALUATION_FILE
from bert_keras.training.finetuning.model_dir import is_model_of
from bert_keras.training.finetuning.ner import TokenClassification
from bert_keras.training.finetuning.squad import QuestionAnswering
from bert_keras.training.run_dir import RUN_CONFIG, TRIES_FILE, read_run_config
from bert_keras.training.sentence_vectors.task import SentenceVectors

log = logging.getLogger("bert_keras")

_USUAL_TAGS_FILE = "dev.txt"
_TASKS = {"run_ner": TokenClassification, "run_sentence_vectors": SentenceVectors}


class _Settings(dict):
    """The settings of a run by flag name. A missing one is an error that names the file."""

    def __missing__(self, name):
        file = paths.join(self["output_dir"], RUN_CONFIG)
        raise ValueError(f"{file} has no setting {name}; copy the file that the run wrote, or train again")


def name_of(folder):
    """Returns the name of a model: that of its folder, or that of the run if it is in the folder `model` of a run."""
    folder = paths.real(folder)
    return paths.name(paths.parent(folder) if paths.name(folder) == "model" else folder)


def read_run(folder, step):
    """Reads the settings and results of the run that wrote the model in a folder, at the step in its task.json.

    Returns:
        dict of `read_run_config` and "folder", the path of the run folder; "evaluation", the dict of its
        evaluation.json, or None if that is missing or of another step; "tries", the text of its tries.tsv or None. The
        result is None if the model is not in the folder of the run that wrote it.
    """
    run_folder = paths.parent(paths.real(folder))
    config_file = paths.join(run_folder, RUN_CONFIG)
    if not paths.is_file(config_file):
        return None
    if not is_model_of(run_folder, folder):
        log.warning(
            "ignoring %s: nothing shows that this run wrote the model in %s; if it did, run its command again with "
            "the same flags, which records the model without more training",
            config_file,
            folder,
        )
        return None
    evaluation, tries = paths.join(run_folder, EVALUATION_FILE), paths.join(run_folder, TRIES_FILE)
    results = read_json_object(evaluation) if paths.is_file(evaluation) else None
    return {
        **read_run_config(config_file),
        "folder": run_folder,
        "evaluation": results if results and results.get("step") == step else None,
        "tries": paths.read_text(tries) if paths.is_file(tries) else None,
    }


def reopen_evaluation(run, stored, files, eval_file=None):
    """Reads the evaluation data of a run, or other data in the same way, into a `Task` that it prepares.

    stored is the task.json of the model, and files its ModelFolder. eval_file must exist.
    """
    program = run["program"]
    # The settings of the model override those of the run, which may have changed later.
    settings = _Settings(run["settings"] | {name: stored[name] for name in run["settings"] if name in stored})
    settings |= {"output_dir": run["folder"], "do_train": False, "do_eval": True, "do_predict": False}
    if eval_file:
        settings |= {"eval_file": eval_file, "eval_share": 0.0, "task_name": None, "tfds": None}
    path = _evaluation_data(program, settings)
    if path is None:
        raise Mistake("the run in {} has no evaluation data that can be read; give {eval_file}", run["folder"])
    if path and not paths.exists(path):
        raise MissingFile(
            "{}, the evaluation data of the run in {}, does not exist; give {eval_file}", path, run["folder"]
        )
    if program == "run_squad":
        settings["eval_file"] = path
        task = QuestionAnswering(settings, files)
    else:
        task = _TASKS.get(program, Classification)(settings, files, stored)
    with tempfile.TemporaryDirectory() as scratch:
        task.prepare(scratch)
    return task


def _evaluation_data(program, settings):
    """Returns the path of the evaluation data of a run; "" if a name identifies them, None if there are none."""
    if settings["eval_file"]:
        return settings["eval_file"]
    if program == "run_squad":
        return settings["predict_file"]
    if program == "run_ner":
        return settings["data_dir"] and paths.join(settings["data_dir"], _USUAL_TAGS_FILE)
    if program == "run_sentence_vectors":
        return None
    if settings["task_name"] or settings["tfds"]:
        return settings["data_dir"] or ""
    return settings["train_file"] if settings["eval_share"] else None
