"""Reads and writes the folders of sentence-transformers: which modules follow the encoder, and how.

modules.json                        the modules in their order, each with its folder
config.json, model.safetensors, …   the encoder, in the folder itself or in that of the first module
sentence_bert_config.json           next to the encoder: the maximum length
1_Pooling/config.json               how the vectors of tokens become one
config_sentence_transformers.json   prompts: texts before each text, by name
"""

import json
import os
from typing import Any

from bert_keras.data_prep.text.vocabulary_files import TOKENIZER_FILE
from bert_keras.modeling.config import read_json_object
from bert_keras.storage import json_files, paths, text_files

MODULES_FILE = "modules.json"

_PROMPTS_FILE = "config_sentence_transformers.json"
_LENGTH_FILE = "sentence_bert_config.json"
_NEEDED = "take the whole folder that sentence-transformers wrote"
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_CLASSES = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}


def has_modules(folder: str | os.PathLike) -> bool:
    """Returns whether a folder is a model of sentence-transformers."""
    return paths.is_file(paths.join(folder, MODULES_FILE))


def read_modules(folder: str | os.PathLike) -> tuple[str, dict[str, Any]]:
    """Reads a folder of sentence-transformers.

    Returns:
        The folder of the encoder, and the settings of the task vectors, as in a task.json.

    Raises:
        ValueError: the model has other parts than an encoder, a pooling of one kind and a normalisation.
    """
    file = paths.join(folder, MODULES_FILE)
    modules = json_files.parse_json(text_files.read_text(file, _NEEDED), file, _NEEDED)
    try:
        # The first part of a type differs between versions of sentence-transformers.
        found = {module["type"].rpartition(".")[2]: paths.join(folder, module["path"]) for module in modules}
    except (AttributeError, KeyError, TypeError):
        raise ValueError(f"{file} does not list modules with their type and path; {_NEEDED}") from None
    kinds = list(found)
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ValueError(
            f"{file} has the modules {', '.join(kinds)}; bert-keras reads Transformer, Pooling and Normalize, in this "
            "order, so take a model with these"
        )
    encoder = found["Transformer"].rstrip("/")
    return encoder, {
        "task": "vectors",
        "max_seq_length": _length(encoder),
        "pooling": _pooling(paths.join(found["Pooling"], "config.json")),
        "layer": -1,
        "normalize": "Normalize" in found,
        "prefix": _prefix(paths.join(folder, _PROMPTS_FILE)),
    }


def module_files(settings: dict[str, Any], width: int) -> dict[str, str]:
    """Returns the files that make a checkpoint of the Hugging Face layout one of sentence-transformers.

    Args:
        settings: the task.json of a model for vectors.
        width: of its vectors, H.

    Returns:
        dict of texts by their place in the folder.
    """
    kinds = ["Transformer", "Pooling", *(["Normalize"] if settings.get("normalize") else [])]
    modules = [
        {"idx": number, "name": str(number), "path": _CLASSES[kind], "type": f"sentence_transformers.models.{kind}"}
        for number, kind in enumerate(kinds)
    ]
    pooling = {name: value == settings["pooling"] for name, value in _POOLINGS.items()}
    prefix = settings.get("prefix", "")
    prompts = {"prompts": {"text": prefix}, "default_prompt_name": "text"} if prefix else {"prompts": {}}
    contents = {
        MODULES_FILE: modules,
        _LENGTH_FILE: {"max_seq_length": settings["max_seq_length"], "do_lower_case": False},
        f"{_CLASSES['Pooling']}/config.json": {"word_embedding_dimension": width, **pooling},
        _PROMPTS_FILE: {**prompts, "similarity_fn_name": "cosine"},
    }
    return {name: json.dumps(value, indent=2, ensure_ascii=False) + "\n" for name, value in contents.items()}


def _length(encoder):
    """Returns the maximum number of tokens, which newer versions store with the tokenizer."""
    length = _optional(paths.join(encoder, _LENGTH_FILE)).get("max_seq_length")
    if length is not None:
        return length
    longest = _optional(paths.join(encoder, "config.json")).get("max_position_embeddings")
    of_tokenizer = _optional(paths.join(encoder, TOKENIZER_FILE)).get("model_max_length")
    # Other libraries write a number of thirty digits if the length is unknown.
    return min(of_tokenizer, longest) if type(of_tokenizer) is int and longest else longest


def _pooling(file):
    """Returns the pooling of a config.json, whose form differs between versions of sentence-transformers."""
    config = read_json_object(file)
    found = config.get("pooling_mode") or [name for key, name in _POOLINGS.items() if config.get(key)] or ["mean"]
    found = [found] if isinstance(found, str) else list(found)
    if len(found) != 1 or found[0] not in ("cls", "mean", "max"):
        raise ValueError(f"{file}: the pooling is {' and '.join(map(str, found))}, but must be one of cls, mean, max")
    if config.get("include_prompt") is False:
        raise ValueError(f"{file}: include_prompt is false, but bert-keras pools all tokens; take a model that does so")
    return found[0]


def _prefix(file):
    config = _optional(file)
    name = config.get("default_prompt_name")
    return (config.get("prompts") or {}).get(name) or "" if name else ""


def _optional(file):
    return read_json_object(file) if paths.is_file(file) else {}
