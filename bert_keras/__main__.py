"""The command `bert-keras`, which has the programs as subcommands."""

import importlib
import sys
from typing import Any

from bert_keras import __version__
from bert_keras.cli.program_names import GROUPS, MODULES
from bert_keras.mistakes import closest


def main() -> None:
    """Runs the program that the first argument names; the other arguments are its flags."""
    start = "python -m bert_keras" if sys.argv[0].endswith("__main__.py") else "bert-keras"
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("--help", "--helpfull", "-h", "help"):
        print(_help(start))
    elif name == "--version":
        print(__version__)
    elif name in MODULES:
        # Messages begin with this name, and commands in them with its first words.
        sys.argv = [f"{start} {name}", *sys.argv[2:]]
        load_program(name).run_program()
    else:
        names = {module.rpartition(".")[2]: subcommand for subcommand, module in MODULES.items()}
        near = closest(name.removesuffix(".py"), [*MODULES, *names], 0.5)
        advice = f'; did you mean "{names.get(near, near)}"?' if near else ""
        sys.exit(f'bert-keras: there is no subcommand "{name}"{advice} ({start} --help lists all)')


def load_program(subcommand: str) -> Any:
    """Returns the program of a subcommand: a module, or a training program."""
    name = MODULES[subcommand]
    if "." in name:
        return importlib.import_module(f"bert_keras.{name}")
    from bert_keras.programs.command import PROGRAMS

    return PROGRAMS[name]


def _help(start: str) -> str:
    lines = [f"BERT on TensorFlow and Keras. Usage: {start} SUBCOMMAND --flag=value ..."]
    for title, group in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:16}  {purpose}" for name, (_, purpose) in group.items())]
    return "\n".join([*lines, "", f"{start} SUBCOMMAND --help shows the flags."])


if __name__ == "__main__":
    main()
