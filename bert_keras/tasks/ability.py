"""`Ability`: what a model can do, and how the settings in its task.json are checked. Imports without TensorFlow."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


def _is_length(value: object) -> bool:
    return type(value) is int and value > 0


def _is_names(value: Any) -> bool:
    # With two equal names, one of them would lose its probability.
    has_names = isinstance(value, list) and value and all(isinstance(name, str) and name.strip() for name in value)
    return bool(has_names) and len(set(value)) == len(value)


# Valid values of a setting in words, and the check of a value.
Check = tuple[str, Callable[[Any], bool]]
LENGTH: Check = "a whole number above 0", _is_length
LENGTH_OR_NULL: Check = "a whole number above 0, or null", lambda value: value is None or _is_length(value)
NUMBER: Check = "a number", lambda value: type(value) in (int, float)
SWITCH_OR_NULL: Check = "true, false or null", lambda value: value is None or isinstance(value, bool)
NAMES: Check = "a list of names, each of them once", _is_names


def one_of(*choices: str) -> Check:
    """Returns the check of a setting with these values."""
    *others, last = (f'"{choice}"' for choice in choices)
    return f"{', '.join(others)} or {last}", lambda value: value in choices


# Texts of a question that are lists of texts, with the lowest number of texts in one.
LISTS = {"choices": 2, "texts": 1}
IDS = ("input_ids", "input_mask", "segment_ids")


@dataclasses.dataclass(frozen=True)
class Ability:
    """What a model can do: a task under its name in task.json.

    Attributes:
        predictor, answer: the class that answers texts, and the dataclass of its answers. A task of the project gives
            the place of a class below `bert_keras.tasks`, because most of these modules load TensorFlow.
        head: name of its head, as in `modeling.checkpoints`; None: the encoder alone.
        settings: the checks of its settings in task.json, in addition to max_seq_length, by name. None: the task has no
            task.json, because it cannot be exported.
        purpose: what a model of this task does, for its card; "{texts}" and "{num_labels}" are filled in.
        is_fine_tuned: whether its models come from a training program and have a task.json.
        is_pretrained: whether a pre-trained model can do it.
        texts: names of the texts of one question. If the setting is_pair is true, there is also "text_pair".
        inputs, outputs: names of the inputs and outputs of an exported network.
        logits: the name that the Keras model gives to the output "logits".
        route: name of its route in the HTTP server.
        forms: the forms of requests that its route takes, by their names in `serving.answers`.
        other_paths: paths of text-embeddings-inference at which the server answers, with the form of each.
        served: settings with which the server opens a pre-trained model.
        graph: the class of its text model, a `tasks.graph.text_model.TextModel`, or its place; None: it has none.
        page: its form on the page of the server and of web exports, in JSON: see `serving/page/tasks.js`. `hasTable` is
            false if the task cannot answer the rows of a table.
    """

    predictor: Any
    answer: Any
    route: str
    head: str | None = None
    settings: Mapping[str, Check] | None = None
    purpose: str = ""
    is_fine_tuned: bool = True
    is_pretrained: bool = False
    texts: tuple[str, ...] = ("text",)
    inputs: tuple[str, ...] = IDS
    outputs: tuple[str, ...] = ("logits",)
    logits: str = "logits"
    forms: tuple[str, ...] = ("items", "one")
    other_paths: Mapping[str, str] = dataclasses.field(default_factory=dict)
    served: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    graph: Any = None
    page: Mapping[str, Any] | None = None

    @property
    def is_added(self) -> bool:
        """Whether it comes from outside the project."""
        return not isinstance(self.predictor, str)

    @property
    def is_exported(self) -> bool:
        """Whether a model can be exported for it."""
        return self.settings is not None

    @property
    def form(self) -> str:
        """The form of a question: "text", "pair" (of texts), or a text and a list: "choices", or "texts" of a query."""
        if self.texts[-1] in LISTS:
            return self.texts[-1]
        return "pair" if len(self.texts) == 2 else "text"

    @property
    def has_masks(self) -> bool:
        """Whether a model answers the masks of a text."""
        return "masked_lm_positions" in self.inputs
