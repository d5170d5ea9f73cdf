"""The type of `open_model`: the class of each task."""

import os
from typing import Any, Literal, Unpack, overload

from bert_keras.prediction.arguments import OpenOptions
from bert_keras.prediction.predictor import Predictor
from bert_keras.tasks.choice.predictor import ChoicePicker
from bert_keras.tasks.classification.predictor import Classification, MultiLabel, Regression, TextClassifier
from bert_keras.tasks.pretraining.fill_mask import FillMask
from bert_keras.tasks.pretraining.next_sentence import NextSentence
from bert_keras.tasks.pretraining.replaced_tokens import ReplacedTokenFinder
from bert_keras.tasks.pretraining.sentence_score import SentenceScorer
from bert_keras.tasks.question_answering.predictor import QuestionAnswerer
from bert_keras.tasks.reranking.predictor import Reranker
from bert_keras.tasks.tagging.predictor import EntityTagger
from bert_keras.tasks.vectors.predictor import Vectorizer

_Path = str | os.PathLike

@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["classification"], **options: Unpack[OpenOptions]
) -> TextClassifier[Classification]: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["regression"], **options: Unpack[OpenOptions]
) -> TextClassifier[Regression]: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["multi_label"], **options: Unpack[OpenOptions]
) -> TextClassifier[MultiLabel]: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["multiple_choice"], **options: Unpack[OpenOptions]
) -> ChoicePicker: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["rerank"], **options: Unpack[OpenOptions]
) -> Reranker: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["question_answering"], **options: Unpack[OpenOptions]
) -> QuestionAnswerer: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["token_classification"], **options: Unpack[OpenOptions]
) -> EntityTagger: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["vectors"], **options: Unpack[OpenOptions]
) -> Vectorizer: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["fill_mask"], **options: Unpack[OpenOptions]
) -> FillMask: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["next_sentence"], **options: Unpack[OpenOptions]
) -> NextSentence: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["score"], **options: Unpack[OpenOptions]
) -> SentenceScorer: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: Literal["replaced_tokens"], **options: Unpack[OpenOptions]
) -> ReplacedTokenFinder: ...
@overload
def open_model(
    path: _Path, batch_size: int = ..., *, task: str | None = ..., **options: Unpack[OpenOptions]
) -> Predictor[Any, Any]: ...
