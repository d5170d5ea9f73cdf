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

import functools
from typing import Any

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, given_flags, parse, require
from bert_keras.cli.model_list import print_models
from bert_keras.cli.start import start_tensorflow
from bert_keras.mistakes import Mistake
from bert_keras.settings.fields import define_group
from bert_keras.settings.model_files import ModelSettings
from bert_keras.storage.checks import check_new_folder

# After the first two, those of `modeling.checkpoints.names.LINEAR_HEADS`, which would load TensorFlow.
_LINEAR = ("next_sentence", "squad", "classifier", "multiple_choice", "token_classifier")
HEAD_CHOICES = ("none", "masked_lm", *_LINEAR)
FORMATS = ("tensorflow", "safetensors")


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
    action = "list" if values.list else "download" if values.download is not None else None
    if action:
        if others := given_flags(values) - {action} - ({"output"} if action == "download" else set()):
            raise Mistake("--{} goes without --{}; convert in a second command", action, min(others))
    else:
        require(values, ("input", "output", "format"))
        check_new_folder(values.output, "output", file_endings=(".ckpt", ".index", ".safetensors"))
    start_tensorflow()
    from bert_keras.export.checkpoint_conversion import convert, download  # both load TensorFlow
    from bert_keras.modeling.released import released_models

    if values.list:
        return print_models(console, released_models())
    return download(values, console) if values.download is not None else convert(values)


run_program = functools.partial(as_program, main)
