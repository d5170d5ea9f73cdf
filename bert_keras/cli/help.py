"""The help of a program: `--help` has the flags that most runs need, in their first sentences; `--helpfull` has all."""

import re
import textwrap
from typing import Any

from absl import flags

# The flags that begin their groups, in this order.
_ACTIONS = ("do_train", "do_eval", "do_predict", "dry_run", "verify")
_DATA = ("train_file", "input_file", "eval_file", "eval_share", "predict_file")
_FIRST = (*_ACTIONS, *_DATA, "output_dir", "init_checkpoint")
# The first sentence; "Required." is not one.
_SENTENCE = re.compile(r"(?:Required\. )?.*?[^.]\.(?= |$)", re.DOTALL)


def is_path(name: str) -> bool:
    """Returns whether a flag holds a path."""
    others = ("teacher", "run_config", "input", "output", "extend_vocab", "onnxruntime_web")
    return name in others or name.endswith(("_file", "_dir", "_checkpoint"))


def help_of(values: flags.FlagValues, is_full: bool) -> str:
    """Returns the help of the flags: those of files, then the actions, then the groups, with the devices last."""
    groups: dict[str, list[Any]] = {"Files": [], "What to do": []}
    defined = values.flags_by_module_dict()
    for title in sorted(defined, key="Devices".__eq__):
        for flag in (flag for flag in defined[title] if flag.name in values):
            is_data = is_path(flag.name) or flag.name == "eval_share"
            home = "Files" if is_data and not _is_rare(flag) else title
            home = "What to do" if flag.name in _ACTIONS else home
            # Without a title, absl has the name of the module.
            groups.setdefault("Flags" if "." in home or home == "__main__" else home, []).append(flag)
    text, left = "", []
    for title, members in groups.items():
        listed_flags = [flag for flag in sorted(members, key=_place) if is_full or not _is_rare(flag)]
        left += [flag.name for flag in members if flag not in listed_flags]
        lines = [_wrapped(_described(flag, is_full), "  ", "      ") + "\n" for flag in listed_flags]
        text += f"\n{title}:\n{''.join(lines)}" if listed_flags else ""
    if is_full:
        return f"{text}\nabsl.flags:\n{flags.FlagValues().get_help('  ')}"
    more = f", and has other flags: {', '.join(left)}" if left else " about them."
    return f"{text}\n{_wrapped(f'--helpfull says more{more}', '', '  ')}"


def _is_rare(flag: Any) -> bool:
    return getattr(flag, "is_rare", False)


def _place(flag: Any) -> tuple[bool, int]:
    return _is_rare(flag), _FIRST.index(flag.name) if flag.name in _FIRST else len(_FIRST)


def _described(flag: Any, is_full: bool) -> str:
    """Returns a flag with its default and its meaning, or the first sentence of the latter."""
    choices = getattr(flag.parser, "enum_values", None)
    meaning = re.sub(r"^<.*?>: ", "", flag.help) if choices else flag.help
    if not is_full and (first := _SENTENCE.match(meaning)):
        meaning = first[0]
    if choices:
        meaning += f" One of {', '.join(choices)}."
    elif is_full and flag.parser.syntactic_help:
        meaning += f" ({flag.parser.syntactic_help})"
    default = ",".join(map(str, flag.default)) if isinstance(flag.default, (list, tuple)) else flag.default
    default = "" if default in (None, "") or default is False else f" ({'true' if default is True else default})"
    return f"--{'[no]' * flag.boolean}{flag.name}{default}: {meaning}"


def _wrapped(text: str, first: str, others: str) -> str:
    width = flags.get_help_width()
    text = " ".join(text.split())
    options: Any = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=others, **options)
