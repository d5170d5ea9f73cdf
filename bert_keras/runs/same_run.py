"""Compares the settings and facts of a command with those of the run in its folder."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from bert_keras.mistakes import Message, Mistake, Setting

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
    # A run of an earlier version lacks newer settings; one that is off changes nothing.
    names = sorted((set(old) | {name for name in new if new[name]}) - set(free))
    names = [name for name in names if old.get(name) != new.get(name)]
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
    return Message("{} was {} and is {} now", name, _format_setting(old), _format_setting(new))


def _format_setting(value: object) -> str:
    return "not given" if value is None else str(value)
