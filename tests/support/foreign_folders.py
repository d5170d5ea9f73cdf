"""Folders as transformers and its users leave them, with every odd value that a file of a tokenizer may have.

`CASES` has a family of them. Each value occurs with several others; a fixed seed draws the combinations.
"""

import copy
import dataclasses
import itertools
import json
import random
import shutil
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = (
    *("paris", "Paris", "is", "the", "capital", "of", "france", "France", "he", "was", "hungry", "New", "york"),
    *("straße", "strasse", "café", "cafe", "москва", "Москва", "столица", "σας", "σασ", "日", "本", "中", "国", "中国"),
    *("[E1]", "<url>", "##ing", "##ed", "##s", "walk", "title", "body", "xx", "##xx"),
)
_LETTERS = (
    "abcdefghijklmnopqrstuvwxyzABEILNPSTX0123456789.,!?-/'$_`^()[]<>@¿—"
    "éÉäößüıïΣσςαυγιοεδςОёйтлкцамосوبعريةملحدשלוםעהिहनदमकीภาษไทย\u0e49日本語中国㈱豈"
    "각한ᄒ\u1161\u11ab국어ᄀᆨ😀👍🏽👨"
)
_PIECES = "abcdefghijklmnopqrstuvwxyzéäößüσςαυγιοεδйтлкцамосبعريةמשלום\u0e49ाीนยิᆨ\u1161\u11ab"
TOKENS = tuple(
    dict.fromkeys((*MARKS, *_WORDS, *_LETTERS, *(f"##{letter}" for letter in _PIECES), "##é", "##\u0301", "##\ufe0f"))
)

TEXTS = (
    "paris is the capital of france .",
    "Paris IS The Capital, of France!",
    "Él Árbol Straße STRASSE İstanbul ﬁn ½ naïve CAFÉ cafe\u0301",
    "ΟΔΥΣΣΕΥΣ Σίσυφος ΣΑΣ σας Ὀδός",
    "Москва — СТОЛИЦА ёлка Й й",
    "العربية مُحَمَّد ﻻ",
    "שָׁלוֹם עולם",
    "हिन्दी में की",
    "ภาษาไทย น้ำ",
    "日本語 paris中国 ㈱ 豈 𠀀",
    "한국어 각 ᄒ한",
    "he was 😀👍🏽 hungry 👨\u200d👩\u200d👧 ☺\ufe0f",
    "\uf0b7 he con\x01trol\x07 a\x0bb tab\tnew\nline zero\u200bwidth so\u00adft \ufeffbom a\u2028b a\x85b nb\u00a0sp",
    "title [SEP] body [MASK] he[CLS]was [UNK]",
    "[sep] [ MASK ] [mask] [MASK][MASK] [E1] he[E1] [e1] <url>",
    "x" * 100 + " he",
    "he " + "x" * 101 + " was",
    "was " + "ab" * 75 + " , é" + "ß" * 99,
    "New-York/London isn't U.S. 3.14 $5 a_b`c^ ¿he?",
    "he was hungry . " * 12,
    "paris [E1]is the  [SEP] of\tfrance [mask]ing walked walks",
)
PAIRS = (
    ("he was hungry", "walked"),
    ("Paris É [SEP] x", "ΣΑΣ [MASK] 中国"),
    ("a b c d e f g h i j k l m n o p q r s t", "he was"),
    ("he was", "a b c d e f g h i j k l m n o p q r s t"),
    ("a b c d e f g h i j k l m n o p", "q r s t u v w x y z a b c d e f"),
    ("a b c d e f g h i j k l m n o", "q r s t u v w x y z a b c d e f g h i"),
    ("a b c d e f g h i j k l m n o p q r s t u v", "q r s t u v w x y z a b"),
    ("हिन्दी 한국어 walks", "한국어 ภาษาไทย"),
    ("a b c d e f g", "a b c d e f g h i j k"),
    ("a b c d e f g h", "a b c d e f g h"),
)

# A folder while it is made: file -> JSON object, or the lines of the vocabulary.
Files = dict[str, Any]
CONFIG, TOKENIZER, MODEL_JSON, VOCABULARY = "tokenizer_config.json", "tokenizer.json", "config.json", "vocab.txt"


@dataclasses.dataclass(frozen=True)
class Odd:
    """A value that a folder may have.

    Attributes:
        change: puts it into the files.
        refused_as: words of a refusal: the key, or the part of the file; "": the value may not be refused.
        only: where the value is refused: "generic" or "bert" for the classes, "types" for those whose second text has
            the type 1, "added" if no newer key names the added tokens, "" for all.
        needs: a file that the value is in.
        vocabulary: of texts whose capitals ("cased") or accents ("accented") stay, or both ("all"); "" for neither.
            A folder has one value that sets it.
        after: changes the folder when it is written; None: nothing.
        may_be_asked: words of a question that the folder may leave open.
    """

    change: Callable[[Files], Any]
    refused_as: str = ""
    only: str = ""
    needs: str = CONFIG
    vocabulary: str = ""
    after: Callable[[Any], Any] | None = None
    may_be_asked: str = ""


def _set(**values: Any) -> Callable[[Files], Any]:
    return lambda files: files[CONFIG].update(values)


def _drop(*names: str, **values: Any) -> Callable[[Files], Any]:
    def change(files: Files) -> None:
        for name in names:
            files[CONFIG].pop(name, None)
        files[CONFIG].update(values)

    return change


def _in_json(name: str, value: Any) -> Callable[[Files], Any]:
    return lambda files: files[TOKENIZER].update({name: value})


def _normalizer(**values: Any) -> Callable[[Files], Any]:
    return lambda files: files[TOKENIZER]["normalizer"].update(values)


def _casing(do_lower_case: bool, **values: Any) -> Callable[[Files], Any]:
    """A casing that all files agree on."""

    def change(files: Files) -> None:
        files[CONFIG] |= {"do_lower_case": do_lower_case, **values}
        if TOKENIZER in files:
            files[TOKENIZER]["normalizer"] |= {"lowercase": do_lower_case, **values}

    return change


def _added(content: str, **flags: bool) -> dict[str, Any]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"content": content, **(plain | flags)}


def _add(content: str = "[E1]", **flags: bool) -> Callable[[Files], Any]:
    """An added token of the vocabulary, in both files that transformers 4.34 and later write."""

    def change(files: Files) -> None:
        id_, token = TOKENS.index(content), _added(content, **flags)
        files[CONFIG].setdefault("added_tokens_decoder", _decoder())[str(id_)] = token
        if TOKENIZER in files:
            files[TOKENIZER]["added_tokens"].append({"id": id_, **token})

    return change


def _decoder() -> dict[str, Any]:
    return {str(id_): _added(token) for id_, token in enumerate(MARKS)}


def _add_beyond(files: Files) -> None:
    """A token that only tokenizer.json has, after those of vocab.txt."""
    files[TOKENIZER]["added_tokens"].append({"id": len(TOKENS), **_added("[E2]")})
    files[CONFIG].setdefault("added_tokens_decoder", _decoder())[str(len(TOKENS))] = _added("[E2]")
    files[MODEL_JSON]["vocab_size"] = len(TOKENS) + 1


def _swapped(tokens: list[str]) -> list[str]:
    other = {"he": "was", "was": "he"}
    return [other.get(token, token) for token in tokens]


def _swap(files: Files) -> None:
    """Two words with the ids of each other, in each file."""
    if VOCABULARY in files:
        files[VOCABULARY] = _swapped(files[VOCABULARY])
    if TOKENIZER in files:
        lines = _swapped(list(files[TOKENIZER]["model"]["vocab"]))
        files[TOKENIZER]["model"]["vocab"] = {token: id_ for id_, token in enumerate(lines)}


def _differ(files: Files) -> None:
    files[VOCABULARY] = _swapped(list(files[TOKENIZER]["model"]["vocab"]))


def _one_type(files: Files) -> None:
    files[MODEL_JSON]["type_vocab_size"] = 1
    files[CONFIG]["model_input_names"] = ["input_ids", "attention_mask"]


def _template(*parts: tuple[str, int]) -> Callable[[Files], Any]:
    items = [{"Sequence" if name in "AB" else "SpecialToken": {"id": name, "type_id": type_}} for name, type_ in parts]
    return lambda files: files[TOKENIZER]["post_processor"].update(pair=items)


def _add_weights(folder: Any) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    weights = load_file(file) | {"loss_fct.weight": torch.ones(3), "temperature": torch.ones(1)}
    save_file(weights, file, metadata={"format": "pt"})


def _drop_class(folder: Any) -> None:
    values = json.loads((folder / MODEL_JSON).read_text())
    del values["architectures"]
    (folder / MODEL_JSON).write_text(json.dumps(values))


def _nothing(files: Files) -> None:
    pass


_SECOND_SEP = (("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("[SEP]", 0), ("B", 1), ("[SEP]", 1))
_ONE_TYPE = (("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 0), ("[SEP]", 0))
_BERT_NORMALIZER = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
ODD: Mapping[str, Odd] = {
    "max_len": Odd(_drop("model_max_length", max_len=16)),
    "length as text": Odd(_set(model_max_length="16")),
    "length as float": Odd(_set(model_max_length=17.0)),
    "length unknown": Odd(_set(model_max_length=1000000000000000019884624838656)),
    "length above places": Odd(_set(model_max_length=512)),
    "length odd": Odd(_set(model_max_length=21)),
    "length zero": Odd(_set(model_max_length=0), "model_max_length"),
    "no length": Odd(_drop("model_max_length")),
    "no types": Odd(_set(model_input_names=["input_ids", "attention_mask"])),
    "types": Odd(_set(model_input_names=["input_ids", "token_type_ids", "attention_mask"])),
    "casing left over": Odd(
        lambda files: (files[CONFIG].update(do_lower_case=True), _normalizer(lowercase=False)(files)),
        "do_lower_case",
        "bert",
        needs=TOKENIZER,
        vocabulary="all",
    ),
    "casing left over, accents": Odd(
        lambda files: (files[CONFIG].update(strip_accents=True), _normalizer(strip_accents=False)(files)),
        needs=TOKENIZER,
        vocabulary="plain",
    ),
    "casing missing": Odd(_drop("do_lower_case"), vocabulary="plain"),
    "casing missing, cased json": Odd(
        lambda files: (_drop("do_lower_case")(files), _normalizer(lowercase=False)(files)),
        needs=TOKENIZER,
        vocabulary="plain",
    ),
    "cased": Odd(_casing(False), vocabulary="all"),
    "cased, config alone": Odd(_set(do_lower_case=False), "do_lower_case", "generic", vocabulary="cased"),
    "accents kept": Odd(_casing(True, strip_accents=False), vocabulary="accented"),
    "accents kept, config alone": Odd(_set(strip_accents=False), vocabulary="plain"),
    "cased, accents stripped": Odd(_casing(False, strip_accents=True), vocabulary="cased"),
    "chinese words": Odd(_set(tokenize_chinese_chars=False), "tokenize_chinese_chars", "bert"),
    "chinese words in json": Odd(_normalizer(handle_chinese_chars=False), "handle_chinese_chars", needs=TOKENIZER),
    "NFKC": Odd(_in_json("normalizer", {"type": "NFKC"}), "normalizer", needs=TOKENIZER),
    "no normalizer": Odd(_in_json("normalizer", None), "normalizer", needs=TOKENIZER),
    "text not cleaned": Odd(_normalizer(clean_text=False), "clean_text", needs=TOKENIZER),
    "sequence of one": Odd(
        _in_json("normalizer", {"type": "Sequence", "normalizers": [_BERT_NORMALIZER]}), needs=TOKENIZER
    ),
    "sequence of two": Odd(
        _in_json("normalizer", {"type": "Sequence", "normalizers": [{"type": "NFC"}, _BERT_NORMALIZER]}),
        "normalizer",
        needs=TOKENIZER,
    ),
    "white space alone": Odd(_in_json("pre_tokenizer", {"type": "WhitespaceSplit"}), "pre_tokenizer", needs=TOKENIZER),
    "cut at the left": Odd(_set(truncation_side="left"), "truncation_side"),
    "specials split": Odd(_set(split_special_tokens=True), "split_special_tokens"),
    "added": Odd(_add()),
    "added with lstrip": Odd(_add(lstrip=True), "lstrip"),
    "added single word": Odd(_add(single_word=True), "single_word"),
    "added normalized": Odd(_add(normalized=True, special=False), "normalized"),
    "added plain": Odd(_add("<url>", special=False)),
    "added in json alone": Odd(
        lambda files: files[TOKENIZER]["added_tokens"].append({"id": TOKENS.index("[E1]"), **_added("[E1]")}),
        needs=TOKENIZER,
    ),
    "added beyond": Odd(_add_beyond, needs=TOKENIZER),
    "additional": Odd(_set(additional_special_tokens=["[E1]"])),
    "extra as list": Odd(_set(extra_special_tokens=["[E1]", "<url>"])),
    "extra as dict": Odd(_set(extra_special_tokens={"entity_token": "[E1]"})),
    "own key": Odd(_set(entity_token="[E1]")),
    "mask with lstrip": Odd(
        lambda files: files[CONFIG].update(mask_token={"__type": "AddedToken", **_added("[MASK]", lstrip=True)}),
        "lstrip",
    ),
    "map of old folders": Odd(
        lambda files: files.update({"special_tokens_map.json": _names() | {"additional_special_tokens": ["[E1]"]}})
    ),
    "map with objects": Odd(
        lambda files: files.update(
            {"special_tokens_map.json": {name: _added(token) for name, token in _names().items()}}
        )
    ),
    "map without lstrip": Odd(
        lambda files: files.update(
            {"special_tokens_map.json": _names() | {"mask_token": _added("[MASK]", lstrip=True)}}
        ),
        "lstrip",
        "added",
    ),
    "added_tokens.json": Odd(
        lambda files: files.update({"added_tokens.json": {"[E1]": TOKENS.index("[E1]")}}), "normalized", "added"
    ),
    "added_tokens.json, named": Odd(
        lambda files: files.update(
            {
                "added_tokens.json": {"[E1]": TOKENS.index("[E1]")},
                "special_tokens_map.json": _names() | {"additional_special_tokens": ["[E1]"]},
            }
        )
    ),
    "files differ": Odd(_differ, VOCABULARY, needs=TOKENIZER),
    "ids swapped": Odd(_swap),
    "one type": Odd(_one_type),
    "second [SEP]": Odd(_template(*_SECOND_SEP), "template", needs=TOKENIZER),
    "template of one type": Odd(_template(*_ONE_TYPE), "template", "types", needs=TOKENIZER),
    "short words": Odd(
        lambda files: files[TOKENIZER]["model"].update(max_input_chars_per_word=50),
        "max_input_chars_per_word",
        "bert",
        needs=TOKENIZER,
    ),
    "short words in config": Odd(_set(max_input_chars_per_word=50)),
    "unknown keys": Odd(_set(foo=1, my_version="2", special_tokens_map_file="/x", name_or_path="a/b")),
    "harmless keys": Odd(
        _set(padding_side="left", clean_up_tokenization_spaces=True, use_fast=False, stride=3, max_length=7)
    ),
    "cut and padded in json": Odd(
        lambda files: files[TOKENIZER].update(
            truncation={"direction": "Right", "max_length": 9, "strategy": "LongestFirst", "stride": 0},
            padding={
                "strategy": {"Fixed": 32},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "[PAD]",
            },
        ),
        needs=TOKENIZER,
    ),
    "cut at the left in json": Odd(
        _in_json("truncation", {"direction": "Left", "max_length": 9, "strategy": "LongestFirst", "stride": 0}),
        "truncation",
        needs=TOKENIZER,
    ),
    "never_split": Odd(_set(never_split=["walk"]), "never_split"),
    "no basic tokenizer": Odd(_set(do_basic_tokenize=False), "do_basic_tokenize"),
    "other unk": Odd(_set(unk_token="xx"), "unk_token"),
    "mask null": Odd(_set(mask_token=None), "mask_token"),
    "json without type": Odd(lambda files: files[TOKENIZER]["model"].pop("type"), needs=TOKENIZER),
    "lines of Windows": Odd(lambda files: files[VOCABULARY].append("\r"), needs=VOCABULARY),
    "BertProcessing": Odd(
        _in_json("post_processor", {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}),
        needs=TOKENIZER,
    ),
    "more weights": Odd(_nothing, after=_add_weights),
    "no class": Odd(_nothing, after=_drop_class, may_be_asked="task"),
    "two files of weights": Odd(
        _nothing, after=lambda folder: shutil.copy(folder / "model.safetensors", folder / "model.fp16.safetensors")
    ),
    "padded table": Odd(lambda files: files[MODEL_JSON].update(vocab_size=len(TOKENS) + 6)),
    "no post_processor": Odd(_in_json("post_processor", None), "post_processor", "generic", needs=TOKENIZER),
}
CLASSES = (
    *("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast", "ElectraTokenizer"),
    *("ElectraTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend", "none", "in config.json"),
    *("in config.json generic", "RobertaTokenizer", "AlbertTokenizer", "MyTokenizer"),
)
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend", "in config.json generic")
WRONG = ("RobertaTokenizer", "AlbertTokenizer", "MyTokenizer")
# The files of transformers 5, of transformers 4, of old versions, and the least.
FORMS = {
    "new": (CONFIG, TOKENIZER),
    "both": (CONFIG, TOKENIZER, VOCABULARY),
    "old": (CONFIG, VOCABULARY),
}
FAMILIES = {"bert": "Bert", "distilbert": "DistilBert", "electra": "Electra", "albert": "Albert"}
_SEQUENCE = "ForSequenceClassification"
# Name -> class and values of the config.
HEADS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "two classes": (_SEQUENCE, {"num_labels": 2}),
    "three classes": (
        _SEQUENCE,
        {"id2label": {0: "bad", 1: "fair", 2: "good"}, "problem_type": "single_label_classification"},
    ),
    "three labels": (_SEQUENCE, {"num_labels": 3, "problem_type": "multi_label_classification"}),
    "one label": (_SEQUENCE, {"num_labels": 1, "problem_type": "multi_label_classification"}),
    "number": (_SEQUENCE, {"num_labels": 1, "problem_type": "regression"}),
    "one number": (_SEQUENCE, {"num_labels": 1}),
    "tags": ("ForTokenClassification", {"id2label": dict(enumerate(("O", "B-PER", "I-PER", "B-LOC", "I-LOC")))}),
    "answers": ("ForQuestionAnswering", {}),
    "choices": ("ForMultipleChoice", {}),
    "masks": ("ForMaskedLM", {}),
    "next sentence": ("ForNextSentencePrediction", {}),
    "pre-training": ("ForPreTraining", {}),
}
_OF_FAMILY = {"next sentence": ("bert",), "pre-training": ("electra",)}


@dataclasses.dataclass(frozen=True)
class Case:
    """One folder."""

    family: str
    head: str
    tokenizer: str
    form: str
    odd: tuple[str, ...]

    def __str__(self) -> str:
        return "-".join((self.family, self.head, self.tokenizer, self.form, *self.odd)).replace(" ", "_")

    @property
    def is_generic(self) -> bool:
        return self.tokenizer in GENERIC

    @property
    def refusals(self) -> list[str]:
        """The words of which one must be in the refusal; no words: the folder must open."""
        has_types = "types" in self.odd or not self.is_generic and not self.tokenizer.startswith("Distil")
        has_types &= not {"no types", "one type"} & set(self.odd)
        has_names = any(name.startswith(("added ", "additional", "extra as list", "map of")) for name in self.odd)
        has_names |= "added" in self.odd
        kinds = (
            "" if has_names else "added",
            "",
            "generic" if self.is_generic else "bert",
            "types" if has_types else "",
        )
        found = [ODD[name].refused_as for name in self.odd if ODD[name].only in kinds]
        of_class = ["tokenizer_class"] if self.tokenizer in WRONG or self._is_of_albert else []
        return [name for name in found if name] + of_class

    @property
    def _is_of_albert(self) -> bool:
        return self.family == "albert" and self.tokenizer == "none"


def vocabulary(kind: str) -> list[str]:
    """Returns the tokens of a vocabulary; the places of those with capitals or accents may be unused."""

    def is_used(token: str) -> bool:
        has_capitals = token != token.lower() and token not in (*MARKS, "[E1]")
        plain = "".join(char for char in unicodedata.normalize("NFD", token) if unicodedata.category(char) != "Mn")
        return not (has_capitals and kind not in ("all", "cased") or token != plain and kind not in ("all", "accented"))

    return [token if is_used(token) else f"[unused{id_}]" for id_, token in enumerate(TOKENS)]


def _names() -> dict[str, str]:
    return {f"{token[1:-1].lower()}_token": token for token in MARKS}


def _tokenizer_json(tokens: Sequence[str]) -> dict[str, Any]:
    special = {token: {"id": token, "ids": [TOKENS.index(token)], "tokens": [token]} for token in ("[CLS]", "[SEP]")}
    single, pair = (("[CLS]", 0), ("A", 0), ("[SEP]", 0)), (("B", 1), ("[SEP]", 1))
    items = [
        {"Sequence" if name in "AB" else "SpecialToken": {"id": name, "type_id": type_}}
        for name, type_ in (*single, *pair)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": id_, **_added(token)} for id_, token in enumerate(MARKS)],
        "normalizer": dict(_BERT_NORMALIZER),
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": items[:3],
            "pair": items,
            "special_tokens": special,
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {token: id_ for id_, token in enumerate(tokens)},
        },
    }


def random_peer(family: str, end: str, num_layers: int = 1, scale: float = 0.5, **config: Any) -> Any:
    """Returns a small model of transformers, whose random weights differ from their initial values.

    Args:
        end: of the name of its class.
        config: further values of its config.
    """
    import torch
    import transformers

    values: dict[str, Any] = {"vocab_size": len(TOKENS), "max_position_embeddings": 40, "pad_token_id": 0}
    if family == "distilbert":
        values |= {"dim": 16, "n_layers": num_layers, "n_heads": 2, "hidden_dim": 16}
    else:
        values |= {"hidden_size": 16, "num_hidden_layers": num_layers, "num_attention_heads": 2}
        values["intermediate_size"] = 16
    if family in ("electra", "albert"):
        values["embedding_size"] = 4
    prefix = FAMILIES[family]
    torch.manual_seed(1)
    made = getattr(transformers, f"{prefix}Config")(**(values | copy.deepcopy(config)))
    model = getattr(transformers, prefix + end)(made)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(scale * torch.randn_like(weight))
    return model.eval()


def tokenizer_files(case: Case) -> Files:
    """Returns the files of a folder but for its weights; config.json has the values that are changed."""
    kind = next((ODD[name].vocabulary for name in case.odd if ODD[name].vocabulary), "")
    tokens = vocabulary(kind)
    files: Files = {
        MODEL_JSON: {},
        CONFIG: {"do_lower_case": True, "model_max_length": 20, **_names()},
        TOKENIZER: _tokenizer_json(tokens),
        VOCABULARY: tokens,
    }
    files = {name: files[name] for name in (MODEL_JSON, *FORMS[case.form])}
    if case.tokenizer.startswith("in config.json"):
        files[MODEL_JSON]["tokenizer_class"] = (
            "PreTrainedTokenizerFast" if case.tokenizer.endswith("generic") else "BertTokenizer"
        )
    elif case.tokenizer != "none":
        files[CONFIG]["tokenizer_class"] = case.tokenizer
    for name in case.odd:
        ODD[name].change(files)
    return files


def write_case(folder: Any, case: Case) -> None:
    """Writes the folder of a case. transformers makes the weights."""
    files, (end, values) = tokenizer_files(case), HEADS[case.head]
    sizes = {name: value for name, value in files[MODEL_JSON].items() if name in ("type_vocab_size", "vocab_size")}
    random_peer(case.family, end, **values | sizes).save_pretrained(folder)
    write_files(folder, files)
    for name in case.odd:
        if after := ODD[name].after:
            after(folder)


def write_files(folder: Any, files: Files) -> None:
    """Writes files into a folder. A config.json that is there gets the values."""
    for name, content in files.items():
        path = folder / name
        if name == VOCABULARY:
            end = "\r\n" if content[-1] == "\r" else "\n"
            path.write_bytes("".join(f"{token}{end}" for token in content if token != "\r").encode())
        else:
            before = json.loads(path.read_text()) if name == MODEL_JSON else {}
            path.write_text(json.dumps(before | content if before else content, ensure_ascii=False), encoding="utf-8")


def draw_cases() -> list[Case]:
    """Draws folders so that each family, head, class, form and odd value occurs several times."""
    chance = random.Random(5)

    def endless(values: Any) -> Any:
        while True:
            values = list(values)
            chance.shuffle(values)
            yield from values

    heads, classes, forms, families = endless(HEADS), endless(CLASSES[:-3]), endless(FORMS), endless(FAMILIES)
    wrong, found = endless(WRONG), []
    odd = endless([None, *ODD, *(name for name in ODD if not ODD[name].refused_as)])
    for number in range(150):
        head, form, family = next(heads), next(forms), next(families)
        family = _OF_FAMILY.get(head, (family,))[0]
        names = [name for name in itertools.islice(odd, 1 + number % 2) if name]
        while len([name for name in names if ODD[name].vocabulary]) > 1:
            names.pop()
        tokenizer = next(wrong) if number % 25 == 24 else next(classes)
        if any(ODD[name].needs == TOKENIZER for name in names) and form == "old":
            form = "both"
        if any(ODD[name].needs == VOCABULARY for name in names) and form == "new":
            form = "both"
        if tokenizer in GENERIC and form == "old":
            form = "both"
        if "one type" in names and family == "distilbert":
            family = "bert"
        found.append(Case(family, head, tokenizer, form, tuple(dict.fromkeys(names))))
    return found


CASES = draw_cases()

_TYPES = "sentence_transformers.models."
_MODES = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}
_LENGTH_FILE, _PROMPTS_FILE = "sentence_bert_config.json", "config_sentence_transformers.json"


@dataclasses.dataclass(frozen=True)
class ModulesCase:
    """One folder of sentence-transformers with an encoder of `Case`; `odd` has names of ODD_MODULES."""

    family: str
    pooling: str
    normalizes: bool
    odd: str

    def __str__(self) -> str:
        return "-".join((self.family, self.pooling, str(self.normalizes), self.odd)).replace(" ", "_")


# Value -> changed files, and the key of a refusal.
ODD_MODULES: Mapping[str, tuple[Files, str]] = {
    "plain": ({}, ""),
    "lower-cased first": ({_LENGTH_FILE: {"max_seq_length": 16, "do_lower_case": True}}, ""),
    "no length": ({_LENGTH_FILE: {"do_lower_case": False}}, ""),
    "length null": ({_LENGTH_FILE: {"max_seq_length": None, "do_lower_case": False}}, ""),
    "default prompt": ({_PROMPTS_FILE: {"prompts": {"query": "he was "}, "default_prompt_name": "query"}}, ""),
    "prompts": ({_PROMPTS_FILE: {"prompts": {"query": "he was ", "document": ""}, "default_prompt_name": None}}, ""),
    "prompt with [SEP]": (
        {_PROMPTS_FILE: {"prompts": {"query": "title [SEP] "}, "default_prompt_name": "query"}},
        "",
    ),
    "shorter vectors": ({_PROMPTS_FILE: {"truncate_dim": 4}}, "truncate_dim"),
    "prompt not counted": ({"1_Pooling/config.json": {"include_prompt": False}}, "include_prompt"),
    "two modes": (
        {"1_Pooling/config.json": {"pooling_mode_max_tokens": True, "pooling_mode_cls_token": True}},
        "pooling",
    ),
    "one type": ({CONFIG: {"model_input_names": ["input_ids", "attention_mask"]}}, ""),
    "length of tokenizer": ({CONFIG: {"model_max_length": 12}, _LENGTH_FILE: {"max_seq_length": 30}}, ""),
}
MODULES_CASES = [
    ModulesCase(family, pooling, number % 3 > 0, odd)
    for number, (odd, pooling, family) in enumerate(
        zip(
            [*ODD_MODULES, *ODD_MODULES],
            itertools.cycle(("cls", "mean", "max", "mean", "cls")),
            itertools.cycle(("bert", "distilbert", "electra", "albert")),
            strict=False,
        )
    )
]


def write_modules(folder: Any, case: ModulesCase, **values: Any) -> None:
    """Writes a folder of sentence-transformers, with other values in its config.json."""
    random_peer(case.family, "Model", **values).save_pretrained(folder)
    kinds = ["Transformer", "Pooling", *(["Normalize"] if case.normalizes else [])]
    places = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    files = tokenizer_files(Case(case.family, "choices", "BertTokenizer", "both", ()))
    files |= {
        "modules.json": [
            {"idx": number, "name": str(number), "path": places[kind], "type": _TYPES + kind}
            for number, kind in enumerate(kinds)
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": 16,
            **{key: name == case.pooling for name, key in _MODES.items()},
        },
        _LENGTH_FILE: {"max_seq_length": 16, "do_lower_case": False},
        _PROMPTS_FILE: {"__version__": {"sentence_transformers": "3.0.0"}},
    }
    for name, values in ODD_MODULES[case.odd][0].items():
        before = {} if name == _LENGTH_FILE else files.get(name, {})
        files[name] = before | values
    for name in places.values():
        (folder / name).mkdir(exist_ok=True)
    write_files(folder, files)


def write_cross_encoder(folder: Any, num_labels: int, **config: Any) -> None:
    """Writes the folder of a CrossEncoder with values of its config.json."""
    random_peer("bert", _SEQUENCE, num_labels=num_labels).save_pretrained(folder)
    files = tokenizer_files(Case("bert", "two classes", "BertTokenizer", "both", ()))
    files[MODEL_JSON] |= config
    write_files(folder, files)
