"""The tasks of all programs, in one table: settings, network, texts and predictor. Imports without TensorFlow."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def _is_length(value: object) -> bool:
    return type(value) is int and value > 0


def _is_names(value: Any) -> bool:
    # With two equal names, one of them would lose its probability.
    has_names = isinstance(value, list) and value and all(isinstance(name, str) and name.strip() for name in value)
    return bool(has_names) and len(set(value)) == len(value)


def _one_of(*choices: str) -> tuple[str, Callable[[Any], bool]]:
    *others, last = (f'"{choice}"' for choice in choices)
    return f"{', '.join(others)} or {last}", lambda value: value in choices


# Ways to make one vector of the vectors of tokens.
POOLINGS = ("cls", "mean", "max")
# Pairs: valid values in words, and the check of a value.
LENGTH = "a whole number above 0", _is_length
_LENGTH_OR_NULL = "a whole number above 0, or null", lambda value: value is None or _is_length(value)
_NUMBER = "a number", lambda value: type(value) in (int, float)
_SWITCH = "true or false", lambda value: isinstance(value, bool)
_SWITCH_OR_NULL = "true, false or null", lambda value: value is None or isinstance(value, bool)
NAMES = "a list of names, each of them once", _is_names
_LAYER = 'a whole number or "embeddings"', lambda value: value == "embeddings" or type(value) is int

_OF_TEXTS = {"is_pair": _SWITCH_OR_NULL, "doc_stride": _LENGTH_OR_NULL}
_OF_LABELLED_TEXTS = {"labels": NAMES, **_OF_TEXTS}
_OF_ANSWERS = {
    **dict.fromkeys(("doc_stride", "max_query_length", "max_answer_length", "n_best_size"), LENGTH),
    "version_2_with_negative": _SWITCH_OR_NULL,
    "null_score_diff_threshold": _NUMBER,
    "answer_text": _one_of("release", "offsets"),
}
# Setting that classifiers of --calibrate also have: the lowest probability of a label in a label set, by the coverage.
LABEL_SETS = "label_set_thresholds"
# Texts of a question that are lists of texts.
LISTS = ("choices", "texts")
_IDS = ("input_ids", "input_mask", "segment_ids")


@dataclasses.dataclass(frozen=True)
class Ability:
    """What a model can do: a task under its name in task.json.

    Attributes:
        predictor, answer: the class that answers texts, and the dataclass of its answers; names are of those in
            `bert_keras.prediction`.
        head: name of its head, as in `modeling.checkpoints`; None: the encoder alone.
        settings: its settings in task.json, in addition to max_seq_length: pairs of the valid values in words and the
            check of a value, by name. None: the task has no task.json, because it cannot be exported.
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
        graph: the class of its text model, a `tasks.graph.text_model.TextModel`; None: see `tasks.graph_of`.
        page: its form on the page of the server, as an entry of `serving/page/tasks.js` in JSON; None: an entry there.
    """

    predictor: Any
    answer: Any
    route: str
    head: str | None = None
    settings: Mapping[str, tuple[str, Callable[[Any], bool]]] | None = None
    purpose: str = ""
    is_fine_tuned: bool = True
    is_pretrained: bool = False
    texts: tuple[str, ...] = ("text",)
    inputs: tuple[str, ...] = _IDS
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
    def form(self) -> str:
        """The form of a question: "text", "pair" (of texts) or "choices" (a text and a list of texts)."""
        if self.texts[-1] in LISTS:
            return "choices"
        return "pair" if len(self.texts) == 2 else "text"

    @property
    def has_masks(self) -> bool:
        """Whether a model answers the masks of a text."""
        return "masked_lm_positions" in self.inputs


# By the name in task.json and in the flag --task.
TASKS: dict[str, Ability] = {
    "classification": Ability(
        predictor="TextClassifier",
        answer="Classification",
        head="classifier",
        route="classify",
        settings=_OF_LABELLED_TEXTS,
        purpose="assigns {texts} to one of {num_labels} classes",
        other_paths={"/predict": "labels"},
    ),
    "regression": Ability(
        predictor="TextClassifier",
        answer="Regression",
        head="classifier",
        route="classify",
        settings=_OF_TEXTS,
        purpose="predicts a number for {texts}",
    ),
    "multi_label": Ability(
        predictor="TextClassifier",
        answer="MultiLabel",
        head="classifier",
        route="classify",
        settings=_OF_LABELLED_TEXTS,
        purpose="predicts which of {num_labels} labels apply to {texts}",
        other_paths={"/predict": "labels"},
    ),
    "multiple_choice": Ability(
        predictor="ChoicePicker",
        answer="Choice",
        head="multiple_choice",
        route="choose",
        settings={},
        purpose="picks the text that best continues another text",
        texts=("text", "choices"),
    ),
    "rerank": Ability(
        predictor="Reranker",
        answer="Ranking",
        head="classifier",
        route="rerank",
        settings={"activation": _one_of("sigmoid", "identity")},
        purpose="scores how well a text fits a query",
        texts=("query", "texts"),
        forms=("items", "ranks"),
        other_paths={"/rerank": "ranks"},
    ),
    "question_answering": Ability(
        predictor="QuestionAnswerer",
        answer="QuestionAnswer",
        head="squad",
        route="answer",
        settings=_OF_ANSWERS,
        purpose="finds the answer to a question in a text",
        texts=("question", "context"),
        outputs=("start_logits", "end_logits"),
    ),
    "token_classification": Ability(
        predictor="EntityTagger",
        answer="TaggedText",
        head="token_classifier",
        route="entities",
        settings={"labels": NAMES},
        purpose="tags each word of a text",
    ),
    "fill_mask": Ability(
        predictor="FillMask",
        answer="FilledText",
        head="masked_lm",
        route="fill-mask",
        settings={"top_k": LENGTH},
        purpose="predicts the word at each [MASK] of a text",
        is_fine_tuned=False,
        is_pretrained=True,
        inputs=(*_IDS, "masked_lm_positions"),
        logits="masked_lm_logits",
    ),
    "next_sentence": Ability(
        predictor="NextSentence",
        answer="PairAnswer",
        head="next_sentence",
        route="next-sentence",
        settings={},
        purpose="estimates whether a text follows another",
        is_fine_tuned=False,
        is_pretrained=True,
        texts=("text_a", "text_b"),
        logits="next_sentence_logits",
    ),
    "replaced_tokens": Ability(
        predictor="ReplacedTokenFinder",
        answer="ReplacedTokens",
        head="replaced_token",
        route="replaced-tokens",
        settings={},
        purpose="finds the words that do not fit into a text",
        is_fine_tuned=False,
        is_pretrained=True,
    ),
    "score": Ability(
        predictor="SentenceScorer",
        answer="SentenceScore",
        head="masked_lm",
        route="score",
        is_fine_tuned=False,
        is_pretrained=True,
    ),
    "vectors": Ability(
        predictor="Vectorizer",
        answer="TextVector",
        head=None,
        route="embeddings",
        settings={"pooling": _one_of(*POOLINGS), "layer": _LAYER},
        purpose="turns a text into a vector",
        is_pretrained=True,
        outputs=("sequence_output", "pooled_output"),
        forms=("items", "openai", "one"),
        other_paths={"/embed": "vectors"},
        # The mean over the tokens of the second to last layer.
        served={"layer": "-2", "pooling": "mean"},
    ),
}

_LABELS_SHOWN = 5


def shown_model(
    kind: str, folder: str | os.PathLike, task: str | None, labels: Sequence[str] | None, *facts: str
) -> str:
    """Returns one line that shows an object with a model: its class, folder, task, at most five labels, and facts."""
    parts = [repr(os.fspath(folder)), *([f"task={task!r}"] if task else [])]
    if labels:
        num_others = len(labels) - _LABELS_SHOWN
        others = [f"and {num_others} other{'s' * (num_others > 1)}"] if num_others > 0 else []
        shown = [*map(repr, labels[:_LABELS_SHOWN]), *others]
        parts.append(f"labels=[{', '.join(shown)}]")
    return f"{kind}({', '.join([*parts, *facts])})"


FINE_TUNED_TASKS = tuple(name for name, task in TASKS.items() if task.is_fine_tuned)
# Of these, a checkpoint of pre-training has the head.
PRETRAINED_TASKS = tuple(name for name, task in TASKS.items() if task.is_pretrained and task.head)
# The server opens a checkpoint of pre-training for these.
SERVED_TASKS = tuple(name for name, task in TASKS.items() if task.is_pretrained)
# Exports also store the tasks of pre-trained models.
EXPORTED_TASKS = tuple(name for name, task in TASKS.items() if task.settings is not None)
