"""`train_squad`, and the run of run_squad.py."""

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

import rich.console

from bert_keras.cli.flags import tell_unused
from bert_keras.engine.distribution.devices import strategy_of
from bert_keras.engine.report import NO_CALLBACKS, Callbacks
from bert_keras.mistakes import Message, Mistake, Setting
from bert_keras.programs.calls import Arguments, PredictedData, TrainedModel, call, takes
from bert_keras.programs.data import json_lines, rows_of
from bert_keras.tasks.finetuning.opening import open_fine_tuning
from bert_keras.tasks.finetuning.run import FineTuning
from bert_keras.tasks.finetuning.sweep import TRIED
from bert_keras.tasks.question_answering.settings import SquadSettings, check_files, without_evaluation
from bert_keras.tasks.question_answering.squad import check_room
from bert_keras.tasks.question_answering.task import WINDOW_FLAGS, QuestionAnswering

if TYPE_CHECKING:  # most calls do not predict
    from bert_keras.tasks.question_answering.predictor import QuestionAnswerer

log = logging.getLogger("bert_keras")

_ANSWERS = ("n_best_size", "max_answer_length", "version_2_with_negative", "null_score_diff_threshold", "answer_text")


def open_run(settings: SquadSettings, console: rich.console.Console, callbacks: Callbacks = NO_CALLBACKS) -> FineTuning:
    """Reads the data and opens the model of run_squad.py."""
    if settings.eval_file and not settings.given & {"do_train", "do_predict", "run_config"}:
        # To evaluate is to predict questions that have answers.
        settings = settings.with_arguments("run_squad", {"do_predict": True, "predict_file": settings.eval_file})
    tell_unused(settings, {"train_file": "do_train", "predict_file": "do_predict"})
    opened = open_fine_tuning(settings, "run_squad", ("question_answering",), (*WINDOW_FLAGS, *_ANSWERS))
    settings = opened.settings
    check_files(settings)
    check_room(settings.max_seq_length, settings.max_query_length)
    if opened.teacher:
        opened.teacher.check_same("version_2_with_negative", settings)
    is_evaluated = False
    if not settings.do_train and "eval_file" not in settings.given:
        # Training has evaluated on this file already; keep its reports.
        is_evaluated = settings.evaluation_data() is not None
        settings = without_evaluation(settings)
    is_threshold_given = "null_score_diff_threshold" in settings.given
    if settings.do_train:
        # In a run_config.json, only a value other than the default shows that it was given.
        is_threshold_given |= settings.null_score_diff_threshold != 0.0
    elif settings.null_score_diff_threshold and not is_threshold_given:
        log.info(
            Message("{null_score_diff_threshold}={:.6g}, as stored with the model", settings.null_score_diff_threshold)
        )
    strategy = strategy_of(settings)
    opened = dataclasses.replace(opened, settings=settings)
    task = QuestionAnswering(settings, opened.files, is_threshold_given, is_evaluated)
    if not task.metric_names:
        _check_needs_no_evaluation(settings)
    return FineTuning(task, opened, strategy, console, callbacks)


def _check_needs_no_evaluation(settings: SquadSettings) -> None:
    several = [name for name in TRIED if len(getattr(settings, name)) > 1]
    several += ["num_seeds"] if settings.num_seeds > 1 else []
    several += ["eval_steps"] if settings.eval_steps else []
    if settings.do_train and several:
        raise Mistake(
            "{} needs evaluations; give {eval_file}, {eval_share}, or a {predict_file} with answers",
            Setting(several[0]),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Arguments(Arguments, SquadSettings, PredictedData):
    """The arguments of `train_squad`."""


@takes(_Arguments)
def train_squad(
    train_data: Any = None, eval_data: Any = None, predict_data: Any = None, **settings: Any
) -> "TrainedModel[QuestionAnswerer]":
    """Fine-tunes a model that finds answers in texts, as run_squad.py does. It works as `train_classifier`.

    Args:
        train_data: the path of a file, or questions in memory. A question is a dict with
            "context", "question" and optionally "id". Its answer is "answer", a text, with "answer_start", its
            position; without a position, the first place of the answer in the context. Or the answer is "answers": a
            list of dicts with "text" and "answer_start", or a dict of two lists with these names. If it is empty, the
            context does not answer the question (`version_2_with_negative`). Questions may be in a list, a generator, a
            table, a dict of columns, or a finite `tf.data.Dataset`. A dict with "data" has the form of SQuAD's files.
        eval_data: data to evaluate on, in one of these forms.
        predict_data: data to predict, in one of these forms.
        settings: the other flags of run_squad.py, by name.
    """
    return call("run_squad", settings, train_file=train_data, eval_file=eval_data, predict_file=predict_data)


def to_file(data: Any, name: str) -> tuple[bytes, str]:
    """Returns questions as the content of a JSON lines file."""
    return json_lines(rows_of(data, name, {}))
