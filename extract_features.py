#!/usr/bin/env python3
"""Writes BERT's vectors of texts, from any of its layers.

    python extract_features.py --input_file=texts.txt --output_file=features.jsonl --init_checkpoint=model
    python extract_features.py --input_file=texts.txt --output_file=vectors.npz --init_checkpoint=model \\
        --layers=-1 --pooling=mean

The input has one text a line, or two with " ||| " between them. The output has one entry a line, also for blank lines.
"""

import contextlib
import glob
import logging
import os
import sys
from typing import Any

from absl import flags

from bert_keras import prediction
from bert_keras.cli.console import open_console
from bert_keras.cli.flags import given_flags, parse, require, run_main
from bert_keras.cli.model_flags import define_model_flags
from bert_keras.cli.progress import Progress, ProgressBar
from bert_keras.cli.start import start_tensorflow
from bert_keras.prediction.arguments import POOLINGS, Limits, check_backend, parse_layers
from bert_keras.prediction.feature_files import FORMATS, count_lines, format_of, open_feature_file, read_lines
from bert_keras.storage import paths
from bert_keras.storage.checks import check_output_file

log = logging.getLogger("bert_keras")

# Without multi_worker, because each machine would write the same output file.
_STRATEGIES = ("auto", "one", "mirrored")


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_string(
        "input_file", None, 'Required. Text file: a text a line, or two with " ||| " between.', **define
    )
    flags.DEFINE_string("output_file", None, "Required. File to write; an existing file is replaced.", **define)
    flags.DEFINE_string(
        "layers", "-1,-2,-3,-4", "Layers: 0 is the first, -1 the last, embeddings the input of the first.", **define
    )
    flags.DEFINE_integer("max_seq_length", 128, "Maximum number of tokens in a line; the rest is cut off.", **define)
    define_model_flags(values, "Required. The model: checkpoint, its folder, folder of a run, or hf://owner/name.")
    flags.DEFINE_integer("batch_size", 32, "Number of lines in a batch.", lower_bound=1, **define)
    flags.DEFINE_bool("use_tpu", False, "Use a TPU instead of the CPU or GPU.", **define)
    flags.DEFINE_string("master", None, "Name or grpc:// address of the TPU.", **define)
    flags.DEFINE_integer("num_tpu_cores", 8, "Number of TPU cores; compared with the TPU if given.", 1, **define)
    flags.DEFINE_bool("use_one_hot_embeddings", False, "Has no effect; accepted as in the original BERT.", **define)
    flags.DEFINE_enum("output_format", None, FORMATS, "If not given: by the ending of --output_file.", **define)
    flags.DEFINE_enum("strategy", "auto", _STRATEGIES, "Devices; mirrored: all GPUs; auto: all devices.", **define)
    flags.DEFINE_integer("max_chars", Limits().max_chars, "Maximum number of characters in a text.", 1, **define)
    flags.DEFINE_enum(
        "pooling",
        "none",
        POOLINGS,
        "One vector a text: of [CLS], the mean or the maximum over the tokens. none: one vector a token.",
        **define,
    )
    return values


def main(argv):
    """Runs the program.

    Args:
        argv: list of str; the program's name, then its flags.
    """
    values = define_flags()
    parse(values, argv, __doc__)
    console = open_console(stderr=True)
    require(values, ("input_file", "output_file", "init_checkpoint"))
    _extract(values, console)


def _extract(values, console):
    # None: the last four layers, or all layers of a smaller model.
    layers = parse_layers(values.layers) if "layers" in given_flags(values) else None
    num_lines = count_lines(values.input_file)
    inputs = {name: values[name].value for name in ("input_file", "vocab_file", "bert_config_file")}
    check_output_file(values.output_file, "output_file", inputs)
    check_backend(os.environ.get("KERAS_BACKEND") or "tensorflow")
    start_tensorflow()
    extractor = prediction.FeatureExtractor(
        values.init_checkpoint,
        layers=layers,
        pooling=values.pooling,
        max_seq_length=values.max_seq_length,
        batch_size=values.batch_size,
        vocab_file=values.vocab_file,
        config_file=values.bert_config_file,
        do_lower_case=values.do_lower_case,
        strip_accents=values.strip_accents,
        strategy=_strategy(values),
        limits=Limits(max_chars=values.max_chars),
    )
    check_output_file(values.output_file, "output_file", _files_of_model(values.init_checkpoint, extractor.files))
    output_format = values.output_format or format_of(values.output_file)
    with (
        ProgressBar(console) if console.is_terminal else contextlib.nullcontext(Progress()) as progress,
        open_feature_file(values.output_file, output_format, extractor.layers, values.pooling) as write,
    ):
        progress.start("extracting", num_lines, "lines")
        for features in extractor.pipe(read_lines(values.input_file), advance=progress.advance):
            write(features)
        progress.finish()
    log.info("wrote the vectors of %d lines to %s", num_lines, values.output_file)


def _files_of_model(init_checkpoint, files):
    """Returns the model's files, by the setting that named them or their folder."""
    folder = init_checkpoint if files.checkpoint is None else paths.parent(files.checkpoint.prefix)
    beside = paths.glob(paths.join(glob.escape(folder), "*.json"))
    of_checkpoint = []
    if files.checkpoint is not None:
        prefix = files.checkpoint.prefix
        of_checkpoint = [prefix, f"{prefix}.index", *paths.glob(f"{glob.escape(prefix)}.data-*-of-*")]
    return {"vocab_file": files.vocab_file, "init_checkpoint": [*of_checkpoint, *beside]}


def _strategy(values):
    """Returns the strategy for several devices or a TPU; None for the default device."""
    import tensorflow as tf

    from bert_keras.training.distribution.devices import create_strategy, workers_of_tf_config

    num_workers = len(workers_of_tf_config()[0]) if values.strategy == "auto" else 1
    if num_workers > 1:
        raise ValueError(
            f"the environment variable TF_CONFIG names {num_workers} workers, but vectors are extracted on one "
            "machine; unset it, and give each machine a part of the texts"
        )
    num_cores = values.num_tpu_cores if "num_tpu_cores" in given_flags(values) else None
    strategy = create_strategy(values.strategy, values.use_tpu, values.master, num_tpu_cores=num_cores)
    return None if strategy is tf.distribute.get_strategy() else strategy


def run_program():
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))


if __name__ == "__main__":
    run_program()
