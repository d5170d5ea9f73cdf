"""The keys of a tokenizer_config.json, and the rules by which texts become sequences."""

import dataclasses
import json
from collections.abc import Mapping
from types import EllipsisType
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.storage.tokenizer.json_file import SPECIAL_TOKENS

# Our key, which holds TextRules.
TEXT_RULES = "text_rules"
NAMED = tuple(f"{token[1:-1].lower()}_token" for token in SPECIAL_TOKENS)
LISTS = ("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder", "model_specific_special_tokens")
# The keys that are read, with `...`, and others with the values that change nothing.
KEYS: Mapping[str, tuple[Any, ...] | EllipsisType] = {
    **dict.fromkeys(("tokenizer_class", "do_lower_case", "strip_accents", "tokenize_chinese_chars"), ...),
    **dict.fromkeys(("model_max_length", "max_len", "model_input_names", "max_input_chars_per_word", TEXT_RULES), ...),
    **dict.fromkeys((*NAMED, "bos_token", "eos_token", *LISTS), ...),
    "do_basic_tokenize": (True,),
    "never_split": ([],),
    "wordpieces_prefix": ("##",),
    "truncation_side": ("right",),
    "auto_map": (),
    "init_inputs": ([],),
    **dict.fromkeys(("split_special_tokens", "add_prefix_space", "add_bos_token", "add_eos_token"), (False,)),
}
# These change no token of a text.
HARMLESS = frozenset(
    (
        *("name_or_path", "tokenizer_file", "vocab_file", "full_tokenizer_file", "special_tokens_map_file"),
        *("is_local", "local_files_only", "cache_dir", "revision", "trust_remote_code", "transformers_version"),
        *("backend", "use_fast", "from_slow", "legacy", "processor_class", "verbose", "errors", "chat_template"),
        *("max_length", "stride", "truncation", "truncation_strategy", "return_token_type_ids"),
        *("padding", "padding_side", "pad_to_multiple_of", "pad_token_type_id", "clean_up_tokenization_spaces"),
    )
)


@dataclasses.dataclass(frozen=True)
class Fact:
    """A value, and the file that sets it; None: no file does, and `reason` says why it holds."""

    value: Any
    file: str | None
    reason: str = ""

    @property
    def source(self) -> str:
        """Where the value comes from, in words."""
        return f"set in {self.file}" if self.file else self.reason


@dataclasses.dataclass(frozen=True)
class TextRules:
    """How texts become sequences, apart from vocabulary and casing. The defaults are the rules of the original BERT.

    Attributes:
        special_tokens: tokens that a text may contain as such, as "[SEP]" in "title [SEP] body".
        is_foreign: whether the rules of transformers hold, which differ from the original's in three points. Of a pair
            that is too long, the longer or else the second text keeps an odd token, and not the first. A capital sigma
            at the end of a word becomes σ, and not ς. Characters for private use are removed.
    """

    special_tokens: tuple[str, ...] = ()
    is_foreign: bool = False

    def to_json(self) -> dict[str, Any]:
        """Returns the rules as values of JSON, which `TextRules.of` takes."""
        return {"special_tokens": [*self.special_tokens], "is_foreign": self.is_foreign}

    @classmethod
    def of(cls, values: Any, file: str) -> "TextRules":
        """Returns the rules that a file holds."""
        names = {field.name for field in dataclasses.fields(cls)}
        try:
            rules = cls(tuple(values["special_tokens"]), values["is_foreign"])
            if set(values) == names and all(isinstance(token, str) and token for token in rules.special_tokens):
                return rules
        except (KeyError, TypeError):
            pass
        raise Mistake("{}: {} must have {}; take the file that belongs to the model", file, TEXT_RULES, sorted(names))


ORIGINAL_RULES = TextRules()


def content_of(token: Any) -> str:
    """Returns the text of a special or added token, which is stored as a str or as an object."""
    return str(token.get("content") if isinstance(token, dict) else token)


def unsupported(file: str, found: str) -> Mistake:
    return Mistake(
        "{} has {}; bert-keras makes the tokens of a plain BERT, so take another model, or remove this from "
        "the file if your texts never need it",
        file,
        found,
    )


def check_keys(values: Mapping[str, Any], file: str) -> list[str]:
    """Refuses values of a tokenizer_config.json that would give other tokens. Returns the keys that are unknown."""
    unknown = []
    for key, value in values.items():
        harmless = KEYS.get(key)
        if harmless is None and key not in HARMLESS and not key.endswith("_token"):
            unknown.append(key)
        elif harmless not in (None, ...) and value is not None and value not in harmless:
            raise unsupported(file, f"{key} {json.dumps(value)}")
    return unknown
