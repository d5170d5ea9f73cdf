"""Named-entity recognition: people, places, or any other types that the training data marks."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.tasks.conll import Sentence
from bert_keras.data_prep.tasks.ner import make_features, tags_from_logits
from bert_keras.data_prep.text.words import split_words
from bert_keras.evaluation.entities import entities, is_tag, to_bio
from bert_keras.modeling import TAGGERS, BertConfig
from bert_keras.modeling.base import BaseModel
from bert_keras.prediction.arguments import check_threshold
from bert_keras.prediction.network import Outputs, ReadOut, Tensors
from bert_keras.prediction.predictor import Counts, Found
from bert_keras.prediction.tasks.fine_tuned import Arrays, FineTunedPredictor

# The words of a text, and the start and the end of each.
_Words = tuple[Sentence, list[tuple[int, int]]]


@dataclasses.dataclass(frozen=True)
class Entity:
    """A part of a text that has a type.

    Attributes:
        text: as in the whole text.
        type: as in the training data, such as "PER". If the labels of the model are no tags, the label of the words.
        start, end: character offsets in the whole text: text[start:end].
        probability: the minimum of the probabilities of its words' tags.
    """

    text: str
    type: str
    start: int
    end: int
    probability: float


@dataclasses.dataclass(frozen=True)
class TaggedWord:
    """A word with its tag, such as B-PER, the probability of the tag, and the character offsets of the word."""

    word: str
    tag: str
    probability: float
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class TaggedText:
    """The given text with its entities and all its words, in order."""

    text: str
    entities: list[Entity]
    words: list[TaggedWord]

    def readable(self) -> str:
        lines = [
            f"  {entity.probability:.4f}  {entity.type}  {entity.text}  ({entity.start} to {entity.end})"
            for entity in self.entities
        ]
        return "\n".join([self.text, *(lines or ["  no entity"])])


class EntityTagger(FineTunedPredictor[str, TaggedText]):
    """Finds entities with a model of run_ner.py: `EntityTagger("output")("He lives in Paris.").entities`.

    A call takes a str and returns a TaggedText; given several texts, it returns a list. Texts may have any length.
    `data_prep.text.words.split_words` splits them into words, and each word gets a tag. If a text needs several
    windows, the tag comes from the window with the most context around the word. Tags of IOBES and BILOU mark entities
    as those of BIO do. If the labels of a model are not such tags, an entity is adjacent words of one label but O.

    The arguments are those of `FineTunedPredictor`; its labels are the types of entities. Option of a call:

    - `threshold`: entities with a lower probability are left out; by default 0.
    """

    head = "token_classifier"
    cut_parts = "words"

    @property
    def labels(self) -> list[str]:
        """The types of entities, such as "PER", in the order of the ids of their tags."""
        return list(dict.fromkeys(self._type(tag) for tag in self.settings["labels"] if tag != "O"))

    @property
    def _has_marks(self) -> bool:
        return all(map(is_tag, self.settings["labels"]))

    def _type(self, tag: str) -> str:
        return tag[2:] if self._has_marks else tag

    def _labels_with_names(self, names: list[str]) -> list[str]:
        name_of_type = dict(zip(self.labels, names, strict=True))
        mark = (lambda tag: f"{tag[0]}-") if self._has_marks else (lambda tag: "")
        return [tag if tag == "O" else mark(tag) + name_of_type[self._type(tag)] for tag in self.settings["labels"]]

    def _spans(self, tags: list[str]) -> list[tuple[str, int, int]]:
        """Returns the entities of the tags of a text: (type, start, end), see `evaluation.entities.entities`."""
        if self._has_marks:
            return entities(to_bio(tags))
        places = itertools.groupby(range(len(tags)), tags.__getitem__)
        runs = [(tag, list(run)) for tag, run in places]
        return [(tag, run[0], run[-1] + 1) for tag, run in runs if tag != "O"]

    def _default_options(self) -> dict[str, Any]:
        return {"threshold": 0.0}

    def _check_options(self, options: dict[str, Any]) -> None:
        check_threshold(options["threshold"])

    def _make_model(self, config: BertConfig) -> BaseModel:
        return TAGGERS[self.settings["tagger"]](config, self.num_classes)

    def _encode(self, text: str, source: str) -> _Words:
        self._check_text(text, source)
        spans = split_words(text)
        if not spans:
            raise ValueError(f"{source} has no word in its text; give a text")
        return Sentence([text[start:end] for start, end in spans]), spans

    def _features(self, example: _Words, counts: Counts, options: dict[str, Any]) -> Arrays:
        sentence, _ = example
        # Each text is its own document, so it has no neighbours for context.
        labels = self.settings["labels"]
        return make_features([sentence], labels, self.tokenizer, self.max_seq_length, counts=counts)

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        return (outputs["logits"],)  # [B, T, C]

    def _answer(self, text: str, encoded: tuple[_Words, Arrays], found: Found, threshold: float) -> TaggedText:
        (sentence, spans), rows = encoded
        logits = np.zeros((len(found), self.max_seq_length, self.num_classes), np.float32)
        for row, (_, (of_row,)) in zip(logits, found, strict=True):
            row[: len(of_row)] = of_row
        rows = {**rows, "sentence_index": np.zeros(len(found), np.int32)}
        [tags], [probabilities] = tags_from_logits(rows, logits, [sentence], self.settings["labels"])
        words = [
            TaggedWord(word, tag, probability, *span)
            for word, tag, probability, span in zip(sentence.words, tags, probabilities, spans, strict=True)
        ]
        found_entities = [
            _entity(text, type_, words[first:stop]) for type_, first, stop in self._spans([word.tag for word in words])
        ]
        return TaggedText(text, [each for each in found_entities if each.probability >= threshold], words)


def _entity(text: str, type_: str, words: Sequence[TaggedWord]) -> Entity:
    start, end = words[0].start, words[-1].end
    return Entity(text[start:end], type_, start, end, min(word.probability for word in words))
