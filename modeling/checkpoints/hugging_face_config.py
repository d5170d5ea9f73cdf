"""Config files: the original `bert_config.json` and the `config.json` of the Hugging Face layout.

They look alike, but "gelu" is the tanh form in the first and the exact form in the second.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bert_keras.mistakes import Mistake, check_names
from bert_keras.modeling.checkpoints.families import BERT, ELECTRA, FAMILIES, Family, check_pooled_token, family_of
from bert_keras.modeling.checkpoints.names import heads_of
from bert_keras.modeling.config import RELEASED_EXTRA_KEYS, BertConfig, released_names
from bert_keras.storage import paths
from bert_keras.storage.json_files import read_object

RELEASED_FILE = "bert_config.json"
HUGGING_FACE_FILE = "config.json"

# Hugging Face -> ours; of several names for one activation, the first is written.
_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu_accurate": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# Hugging Face defaults of missing keys; the other defaults are the same as ours.
_DEFAULTS = {"vocab_size": 30522, "hidden_act": "gelu", "type_vocab_size": 2}
# Required values of keys that would otherwise mean another network; the keys may be missing.
_NEEDED = {
    "position_embedding_type": "absolute",
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
    # Weights in other types, and networks of other programs.
    "quantization_config": None,
    "auto_map": None,
}
# Config fields that these files do not have under our names.
_OWN_FIELDS = ("embedding_size", "has_shared_layers", "pooler_act", "pooling")
# The values of problem_type, by the task in a task.json.
PROBLEM_TYPES: tuple[str, ...] = ("single_label_classification", "multi_label_classification", "regression")
_MARKS = ("model_type", "architectures", "transformers_version")


# Keys that change no answer of an encoder.
_HARMLESS = frozenset(
    (
        *("_name_or_path", "name_or_path", "torch_dtype", "dtype", "use_cache", "language"),
        *("pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "finetuning_task"),
        *("gradient_checkpointing", "output_past", "output_attentions", "output_hidden_states", "return_dict"),
        *("label2id", "tie_weights_", "tie_word_embeddings", "sinusoidal_pos_embds", "_num_labels", "model_max_length"),
        *("qa_dropout", "net_structure_type", "gap_size", "down_scale_factor", "num_memory_blocks", "max_length"),
        *("summary_last_dropout", "summary_first_dropout", "chunk_size_feed_forward", "attn_implementation"),
        *("torchscript", *RELEASED_EXTRA_KEYS),
    )
)


def keys_of_config(family: Family | None) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the keys of a `config.json` that are read, and those that change no answer."""
    family = family or BERT
    fields = {field.name for field in dataclasses.fields(BertConfig)} - {"released_extras"}
    read = {family.config_keys.get(name, name) for name in fields} | {*_NEEDED, *family.needed}
    read |= {"architectures", "model_type", "id2label", "num_labels", "problem_type", "tokenizer_class"}
    read |= {"sentence_transformers", "sbert_ce_default_activation_function", "transformers_version"}
    return frozenset(read), _HARMLESS


def read_config(path: str | os.PathLike) -> BertConfig:
    """Reads the config of a model, of the original BERT or of the Hugging Face layout.

    Args:
        path: a `bert_config.json`, a `config.json`, or a folder with one or both of them, local or remote.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not a valid config of a BERT, or the two files of a folder disagree.
    """
    path = paths.as_text(path)
    if not paths.is_dir(path):
        return _config_of(_read(path), path)
    held = read_config_files(path)
    if not held:
        raise FileNotFoundError(
            f"the folder {path} has no {RELEASED_FILE} or {HUGGING_FACE_FILE}; put the model's config there"
        )
    return config_of_folder(held)


def given_config(config_file: str | os.PathLike) -> BertConfig:
    """Returns the BertConfig of a released name or of a file."""
    return BertConfig.from_name(str(config_file)) if config_file in released_names() else read_config(config_file)


def read_config_files(folder: str | os.PathLike) -> dict[str, dict[str, Any]]:
    """Returns the contents of the config files in a folder, dicts by the paths of those that exist."""
    files = (paths.join(folder, name) for name in (RELEASED_FILE, HUGGING_FACE_FILE))
    return {file: _read(file) for file in files if paths.is_file(file)}


def _read(file: str) -> dict[str, Any]:
    """Returns the content of a config file, in which the family and the classes of the model are names."""
    values = read_object(file)
    family, classes = values.get("model_type"), values.get("architectures")
    if not isinstance(family, str | None):
        raise Mistake("{}: model_type is {!r}, but must be a name such as 'bert'; correct it", file, family)
    if not isinstance(classes, list | None) or not all(isinstance(name, str | None) for name in classes or ()):
        raise Mistake("{}: architectures is {!r}, but must be a list of names of classes; correct it", file, classes)
    return values


def config_of_folder(held: Mapping[str, dict[str, Any]]) -> BertConfig:
    """Returns the config of one or two files of a folder, given by `read_config_files`, which must agree."""
    files = list(held)
    configs = [_config_of(values, file) for file, values in held.items()]
    differing = [
        f"{field.name} is {first!r} in the first and {second!r} in the second"
        for field in dataclasses.fields(BertConfig)
        # The original BERT has no place for classifier_dropout.
        if field.name not in ("released_extras", "classifier_dropout")
        and (first := getattr(configs[0], field.name)) != (second := getattr(configs[-1], field.name))
    ]
    if differing:
        raise Mistake(
            "{} and {} disagree ({}); remove the wrong one", files[0], paths.name(files[-1]), "; ".join(differing)
        )
    return configs[0]


def labels_of(values: Mapping[str, Any], json_file: str) -> list[str] | None:
    """Returns the class names in the values of a `config.json`, in the order of the logits, or None."""
    labels = values.get("id2label")
    if labels is None:
        return None
    if not isinstance(labels, dict) or set(labels) != {str(i) for i in range(len(labels))}:
        raise Mistake('{}: id2label must name the classes "0", "1", ... without a gap', json_file)
    names = [str(labels[str(i)]) for i in range(len(labels))]
    check_names(names, f"{json_file}: id2label")
    if (num_labels := values.get("num_labels")) not in (None, len(names)):
        raise Mistake(
            "{}: num_labels is {!s}, but id2label names {} classes; correct one", json_file, num_labels, len(names)
        )
    return names


def problem_type_of(values: Mapping[str, Any], json_file: str) -> str | None:
    """Returns the problem type in the values of a `config.json`: how a classifier makes probabilities, or None."""
    problem_type = values.get("problem_type")
    if problem_type not in (None, *PROBLEM_TYPES):
        raise Mistake(
            "{}: problem_type is {!r}, but must be one of {}", json_file, problem_type, ", ".join(PROBLEM_TYPES)
        )
    return problem_type


def to_hugging_face_config(
    config: BertConfig, architecture: str, labels: Sequence[str] | None = None, problem_type: str | None = None
) -> dict[str, Any]:
    """Makes the values of a `config.json` for a Hugging Face class, and the class names and problem type of a head."""
    activations = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
    family = family_of(config)
    always = {name: getattr(config, name) for name in ("layer_norm_eps", "classifier_dropout")}
    values = config.to_dict() | always | {"hidden_act": activations[config.hidden_act]}
    for name in {*_OWN_FIELDS, *family.switches} - {"hidden_act"}:
        values.pop(name, None)
    if "embedding_size" in family.defaults:
        values["embedding_size"] = config.embedding_width
    values = {family.config_keys.get(name, name): value for name, value in values.items()}
    values |= family.written | {
        "architectures": [architecture],
        "model_type": family.model_type,
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
        "torch_dtype": "float32",
    }
    if labels is not None:
        values["id2label"] = {str(i): label for i, label in enumerate(labels)}
        values["label2id"] = {label: i for i, label in enumerate(labels)}
    if problem_type is not None:
        values["problem_type"] = problem_type
    return values


def _config_of(values: dict[str, Any], path: str) -> BertConfig:
    if paths.name(path) != HUGGING_FACE_FILE and not any(mark in values for mark in _MARKS):
        return BertConfig.from_dict(values, source=path)
    family = FAMILIES.get(values.get("model_type") or "bert")
    if family is None:
        known = ", ".join(map(repr, FAMILIES))
        raise Mistake(
            "{} is not a BERT config: model_type is {!r}, but only {} are supported", path, values["model_type"], known
        )
    for key, needed in (_NEEDED | family.needed).items():
        if values.get(key) not in (None, needed):
            raise Mistake(
                "{} is not a BERT config: {} is {!r}, but only {!r} is supported", path, key, values[key], needed
            )
    names = {field.name for field in dataclasses.fields(BertConfig)} - set(_OWN_FIELDS) | set(RELEASED_EXTRA_KEYS)
    names |= set(family.defaults)
    held = {name: values[key] for name in names if (key := family.config_keys.get(name, name)) in values}
    known = _DEFAULTS | family.defaults | held
    if family is not BERT:
        known = known | {name: value for name, value in family.switches.items() if name != "hidden_act"}
    hidden_act = str(known["hidden_act"])
    if hidden_act not in _ACTIVATIONS:
        raise Mistake('{}: hidden_act is "{}", but must be one of {}', path, hidden_act, ", ".join(_ACTIVATIONS))
    known["hidden_act"] = _ACTIVATIONS[hidden_act]
    if known.get("classifier_dropout") is None:
        known["classifier_dropout"] = known.get("hidden_dropout_prob", BertConfig.hidden_dropout_prob)
    if family is ELECTRA and known["embedding_size"] == known["hidden_size"]:
        known["embedding_size"] = None  # ELECTRA then has no projection, and ALBERT has one
    config = BertConfig.from_dict(known, source=path)
    architecture = (values.get("architectures") or [None])[0]
    if architecture in family.classes.values():
        check_pooled_token(config, heads_of(architecture, family), path)
    return config
