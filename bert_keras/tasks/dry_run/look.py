"""Looks at the files of a program's run: the report of `--dry_run`, and the check before every run."""

import contextlib
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import rich.console
import rich.text

from bert_keras.cli.flags import require
from bert_keras.mistakes import Message, Mistake, flag_name
from bert_keras.settings.fields import Settings
from bert_keras.storage import paths
from bert_keras.tasks import settings_class_of
from bert_keras.tasks.dry_run.findings import Findings, keeping_log
from bert_keras.tasks.dry_run.opening import DATA, with_actions

# For each program: the folder of its task, and the function of its look.py.
_LOOKS = {
    "run_classifier": ("classification", "look"),
    "run_few_shot": ("few_shot", "look"),
    "run_ner": ("tagging", "look"),
    "run_reranker": ("reranking", "look"),
    "run_squad": ("question_answering", "look"),
    "run_sentence_vectors": ("vectors", "look"),
    "check_labels": ("classification", "look_at_label_check"),
}
_NEEDED = {"check_labels": ("train_file", "init_checkpoint", "output_dir")}
# Reading more takes longer than loading TensorFlow.
_MOST_BYTES_CHECKED = 10_000_000


def has_look(program: str) -> bool:
    """Returns whether a program can look at its files."""
    return program in _LOOKS


def show_files(program: str, settings: Settings, console: rich.console.Console) -> None:
    """Prints what the files of a command hold. Raises the mistakes that would end its run, all together."""
    findings = _look_of(program)(with_actions(settings), True)
    for found in findings:
        if found.facts:
            _print(found, console)
    if not any(found.facts or found.problems for found in findings):
        raise Mistake("there is no file to look at; give {train_file} or another file")
    _raise(findings)


def check_files(program: str, settings: Any) -> None:
    """Raises the mistakes in the files of a run, all together, unless the files are large or remote.

    Programs call it before they load TensorFlow, so that a mistake costs no time.
    """
    files = [str(path) for name in (*DATA, "run_config") if (path := getattr(settings, name, None))]
    if not files:
        return  # the run tells what is missing, after what is more important, such as the device
    if any(map(paths.is_remote, [*files, settings.output_dir or ""])):
        return
    if sum(map(_size, files)) <= _MOST_BYTES_CHECKED:
        needed = Findings()
        with needed.catching():
            require(settings, _NEEDED.get(program, ("output_dir",)))
        with keeping_log():  # the run itself logs what it reads
            findings = _look_of(program)(settings, False)
        _raise([*findings, needed])


def program_of_file(path: str) -> str | None:
    """Returns the program that trains on tags, questions or queries in a file; None if there is none."""
    given = {"do_train": True, "train_file": path}
    second = {**given, "version_2_with_negative": True}
    for program, values in (("run_ner", given), ("run_squad", given), ("run_squad", second), ("run_reranker", given)):
        with contextlib.suppress(Mistake), keeping_log():
            settings = settings_class_of(program)().with_arguments(program, values)
            findings = _look_of(program)(with_actions(settings), True)
            if not any(found.problems for found in findings):
                return program
    return None


def _size(path: str) -> int:
    """Returns the size of a file, or of the files in a folder; 0 if the path does not exist."""
    files = os.scandir(path) if os.path.isdir(path) else [path]
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))


def _look_of(program: str) -> Callable[[Any, bool], list[Findings]]:
    folder, function = _LOOKS[program]
    return getattr(importlib.import_module(f"bert_keras.tasks.{folder}.look"), function)


def _print(found: Findings, console: rich.console.Console) -> None:
    title = f"{paths.name(found.path)} ({flag_name(found.setting)})" if found.setting else found.path or "All together"
    width = max(len(name) for name, _ in found.facts) + 4
    rows = [title]
    last = ""
    for name, value in found.facts:
        text = value.spelled(flag_name) if isinstance(value, Message) else value
        for start in (f"{found.path}: ", f"{paths.name(found.path)}: ") if found.path else ():
            text = text.removeprefix(start)
        for line in rich.text.Text(text).wrap(console, console.width - width):
            rows.append(f"  {'' if name == last else name}".ljust(width) + line.plain.rstrip())
            last = name
    for row in (*rows, ""):
        console.print(row, markup=False, highlight=False, soft_wrap=True)


def _raise(findings: Sequence[Findings]) -> None:
    problems: list[Any] = [problem for found in findings for problem in found.problems]
    if len(problems) == 1:
        raise problems[0]
    if problems:
        message = Message("{} mistakes:", len(problems))
        for problem in problems:
            message = Message("{}\n- {}", message, problem)
        raise Mistake(message)
