"""The base class of the predictors of all tasks: it opens only models that are for its class."""

from typing import Any, ClassVar

from bert_keras.mistakes import Mistake
from bert_keras.prediction.loaded_model import Answer, Text
from bert_keras.prediction.predictor import Predictor
from bert_keras.tasks import abilities, ability_of, settings_of


class TaskPredictor(Predictor[Text, Answer]):
    """A model that is loaded for a task of `bert_keras.tasks`. It has the attributes of `LoadedModel`."""

    # Name of the head, as in the `Ability` of its tasks; None: the encoder alone.
    head: ClassVar[str | None] = None

    @classmethod
    def is_for(cls, task: str) -> bool:
        """Returns whether the class opens models of a task."""
        ability = ability_of(task)
        return issubclass(cls, ability.predictor) if ability.is_added else ability.head == cls.head

    def _task_of_class(self) -> dict[str, Any]:
        settings = settings_of(self.files)
        if not self.is_for(settings["task"]):
            tasks = [name for name in abilities(is_exported=True) if self.is_for(name)]
            raise Mistake(
                "{} is a model for {}, and {} is for {}; open it with open_model, or predict.py",
                self.files.folder,
                settings["task"],
                type(self).__name__,
                ", ".join(tasks) or "checkpoints of pre-training",
            )
        return settings

    def _task_names(self) -> list[str]:
        own = f".{type(self).__name__}"
        return super()._task_names() or [
            task for task, ability in abilities().items() if str(ability.predictor).endswith(own)
        ]
