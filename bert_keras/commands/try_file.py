"""Shows what a file of texts and labels holds, and after a question trains a classifier on it and checks its labels.

    python try_file.py reviews.csv
    python try_file.py reviews.csv --init_checkpoint=minilm --yes

FILE is a table (.csv, .tsv, .txt with tabs, .jsonl) with a column of texts and a column of labels. The program holds
out a fifth of the texts, and trains on the others for at most 300 steps, from the small encoder that comes with the
project or from --init_checkpoint. It ends with the labels that look wrong, and with three commands that fit the result.
The same command continues what was interrupted.
"""

import dataclasses
import functools
import pathlib

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, parse
from bert_keras.data_prep import sample
from bert_keras.mistakes import Mistake
from bert_keras.programs.command import naming_classifier
from bert_keras.programs.trial import Trial
from bert_keras.settings.fields import make_flags, read_flags, setting
from bert_keras.tasks.classification.settings import OwnLabelSettings
from bert_keras.tasks.reports.commands import flags_of, shown_path
from bert_keras.tasks.tables.settings import ColumnSettings


@dataclasses.dataclass(frozen=True)
class TryFile:
    """What to try."""

    output_dir: str | None = setting("Folder for the results. If not given: the name of the file with _try.", None)
    init_checkpoint: str | None = setting(
        "Model to start from: its folder, a checkpoint, or hf://owner/name. If not given: the small encoder that comes "
        "with the project.",
        None,
    )
    yes: bool = setting("Do not ask before the training.", False)


_DATA_SETTINGS = (OwnLabelSettings, ColumnSettings)
define_flags = functools.partial(make_flags, {"Try": TryFile, **{group.title: group for group in _DATA_SETTINGS}})


def main(argv: list[str]) -> None:
    """Runs the program, given its name, its flags and a file."""
    values = define_flags()
    files = parse(values, argv, __doc__, takes_texts=True)
    if len(files) != 1:
        raise Mistake("give one file: try_file.py FILE ({helpfull} lists all flags)")
    given = read_flags(TryFile, values)
    # In a clone the package has a link to the folder that the pages name.
    shipped = shown_path(str(pathlib.Path(sample.__file__).resolve().parent / "encoder"))
    folder = given.output_dir or f"{pathlib.PurePath(files[0]).name.partition('.')[0]}_try"
    data_flags = [flag for group in _DATA_SETTINGS for flag in flags_of(vars(read_flags(group, values)), group)]
    trial = Trial(files[0], given.init_checkpoint or shipped, folder, data_flags, open_console())
    with naming_classifier(values):
        trial.run(is_asked=not given.yes)


run_program = functools.partial(as_program, main)
