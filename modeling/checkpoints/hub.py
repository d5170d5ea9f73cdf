"""Models on Hugging Face, by names such as `hf://google-bert/bert-base-uncased`."""

import functools
import logging
import os
import re

from bert_keras.modeling.checkpoints.hugging_face_config import HUGGING_FACE_FILE, RELEASED_FILE, read_config
from bert_keras.modeling.checkpoints.safetensors_format import INDEX_ENDING
from bert_keras.modeling.released import find_on_hugging_face
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

SCHEME = "hf://"
_WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors")
_SMALL_FILES = (
    *(HUGGING_FACE_FILE, RELEASED_FILE, "vocab.txt", "tokenizer_config.json", "task.json"),
    f"model{INDEX_ENDING}",
)
_NAME = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")


def local_model(path: str | os.PathLike) -> str:
    """Returns the local folder of a model on Hugging Face, downloaded if necessary, or any other path as it is.

    The package huggingface_hub keeps the files in its cache. It asks for the newest version each time; without a
    connection it takes the version in the cache. It reads its own settings, such as HF_HOME and HF_HUB_OFFLINE.

    Args:
        path: any path of a model, or `hf://owner/name`, or `hf://owner/name@revision` for a branch, a tag or a commit.

    Returns:
        str.

    Raises:
        FileNotFoundError: the model or the revision does not exist, or it has no safetensors.
        ValueError: the name has another form, huggingface_hub is not installed, or the model is not a BERT.
        OSError: the download failed.
    """
    path = os.fspath(path)
    return _download(path.rstrip("/")) if path.startswith(SCHEME) else path


@functools.cache
def _download(name):
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is not the name of a model; give hf://owner/name or hf://owner/name@revision")
    try:
        import huggingface_hub as hub
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError:
        raise ValueError(f"{name} needs a package: pip install 'bert-keras[hf]' (or huggingface_hub)") from None
    repository, revision = match.groups()
    folder = _fetch(hub, name, repository, revision, _SMALL_FILES, is_quiet=True)
    commit = os.path.basename(folder)
    if not paths.is_file(paths.join(folder, HUGGING_FACE_FILE)):
        raise FileNotFoundError(f"{name} has no {HUGGING_FACE_FILE}, so it is not a model of the Hugging Face layout")
    read_config(folder)  # refuses models that are not a BERT before their weights are downloaded
    folder = _fetch(hub, name, repository, commit, (*_SMALL_FILES, *_WEIGHTS), is_quiet=_has_weights(folder))
    if not _has_weights(folder):
        raise FileNotFoundError(_without_weights(name, repository))
    log.info("%s is commit %s, in %s", name, commit, folder)
    return folder


def _has_weights(folder):
    return any(file.endswith(".safetensors") for file in paths.list_dir(folder))


def _fetch(hub, name, repository, revision, patterns, is_quiet):
    """Downloads files to the cache, unless they are there, and returns their folder. `is_quiet`: without a bar."""

    class Bar(hub.utils.tqdm):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **(options | {"disable": is_quiet or options.get("disable")}))

    try:
        return hub.snapshot_download(repository, revision=revision, allow_patterns=list(patterns), tqdm_class=Bar)
    except hub.errors.GatedRepoError as error:
        reason = f"its owner must permit it: ask at https://huggingface.co/{repository}, then run: hf auth login"
        raise OSError(f"{name} cannot be downloaded: {reason}") from error
    except hub.errors.RepositoryNotFoundError as error:
        reason = "check the name; for a private model, run first: hf auth login"
        raise FileNotFoundError(f"there is no model {repository} on Hugging Face; {reason}") from error
    except hub.errors.RevisionNotFoundError as error:
        raise FileNotFoundError(
            f"{name}: the model {repository} has no revision {revision}; give a branch, a tag or a commit"
        ) from error
    except Exception as error:  # the errors of several libraries
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise OSError(
            f"{name} is not complete in the cache and cannot be downloaded ({reason}); check the connection, or give a "
            "local folder"
        ) from error


def _without_weights(name, repository):
    model = find_on_hugging_face(repository)
    other = f"or download the original: convert_checkpoint.py --download={model.name}; " if model else ""
    return (
        f"{name} has no model.safetensors, and other formats are not downloaded, because opening pytorch_model.bin can "
        f"run any program; {other}give a revision that has it, such as hf://{repository}@refs/pr/1 if that pull "
        "request adds it; or download pytorch_model.bin yourself, and give its folder for a command that converts it"
    )
