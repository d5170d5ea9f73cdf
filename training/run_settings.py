"""Compares the settings of a command with those of the run in its folder."""

import logging

log = logging.getLogger("bert_keras")


def check_same_run(path, old, new, free, facts):
    """Refuses to resume a run with other settings.

    Args:
        path: str; the run folder.
        old, new: dicts of JSON values by name: settings and facts of the run, and of the command.
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
    differences = []
    for name in sorted((set(old) | set(new)) - set(free)):
        if old.get(name) != new.get(name):
            shown_name = name if name in facts else f"--{name}"
            differences += _differences(shown_name, old.get(name), new.get(name))
    if differences:
        raise ValueError(
            f"--output_dir={path} holds a run with other settings: {'; '.join(differences)}; "
            "give the old settings to resume it, or another --output_dir"
        )


def _differences(name, old, new):
    """Describes how a setting or fact differs; a dict has one difference for each key."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            f"{name}: {_difference(key, old.get(key), new.get(key))}"
            for key in sorted({*old, *new})
            if old.get(key) != new.get(key)
        ]
    return [_difference(name, old, new)]


def _difference(name, old, new):
    if name.endswith("_sha256") and None not in (old, new):
        return f"{name.removesuffix('_sha256')} content has changed"
    return f"{name} was {_shown(old)} and is {_shown(new)} now"


def _shown(value):
    return "not given" if value is None else value
