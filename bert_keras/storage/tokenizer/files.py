"""The tokenizer of a folder: what its files say about how texts become tokens, and which file decides each fact.

vocab.txt                                    the tokens, one a line
tokenizer_config.json                        class, casing, maximum length, special tokens
tokenizer.json                               tokens, and the rules of a generic class
special_tokens_map.json, added_tokens.json   special tokens, in older folders
config.json                                  class and version, if tokenizer_config.json does not say them

The precedence is that of transformers. A class of BERT, such as `BertTokenizer`, takes its casing from
tokenizer_config.json. A generic class, such as `PreTrainedTokenizerFast`, takes all rules from tokenizer.json. A value
that would give other tokens is refused by the name of its key. docs/guides/checkpoints.md lists the keys.
"""

import functools
import json
import logging
import os
from collections.abc import Iterator
from typing import Any

from bert_keras.mistakes import Mistake, some_of
from bert_keras.storage import json_files, paths
from bert_keras.storage.tokenizer.json_file import (
    LONGEST_WORD,
    LONGEST_WORD_OF_OTHERS,
    SPECIAL_TOKENS,
    TOKENIZER_JSON,
    TokenizerJson,
)
from bert_keras.storage.tokenizer.keys import (
    LISTS,
    NAMED,
    TEXT_RULES,
    Fact,
    TextRules,
    check_keys,
    content_of,
    unsupported,
)
from bert_keras.storage.tokenizer.vocabulary import TOKENIZER_CONFIG, VOCAB_FILE, Tokens, read_tokens

log = logging.getLogger("bert_keras")

SPECIAL_TOKENS_MAP, ADDED_TOKENS, _CONFIG = "special_tokens_map.json", "added_tokens.json", "config.json"
# All files next to a vocabulary that may change the tokens.
TOKENIZER_FILES = (TOKENIZER_JSON, TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS)
_BERT_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
_GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
# transformers writes a number of thirty digits for an unknown length.
_UNKNOWN_LENGTH = 10**18
# The parts of a tokenizer.json that prepare text as a BERT does.
_PARTS = {"normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer"}
_PAIR = [("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 1), ("[SEP]", 1)]
_CASING = ("do_lower_case", "strip_accents")


class TokenizerFiles:
    """The files of a tokenizer in a folder. They are read when they are needed, and only once.

    Args:
        folder: path, local or remote.
        is_foreign: whether the model shall answer as in the library that trained it. Then the tokens of its texts are
            those of transformers, and what bert-keras cannot do so is a Mistake. Otherwise, the original's rules hold,
            and rules that differ only for some texts are warnings.

    Raises:
        ValueError: from every member: a file is damaged, or has a value that would give other tokens.
    """

    def __init__(self, folder: str | os.PathLike, is_foreign: bool = False):
        self.folder, self.is_foreign = os.fspath(folder), is_foreign

    def _file(self, name: str) -> str:
        return paths.join(self.folder, name)

    def _read(self, name: str, *needed: str) -> dict[str, Any]:
        return json_files.read_optional_object(self._file(name), *needed)

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """The tokenizer_config.json; {} without one."""
        return self._read(TOKENIZER_CONFIG, "give JSON with do_lower_case, or delete it")

    @functools.cached_property
    def _json(self) -> TokenizerJson | None:
        """The tokenizer.json; None without one with word pieces."""
        return TokenizerJson.from_folder(self.folder)

    @property
    def has_json(self) -> bool:
        """Whether there is a tokenizer.json with word pieces."""
        return self._json is not None

    @functools.cached_property
    def _model(self) -> dict[str, Any]:
        return self._read(_CONFIG) if self.is_foreign else {}

    @functools.cached_property
    def tokenizer_class(self) -> Fact:
        """The name of the class, without "Fast"; "BertTokenizer" if no file names one."""
        for name, values in ((TOKENIZER_CONFIG, self.config), (_CONFIG, self._model)):
            if isinstance(found := values.get("tokenizer_class"), str):
                return Fact(found.removesuffix("Fast"), self._file(name))
        is_albert = self._json is not None and self._model.get("model_type") == "albert"
        return Fact("AlbertTokenizer" if is_albert else _BERT_CLASSES[0], None, "the default")

    @property
    def is_generic(self) -> bool:
        """Whether all rules come from the tokenizer.json."""
        return self._json is not None and self.tokenizer_class.value in _GENERIC_CLASSES

    @functools.cached_property
    def casing(self) -> dict[str, Fact]:
        """The settings do_lower_case and strip_accents, each if a file or the class sets it."""
        file = self._file(TOKENIZER_CONFIG)
        for name in (*_CASING, "tokenize_chinese_chars"):
            if not isinstance(value := self.config.get(name), bool | None):
                raise Mistake("{}: {} is {}, but must be true or false; correct it", file, name, json.dumps(value))
        found = {name: Fact(value, file) for name in _CASING if (value := self.config.get(name)) is not None}
        if self._json and (self.is_generic or not found and not self.is_foreign):
            return {name: Fact(value, self._json.file) for name, value in self._json.casing.items()}
        if self.is_foreign:
            found = {"do_lower_case": Fact(True, None, f"the default of {self.tokenizer_class.value}")} | found
        return found

    def lower_case_first(self, source: str) -> None:
        """Sets the casing for texts that are lower-cased before the tokenizer gets them, which keeps their accents."""
        if not (fact := self.casing.get("do_lower_case")) or not fact.value:
            self.casing = {"strip_accents": Fact(False, source), **self.casing, "do_lower_case": Fact(True, source)}

    @functools.cached_property
    def longest(self) -> Fact | None:
        """The maximum number of tokens in a sequence; None if no file says it."""
        key = "model_max_length" if "model_max_length" in self.config else "max_len"
        value, file = self.config.get(key), self._file(TOKENIZER_CONFIG)
        if isinstance(value, str) and value.strip().isdecimal() or isinstance(value, float) and value == value // 1:
            value = int(value)
        if value is None or type(value) is int and value >= _UNKNOWN_LENGTH:
            return None
        return Fact(json_files.check_whole(value, file, key), file)

    @functools.cached_property
    def has_token_types(self) -> Fact:
        """Whether the tokens of a second text have the type 1. If not, their type is 0, as that of the first."""
        names, tokenizer_class = self.config.get("model_input_names"), self.tokenizer_class
        if isinstance(names, list):
            return Fact("token_type_ids" in names, self._file(TOKENIZER_CONFIG))
        if self._json and self.is_generic and ("B", 0) in self._json.template("pair"):
            return Fact(False, self._json.file)
        if tokenizer_class.value not in _GENERIC_CLASSES:
            return Fact(tokenizer_class.value != "DistilBertTokenizer", tokenizer_class.file, tokenizer_class.reason)
        # transformers 4 gave them to generic classes, and transformers 5 does not.
        version = str(self._model.get("transformers_version") or "5")
        is_old = tokenizer_class.value == _GENERIC_CLASSES[0] and version.partition(".")[0] in ("1", "2", "3", "4")
        return Fact(is_old, None, f"the default of {tokenizer_class.value} in transformers {version}")

    @functools.cached_property
    def special_tokens(self) -> dict[str, str]:
        """The tokens that transformers finds in a text before it splits the text, with the place that names each."""
        found: dict[str, str] = {}
        for file, token in self._added():
            flags = token if isinstance(token, dict) else {}
            if is_other := [name for name in ("lstrip", "rstrip", "single_word", "normalized") if flags.get(name)]:
                raise unsupported(file, f"the token {content_of(token)} with {is_other[0]}")
            found.setdefault(content_of(token), file)
        if not self.is_generic:
            source = f"the default of {self.tokenizer_class.value}"
            found = {**dict.fromkeys(SPECIAL_TOKENS, source), **found}
        return found

    def _added(self) -> Iterator[tuple[str, Any]]:
        """Yields each special or added token, a str or a dict, with its file."""
        # transformers does not read the older files if this key is set.
        is_whole = self.is_foreign and "added_tokens_decoder" in self.config
        older = {} if is_whole else {SPECIAL_TOKENS_MAP: self._read(SPECIAL_TOKENS_MAP)}
        named = set()
        for name, values in {TOKENIZER_CONFIG: self.config, **older}.items():
            for key, value in values.items():
                tokens = []
                if key.endswith("_token") and isinstance(value, str | dict):
                    tokens = [value]
                elif key in LISTS and value:
                    if not isinstance(value, list | dict):
                        found = json.dumps(value)
                        raise Mistake("{}: {} is {}, but must be a list or an object", self._file(name), key, found)
                    tokens = [*(value.values() if isinstance(value, dict) else value)]
                if key in NAMED or isinstance(value, list):
                    named |= {content_of(token) for token in tokens}
                yield from ((self._file(name), token) for token in tokens)
        for token in () if is_whole else self._read(ADDED_TOKENS):
            yield self._file(ADDED_TOKENS), {"content": token, "normalized": token not in named}
        if self._json and (self.is_generic or not is_whole):
            yield from ((self._json.file, token) for token in self._json.added)

    @functools.cached_property
    def rules(self) -> TextRules:
        """The rules that are stored, those of transformers for a foreign model, or else the original's."""
        if stored := self.config.get(TEXT_RULES):
            return TextRules.of(stored, self._file(TOKENIZER_CONFIG))
        if not self.is_foreign:
            return TextRules()
        known = set(self.tokens)
        return TextRules(tuple(token for token in self.special_tokens if token in known), is_foreign=True)

    @property
    def vocab_file(self) -> str | None:
        """The path of the vocabulary: the vocab.txt, or else the tokenizer.json; None without either.

        A tokenizer.json with more tokens, which were added, comes first.
        """
        file = self._file(VOCAB_FILE)
        if not paths.is_file(file):
            return self._json and self._json.file
        if self._json and self.is_foreign and len(self._json.tokens) > len(read_tokens(file)):
            return self._json.file
        return file

    @functools.cached_property
    def tokens(self) -> Tokens:
        """The tokens of the vocabulary. Raises FileNotFoundError without one."""
        tokens = read_tokens(self.vocab_file or self._file(VOCAB_FILE))
        if self.is_foreign:
            # transformers reads the key in no tokenizer_config.json, and in the tokenizer.json of a generic class.
            tokens.longest_word = self._json.longest_word if self._json and self.is_generic else LONGEST_WORD_OF_OTHERS
        return tokens

    def check(self) -> "TokenizerFiles":
        """Refuses values that would give other tokens, by file and key, and logs unknown keys. Returns the object."""
        self._check_keys()
        self._check_special_tokens()
        self._check_class()
        if self._json:
            self._check_json(self._json)
        return self

    def _check_keys(self) -> None:
        file = self._file(TOKENIZER_CONFIG)
        unknown = check_keys(self.config, file)
        if unknown and self.is_foreign:
            log.warning("%s has keys that bert-keras does not know, and ignores: %s", file, ", ".join(unknown))
        if self.config.get("tokenize_chinese_chars") is False and not self.is_generic:
            self._report_chinese(file, "tokenize_chinese_chars")

    def _check_special_tokens(self) -> None:
        for name in (TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP):
            values = self.config if name == TOKENIZER_CONFIG else self._read(name)
            for key, needed in zip(NAMED, SPECIAL_TOKENS, strict=True):
                if self.is_foreign and key in values and values[key] is None:
                    raise unsupported(self._file(name), f"the {key} null")
                if (token := values.get(key)) is not None and content_of(token) != needed:
                    raise unsupported(self._file(name), f"the {key} {content_of(token)}")
        added: dict[str, list[str]] = {}
        for file, token in self._added():
            if (content := content_of(token)) not in SPECIAL_TOKENS:
                added.setdefault(file, []).append(content)
        known = set(self.tokens) if self.is_foreign and added else set()
        for file, tokens in added.items():
            if refused := [token for token in tokens if token not in known]:
                found = f"the added tokens {some_of(refused, 5)}, which "
                raise unsupported(file, found + (f"{self.vocab_file} lacks" if known else "bert-keras would split"))
        if self.is_foreign:
            _ = self.special_tokens

    def _check_class(self) -> None:
        found = self.tokenizer_class
        if found.value not in (*_BERT_CLASSES, *_GENERIC_CLASSES):
            self._report(found.file or "", "tokenizer_class", found.value, _BERT_CLASSES[0])

    def _check_json(self, read: TokenizerJson) -> None:
        for name, needed in _PARTS.items():
            if (part_type := read.part(name).get("type")) != needed:
                self._report(read.file, name, part_type, needed)
        normalizer = read.part("normalizer")
        if normalizer.get("handle_chinese_chars") is False:
            self._report_chinese(read.file, "handle_chinese_chars")
        if normalizer.get("clean_text") is False and self.is_foreign:
            raise unsupported(read.file, "clean_text false")
        if read.longest_word != LONGEST_WORD_OF_OTHERS and self.is_foreign and not self.is_generic:
            # transformers 4 reads it, and transformers 5 does not.
            raise unsupported(read.file, f"{LONGEST_WORD} {read.longest_word}")
        if read.cuts_left and self.is_foreign and "truncation_side" not in self.config:
            raise unsupported(read.file, "truncation at the left")
        if (unknown := read.model.get("unk_token", "[UNK]")) != "[UNK]":
            raise unsupported(read.file, f"the unk_token {unknown}")
        if read.post_processor == "TemplateProcessing":
            for key, needed in (("single", _PAIR[:3]), ("pair", _PAIR)):
                found = read.template(key)
                if not self.has_token_types.value:
                    found = [(name, type_id) for (name, _), (_, type_id) in zip(found, _PAIR, strict=False)]
                if found != needed:
                    raise unsupported(read.file, "another template than [CLS] A [SEP] B [SEP]")
        elif read.post_processor != "BertProcessing" and self.is_foreign and self.is_generic:
            raise unsupported(read.file, f"the post_processor {read.post_processor}")
        if paths.is_file(text_file := self._file(VOCAB_FILE)):
            read.check_equal(text_file, read_tokens(text_file))

    def _report(self, file: str, name: str, kind: object, known: str) -> None:
        """Refuses another way to prepare text, or warns about it."""
        if self.is_foreign:
            raise Mistake(
                "{}: {} is {}, but bert-keras prepares text as {} does, so the model would answer otherwise; take "
                "another model",
                file,
                name,
                kind,
                known,
            )
        log.warning(
            "%s: %s is %s, but text is prepared as by %s: give text that is prepared as in the model's training, or "
            "expect wrong answers",
            file,
            name,
            kind,
            known,
        )

    def _report_chinese(self, file: str, name: str) -> None:
        if self.is_foreign:
            raise unsupported(file, f"{name} false")
        log.warning("%s: %s is false, which is ignored: each Chinese character is a word", file, name)
