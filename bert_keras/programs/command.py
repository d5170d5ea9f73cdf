"""A training program from its flags to its end: the reports to look at, and the commands that use the model."""

import dataclasses
import importlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import rich.console
from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse
from bert_keras.cli.start import start_tensorflow
from bert_keras.runs.run_dir import CURVES_FILE, REPORT_FILE, TRIES_FILE
from bert_keras.settings.fields import define_group, program_flags
from bert_keras.storage import paths
from bert_keras.tasks.dry_run.look import DryRun, check_files, has_look, show_files
from bert_keras.tasks.reports.commands import command_line, commands_of_model, shown_path

log = logging.getLogger("bert_keras")

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
        module: of `programs`, which opens its runs.
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
        return importlib.import_module(f"bert_keras.programs.{self.module}").open_run(values, console)


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
