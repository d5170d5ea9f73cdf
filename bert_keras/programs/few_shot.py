"""`train_few_shot`, and the run of run_few_shot.py."""

import dataclasses
from typing import TYPE_CHECKING, Any

import rich.console

from bert_keras.engine.distribution.devices import strategy_of
from bert_keras.engine.report import NO_CALLBACKS, Callbacks
from bert_keras.mistakes import Mistake
from bert_keras.programs.calls import Arguments, PredictedData, TrainedModel, call, takes
from bert_keras.programs.classifier import to_file as to_file
from bert_keras.tasks.few_shot.run import FewShot, FewShotRun, few_shot_config
from bert_keras.tasks.few_shot.settings import FewShotSettings, check_few_shot
from bert_keras.tasks.finetuning.opening import open_fine_tuning

if TYPE_CHECKING:  # most calls do not predict
    from bert_keras.tasks.classification.predictor import Classification as ClassAnswer
    from bert_keras.tasks.classification.predictor import TextClassifier


def open_run(
    settings: FewShotSettings, console: rich.console.Console, callbacks: Callbacks = NO_CALLBACKS
) -> FewShotRun:
    """Reads the data of run_few_shot.py, opens its model, and sets the pooler of one to start from."""
    opened = open_fine_tuning(settings, "run_few_shot", ("classification",), ("max_seq_length", "doc_stride"))
    settings = opened.settings
    check_few_shot(settings)
    strategy = strategy_of(settings)
    if settings.do_train:
        if not settings.init_checkpoint:
            raise Mistake("few labels need {init_checkpoint}, an encoder that is already trained")
        opened = dataclasses.replace(opened, files=few_shot_config(opened.files))
    return FewShotRun(FewShot(settings, opened.files, opened.stored), opened, strategy, console, callbacks)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Arguments(Arguments, FewShotSettings, PredictedData):
    """The arguments of `train_few_shot`."""


@takes(_Arguments)
def train_few_shot(
    train_data: Any = None, eval_data: Any = None, predict_data: Any = None, **settings: Any
) -> "TrainedModel[TextClassifier[ClassAnswer]]":
    """Makes a classifier from few examples of each class, or from `class_names` alone, in seconds.

    The encoder of `init_checkpoint` first learns to tell the classes (not with `contrastive_epochs=0`); a logistic
    regression on its vectors becomes the head. The data have the forms of those of `train_classifier`, and `settings`
    are the other flags of run_few_shot.py, by name.
    """
    return call("run_few_shot", settings, train_file=train_data, eval_file=eval_data, predict_file=predict_data)
