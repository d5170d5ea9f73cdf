"""Fields of settings: each says its default, its help and its limits; flags and arguments are read by them."""

import dataclasses
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Self, TypeVar, cast, get_args

from absl import flags

from bert_keras.cli.flags import TruthParser, given_flags, in_plain_words, local_paths, parse
from bert_keras.cli.help import is_path
from bert_keras.cli.other_names import name_here, names_like
from bert_keras.mistakes import Message, Mistake, Setting, flag_name
from bert_keras.settings.effects import conditions, is_meant
from bert_keras.settings.numbers import TextParser, text_of

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
    is_rare: bool = False,
    needs: Mapping[str, Any] | None = None,
    needs_any: Collection[str] = (),
    unless: Mapping[str, Any] | None = None,
    harmless: Any = None,
    **bounds: float,
) -> T:
    """Returns a field of a dataclass of settings.

    Args:
        meaning: the help, with the names of other settings in braces.
        default: the value if the user gives none.
        choices: the only valid values of a text.
        parser: of the value, if neither the type of the field nor `choices` says how to read it.
        is_free: see `free`.
        is_rare: whether only --helpfull shows it, because few runs need it.
        needs, needs_any, unless: when the setting has an effect, see `settings.effects.conditions`.
        harmless: a value that is accepted also where the setting has no effect, because it asks for nothing.
        bounds: `lower_bound` and `upper_bound` of a number.
    """
    limits = {"enum_values": [*choices]} if choices else bounds
    metadata = {"meaning": meaning, "limits": limits, "parser": parser, "is_free": is_free, "harmless": harmless}
    metadata |= {"needs": needs or {}, "needs_any": needs_any, "unless": unless or {}, "is_rare": is_rare}
    return cast(Any, dataclasses.field(default=default, metadata=metadata))


def free(meaning: str, default: T, **limits: Any) -> T:
    """Returns a `setting` that may differ when a run resumes, because it does not change what the model learns."""
    return setting(meaning, default, is_free=True, **limits)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a program. A subclass inherits groups of settings, each with a `title` for --help.

    Attributes:
        given: names of the settings that the command or the call gave. Others are defaults, or those of an earlier run.
    """

    given: frozenset[str] = dataclasses.field(default=frozenset(), compare=False, repr=False)

    @classmethod
    def from_argv(cls, argv: Sequence[str], usage: str | None = None) -> Self:
        """Returns the settings of a command line, which begins with the program; see `cli.flags.parse`."""
        values = program_flags(cls)
        parse(values, argv, usage)
        return cls.from_flags(values)

    @classmethod
    def from_flags(cls, values: flags.FlagValues) -> Self:
        """Returns the settings of parsed flags, which may be those of other settings, too."""
        names = {field.name for field in setting_fields(cls)}
        return dataclasses.replace(read_flags(cls, values), given=frozenset(given_flags(values) & names))

    @classmethod
    def from_arguments(cls, function: str, arguments: Mapping[str, Any]) -> Self:
        """Returns the settings of a call of `function`; None leaves the default.

        Raises:
            TypeError: a name is not that of a setting.
            ValueError: a value is not one that its setting can have.
        """
        return cls().with_arguments(function, arguments)

    def with_arguments(self, function: str, arguments: Mapping[str, Any]) -> Self:
        """Returns the settings with further arguments of a call; see `from_arguments`."""
        changes = checked_arguments([type(self)], function, arguments)
        return dataclasses.replace(self, given=self.given | changes.keys(), **changes)

    def over(self, stored: Mapping[str, Any], path: str) -> Self:
        """Returns the settings with the values of a file where none was given; `path` is for messages."""
        values, changes = program_flags(type(self)), {}
        for name, value in stored.items():
            if name not in values:
                raise Mistake("{run_config}={} has an unknown setting {!r}; take it out", path, name)
            flag: Any = values[name]
            if name in self.given or (value is None and flag.default is None):
                continue
            try:
                changes[name] = _value(flag.parser, value)
            except (TypeError, ValueError) as error:
                raise Mistake("{run_config}={} has {!r} for {!r}: {}", path, value, name, error) from error
        return dataclasses.replace(self, **changes)

    def without_effect(self) -> Iterator[tuple[str, Message]]:
        """Yields each setting that has no effect because of others, with the reason and the remedy."""
        yield from conditions(self)

    def check_effects(self) -> None:
        """Refuses settings that the user means and that have no effect because of others."""
        for name, reason in self.without_effect():
            if is_meant(self, name):
                raise Mistake("{} has no effect {}", Setting(name), reason)


def checked_arguments(groups: Iterable[type], function: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that are not None, as the settings of the groups keep them; see `from_arguments`."""
    values = make_flags({group.__name__: group for group in groups})
    for name in arguments:
        if name not in values:
            here, near = name_here(name, values), names_like(name, [*values])
            advice = f'did you mean "{near[0]}"?' if near else f"help({function}) lists all"
            advice = f'here it is "{here}"' if here else advice
            raise TypeError(f'{function}() has no setting "{name}"; {advice}')
    given = {name: value for name, value in arguments.items() if value is not None}
    return {name: _checked(name, cast(Any, values[name]).parser, value) for name, value in given.items()}


def part(group: Callable[..., T], values: Mapping[str, Any]) -> T:
    """Returns the settings of one dataclass from the values of several; missing ones have their defaults."""
    names = {field.name for field in dataclasses.fields(cast(Any, group))} & values.keys()
    return group(**{name: values[name] for name in names})


def _checked(name: str, parser: flags.ArgumentParser, value: Any) -> Any:
    """Returns a value of Python as its setting keeps it: also those of NumPy, paths, and several values in any row."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, str) and is_path(name):
        value = local_paths(value, name)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping, Set)):
        value = [*value]
    form = "true or false" if type(parser) is TruthParser else parser.syntactic_help or "a text"
    try:
        if isinstance(parser, flags.ListParser) and not isinstance(value, str):
            if not isinstance(value, list):  # a set has no order
                raise TypeError
            value = [text_of(part) for part in value]
        return _value(parser, value)
    except (TypeError, ValueError) as error:
        if isinstance(error, TypeError) or len(error.args) > 1:  # what absl writes then is for programmers
            raise Mistake("{}={!r} does not fit; needed: {}", Setting(name), value, form) from None
        raise Mistake("{}={}: {}", Setting(name), value, error) from None


def _value(parser: flags.ArgumentParser, value: Any) -> Any:
    parsed = parser.parse(value)
    return tuple(parsed) if isinstance(parsed, list) else parsed


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
            define_flag(values, group.title, fields.pop(name))
    return values


def define_group(values: flags.FlagValues, title: str, group: type) -> None:
    """Defines a flag for each `setting` of a dataclass; its other fields belong to other groups."""
    for field in setting_fields(group):
        define_flag(values, title, field)


def define_flag(values: flags.FlagValues, title: str, field: dataclasses.Field) -> None:
    """Defines the flag of a `setting`."""
    limits, parser, default = field.metadata["limits"], field.metadata["parser"], field.default
    more: dict[str, Any] = {"flag_values": values, "module_name": title, **limits}
    more["help"] = Message(field.metadata["meaning"]).spelled(flag_name)
    if parser and "enum_values" not in limits:
        flags.DEFINE(parser, field.name, default, serializer=getattr(parser, "serializer", None), **more)
    else:
        value_type = next(
            (candidate for candidate in _DEFINE if candidate in (field.type, *get_args(field.type))), None
        )
        define: Callable = flags.DEFINE_enum if "enum_values" in limits else _DEFINE[value_type]
        define(field.name, [*default] if isinstance(default, tuple) else default, **more)
    flag: Any = values[field.name]
    flag.parser = parser or in_plain_words(flag.parser)
    if default is None and type(flag.parser) is flags.ArgumentParser:
        flag.parser = TextParser()
    flag.is_rare = field.metadata["is_rare"]  # `cli.help` reads it


def setting_fields(settings: Any) -> list[dataclasses.Field]:
    """Returns the fields of a dataclass, or of an instance, that are settings."""
    return [field for field in dataclasses.fields(settings) if field.metadata]


def read_flags(group: Callable[..., T], values: flags.FlagValues) -> T:
    """Returns the settings of a dataclass from parsed flags; a flag that a program lacks has its default."""
    given = {name: values[name].value for name in values}
    return part(group, {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def check_fields(settings: Any) -> None:
    """Makes the values of an instance those that flags would have, and refuses what a flag would refuse.

    From Python, a text for a number or a switch would otherwise fail later, or count as true.
    """
    values = make_flags({"": type(settings)})
    for name in values:
        value = getattr(settings, name)
        if value is not None or values[name].default is not None:
            object.__setattr__(settings, name, _checked(name, cast(Any, values[name]).parser, value))
