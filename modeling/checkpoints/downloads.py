"""Downloads released models into folders that all programs take."""

import logging
import os
import pathlib
import tempfile

from bert_keras.mistakes import Mistake, closest
from bert_keras.modeling.checkpoints.files import RELEASED_PREFIX, open_checkpoint
from bert_keras.modeling.checkpoints.hugging_face_config import RELEASED_FILE, read_config
from bert_keras.modeling.checkpoints.vocabulary import check_vocabulary
from bert_keras.modeling.config import BertConfig, released_names
from bert_keras.modeling.released import ReleasedModel, find_released
from bert_keras.storage import paths
from bert_keras.storage.checks import check_new_folder
from bert_keras.storage.download import download, unpack
from bert_keras.storage.tokenizer.vocabulary import read_tokens
from bert_keras.storage.writing import whole_folder

log = logging.getLogger("bert_keras")

_FILES = (RELEASED_FILE, "vocab.txt", f"{RELEASED_PREFIX}.index", f"{RELEASED_PREFIX}.data-00000-of-00001")
_WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"


def download_model(name: str, folder: str | os.PathLike | None = None) -> str:
    """Downloads a released model; the folder appears when all its files are there and checked.

    If you have put the zip file next to the folder already, with the name of the folder and the ending .zip, it is
    unpacked and kept.

    Args:
        name: a name or an alias of `released_models()`, such as "uncased_L-12_H-768_A-12" or "tiny".
        folder: path of the folder to write; new or empty. None: the model's name, in the working directory.

    Returns:
        str, the path of the folder.

    Raises:
        ValueError: the name is unknown, the folder is not empty, or the zip file is damaged or has another model.
        OSError: the download failed or the disk is full.
    """
    model = find_released(name)
    if model is None:
        close = closest(name, released_names())
        hint = f'did you mean "{close}"? ' if close else ""
        raise Mistake(
            'no released model is called "{}"; {}(convert_checkpoint.py --list shows all names; '
            "hf://owner/name is the form of a model on Hugging Face, which needs no download)",
            name,
            hint,
        )
    folder = os.fspath(folder or model.name).rstrip("/")
    check_new_folder(folder, "output", file_endings=(".zip", ".ckpt"))
    zip_file = f"{folder}.zip"
    with whole_folder(folder, last=(".index",)) as unfinished:
        if os.path.exists(zip_file):
            log.info("%s is here already: unpacking it", zip_file)
            _unpack_model(zip_file, unfinished, zip_file, model)
        else:
            log.info("downloading %s (%s)", model.address, model.readable_size)
            with tempfile.TemporaryDirectory(dir=unfinished) as downloads:
                _unpack_model(download(model.address, downloads), unfinished, model.address, model)
    log.info("%s holds %s", folder, ", ".join(paths.list_dir(folder)))
    return folder


def _unpack_model(zip_file: str, folder: pathlib.Path, source: str, model: ReleasedModel) -> None:
    """Unpacks a zip file from a source, a file or an address; raises ValueError unless it has the released model."""
    unpack(zip_file, folder, source)
    if missing := [name for name in _FILES if not paths.is_file(folder / name)]:
        raise Mistake("{} has no {}, so it is not the released model {}", source, " and no ".join(missing), model.name)
    try:
        _check_contents(folder, model)
    except (ValueError, OSError) as error:
        reason = str(error).replace(f"{folder}{os.sep}", "")
        raise Mistake("{} is not the released model {}: {}", source, model.name, reason) from error


def _check_contents(folder: pathlib.Path, model: ReleasedModel) -> None:
    config, released = read_config(folder / RELEASED_FILE), BertConfig.from_name(model.name)
    for field in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"):
        found, needed = getattr(config, field), getattr(released, field)
        if found != needed:
            raise Mistake("{} in {} is {}, not {}", field, RELEASED_FILE, found, needed)
    vocab_file = folder / "vocab.txt"
    check_vocabulary(vocab_file, config, model.do_lower_case)
    if (num_tokens := len(read_tokens(vocab_file))) < config.vocab_size:
        message = "{} has {} tokens, but the model has {} rows of word embeddings"
        raise Mistake(message, vocab_file.name, num_tokens, config.vocab_size)
    shape = open_checkpoint(folder / RELEASED_PREFIX).shape(_WORD_EMBEDDINGS)
    if shape != (config.vocab_size, config.hidden_size):
        raise Mistake("{} in {} is {!s}", _WORD_EMBEDDINGS, RELEASED_PREFIX, list(shape))
