"""Files of models on Hugging Face, by names such as `hf://google-bert/bert-base-uncased`."""

import re
from collections.abc import Sequence
from typing import Any

from bert_keras.mistakes import Mistake

SCHEME = "hf://"
_NAME = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")


def split_name(name: str) -> tuple[str, str | None]:
    """Returns the repository and the revision in a name; None: the newest revision."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise Mistake("{} is not the name of a model; give hf://owner/name or hf://owner/name@revision", name)
    return match[1], match[2]


def fetch(name: str, patterns: Sequence[str], commit: str | None = None, is_quiet: bool = True) -> str:
    """Downloads the files that match the patterns, unless they are in the cache, and returns their folder.

    The package huggingface_hub keeps the files in its cache. It asks for the newest version each time; without a
    connection it takes the version in the cache. It reads its own settings, such as HF_HOME and HF_HUB_OFFLINE.

    Args:
        name: `hf://owner/name`, or `hf://owner/name@revision` for a branch, a tag or a commit.
        patterns: such as "*.txt".
        commit: replaces the revision in the name.
        is_quiet: shows no progress bar.

    Raises:
        FileNotFoundError: the model or the revision does not exist.
        ValueError: the name has another form, or huggingface_hub is not installed.
        OSError: the download failed.
    """
    repository, revision = split_name(name)
    revision = commit or revision
    try:
        import huggingface_hub as hub
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError:
        raise Mistake("{} needs a package: pip install 'bert-keras[hf]' (or huggingface_hub)", name) from None

    class Bar(hub.utils.tqdm):
        def __init__(self, *arguments: Any, **options: Any):
            super().__init__(*arguments, **(options | {"disable": is_quiet or options.get("disable")}))

    try:
        return hub.snapshot_download(repository, revision=revision, allow_patterns=list(patterns), tqdm_class=Bar)
    except hub.errors.GatedRepoError as error:
        reason = f"its owner must permit it: ask at https://huggingface.co/{repository}, then run: hf auth login"
        raise OSError(f"{name} cannot be downloaded: {reason}") from error
    except hub.errors.RepositoryNotFoundError as error:
        reason = "check the name; for a private model, run first: hf auth login"
        raise FileNotFoundError(f"Hugging Face has no model {repository}; {reason}") from error
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
