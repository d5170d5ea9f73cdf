"""What the files of a model of another library decide: each fact with the file and the key that decide it."""

import collections
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from bert_keras.mistakes import some_of
from bert_keras.model_folder.sentence_transformers import KEYS_OF_FILES, length_of_encoder
from bert_keras.modeling.checkpoints.families import FAMILIES
from bert_keras.modeling.checkpoints.hugging_face_config import HUGGING_FACE_FILE, keys_of_config
from bert_keras.modeling.checkpoints.hugging_face_task import OpenQuestion
from bert_keras.storage import paths
from bert_keras.storage.json_files import read_object
from bert_keras.storage.tokenizer.files import ADDED_TOKENS, SPECIAL_TOKENS_MAP
from bert_keras.storage.tokenizer.json_file import KEYS_OF_JSON, TOKENIZER_JSON
from bert_keras.storage.tokenizer.keys import HARMLESS, KEYS, Fact
from bert_keras.storage.tokenizer.vocabulary import TOKENIZER_CONFIG, VOCAB_FILE

_LABELS_SHOWN = 8
_WEIGHTS_OF_HEADS = "the names of the weights"


@dataclasses.dataclass(frozen=True)
class Decision:
    """A fact about a model: its name and its value in words, and the place that decides it."""

    name: str
    value: str
    source: str


@dataclasses.dataclass(frozen=True)
class FileKeys:
    """The keys of a file: keys that are read, keys that change no answer, and unknown keys."""

    file: str
    read: list[str]
    harmless: list[str]
    unknown: list[str]


def decisions(model: Any) -> list[Decision]:
    """Returns the facts that decide the answers of a `ModelFolder`, whose files are checked already."""
    return [*_tokenizer_decisions(model), *_network_decisions(model)]


def line_of(found: Collection[Decision]) -> str:
    """Returns decisions as one line, for the log."""
    return "; ".join(f"{decision.name} {decision.value} ({decision.source})" for decision in found)


def _place(fact: Fact | None, key: str) -> str:
    if fact is None or not fact.file:
        return fact.reason if fact else "the default"
    return f"{paths.name(fact.file)}, {key}"


def _tokenizer_decisions(model: Any) -> list[Decision]:
    files, preparation = model.tokenizer_files, model.preparation
    casing = {name: files.casing.get(name) for name in ("do_lower_case", "strip_accents")}
    rules, longest = preparation.rules, files.longest
    words = ["lower case" if preparation.do_lower_case else "capitals stay"]
    strips = preparation.do_lower_case if preparation.strip_accents is None else preparation.strip_accents
    words.append("no accents" if strips else "accents stay")
    source = "; ".join(dict.fromkeys(_place(fact, name) for name, fact in casing.items() if fact)) or "the vocabulary"
    length_source = _place(longest, "model_max_length or max_len") if longest else f"{HUGGING_FACE_FILE}, positions"
    length = preparation.longest
    if model.has_modules:
        length = length_of_encoder(model.folder, True)
        length_source = f"sentence_bert_config.json, or else {length_source}"
    places = [VOCAB_FILE, *([TOKENIZER_JSON] if files.has_json else [])]
    places = [name for name in places if paths.is_file(paths.join(files.folder, name))]
    names = [paths.name(place) if "/" in place else place for place in files.special_tokens.values()]
    special = ", ".join(dict.fromkeys(names))
    has_types = files.has_token_types
    if not model.config.type_vocab_size:
        has_types = Fact(False, None, "the family has none")
    return [
        Decision("vocabulary", f"{sum(map(bool, model.tokenizer.vocab))} tokens", " and ".join(places)),
        Decision("tokenizer class", files.tokenizer_class.value, _place(files.tokenizer_class, "tokenizer_class")),
        Decision("casing", ", ".join(words), source),
        Decision("longest sequence", f"{length} tokens", length_source),
        Decision(
            "token types",
            "0 and 1" if has_types.value else "all 0",
            _place(has_types, "model_input_names or tokenizer_class"),
        ),
        Decision("special tokens in texts", " ".join(rules.special_tokens) or "none", special or "the original's rule"),
        Decision(
            "pairs that are too long",
            "cut as in transformers" if rules.is_foreign else "the original's cut",
            "the rules of the library",
        ),
    ]


def _network_decisions(model: Any) -> list[Decision]:
    checkpoint = model.checkpoint
    config = checkpoint.hugging_face_config
    architectures, labels = config.get("architectures"), model.labels
    heads = ", ".join(checkpoint.heads) or "none"
    kinds = collections.Counter(checkpoint.dtype(name) for name in checkpoint.names)
    weights = ", ".join(f"{count} of {number_format}" for number_format, count in kinds.most_common())
    try:
        task = model.settings["task"] if model.has_head else "none: an encoder"
    except OpenQuestion:
        task = "open"
    found = [
        Decision("family", config.get("model_type") or "bert", f"{HUGGING_FACE_FILE}, model_type"),
        Decision("head", heads, f"{HUGGING_FACE_FILE}, architectures" if architectures else _WEIGHTS_OF_HEADS),
        Decision(
            "task", task, "modules.json" if model.has_modules else f"{HUGGING_FACE_FILE}, architectures and labels"
        ),
    ]
    if labels:
        found.append(Decision("labels", some_of(labels, _LABELS_SHOWN), f"{HUGGING_FACE_FILE}, id2label"))
    if task != "open" and "words" in model.settings:
        is_given = model.settings["words"] == "conll"
        words = (
            ("as in CoNLL", "as given") if is_given else ("as the tokenizer splits texts", "the rules of the library")
        )
        found.append(Decision("words", *words))
    if checkpoint.problem_type:
        found.append(Decision("problem type", checkpoint.problem_type, f"{HUGGING_FACE_FILE}, problem_type"))
    return [*found, Decision("weights", weights, paths.name(checkpoint.weights_file))]


def keys_of_files(model: Any) -> list[FileKeys]:
    """Returns the keys of each file with keys in the folder of a `ModelFolder`."""
    family = FAMILIES.get(model.checkpoint.hugging_face_config.get("model_type") or "bert")
    known = {
        HUGGING_FACE_FILE: keys_of_config(family),
        TOKENIZER_CONFIG: (KEYS, HARMLESS),
        TOKENIZER_JSON: KEYS_OF_JSON,
        SPECIAL_TOKENS_MAP: (KEYS, ()),
        ADDED_TOKENS: (None, ()),
        **KEYS_OF_FILES,
    }
    top = paths.local(str(model))
    folders = dict.fromkeys((top, model.folder))
    files = {paths.join(folder, name): (name, *known_keys) for folder in folders for name, known_keys in known.items()}
    return [_keys_of(file, *arguments) for file, arguments in files.items() if paths.is_file(file)]


def _keys_of(
    file: str, name: str, read: Mapping[str, Any] | Collection[str] | None, harmless: Collection[str]
) -> FileKeys:
    found = [*read_object(file)]
    is_read = [key for key in found if read is None or key in read or key.endswith("_token")]
    is_harmless = [key for key in found if key not in is_read and key in harmless]
    return FileKeys(name, is_read, is_harmless, [key for key in found if key not in {*is_read, *is_harmless}])
