"""A training program from its flags to its end: the reports to look at, and the commands that use the model."""

import contextlib
import dataclasses
import importlib
import inspect
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, cast

import rich.console
from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, parse
from bert_keras.cli.start import start_tensorflow
from bert_keras.mistakes import Message, Mistake, Setting
from bert_keras.runs.run_dir import CURVES_FILE, REPORT_FILE, TRIES_FILE
from bert_keras.settings.fields import Settings, define_flag, free, program_flags, setting_fields
from bert_keras.settings.groups import RunSettings
from bert_keras.settings.model_files import ModelSettings
from bert_keras.storage import paths
from bert_keras.storage.tokenizer.vocabulary import vocabulary_in
from bert_keras.tasks import settings_class_of, settings_of
from bert_keras.tasks.dry_run.findings import keeping_log
from bert_keras.tasks.dry_run.look import check_files, has_look, show_files
from bert_keras.tasks.pretraining.settings import PretrainingSettings
from bert_keras.tasks.reports.commands import command_line, commands_of_model, example_texts, shown_path

log = logging.getLogger("bert_keras")

# The reports of all programs, the most useful first.
_REPORTS = (
    *(REPORT_FILE, "entity_report.txt", "eval_errors.tsv", "predictions.tsv", "predictions.jsonl"),
    *("predictions.txt", "predictions.json", CURVES_FILE, TRIES_FILE),
)


# The settings that a model may not fit.
_MODEL_SETTINGS = {field.name for field in setting_fields(ModelSettings)}
_MODEL_SETTINGS |= {"max_seq_length", "freeze_layers", "lora_rank", "lora_targets"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Instead:
    """What a command does instead of its run."""

    dry_run: bool = free(
        "Only look at the files: report how they are read and what they hold, and write nothing. It needs neither a "
        "model nor {output_dir}.",
        False,
    )
    verify: bool = free(
        "Repeat the last steps of the run in {output_dir} from the checkpoint before its newest one, and compare all "
        "numbers of both, bit by bit. It takes the settings of the run, and changes nothing in its folder.",
        False,
        is_rare=True,
    )


@dataclasses.dataclass(frozen=True)
class Program:
    """A training program, which loads TensorFlow only after its flags and the user's files are checked.

    Attributes:
        name: of the program.
        function: its name in Python.
        module: of `programs`. Its `open_run` takes the settings, a console and callbacks, and returns a run, whose
            `execute` returns a `engine.report.Result`. Its `to_file` takes data in memory and their name, and returns
            the content of a file, as bytes, and its ending.
        has_demo: whether it runs a demo if it is started without flags.
    """

    name: str
    function: str
    module: str
    has_demo: bool = False

    @property
    def settings(self) -> type[Settings]:
        """The class of its settings."""
        return settings_class_of(self.name)

    @property
    def usage(self) -> str:
        """The text above its flags in `--help`."""
        return inspect.cleandoc(cast(Any, self.settings).usage)

    def main(self, argv: list[str]) -> dict[str, float] | None:
        """Runs the program with its flags, and returns the metrics of the last evaluation."""
        texts: Sequence[str] = ()
        if self.has_demo and len(argv) == 1:
            # By its name, because a run from Python must not load the builder of examples.
            demo = importlib.import_module("bert_keras.programs.demo")
            argv, texts = demo.prepare_demo(argv[0], self.name, start_tensorflow)
        settings, instead = self.read(argv)
        with naming_classifier(field.name for field in (*setting_fields(settings), *self.instead)):
            run = self.open_run(settings, instead, open_console())
            if run is None:
                return None
            result = run.execute()
        # A check of labels leaves no model.
        if result.is_complete and isinstance(settings, RunSettings):
            _show_next_steps(argv[0], settings, texts, result.is_useful)
        return result.metrics

    def run_program(self) -> None:
        """Runs the program from the command line."""
        as_program(self.main)

    def define_flags(self) -> flags.FlagValues:
        """Returns the flags of the program."""
        values = program_flags(self.settings)
        for field in self.instead:
            define_flag(values, cast(Any, self.settings).title, field)
        return values

    @property
    def instead(self) -> list[dataclasses.Field]:
        """What a command of this program may do instead of its run."""
        names = {"dry_run"} if has_look(self.name) else set()
        # Only a run with checkpoints has steps to repeat.
        has_checkpoints = "save_checkpoints_steps" in {field.name for field in setting_fields(self.settings)}
        names |= {"verify"} if has_checkpoints else set()
        return [field for field in setting_fields(Instead) if field.name in names]

    def read(self, argv: Sequence[str]) -> tuple[Any, str | None]:
        """Returns the settings of a command line, and what it does instead of its run: "dry_run", "verify" or None."""
        values = self.define_flags()
        parse(values, argv, self.usage)
        names = [field.name for field in self.instead if values[field.name].value]
        if len(names) > 1:
            raise Mistake("{dry_run} and {verify} do different things; give one of them")
        return self.settings.from_flags(values), next(iter(names), None)

    def open_run(self, settings: Any, instead: str | None, console: rich.console.Console) -> Any:
        """Opens the run of a command; returns None after what it does instead, see `read`."""
        if instead == "dry_run":
            show_files(self.name, settings, console)
            # The model need not be here, and most settings fit every model.
            if settings.given & _MODEL_SETTINGS and paths.is_dir(settings.init_checkpoint or ""):
                start_tensorflow()
                from bert_keras.tasks.finetuning.opening import check_model

                with keeping_log():  # the run tells how it reads its model
                    check_model(settings)
            return None
        if instead is None and has_look(self.name):
            check_files(self.name, settings)
        start_tensorflow()
        open_run = self.load().open_run
        if instead == "verify":
            from bert_keras.engine.verify import verify_run

            return verify_run(settings, self.name, open_run, console)
        return open_run(settings, console)

    def load(self) -> Any:
        """Returns the module of the program, which needs TensorFlow."""
        return importlib.import_module(f"bert_keras.programs.{self.module}")


PROGRAMS = {
    program.name: program
    for program in (
        Program("check_labels", "check_labels", "label_checks"),
        Program("run_classifier", "train_classifier", "classifier", has_demo=True),
        Program("run_few_shot", "train_few_shot", "few_shot"),
        Program("run_ner", "train_ner", "ner"),
        Program("run_pretraining", "pretrain", "pretraining", has_demo=True),
        Program("run_reranker", "train_reranker", "reranker"),
        Program("run_sentence_vectors", "train_sentence_vectors", "sentence_vectors"),
        Program("run_squad", "train_squad", "squad"),
    )
}


@contextlib.contextmanager
def naming_classifier(own: Iterable[str]) -> Iterator[None]:
    """Adds run_classifier.py to mistakes and warnings with flags of tables that the program lacks, given its own flags.

    Programs share what reads tables. A message that names a program needs no other.
    """
    own = {*own}

    def change(record: logging.LogRecord) -> bool:
        if isinstance(record.msg, Message):
            record.msg = _naming(record.msg, own)
        return True

    log.addFilter(change)
    try:
        yield
    except Mistake as mistake:
        message = _naming(mistake.message, own)
        if message is mistake.message:
            raise
        raise Mistake(message) from mistake
    finally:
        log.removeFilter(change)


def _naming(message: Message, own: Collection[str]) -> Message:
    named: list[str] = []
    message.spelled(lambda name: named.append(name) or name)
    others = [name for name in dict.fromkeys(named) if name not in own]
    if not others or ".py" in str(message):
        return message
    from bert_keras.tasks.classification.settings import LabelledTextSettings, OwnLabelSettings  # for few messages only
    from bert_keras.tasks.tables.settings import ColumnSettings

    table_settings = LabelledTextSettings, OwnLabelSettings, ColumnSettings
    known = {"eval_share", *(field.name for group in table_settings for field in setting_fields(group))}
    missing = [Setting(name) for name in others if name in known]
    return Message("{}; for {}, use run_classifier.py", message, missing) if missing else message


def _show_next_steps(program_file: str, settings: Any, texts: Sequence[str], is_useful: bool) -> None:
    """Logs the reports of a run, and commands for its model that can be copied, if it is useful.

    `texts`: arguments of predict.py for a text to try the model on; default: words that say what to give.
    """
    folder = settings.output_dir
    only_predicts = not settings.do_train and not settings.do_eval
    names = [name for name in _REPORTS if name.startswith("predictions") or not only_predicts]
    reports = [file for file in (paths.join(folder, name) for name in names) if paths.is_file(file)]
    if reports:
        log.info("Look at %s", ", ".join(reports))
    if not settings.do_train or not is_useful:
        return
    from bert_keras.model_folder.folder import ModelFolder  # the help does not need it

    programs = os.path.dirname(shown_path(program_file))
    name = os.path.basename(folder.rstrip("/"))
    if isinstance(settings, PretrainingSettings):
        is_decoder = ModelFolder(folder).config.is_decoder
        uses, commands = "or fine-tune it", _commands_of_pretraining(settings, is_decoder, name, texts)
    else:
        uses, described = "serve it on a page, or export it", settings_of(ModelFolder(folder))
        commands = (words for _, words in commands_of_model(folder, name, described, texts))
    lines = [command_line([os.path.join(programs, program), *arguments]) for program, *arguments in commands]
    log.info("Now try the model, %s:\n%s", uses, "\n".join(lines))


def _commands_of_pretraining(
    settings: PretrainingSettings, is_decoder: bool, name: str, texts: Sequence[str]
) -> Iterator[list[str]]:
    model = [f"--init_checkpoint={settings.output_dir}"]
    model += [] if vocabulary_in(settings.output_dir) else ["--vocab_file=your_vocab.txt"]
    task = "replaced_tokens" if settings.objective == "electra" else "score" if is_decoder else "fill_mask"
    yield ["predict.py", f"--task={task}", *model, *(texts or example_texts(task))]
    yield [
        "run_classifier.py",
        *("--do_train", "--do_eval", "--train_file=your.csv", "--eval_share=0.2"),
        *(*model, f"--output_dir={name}_classifier"),
    ]
