"""Completes the settings of a command or a call: those of an earlier run, absolute paths, the precision."""

import dataclasses
import logging
import os
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from bert_keras.cli.flags import is_path
from bert_keras.mistakes import Mistake
from bert_keras.runs.run_dir import MODEL_DIR, RUN_CONFIG, RunDir, read_run_config
from bert_keras.settings.devices import Devices
from bert_keras.settings.fields import setting_fields
from bert_keras.settings.groups import RunSettings
from bert_keras.storage.paths import is_file, is_remote, join, real

log = logging.getLogger("bert_keras")

S = TypeVar("S", bound=RunSettings)
_DEVICES = {field.name for field in setting_fields(Devices)}
_ACTIONS = {"do_train", "do_eval", "do_predict"}


def over_run(settings: S, program: str) -> S:
    """Returns the settings over those of `run_config`, or without training over those of the run in the output folder.

    Settings of devices stay.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: another program wrote the file or the folder, or it has a setting that this program does not know or
            accept.
    """
    if settings.run_config:
        return _over_file(settings, settings.run_config, program)
    path = settings.output_dir and join(settings.output_dir, RUN_CONFIG)
    if not path or settings.do_train or not is_file(path):
        return settings
    # The actions of the earlier command are not those of this one.
    RunDir(settings.output_dir, program)  # refuses the folder of another program
    completed = _over_file(settings, path, program, _ACTIONS)
    if completed != settings:
        log.info("settings that were not given are taken from the run in %s", settings.output_dir)
    return completed


def _over_file(settings: S, path: str, program: str, without: Collection[str] = ()) -> S:
    config = read_run_config(path)
    if config["program"] != program:
        raise Mistake("{run_config}={} is from {}; give one from {}", path, config["program"], program)
    left_out = {*_DEVICES, *without}
    return settings.over({name: value for name, value in config["settings"].items() if name not in left_out}, path)


def check_given_checkpoint(settings: RunSettings, program: str) -> None:
    """Refuses an --init_checkpoint that a command without training would not use, because the folder holds a run.

    Raises:
        FileNotFoundError: the checkpoint does not exist.
        ValueError: it is not the model of the run in --output_dir.
    """
    given = settings.init_checkpoint
    if settings.do_train or not given or "init_checkpoint" not in settings.given or not settings.output_dir:
        return
    run_dir = RunDir(settings.output_dir, program)
    used = run_dir.in_use()
    if used is None:
        return
    is_own = False
    if not given.startswith("hf://"):
        from bert_keras.model_folder.folder import ModelFolder  # --help does not need it

        prefix = ModelFolder(given).need_checkpoint().prefix
        # The run's checkpoint of the same step has the weights of its model.
        name = f"model.ckpt-{used.latest_step()}"
        is_own = real(prefix) in {real(folder.file(name)) for folder in (run_dir, run_dir.within(MODEL_DIR))}
    if not is_own:
        raise Mistake(
            "{output_dir}={} holds a run with a model of its own, so {init_checkpoint}={} would not be used; "
            "give another {output_dir} to use that checkpoint, or leave it out to use the run's",
            settings.output_dir,
            given,
        )


def completed(settings: S, path_lists: Sequence[str] = ()) -> S:
    """Returns the settings with absolute paths; `precision` is never "auto", and `num_tpu_cores` only what was given.

    Args:
        settings: those of a command, see `over_run`.
        path_lists: names of settings that hold comma-separated paths and globs.
    """
    # These load TensorFlow, which the other functions do not need.
    from bert_keras.engine.distribution.tpu import check_run
    from bert_keras.engine.precision import take_precision
    from bert_keras.modeling.config import released_names

    if "num_tpu_cores" not in settings.given:
        settings = dataclasses.replace(settings, num_tpu_cores=None)
    names = {field.name for field in setting_fields(settings) if is_path(field.name)}
    if getattr(settings, "bert_config_file", None) in released_names():
        names.remove("bert_config_file")
    settings = with_absolute_paths(settings, names, path_lists)
    check_run(settings)
    return take_precision(settings)


def with_absolute_paths(settings: S, names: Iterable[str], path_lists: Collection[str] = ()) -> S:
    """Returns settings in which those of `names` that are paths are absolute; see `completed` for `path_lists`."""
    changes = {}
    for name in names:
        path = getattr(settings, name, None)
        if path and isinstance(path, str):
            parts = [part.strip() for part in path.split(",")] if name in path_lists else [path]
            changes[name] = ",".join(part if not part or is_remote(part) else os.path.abspath(part) for part in parts)
    return dataclasses.replace(settings, **changes)
