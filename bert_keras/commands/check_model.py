"""Says how a model of another library is read, and compares it with that library.

    python check_model.py sentiment_hf
    python check_model.py sentiment_hf --nocompare

FOLDER is a folder of transformers or sentence-transformers, or hf://owner/name. The program prints each fact that
decides the answers, with its file and key; the keys of each file that are read, have no effect or are unknown; and
commands that use the model. If the library is installed, the program compares tokens and outputs of texts in several
scripts. The exit status is 1 if a value is refused or the answers differ.
"""

import dataclasses
import functools
import os

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, parse
from bert_keras.cli.start import start_tensorflow
from bert_keras.mistakes import Mistake
from bert_keras.settings.fields import make_flags, read_flags, setting
from bert_keras.tasks import abilities


@dataclasses.dataclass(frozen=True)
class ModelCheck:
    """What to check."""

    task: str | None = setting("Task of a head with several.", None, choices=tuple(abilities()))
    compare: bool | None = setting(
        "Compare tokens and outputs with transformers, or with sentence-transformers for its folders. If not given: if "
        "it is installed.",
        None,
    )


define_flags = functools.partial(make_flags, {"Check": ModelCheck})


def main(argv: list[str]) -> None:
    """Runs the program, given its name, its flags and a folder."""
    values = define_flags()
    folders = parse(values, argv, __doc__, takes_texts=True)
    if len(folders) != 1:
        raise Mistake("give one folder: check_model.py FOLDER ({helpfull} lists all flags)")
    settings = read_flags(ModelCheck, values)
    open_console(stderr=True)
    start_tensorflow()
    from bert_keras.programs.model_check import report as check  # loads TensorFlow

    model = check.open_folder(folders[0], settings.task)
    try:
        print("Decided:", *check.facts(model), sep="\n")
    except Mistake as error:
        print("Refused:", f"  {error}", "Keys:", *check.keys(model), sep="\n", flush=True)
        raise SystemExit(1) from None
    print("Keys:", *check.keys(model), *check.uses(model), sep="\n", flush=True)
    os.environ.setdefault("USE_TF", "0")  # transformers 4 would load TensorFlow, too
    lines, agrees = check.comparison(model, settings.compare)
    print(*lines, sep="\n", flush=True)
    if not agrees:
        raise Mistake("{} answers otherwise here; report it with the text that differs", folders[0])


run_program = functools.partial(as_program, main, writes_texts=True)
