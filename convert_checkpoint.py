#!/usr/bin/env python3
"""Downloads released models, converts TensorFlow checkpoints to safetensors and back, and extends vocabularies.

    python convert_checkpoint.py --list
    python convert_checkpoint.py --download=uncased_L-12_H-768_A-12
    python convert_checkpoint.py --input=uncased_L-12_H-768_A-12 --output=converted --format=safetensors
    python convert_checkpoint.py --input=converted --output=back --format=tensorflow
    python convert_checkpoint.py --input=uncased_L-12_H-768_A-12 --output=medical --format=tensorflow \\
        --extend_vocab=words.txt

The output is a folder with weights, config and vocabulary; for a fine-tuned model, also its task. The folder appears
only after the program has read it back: every weight must have the same bits, and the network's outputs on a fixed
input must agree to within 1e-5.
"""

import logging
import os
import sys
from typing import Any

from bert_keras.cli.start import start_tensorflow
from bert_keras.tasks import ability_of

if __name__ == "__main__":
    start_tensorflow()

import keras
import rich.console
from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import given_flags, parse, require, run_main
from bert_keras.cli.model_list import print_models
from bert_keras.data_prep.text.vocabulary import extend_vocabulary
from bert_keras.export.converted_task import describe_head, open_input, task_of, write_task, write_vocabulary
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import read_config
from bert_keras.modeling.checkpoints import conversion
from bert_keras.modeling.checkpoints.copy_check import check_copy, run_network
from bert_keras.modeling.checkpoints.downloads import download_model
from bert_keras.modeling.checkpoints.names import LINEAR_HEADS
from bert_keras.modeling.released import released_models
from bert_keras.settings.fields import define_group
from bert_keras.settings.model_files import ModelSettings
from bert_keras.storage.checks import check_new_folder
from bert_keras.storage.writing import whole_folder

log = logging.getLogger("bert_keras")

HEAD_CHOICES = ("none", "masked_lm", *LINEAR_HEADS)
FORMATS = ("tensorflow", "safetensors")
# Readers look for these files, so they appear last in the output folder.
_FOUND_BY = (".index", "model.safetensors", ".safetensors.index.json")


def define_flags() -> flags.FlagValues:
    """Returns the flags of this program."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_bool("list", False, "List the released models, and do nothing else.", **define)
    flags.DEFINE_string("download", None, "Name of a released model to download to --output.", **define)
    flags.DEFINE_string("input", None, "Checkpoint or run: its folder, prefix or file; or hf://owner/name.", **define)
    flags.DEFINE_string("output", None, "Folder to write; new or empty. Default for --download: the name.", **define)
    flags.DEFINE_enum("format", None, FORMATS, "Format to write.", **define)
    flags.DEFINE_enum("head", None, HEAD_CHOICES, "The only head to keep. none: keep only the encoder.", **define)
    flags.DEFINE_list("labels", None, "Names of the classes of the head, separated by commas.", **define)
    flags.DEFINE_bool("keep_optimizer", False, "Also keep Adam's moments and the step.", **define)
    flags.DEFINE_string("extend_vocab", None, "File of words to add to the vocabulary, one a line.", **define)
    flags.DEFINE_list("layers", None, "Encoder layers to keep, from 1 and in this order, such as 1,3,5.", **define)
    define_group(values, "Files of the model", ModelSettings)
    return values


def main(argv: list[str]) -> float | str | None:
    """Runs the program with its name and flags.

    Returns the largest difference between the outputs before and after a conversion, or the folder of a download.
    """
    values = define_flags()
    parse(values, argv, __doc__)
    console = open_console()
    if values.list or values.download is not None:
        return _get_model(values, console)
    require(values, ("input", "output", "format"))
    check_new_folder(values.output, "output", file_endings=(".ckpt", ".index", ".safetensors"))
    conversion.check_labels(values.labels)
    casing = values.do_lower_case, values.strip_accents
    model = ModelFolder(values.input, values.vocab_file, values.bert_config_file, *casing)
    checkpoint, settings = open_input(model, values.keep_optimizer), task_of(model)
    contents = _select(model, settings, values)
    vocab_file = values.vocab_file or checkpoint.vocab_file
    preparation, tokens = model.preparation if vocab_file else None, None
    if values.extend_vocab:
        if not vocab_file or not preparation:
            raise Mistake("--extend_vocab: no vocabulary is next to {}; give --vocab_file", checkpoint.prefix)
        do_lower_case, strip_accents = preparation.do_lower_case, preparation.strip_accents
        extended = extend_vocabulary(vocab_file, values.extend_vocab, do_lower_case, strip_accents)
        if not extended.added:
            raise Mistake(
                "--extend_vocab: {} has all words of {} already; give other words", vocab_file, values.extend_vocab
            )
        contents, tokens = conversion.extend(contents, extended), extended.tokens
    computed = run_network(contents)  # before writing, to refuse weights that do not fit a BERT network
    with whole_folder(values.output, last=_FOUND_BY) as folder:
        conversion.write_contents(contents, folder, values.format)
        if not vocab_file or not preparation:
            log.warning("no vocabulary next to %s and no --vocab_file: none is written", checkpoint.prefix)
        else:
            # Other libraries need no line for a row without a token.
            num_rows = contents.config.vocab_size if values.format == "tensorflow" else 0
            write_vocabulary(folder, vocab_file, tokens, preparation, num_rows)
        if settings and ability_of(settings["task"]).head in (None, *contents.heads):
            write_task(folder, settings, contents, values.format)
        elif values.format == "tensorflow":
            conversion.log_lost_facts(contents)
        difference = check_copy(folder, contents, computed)
    log.info("%s holds %s", values.output, ", ".join(sorted(os.listdir(values.output))))
    return difference


def _get_model(values: flags.FlagValues, console: rich.console.Console) -> str | None:
    """Lists the released models, or downloads one."""
    action = "list" if values.list else "download"
    if others := given_flags(values) - {action} - ({"output"} if values.download else set()):
        raise Mistake("--{} goes without --{}; convert in a second command", action, min(others))
    if values.list:
        return print_models(console, released_models())
    if not console.is_terminal:
        keras.utils.disable_interactive_logging()  # the bar would fill a log file
    return download_model(values.download, values.output)


def _select(model: ModelFolder, settings: dict[str, Any] | None, values: flags.FlagValues) -> conversion.Contents:
    """Returns the parts of the input to write, with the names of the classes."""
    checkpoint = model.need_checkpoint()
    config = read_config(values.bert_config_file) if values.bert_config_file else checkpoint.config
    trained_for = {"task": settings["task"], "head_of_task": ability_of(settings["task"]).head} if settings else {}
    contents = conversion.select(checkpoint, config, values.format, values.head, values.keep_optimizer, **trained_for)
    contents = conversion.keep_layers(contents, values.layers) if values.layers is not None else contents
    return describe_head(contents, model, settings, values.labels)


def run_program() -> None:
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))


if __name__ == "__main__":
    run_program()
