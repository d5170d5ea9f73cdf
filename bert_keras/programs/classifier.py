"""`train_classifier`, and the run of run_classifier.py."""

import dataclasses
from typing import TYPE_CHECKING, Any

import rich.console

from bert_keras.engine.distribution.devices import strategy_of
from bert_keras.engine.report import NO_CALLBACKS, Callbacks
from bert_keras.programs.calls import Arguments, PredictedData, TrainedModel, call, takes
from bert_keras.programs.data import json_lines, rows_of
from bert_keras.tasks.classification.kinds import complete_settings
from bert_keras.tasks.classification.settings import ClassifierSettings
from bert_keras.tasks.classification.task import Classification
from bert_keras.tasks.finetuning.opening import open_fine_tuning
from bert_keras.tasks.finetuning.run import FineTuning
from bert_keras.tasks.tables.settings import KINDS

if TYPE_CHECKING:  # most calls do not predict
    from bert_keras.tasks.classification.predictor import Classification as ClassAnswer
    from bert_keras.tasks.classification.predictor import TextClassifier


def open_run(
    settings: ClassifierSettings, console: rich.console.Console, callbacks: Callbacks = NO_CALLBACKS
) -> FineTuning:
    """Reads the data and opens the model of run_classifier.py."""
    settled = ("max_seq_length", "doc_stride")
    tasks = KINDS.values()
    opened = open_fine_tuning(settings, "run_classifier", tasks, settled, complete=complete_settings)
    strategy, task = strategy_of(opened.settings), Classification(opened.settings, opened.files, opened.stored)
    return FineTuning(task, opened, strategy, console, callbacks)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Arguments(Arguments, ClassifierSettings, PredictedData):
    """The arguments of `train_classifier`."""

    unlabeled_data: Any = None


@takes(_Arguments)
def train_classifier(
    train_data: Any = None, eval_data: Any = None, predict_data: Any = None, **settings: Any
) -> "TrainedModel[TextClassifier[ClassAnswer]]":
    """Fine-tunes a model for classes, numbers, several labels or multiple choice, as run_classifier.py does.

    With `train_data` or `unlabeled_data` it trains, with `eval_data` (or `eval_share`) it evaluates, and with
    `predict_data` it predicts. Without data to train on, it uses the model in `output_dir`. The same call continues a
    run that was interrupted.

    Args:
        train_data: the path of a file, or rows in memory. A row is a dict by column, or a
            tuple (text, label) or (text_a, text_b, label); to predict, a text or (text_a, text_b). Rows may be in a
            list, a generator, a table of pandas, polars or pyarrow, or a finite `tf.data.Dataset`. Columns may be a
            dict or a tuple of lists, such as (texts, labels). The call writes rows in memory to `output_dir/data`.
        eval_data: data to evaluate on, in one of these forms.
        predict_data: data to predict, in one of these forms.
        unlabeled_data: texts that only the `teacher` labels, in the forms of `predict_data`; then `train_data` may be
            missing.
        output_dir: the run folder.
        init_checkpoint: the model to start from: a folder, a checkpoint, or hf://owner/name.
        on_step: takes the step and the averages of `log_steps` steps.
        on_evaluation: takes the step and the metrics of an evaluation in training. Training ends if it returns True.
        on_save: takes the step and the path of a checkpoint.
        verbose: whether to print the log.
        settings: the other flags of run_classifier.py, by name, with the same defaults; a list for several values.

    Raises:
        TypeError: a setting does not exist, or data have an unusable type.
        ValueError, OSError: as the program reports them.
    """
    data = {"train_file": train_data, "eval_file": eval_data, "predict_file": predict_data}
    return call("run_classifier", settings, unlabeled_file=settings.pop("unlabeled_data", None), **data)


def to_file(data: Any, name: str) -> tuple[bytes, str]:
    """Returns rows as the content of a JSON lines file."""
    columns = {2: ("text", "label"), 3: ("text_a", "text_b", "label")}
    return json_lines(rows_of(data, name, _WITHOUT_LABEL if name in {"predict_data", "unlabeled_data"} else columns))


_WITHOUT_LABEL = {1: ("text",), 2: ("text_a", "text_b")}
