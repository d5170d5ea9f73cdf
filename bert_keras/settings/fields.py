"""Fields of settings: each says its default, its help and its limits; a program's flags are made from them."""

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, cast, get_args

from absl import flags

from bert_keras.mistakes import Message, Mistake, Setting
from bert_keras.settings.names import flag_name

T = TypeVar("T")

# The default of a setting that a program needs; `require` reports all that are missing at once.
REQUIRED: Any = None
_DEFINE: dict[Any, Callable] = {
    tuple[str, ...]: flags.DEFINE_list,
    Sequence[str]: flags.DEFINE_list,
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}


def setting(
    meaning: str,
    default: T,
    *,
    choices: Collection[str] = (),
    parser: flags.ArgumentParser | None = None,
    is_free: bool = False,
    **bounds: float,
) -> T:
    """Returns a field of a dataclass of settings.

    Args:
        meaning: the help, with the names of other settings in braces.
        default: the value if the user gives none.
        choices: the only valid values of a text.
        parser: of the value, if neither the type of the field nor `choices` says how to read it.
        is_free: see `free`.
        bounds: `lower_bound` and `upper_bound` of a number.
    """
    limits = {"enum_values": [*choices]} if choices else bounds
    metadata = {"meaning": meaning, "limits": limits, "parser": parser, "is_free": is_free}
    return cast(Any, dataclasses.field(default=default, metadata=metadata))


def free(meaning: str, default: T, **limits: Any) -> T:
    """Returns a `setting` that may differ when a run resumes, because it does not change what the model learns."""
    return setting(meaning, default, is_free=True, **limits)


def make_flags(groups: Mapping[str, type]) -> flags.FlagValues:
    """Returns the flags of a program from its dataclasses of settings by title; --help has the same order."""
    values = flags.FlagValues()
    for title, group in groups.items():
        define_group(values, title, group)
    return values


def program_flags(settings: Any) -> flags.FlagValues:
    """Returns the flags of a dataclass that inherits groups of settings, each with a `title`.

    Those of the dataclass itself come first, and the others in the order of its fields.
    """
    fields, values = {field.name: field for field in setting_fields(settings)}, flags.FlagValues()
    for group in (settings, *settings.__mro__[-2:0:-1]):
        for name in [name for name in inspect.get_annotations(group) if name in fields]:
            _define(values, group.title, fields.pop(name))
    return values


def define_group(values: flags.FlagValues, title: str, group: type) -> None:
    """Defines a flag for each `setting` of a dataclass; its other fields belong to other groups."""
    for field in setting_fields(group):
        _define(values, title, field)


def _define(values: flags.FlagValues, title: str, field: dataclasses.Field) -> None:
    limits, parser, default = field.metadata["limits"], field.metadata["parser"], field.default
    more: dict[str, Any] = {"flag_values": values, "module_name": title, **limits}
    more["help"] = Message(field.metadata["meaning"]).spelled(flag_name)
    if parser and "enum_values" not in limits:
        flags.DEFINE(parser, field.name, default, serializer=getattr(parser, "serializer", None), **more)
        return
    kind = next((kind for kind in _DEFINE if kind == field.type or kind in get_args(field.type)), None)
    define: Callable = flags.DEFINE_enum if "enum_values" in limits else _DEFINE[kind]
    define(field.name, [*default] if isinstance(default, tuple) else default, **more)
    if parser:
        values[field.name].parser = parser


def setting_fields(settings: Any) -> list[dataclasses.Field]:
    """Returns the fields of a dataclass, or of an instance, that are settings."""
    return [field for field in dataclasses.fields(settings) if field.metadata]


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
