"""Exports a model for use without this project: as a SavedModel that takes text, ONNX, OpenVINO, LiteRT, or a web page.

    python export_model.py --model_dir=output --export_dir=exported
    python export_model.py --model_dir=output --export_dir=small --format=onnx,litert --quantize=int8
    python export_model.py --model_dir=output --export_dir=page --format=web
    python export_model.py --init_checkpoint=model --task=fill_mask --export_dir=masks

The program compares the export with the model before the folder appears: the SavedModel in a process with only
TensorFlow and tensorflow-text, the other formats with their own runtimes, the page in Node.
"""

import functools
from typing import Any

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program
from bert_keras.cli.start import start_tensorflow
from bert_keras.export.settings import Export
from bert_keras.settings.fields import program_flags

define_flags = functools.partial(program_flags, Export)


def main(argv: list[str], hides_gpus: bool = False) -> dict[str, Any]:
    """Runs the program with its name and flags. Returns the content of export.json."""
    settings = Export.from_argv(argv, __doc__)
    open_console()
    start_tensorflow()
    import tensorflow as tf

    from bert_keras.export.api import run  # loads TensorFlow

    if hides_gpus:
        tf.config.set_visible_devices([], "GPU")
    return run(settings)


# The processes that convert and check run on the CPU, so the timings must be those of the CPU.
run_program = functools.partial(as_program, functools.partial(main, hides_gpus=True))
