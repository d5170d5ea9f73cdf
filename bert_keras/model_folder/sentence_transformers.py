"""Reads and writes the folders of sentence-transformers: which modules follow the encoder, and how.

modules.json                        the modules in their order, each with its folder
config.json, model.safetensors, …   the encoder, in the folder itself or in that of the first module
sentence_bert_config.json           next to the encoder: the maximum length, and whether texts are lower-cased first
1_Pooling/config.json               how the vectors of tokens become one
config_sentence_transformers.json   prompts: texts before each text, by name

Values that would give other vectors are refused, by the name of their key. docs/guides/checkpoints.md lists the keys.
"""

import functools
import json
import os
from collections.abc import Mapping
from types import EllipsisType
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.model_folder import setfit
from bert_keras.modeling.checkpoints.files import Checkpoint
from bert_keras.modeling.checkpoints.hugging_face_task import OpenQuestion
from bert_keras.modeling.config import BertConfig
from bert_keras.storage import json_files, paths, text_files
from bert_keras.storage.json_files import read_object
from bert_keras.storage.tokenizer.files import TokenizerFiles

MODULES_FILE = "modules.json"

_PROMPTS_FILE = "config_sentence_transformers.json"
_LENGTH_FILE = "sentence_bert_config.json"
# The names of this file in old folders of the other families.
_LENGTH_FILES = (_LENGTH_FILE, "sentence_distilbert_config.json", "sentence_albert_config.json")
# The keys of each file that are read, and the others with the values that change nothing.
_Keys = Mapping[str, tuple[Any, ...] | EllipsisType]
_KEYS_OF_ENCODER = {
    "max_seq_length": ...,
    "do_lower_case": (True, False),
    "transformer_task": ("feature-extraction", "sequence-classification"),
    "modality_config": tuple(
        {"text": {"method": "forward", "method_output_name": name}} for name in ("last_hidden_state", "logits")
    ),
    "module_output_name": ("token_embeddings", "scores"),
    "unpad_inputs": ...,
    **dict.fromkeys(("processing_kwargs", "model_args", "tokenizer_args", "config_args"), ({},)),
    **dict.fromkeys(("query_length", "document_length", "query_expansion"), ()),
}
# The values of some of these keys in models for vectors.
_KEYS_OF_VECTORS = {
    "transformer_task": ("feature-extraction",),
    "modality_config": ({"text": {"method": "forward", "method_output_name": "last_hidden_state"}},),
    "module_output_name": ("token_embeddings",),
}
_KEYS_OF_POOLING = {
    "word_embedding_dimension": ...,
    "embedding_dimension": ...,
    "pooling_mode": ...,
    "include_prompt": (True,),
}
_KEYS_OF_MODEL = {
    "model_type": ("SentenceTransformer",),
    "truncate_dim": (),
    "prompts": ...,
    "default_prompt_name": ...,
    "similarity_fn_name": ...,
    "__version__": ...,
    "requirements": ...,
}
_KEYS_OF_RERANKER = {
    "model_type": ("CrossEncoder",),
    "default_prompt_name": (),
    **dict.fromkeys(("activation_fn", "prompts", "__version__", "requirements"), ...),
}
# Keys that come back when a model is given back, under one name in a task.json.
_KEPT, _PEER_KEY = ("prompts", "default_prompt_name", "similarity_fn_name"), "sentence_transformers"
_NEEDED = "take the whole folder that sentence-transformers wrote"
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# The keys of each file that are read, and those that change no vector, for reports.
KEYS_OF_FILES = {
    _PROMPTS_FILE: (_KEYS_OF_MODEL | _KEYS_OF_RERANKER, ()),
    **dict.fromkeys(_LENGTH_FILES, (_KEYS_OF_ENCODER, ())),
    "1_Pooling/config.json": (_KEYS_OF_POOLING | dict.fromkeys(_POOLINGS, ...), ()),
}
_CLASSES = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}


class Modules:
    """The modules in a folder of sentence-transformers, or of SetFit, which adds a classifier.

    Args:
        folder: the folder.
        task: "vectors" for the vectors without the classifier of SetFit.

    Attributes:
        encoder: folder of the encoder.

    Raises:
        ValueError: modules.json does not list modules, or names a folder outside.
    """

    def __init__(self, folder: str, task: str | None = None):
        self._file, self._folder = paths.join(folder, MODULES_FILE), folder
        modules = json_files.parse_json(text_files.read_text(self._file, _NEEDED), self._file, _NEEDED)
        try:
            named = [(module["type"], module["path"]) for module in modules]
            # The middle part of a type differs between versions of sentence-transformers.
            self._kinds = [
                name.rpartition(".")[2] if name.startswith("sentence_transformers.") else name for name, _ in named
            ]
        except (AttributeError, KeyError, TypeError):
            raise Mistake("{} does not list modules with their type and path; {}", self._file, _NEEDED) from None
        places = [paths.inside(folder, path, self._file) for _, path in named]
        self._places = dict(zip(self._kinds, places, strict=True))
        self.encoder = self._places.get("Transformer", folder).rstrip("/")
        self._is_of_setfit = task != "vectors" and setfit.has_head(folder)

    @functools.cached_property
    def reranker_config(self) -> dict[str, Any]:
        """What a config.json says if the model is a CrossEncoder, see `activation_of`; else {}."""
        file = paths.join(self._folder, _PROMPTS_FILE)
        if self._kinds != ["Transformer"] or _optional(file).get("model_type") != "CrossEncoder":
            return {}
        return {"sentence_transformers": {"activation_fn": _optional(file, _KEYS_OF_RERANKER).get("activation_fn")}}

    def task(self) -> dict[str, Any]:
        """Returns the settings of the task vectors, or of the classifier of SetFit, as in a task.json.

        Raises:
            OpenQuestion: the classifier of SetFit is a pickle.
            ValueError: the model has other parts than an encoder, a pooling of one kind and a normalisation.
        """
        if self._is_of_setfit:
            return setfit.read_head(self._folder).task(self._vectors)
        return self._vectors

    def with_head(self, checkpoint: Checkpoint) -> Checkpoint:
        """Returns the checkpoint of the encoder, with the classifier of SetFit if there is one that can be read."""
        return self._head.with_encoder(checkpoint) if self._head else checkpoint

    def with_pooling(self, config: BertConfig) -> BertConfig:
        """Returns the config of the encoder, with the pooling for such a classifier."""
        return self._head.config(config, self._vectors) if self._head else config

    @functools.cached_property
    def _head(self) -> setfit.SetFitHead | None:
        try:
            return setfit.read_head(self._folder) if self._is_of_setfit else None
        except OpenQuestion:  # an encoder can be used without it
            return None

    @functools.cached_property
    def _vectors(self) -> dict[str, Any]:
        """The settings of the task vectors."""
        if self._kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
            raise Mistake(
                "{} has the modules {}; bert-keras reads Transformer, Pooling and "
                "Normalize, in this order, so take a model with these",
                self._file,
                ", ".join(self._kinds),
            )
        _encoder_settings(self.encoder, _KEYS_OF_ENCODER | _KEYS_OF_VECTORS)
        return {
            "task": "vectors",
            "max_seq_length": length_of_encoder(self.encoder),
            "pooling": _pooling(paths.join(self._places["Pooling"], "config.json")),
            "layer": -1,
            "normalize": "Normalize" in self._places,
            **_prompts(paths.join(self._folder, _PROMPTS_FILE)),
        }


def module_files(settings: Mapping[str, Any], width: int) -> dict[str, str]:
    """Returns the files that make a checkpoint of the Hugging Face layout one of sentence-transformers.

    Args:
        settings: the task.json of a model for vectors.
        width: of its vectors, H.

    Returns:
        dict of texts by their place in the folder.
    """
    kinds = ["Transformer", "Pooling", *(["Normalize"] if settings.get("normalize") else [])]
    modules = [
        {"idx": number, "name": str(number), "path": _CLASSES[module], "type": f"sentence_transformers.models.{module}"}
        for number, module in enumerate(kinds)
    ]
    pooling = {name: value == settings["pooling"] for name, value in _POOLINGS.items()}
    contents = {
        MODULES_FILE: modules,
        _LENGTH_FILE: {"max_seq_length": settings["max_seq_length"], "do_lower_case": False},
        f"{_CLASSES['Pooling']}/config.json": {"word_embedding_dimension": width, **pooling},
        _PROMPTS_FILE: settings.get(_PEER_KEY) or _prompt_settings(settings.get("prefix", "")),
    }
    return {name: json_files.readable_json(value) for name, value in contents.items()}


def lower_cases_first(encoder: str | os.PathLike) -> bool:
    """Returns whether sentence-transformers lower-cases texts for the encoder in a folder, whatever its tokenizer does.

    Raises ValueError if the file of the encoder has values that would give other vectors.
    """
    return bool(_encoder_settings(encoder).get("do_lower_case"))


def _encoder_settings(encoder: str | os.PathLike, keys: _Keys = _KEYS_OF_ENCODER) -> dict[str, Any]:
    return _optional(_length_file(encoder), keys)


def _length_file(encoder: str | os.PathLike) -> str:
    files = (paths.join(encoder, name) for name in _LENGTH_FILES)
    return next((file for file in files if paths.is_file(file)), "")


def length_of_encoder(encoder: str | os.PathLike, has_modules: bool = True) -> int:
    """Returns the maximum number of tokens, which newer versions store with the tokenizer.

    Without a modules.json, sentence-transformers does not read its file of the length either.
    """
    length = _encoder_settings(encoder).get("max_seq_length") if has_modules else None
    if length is not None:
        return json_files.check_whole(length, _length_file(encoder), "max_seq_length")
    file, key = paths.join(encoder, "config.json"), "max_position_embeddings"
    longest = json_files.check_whole(_optional(file).get(key, BertConfig.max_position_embeddings), file, key)
    tokenizer_length = TokenizerFiles(encoder).longest
    return min(tokenizer_length.value, longest) if tokenizer_length else longest


def _pooling(file: str) -> str:
    """Returns the pooling of a config.json, whose form differs between versions of sentence-transformers."""
    config = _checked(read_object(file), file, _KEYS_OF_POOLING | dict.fromkeys(_POOLINGS, ...))
    found = config.get("pooling_mode") or [name for key, name in _POOLINGS.items() if config.get(key)] or ["mean"]
    found = found if isinstance(found, list) else [found]
    if len(found) != 1 or found[0] not in ("cls", "mean", "max"):
        raise Mistake("{}: the pooling is {}, but must be one of cls, mean, max", file, " and ".join(map(str, found)))
    return found[0]


def _prompts(file: str) -> dict[str, Any]:
    """Returns the prefix of texts, and what `module_files` would write otherwise than it is in the file."""
    config = _optional(file, _KEYS_OF_MODEL)
    name, prompts = config.get("default_prompt_name"), config.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(prompt, str | None) for prompt in prompts.values()):
        raise Mistake("{}: prompts is {}, but must be an object of texts; correct it", file, json.dumps(prompts))
    if name and name not in [*prompts]:
        raise Mistake("{}: default_prompt_name is {}, which is not in prompts; {}", file, json.dumps(name), _NEEDED)
    prefix = prompts[name] or "" if name else ""
    kept = {key: config[key] for key in _KEPT if config.get(key) is not None}
    is_written = kept.items() <= _prompt_settings(prefix).items()
    return {"prefix": prefix} | ({} if is_written else {_PEER_KEY: kept})


def _prompt_settings(prefix: str) -> dict[str, Any]:
    """Returns the prompts of a model that begins each text with a prefix, and its similarity."""
    prompts = {"prompts": {"text": prefix}, "default_prompt_name": "text"} if prefix else {"prompts": {}}
    return prompts | {"similarity_fn_name": "cosine"}


def _optional(file: str, keys: _Keys | None = None) -> dict[str, Any]:
    values = json_files.read_optional_object(file)
    return values if keys is None else _checked(values, file, keys)


def _checked(values: dict[str, Any], file: str, keys: _Keys) -> dict[str, Any]:
    """Returns the values of a file, and refuses unknown keys, and values other than those that change nothing."""
    for key, value in values.items():
        harmless = keys.get(key, ())
        if harmless is not ... and value is not None and value not in harmless:
            raise Mistake(
                "{}: {} is {}, which bert-keras does not support; take a model without it", file, key, json.dumps(value)
            )
    return values
