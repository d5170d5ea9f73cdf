"""`--verify`: repeats the last steps of a run, and compares every number with those of its newest checkpoint."""

import contextlib
import dataclasses
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import rich.console

from bert_keras.cli.flags import require
from bert_keras.cli.help import is_path
from bert_keras.engine.distribution.devices import workers_of_tf_config
from bert_keras.engine.report import Callbacks
from bert_keras.mistakes import Message, Mistake, Setting, some_of
from bert_keras.runs.run_dir import RUN_CONFIG, TRIES_FILE, RunDir, read_run_config
from bert_keras.runs.state import RunState, process_changes
from bert_keras.settings.devices import Devices
from bert_keras.settings.fields import setting_fields
from bert_keras.settings.groups import RunSettings
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

# Opens a run of settings, a console and callbacks.
Open = Callable[[Any, rich.console.Console, Callbacks], Any]
# Evaluations and predictions change no weights, so they are left out. Each with the value that leaves it out.
_WITHOUT = {
    "do_eval": False,
    "do_predict": False,
    "eval_steps": 0,
    "early_stopping": 0,
    "metric": None,
    "eval_file": None,
}
_DIFFERENCES_SHOWN = 3


class _Reached(Exception):  # noqa: N818
    """The step to compare is saved."""


def verify_run(settings: RunSettings, program: str, open_run: Open, console: rich.console.Console) -> None:
    """Repeats the last steps of a run in a temporary folder next to it. Raises a `Mistake` if a number differs."""
    require(settings, ("output_dir",))
    if settings.coordinator_address or settings.strategy in ("auto", "multi_worker") and workers_of_tf_config()[0][1:]:
        raise Mistake(
            "{verify} repeats the steps in one process, but this is one of several; start it once, without "
            "{coordinator_address} and the environment variable TF_CONFIG"
        )
    folder = settings.output_dir
    if paths.is_remote(folder):
        raise Mistake("{verify} needs a local folder, but {output_dir} is {}; copy the run, and give the copy", folder)
    folder, config_file = os.path.abspath(folder), os.path.join(folder, RUN_CONFIG)
    if os.path.isfile(os.path.join(folder, TRIES_FILE)):
        raise Mistake("{output_dir}={} has several runs; give the folder of one in {}/tries", folder, folder)
    run_dir = RunDir(folder, program)
    steps = run_dir.undamaged_steps()
    if not os.path.isfile(config_file) or not steps:
        raise Mistake("{output_dir}={} has no run with a checkpoint to compare; give the folder of one", folder)
    before, last = ([0, *steps])[-2:]
    stored = read_run_config(config_file)["settings"]
    left_out = {"output_dir", *(field.name for field in setting_fields(Devices))}
    stored = {name: value for name, value in stored.items() if name not in left_out}
    own = dataclasses.replace(settings, given=frozenset()).over(stored, config_file)
    for name in sorted(settings.given & stored.keys()):
        # Files may have moved; the run compares their content.
        if getattr(settings, name) != getattr(own, name) and not is_path(name):
            raise Mistake(
                "{verify} repeats the run with its own settings, and {}={} is not its {}; leave it out",
                *(Setting(name), getattr(settings, name), getattr(own, name)),
            )
    settings = settings.over(stored, config_file)

    def stop(step: int, path: str) -> None:
        if step == last:
            raise _Reached

    with tempfile.TemporaryDirectory(prefix=".verify-", dir=os.path.dirname(folder)) as copy:
        _copy(run_dir, copy, before)
        changes = {name: value for name, value in _WITHOUT.items() if hasattr(settings, name)}
        # A checkpoint is saved at multiples of this number.
        changes |= {"output_dir": copy, "do_train": True, "save_checkpoints_steps": last}
        repeated = dataclasses.replace(settings, **changes)
        where = f"the checkpoint of step {before:,}" if before else "the start"
        log.info("repeating the steps %s to %s from %s", f"{before + 1:,}", f"{last:,}", where)
        with contextlib.suppress(_Reached):
            open_run(repeated, console, Callbacks(on_save=stop)).execute()
        here = RunState(copy, is_writable=False)["processes"]["last"]
        reason = (
            process_changes(run_dir.state["processes"]["last"], here) or "other numbers of threads round differently"
        )
        if not repeated.deterministic:
            reason += ", and without {deterministic} a GPU does"
        _compare(run_dir.file(f"model.ckpt-{last}"), os.path.join(copy, f"model.ckpt-{last}"), Message(reason))


def _copy(run_dir: RunDir, folder: str, step: int) -> None:
    """Copies what a run needs to continue from a step; the checkpoint as links, because it may be large."""
    shutil.copy(run_dir.file(RUN_CONFIG), folder)
    if step:
        for name in os.listdir(run_dir.path):
            if name.startswith(f"model.ckpt-{step}."):
                try:
                    os.link(run_dir.file(name), os.path.join(folder, name))
                except OSError:  # this file system has no links
                    shutil.copy(run_dir.file(name), folder)
        run_dir.state.copy_to(folder)


def _compare(first: str, second: str, reason: Message) -> None:
    """Compares two checkpoints, number by number and bit by bit."""
    from bert_keras.modeling import open_checkpoint

    one, other = open_checkpoint(first), open_checkpoint(second)
    num_numbers, differing = 0, []
    for name in sorted({*one.names} | {*other.names}):
        if name not in one.names or name not in other.names:
            differing.append(f"{name} is only in one of both")
            continue
        old, new = np.asarray(one.read(name)), np.asarray(other.read(name))
        num_numbers += old.size
        if old.shape != new.shape or old.tobytes() != new.tobytes():
            differing.append(f"{name} by up to {np.max(np.abs(old.astype(np.float64) - new.astype(np.float64))):.3g}")
    if differing:
        raise Mistake(
            "{verify}: {} of {} arrays differ: {}; {}",
            len(differing),
            len({*one.names} | {*other.names}),
            some_of(differing, _DIFFERENCES_SHOWN, "; "),
            reason,
        )
    log.info("verified: all %s numbers of %s arrays are the same, bit by bit", f"{num_numbers:,}", len(one.names))
