"""Checks the settings of a command: their effect, and whether they are those of the run in its folder."""

import dataclasses
import logging
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

from bert_keras.mistakes import Message, Mistake, Setting
from bert_keras.settings.fields import setting_fields
from bert_keras.settings.groups import RunSettings, values_of

log = logging.getLogger("bert_keras")

# Facts about the data of evaluations, which choose the best weights, settings and seed of a run.
EVALUATION_FACTS = frozenset(["evaluation", "eval_file_sha256"])


def check_same_run(
    path: str, old: Mapping[str, Any], new: Mapping[str, Any], free: Collection[str], facts: Collection[str]
) -> None:
    """Refuses to resume a run with other settings.

    Args:
        path: the run folder.
        old, new: JSON values by name: settings and facts of the run, and of the command.
        free: names of values that may differ. `num_train_steps` may grow.
        facts: names of values that are not flags.
    """
    # For a fine-tuning run the epochs are compared; its steps follow from them.
    if new.get("num_train_steps", 0) > old.get("num_train_steps", 0):
        log.info(
            "num_train_steps was %d and is %d now; the learning rate follows the longer schedule",
            old["num_train_steps"],
            new["num_train_steps"],
        )
        free = {*free, "num_train_steps"}
    names = [name for name in sorted((set(old) | set(new)) - set(free)) if old.get(name) != new.get(name)]
    differences = []
    for name in names:
        differences += _differences(name if name in facts else Setting(name), old.get(name), new.get(name))
    if differences:
        other = "" if set(names) - EVALUATION_FACTS else "leave out {do_train} to evaluate its model on other data, "
        raise Mistake(
            "{output_dir}={} holds a run with other settings: "
            + "; ".join("{}" for _ in differences)
            + "; "
            + other
            + "give the old settings to resume it, or another {output_dir}",
            *(path, *differences),
        )


def _differences(name: str, old: Any, new: Any) -> list[str | Message]:
    """Describes how a setting or fact differs; a dict has one difference for each key."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            Message("{}: {}", name, _difference(key, old.get(key), new.get(key)))
            for key in sorted({*old, *new})
            if old.get(key) != new.get(key)
        ]
    return [_difference(name, old, new)]


def _difference(name: str, old: Any, new: Any) -> str | Message:
    if name.endswith("_sha256") and None not in (old, new):
        return f"{name.removesuffix('_sha256')} content has changed"
    return Message("{} was {} and is {} now", name, _shown(old), _shown(new))


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)


class Other:
    """Stands for all values but one, in the condition of a `NoEffect`."""

    def __init__(self, than: object) -> None:
        self.than = than


@dataclasses.dataclass(frozen=True)
class NoEffect:
    """A setting, and the runs in which it would change nothing.

    Attributes:
        setting: name of the setting.
        when: values by the name of a setting or of a fact, see `check_effects`. All must be those of the run; a
            set holds several values, and `Other` stands for all but one.
        reason: continues the sentence that begins with the setting; see `Message`. Its values are those of `when`.
        remedy: what to do.
        in_training: whether the row is for runs that train. The settings of other runs may come from their training.
        harmless: a value that says the same as the run does; the program accepts it.
    """

    setting: str
    when: dict[str, Any]
    reason: str
    remedy: str = "leave it out"
    in_training: bool = True
    harmless: Any = None


def _rows(
    settings: str, when: dict[str, Any], reason: str, remedy: str = "leave it out", **options: Any
) -> list[NoEffect]:
    return [NoEffect(setting, when, reason, remedy, **options) for setting in settings.split()]


_ANY: dict[str, Any] = {"in_training": False}
_UNCHANGED = {"unchanged_encoder": Other("")}
_ALL_FROZEN = {"frozen": "all"}
_OF_TEACHER = "label_loss_weight soft_loss_weight hidden_loss_weight attention_loss_weight cosine_loss_weight"
_OF_TEACHER += " temperature teacher_layers unlabeled_file"
_OTHER_OBJECTIVES = {"objective": {"span_boundary", "electra"}}
COLUMNS = "text_column text_pair_column label_column id_column label_separator choice_columns has_header"

# The settings that have no effect in some runs. A new setting that not every run reads gets a row here.
NO_EFFECT = (
    # The device.
    *_rows(
        "tpu_name tpu_zone gcp_project master num_tpu_cores",
        {"use_tpu": False},
        "is for a TPU",
        "give {use_tpu} as well, or leave it out",
        **_ANY,
    ),
    *_rows("tpu_zone gcp_project", {"tpu_name": None}, "is for {tpu_name}", "give both, or leave it out", **_ANY),
    # Evaluations in training.
    *_rows("eval_steps", {"do_eval": False}, "says when to evaluate", "give {do_eval} as well, or leave it out"),
    *_rows("metric", {"do_eval": False}, "is for evaluations", "give {do_eval} as well, or leave it out"),
    *_rows(
        "eval_file",
        {"do_eval": False, "program": "run_pretraining"},
        "says what to evaluate on",
        "give {do_eval} as well, or leave it out",
    ),
    *_rows(
        "early_stopping",
        {"eval_steps": 0},
        "counts evaluations in training",
        "give {eval_steps} as well, or leave it out",
    ),
    # The weights that training starts from and changes.
    *_rows(
        "allow_partial_checkpoint",
        {"init_checkpoint": None},
        "accepts an {init_checkpoint} that lacks weights",
        "give that as well, or leave it out",
    ),
    *_rows("new_head", {"init_checkpoint": None}, "is for an {init_checkpoint}; without one, all weights are random"),
    *_rows("new_head", {"has_head": False}, "is for the head of a task, but this one has none"),
    *_rows("freeze_layers", _UNCHANGED, "freezes the first layers, but {0}"),
    *_rows("layer_decay", _UNCHANGED, "changes the rates of the layers, but {0}", harmless=1.0),
    *_rows("lora_rank", _UNCHANGED, "adapts the layers, but {0}"),
    *_rows("recompute", _UNCHANGED, "is for the gradients of the layers, but {0}"),
    *_rows(
        "layer_decay",
        _ALL_FROZEN,
        "changes the rates of the layers, but {freeze_layers} freezes all of them",
        harmless=1.0,
    ),
    *_rows(
        "lora_rank",
        _ALL_FROZEN,
        "adapts the layers, but {freeze_layers} freezes all of them",
        "freeze fewer layers, or leave one of the two out",
    ),
    *_rows("recompute", _ALL_FROZEN, "is for the gradients of the layers, but {freeze_layers} freezes all of them"),
    *_rows(
        "freeze_layers",
        _ALL_FROZEN | {"has_head": False},
        "freezes all weights that the loss depends on",
        "freeze fewer layers",
    ),
    *_rows(
        "freeze_layers", {"frozen": "embeddings", "has_lora": True}, "freezes only the embeddings, as {lora_rank} does"
    ),
    *_rows(
        "lora_alpha lora_targets", {"lora_rank": 0}, "is for LoRA", "give {lora_rank} as well, or leave it out", **_ANY
    ),
    # The losses.
    *_rows("pack", {"cannot_pack": Other("")}, "puts several examples into a row, but {0}", harmless=False),
    *_rows("label_smoothing", {"cannot_smooth": Other("")}, "spreads labels over classes, but {0}"),
    *_rows(
        "class_weights",
        {"kind": {"regression", "multi_label", "multiple_choice"}},
        "is for data with one label each, but these are {0}",
    ),
    *_rows(
        "label_smoothing class_weights",
        {"label_loss_weight": 0.0, "teacher": Other(None)},
        "is for the loss of the labels, but {label_loss_weight} is 0",
    ),
    *_rows(
        "label_loss_weight label_smoothing class_weights",
        {"has_labels": False},
        "is for the loss of the labels, but no training example has a label",
        harmless=0.0,
    ),
    *_rows("eval_share", {"has_labels": False}, "holds out examples with labels, but no training example has a label"),
    *_rows("scale", {"kind": "scores"}, "is for the ranking loss, but pairs with scores have another loss"),
    *_rows(
        "max_score",
        {"kind": {"pairs", "texts", "classes"}},
        "is for pairs with scores, but {train_file} has no scores",
    ),
    # Distillation.
    *_rows(_OF_TEACHER, {"teacher": None}, "needs {do_train} and {teacher}", "give both, or leave it out", **_ANY),
    *_rows(
        f"teacher {_OF_TEACHER}",
        {"do_train": False},
        "needs {do_train} and {teacher}",
        "give both, or leave it out",
        **_ANY,
    ),
    *_rows("teacher", _OTHER_OBJECTIVES, "teaches masked LM, and {objective}={0} has another loss"),
    *_rows("temperature", {"soft_loss_weight": 0.0}, "is for the soft loss, but {soft_loss_weight} is 0"),
    *_rows(
        "calibrate",
        {"kind": {"regression", "multiple_choice"}},
        "divides the logits of classes, but {kind} is {0}",
    ),
    *_rows(
        "calibrate", {"has_lora": True}, "changes the weights of the head, which {lora_rank} keeps in a file of its own"
    ),
    *_rows("calibrate", {"has_labels": False}, "needs labelled examples to hold out"),
    *_rows("temperature", {"kind": "regression"}, "divides the logits of classes, but a regression has none"),
    *_rows(
        "teacher_layers",
        {"hidden_loss_weight": 0.0, "attention_loss_weight": 0.0},
        "is for {hidden_loss_weight} and {attention_loss_weight}",
        "give one of them, or leave it out",
    ),
    # Pre-training.
    *_rows(
        "pack",
        {"use_tpu": True, "program": "run_pretraining"},
        "gives each batch a different number of rows, but a TPU needs the same number in every batch",
        **_ANY,
    ),
    *_rows(
        "pack",
        {"jit": True, "program": "run_pretraining"},
        "gives each batch a different number of rows, and {jit} compiles again for each number",
        "leave one of the two out",
        **_ANY,
    ),
    *_rows(
        "generator_size replaced_token_loss_weight",
        {"objective": Other("electra")},
        "needs {objective}=electra",
        "give both, or leave it out",
        **_ANY,
    ),
    *_rows(
        "next_sentence_loss_weight",
        _OTHER_OBJECTIVES,
        "is for the sentence task, but {objective}={0} has no sentence task",
        harmless=0.0,
        **_ANY,
    ),
    *_rows(
        "next_sentence_loss_weight",
        {"has_sentence_task": False},
        "is for the sentence task, but the records have no sentence task",
        harmless=0.0,
    ),
    # The data.
    *_rows(
        f"kind {COLUMNS} eval_share tfds_eval_split tfds_predict_split",
        {"source": "task_name"},
        "does not apply to the data of {task_name}",
        **_ANY,
    ),
    *_rows("xnli_language", {"data_name": Other("xnli")}, "is for {task_name}=xnli", **_ANY),
    *_rows(
        "choice_columns eval_share skip_bad_rows has_header",
        {"source": "tfds"},
        "does not apply to the data of {tfds}",
        **_ANY,
    ),
    *_rows(
        "data_dir tfds_eval_split tfds_predict_split",
        {"source": "your own files"},
        "does not apply to your own files",
        **_ANY,
    ),
    *_rows(
        "label_separator",
        {"source": Other("task_name"), "kind": Other("multi_label")},
        "is for {kind}=multi_label, but it is {1}",
        **_ANY,
    ),
    *_rows(
        "choice_columns",
        {"source": Other("task_name"), "kind": Other("multiple_choice")},
        "is for {kind}=multiple_choice, but it is {1}",
        **_ANY,
    ),
    *_rows("seed", {"contrastive_epochs": 0}, "is for {contrastive_epochs}, which is {0}"),
    *_rows(
        "eval_share class_weights calibrate",
        {"program": "run_few_shot", "train_file": None},
        "is for the examples of {train_file}",
        "give both, or leave it out",
    ),
    *_rows(
        "num_mined_negatives",
        {"mine_negatives": None},
        "is for {mine_negatives}",
        "give both, or leave it out",
    ),
    *_rows(
        "word_column tag_column",
        {"without_columns": Other("")},
        "is for files of columns, but {0} are JSON lines",
        **_ANY,
    ),
    *_rows(
        "null_score_diff_threshold",
        {"version_2_with_negative": False, "program": "run_squad"},
        "is for questions without an answer",
        "give {version_2_with_negative} as well, or leave it out",
        **_ANY,
    ),
)


def check_effects(
    settings: RunSettings, given: Set[str], facts: Mapping[str, Any], table: Sequence[NoEffect] = NO_EFFECT
) -> None:
    """Refuses settings that would have no effect.

    A row of the table whose condition names something that is neither a setting of the program nor among the facts does
    not count. So programs check as soon as they can, and again when they know more.

    Args:
        given: names of the flags that the command line has. In training, a setting also counts as given if it has
            another value than its default, because it may come from a run_config.json.
        facts: what is known about the run besides its settings: "program"; "source" of the data of
            run_classifier, and their "data_name"; "kind" of the data or labels; "has_labels", whether a training
            example has one; "frozen", the layers that --freeze_layers freezes: "none", "embeddings", "some" or "all";
            "has_lora"; "has_head", whether the network has weights above the encoder; "unchanged_encoder",
            "cannot_pack", "cannot_smooth" and "without_columns", each a reason or empty; "has_sentence_task", whether
            the records have it.
    """
    values, defaults = values_of(settings), {field.name: field.default for field in setting_fields(settings)}
    known = {**values, **facts}
    for row in table:
        value, default = values.get(row.setting, row.harmless), defaults.get(row.setting)
        is_given = row.setting in given or (settings.do_train and row.setting in values and value != default)
        is_off = value == row.harmless or (not value and value == default)
        if not is_given or is_off or (row.in_training and not settings.do_train):
            continue
        if all(name in known and _fits(known[name], wanted) for name, wanted in row.when.items()):
            values = [known[name] for name in row.when]
            raise Mistake("{} {}; {}", Setting(row.setting), Message(row.reason, *values), Message(row.remedy))


def _fits(value: object, wanted: object) -> bool:
    if isinstance(wanted, Other):
        return value != wanted.than
    return value in wanted if isinstance(wanted, set) else value == wanted
