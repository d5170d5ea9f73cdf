"""Compares a model with transformers or sentence-transformers, which open the same folder: tokens and outputs."""

import dataclasses
import importlib
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.text.model_inputs import encode_pair
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.tasks.opening import open_model

_TEXTS_FILE = pathlib.Path(__file__).with_name("texts.json")
# Task -> the end of the class of transformers, and our outputs by the names of theirs.
_LOGITS = {"logits": "logits"}
_CLASSES: dict[str, tuple[str, dict[str, str]]] = {
    **dict.fromkeys(("classification", "regression", "multi_label", "rerank"), ("ForSequenceClassification", _LOGITS)),
    "token_classification": ("ForTokenClassification", _LOGITS),
    "multiple_choice": ("ForMultipleChoice", _LOGITS),
    "question_answering": (
        "ForQuestionAnswering",
        {"start_logits": "start_logits", "end_logits": "end_logits"},
    ),
    **dict.fromkeys(("fill_mask", "score"), ("ForMaskedLM", {"logits": "masked_lm_logits"})),
    "next_sentence": ("ForNextSentencePrediction", {"logits": "next_sentence_logits"}),
    "replaced_tokens": ("ForPreTraining", _LOGITS),
}

# A text, or the texts of a pair.
Texts = str | tuple[str, str]


@dataclasses.dataclass
class Comparison:
    """How far two libraries differ.

    Attributes:
        library: name and version.
        texts_with_other_tokens: their tokens differ.
        worst_tokens: the first of these texts, and its tokens here and there.
        difference: the largest of two outputs, for `worst_text`; of numbers above 1, the relative one.
    """

    library: str
    num_texts: int = 0
    texts_with_other_tokens: list[Texts] = dataclasses.field(default_factory=list)
    worst_tokens: tuple[Any, ...] = ()
    difference: float = 0.0
    worst_text: Texts = ""


def read_texts() -> list[Texts]:
    """Returns twenty texts, ten pairs and five long pairs of several scripts."""
    values = json.loads(_TEXTS_FILE.read_text(encoding="utf-8"))
    long_pairs = [(first * 40, second * count) for first, second, count in values["long_pairs"]]
    return [*values["texts"], *map(tuple, values["pairs"]), *long_pairs]


def compare(model: ModelFolder) -> Comparison:
    """Returns the differences between this project and the library that made a model."""
    texts = read_texts()
    if model.settings["task"] == "vectors":
        return _compare_vectors(model, texts)
    torch, transformers = map(importlib.import_module, ("torch", "transformers"))
    end, outputs = _CLASSES[model.settings["task"]]
    tokenizer = transformers.AutoTokenizer.from_pretrained(model.folder)
    peer = getattr(transformers, f"AutoModel{end}").from_pretrained(model.folder).eval()
    predictor = open_model(model, precision="float32")
    length = model.preparation.longest
    found = Comparison(f"transformers {transformers.__version__}", len(texts))
    for text in texts:
        pair = (text,) if isinstance(text, str) else text
        theirs = tokenizer(*pair, truncation=True, max_length=length, return_tensors="pt")
        ids, types, _ = encode_pair(model.tokenizer, pair[0], pair[1] if len(pair) > 1 else None, length)
        _note_tokens(found, text, model, ids, theirs["input_ids"][0].tolist())
        if end == "ForMultipleChoice":  # one choice
            theirs = {name: values[None] for name, values in theirs.items()}
        with torch.no_grad():
            expected = peer(**theirs)
        ours = predictor.model(_features(ids, types, end))
        for name, here in outputs.items():
            _note_outputs(found, text, np.asarray(ours[here]), expected[name].numpy())
    return found


def _features(ids: Sequence[int], types: Sequence[int], end: str) -> dict[str, np.ndarray]:
    values = {"input_ids": ids, "input_mask": [1] * len(ids), "segment_ids": types}
    features = {name: np.array([value], np.int32) for name, value in values.items()}
    if end in ("ForMaskedLM", "ForNextSentencePrediction"):
        features["masked_lm_positions"] = np.arange(len(ids), dtype=np.int32)[None]
    return features


def _note_tokens(
    found: Comparison, text: Texts, model: ModelFolder, ours: Sequence[int], theirs: Sequence[int]
) -> None:
    if list(ours) == list(theirs):
        return
    if not found.texts_with_other_tokens:
        names = model.tokenizer.inv_vocab
        both = ([names.get(id_, str(id_)) for id_ in ids[:30]] for ids in (ours, theirs))
        found.worst_tokens = (text, *both)
    found.texts_with_other_tokens.append(text)


def _note_outputs(found: Comparison, text: Texts, ours: np.ndarray, theirs: np.ndarray) -> None:
    # Different tokens give outputs of different shapes.
    difference = float("inf")
    if ours.size == theirs.size:
        difference = float(np.abs(ours.ravel() - theirs.ravel()).max()) / max(1.0, float(np.abs(theirs).max()))
    if difference >= found.difference:
        found.difference, found.worst_text = difference, text


def _compare_vectors(model: ModelFolder, texts: Sequence[Texts]) -> Comparison:
    sentence_transformers = importlib.import_module("sentence_transformers")
    found = Comparison(f"sentence-transformers {sentence_transformers.__version__}")
    parts = [part for text in texts for part in ([text] if isinstance(text, str) else text)]
    peer = sentence_transformers.SentenceTransformer(os.fspath(model), device="cpu")
    found.num_texts = len(parts)
    answers = open_model(model, precision="float32")(parts)
    for text, answer, expected in zip(parts, answers, peer.encode(parts), strict=True):
        theirs = peer.tokenizer(text, truncation=True, max_length=peer.max_seq_length)["input_ids"]
        _note_tokens(found, text, model, encode_pair(model.tokenizer, text, None, model.max_seq_length)[0], theirs)
        _note_outputs(found, text, np.array(answer.vector), np.asarray(expected))
    return found
