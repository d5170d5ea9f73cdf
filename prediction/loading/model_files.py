"""What a model consists of: its checkpoint, its config, its vocabulary and how text is prepared, from one path."""

import dataclasses
import json
import logging
import os
import pathlib

from bert_keras.data_prep.text.tokenization import FullTokenizer, load_vocab
from bert_keras.modeling import BertConfig, check_config, check_vocabulary, is_cased, open_checkpoint, read_config
from bert_keras.modeling.checkpoints.loading import Checkpoint
from bert_keras.modeling.config import read_json_object, released_names
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

TOKENIZER_FILE = "tokenizer_config.json"
TASK_FILE = "task.json"
EXPORT_FILE = "export.json"

_SPECIAL_TOKENS = ("[CLS]", "[SEP]", "[MASK]", "[UNK]")


@dataclasses.dataclass(frozen=True)
class Preparation:
    """How text is prepared for a model.

    Attributes:
        do_lower_case: whether it is lower-cased.
        strip_accents: whether accents are taken off; None: as do_lower_case.
        longest: the most pieces of a sequence that the model can be asked about.
    """

    do_lower_case: bool
    strip_accents: bool | None
    longest: int


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """An open checkpoint with all that is needed to ask it, or to train on from it.

    Attributes:
        checkpoint: what `modeling.open_checkpoint` gave; None where training starts from random numbers, and of an
            export.
        config: its BertConfig.
        tokenizer: FullTokenizer with its vocabulary and its casing.
        vocab_file: path of the vocabulary.
        preparation: Preparation.
    """

    checkpoint: Checkpoint | None
    config: BertConfig
    tokenizer: FullTokenizer
    vocab_file: str
    preparation: Preparation

    @property
    def longest(self):
        """The most pieces of a sequence that the model can be asked about, an int."""
        return self.preparation.longest


def is_export(path):
    """Returns whether a path is the folder of an export."""
    return paths.is_file(paths.join(path, EXPORT_FILE))


def open_model_files(path, vocab_file=None, config_file=None, do_lower_case=None):
    """Finds and checks the parts of a model; says what it loads and how text will be cased.

    Args:
        path: a checkpoint as `modeling.open_checkpoint` takes it: a folder, a prefix, one of its files, the folder of
            a run (of fine-tuning: its model to use). None: there is no checkpoint, and both files are given.
        vocab_file: the vocabulary; None: the vocab.txt beside the checkpoint.
        config_file: the config, or the name of a released model; None: the one beside the checkpoint.
        do_lower_case: bool; None: as the model was trained where its folder says so, else as its vocabulary looks.

    Returns:
        ModelFiles.

    Raises:
        FileNotFoundError: a part is not there.
        ValueError: a part is damaged, or does not fit the others; or the path is an export, which has no checkpoint.
    """
    if path is not None and is_export(path):
        raise ValueError(
            f"{path} is an export, which has no checkpoint; give the run or the model that it was made from, or ask "
            "the export with predict.py --model_dir"
        )
    checkpoint = None if path is None else open_checkpoint(_model_of_run(path))
    folder = paths.parent(checkpoint.prefix if checkpoint else vocab_file)
    config = _given_config(config_file) if config_file else checkpoint.config
    if config is None:
        raise FileNotFoundError(
            f"there is no bert_config.json or config.json in {folder}; put it there, or give --bert_config_file (from "
            "Python: config_file)"
        )
    if config_file and checkpoint:
        check_config(config, checkpoint)
    vocab_file = vocab_file or checkpoint.vocab_file
    if vocab_file is None:
        raise FileNotFoundError(
            f"there is no vocab.txt in {folder}; put it there, or give --vocab_file (from Python: vocab_file)"
        )
    preparation = find_preparation(folder, vocab_file, config, do_lower_case)
    tokenizer = FullTokenizer(vocab_file, preparation.do_lower_case, preparation.strip_accents)
    missing = [token for token in _SPECIAL_TOKENS if token not in tokenizer.vocab]
    if missing:
        raise ValueError(
            f"{vocab_file} lacks {', '.join(missing)}; give the vocabulary that the model was trained with"
        )
    return ModelFiles(checkpoint, config, tokenizer, str(vocab_file), preparation)


def open_export_files(folder):
    """Finds and checks what an export has beside its network; says how text will be cased.

    Args:
        folder: path of the export.

    Returns:
        ModelFiles, without a checkpoint.

    Raises:
        FileNotFoundError: a part is not there.
        ValueError: a part is damaged, or does not fit the others.
    """
    vocab_file, config_file = (paths.join(folder, name) for name in ("vocab.txt", "bert_config.json"))
    for file in (vocab_file, config_file):
        if not paths.is_file(file):
            raise FileNotFoundError(f"there is no {paths.name(file)} in {folder}; take the whole folder of the export")
    return open_model_files(None, vocab_file, config_file)


def _given_config(config_file):
    return BertConfig.from_name(config_file) if config_file in released_names() else read_config(config_file)


def find_preparation(folder, vocab_file, config, do_lower_case=None):
    """Finds out how text was prepared in a model's training; says it in the log and holds the vocabulary to it.

    Whether it was lower-cased, the caller decides; else the `tokenizer_config.json` in the folder, which every run
    writes; else the words of the vocabulary. No file outside the folder is read.

    Args:
        folder: path of the folder of the checkpoint.
        vocab_file: path of the vocabulary.
        config: BertConfig.
        do_lower_case: bool; None: not given.

    Returns:
        Preparation.

    Raises:
        FileNotFoundError: there is no vocabulary.
        ValueError: a file is damaged, or the vocabulary does not fit the config or the casing.
    """
    tokenizer_file = paths.join(folder, TOKENIZER_FILE)
    told = _read_tokenizer_config(tokenizer_file)
    strip_accents = told.get("strip_accents")
    reason = "as asked for"
    if do_lower_case is None:
        do_lower_case, reason = told.get("do_lower_case"), f"so says {tokenizer_file}"
    if do_lower_case is None:
        do_lower_case = not is_cased(load_vocab(vocab_file), strip_accents)
        reason = f"judging by the words of {vocab_file}"
    check_vocabulary(vocab_file, config, do_lower_case, strip_accents)
    log.info("text %s: %s", "is lower-cased" if do_lower_case else "keeps its capital letters", reason)
    if strip_accents is not None:
        log.info("accents are %s: so says %s", "stripped" if strip_accents else "kept", tokenizer_file)
    return Preparation(do_lower_case, strip_accents, _longest(config, _settings_of_run(folder), told))


def read_task(path):
    """Reads what a fine-tuned model was trained for, as `find_task`; the folder is a pathlib.Path, and local."""
    folder, values = find_task(path)
    return pathlib.Path(folder), values


def find_task(path):
    """Reads what a fine-tuned model was trained for.

    Args:
        path: the folder of a run, or the folder `model` in it; local or remote.

    Returns:
        str, the path of the folder of the model, and a dict: "task" and what belongs to it.

    Raises:
        FileNotFoundError: there is no fine-tuned model.
        ValueError: its task.json is damaged.
    """
    folder = os.fspath(_model_of_run(path))
    file = paths.join(folder, TASK_FILE)
    if not paths.is_file(file):
        raise FileNotFoundError(
            f"there is no fine-tuned model in {path}: neither {TASK_FILE} nor model/{TASK_FILE} is there; give the "
            "--output_dir of a run that has trained"
        )
    values = read_json_object(file)
    if not isinstance(values.get("task"), str):
        raise ValueError(f"{file} does not say which task it is of; take the file that the training wrote")
    return folder, values


def _model_of_run(path):
    """Returns the folder `model` of a path that is the folder of a run of fine-tuning; any other path as it is."""
    folder = paths.join(path, "model")
    return folder if paths.is_file(paths.join(folder, TASK_FILE)) else path


def preparation_text(preparation):
    """Returns the `tokenizer_config.json` that says how text is prepared to `find_preparation` and other libraries.

    Args:
        preparation: Preparation.

    Returns:
        str.
    """
    values = {
        "do_lower_case": preparation.do_lower_case,
        "model_max_length": preparation.longest,
        "tokenizer_class": "BertTokenizer",
    }
    if preparation.strip_accents is not None:
        values["strip_accents"] = preparation.strip_accents
    return json.dumps(values, indent=2) + "\n"


def _longest(config, settings, told):
    """Returns how long sequences may be: as the files say, or as in a training that began with random positions."""
    # Other libraries write a number of thirty digits where nothing is known.
    trained, reason = told.get("model_max_length"), f"so says the {TOKENIZER_FILE}"
    if not _is_integer(trained) and not settings.get("init_checkpoint"):
        trained, reason = settings.get("max_seq_length"), "as in training"
    if not _is_integer(trained) or trained >= config.max_position_embeddings:
        return config.max_position_embeddings
    log.info(
        "sequences are at most %d pieces long, %s: the model has learnt nothing of its positions from %d to %d",
        *(trained, reason, trained + 1, config.max_position_embeddings),
    )
    return trained


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _settings_of_run(folder):
    """Returns the settings of the training run whose folder it is, a dict; an empty one for other folders."""
    path = paths.join(folder, "run_config.json")
    settings = read_json_object(path).get("settings") if paths.is_file(path) else None
    return settings if isinstance(settings, dict) else {}


def _read_tokenizer_config(path):
    """Returns what a tokenizer_config.json says, a dict; an empty one where there is none."""
    values = read_json_object(path) if paths.is_file(path) else {}
    for name in ("do_lower_case", "strip_accents"):
        if not isinstance(values.get(name), bool | None):
            raise ValueError(f"{path}: {name} is {json.dumps(values[name])}, but must be true or false; correct it")
    if values.get("tokenize_chinese_chars") is False:
        log.warning(
            "%s: tokenize_chinese_chars is false, which is not followed: Chinese characters are single words", path
        )
    return values
