"""Settings that would change nothing in a run: by conditions at their fields, or by the data and the model."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from bert_keras.mistakes import Message, Mistake, Setting

# The condition that a setting has a value which is not "off", such as False, 0 or "not given".
ON = object()


def conditions(settings: Any) -> Iterator[tuple[str, Message]]:
    """Yields each setting that has no effect because of other settings, with the reason and the remedy.

    The metadata of a field are the conditions. `needs`: values that other settings must have. `needs_any`: settings of
    which one must be on. `unless`: values of others with which it has no effect. A set holds several values. A
    condition about a setting that the program lacks does not count.
    """
    fields = {field.name: field for field in dataclasses.fields(settings)}
    for field in fields.values():
        for name, wanted in field.metadata.get("unless", {}).items():
            if name in fields and _fits(getattr(settings, name), wanted):
                yield field.name, Message("with {}; leave one of the two out", _describe(name, wanted))
        for name, wanted in field.metadata.get("needs", {}).items():
            if name in fields and not _fits(getattr(settings, name), wanted):
                now = getattr(settings, name)
                value = f", which is {now}" if wanted is ON and now != fields[name].default else ""
                yield field.name, Message("without {}{}; give both, or leave it out", _describe(name, wanted), value)
        names = [name for name in field.metadata.get("needs_any", ()) if name in fields]
        if names and not any(getattr(settings, name) for name in names):
            yield field.name, Message("without one of {}; give one as well, or leave it out", [*map(Setting, names)])


def _fits(value: object, wanted: Any) -> bool:
    if wanted is ON:
        return bool(value)
    return value in wanted if isinstance(wanted, set) else value == wanted


def _describe(name: str, wanted: Any) -> Message:
    if wanted is ON or wanted is True:
        return Message("{}", Setting(name))
    return Message(
        "{}={}", Setting(name), " or ".join(map(str, sorted(wanted) if isinstance(wanted, set) else [wanted]))
    )


def refuse(settings: Any, reasons: Mapping[str, str | Message]) -> None:
    """Refuses settings of a run that have no effect because of its data or its model, given the reasons by name.

    A setting counts as given also if a run that trains has another value than its default, because that may come from a
    run_config.json.
    """
    for name, reason in reasons.items():
        if is_meant(settings, name):
            raise Mistake("{} does not apply: {}; leave it out", Setting(name), reason)


def is_meant(settings: Any, name: str) -> bool:
    """Returns whether a setting has a value that asks for something; False for one that the program lacks."""
    field = next((field for field in dataclasses.fields(settings) if field.name == name and field.metadata), None)
    if field is None:
        return False
    value, default = getattr(settings, name), field.default
    is_off = value is None or value == field.metadata["harmless"] or (not value and value == default)
    return not is_off and (name in settings.given or (getattr(settings, "do_train", True) and value != default))
