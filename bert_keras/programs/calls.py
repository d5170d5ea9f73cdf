"""Runs a training program from Python: settings from arguments, data from memory, and the result as an object."""

import contextlib
import dataclasses
import gc
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from typing import IO, Any, Generic, ParamSpec, TypeVar, cast

import rich.console
import tensorflow as tf

from bert_keras.cli.console import LogHandler, Messages
from bert_keras.cli.flags import local_paths
from bert_keras.engine.given_settings import over_run
from bert_keras.engine.report import Callbacks, in_words
from bert_keras.mistakes import Mistake, Spelling, setting_name
from bert_keras.programs.command import PROGRAMS
from bert_keras.programs.data import DataFiles
from bert_keras.runs.metrics_log import METRICS_FILE, read_metrics
from bert_keras.runs.run_dir import RUN_CONFIG, read_run_config
from bert_keras.settings.fields import Settings, setting_fields
from bert_keras.settings.groups import RunSettings
from bert_keras.storage import paths
from bert_keras.tasks.dry_run.look import check_files, has_look

log = logging.getLogger("bert_keras")

P = ParamSpec("P")
T = TypeVar("T")
# The class that answers with a trained model.
Opened = TypeVar("Opened")

_DATA = ("train_file", "eval_file", "predict_file", "unlabeled_file", "input_file")


@dataclasses.dataclass(frozen=True, repr=False)
class TrainedModel(Generic[Opened]):
    """The result of a call that trains, evaluates or predicts.

    Attributes:
        folder: the run folder, an absolute path.
        program: the program that does the same on the command line, such as "run_classifier".
        metrics: the metrics of the model by name; None without evaluation data, or if a signal ended training.
        predictions: the answers to `predict_data`, else None. Of `train_classifier` and `train_few_shot`: a list of
            dicts with "prediction", the class or number, and for classes "probability of NAME". Of `train_ner`: a list
            of dicts with "words", "predicted_tags" and "confidences"; None for a file of columns. Of `train_reranker`:
            a list of the scores. Of `train_squad`: a dict of the answers by id.
    """

    folder: str
    program: str
    metrics: Mapping[str, float] | None = None
    predictions: Any = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the training run by name, as in its run_config.json."""
        return read_run_config(paths.join(self.folder, RUN_CONFIG))["settings"]

    @property
    def labels(self) -> list[str]:
        """The labels of the model, of `train_ner` its tags, in the order of their ids; empty for tasks without any."""
        from bert_keras.model_folder.folder import ModelFolder  # --help does not need it

        return list((ModelFolder(self.folder).task or {}).get("labels", ()))

    @property
    def history(self) -> list[dict[str, Any]]:
        """The rows of metrics.csv: dicts with "step", "split" ("train" or "eval") and the metrics.

        After a search over several settings or seeds it is empty: each try has its own folder in `tries/`.
        """
        rows = read_metrics(paths.join(self.folder, METRICS_FILE))
        return [
            {name: _VALUES.get(name, float)(value) for name, value in row.items() if name is not None and value}
            for row in rows
        ]

    def predictor(self, **options: Any) -> Opened:
        """Opens the model for prediction: with `open_model`, or with `FillMask` after pre-training.

        `options` are arguments of the class, such as `batch_size`. A type checker takes a model of `train_classifier`
        for one that gives a text one class. For another kind, write `open_model(trained.folder, task="regression")`.
        """
        from bert_keras.prediction import FillMask, open_model

        return cast(Any, FillMask if self.program == "run_pretraining" else open_model)(self.folder, **options)

    def __repr__(self) -> str:
        from bert_keras.model_folder.folder import ModelFolder  # --help does not need it

        return ModelFolder(self.folder).describe(
            "TrainedModel", in_words(self.metrics) if self.metrics else "no metrics"
        )


_VALUES = {"step": int, "split": str}


@dataclasses.dataclass(frozen=True)
class Data:
    """The arguments of every function that need no name."""

    train_data: Any = None
    eval_data: Any = None


@dataclasses.dataclass(frozen=True)
class PredictedData(Data):
    """The same for functions that also predict."""

    predict_data: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of every function that are not settings or have another type, for `takes`."""

    output_dir: str | os.PathLike[str]
    init_checkpoint: str | os.PathLike[str] | None = None
    on_step: Callable[[int, dict[str, float]], Any] | None = None
    on_evaluation: Callable[[int, dict[str, float]], Any] | None = None
    on_save: Callable[[int, str], Any] | None = None
    verbose: bool = True


def takes(arguments: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Gives a function the signature of a dataclass, whose fields are its arguments.

    Not so the fields of settings that are no `setting`, which a run decides itself.
    """
    group = cast(Any, arguments)
    bases = [base for base in group.__mro__ if base.__module__ in (group.__module__, __name__)]
    names = {name for base in bases for name in vars(base).get("__annotations__", ())}
    names |= {field.name for field in setting_fields(group)}

    def decorate(function: Any) -> Any:
        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(arguments)
        parameters = [argument for name, argument in signature.parameters.items() if name in names]
        function.__signature__ = signature.replace(parameters=parameters, return_annotation=returned)
        return function

    return decorate


def call(
    name: str,
    arguments: dict[str, Any],
    prepare: Callable[[str, str, Any, DataFiles], str] = lambda path, name, settings, files: path,
    **data: Any,
) -> TrainedModel[Any]:
    """Runs a training program.

    Args:
        name: of the program.
        arguments: its settings, and those of `Arguments`.
        prepare: takes a path, the name of the data, the settings and the files of the call; returns the path to read.
        data: by the names of their flags, such as "train_file": paths, in memory, or None.
    """
    program = PROGRAMS[name]
    callbacks = Callbacks(*(arguments.pop(name, None) for name in ("on_step", "on_evaluation", "on_save")))
    verbose = arguments.pop("verbose", True)
    data = {flag: content for flag, content in data.items() if content is not None}
    for flag in data:
        if arguments.get(flag) is not None:
            raise TypeError(f"{program.function}() got {argument_name(flag)} and {flag}; give one of them")
    if program_settings := [field.name for field in program.instead if field.name in arguments]:
        raise TypeError(f'{program.function}() has no setting "{program_settings[0]}"; only {program.name}.py has it')
    arguments = {name: value for name, value in arguments.items() if value is not None}
    if not arguments.get("output_dir"):
        raise TypeError(f"{program.function}() needs output_dir, the folder of the run")
    folder = local_paths(paths.as_text(arguments["output_dir"]), "output_dir")
    files = DataFiles(folder)
    with naming_arguments(argument_name, verbose) as console:
        arguments = {**actions_of(program.settings, {*arguments, *data}), **arguments, "output_dir": folder}
        settings = program.settings.from_arguments(program.function, arguments)
        if isinstance(settings, RunSettings):
            settings = over_run(settings, name)
        contents = {flag: _content(flag, content, program.load().to_file) for flag, content in data.items()}
        try:
            given = {
                flag: prepare(files.add(argument_name(flag), content), argument_name(flag), settings, files)
                for flag, content in contents.items()
            }
            settings = settings.with_arguments(program.function, given)
            if has_look(name):
                check_files(name, settings)
            result = program.load().open_run(settings, console, callbacks).execute()
        except BaseException:
            files.remove_unused()
            raise
    folder = folder if paths.is_remote(folder) else os.path.abspath(folder)
    return TrainedModel(folder, name, result.metrics, result.predictions)


def actions_of(group: type[Settings], given: Set[str]) -> dict[str, bool]:
    """Returns the actions that follow from the data; arguments override them."""
    actions = {
        "do_train": bool({"train_file", "input_file", "unlabeled_file", "class_names"} & given),
        "do_eval": "eval_file" in given or {"eval_share", "train_file"} <= given,
        "do_predict": "predict_file" in given,
    }
    known = {field.name for field in setting_fields(group)}
    return {name: True for name, is_meant in actions.items() if is_meant and name in known}


def _content(flag: str, data: Any, to_file: Callable[[Any, str], tuple[bytes, str]]) -> str | tuple[bytes, str]:
    """Returns a path, or for data in memory the content of a file and the ending of its name."""
    if isinstance(data, (str, os.PathLike)):
        return local_paths(os.fspath(data), flag)
    return to_file(data, argument_name(flag))


def argument_name(setting: str) -> str:
    """Returns the name of a setting for the caller of a function: train_data for train_file and input_file."""
    if setting in _DATA:
        return "train_data" if setting == "input_file" else setting.replace("_file", "_data")
    if setting in ("do_train", "do_eval", "do_predict"):  # the data imply these
        return f"{setting.removeprefix('do_')}_data (or {setting})"
    return setting_name(setting)


@contextlib.contextmanager
def naming_arguments(spelling: Spelling, verbose: bool) -> Iterator[rich.console.Console]:
    """Spells settings in errors and in the log; at the end, restores what a run sets for the whole process.

    Yields a console, which shows the log if `verbose`.
    """
    logging_before = log.handlers[:], log.propagate, log.level
    tf_log, tf_level = tf.get_logger(), tf.get_logger().level
    tf_log.setLevel(logging.WARNING)  # in a notebook it would be INFO
    is_tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
    jax: Any = sys.modules.get("jax")
    precision = jax and jax.config.jax_default_matmul_precision
    # In a notebook, plain text: rich's own display would need ipywidgets, and the kernel pretends to be a terminal.
    stream = cast(IO[str], Messages("stdout", is_of_program=False))
    console = rich.console.Console(
        file=stream, force_jupyter=False, force_terminal=sys.stdout.isatty(), quiet=not verbose
    )
    log.handlers = [handler for handler in log.handlers if not isinstance(handler, LogHandler)]
    if verbose:
        log.addHandler(LogHandler(console, spelling))
        log.setLevel(logging.INFO)
        log.propagate = False
    try:
        yield console
    except Mistake as error:
        error.spell(spelling)
        raise
    finally:
        log.handlers, log.propagate = logging_before[:2]
        log.setLevel(logging_before[2])
        tf_log.setLevel(tf_level)
        tf.config.experimental.enable_tensor_float_32_execution(is_tf32)
        if jax:
            jax.config.update("jax_default_matmul_precision", precision)
        # Reference cycles in Keras and TensorFlow would keep the network and Adam's moments in memory.
        gc.collect()
