"""Reranking: how well each of several texts fits a query."""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack, overload

import numpy as np
import scipy.special

from bert_keras.mistakes import Mistake
from bert_keras.modeling.checkpoints.hugging_face_config import HUGGING_FACE_FILE, PROBLEM_TYPES
from bert_keras.modeling.checkpoints.hugging_face_task import with_activation
from bert_keras.modeling.config import BertConfig
from bert_keras.prediction.arguments import PipeOptions
from bert_keras.prediction.export_facts import RankedField
from bert_keras.prediction.predictor import Found
from bert_keras.storage.json_files import read_object, readable_json
from bert_keras.storage.tokenizer.vocabulary import TOKENIZER_CONFIG
from bert_keras.tasks.finetuning.predictor import Arrays, Texts, TextsScorer


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
        return "\n".join([self.query, *(f"  {ranked.score:.4f}  {ranked.text}" for ranked in self.texts)])


class Reranker(TextsScorer[Ranking]):
    """Scores how well each of several texts fits a query, with a model that reads both together.

    `Reranker("output")("who was hungry", ["Paris is big.", "He was hungry."]).texts[0].text`

    A call takes a query and a list of one or more texts, and returns a Ranking. Given an iterable of (query, texts)
    tuples, it returns a list. A score is the model's logit, or its sigmoid if the model has that activation.

    The arguments are those of `FineTunedPredictor`. Option of a call:

    - `raw_scores`: whether the scores are logits, whatever the activation; by default False.
    """

    head = "classifier"
    ranked = RankedField("texts", "score", is_whole=True)
    names = ("query", "text", "texts")
    needed = "a query and a list of one or more texts"
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
    def card_code(cls, settings: Mapping[str, Any]) -> str:
        scores = 'outputs["logits"][:, 0]'
        scores = f"1 / (1 + np.exp(-{scores}))" if settings["activation"] == "sigmoid" else scores
        return f"for score, each in sorted(zip(({scores}).tolist(), texts), reverse=True):\n    print(score, each)"

    @classmethod
    def problem_type(cls, settings: Mapping[str, Any]) -> str:
        # Other libraries have no such task, but tasks whose scores have the same activation.
        _, sigmoid, identity = PROBLEM_TYPES
        return {"identity": identity, "sigmoid": sigmoid}[settings["activation"]]

    @classmethod
    def foreign_files(cls, folder: pathlib.Path, settings: Mapping[str, Any], config: BertConfig) -> dict[str, str]:
        entries = {HUGGING_FACE_FILE: with_activation(settings["activation"])}
        if (folder / TOKENIZER_CONFIG).is_file():
            entries[TOKENIZER_CONFIG] = {"model_max_length": settings["max_seq_length"]}
        return {name: readable_json(read_object(folder / name) | entry) for name, entry in entries.items()}

    @classmethod
    def is_for(cls, task: str) -> bool:
        return task == "rerank"

    def _default_options(self) -> dict[str, Any]:
        return {"raw_scores": False}

    def _check_options(self, options: dict[str, Any]) -> None:
        if not isinstance(options["raw_scores"], bool):
            raise Mistake("{raw_scores} is {!r}, but must be true or false", options["raw_scores"])

    def _answer(self, text: Texts, encoded: tuple[Texts, Arrays], found: Found, raw_scores: bool = False) -> Ranking:
        (query, texts), _ = encoded
        scores = np.array([logit for _, (logit,) in found], np.float64)
        order = np.argsort(-scores, stable=True).tolist()
        if self.settings["activation"] == "sigmoid" and not raw_scores:
            scores = scipy.special.expit(scores)
        return Ranking(query, [RankedText(index, texts[index], float(scores[index])) for index in order])
