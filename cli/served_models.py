"""The flags that name the models of a server."""

import pathlib
from typing import Any

from absl import flags


def define_served_models(flag_values: flags.FlagValues) -> None:
    """Defines the flags of the models of a server."""
    define: dict[str, Any] = {"flag_values": flag_values}
    flags.DEFINE_string("model_dir", None, "A model. Its name is that of its folder.", **define)
    flags.DEFINE_multi_string("model", [], "NAME=FOLDER of a model; you can give this flag several times.", **define)
    flags.DEFINE_list(
        "version_labels", [], "NAME/LABEL=NUMBER: labels of versions of SavedModels, separated by commas.", **define
    )


def folders_by_name(values: flags.FlagValues) -> dict[str, str]:
    """Returns the path of each model by its name."""
    folders = {}
    if values.model_dir:
        path = pathlib.Path(values.model_dir).absolute()
        folders[path.parent.name if path.name == "model" else path.name] = values.model_dir
    for entry in values.model:
        name, _, folder = entry.partition("=")
        if not name or not folder:
            raise ValueError(f"--model={entry}, but NAME=FOLDER is needed, such as --model=reviews=output")
        if name in folders:
            raise ValueError(f"there are two models with the name {name}; give each its own name")
        folders[name] = folder
    if not folders:
        raise ValueError("missing: --model_dir or --model (--help says what each is for)")
    return folders


def read_token(file: str | None) -> str | None:
    """Returns the token in a file; None without a file."""
    if not file:
        return None
    token = pathlib.Path(file).read_text(encoding="utf-8").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(f"{file} must have one word of ASCII characters, the token; take a long random one")
    return token


def labels_by_name(values: flags.FlagValues) -> dict[str, dict[str, int]]:
    """Returns the numbers of labelled versions: a dict by the name of a model, of dicts by label."""
    labels = {}
    for entry in values.version_labels:
        place, _, number = entry.rpartition("=")
        name, _, label = place.rpartition("/")
        if not name or not label or not number.isdecimal():
            raise ValueError(f"--version_labels has {entry}, but NAME/LABEL=NUMBER is needed, such as news/stable=3")
        labels.setdefault(name, {})[label] = int(number)
    return labels
