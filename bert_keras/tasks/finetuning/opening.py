"""Opens a fine-tuning run: its settings, checked, and its model."""

import dataclasses
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import tensorflow as tf

from bert_keras.cli.flags import require
from bert_keras.engine.distribution.devices import part_of_batch
from bert_keras.engine.distribution.jax_processes import connect
from bert_keras.engine.distribution.tpu import check_tpu
from bert_keras.engine.given_settings import check_given_checkpoint, completed, over_run
from bert_keras.mistakes import Message, Mistake, Setting, several
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling.lora import check_lora
from bert_keras.runs.run_dir import RunDir
from bert_keras.settings.fields import setting_fields
from bert_keras.settings.groups import FineTuningSettings, TeacherSettings
from bert_keras.tasks.finetuning.sweep import list_tries
from bert_keras.tasks.finetuning.task import ENCODER_TRAINING_SETTINGS, Task
from bert_keras.tasks.tables.settings import KINDS

if TYPE_CHECKING:
    from bert_keras.tasks.distillation.teacher import Teacher

log = logging.getLogger("bert_keras")

S = TypeVar("S", bound=FineTuningSettings)


@dataclasses.dataclass(frozen=True)
class Opened(Generic[S]):
    """The settings and the model of a fine-tuning program.

    Attributes:
        files: the model to train, evaluate or predict with.
        stored: the task.json of the teacher, or of the model that a run without training uses; None without either.
        teacher: the model of --teacher if the run trains.
    """

    settings: S
    files: ModelFolder
    stored: dict[str, Any] | None
    teacher: "Teacher | None" = None


def open_fine_tuning(
    settings: S,
    program: str,
    tasks: Collection[str],
    settled: Collection[str],
    fixed: Collection[str] = (),
    complete: Callable[[S, dict[str, Any] | None], S] = lambda settings, stored: settings,
) -> Opened[S]:
    """Completes the settings, checks those that all programs share, and opens the model files.

    Args:
        settings: those of the command or the call.
        program: its name.
        tasks: names of the program's tasks in task.json.
        settled: names of settings that default to the value in the task.json of a trained model.
        fixed: settings among `settled` that must not differ from that value.
        complete: takes the settings and the task.json of `Opened`; returns the settings that it decides, too.
    """
    connect(settings)
    check_tpu(settings)
    settings = over_run(settings, program)
    check_given_checkpoint(settings, program)
    names = {field.name for field in setting_fields(settings)}
    actions = [Setting(name) for name in ("do_train", "do_eval", "do_predict") if name in names]
    if not any(getattr(settings, name) for name in actions):
        raise Mistake("nothing to do: give one or more of {}", actions)
    require(settings, ("output_dir",))
    settings = completed(settings)
    _check_choices(settings)
    run_dir = RunDir(settings.output_dir, program)
    files = _trained_model(settings, run_dir, tasks)
    stored = files and files.task
    if files and stored:
        if stored["task"] not in tasks:
            raise Mistake("the model in {} was trained for {}; give one from {}", files.folder, stored["task"], program)
        settings = dataclasses.replace(settings, **_settled(settings, stored, settled, fixed))
    else:
        files = _start(settings)
    settings = _fitting(settings, files)
    teacher = None
    if isinstance(settings, TeacherSettings) and settings.do_train and settings.teacher:
        from bert_keras.tasks.distillation.teacher import open_teacher

        teacher = open_teacher(settings, tasks, files, program, _task_meant(settings, tasks))
        stored = teacher.settings
    settings = complete(settings, stored)
    settings.check_effects()
    return Opened(settings, files, stored, teacher)


def check_model(settings: Any) -> None:
    """Checks, without the files of a run, that its settings fit the model to start from."""
    _fitting(settings, _start(settings))


def _fitting(settings: S, files: ModelFolder) -> S:
    """Returns the settings with a length that the model takes; refuses files and settings that do not fit it."""
    files.check()
    settings = with_length(settings, files)
    if not isinstance(settings, FineTuningSettings):
        return settings
    num_frozen, num_layers = settings.freeze_layers, files.config.num_layers_of_weights
    if num_frozen is not None and num_frozen > num_layers:
        raise Mistake("{freeze_layers}={0}, but the model has {1} layers; give {1} or less", num_frozen, num_layers)
    _check_lora(settings, files.config.hidden_size)
    return settings


def without_effect(task: Task, opened: Opened) -> dict[str, str | Message]:
    """Returns the settings that change nothing in a training run because of its data or its model, with the reasons."""
    settings, num_layers = opened.settings, opened.files.config.num_layers_of_weights
    reasons = dict(task.no_effect)
    if opened.teacher and opened.teacher.cannot_pack:
        reasons.setdefault("pack", opened.teacher.cannot_pack)
    if any("bert/encoder/".startswith(prefix) for prefix in task.frozen):
        for name in ENCODER_TRAINING_SETTINGS:
            reasons.setdefault(name, "this task leaves the encoder as it is")
    elif settings.freeze_layers == num_layers:
        if not task.has_head:
            raise Mistake("{freeze_layers}={} freezes all weights that the loss depends on; give less", num_layers)
        frozen = Message("{freeze_layers}={} freezes all layers", num_layers)
        reasons |= dict.fromkeys(("layer_decay", "lora_rank", "recompute"), frozen)
    if settings.lora_rank:
        reasons["calibrate"] = Message("it changes the weights of the head, which {lora_rank} keeps in another file")
        if settings.freeze_layers == 0:
            reasons["freeze_layers"] = Message("{lora_rank} freezes the embeddings, too")
    if not task.has_head:
        reasons["new_head"] = "this task has no head"
    return reasons


def num_steps_of(num_examples: int, batch_size: int, num_epochs: float) -> int:
    """Returns the number of steps, at least one."""
    if num_steps := int(num_examples / batch_size * num_epochs):
        return num_steps
    raise Mistake(
        "{}, {train_batch_size}={} and {num_train_epochs}={} give no training step; give a "
        "smaller batch, more epochs or more examples",
        several(num_examples, "examples"),
        batch_size,
        num_epochs,
    )


def count_steps(task: Task, settings: S, strategy: tf.distribute.Strategy) -> S:
    """Returns the settings with the numbers of steps; checks the batch size."""
    part_of_batch(settings, strategy)
    batch_size, num_epochs = settings.train_batch_size, settings.num_train_epochs
    num_steps = task.num_steps or settings.max_steps or num_steps_of(task.num_train_examples, batch_size, num_epochs)
    num_warmup_steps = int(num_steps * settings.warmup_proportion)
    return dataclasses.replace(settings, num_train_steps=num_steps, num_warmup_steps=num_warmup_steps)


def with_length(settings: Any, files: ModelFolder) -> Any:
    """Returns the settings with a length that the model has positions for; a given one that is longer is refused."""
    length, longest = settings.max_seq_length, files.config.max_position_embeddings
    if length <= longest:
        return settings
    if "max_seq_length" in settings.given:
        raise Mistake(
            "{max_seq_length}={0} is more than the {1} positions that the model has; give {1} or less", length, longest
        )
    log.info(Message("{max_seq_length}={}, as many as the positions of the model", longest))
    return dataclasses.replace(settings, max_seq_length=longest)


def _check_choices(settings: FineTuningSettings) -> None:
    if not settings.do_train:
        return
    if len(list_tries(settings)) > 1 and not settings.do_eval:
        raise Mistake("several seeds or settings are compared by an evaluation; give {do_eval} as well")
    if settings.max_steps and len(settings.num_train_epochs) > 1:
        raise Mistake(
            "{max_steps}={} replaces the epochs, but {num_train_epochs} has several values; leave out one of the two",
            settings.max_steps,
        )


def _check_lora(settings: FineTuningSettings, hidden_size: int) -> None:
    rank, alpha, targets = settings.lora_rank, settings.lora_alpha, tuple(settings.lora_targets.split(","))
    if rank and settings.do_train and not settings.init_checkpoint:
        raise Mistake("{lora_rank} adapts a pre-trained model; give {init_checkpoint} as well")
    if rank:
        check_lora(rank, rank if alpha is None else alpha, targets, hidden_size, prefix="lora_")


def _trained_model(settings: FineTuningSettings, run_dir: RunDir, tasks: Collection[str]) -> ModelFolder | None:
    """Returns the trained model to use, which has a task; None if the run trains or has none."""
    if settings.do_train:
        return None
    own = run_dir.path if run_dir.in_use() else None
    # A run that was interrupted before it wrote a model uses its own checkpoint, not --init_checkpoint.
    given = settings.init_checkpoint if not run_dir.latest_checkpoint() else None
    answer = _task_meant(settings, tasks)
    models = (ModelFolder(path, **_casing(settings)).with_answer(answer) for path in (own, given) if path)
    return next((model for model in models if model.task), None)


def _task_meant(settings: FineTuningSettings, tasks: Collection[str]) -> str:
    """Returns the task of a model that another library leaves open: {kind}, or the task of the program, answers."""
    kind = getattr(settings, "kind", next(iter(tasks)))
    return KINDS.get(kind, kind)


def _casing(settings: FineTuningSettings) -> dict[str, Any]:
    return {"do_lower_case": settings.do_lower_case, "strip_accents": settings.strip_accents}


def _settled(
    settings: FineTuningSettings, stored: dict[str, Any], settled: Collection[str], fixed: Collection[str]
) -> dict[str, Any]:
    """Returns the values in the task of settings that are not given; refuses other values of fixed ones."""
    for name in (name for name in fixed if name in stored and name in settings.given):
        if getattr(settings, name) != stored[name]:
            raise Mistake(
                "{0}={1}, but the model has the {2} {3}; leave it out",
                Setting(name),
                getattr(settings, name),
                name,
                stored[name],
            )
    return {name: stored[name] for name in settled if stored.get(name) is not None and name not in settings.given}


def _start(settings: FineTuningSettings) -> ModelFolder:
    """Returns the model to start from: for a run folder the best one, which is complete."""
    path = settings.init_checkpoint
    if path is None:
        if not settings.do_train:
            raise Mistake(
                "{output_dir}={} does not contain a model; train one with {do_train}, or give {init_checkpoint}",
                settings.output_dir,
            )
        missing = [Setting(name) for name in ("bert_config_file", "vocab_file") if not getattr(settings, name)]
        if missing:
            raise Mistake(
                "missing: {init_checkpoint}, the model to start from (or, to start from random numbers, {})", missing
            )
    return ModelFolder(path, settings.vocab_file, settings.bert_config_file, **_casing(settings))
