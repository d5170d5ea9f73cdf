"""Fields of settings: each says its default, its help and its limits; a program's flags are made from them."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, cast, get_args

from absl import flags

from bert_keras.mistakes import Message, Mistake, Setting

T = TypeVar("T")

# The default of a setting that a program needs; `require` reports all that are missing at once.
REQUIRED: Any = None
_DEFINE: dict[Any, Callable] = {
    tuple[str, ...]: flags.DEFINE_list,
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}


def setting(meaning: str, default: T, *, choices: Collection[str] = (), **bounds: float) -> T:
    """Returns a field of a dataclass of settings.

    Args:
        meaning: the help, with the names of other settings in braces.
        default: the value if the user gives none.
        choices: the only valid values of a text.
        bounds: `lower_bound` and `upper_bound` of a number.
    """
    limits = {"enum_values": [*choices]} if choices else bounds
    return cast(Any, dataclasses.field(default=default, metadata={"meaning": meaning, "limits": limits}))


def make_flags(groups: Mapping[str, type]) -> flags.FlagValues:
    """Returns the flags of a program from its dataclasses of settings by title; --help has the same order."""
    values = flags.FlagValues()
    for title, group in groups.items():
        define_group(values, title, group)
    return values


def define_group(values: flags.FlagValues, title: str, group: type) -> None:
    """Defines a flag for each `setting` of a dataclass; its other fields belong to other groups."""
    for field in dataclasses.fields(cast(Any, group)):
        if field.metadata:
            limits, default = field.metadata["limits"], field.default
            kind = next((kind for kind in _DEFINE if kind == field.type or kind in get_args(field.type)), None)
            define: Callable = flags.DEFINE_enum if "enum_values" in limits else _DEFINE[kind]
            meaning = Message(field.metadata["meaning"]).spelled(lambda name: "--" + name)
            default = [*default] if isinstance(default, tuple) else default
            define(field.name, default, help=meaning, flag_values=values, module_name=title, **limits)


def read_flags(group: Callable[..., T], values: flags.FlagValues) -> T:
    """Returns the settings of a dataclass from parsed flags; a flag that a program lacks has its default."""
    names = [field.name for field in dataclasses.fields(cast(Any, group)) if field.name in values]
    given = {name: values[name].value for name in names}
    return group(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def check_choices(settings: Any) -> None:
    """Raises ValueError if an instance of a dataclass of settings has a value that is not one of its choices."""
    for field in dataclasses.fields(settings):
        known = field.metadata.get("limits", {}).get("enum_values")
        if known and (value := getattr(settings, field.name)) not in known:
            raise Mistake("{}={} is not known; give one of {}", Setting(field.name), value, known)
