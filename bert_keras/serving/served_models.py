"""The models of a server: opening, warming up, and answers to the items of a request."""

import contextlib
import logging
import pathlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from bert_keras import prediction
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import TASK_FILE, ModelFolder
from bert_keras.model_folder.run_files import page_examples
from bert_keras.prediction.arguments import Limits
from bert_keras.serving.batching import BatchingNetwork
from bert_keras.serving.metrics import Metrics
from bert_keras.storage.text_files import is_blank
from bert_keras.tasks import abilities, ability_of, predictor_of

log = logging.getLogger("bert_keras")

# Seconds that the end of the server waits for a model.
_SECONDS_TO_STOP = 2.0
_SAVED_MODEL = "saved_model.pb"
# A folder that has one of these is a model, so its numbered folders are not versions.
_FILES_OF_MODELS = (_SAVED_MODEL, "bert_config.json", "config.json", "modules.json", "vocab.txt")


class ServedModel:
    """A loaded model under its name.

    Attributes:
        name: as in requests.
        task: name of the task, as in task.json.
        predictor: the object that answers.
        fields: names of the texts in an item, such as "question" and "context".
        may_lack: those that an item need not have.
        examples: items for the page.
    """

    def __init__(self, name: str, task: str, predictor: Any, examples: Sequence[dict[str, Any]] = ()):
        self.name, self.task, self.predictor = name, task, predictor
        # The settings of another library's classifier do not say whether it takes pairs; then the second text may lack.
        is_pair = (predictor.settings or {}).get("is_pair", False)
        self.fields = ability_of(task).texts + (() if is_pair is False else ("text_pair",))
        self.may_lack = {"text_pair"} if is_pair is None else set()
        self.examples = [example for example in examples if set(example) <= set(self.fields)]
        self._changed, self._num_users, self._is_retired = threading.Condition(), 0, False
        self._metrics: Metrics | None = None
        self._has_cut = False

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options of a request."""
        return tuple(self.predictor.options)

    def start(self, max_batch_tokens: int, batch_timeout: float, metrics: Metrics) -> None:
        """Warms up the network, then lets requests share batches.

        Raises:
            ValueError: the weights or the results of the model are not finite numbers.
        """
        self.predictor.warmup()
        self._metrics = metrics
        labels, network = {"model": self.name, "task": self.task}, self.predictor.network
        self.predictor.network = BatchingNetwork(network, max_batch_tokens, batch_timeout, metrics, labels)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[bool]:
        """Keeps the model open in the block. Yields False if it is not open any more, because another replaced it."""
        with self._changed:
            is_open = not self._is_retired
            self._num_users += 1
        try:
            yield is_open
        finally:
            with self._changed:
                self._num_users -= 1
                self._changed.notify_all()

    def retire(self) -> None:
        """Ends the thread of the batches when no request uses the model any more."""
        with self._changed:
            self._is_retired = True
            self._changed.wait_for(lambda: not self._num_users)
        self.stop()

    def stop(self) -> None:
        """Answers what waits, and ends the thread of the batches; waits for it only a short time."""
        if isinstance(self.predictor.network, BatchingNetwork):
            self.predictor.network.close(_SECONDS_TO_STOP)

    def text_of(self, item: str | dict[str, Any]) -> Any:
        """Returns an item that fits `forms.item_schema` in the form that the predictor takes."""
        values = list(self.fields_of(item).values())
        return values[0] if len(values) == 1 else tuple(values)

    def fields_of(self, item: str | dict[str, Any]) -> dict[str, Any]:
        """Returns the fields of an item in their order; an optional one without a word is left out."""
        if isinstance(item, str):
            return {self.fields[0]: item}
        may_lack = {name for name in self.may_lack if is_blank(item.get(name) or "")}
        return {name: item[name] for name in self.fields if name not in may_lack}

    def answers(self, items: Sequence[str | dict[str, Any]], options: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the answer to each item as a dict for `requests.body_of`. The items fit `forms.item_schema`.

        In addition to the fields of the Python API, "num_tokens" is the number of tokens that the tokenizer makes of
        the item's texts, and "is_cut" whether the model ignored some of them, because there are too many.

        Raises:
            ValueError: a text or an option is not valid.
        """
        texts = list(map(self.text_of, items))
        names = [f"item {number}" for number in range(1, len(items) + 1)] if len(items) > 1 else ["the request"]
        found = self.predictor.pipe_with_cuts(texts, names, **options)
        for text, (answer, is_cut) in zip(texts, found, strict=True):
            fields = self.predictor.served_fields(text, answer)
            if is_cut:
                self._count_cut()
            yield fields | {"num_tokens": self.predictor.num_tokens(text), "is_cut": is_cut}

    def _count_cut(self) -> None:
        """Counts a text that lost its end; the log reports the first."""
        if not self._has_cut:
            log.warning(
                "%s: a text is longer than the %d tokens that the model takes, and lost its end; its answer has "
                '"is_cut": true, and bert_cut_texts_total of /metrics counts all such texts',
                self.name,
                self.predictor.max_seq_length,
            )
        self._has_cut = True
        if self._metrics:
            self._metrics.cut_texts.labels(model=self.name, task=self.task).inc()


def open_model(
    name: str, folder: str, tasks: Sequence[str], limits: Limits, precision: str = "auto"
) -> list[ServedModel]:
    """Opens the model in a local folder. Returns it once for each of its tasks.

    Args:
        tasks: the tasks of a checkpoint of pre-training, which share the weights of the encoder; or the one task of a
            model that another library leaves open. A model whose files set the task has that.
        limits: Limits of the input.
        precision: as in `TextClassifier`.
    """
    pretraining_tasks = abilities(is_pretrained=True)
    head_tasks = [task for task in tasks if task not in pretraining_tasks]
    if head_tasks and len(tasks) > 1:
        raise Mistake("{task}={} has more than one task of a fine-tuned model; give one", [*tasks])
    path, model = pathlib.Path(folder), ModelFolder(folder).with_answer(*tasks)
    if head_tasks and not model.has_head:
        model = ModelFolder(folder, task=head_tasks[0])
    if (path / _SAVED_MODEL).is_file() and not model.is_export:
        raise Mistake(
            "{} is only a SavedModel; give the folder of an export, which has an export.json, or serve the "
            "SavedModel with TensorFlow Serving (docs/guides/serve.md shows how)",
            folder,
        )
    if _has_task(model) or path.exists() and model.task or not tasks and (model.has_head or not path.exists()):
        predictor = prediction.open_model(model, limits=limits, precision=precision)
        return [ServedModel(name, model.settings["task"], predictor, page_examples(model.folder))]
    model.need_checkpoint()  # else the folder is not a model
    if not tasks:
        raise Mistake(
            "{} has no {}, so it is a checkpoint of pre-training; choose its {task}: {}",
            folder,
            TASK_FILE,
            [*pretraining_tasks],
        )
    models: list[ServedModel] = []
    shared: Any = None
    # Those without a head are the last, because their network has no heads to share.
    for task in sorted(dict.fromkeys(tasks), key=lambda task: ability_of(task).head is None):
        make = predictor_of(task).open_pretrained
        options: dict[str, Any] = {"limits": limits, "model": shared, "precision": precision}
        predictor, _ = make(model, dict(ability_of(task).served), None, **options)
        shared = predictor.model
        models.append(ServedModel(name, task, predictor))
    return models


def numbered_folders(folder: str) -> dict[int, pathlib.Path]:
    """Returns the versions in a folder, each by its number; none if the folder itself is a model."""
    path = pathlib.Path(folder)
    if not path.is_dir() or _has_task(ModelFolder(folder)) or any((path / name).is_file() for name in _FILES_OF_MODELS):
        return {}
    named = (version for version in path.iterdir() if version.name.isascii() and version.name.isdecimal())
    return {int(version.name): version for version in sorted(named) if version.is_dir()}


def _has_task(model: ModelFolder) -> bool:
    return model.is_export or model.has_task_file
