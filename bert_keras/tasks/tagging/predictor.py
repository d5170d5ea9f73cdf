"""Named-entity recognition: people, places, or any other types that the training data marks."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special

from bert_keras.data_prep.text.places import Ids, Token, locate, split_by
from bert_keras.mistakes import Mistake
from bert_keras.modeling import BertConfig, TokenClassifierModel
from bert_keras.modeling.base import BaseModel
from bert_keras.prediction.arguments import check_threshold
from bert_keras.prediction.network import Outputs, ReadOut, Tensors
from bert_keras.prediction.predictor import Counts, Found
from bert_keras.tasks.finetuning.predictor import Arrays, ExplainedPredictor
from bert_keras.tasks.finetuning.why import SeenWord, WordWeight, strongest, weighed
from bert_keras.tasks.tagging.conll import Sentence
from bert_keras.tasks.tagging.entities import entities, is_tag, to_bio
from bert_keras.tasks.tagging.features import make_features, tags_from_logits

# The words of a text, and the start and the end of each.
_Words = tuple[Sentence, list[tuple[int, int]]]


@dataclasses.dataclass(frozen=True)
class Entity:
    """A part of a text that has a type.

    Attributes:
        text: as in the whole text.
        type: as in the training data, such as "PER". If the label of the words is not a tag, this label.
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
    """The given text with its entities and all its words, in order.

    With the option `why`, `entity_words` has a list for each entity: the weight of each word for its probability.
    """

    text: str
    entities: list[Entity]
    words: list[TaggedWord]
    entity_words: list[list[WordWeight]] | None = None

    def readable(self) -> str:
        lines = []
        for entity, words in itertools.zip_longest(self.entities, self.entity_words or ()):
            lines.append(f"  {entity.probability:.4f}  {entity.type}  {entity.text}  ({entity.start} to {entity.end})")
            lines += [f"  {line}" for line in strongest(words, "+.3f")]
        return "\n".join([self.text, *(lines or ["  no entity"])])


class EntityTagger(ExplainedPredictor[str, TaggedText]):
    """Finds entities with a model of run_ner.py: `EntityTagger("output")("He lives in Paris.").entities`.

    A call takes a str and returns a TaggedText; given several texts, it returns a list. Texts may have any length.
    `data_prep.text.places.split_by` splits them into words, by the rule `words` of the model's settings ("conll" if it
    has none), and each word gets the tag of its first token. If a text needs several windows, the tag comes from the
    window with the most context around the word. Tags of IOBES and BILOU mark entities as those of BIO do. A label that
    is not such a tag is a type: an entity is adjacent words of this label.

    The arguments are those of `FineTunedPredictor`; its labels are the types of entities. Options of a call:

    - `threshold`: entities with a lower probability are left out; by default 0.
    - `why`: True gives the answer `entity_words`. The weight of a word is the probability of the entity less the
      probability of its tags with [MASK] for each token of the word. A text needs one more sequence for each word.
    """

    head = "token_classifier"
    cut_parts = "words"
    reads_windows = True

    @classmethod
    def card_code(cls, settings: Mapping[str, Any]) -> str:
        return """best, words = outputs["logits"][0].argmax(-1), rows[0].word_ids
for place, word in enumerate(words):
    if word is not None and word not in words[:place]:
        start, end = rows[0].word_to_chars(word)
        print(text[start:end], labels[best[place]])"""

    @property
    def labels(self) -> list[str]:
        """The types of entities, such as "PER", in the order of the ids of their tags."""
        return list(dict.fromkeys(self._type(tag) for tag in self.settings["labels"] if tag != "O"))

    def _has_mark(self, tag: str) -> bool:
        """Returns whether a label is a tag of a scheme. A single letter is one only among tags; it may be a label."""
        return is_tag(tag) and ("-" in tag or all(map(is_tag, self.settings["labels"])))

    def _type(self, tag: str) -> str:
        return tag[2:] if self._has_mark(tag) else tag

    def _labels_with_names(self, names: list[str]) -> list[str]:
        name_of_type = dict(zip(self.labels, names, strict=True))

        def renamed(tag: str) -> str:
            name = name_of_type[self._type(tag)]
            return f"{tag[0]}-{name}" if self._has_mark(tag) else name

        return [tag if tag == "O" else renamed(tag) for tag in self.settings["labels"]]

    def _spans(self, tags: list[str]) -> list[tuple[str, int, int]]:
        """Returns the entities of the tags of a text: (type, start, end), see `tasks.tagging.entities.entities`."""
        return entities(to_bio([tag if tag == "O" or self._has_mark(tag) else f"I-{tag}" for tag in tags]))

    def _default_options(self) -> dict[str, Any]:
        return {"threshold": 0.0, "why": False}

    def _check_options(self, options: dict[str, Any]) -> None:
        check_threshold(options["threshold"])
        super()._check_options(options)

    def _make_model(self, config: BertConfig) -> BaseModel:
        return TokenClassifierModel(config, self.num_classes)

    def _encode(self, text: str, source: str) -> _Words:
        self._check_text(text, source)
        spans = self._split(text)
        if not spans:
            raise Mistake("{} has no word in its text; give a text", source)
        return Sentence([text[start:end] for start, end in spans]), spans

    def _split(self, text: str) -> list[tuple[int, int]]:
        return split_by(self.settings["words"], self.tokenizer, text)

    def _features(self, example: _Words, counts: Counts, options: dict[str, Any]) -> Arrays:
        sentence, _ = example
        # Each text is its own document, so it has no neighbours for context.
        labels = self.settings["labels"]
        return make_features([sentence], labels, self.tokenizer, self.max_seq_length, counts=counts)

    def _locate(self, text: str, name: str) -> list[Token]:
        tokens, unknown = [], self.tokenizer.vocab["[UNK]"]
        for start, end in self._split(text):
            word_tokens = locate(self.tokenizer, text[start:end], name, start) or [Token(unknown, start, end, name)]
            tokens += [token._replace(word=(start, end)) for token in word_tokens[: self.max_seq_length - 2]]
        return tokens

    def _starts(self, encoded: Any, segment_ids: Sequence[Ids]) -> list[tuple[int, int]]:
        (sentence, _), rows = encoded[:2]
        sizes = (min(len(self.tokenizer.encode(word)) or 1, self.max_seq_length - 2) for word in sentence.words)
        num_before, columns = [0, *itertools.accumulate(sizes)], (rows["word_index"] >= 0).argmax(axis=1)
        words = rows["word_index"][np.arange(len(columns)), columns]
        return [(num_before[word] - column + 1, 0) for word, column in zip(words, columns.tolist(), strict=True)]

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        return (outputs["logits"],)  # [B, T, C]

    def _answer(
        self,
        text: str,
        encoded: tuple[_Words, Arrays, list[SeenWord]],
        found: Found,
        threshold: float,
        why: bool = False,
    ) -> TaggedText:
        (sentence, spans), rows, hidden = encoded
        num_rows = len(rows["input_ids"])
        length = max(len(row_logits) for _, (row_logits,) in found)
        logits = np.zeros((len(found), length, self.num_classes), np.float32)
        for row, (_, (row_logits,)) in zip(logits, found, strict=True):
            row[: len(row_logits)] = row_logits
        rows = {"word_index": rows["word_index"][:, :length], "sentence_index": np.zeros(num_rows, np.int32)}
        [tags], [probabilities] = tags_from_logits(rows, logits[:num_rows], [sentence], self.settings["labels"])
        words = [
            TaggedWord(word, tag, probability, *span)
            for word, tag, probability, span in zip(sentence.words, tags, probabilities, spans, strict=True)
        ]
        found_entities = [
            (_entity(text, type_, words[first:stop]), slice(first, stop))
            for type_, first, stop in self._spans([word.tag for word in words])
        ]
        kept = [(entity, place) for entity, place in found_entities if entity.probability >= threshold]
        weights = _weights(rows["word_index"], logits, hidden, [place for _, place in kept]) if why else None
        return TaggedText(text, [entity for entity, _ in kept], words, weights)


def _weights(
    word_index: np.ndarray, logits: np.ndarray, hidden: Sequence[SeenWord], entities: Sequence[slice]
) -> list[list[WordWeight]]:
    """Returns the words with their weights for each of the entities, which are slices of the words.

    `logits` are those of the N windows, and then those of each word in each window that has it, [N + hidden, T, C].
    """
    rows, columns = np.nonzero(word_index >= 0)
    order = np.argsort(word_index[rows, columns])  # each word counts in one window
    rows, columns = rows[order], columns[order]
    window_logits = logits[: len(word_index)]
    tags = window_logits[rows, columns].argmax(axis=-1)

    def scores(logits: np.ndarray) -> np.ndarray:
        probabilities = scipy.special.softmax(logits[rows, columns].astype(np.float64), axis=-1)
        tag_probabilities = probabilities[np.arange(len(tags)), tags]
        return np.array([tag_probabilities[place].min() for place in entities])

    whole, without = scores(window_logits), iter(logits[len(word_index) :])
    changes = np.zeros((len(hidden), len(entities)))
    for number, word in enumerate(hidden):
        changed = window_logits.copy()
        for row in word.places:
            changed[row] = next(without)
        changes[number] = whole - scores(changed)
    return [weighed(hidden, entity_changes) for entity_changes in changes.T.tolist()]


def _entity(text: str, type_: str, words: Sequence[TaggedWord]) -> Entity:
    start, end = words[0].start, words[-1].end
    return Entity(text[start:end], type_, start, end, min(word.probability for word in words))
