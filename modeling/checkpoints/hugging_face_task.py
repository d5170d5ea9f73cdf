"""The task of a fine-tuned model in the Hugging Face layout, from its config.json: the values that a task.json has.

The class of the model names its head; id2label, problem_type and the size of the head say the rest. Without a class
that is known here, the weights name the head. A fact that the files do not hold is one question, which names the
setting that answers it.
"""

from collections.abc import Sequence
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.modeling.checkpoints.families import BERT, FAMILIES
from bert_keras.modeling.checkpoints.hugging_face_config import PROBLEM_TYPES, labels_of, problem_type_of
from bert_keras.modeling.checkpoints.names import TOP_LEVEL_HEADS, heads_of
from bert_keras.settings.model_files import WORDS
from bert_keras.storage.json_files import check_whole

# The tasks of the heads of a class; several if the head does not determine the task.
_PRETRAINING_TASKS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("masked_lm",): ("fill_mask", "score"),
    ("next_sentence",): ("next_sentence",),
    ("masked_lm", "next_sentence"): ("fill_mask", "score", "next_sentence"),
    ("replaced_token",): ("replaced_tokens",),
}
_TASKS = {
    **_PRETRAINING_TASKS,
    ("multiple_choice",): ("multiple_choice",),
    ("squad",): ("question_answering",),
    ("token_classifier",): ("token_classification",),
    ("classifier",): ("classification", "multi_label", "regression", "rerank"),
}
TASKS_OF_PRETRAINING = {task for tasks in _PRETRAINING_TASKS.values() for task in tasks}
# Heads of the same weights, of which only the class or the user knows the task.
_TOP_LEVEL_TASKS = tuple(task for head in TOP_LEVEL_HEADS for task in _TASKS[head,])
_TASKS_BY_PROBLEM_TYPE = dict(zip(PROBLEM_TYPES, ("classification", "multi_label", "regression"), strict=True))
# The defaults of run_squad.py, but for the text of an answer, which is that of the context.
_ANSWERS = {
    "max_answer_length": 30,
    "n_best_size": 20,
    "version_2_with_negative": None,  # config.json does not say it
    "null_score_diff_threshold": 0.0,
    "answer_text": "offsets",
    # Here padding may fill the best places of a short text, so that no span is left; in transformers it does not count.
    "use_all_places": True,
}
# The activation of a reranker, by its class in PyTorch.
_ACTIVATIONS = {
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.linear.Identity": "identity",
}
# Keys of sentence-transformers that mark a reranker and hold its activation; the second is older.
_RERANKER_KEYS = ("sentence_transformers", "sbert_ce_default_activation_function")
_LONGEST_WINDOW, _STRIDE = 384, 128
_BESIDE_QUESTIONS = 4  # [CLS], a token of the text, and two [SEP]


class OpenQuestion(Mistake):
    """The files of a model leave open which of several `tasks` it has."""

    tasks: tuple[str, ...] = ()

    def among(self, *tasks: str) -> "OpenQuestion":
        """Returns the question itself, with the tasks that it leaves open."""
        self.tasks = tasks
        return self


def task_of_config(
    config: dict[str, Any],
    config_file: str,
    heads: Sequence[str],
    length: int,
    task: str | None = None,
    is_pair: bool | None = None,
    words: str | None = None,
) -> dict[str, Any] | None:
    """Returns the task of a model and its settings, as in a task.json; None if it has no head for a task.

    Args:
        config: values of a config.json.
        config_file: its path.
        heads: those whose weights the checkpoint has, see `Checkpoint.heads`.
        length: maximum number of tokens in a sequence.
        task: the task, for a head that has several, or without a class; None: the only one, or the first for heads of
            pre-training.
        is_pair: whether a classifier takes pairs of texts; None: each text may be one or a pair.
        words: how a tagger splits texts into words; None: as transformers does.

    Raises:
        ValueError: the model has another task, or its files leave open which task it is.
    """
    called, tasks = _tasks_of(config, heads, task)
    if task is not None and task not in tasks and tasks and " " not in called:
        raise Mistake(
            "{task}={} is not a task of {}, the class in {}; give one of {}", task, called, config_file, tasks
        )
    if task is not None and task not in tasks:
        raise Mistake(
            "{task}={}, but {} has {}, and the weights have {}; take a model with a head for this task",
            task,
            config_file,
            called,
            f"the heads {', '.join(heads)}" if heads else "no head",
        )
    if not tasks:
        return None
    if task is None and len(tasks) > 1 and {"multiple_choice", "question_answering"} & set(tasks):
        raise OpenQuestion(
            "{} has {}, and the weights may be those of several tasks; give {task} with one of {}",
            config_file,
            called,
            [*tasks],
        ).among(*tasks)
    # A model that reads left to right cannot see the tokens after a [MASK].
    chosen = task or next(name for name in tasks if name != "fill_mask" or not config.get("is_decoder"))
    if words not in (None, *WORDS):
        raise Mistake("{words} is {!r}, but must be one of {}", words, [*WORDS])
    if words and chosen != "token_classification":
        raise Mistake("{words} is for taggers, and {} has {} for {}; leave it out", config_file, called, chosen)
    is_of_texts = chosen in _TASKS["classifier",]
    activation = activation_of(config, config_file) if is_of_texts else None
    if task == "rerank" or task is None and activation and len(_labels(config, config_file)) == 1:
        return _reranker_settings(config, config_file, length, activation, is_pair)
    if is_of_texts:
        return _classifier_settings(config, config_file, length, task, is_pair)
    if is_pair is not None:
        raise Mistake("{is_pair} is for classifiers, and {} is for {}; leave it out", called, chosen)
    settings: dict[str, Any] = {"task": chosen, "max_seq_length": length}
    if chosen == "token_classification":
        settings |= {"labels": _labels(config, config_file), "words": words or "transformers"}
    elif chosen == "question_answering":
        window = min(length, _LONGEST_WINDOW)
        # transformers cuts the text alone, so a question may leave room for one token of it.
        places = {"doc_stride": min(_STRIDE, window // 2), "max_query_length": max(1, window - _BESIDE_QUESTIONS)}
        settings |= {"max_seq_length": window, **places, **_ANSWERS}
    return settings


def _tasks_of(config: dict[str, Any], heads: Sequence[str], task: str | None) -> tuple[str, tuple[str, ...]]:
    """Returns the class in a config.json, in words, and the tasks that its model may have.

    They are those of the class. If the class is not known or has no such task, the weights count, as for a class of
    transformers that the user names. Only classifiers of texts have a problem_type or an activation.
    """
    architecture = (config.get("architectures") or [""])[0] or ""
    family = FAMILIES.get(config.get("model_type") or "bert", BERT)
    is_known = architecture in family.classes.values()
    tasks: tuple[str, ...] = _TASKS.get(heads_of(architecture, family), ()) if is_known else ()
    if tasks and task in (None, *tasks):
        return architecture, tasks
    is_of_texts = config.get("problem_type") or any(config.get(key) for key in _RERANKER_KEYS)
    top_level = _TASKS["classifier",] if is_of_texts else _TOP_LEVEL_TASKS
    head_tasks = tuple(
        name for head in heads for name in (top_level if head in TOP_LEVEL_HEADS else _TASKS.get((head,), ()))
    )
    if is_known and task not in head_tasks:
        return architecture, tasks
    return f"the class {architecture}" if architecture else "no class (architectures)", head_tasks


def activation_of(config: dict[str, Any], config_file: str) -> str | None:
    """Returns the activation of a model that sentence-transformers has marked as its CrossEncoder; else None.

    Raises:
        ValueError: the activation is not one of those that a reranker may have.
    """
    entry, older = map(config.get, _RERANKER_KEYS)
    found = entry["activation_fn"] if isinstance(entry, dict) and entry.get("activation_fn") else older
    if found is None:
        # Without an activation, sentence-transformers takes the sigmoid.
        return None if entry is None else "sigmoid"
    if found not in [*_ACTIVATIONS]:  # it may be of any type
        raise Mistake(
            "{}: the activation of the scores is {}, but must be one of {}; take another model",
            config_file,
            found,
            list(_ACTIVATIONS),
        )
    return _ACTIVATIONS[found]


def with_activation(activation: str) -> dict[str, Any]:
    """Returns the entry of a config.json from which sentence-transformers takes the activation of a reranker."""
    [class_] = [class_ for class_, name in _ACTIVATIONS.items() if name == activation]
    return {"sentence_transformers": {"activation_fn": class_}}


def _reranker_settings(
    config: dict[str, Any], config_file: str, length: int, activation: str | None, is_pair: bool | None
) -> dict[str, Any]:
    if (count := len(_labels(config, config_file))) != 1:
        raise Mistake("{} has {} labels, but a reranker has one score; take a model with one label", config_file, count)
    if is_pair is not None:
        raise Mistake("{is_pair} is for classifiers, and {} is a reranker; leave it out", config_file)
    return {"task": "rerank", "max_seq_length": length, "activation": activation or "sigmoid"}


def _classifier_settings(
    config: dict[str, Any], config_file: str, length: int, task: str | None, is_pair: bool | None
) -> dict[str, Any]:
    labels, problem_type = _labels(config, config_file), problem_type_of(config, config_file)
    if problem_type is not None:
        found = _TASKS_BY_PROBLEM_TYPE[problem_type]
        if task not in (None, found):
            raise Mistake("{task}={}, but problem_type is {} in {}; leave it out", task, problem_type, config_file)
        task = found
    elif task is None and len(labels) == 1:
        raise OpenQuestion(
            "{} has one label and no problem_type, so its number may have several meanings; give {task}=regression for "
            "a number on any scale, {task}=multi_label for the probability of {}, or {task}=rerank for the score of a "
            "text for a query (in training: {kind}, or run_reranker.py)",
            config_file,
            labels[0],
        ).among("regression", "multi_label", "rerank")
    task = task or "classification"
    if task == "regression":
        if len(labels) != 1:
            raise Mistake("{} is a regression with {} numbers; take a model with one", config_file, len(labels))
        labels = []
    if task == "classification" and len(labels) == 1:
        raise Mistake(
            "{} has one class, whose probability is always 1; give {task}=regression or {task}=multi_label", config_file
        )
    return {"task": task, "labels": labels, "max_seq_length": length, "is_pair": is_pair, "doc_stride": None}


def _labels(config: dict[str, Any], config_file: str) -> list[str]:
    """Returns the names of the classes; transformers leaves out the names of two classes without names."""
    labels = labels_of(config, config_file)
    if labels is None:
        count = check_whole(config.get("num_labels", 2), config_file, "num_labels")
        labels = [f"LABEL_{number}" for number in range(count)]
    return labels
