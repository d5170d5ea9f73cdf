"""What check_model.py prints: the facts of a folder of another library, its keys, its abilities, and a comparison."""

import importlib.util
from collections.abc import Iterator
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.model_folder.facts import keys_of_files
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.programs.model_check.comparison import compare
from bert_keras.storage import paths
from bert_keras.tasks import ability_of, program_of
from bert_keras.tasks.reports.commands import command_line, commands_of_model, example_texts
from bert_keras.tasks.tables.settings import KINDS

# The largest difference of outputs that rounding explains.
_TOLERANCE = 1e-4


def open_folder(folder: str, task: str | None = None) -> ModelFolder:
    """Returns the model in a folder, whose head answers by the rules of the library that made it."""
    model = ModelFolder(folder, task=task, uses_head=True)
    kind = {"export": "an export", "tensorflow": "a TensorFlow checkpoint"}.get(model.format)
    kind = "a model of this project" if model.has_task_file and not model.is_export else kind
    if kind:
        raise Mistake("{} is {}; this program checks folders of other libraries", folder, kind)
    return model


def facts(model: ModelFolder) -> Iterator[str]:
    """Yields lines that say each fact and the file and key that decide it. Raises a Mistake for a refused value."""
    found = model.check().decided
    widths = [max(len(getattr(decision, name)) for decision in found) for name in ("name", "value")]
    for decision in found:
        yield f"  {decision.name:<{widths[0]}}  {decision.value:<{min(widths[1], 44)}}  {decision.source}"


def keys(model: ModelFolder) -> Iterator[str]:
    """Yields lines with the keys of each file: read, without an effect, or unknown."""
    for file in keys_of_files(model):
        yield f"  {file.file}"
        for title, names in (("read", file.read), ("harmless", file.harmless), ("unknown", file.unknown)):
            if names:
                yield f"    {title:<9} {', '.join(names)}"


def uses(model: ModelFolder) -> Iterator[str]:
    """Yields lines with commands that use the model."""
    folder = str(model)
    if not model.has_head:
        yield from ("It is an encoder without a head. Train a head on it:", "")
        yield _to_train("run_classifier", folder)
        return
    settings = model.settings
    if ability_of(settings["task"]).is_fine_tuned:
        for purpose, words in commands_of_model(folder, paths.name(folder.rstrip("/")), settings):
            yield from (purpose, command_line(words))
        flags = [f"--kind={kind}" for kind, task in KINDS.items() if task == settings["task"]]
        yield from ("Train it further:", _to_train(program_of(settings["task"]), folder, *flags))
        return
    task, texts = f"--task={settings['task']}", example_texts(settings["task"])
    yield from ("Try the model:", command_line(["predict.py", task, f"--init_checkpoint={folder}", *texts]))
    yield from ("Serve it on a page:", command_line(["serve.py", task, f"--model_dir={folder}"]))
    if not ability_of(settings["task"]).is_exported:
        return
    words = ["export_model.py", task, f"--init_checkpoint={folder}", "--export_dir=exported"]
    yield from ("Export it:", command_line(words))


def _to_train(program: str, folder: str, *flags: str) -> str:
    words = ["--do_train", f"--init_checkpoint={folder}", "--train_file=your_file", *flags, "--output_dir=trained"]
    return command_line([f"{program}.py", *words])


def comparison(model: ModelFolder, is_wanted: bool | None) -> tuple[list[str], bool]:
    """Returns lines that compare a model with the library that made it, and whether both agree."""
    package = "sentence_transformers" if model.has_modules else "transformers"
    missing = [name for name in ("torch", package) if importlib.util.find_spec(name) is None]
    if missing and is_wanted:
        raise Mistake("{compare} needs {}; install it, or leave the flag out", ", ".join(missing))
    if missing or is_wanted is False:
        return [
            f"Not compared: {'not wanted' if is_wanted is False else 'not installed: ' + ', '.join(missing)}."
        ], True
    found = compare(model)
    lines = [f"Compared with {found.library} on {found.num_texts} texts and pairs:"]
    agrees = not found.texts_with_other_tokens and found.difference <= _TOLERANCE
    if found.texts_with_other_tokens:
        lines.append(f"  other tokens in {len(found.texts_with_other_tokens)}, first in {_quote(*found.worst_tokens)}")
    else:
        lines.append("  the same tokens")
    lines.append(f"  largest difference of outputs {found.difference:.2g}, in {_quote(found.worst_text)}")
    return lines, agrees


def _quote(text: Any, ours: Any = None, theirs: Any = None) -> str:
    words = " | ".join(text) if isinstance(text, tuple) else text
    short = repr(words if len(words) <= 60 else f"{words[:57]}...")
    return short if ours is None else f"{short}: here {' '.join(ours)}, there {' '.join(theirs)}"
