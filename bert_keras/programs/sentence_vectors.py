"""`train_sentence_vectors`, and the run of run_sentence_vectors.py."""

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

import rich.console

from bert_keras.cli.flags import tell_unused
from bert_keras.engine.distribution.devices import strategy_of
from bert_keras.engine.report import NO_CALLBACKS, Callbacks
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.programs.calls import Arguments, PredictedData, TrainedModel, call, takes
from bert_keras.programs.data import json_lines, rows_of
from bert_keras.tasks.dry_run.opening import ACTIONS, files_used
from bert_keras.tasks.finetuning.opening import open_fine_tuning
from bert_keras.tasks.finetuning.run import FineTuning
from bert_keras.tasks.vectors.settings import VectorSettings
from bert_keras.tasks.vectors.task import SETTLED, SentenceVectors

if TYPE_CHECKING:  # most calls do not predict
    from bert_keras.tasks.vectors.predictor import Vectorizer

log = logging.getLogger("bert_keras")


def open_run(
    settings: VectorSettings, console: rich.console.Console, callbacks: Callbacks = NO_CALLBACKS
) -> FineTuning:
    """Reads the data and opens the model of run_sentence_vectors.py."""
    tell_unused(settings, ACTIONS)
    opened = open_fine_tuning(
        settings,
        "run_sentence_vectors",
        tasks=("vectors",),
        settled=SETTLED,
        fixed=("pooling", "normalize", "prefix"),
    )
    files_used(opened.settings)  # refuses an action without its file
    if opened.settings.do_train:
        settings = _with_settings_of_start(opened.settings, opened.files)
        opened = dataclasses.replace(opened, settings=settings)
    strategy = strategy_of(opened.settings)
    return FineTuning(SentenceVectors(opened.settings, opened.files), opened, strategy, console, callbacks)


def _with_settings_of_start(settings: VectorSettings, model: ModelFolder) -> VectorSettings:
    """Takes the settings of the model to start from, if that model is for vectors, unless their flags are given."""
    stored = model.task or {}
    if stored.get("task") != "vectors":
        return settings
    kept = {name: stored[name] for name in SETTLED[:-1] if name in stored and name not in settings.given}
    log.info("as in %s: %s", settings.init_checkpoint, ", ".join(f"{name}={value}" for name, value in kept.items()))
    return dataclasses.replace(settings, **kept)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Arguments(Arguments, VectorSettings, PredictedData):
    """The arguments of `train_sentence_vectors`."""


@takes(_Arguments)
def train_sentence_vectors(
    train_data: Any = None, eval_data: Any = None, predict_data: Any = None, **settings: Any
) -> "TrainedModel[Vectorizer]":
    """Trains vectors of texts, as run_sentence_vectors.py does. It works as `train_classifier`.

    Args:
        train_data: the path of a file, or rows in memory. A row is a text; a tuple of two texts that belong together,
            of three, whose third does not belong to the first, or of two and a score; or a dict of columns with the
            names that the program finds, such as {"sentence1": ..., "sentence2": ..., "score": 4.5}.
        eval_data: data to evaluate on, in one of these forms.
        predict_data: texts to write the vectors of, or pairs, in one of these forms.
        settings: the other flags of run_sentence_vectors.py, by name.
    """
    return call("run_sentence_vectors", settings, train_file=train_data, eval_file=eval_data, predict_file=predict_data)


def to_file(data: Any, name: str) -> tuple[bytes, str]:
    """Returns rows as the content of a JSON lines file."""
    pair = ("anchor", "positive")
    columns = {1: ("text",), 2: pair, 3: (*pair, "negative"), -3: (*pair, "score")}
    return json_lines(rows_of(data, name, columns))
