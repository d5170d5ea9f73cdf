"""`export_model`, and what export_model.py does."""

import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from bert_keras import prediction
from bert_keras.cli.flags import require, take_values
from bert_keras.export.checks.texts import read_check_texts
from bert_keras.export.choices import check_formats, check_packages, quantization_of
from bert_keras.export.export_folder import write_export
from bert_keras.export.formats.web_runtime import find_package
from bert_keras.export.run_folder import name_of, read_run, reopen_evaluation
from bert_keras.export.settings import CASING, OF_PRETRAINED, OF_TASK, Export, define_flags
from bert_keras.export.source import Source
from bert_keras.mistakes import MissingFile, Mistake, Setting
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.model_folder.tasks import PRETRAINED_TASKS, TASKS
from bert_keras.prediction import FeatureExtractor, open_model
from bert_keras.prediction.arguments import parse_layers
from bert_keras.programs.calls import naming_arguments, takes
from bert_keras.settings.model_files import ModelSettings
from bert_keras.settings.names import setting_name
from bert_keras.storage import paths
from bert_keras.storage.checks import check_new_folder
from bert_keras.storage.writing import whole_folder

log = logging.getLogger("bert_keras")


def run(values: flags.FlagValues) -> dict[str, Any]:
    """Runs export_model.py with parsed flags; returns the content of export.json."""
    _check_flags(values)
    model, settings = ModelFolder(values.init_checkpoint), {"task": values.task}
    if values.model_dir:
        model = ModelFolder(values.model_dir, task=values.task, is_pair=values.is_pair)
        settings = model.settings
        if settings["task"] in PRETRAINED_TASKS:
            raise Mistake("{model_dir}={} is a pre-trained model; give it as {init_checkpoint}", values.model_dir)
    texts = read_check_texts(values.check_file, settings) if values.check_file else None
    web_package = find_package(values.onnxruntime_web) if "web" in values.format else None
    source = _open_fine_tuned(values, model) if values.model_dir else _open_pretrained(values, model)
    with whole_folder(values.export_dir, last=("export.json",)) as folder:
        written = write_export(source, folder, values.format, values.quantize, texts, web_package)
    log.info("the export is in %s; its README.md shows how to call it", values.export_dir)
    return written


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Required:
    export_dir: str | os.PathLike[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Arguments(_Required, Export, ModelSettings):
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
    values = define_flags()
    settings |= {"model_dir": model_dir, "export_dir": export_dir}
    with naming_arguments(setting_name, verbose):
        take_values(values, settings, "export_model")
        return run(values)


def _check_flags(values: flags.FlagValues) -> None:
    """Refuses invalid flags before a model is loaded."""
    require(values, ("export_dir",))
    if values.model_dir and values.init_checkpoint:
        raise Mistake("there are both {model_dir} and {init_checkpoint}; give one of them")
    if values.model_dir:
        if wrong := [Setting(name) for name in OF_PRETRAINED if values[name].present]:
            raise Mistake("{}: a fine-tuned model sets this; leave it out with {model_dir}", wrong)
        if ModelFolder(values.model_dir).is_export:
            raise Mistake("{model_dir}={} is an export already; give the run that it was made from", values.model_dir)
    else:
        if not values.init_checkpoint:
            raise Mistake("missing: {model_dir}, or {init_checkpoint} and {task} ({help} says what each is for)")
        require(values, ("task",))
        if values.task not in OF_TASK or values.is_pair is not None:
            raise Mistake("{task}={} is for fine-tuned models; give one as {model_dir}", values.task)
        if values.eval_file:
            raise Mistake("{eval_file} is for fine-tuned models, which have a metric; leave it out")
        for task in set(OF_TASK) - {values.task}:
            if wrong := [name for name in OF_TASK[task] if values[name].present]:
                raise Mistake("{} is for {task}={}; leave it out for {task}={}", Setting(wrong[0]), task, values.task)
    check_new_folder(values.export_dir, "export_dir")
    check_formats(values.format, values.quantize)
    if values.onnxruntime_web and "web" not in values.format:
        raise Mistake("{onnxruntime_web} is for {format}=web; leave it out")
    if values.eval_file and not _quantizes(values):
        raise Mistake("{eval_file} measures the cost of {quantize}; leave it out, or give {quantize}")
    if values.check_file and "saved_model" not in values.format:
        raise Mistake("{check_file} has texts, and only a SavedModel takes text; leave it out")
    if values.eval_file and not paths.exists(values.eval_file):
        raise MissingFile("{eval_file}={} does not exist; give the path of a file", values.eval_file)
    check_packages(values.format)


def _open_fine_tuned(values: flags.FlagValues, model: ModelFolder) -> Source:
    """Opens a model, and for --quantize the evaluation data of its run."""
    run = read_run(model.folder, model.settings.get("step"))
    if values.quantize and _quantizes(values) and run is None:
        raise Mistake(
            "{quantize} measures its cost with the settings of the run that wrote the model, but for {} that "
            "run was not found; give its {output_dir} as {model_dir}, or if it is that, run its command "
            "again first",
            model.folder,
        )
    predictor = open_model(model)
    task = reopen_evaluation(run, model.settings, model, values.eval_file) if run and _quantizes(values) else None
    return Source(name_of(values.model_dir), predictor, model.settings, run, task)


def _quantizes(values: flags.FlagValues) -> bool:
    """Returns whether a format stores its weights in less than 32 bits."""
    return any(quantization_of(name, values.quantize) for name in values.format)


def _open_pretrained(values: flags.FlagValues, model: ModelFolder) -> Source:
    """Opens a pre-trained model for --task."""
    length = values.max_seq_length
    options: dict[str, Any] = {name: values[name].value for name in ("vocab_file", *CASING)}
    options["config_file"] = values.bert_config_file
    if values.task != "vectors":
        settings = {name: values[name].value for name in OF_TASK[values.task]}
        predictor = getattr(prediction, TASKS[values.task].predictor)(model, **settings, **options)
    else:
        layers = parse_layers(values.layer, "layer")
        if len(layers) != 1:
            raise Mistake("{layer}={} has {} layers; an export has one, so give one", values.layer, len(layers))
        predictor = FeatureExtractor(model, layers, values.pooling, length, **options)
        settings = {"pooling": values.pooling, "layer": layers[0]}
    longest = predictor.files.preparation.longest
    if length is not None and length > longest:
        raise Mistake("{max_seq_length}={} is more than the {} tokens that the model takes; give less", length, longest)
    settings = {"task": values.task, "max_seq_length": length or longest, **settings}
    return Source(paths.name(paths.real(values.init_checkpoint)), predictor, settings)
