"""Commands that can be copied: what to do with a model after its run."""

import dataclasses
import pathlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_keras.cli.program_names import as_started
from bert_keras.runs.run_dir import RUN_CONFIG
from bert_keras.settings.model_files import ModelSettings
from bert_keras.storage import paths
from bert_keras.tasks import ability_of
from bert_keras.tasks.ability import LISTS
from bert_keras.tasks.tables.settings import ColumnSettings

_LINE_WIDTH = 110


def commands_of_model(
    folder: str, name: str, settings: Mapping[str, Any], texts: Sequence[str] = ()
) -> Iterator[tuple[str, list[str]]]:
    """Yields commands that use a fine-tuned model, after their purposes; `settings` are those of its task.json."""
    model = f"--model_dir={folder}"
    arguments = [*example_texts(settings["task"]), *(["your second text"] if settings.get("is_pair") else [])]
    if settings["task"] == "vectors":
        arguments = ["--similarity", "one text", "another text"]
    yield "Try the model:", ["predict.py", model, *(texts or arguments)]
    yield "Serve it on a page:", ["serve.py", model]
    yield "Export it:", ["export_model.py", model, f"--export_dir={name}_export"]


def example_texts(task: str) -> list[str]:
    """Returns arguments of predict.py for a question of a task, in words."""
    ability = ability_of(task)
    texts, listed = (ability.texts[:1], ["one text", "another text"]) if ability.form in LISTS else (ability.texts, [])
    return [f"your {text}" + " with a [MASK]" * ability.has_masks for text in texts] + listed


def commands_of_classifier(
    folder: str, config: Mapping[str, Any], kind: Any, has_cut_texts: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yields commands after the run of a classifier, each after its purpose.

    `config` is its run_config.json. `kind` is that of the labels of its data, see `tasks.classification.labels`.
    """
    program, settings, name = f"{config['program']}.py", config["settings"], paths.name(folder.rstrip("/"))
    train_file, start = settings["train_file"], settings["init_checkpoint"]
    yield "Label a file:", [program, "--do_predict", f"--output_dir={folder}", "--predict_file=your.csv"]
    if kind.has_one and train_file and start:
        words = ["check_labels.py", f"--train_file={train_file}", f"--init_checkpoint={start}"]
        words += [*flags_of(settings, ColumnSettings, ModelSettings), f"--max_seq_length={settings['max_seq_length']}"]
        yield "Find wrong labels, also among the texts to train on:", [*words, f"--output_dir={name}_labels"]
    again = [program, "--do_train", "--do_eval", f"--run_config={paths.join(folder, RUN_CONFIG)}"]
    has_labels = train_file or settings.get("task_name") or settings.get("tfds")
    is_calibrated = settings["calibrate"] or "calibrate" in kind.no_effect
    if has_labels and not is_calibrated and not settings.get("lora_rank"):
        words = [*again, "--calibrate", f"--output_dir={name}_calibrated"]
        yield "Train again, with probabilities that are closer to the share of right answers:", words
    if has_cut_texts and kind.has_windows:
        words = [*again, f"--doc_stride={settings['max_seq_length'] // 2}", f"--output_dir={name}_windows"]
        yield "Train again, and read long texts to their ends:", words


def flags_of(settings: Mapping[str, Any], *groups: type) -> Iterator[str]:
    """Yields the flags of the settings in some groups that do not have their defaults."""
    for field in (field for group in groups for field in dataclasses.fields(group)):
        if (value := settings.get(field.name, field.default)) != field.default:
            value = ",".join(value) if isinstance(value, list | tuple) else value
            yield f"--{field.name}={str(value).lower() if isinstance(value, bool) else value}"


def shown_path(path: str) -> str:
    """Returns the path as a user in the current folder would write it."""
    absolute, here = pathlib.Path(path).absolute(), pathlib.Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


def command_line(words: Sequence[str]) -> str:
    """Returns a program, such as "predict.py" or its path, and its arguments as a command that fits into lines."""
    program, *arguments = words
    lines = [f"  {as_started(f'python {_quoted(program)}')}"]
    for argument in map(_quoted, arguments):
        if len(lines[-1]) + len(argument) > _LINE_WIDTH:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {argument}"
    return "\n".join(lines)


def _quoted(argument: str) -> str:
    return f'"{argument}"' if " " in argument and not set('"$`\\') & set(argument) else shlex.quote(argument)
