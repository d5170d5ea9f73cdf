"""Models on Hugging Face, by names such as `hf://google-bert/bert-base-uncased`."""

import functools
import logging
import os
import re

from bert_keras.mistakes import Mistake
from bert_keras.modeling.checkpoints.hugging_face_config import HUGGING_FACE_FILE, RELEASED_FILE, read_config
from bert_keras.modeling.checkpoints.safetensors_format import INDEX_ENDING
from bert_keras.modeling.released import find_on_hugging_face
from bert_keras.storage import paths
from bert_keras.storage.checks import TASK_FILE
from bert_keras.storage.hub import SCHEME, fetch, split_name
from bert_keras.storage.tokenizer.files import TOKENIZER_FILES
from bert_keras.storage.tokenizer.vocabulary import VOCAB_FILE

log = logging.getLogger("bert_keras")

_WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors")
_WEB_ADDRESS = re.compile(r"https?://(?:huggingface\.co/([\w.-]+/[\w.-]+))?")
_SMALL_FILES = (
    *(HUGGING_FACE_FILE, RELEASED_FILE, f"model{INDEX_ENDING}", TASK_FILE),
    *(VOCAB_FILE, *TOKENIZER_FILES),
    # Of sentence-transformers.
    *("modules.json", "sentence_*_config.json", "config_sentence_transformers.json", "*_Pooling/config.json"),
)


def local_model(path: str | os.PathLike) -> str:
    """Returns the local folder of a model on Hugging Face, downloaded if necessary, or any other path as it is.

    See `storage.hub.fetch` for the cache.

    Args:
        path: any path of a model, or `hf://owner/name`, or `hf://owner/name@revision` for a branch, a tag or a commit.

    Raises:
        FileNotFoundError: the model or the revision does not exist, or it has no safetensors.
        ValueError: the name has another form, huggingface_hub is not installed, or the model is not a BERT.
        OSError: the download failed.
    """
    path = paths.as_text(path)
    path = os.path.expanduser(path) if path.startswith("~/") else path
    if web := _WEB_ADDRESS.match(path):
        given = f"{SCHEME}{web[1]}" if web[1] else f"{SCHEME}owner/name for a model on Hugging Face"
        raise Mistake(
            "{} is an address on the web, not a model; give {}, or download the model and give its folder", path, given
        )
    return _download(path.rstrip("/")) if path.startswith(SCHEME) else path


def model_of_run(path: str | os.PathLike) -> str:
    """Returns the folder `model` if the path is the run folder of a fine-tuning, else the path; never `hf://`."""
    if not paths.as_text(path).strip():
        raise Mistake('the path of the model is "{}"; give its folder', path)
    path = local_model(path)
    folder = paths.join(path, "model")
    return folder if paths.is_file(paths.join(folder, TASK_FILE)) else path


@functools.cache
def _download(name: str) -> str:
    repository, _ = split_name(name)
    folder = fetch(name, _SMALL_FILES)
    commit = os.path.basename(folder)
    if not paths.is_file(paths.join(folder, HUGGING_FACE_FILE)):
        raise FileNotFoundError(f"{name} has no {HUGGING_FACE_FILE}, so it is not a model of the Hugging Face layout")
    read_config(folder)  # refuses models that are not a BERT before their weights are downloaded
    folder = fetch(name, (*_SMALL_FILES, *_WEIGHTS), commit, is_quiet=_has_weights(folder))
    if not _has_weights(folder):
        raise FileNotFoundError(_without_weights(name, repository))
    log.info("%s is commit %s, in %s", name, commit, folder)
    return folder


def _has_weights(folder: str) -> bool:
    return any(file.endswith(".safetensors") for file in paths.list_dir(folder))


def _without_weights(name: str, repository: str) -> str:
    model = find_on_hugging_face(repository)
    other = f"or download the original: convert_checkpoint.py --download={model.name}; " if model else ""
    return (
        f"{name} has no model.safetensors, and other formats are not downloaded, because opening pytorch_model.bin can "
        f"run any program; {other}give a revision that has it, such as hf://{repository}@refs/pr/1 if that pull "
        "request adds it; or download pytorch_model.bin yourself, and give its folder for a command that converts it"
    )
