"""`export_model`, and what export_model.py does."""

import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import Any

from bert_keras.cli.flags import require
from bert_keras.export.checks.texts import read_check_texts
from bert_keras.export.choices import check_formats, check_packages, is_calibrated, quantization_of
from bert_keras.export.export_folder import write_export
from bert_keras.export.formats.web import code_of_task
from bert_keras.export.formats.web_runtime import find_package
from bert_keras.export.run_folder import name_of, read_run, reopen_evaluation, run_with_defaults, training_features
from bert_keras.export.settings import CASING, PRETRAINED_SETTINGS, TASK_SETTINGS, Export
from bert_keras.export.source import Source
from bert_keras.mistakes import MissingFile, Mistake, Setting, setting_name
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling.checkpoints.hugging_face_task import OpenQuestion
from bert_keras.prediction import open_model
from bert_keras.programs.calls import naming_arguments, takes
from bert_keras.storage import paths
from bert_keras.storage.checks import check_new_folder, refuse_fine_tuned
from bert_keras.storage.writing import whole_folder
from bert_keras.tasks import ability_of, graph_of, predictor_of, settings_of

log = logging.getLogger("bert_keras")

_COST_SETTINGS = ("eval_file", "max_loss")


def run(options: Export) -> dict[str, Any]:
    """Runs export_model.py with its settings; returns the content of export.json."""
    options = _with_own_settings(options)
    _check_flags(options)
    model, settings = ModelFolder(options.init_checkpoint), {"task": options.task}
    if options.model_dir:
        given = {name: getattr(options, name) for name in ("task", "is_pair", "words")}
        model = ModelFolder(options.model_dir, **given)
        settings = settings_of(model)
        if not ability_of(settings["task"]).is_fine_tuned:
            raise Mistake("{model_dir}={} is a pre-trained model; give it as {init_checkpoint}", options.model_dir)
        _check_task(options, settings["task"])
    texts = read_check_texts(options.check_file, settings) if options.check_file else None
    web_package = find_package(options.onnxruntime_web) if "web" in options.format else None
    source = _open_fine_tuned(options, model) if options.model_dir else _open_pretrained(options, model)
    with whole_folder(options.export_dir, last=("export.json",)) as folder:
        written = write_export(source, folder, options.format, options.quantize, options.max_loss, texts, web_package)
    log.info("the export is in %s; its README.md shows how to call it", options.export_dir)
    return written


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Required:
    export_dir: str | os.PathLike[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Arguments(_Required, Export):
    """The arguments of `export_model`."""

    model_dir: str | os.PathLike[str] | None = dataclasses.field(default=None, kw_only=False)
    init_checkpoint: str | os.PathLike[str] | None = None
    format: str | Sequence[str] = ("saved_model",)
    verbose: bool = True


@takes(_Arguments)
def export_model(
    model_dir: str | os.PathLike[str] | None = None,
    *,
    export_dir: str | os.PathLike[str],
    verbose: bool = True,
    **settings: Any,
) -> dict[str, Any]:
    """Exports a model for use without this project, as export_model.py does.

    Args:
        model_dir: a fine-tuned model, such as `TrainedModel.folder`. For a pre-trained model, give the settings
            `init_checkpoint` and `task` instead.
        export_dir: the folder to write, new or empty.
        verbose: whether to print the log.
        settings: the other flags of export_model.py, by name, such as `format=["onnx", "litert"]`.

    Returns:
        The content of export.json, a dict.

    Raises:
        TypeError: a setting does not exist.
        ValueError, OSError: as the program reports them.
    """
    settings |= {"model_dir": model_dir, "export_dir": export_dir}
    with naming_arguments(setting_name, verbose):
        return run(Export.from_arguments("export_model", settings))


def _with_own_settings(options: Export) -> Export:
    """Returns the settings with a model that has the pooling of its vectors as {model_dir}, unless others are given."""
    if not options.init_checkpoint or options.model_dir or options.task != "vectors":
        return options
    try:
        own = ModelFolder(options.init_checkpoint).with_answer("vectors").task or {}
    except OpenQuestion:  # it may be any model with an encoder
        return options
    if own.get("task") != "vectors" or {"pooling", "layer"} & options.given:
        return options
    return dataclasses.replace(options, model_dir=options.init_checkpoint, init_checkpoint=None)


def _check_flags(options: Export) -> None:
    """Refuses invalid flags before a model is loaded."""
    require(options, ("export_dir",))
    if options.model_dir and options.init_checkpoint:
        raise Mistake("there are both {model_dir} and {init_checkpoint}; give one of them")
    if options.model_dir:
        if wrong := [Setting(name) for name in PRETRAINED_SETTINGS if name in options.given]:
            raise Mistake("{}: the model sets this itself; leave it out", wrong)
        if ModelFolder(options.model_dir).is_export:
            raise Mistake("{model_dir}={} is an export already; give the run that it was made from", options.model_dir)
    else:
        if not options.init_checkpoint:
            raise Mistake("missing: {model_dir}, or {init_checkpoint} and {task} ({help} says what each is for)")
        if options.task is None:
            refuse_fine_tuned(options.init_checkpoint)
        require(options, ("task",))
        if options.task not in TASK_SETTINGS or (options.is_pair, options.words) != (None, None):
            raise Mistake("{task}={} is for fine-tuned models; give one as {model_dir}", options.task)
        if wrong := [Setting(name) for name in _COST_SETTINGS if name in options.given]:
            raise Mistake("{} is for fine-tuned models, which have a metric; leave it out", wrong[0])
        for task in set(TASK_SETTINGS) - {options.task}:
            if wrong := [name for name in TASK_SETTINGS[task] if name in options.given]:
                raise Mistake("{} is for {task}={}; leave it out for {task}={}", Setting(wrong[0]), task, options.task)
    check_new_folder(options.export_dir, "export_dir")
    check_formats(options.format, options.quantize)
    if options.onnxruntime_web and "web" not in options.format:
        raise Mistake("{onnxruntime_web} is for {format}=web; leave it out")
    wrong = [Setting(name) for name in _COST_SETTINGS if name in options.given]
    if wrong and not _quantizes(options):
        raise Mistake("{} is for the cost of {quantize}; leave it out, or give {quantize}", wrong[0])
    if options.check_file and "saved_model" not in options.format:
        raise Mistake("{check_file} has texts, and only a SavedModel takes text; leave it out")
    if options.eval_file and not paths.exists(options.eval_file):
        raise MissingFile("{eval_file}={} does not exist; give the path of a file", options.eval_file)
    check_packages(options.format)


def _check_task(options: Export, task: str) -> None:
    """Refuses what only the tasks of the project have."""
    if graph_of(task) is None and "saved_model" in options.format:
        raise Mistake("{format} has saved_model, but the task {} has no text model (`graph`); give other formats", task)
    if "web" in options.format and not code_of_task(task).is_file():
        raise Mistake("{format} has web, but the task {} has no JavaScript; give other formats", task)
    if ability_of(task).is_added and _quantizes(options):
        raise Mistake(
            "fewer bits have a cost, and no program evaluates the task {} again to measure it; give {quantize}=float32",
            task,
        )


def _open_fine_tuned(options: Export, model: ModelFolder) -> Source:
    """Opens a model, and for --quantize the evaluation data of its run."""
    run = read_run(model.folder, model.settings.get("step"))
    predictor, task, calibration = open_model(model, precision="float32"), None, None
    if _quantizes(options) and (run or options.eval_file):
        evaluated = run or run_with_defaults(model)
        task = reopen_evaluation(evaluated, model.settings, model, options.eval_file)
        if any(is_calibrated(name, options.quantize) for name in options.format):
            calibration = training_features(evaluated, model.settings, model) or (task and task.eval_features)
    if "max_loss" in options.given and not task:
        raise Mistake("{max_loss} needs evaluation data, and {} has none; give {eval_file}", options.model_dir)
    return Source(name_of(str(options.model_dir)), predictor, model.settings, run, task, calibration)


def _quantizes(options: Export) -> bool:
    """Returns whether a format stores its weights in less than 32 bits."""
    return any(quantization_of(name, options.quantize) for name in options.format)


def _open_pretrained(options: Export, model: ModelFolder) -> Source:
    """Opens a pre-trained model for --task."""
    length = options.max_seq_length
    files: dict[str, Any] = {name: getattr(options, name) for name in ("vocab_file", *CASING)}
    files |= {"config_file": options.bert_config_file, "precision": "float32"}
    settings = {name: getattr(options, name) for name in TASK_SETTINGS[str(options.task)]}
    predictor, settings = predictor_of(str(options.task)).open_pretrained(model, settings, length, **files)
    longest = predictor.files.preparation.longest
    if length is not None and length > longest:
        raise Mistake("{max_seq_length}={} is more than the {} tokens that the model takes; give less", length, longest)
    settings = {"task": options.task, "max_seq_length": length or longest, **settings}
    return Source(paths.name(paths.real(str(options.init_checkpoint))), predictor, settings)
