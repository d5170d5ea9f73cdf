"""A training program from its flags to its end: the reports to look at, and the commands that use the model."""

import dataclasses
import importlib
import logging
import os
import pathlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import rich.console
from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse
from bert_keras.cli.start import start_tensorflow
from bert_keras.settings.fields import define_group, program_flags
from bert_keras.settings.model_files import ModelSettings
from bert_keras.storage import paths
from bert_keras.training.dry_run.look import DryRun, check_files, has_look, show_files
from bert_keras.training.run_dir import CURVES_FILE, REPORT_FILE, RUN_CONFIG, TRIES_FILE
from bert_keras.training.settings.programs import ColumnSettings

log = logging.getLogger("bert_keras")

_LINE_WIDTH = 110
# The reports of all programs, the most useful first.
_REPORTS = (
    *(REPORT_FILE, "entity_report.txt", "eval_errors.tsv", "predictions.tsv", "predictions.jsonl"),
    *("predictions.txt", "predictions.json", CURVES_FILE, TRIES_FILE),
)


@dataclasses.dataclass(frozen=True)
class Program:
    """A training program, which loads TensorFlow only after its flags and the user's files are checked.

    Attributes:
        name: of the program.
        settings: the dataclass of its settings.
        module: of `training.api`, which opens its runs.
    """

    name: str
    settings: type
    module: str

    def define_flags(self) -> flags.FlagValues:
        """Returns the flags of the program."""
        values = program_flags(self.settings)
        if has_look(self.name):
            define_group(values, self.settings.title, DryRun)
        return values

    def open_run(self, values: flags.FlagValues, console: rich.console.Console) -> Any:
        """Opens the run of a command; returns None after `--dry_run`, which only looks at its files."""
        if has_look(self.name):
            if values.dry_run:
                return show_files(self.name, values, console)
            check_files(self.name, values)
        start_tensorflow()
        return importlib.import_module(f"bert_keras.training.api.{self.module}").open_run(values, console)


def run_command(
    argv: list[str],
    define_flags: Callable[[], flags.FlagValues],
    open_run: Callable[[flags.FlagValues, rich.console.Console], Any],
    usage: str | None,
    texts: Sequence[str] = (),
) -> dict[str, float] | None:
    """Runs a training program, and returns the metrics of the last evaluation.

    Args:
        argv: the program and its flags.
        define_flags, open_run: those of its `Program`.
        usage: the text above the flags in `--help`.
        texts: arguments of predict.py for a text to try the model on; default: words that say what to give.
    """
    flag_values = define_flags()
    parse(flag_values, argv, usage)
    run = open_run(flag_values, open_console())
    if run is None:
        return None
    result = run.execute()
    if result.is_complete:
        _show_next_steps(argv[0], flag_values, texts, result.is_useful)
    return result.metrics


def _show_next_steps(program_file: str, values: flags.FlagValues, texts: Sequence[str], is_useful: bool) -> None:
    """Logs the reports of a run, and commands for its model that can be copied, if it is useful."""
    folder = values.output_dir
    only_predicts = not values.do_train and not ("do_eval" in values and values.do_eval)
    names = [name for name in _REPORTS if name.startswith("predictions") or not only_predicts]
    reports = [file for file in (paths.join(folder, name) for name in names) if paths.is_file(file)]
    if reports:
        log.info("Look at %s", ", ".join(reports))
    if not values.do_train or not is_useful:
        return
    programs = os.path.dirname(shown_path(program_file))
    name = os.path.basename(folder.rstrip("/"))
    if "objective" in values:
        uses, commands = "or fine-tune it", _commands_of_pretraining(values, name, texts)
    else:
        uses, commands = "serve it on a page, or export it", _commands_of_fine_tuning(folder, name, texts)
    lines = [command_line([os.path.join(programs, program), *arguments]) for program, *arguments in commands]
    log.info("Now try the model, %s:\n%s", uses, "\n".join(lines))


def _commands_of_fine_tuning(folder: str, name: str, texts: Sequence[str]) -> Iterator[list[str]]:
    from bert_keras.model_folder.folder import ModelFolder  # the help does not need it

    yield from (words for _, words in commands_of_model(folder, name, ModelFolder(folder).settings, texts))


def commands_of_model(
    folder: str, name: str, settings: Mapping[str, Any], texts: Sequence[str] = ()
) -> Iterator[tuple[str, list[str]]]:
    """Yields commands that use a fine-tuned model, after their purposes; `settings` are those of its task.json."""
    from bert_keras.model_folder.tasks import TASKS  # the help does not need it

    task = TASKS[settings["task"]]
    names = (*task.texts[:1], "one text", "another text") if task.form == "choices" else task.texts
    names = (*names, "second text") if settings.get("is_pair") else names
    model = f"--model_dir={folder}"
    arguments = [f"your {text}" for text in names]
    if settings["task"] == "vectors":
        arguments = ["--similarity", "one text", "another text"]
    yield "Try the model:", ["predict.py", model, *(texts or arguments)]
    yield "Serve it on a page:", ["serve.py", model]
    yield "Export it:", ["export_model.py", model, f"--export_dir={name}_export"]


def commands_of_classifier(
    folder: str, name: str, settings: Mapping[str, Any], has_cut_texts: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yields commands after the run of a classifier, each after its purpose; `settings` are in its run_config.json."""
    kind, train_file, start = settings["kind"], settings["train_file"], settings["init_checkpoint"]
    yield "Label a file:", ["run_classifier.py", "--do_predict", f"--output_dir={folder}", "--predict_file=your.csv"]
    if kind in ("single_label", "few_shot") and train_file and start:
        words = ["check_labels.py", f"--train_file={train_file}", f"--init_checkpoint={start}"]
        words += [*_flags_of(settings, ColumnSettings, ModelSettings), f"--max_seq_length={settings['max_seq_length']}"]
        yield "Find wrong labels, also among the texts to train on:", [*words, f"--output_dir={name}_labels"]
    again = ["run_classifier.py", "--do_train", "--do_eval", f"--run_config={paths.join(folder, RUN_CONFIG)}"]
    has_labels = train_file or settings["task_name"] or settings["tfds"]
    is_calibrated = settings["calibrate"] or kind in ("regression", "multiple_choice")
    if has_labels and not is_calibrated and not settings["lora_rank"]:
        words = [*again, "--calibrate", f"--output_dir={name}_calibrated"]
        yield "Train again, with probabilities that are as often right as they say:", words
    if has_cut_texts and kind != "multiple_choice":
        words = [*again, f"--doc_stride={settings['max_seq_length'] // 2}", f"--output_dir={name}_windows"]
        yield "Train again, and read long texts to their ends:", words


def _flags_of(settings: Mapping[str, Any], *groups: type) -> Iterator[str]:
    """Yields the flags of the settings in some groups that do not have their defaults."""
    for field in (field for group in groups for field in dataclasses.fields(group)):
        if (value := settings.get(field.name, field.default)) != field.default:
            value = ",".join(value) if isinstance(value, list | tuple) else value
            yield f"--{field.name}={str(value).lower() if isinstance(value, bool) else value}"


def _commands_of_pretraining(values: flags.FlagValues, name: str, texts: Sequence[str]) -> Iterator[list[str]]:
    from bert_keras.model_folder.folder import ModelFolder  # the help does not need it

    model = f"--init_checkpoint={values.output_dir}"
    is_decoder = ModelFolder(values.output_dir).config.is_decoder
    task = "replaced_tokens" if values.objective == "electra" else "score" if is_decoder else "fill_mask"
    text = "your text with a [MASK]" if task == "fill_mask" else "your text"
    yield ["predict.py", f"--task={task}", model, *(texts or (text,))]
    yield [
        "run_classifier.py",
        *("--do_train", "--do_eval", "--train_file=your.csv", "--eval_share=0.2"),
        *(model, f"--output_dir={name}_classifier"),
    ]


def shown_path(path: str) -> str:
    """Returns the path as a user in the current folder would write it."""
    absolute, here = pathlib.Path(path).absolute(), pathlib.Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


def command_line(arguments: Iterable[str]) -> str:
    """Returns the arguments of Python as a command that fits into lines."""
    lines = ["  python"]
    for argument in map(_quoted, arguments):
        if len(lines[-1]) + len(argument) > _LINE_WIDTH:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {argument}"
    return "\n".join(lines)


def _quoted(argument: str) -> str:
    return f'"{argument}"' if " " in argument and not set('"$`\\') & set(argument) else shlex.quote(argument)
