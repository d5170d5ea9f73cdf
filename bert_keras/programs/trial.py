"""A first model of a file of texts and labels: look, ask, train, check the labels, and say what fits the result."""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import rich.console

from bert_keras.mistakes import Mistake
from bert_keras.programs.command import PROGRAMS
from bert_keras.runs.run_dir import REPORT_FILE, RUN_CONFIG
from bert_keras.storage import paths
from bert_keras.tasks.dry_run.findings import keeping_log
from bert_keras.tasks.dry_run.look import program_of_file, show_files
from bert_keras.tasks.dry_run.statistics import is_uneven
from bert_keras.tasks.reports.commands import command_line, commands_of_model

_STEPS, _BATCH_SIZE, _EPOCHS = 300, 16, 10
_SUSPECTS_SHOWN = 5
# At this share, suspects are worth a remark.
_MANY_SUSPECTS = 0.05
_MOST_FOLDS = 5
_SETTINGS = (
    *("--do_train", "--do_eval", "--eval_share=0.2", "--learning_rate=2e-4"),
    f"--train_batch_size={_BATCH_SIZE}",
)


@dataclasses.dataclass(frozen=True)
class Trial:
    """A file, the model to start from, the folder of all results, and flags of the labels and columns."""

    file: str
    start: str
    folder: str
    flags_of_data: Sequence[str]
    console: rich.console.Console

    def run(self, is_asked: bool) -> None:
        """Does all of it; not `is_asked`: without the question."""
        command = PROGRAMS["run_classifier"]
        flags = [f"--train_file={self.file}", f"--init_checkpoint={self.start}"]
        flags += [*self.flags_of_data, *_SETTINGS, f"--output_dir={paths.join(self.folder, 'run')}"]
        settings, _ = command.read([command.name, *flags])
        try:
            show_files(command.name, settings, self.console)
        except Mistake as mistake:
            other = program_of_file(self.file) if paths.is_file(self.file) and not self.flags_of_data else None
            if other is None:
                raise
            raise Mistake(
                "{} is not a table of texts and labels, but {}.py reads it; give it the file with {train_file}, and "
                "{dry_run} to look at it first",
                self.file,
                other,
            ) from mistake
        from bert_keras.tasks.classification.data import read_classification_data  # --help does not need it

        with keeping_log():  # `show_files` has shown it
            data: Any = read_classification_data(settings, None)
        num_steps = min(_STEPS, -(-len(data.train) * _EPOCHS // _BATCH_SIZE))
        evaluate = f"evaluate on the other {len(data.dev):,}"
        rest = f"{evaluate}, and check the labels" if data.kind.has_one else f"and {evaluate}"
        self._ask(f"Train on {len(data.train):,} of these texts for {num_steps:,} steps, {rest}?", is_asked)
        settings, _ = command.read([command.name, *flags, f"--max_steps={num_steps}"])
        run = command.open_run(settings, None, self.console)
        result = run.execute()
        if not result.is_complete:
            return
        num_suspects = self._check_labels(data) if data.kind.has_one else 0
        report = paths.join(settings.output_dir, REPORT_FILE)
        self._print(f"\nLook at {report}. What fits this result:")
        is_cut = bool(run.task.eval_features["input_mask"].all(-1).any()) and data.kind.has_windows
        commands = [
            *self._next_commands(data, num_steps, result.is_useful, num_suspects, is_cut),
            *commands_of_model(settings.output_dir, paths.name(self.folder), run.task.describe()),
        ]
        for purpose, words in commands[:3]:
            self._print(f"{purpose}\n{command_line(words)}")

    @property
    def _suspects_file(self) -> str:
        return paths.join(self.folder, "suspects.tsv")

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _ask(self, work: str, is_asked: bool) -> None:
        """Ends the program unless the user wants the run."""
        self._print(f"{work} This takes a few minutes. Everything goes into {self.folder}/.")
        if not is_asked:
            return
        if not sys.stdin.isatty():
            raise Mistake("nobody can answer here, because standard input is not a terminal; give {yes}")
        try:
            answer = input("[Y/n] ").strip().lower()
        except EOFError:
            answer = "n"
        if answer not in ("", "y", "yes"):
            raise SystemExit(0)

    def _check_labels(self, data: Any) -> int:
        """Writes and prints labels that the words of the other texts contradict, and returns their number."""
        # They load TensorFlow and scikit-learn.
        from bert_keras.programs.label_checks import held_out_probabilities, split_by_text, write_rows
        from bert_keras.tasks.classification.suspects import find_suspects, vectors_of_words

        examples, names = [*data.train, *data.dev], data.kind.names
        ids = np.array([names.index(str(example.label)) for example in examples])
        num_folds = min(_MOST_FOLDS, *np.bincount(ids, minlength=len(names)).tolist())
        split = split_by_text(examples, ids, num_folds, seed=0) if num_folds > 1 else []
        if not split:
            self._print("The labels are not checked, because a label has too few different texts.")
            return 0
        vectors = vectors_of_words(examples)
        probabilities = held_out_probabilities(vectors, ids, split)
        found = [suspect for suspect in find_suspects(examples, names, vectors, probabilities) if suspect.is_confident]
        file = self._suspects_file
        write_rows(file, found)
        if found:
            share = float(np.mean(probabilities.argmax(-1) == ids))
            self._print(
                f"\n{len(found):,} of {len(ids):,} labels may be wrong: the words of the other texts, which give "
                f"{share:.0%} of the texts their label, contradict them. {file} has all, the clearest first:"
            )
        else:
            self._print("\nNo label contradicts the words of the other texts clearly.")
        for suspect in found[:_SUSPECTS_SHOWN]:
            text = suspect.text if len(suspect.text) <= 90 else f"{suspect.text[:90]}..."
            self._print(f"  {suspect.source}: {suspect.label}, rather {suspect.suggestion}: {text}")
        return len(found)

    def _next_commands(
        self, data: Any, num_steps: int, is_useful: bool, num_suspects: int, is_cut: bool
    ) -> Iterator[tuple[str, Sequence[str]]]:
        """Yields commands for what this result lacks, the most important first."""
        name, config = paths.name(self.folder), paths.join(self.folder, "run", RUN_CONFIG)
        again = ["run_classifier.py", "--do_train", "--do_eval", f"--run_config={config}"]
        num_texts = len(data.train)
        counts = data.kind.counts(data.train).values() if data.kind.has_one else ()
        if num_suspects > _MANY_SUSPECTS * num_texts:
            words = [self.file, f"--init_checkpoint={self.start}", *self.flags_of_data]
            yield (
                f"Many labels may be wrong. Correct those of {self._suspects_file}, and try again:",
                ["try_file.py", *words, f"--output_dir={name}_corrected"],
            )
        if not is_useful:
            words = [*again, "--learning_rate=5e-5,2e-4,5e-4", "--num_seeds=2", f"--output_dir={name}_rates"]
            yield "The model is not better than the baseline. Compare learning rates and seeds:", words
        if num_steps * _BATCH_SIZE < num_texts:
            words = [*again, "--max_steps=0", "--num_train_epochs=3", f"--output_dir={name}_all"]
            yield f"Only {num_steps * _BATCH_SIZE:,} texts were read. Train on all, three times:", words
        if counts and is_uneven(counts):
            words = [*again, "--class_weights=balanced", f"--output_dir={name}_weights"]
            yield f"The smallest class has {min(counts):,} texts. Give small classes more weight:", words
        if is_cut:
            words = [*again, "--doc_stride=64", f"--output_dir={name}_windows"]
            yield "Some texts are cut. Read them to their ends:", words
