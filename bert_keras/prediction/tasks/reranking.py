"""Reranking: how well each of several texts fits a query."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Unpack, overload

import numpy as np
import scipy.special

from bert_keras.data_prep.tasks.examples import Example
from bert_keras.mistakes import Mistake
from bert_keras.modeling import ClassifierModel
from bert_keras.prediction.arguments import PipeOptions, shown
from bert_keras.prediction.tasks.fine_tuned import FineTunedPredictor


@dataclasses.dataclass(frozen=True)
class RankedText:
    """A text, its `index` among the given texts, from 0, and its `score`."""

    index: int
    text: str
    score: float


@dataclasses.dataclass(frozen=True)
class Ranking:
    """The texts for a query, those with the highest score first. Texts with equal scores keep their order."""

    query: str
    texts: list[RankedText]

    def readable(self) -> str:
        return "\n".join([self.query, *(f"  {each.score:.4f}  {each.text}" for each in self.texts)])


class Reranker(FineTunedPredictor[tuple[str, list[str]], Ranking]):
    """Scores how well each of several texts fits a query, with a model that reads both together.

    `Reranker("output")("who was hungry", ["Paris is big.", "He was hungry."]).texts[0].text`

    A call takes a query and a list of one or more texts, and returns a Ranking. Given an iterable of (query, texts)
    tuples, it returns a list. A score is the model's logit, or its sigmoid if the model has that activation.

    The arguments are those of `FineTunedPredictor`. Option of a call:

    - `raw_scores`: whether the scores are logits, whatever the activation; by default False.
    """

    head = "classifier"
    takes_pairs = True
    cut_parts = "queries, each with its text,"

    @overload
    def __call__(
        self, texts: str, candidates: Sequence[str], /, *, batch_size: int | None = None, **options: Unpack[PipeOptions]
    ) -> Ranking: ...

    @overload
    def __call__(
        self, texts: tuple[str, list[str]], *, batch_size: int | None = None, **options: Unpack[PipeOptions]
    ) -> Ranking: ...

    @overload
    def __call__(
        self,
        texts: Iterable[tuple[str, list[str]]],
        *,
        batch_size: int | None = None,
        **options: Unpack[PipeOptions],
    ) -> list[Ranking]: ...

    @overload  # an Unanswered may be among the answers
    def __call__(
        self, texts: Any, *, on_error: str, batch_size: int | None = None, **options: Unpack[PipeOptions]
    ) -> Any: ...

    def __call__(self, texts: Any, candidates: Any = None, *, batch_size: int | None = None, **options: Any) -> Any:
        """Sorts texts by their score for a query.

        Args:
            texts: the query; or without `candidates`, a tuple (query, texts), or an iterable of such tuples.
            candidates: the texts to sort.
            batch_size: maximum number of sequences in a batch; None: that of the object.
            options: other arguments of `pipe`.

        Returns:
            Ranking, or a list of Ranking.

        Raises:
            ValueError: a text cannot be scored, there are too many texts, or an option is not valid.
        """
        given = texts if candidates is None else (texts, candidates)
        return super().__call__(given, batch_size=batch_size, **options)

    @classmethod
    def is_for(cls, task: str) -> bool:
        return task == "rerank"

    @property
    def num_classes(self) -> int:
        return 1

    def _default_options(self):
        return {"raw_scores": False}

    def _check_options(self, options):
        if not isinstance(options["raw_scores"], bool):
            raise Mistake("{raw_scores} is {!r}, but must be true or false", options["raw_scores"])

    def _make_model(self, config):
        return ClassifierModel(config, 1)

    def _encode(self, question, source):
        is_pair = isinstance(question, tuple | list) and len(question) == 2
        if not is_pair or not isinstance(question[1], tuple | list) or not question[1]:
            raise ValueError(f"{source} is {shown(question)}, but a query and a list of one or more texts are needed")
        query, texts = question
        self._check_text(query, source, "query")
        self.limits.check("max_sequences", len(texts), source, "texts")
        for number, text in enumerate(texts, 1):
            self._check_text(text, source, f"text {number}")
        return query, list(texts)

    def _features(self, example, counts, options):
        query, texts = example
        return self._features_of([Example("", query, text) for text in texts], counts)

    def _read_out(self, outputs, features):
        return (outputs["logits"][:, 0],)  # [B]

    def _answer(self, text, encoded, found, raw_scores=False):
        (query, texts), _ = encoded
        scores = np.array([logit for _, (logit,) in found], np.float64)
        order = np.argsort(-scores, kind="stable").tolist()
        if self.settings["activation"] == "sigmoid" and not raw_scores:
            scores = scipy.special.expit(scores)
        return Ranking(query, [RankedText(index, texts[index], float(scores[index])) for index in order])
