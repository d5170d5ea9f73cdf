"""The flags that name the models of a server."""

import pathlib
from typing import Any

from absl import flags

from bert_keras.mistakes import Mistake
from bert_keras.storage import text_files


def define_served_models(flag_values: flags.FlagValues) -> None:
    """Defines the flags of the models of a server."""
    define: dict[str, Any] = {"flag_values": flag_values, "module_name": "Models"}
    flags.DEFINE_string("model_dir", None, "A model. Its name is that of its folder.", **define)
    flags.DEFINE_multi_string("model", [], "NAME=FOLDER of a model; you can give this flag several times.", **define)


def folders_by_name(values: flags.FlagValues) -> dict[str, str]:
    """Returns the path of each model by its name."""
    folders = {}
    if values.model_dir:
        path = pathlib.Path(values.model_dir).absolute()
        folders[path.parent.name if path.name == "model" else path.name] = values.model_dir
    for entry in values.model:
        name, _, folder = entry.partition("=")
        if not name or not folder:
            raise Mistake("{model}={}, but NAME=FOLDER is needed, such as {model}=reviews=output", entry)
        if name in folders:
            raise Mistake("there are two models with the name {}; give each its own name", name)
        folders[name] = folder
    if not folders:
        raise Mistake("missing: {model_dir} or {model} ({help} says what each is for)")
    return folders


def read_token(file: str | None) -> str | None:
    """Returns the token in a file; None without a file."""
    if not file:
        return None
    token = text_files.read_text(file, "give a file with the token").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Mistake("{} must have one word of ASCII characters, the token; take a long random one", file)
    return token
