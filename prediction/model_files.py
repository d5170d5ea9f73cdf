"""What a pre-trained model consists of: its checkpoint, its config and its vocabulary, found from one path."""

import dataclasses
import glob
import json
import logging
import os
import pathlib

from data_prep.records import read_metadata
from data_prep.tokenization import FullTokenizer, load_vocab
from modeling import BertConfig, check_vocabulary, is_cased, open_checkpoint, read_config
from modeling.checkpoint import Checkpoint

log = logging.getLogger("bert_keras")

_SPECIAL_TOKENS = ("[CLS]", "[SEP]", "[MASK]", "[UNK]")


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """An open checkpoint with all that is needed to ask it.

    Attributes:
        checkpoint: what `modeling.open_checkpoint` gave.
        config: its BertConfig.
        tokenizer: FullTokenizer with its vocabulary and its casing.
        longest: the most pieces of a sequence that it can be asked about.
    """

    checkpoint: Checkpoint
    config: BertConfig
    tokenizer: FullTokenizer
    longest: int


def open_model_files(path, vocab_file=None, config_file=None, do_lower_case=None):
    """Finds and checks the parts of a pre-trained model; says what it loads and how text will be cased.

    Args:
        path: a checkpoint as `modeling.open_checkpoint` takes it: a folder, a prefix, one of its files, the folder of
            a run.
        vocab_file: the vocabulary; None: the vocab.txt beside the checkpoint.
        config_file: the config; None: the one beside the checkpoint.
        do_lower_case: bool; None: as the model was trained where its folder says so, else as its vocabulary looks.

    Returns:
        ModelFiles.

    Raises:
        FileNotFoundError: a part is not there.
        ValueError: a part is damaged, or does not fit the others.
    """
    checkpoint = open_checkpoint(path)
    folder = pathlib.Path(checkpoint.prefix).parent
    config = read_config(config_file) if config_file else checkpoint.config
    if config is None:
        raise FileNotFoundError(
            f"there is no bert_config.json or config.json in {folder}; put it there, or give config_file"
        )
    vocab_file = vocab_file or checkpoint.vocab_file
    if vocab_file is None:
        raise FileNotFoundError(f"there is no vocab.txt in {folder}; put it there, or give vocab_file")
    settings = _settings_of_run(folder)
    reason = "as asked for"
    if do_lower_case is None:
        do_lower_case, reason = _trained_casing(folder, settings)
    if do_lower_case is None:
        do_lower_case, reason = not is_cased(load_vocab(vocab_file)), f"judging by the words of {vocab_file}"
    check_vocabulary(vocab_file, config, do_lower_case)
    log.info("text %s: %s", "is lower-cased" if do_lower_case else "keeps its capital letters", reason)
    tokenizer = FullTokenizer(vocab_file, do_lower_case)
    missing = [token for token in _SPECIAL_TOKENS if token not in tokenizer.vocab]
    if missing:
        raise ValueError(
            f"{vocab_file} lacks {', '.join(missing)}; give the vocabulary that the model was trained with"
        )
    return ModelFiles(checkpoint, config, tokenizer, _longest(config, settings))


def _longest(config, settings):
    """Returns how long sequences may be: as in the training where that began with random positions, or as they are."""
    trained = settings.get("max_seq_length")
    if not isinstance(trained, int) or settings.get("init_checkpoint") or trained >= config.max_position_embeddings:
        return config.max_position_embeddings
    log.info(
        "sequences are at most %d pieces long, as in training: the model has learnt nothing of its positions from %d "
        "to %d",
        *(trained, trained + 1, config.max_position_embeddings),
    )
    return trained


def _trained_casing(folder, settings):
    """Returns whether a model's training lower-cased, and which file says so; None and None where none does.

    A run of this project keeps where its records are, and their metadata say it; other libraries write
    tokenizer_config.json.
    """
    patterns = settings.get("input_file")
    for pattern in patterns.split(",") if isinstance(patterns, str) else ():
        for record_file in sorted(glob.glob(pattern)):
            do_lower_case = (read_metadata(record_file) or {}).get("do_lower_case")
            if isinstance(do_lower_case, bool):
                return do_lower_case, f"so were the records of its training, {os.path.basename(record_file)}"
    do_lower_case = _json_object(folder / "tokenizer_config.json").get("do_lower_case")
    if isinstance(do_lower_case, bool):
        return do_lower_case, f"so says {folder / 'tokenizer_config.json'}"
    return None, None


def _settings_of_run(folder):
    """Returns the settings of the training run whose folder it is, a dict; an empty one for other folders."""
    settings = _json_object(folder / "run_config.json").get("settings")
    return settings if isinstance(settings, dict) else {}


def _json_object(path):
    """Returns what a JSON file holds, a dict; an empty one where there is no such file or it holds something else."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}
