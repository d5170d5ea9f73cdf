"""The demos: each runs a program with flags that train a small model on the sample data in about two minutes."""

import dataclasses
import logging
import os
import pathlib
from collections.abc import Callable
from typing import Any

from bert_keras.cli.console import open_console
from bert_keras.data_prep import sample
from bert_keras.data_prep.records.writing import read_metadata
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.mistakes import Mistake
from bert_keras.tasks.reports.commands import command_line, shown_path

log = logging.getLogger("bert_keras")

_DEMO_DIR = "bert_demo"
# Resolved, because in a clone the package has a link to the folder that the pages name.
_SAMPLE = pathlib.Path(sample.__file__).resolve().parent
_EXAMPLES: dict[str, Any] = {"max_seq_length": 64, "max_predictions_per_seq": 10, "dupe_factor": 20}
_PRETRAINING = {
    "train_batch_size": 32,
    "eval_batch_size": 32,
    "learning_rate": 1e-3,
    "num_train_steps": 1000,
    "num_warmup_steps": 100,
    "eval_steps": 250,
    "save_checkpoints_steps": 500,
}
_CLASSIFICATION = {
    "eval_share": 0.2,
    "max_seq_length": 64,
    "train_batch_size": 16,
    "learning_rate": 2e-4,
    "num_train_epochs": 10,
}


@dataclasses.dataclass(frozen=True)
class _Demo:
    """`prepare` gets what starts TensorFlow, and returns flag values by name; `text` is one to try the model on."""

    purpose: str
    prepare: Callable[[Callable[[], None]], dict[str, Any]]
    output_dir: str
    text: str


def prepare_demo(program_file: str, program: str, start: Callable[[], None]) -> tuple[list[str], list[str]]:
    """Prepares the demo of a program that was started without flags, and logs its command.

    Args:
        program_file: path of the program.
        program: its name, which determines the demo.
        start: starts TensorFlow, if the demo needs it.

    Returns:
        the command line of the demo, and a text to try its model on.
    """
    if os.path.isfile(_DEMO_DIR):
        raise Mistake("{} is a file, but the demo needs a folder of this name; rename the file", _DEMO_DIR)
    open_console()
    program_file = shown_path(program_file)
    demo = _DEMOS[program]
    log.info("No flags were given, so this is a demo: it %s. All of it goes into %s/.", demo.purpose, _DEMO_DIR)
    os.makedirs(_DEMO_DIR, exist_ok=True)
    values = {**demo.prepare(start), "output_dir": demo.output_dir}
    arguments = ["--do_train", "--do_eval", *(f"--{name}={value}" for name, value in values.items())]
    log.info("It is the same as this command:\n%s", command_line([program_file, *arguments]))
    return [program_file, *arguments], [demo.text]


def _prepare_pretraining(start: Callable[[], None]) -> dict[str, Any]:
    """Builds the records from the sample text."""
    # Imported here, because only the demo needs the builder of examples.
    from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
    from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings

    settings = PretrainingDataSettings(**_EXAMPLES)
    vocab_file = str(_SAMPLE / "vocab.txt")
    tokenizer = FullTokenizer(vocab_file)
    records = {"input_file": ("documents.txt", "train.tfrecord"), "eval_file": ("held_out.txt", "held_out.tfrecord")}
    values = {"bert_config_file": os.path.join(_DEMO_DIR, "bert_config.json"), "vocab_file": shown_path(vocab_file)}
    for flag, (text, record_file) in records.items():
        values[flag] = path = os.path.join(_DEMO_DIR, record_file)
        # A record file gets its final name when it is complete, so one with the same settings is reused.
        built = read_metadata(path) if os.path.exists(path) else None
        if built and dataclasses.asdict(settings).items() <= built["settings"].items():
            log.info("%s exists already", path)
        else:
            build_pretraining_data(Build([str(_SAMPLE / text)], [path], tokenizer, settings, vocab_file))
    start()
    from bert_keras.modeling.config import BertConfig  # imports TensorFlow

    config = dataclasses.replace(BertConfig.from_name("tiny"), vocab_size=len(tokenizer.vocab))
    config.to_json_file(values["bert_config_file"])
    lengths = {name: _EXAMPLES[name] for name in ("max_seq_length", "max_predictions_per_seq")}
    return {**values, **lengths, **_PRETRAINING}


def _prepare_classification(start: Callable[[], None]) -> dict[str, Any]:
    files = {"train_file": "messages.csv", "init_checkpoint": "encoder"}
    return {name: shown_path(str(_SAMPLE / file)) for name, file in files.items()} | _CLASSIFICATION


_DEMOS = {
    "run_pretraining": _Demo(
        "builds examples from a sample text, pre-trains a tiny BERT on them for about two minutes, and evaluates it on "
        "documents that it did not train on",
        _prepare_pretraining,
        os.path.join(_DEMO_DIR, "model"),
        "The water of the [MASK] flows to the sea.",
    ),
    "run_classifier": _Demo(
        "fine-tunes the small encoder that comes with the project, on 480 made-up messages to a shop's customer "
        "service, and evaluates it on 120 others",
        _prepare_classification,
        os.path.join(_DEMO_DIR, "messages"),
        "my parcel never came",
    ),
}
