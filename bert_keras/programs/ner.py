"""`train_ner`, and the run of run_ner.py."""

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
from bert_keras.tasks.tagging.files import check_columns
from bert_keras.tasks.tagging.settings import NerSettings
from bert_keras.tasks.tagging.task import TokenClassification

if TYPE_CHECKING:  # most calls do not predict
    from bert_keras.tasks.tagging.predictor import EntityTagger


def open_run(settings: NerSettings, console: rich.console.Console, callbacks: Callbacks = NO_CALLBACKS) -> FineTuning:
    """Reads the data and opens the model of run_ner.py."""
    tell_unused(settings, ACTIONS)
    settled = ("document_context", "max_seq_length", "words")
    opened = open_fine_tuning(settings, "run_ner", tasks=("token_classification",), settled=settled)
    if opened.teacher:
        opened.teacher.check_same("document_context", opened.settings)
    check_columns(opened.settings)
    strategy = strategy_of(opened.settings)
    task = TokenClassification(opened.settings, opened.files, opened.stored)
    return FineTuning(task, opened, strategy, console, callbacks)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Arguments(Arguments, NerSettings, PredictedData):
    """The arguments of `train_ner`."""


@takes(_Arguments)
def train_ner(
    train_data: Any = None, eval_data: Any = None, predict_data: Any = None, **settings: Any
) -> "TrainedModel[EntityTagger]":
    """Fine-tunes a model that tags words, as run_ner.py does. It works as `train_classifier`.

    Args:
        train_data: the path of a file, or sentences in memory. A sentence is a dict with
            "words", "tags" and optionally "document", or a tuple (words, tags); to predict, a list of words. Dicts may
            have the forms of the objects in JSON files, such as "tokens" and "ner_tags", or a text and its spans; so
            may the rows of a table, in which each row may also be one word of a sentence. Sentences may be in a list,
            a generator, a table, or a finite `tf.data.Dataset`. Columns may be a dict or a tuple of lists, such as
            (all_words, all_tags).
        eval_data: data to evaluate on, in one of these forms.
        predict_data: data to predict, in one of these forms.
        settings: the other flags of run_ner.py, by name.
    """
    return call("run_ner", settings, train_file=train_data, eval_file=eval_data, predict_file=predict_data)


def to_file(data: Any, name: str) -> tuple[bytes, str]:
    """Returns sentences as the content of a JSON lines file."""
    return json_lines(rows_of(data, name, {1: ("words",), 2: ("words", "tags")}, rank=1))
