#!/usr/bin/env python3
"""Converts TensorFlow checkpoints (of the original BERT or a run) to safetensors and back, and extends vocabularies.

    python convert_checkpoint.py --input=uncased_L-12_H-768_A-12 --output=converted --format=safetensors
    python convert_checkpoint.py --input=converted --output=back --format=tensorflow
    python convert_checkpoint.py --input=uncased_L-12_H-768_A-12 --output=medical --format=tensorflow \\
        --extend_vocab=words.txt

The output is a folder with weights, config and vocabulary; for a fine-tuned model, also its task. The folder appears
only after the program has read it back: every weight must have the same bits, and the network's outputs on a fixed
input must agree to within 1e-5.
"""

import dataclasses
import logging
import os
import sys

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse, require, run_main
from bert_keras.cli.new_folder import check_new_folder, folder_that_appears_when_done
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary import extend_vocabulary
from bert_keras.export.converted_task import choose_labels, read_task, write_task
from bert_keras.modeling import check_config, open_checkpoint, read_config
from bert_keras.modeling.checkpoints.conversion import (
    LINEAR_HEADS,
    TOP_LEVEL_HEADS,
    Contents,
    ExtendedEntries,
    SelectedEntries,
    differing_entries,
    largest_difference,
    open_contents,
    run_network,
    write_contents,
)
from bert_keras.modeling.checkpoints.loading import Checkpoint
from bert_keras.modeling.checkpoints.names import architecture_of
from bert_keras.prediction.loading.model_files import TASK_FILE, TOKENIZER_FILE, find_preparation, preparation_text
from bert_keras.prediction.tasks.registry import TASKS
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

_FOUND_BY = (".index", "model.safetensors", ".safetensors.index.json")
# Identical weights give identical outputs, except for the order in which threads add numbers.
_TOLERANCE = 1e-5

FORMATS = ("tensorflow", "safetensors")


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define = {"flag_values": values}
    heads = ["none", "masked_lm", *LINEAR_HEADS]
    flags.DEFINE_string(
        "input", None, "Checkpoint of any format, or a run: its prefix, one of its files, its folder.", **define
    )
    flags.DEFINE_string("output", None, "Folder to write; new or empty.", **define)
    flags.DEFINE_enum("format", None, FORMATS, "Format to write.", **define)
    flags.DEFINE_enum("head", None, heads, "The one head to keep; none: the encoder alone.", **define)
    flags.DEFINE_list("labels", None, "Names of the classes of the head, separated by commas.", **define)
    flags.DEFINE_bool("keep_optimizer", False, "Keep Adam's slots and the step as well.", **define)
    flags.DEFINE_string("extend_vocab", None, "File of words to add to the vocabulary, one a line.", **define)
    flags.DEFINE_string("bert_config_file", None, "The config, if it is not next to the checkpoint.", **define)
    flags.DEFINE_string("vocab_file", None, "The vocabulary, if it is not next to the checkpoint.", **define)
    flags.DEFINE_bool("do_lower_case", None, "Lower-case texts, if the files are wrong about it.", **define)
    return values


def main(argv):
    """Runs the program.

    Args:
        argv: list of str; the program's name, then its flags.

    Returns:
        float; the largest difference between the network's outputs before and after.
    """
    values = define_flags()
    parse(values, argv, __doc__)
    open_console()
    require(values, ("input", "output", "format"))
    check_new_folder(values.output, "output", file_endings=(".ckpt", ".index", ".safetensors"))
    _check_labels(values.labels)
    checkpoint = open_checkpoint(_find_input(values))
    settings = read_task(checkpoint)
    contents = _select(checkpoint, settings, values)
    vocab_file = values.vocab_file or checkpoint.vocab_file
    preparation = None
    if vocab_file is not None:
        folder_read = paths.parent(checkpoint.prefix)
        preparation = find_preparation(folder_read, vocab_file, contents.config, values.do_lower_case)
    extended = None
    if values.extend_vocab:
        extended, contents = _extend(contents, vocab_file, values.extend_vocab, preparation)
    computed = run_network(contents)  # before writing, to refuse weights that do not fit a BERT network
    with folder_that_appears_when_done(values.output, "output", last=_FOUND_BY) as folder:
        write_contents(contents, folder, values.format)
        if vocab_file is None:
            log.warning("no vocab.txt next to %s and no --vocab_file: none is written", checkpoint.prefix)
        else:
            _write_vocabulary(folder, vocab_file, extended)
            (folder / TOKENIZER_FILE).write_text(preparation_text(preparation), encoding="utf-8")
        if settings and TASKS[settings["task"]].head in contents.heads:
            write_task(folder, settings, contents.labels)
        elif values.format == "tensorflow":
            _tell_what_is_lost(contents)
        difference = _read_back(folder, contents, computed)
    log.info("%s holds %s", values.output, ", ".join(sorted(os.listdir(values.output))))
    return difference


def _check_labels(labels):
    if labels is None:
        return
    if not labels or not all(label.strip() for label in labels):
        raise ValueError(f'--labels="{",".join(labels)}" has an empty name; give one for each class')
    if repeated := sorted({label for label in labels if labels.count(label) > 1}):
        raise ValueError(f"--labels has {', '.join(repeated)} more than once; give each class its own name")


def _find_input(values):
    """Returns the path of the checkpoint; for a fine-tuning run, that of its model."""
    model = paths.join(values.input, "model")
    if not paths.is_file(paths.join(model, TASK_FILE)):
        return values.input
    if values.keep_optimizer:
        raise ValueError(
            f"--keep_optimizer: {values.input} is a run of fine-tuning, whose model in {model} has only weights; leave "
            f"the flag out, or give one of the checkpoints {paths.join(values.input, 'model.ckpt-<step>')} as --input, "
            f"with --bert_config_file={paths.join(model, 'bert_config.json')}"
        )
    log.info("%s is a run of fine-tuning: converting its model in %s", values.input, model)
    return model


def _select(checkpoint, settings, values):
    """Returns the parts of the input to write, as Contents."""
    config = read_config(values.bert_config_file) if values.bert_config_file else checkpoint.config
    if config is None:
        raise ValueError(
            f"{checkpoint.prefix} has no config next to it; give the --bert_config_file that belongs to it"
        )
    check_config(config, checkpoint)
    heads = _choose_heads(checkpoint, settings, values.head)
    if values.format == "safetensors":
        architecture_of(heads)  # refuses combinations of heads that no class has
    # A multiple-choice head has one score, even if its config names classes. Other heads have no classes.
    has_classes = {"classifier", "token_classifier"} & set(heads)
    if values.labels and not has_classes:
        raise ValueError("--labels: no head with named classes is written; leave the flag out")
    chosen = heads if values.head else None
    entries = SelectedEntries(checkpoint, chosen, values.keep_optimizer)
    if values.keep_optimizer and entries.names == SelectedEntries(checkpoint, chosen).names:
        raise ValueError(f"--keep_optimizer: {checkpoint.prefix} holds only weights; leave the flag out")
    left_out = sorted(set(checkpoint.heads) - set(heads)) if values.head not in TOP_LEVEL_HEADS else []
    if left_out:
        log.info("left out, by --head=%s: %s", values.head, ", ".join(left_out))
    labels = choose_labels(checkpoint, settings, values.labels) if has_classes else None
    return Contents(Checkpoint(checkpoint.prefix, entries), heads, config, labels)


def _choose_heads(checkpoint, settings, choice):
    """Returns the heads to write, a tuple of str."""
    of_task = TASKS[settings["task"]].head if settings else None
    if choice is None:
        # The weight names in a TensorFlow checkpoint do not identify the type of its head, but the task does.
        return tuple(of_task if of_task and head in TOP_LEVEL_HEADS else head for head in checkpoint.heads)
    if of_task and choice in TOP_LEVEL_HEADS and choice != of_task:
        raise ValueError(
            f"--head={choice}: {checkpoint.prefix} was trained for {settings['task']} and has the head {of_task}, as "
            f"{TASK_FILE} says; leave the flag out"
        )
    if choice == "none":
        return ()
    if choice == "multiple_choice" and "output_bias" in checkpoint.names and checkpoint.shape("output_bias") != (1,):
        raise ValueError(
            f"--head={choice}: the head of {checkpoint.prefix} has {checkpoint.shape('output_bias')[0]} classes, "
            "and a choice has one score; choose classifier or token_classifier"
        )
    # Only the user knows the type of a top-level head in a TensorFlow checkpoint.
    is_top_level = choice in TOP_LEVEL_HEADS and set(TOP_LEVEL_HEADS) & set(checkpoint.heads)
    if choice in checkpoint.heads or is_top_level:
        return (choice,)
    held = f"its heads are {', '.join(checkpoint.heads)}" if checkpoint.heads else "it has none"
    raise ValueError(f"--head={choice}: {checkpoint.prefix} has no such head, {held}; choose what is there, or none")


def _extend(contents, vocab_file, words_file, preparation):
    """Adds words to the vocabulary and logs their ids; returns `ExtendedVocabulary` and Contents."""
    if vocab_file is None:
        raise ValueError(f"--extend_vocab: no vocab.txt is next to {contents.checkpoint.prefix}; give --vocab_file")
    casing = preparation.do_lower_case, preparation.strip_accents
    extended = extend_vocabulary(vocab_file, words_file, *casing)
    if extended.present:
        log.info("%d words are in the vocabulary already: %s", len(extended.present), ", ".join(extended.present))
    if not extended.added:
        raise ValueError(f"--extend_vocab: {vocab_file} has all words of {words_file} already; give other words")
    tokenizer = FullTokenizer(vocab_file, *casing)
    for word in extended.added:
        pieces = " ".join(tokenizer.convert_ids_to_tokens(word.piece_ids))
        log.info(
            'added "%s": id %d, %s; starts as the mean of %s', word.word, word.id, word.slot or "a new row", pieces
        )
    num_slots = sum(word.slot is not None for word in extended.added)
    log.info(
        "%d words added: %d in [unused] places, %d as new rows; the vocabulary has %d entries",
        len(extended.added),
        num_slots,
        len(extended.added) - num_slots,
        len(extended.tokens),
    )
    num_rows = len(extended.tokens)
    entries = ExtendedEntries(contents.checkpoint, num_rows, {word.id: word.piece_ids for word in extended.added})
    return extended, dataclasses.replace(
        contents,
        checkpoint=Checkpoint(contents.checkpoint.prefix, entries),
        config=dataclasses.replace(contents.config, vocab_size=num_rows),
    )


def _write_vocabulary(folder, vocab_file, extended):
    if extended is None:
        paths.copy(vocab_file, folder / "vocab.txt")
    else:
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in extended.tokens), encoding="utf-8")


def _tell_what_is_lost(contents):
    """Logs the facts that a TensorFlow checkpoint without a task.json cannot store."""
    if contents.labels:
        log.warning("a TensorFlow checkpoint cannot store the names of classes: %s", ",".join(contents.labels))
    for head in {"token_classifier", "multiple_choice"} & set(contents.heads):
        log.info("a TensorFlow checkpoint does not store the type of its head: convert it back with --head=%s", head)


def _read_back(folder, contents, computed):
    """Reads the written files and compares them with the input; returns the largest difference of the outputs."""
    copy = open_contents(folder, contents.heads)
    if differing := differing_entries(contents.checkpoint, copy.checkpoint):
        raise ValueError(f"the written entries differ from the input in {', '.join(differing[:5])}; nothing is kept")
    if copy.config != contents.config:
        raise ValueError(f"the written config is {copy.config}, not {contents.config}; nothing is kept")
    difference = largest_difference(computed, run_network(copy))
    log.info(
        "read back: all %d entries have the same bits; on a fixed input %s differ by at most %g",
        len(copy.checkpoint.names),
        ", ".join(computed),
        difference,
    )
    if not difference <= _TOLERANCE:  # so that NaN fails, too
        raise ValueError(f"the outputs of the written network differ by {difference:g}; nothing is kept")
    return difference


def run_program():
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))


if __name__ == "__main__":
    run_program()
