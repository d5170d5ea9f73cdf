"""Conversion of a checkpoint, and the download of a released model, as the flags of convert_checkpoint.py say."""

import logging
import os
from typing import Any

import keras
import rich.console
from absl import flags

from bert_keras.data_prep.text.vocabulary import extend_vocabulary
from bert_keras.export.converted_task import describe_head, open_input, task_of, write_task, write_vocabulary
from bert_keras.mistakes import Message, Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import read_config
from bert_keras.modeling.checkpoints import conversion
from bert_keras.modeling.checkpoints.copy_check import check_copy, run_network
from bert_keras.modeling.checkpoints.downloads import download_model
from bert_keras.storage.writing import whole_folder
from bert_keras.tasks import ability_of

log = logging.getLogger("bert_keras")

# Readers look for these files, so they appear last in the output folder.
_FOUND_BY = (".index", "model.safetensors", ".safetensors.index.json")


def convert(values: flags.FlagValues) -> float:
    """Converts a checkpoint; returns the largest difference between the outputs before and after it."""
    conversion.check_labels(values.labels)
    casing = values.do_lower_case, values.strip_accents
    model = ModelFolder(values.input, values.vocab_file, values.bert_config_file, *casing)
    checkpoint, settings = open_input(model, values.keep_optimizer), task_of(model)
    contents = _select(model, settings, values)
    vocab_file = values.vocab_file or checkpoint.vocab_file
    preparation, tokens = model.preparation if vocab_file else None, None
    if values.extend_vocab:
        if not vocab_file or not preparation:
            raise Mistake("{extend_vocab}: no vocabulary is next to {}; give {vocab_file}", checkpoint.prefix)
        do_lower_case, strip_accents = preparation.do_lower_case, preparation.strip_accents
        extended = extend_vocabulary(vocab_file, values.extend_vocab, do_lower_case, strip_accents)
        if not extended.added:
            raise Mistake(
                "{extend_vocab}: {} has all words of {} already; give other words", vocab_file, values.extend_vocab
            )
        contents, tokens = conversion.extend(contents, extended), extended.tokens
    computed = run_network(contents)  # before writing, to refuse weights that do not fit a BERT network
    with whole_folder(values.output, last=_FOUND_BY) as folder:
        conversion.write_contents(contents, folder, values.format)
        if not vocab_file or not preparation:
            log.warning(Message("no vocabulary next to {} and no {vocab_file}: none is written", checkpoint.prefix))
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


def download(values: flags.FlagValues, console: rich.console.Console) -> str:
    """Downloads a released model, and returns its folder."""
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
