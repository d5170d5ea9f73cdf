"""The run that wrote a model, and the data that it was evaluated on, read again to judge what was made of the model."""

import logging

from bert_keras.data_prep.tasks.squad_answers import AnswerSettings
from bert_keras.modeling.config import read_json_object
from bert_keras.storage import paths
from bert_keras.training.finetuning.classification import Classification
from bert_keras.training.finetuning.data import EVALUATION_FILE
from bert_keras.training.finetuning.model_dir import is_model_of
from bert_keras.training.finetuning.ner import TokenClassification
from bert_keras.training.finetuning.squad import QuestionAnswering, WindowSettings
from bert_keras.training.run_dir import RUN_CONFIG, TRIES_FILE, read_run_config

log = logging.getLogger("bert_keras")

_USUAL_TAGS_FILE = "dev.txt"


def read_run(folder, step):
    """Reads what a run says of itself: the run that wrote a model.

    Args:
        folder: str; the folder of the model, local or remote.
        step: int; the step of the model, as its task.json says.

    Returns:
        dict, see `training.run_dir.read_run_config`, with three more keys: "folder", the path of the run; "evaluation",
        the dict of its evaluation.json, None where there is none of this step; and "tries", the text of its tries.tsv,
        None where it has none. None if the model is not in the folder of the run that wrote it.
    """
    run_folder = paths.parent(paths.real(folder))
    config_file = paths.join(run_folder, RUN_CONFIG)
    if not paths.is_file(config_file):
        return None
    if not is_model_of(run_folder, folder):
        log.warning(
            "%s is not used: nothing shows that this run wrote the model in %s; if it did, run its command again with "
            "the same flags, which trains nothing more and notes the model",
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
    """Reads the data of an evaluation as the run did.

    Args:
        run: what `read_run` gave.
        stored: dict, the task.json of the model.
        files: ModelFiles of the model.
        eval_file: path of other data in the place of those of the run; None: the run's own.

    Returns:
        a `training.finetuning.task.FineTuning` that judges answers to these data alone; it is to be prepared.

    Raises:
        FileNotFoundError: the data are not there.
        ValueError: the run has not been evaluated and there is no eval_file; or see the reader of each task.
    """
    find, open_ = _OF_PROGRAM[run["program"]]
    # What the model was trained with, whatever the run was told later.
    settings = {**run["settings"], **{name: stored[name] for name in run["settings"] if name in stored}}
    path = eval_file or find(settings)
    if path is None:
        raise ValueError(f"the run in {run['folder']} was evaluated on nothing that could be read; give --eval_file")
    if path and not paths.exists(path):
        told = f", which the run in {run['folder']} was evaluated on," if not eval_file else ""
        raise FileNotFoundError(f"{path}{told} is not there; give --eval_file")
    if eval_file:
        settings |= {"eval_file": eval_file, "eval_share": 0.0, "task_name": None, "tfds": None}
    settings |= {"output_dir": run["folder"], "do_train": False, "do_eval": True, "do_predict": False}
    return open_(settings, stored, files)


def _classes_file(settings):
    """Returns where the data are; "" where they are found by a name, as those of TensorFlow Datasets."""
    if settings["task_name"] or settings["tfds"]:
        return settings["data_dir"] or ""
    return settings["eval_file"] or (settings["train_file"] if settings["eval_share"] else None)


def _open_classes(settings, stored, files):
    return Classification(settings, files, stored)


def _questions_file(settings):
    return settings["eval_file"] or settings["predict_file"]


def _open_questions(settings, stored, files):
    windows, answers = (
        class_(**{name: settings[name] for name in class_.__dataclass_fields__})
        for class_ in (WindowSettings, AnswerSettings)
    )
    return QuestionAnswering(
        files.tokenizer,
        windows,
        answers,
        eval_file=_questions_file(settings),
        answer_language=settings.get("answer_language"),
    )


def _tags_file(settings):
    usual = settings["data_dir"] and paths.join(settings["data_dir"], _USUAL_TAGS_FILE)
    return settings["eval_file"] or usual


def _open_tags(settings, stored, files):
    return TokenClassification(
        files.tokenizer,
        settings["max_seq_length"],
        eval_file=_tags_file(settings),
        tags=stored["labels"],
        document_context=settings["document_context"],
        tagger=settings["tagger"],
        word_column=settings.get("word_column"),  # which runs of earlier versions lack
        tag_column=settings.get("tag_column"),
    )


# For each program what finds the path of the data, and what reads them.
_OF_PROGRAM = {
    "run_classifier": (_classes_file, _open_classes),
    "run_squad": (_questions_file, _open_questions),
    "run_ner": (_tags_file, _open_tags),
}
