"""`train_reranker`, and the run of run_reranker.py."""

import dataclasses
from typing import TYPE_CHECKING, Any

import rich.console

from bert_keras.cli.flags import tell_unused
from bert_keras.engine.distribution.devices import strategy_of
from bert_keras.engine.report import NO_CALLBACKS, Callbacks
from bert_keras.programs.calls import Arguments, PredictedData, TrainedModel, call, takes
from bert_keras.programs.data import json_lines, rows_of
from bert_keras.tasks.dry_run.opening import ACTIONS
from bert_keras.tasks.finetuning.opening import open_fine_tuning
from bert_keras.tasks.finetuning.run import FineTuning
from bert_keras.tasks.reranking.settings import RerankerSettings
from bert_keras.tasks.reranking.task import Reranking

if TYPE_CHECKING:  # most calls do not predict
    from bert_keras.tasks.reranking.predictor import Reranker


def open_run(
    settings: RerankerSettings, console: rich.console.Console, callbacks: Callbacks = NO_CALLBACKS
) -> FineTuning:
    """Reads the data and opens the model of run_reranker.py."""
    tell_unused(settings, ACTIONS)
    opened = open_fine_tuning(settings, "run_reranker", ("rerank",), ("max_seq_length",))
    strategy = strategy_of(opened.settings)
    task = Reranking(opened.settings, opened.files, opened.stored)
    return FineTuning(task, opened, strategy, console, callbacks)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Arguments(Arguments, RerankerSettings, PredictedData):
    """The arguments of `train_reranker`."""


@takes(_Arguments)
def train_reranker(
    train_data: Any = None, eval_data: Any = None, predict_data: Any = None, **settings: Any
) -> "TrainedModel[Reranker]":
    """Trains a model that scores texts for a query, as run_reranker.py does. It works as `train_classifier`.

    Args:
        train_data: the path of a file, or rows in memory. A row is a tuple (query, text, score); or a dict with
            "query", "text" and "score", or with "query", "positive" and "negative", "negative_1" and so on. Rows may be
            in a list, a generator, a table, or a finite `tf.data.Dataset`. Columns may be a dict or a tuple of lists.
        eval_data: data to evaluate on, in one of these forms.
        predict_data: data to write the scores of, in one of these forms, or (query, text).
        settings: the other flags of run_reranker.py, by name.
    """
    return call("run_reranker", settings, train_file=train_data, eval_file=eval_data, predict_file=predict_data)


def to_file(data: Any, name: str) -> tuple[bytes, str]:
    """Returns rows as the content of a JSON lines file."""
    columns = {2: ("query", "text"), 3: ("query", "text", "score")}
    return json_lines(rows_of(data, name, columns))
