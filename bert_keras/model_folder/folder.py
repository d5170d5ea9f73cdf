"""Finds the parts of a model from one path: checkpoint, config, vocabulary, task, and how to prepare text."""

import dataclasses
import json
import logging
import os
import pathlib
from typing import Any

from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import (
    TOKENIZER_FILE,
    check_special_tokens,
    find_casing,
    read_tokenizer_config,
    tokenizer_config_text,
    tokenizer_file_of,
)
from bert_keras.mistakes import MissingFile, Mistake, Setting
from bert_keras.model_folder.sentence_transformers import has_modules, lower_cases_first, read_modules
from bert_keras.model_folder.tasks import EXPORTED_TASKS, FINE_TUNED_TASKS, LENGTH, TASKS
from bert_keras.modeling import BertConfig, check_config, check_sizes, check_vocabulary, open_checkpoint, read_config
from bert_keras.modeling.checkpoints.hub import TASK_FILE, local_model, model_of_run
from bert_keras.modeling.checkpoints.loading import Checkpoint
from bert_keras.modeling.checkpoints.safetensors_format import INDEX_ENDING, warn_about_pooler
from bert_keras.modeling.config import read_json_object, released_names
from bert_keras.modeling.released import find_released
from bert_keras.storage import paths
from bert_keras.storage.vocabulary import longest_word

log = logging.getLogger("bert_keras")

EXPORT_FILE = "export.json"

_SPECIAL_TOKENS = ("[CLS]", "[SEP]", "[MASK]", "[UNK]")


@dataclasses.dataclass(frozen=True)
class Preparation:
    """The settings that prepare text for a model.

    Attributes:
        strip_accents: None: the same as do_lower_case.
        longest: maximum number of tokens in a sequence.
        longest_word: maximum number of characters in a word that is split; None: that of the original BERT.
    """

    do_lower_case: bool
    strip_accents: bool | None
    longest: int
    longest_word: int | None = None


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """An open checkpoint with all that inference or further training needs.

    Attributes:
        checkpoint: None for an export, and if training starts from random weights.
        tokenizer: with the model's vocabulary and casing.
    """

    checkpoint: Checkpoint | None
    config: BertConfig
    tokenizer: FullTokenizer
    vocab_file: str
    preparation: Preparation


def is_export(path: str | os.PathLike) -> bool:
    """Returns whether a path is the folder of an export."""
    return paths.is_file(paths.join(local_model(path), EXPORT_FILE))


def open_files(
    path: str | os.PathLike,
    vocab_file: str | os.PathLike | None = None,
    config_file: str | os.PathLike | None = None,
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
) -> ModelFiles:
    """Finds and checks the parts of a model as `open_model_files`, or those of an export other than its network."""
    if not is_export(path):
        return open_model_files(path, vocab_file, config_file, do_lower_case, strip_accents)
    given = {"vocab_file": vocab_file, "config_file": config_file}
    given |= {"do_lower_case": do_lower_case, "strip_accents": strip_accents}
    if names := [Setting(argument) for argument, value in given.items() if value is not None]:
        raise Mistake("{} is an export, which sets how to prepare text; leave out {}", path, names)
    vocab_file, config_file = (paths.join(path, name) for name in ("vocab.txt", "bert_config.json"))
    for file in (vocab_file, config_file):
        if not paths.is_file(file):
            raise FileNotFoundError(f"{path} has no {paths.name(file)}; take the whole folder of the export")
    return open_model_files(None, vocab_file, config_file)


def open_model_files(
    path: str | os.PathLike | None,
    vocab_file: str | os.PathLike | None = None,
    config_file: str | os.PathLike | None = None,
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
) -> ModelFiles:
    """Finds and checks the parts of a model. Logs the casing of text.

    Args:
        path: a checkpoint as `modeling.open_checkpoint` takes it: a folder, a prefix, or one of its files. Also a run
            folder; for fine-tuning, its folder `model` is used. None: no checkpoint; both files are required.
        vocab_file: the vocabulary; None: vocab.txt in the checkpoint's folder, or else its tokenizer.json.
        config_file: the config, or the name of a released model; None: the config in the checkpoint's folder.
        do_lower_case: bool; None: the setting in the model's folder, or else a guess from the vocabulary.
        strip_accents: bool; None: the setting in the model's folder, or else the same as do_lower_case.

    Returns:
        ModelFiles.
    """
    if path is not None and is_export(path):
        raise Mistake(
            "{} is an export, which has no checkpoint; give the run or the model that it was made from, or "
            "use the export with predict.py --model_dir",
            path,
        )
    checkpoint = None if path is None else open_checkpoint(model_of_run(path))
    folder = paths.parent(checkpoint.prefix if checkpoint else vocab_file or "")
    config = given_config(config_file) if config_file else checkpoint and checkpoint.config
    if config is None:
        raise MissingFile("{} has no bert_config.json or config.json; put it there, or give {config_file}", folder)
    if checkpoint:
        check_sizes(config, checkpoint)
        if config_file:
            check_config(config, checkpoint)
        if checkpoint.prefix.endswith((".safetensors", INDEX_ENDING)):
            warn_about_pooler(config, checkpoint.names)
    vocab_file = vocab_file or (checkpoint and checkpoint.vocab_file)
    if vocab_file is None:
        raise MissingFile(
            "{} has no vocab.txt, and no tokenizer.json with word pieces; put one there, or give {vocab_file}", folder
        )
    preparation = find_preparation(folder, vocab_file, config, do_lower_case, strip_accents)
    tokenizer = FullTokenizer(vocab_file, preparation.do_lower_case, preparation.strip_accents)
    advice = "give the vocabulary that the model was trained with"
    check_special_tokens(tokenizer.vocab, _SPECIAL_TOKENS, str(vocab_file), advice)
    return ModelFiles(checkpoint, config, tokenizer, str(vocab_file), preparation)


def given_config(config_file: str | os.PathLike) -> BertConfig:
    """Returns the BertConfig of a released name or of a file."""
    return BertConfig.from_name(str(config_file)) if config_file in released_names() else read_config(config_file)


def find_preparation(
    folder: str | os.PathLike,
    vocab_file: str | os.PathLike,
    config: BertConfig,
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
) -> Preparation:
    """Finds and logs how training prepared text, and checks the vocabulary against it.

    `find_casing` finds the casing; every run writes a `tokenizer_config.json` into the checkpoint's folder. Only
    `vocab_file` may be outside the folder.
    """
    told = read_tokenizer_config(paths.join(folder, TOKENIZER_FILE))
    if not told:  # build_vocab.py writes one next to a vocabulary, which may be in another folder
        told = read_tokenizer_config(tokenizer_file_of(vocab_file))
    if lower_cases_first(folder) and told.get("do_lower_case") is not True:
        kept = {"strip_accents": False} if told.get("strip_accents") is None else {}
        told = told | kept | {"do_lower_case": True, "casing_file": f"the sentence-transformers config in {folder}"}
    do_lower_case, strip_accents, lines = find_casing(told, vocab_file, do_lower_case, strip_accents)
    check_vocabulary(vocab_file, config, do_lower_case, strip_accents)
    for line in lines:
        log.info(line)
    longest = _longest(config, settings_of_run(folder), told)
    return Preparation(do_lower_case, strip_accents, longest, longest_word(vocab_file))


def preparation_text(preparation: Preparation) -> str:
    """Returns the `tokenizer_config.json` of a Preparation, which `find_preparation` and other libraries read."""
    return tokenizer_config_text(*dataclasses.astuple(preparation))


def find_task(path: str | os.PathLike) -> tuple[str, dict[str, Any]]:
    """Reads the task of a fine-tuned model.

    Args:
        path: a run folder, or the folder `model` in it; local or remote; a folder of sentence-transformers; or
            `hf://owner/name`.

    Returns:
        str, the path of the model's folder, and a dict with "task" and its settings.
    """
    folder = os.fspath(model_of_run(path))
    file = paths.join(folder, TASK_FILE)
    if not paths.is_file(file) and has_modules(folder):
        return read_modules(folder)
    if not paths.is_file(file):
        found = "does not exist"
        if paths.is_file(folder):
            of_export = " of an export" if is_export(paths.parent(folder)) else ""
            raise ValueError(f"{path} is a file{of_export}; give its folder, {paths.parent(folder)}")
        if paths.is_dir(folder):
            found = f"has no fine-tuned model: neither {TASK_FILE} nor model/{TASK_FILE} is there"
        is_released = find_released(paths.name(folder.rstrip("/"))) is not None
        hint = (
            "; a released model is not fine-tuned: give it as {init_checkpoint}, or in Python to FillMask"
            if is_released
            else ""
        )
        raise MissingFile("{} {}; give the folder of a run that has trained" + hint, path, found)
    values = read_json_object(file)
    if not isinstance(values.get("task"), str):
        raise ValueError(f"{file} does not name its task; take the file that the training wrote")
    return folder, values


def read_settings(path: str | os.PathLike) -> tuple[pathlib.Path, dict[str, Any]]:
    """Reads the task of a fine-tuned model or an export, like `find_task`, and checks that it has all settings."""
    folder, values = find_task(path)
    file, task = pathlib.Path(folder, TASK_FILE), values["task"]
    tasks = EXPORTED_TASKS if is_export(folder) else FINE_TUNED_TASKS
    if task not in tasks:
        raise ValueError(
            f'{file}: the task is "{task}", but must be one of {", ".join(tasks)}; '
            "give a model that was fine-tuned by a program of this project"
        )
    for name, (needed, is_right) in {"max_seq_length": LENGTH, **(TASKS[task].settings or {})}.items():
        if name not in values:
            raise ValueError(
                f"{file} has no {name}, which the task {task} needs; take the file that the training wrote"
            )
        if not is_right(values[name]):
            raise ValueError(
                f"{file}: {name} is {json.dumps(values[name])}, but must be {needed}; take the file that the training "
                "wrote"
            )
    return pathlib.Path(folder), values


def settings_of_run(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns the settings in the run_config.json of a folder; {} without one."""
    path = paths.join(folder, "run_config.json")
    settings = read_json_object(path).get("settings") if paths.is_file(path) else None
    return settings if isinstance(settings, dict) else {}


def _longest(config, settings, told):
    """Returns the maximum length: from the file, or from a training that began with random position embeddings."""
    # Other libraries write a number of thirty digits if the length is unknown.
    trained, reason = told.get("model_max_length"), f"set in {TOKENIZER_FILE}"
    if type(trained) is not int and not settings.get("init_checkpoint"):
        trained, reason = settings.get("max_seq_length"), "as in training"
    num_positions = config.max_position_embeddings
    if type(trained) is not int or trained >= num_positions:
        return num_positions
    told = "sequences have at most %d tokens (%s): the model did not learn positions %d to %d"
    log.info(told, trained, reason, trained + 1, num_positions)
    return trained
