"""Writes BERT's vectors of texts, from any of its layers.

    python extract_features.py --input_file=texts.txt --output_file=features.jsonl --init_checkpoint=model
    python extract_features.py --input_file=texts.txt --output_file=vectors.npz --init_checkpoint=model \\
        --layers=-1 --pooling=mean

The input has one text a line, or two with " ||| " between them. The output has one entry a line, also for blank lines.
"""

import dataclasses
import functools
import glob
import logging
import os
from typing import Any

from absl import flags

from bert_keras import prediction
from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, given_flags, parse, require
from bert_keras.cli.progress import progress_on
from bert_keras.cli.start import start_tensorflow
from bert_keras.mistakes import Mistake, several
from bert_keras.prediction.arguments import Limits, answer_precision, parse_layers
from bert_keras.settings.devices import check_backend
from bert_keras.settings.fields import REQUIRED, make_flags, read_flags, setting
from bert_keras.settings.model_files import ModelSettings
from bert_keras.storage import paths
from bert_keras.storage.checks import check_output_file
from bert_keras.tasks.vectors import POOLINGS
from bert_keras.tasks.vectors.feature_files import FORMATS, count_lines, format_of, open_feature_file, read_lines

log = logging.getLogger("bert_keras")


@dataclasses.dataclass(frozen=True)
class Extraction:
    """The texts, the model and the vectors."""

    input_file: str = setting('Required. Text file: a text a line, or two with " ||| " between.', REQUIRED)
    output_file: str = setting("Required. File to write; an existing file is replaced.", REQUIRED)
    init_checkpoint: str = setting(
        "Required. The model: checkpoint, its folder, folder of a run, or hf://owner/name.", REQUIRED
    )
    layers: str = setting("Layers: 0 is the first, -1 the last, embeddings the input of the first.", "-1,-2,-3,-4")
    pooling: str = setting(
        "One vector a text: of [CLS], the mean or the maximum over the tokens. none: one vector a token.",
        "none",
        choices=("none", *POOLINGS),
    )
    output_format: str | None = setting("If not given: by the ending of {output_file}.", None, choices=FORMATS)
    max_seq_length: int = setting("Maximum number of tokens in a line; the rest is cut off.", 128)
    max_chars: int = setting("Maximum number of characters in a text.", Limits().max_chars, lower_bound=1)
    batch_size: int = setting("Number of lines in a batch.", 32, lower_bound=1)
    precision: str = answer_precision()


@dataclasses.dataclass(frozen=True)
class ExtractionDevices:
    """The devices; not multi_worker, because each machine would write the same output file."""

    strategy: str = setting(
        "Devices; mirrored: all GPUs; auto: all devices.", "auto", choices=("auto", "one", "mirrored")
    )
    use_tpu: bool = setting("Use a TPU instead of the CPU or GPU.", False)
    master: str | None = setting("Name or grpc:// address of the TPU.", None)
    num_tpu_cores: int = setting("Number of TPU cores; compared with the TPU if given.", 8, lower_bound=1)
    use_one_hot_embeddings: bool = setting("Has no effect; accepted as in the original BERT.", False)


def define_flags() -> flags.FlagValues:
    """Returns the flags of this program."""
    return make_flags({"Vectors": Extraction, "Files of the model": ModelSettings, "Devices": ExtractionDevices})


def main(argv: list[str]) -> None:
    """Runs the program, given its name and its flags."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("input_file", "output_file", "init_checkpoint"))
    console = open_console(stderr=True)
    settings, files = read_flags(Extraction, values), read_flags(ModelSettings, values)
    # None: the last four layers, or all layers of a smaller model.
    layers = parse_layers(settings.layers) if "layers" in given_flags(values) else None
    num_lines = count_lines(settings.input_file)
    inputs = ("input_file", "vocab_file", "bert_config_file")
    check_output_file(settings.output_file, "output_file", {name: values[name].value for name in inputs})
    output_format = format_of(settings.output_file, settings.output_format)
    check_backend(os.environ.get("KERAS_BACKEND") or "tensorflow")
    start_tensorflow()
    extractor = prediction.FeatureExtractor(
        settings.init_checkpoint,
        layers=layers,
        pooling=settings.pooling,
        max_seq_length=settings.max_seq_length,
        batch_size=settings.batch_size,
        vocab_file=files.vocab_file,
        config_file=files.bert_config_file,
        do_lower_case=files.do_lower_case,
        strip_accents=files.strip_accents,
        strategy=_strategy(values),
        limits=Limits(max_chars=settings.max_chars),
        precision=settings.precision,
    )
    check_output_file(settings.output_file, "output_file", _files_of_model(settings.init_checkpoint, extractor))
    with (
        progress_on(console) as progress,
        open_feature_file(settings.output_file, output_format, extractor.layers, settings.pooling) as write,
    ):
        progress.start("extracting", num_lines, "lines")
        for features in extractor.pipe(read_lines(settings.input_file), advance=progress.advance):
            write(features)
        progress.finish()
    log.info("wrote the vectors of %s to %s", several(num_lines, "lines"), settings.output_file)


def _files_of_model(init_checkpoint: str, extractor: "prediction.FeatureExtractor") -> dict[str, str | list[str]]:
    """Returns the model's files, by the setting that named them or their folder."""
    prefix = extractor.files.checkpoint and extractor.files.checkpoint.prefix
    beside = paths.glob(paths.join(glob.escape(paths.parent(prefix) if prefix else init_checkpoint), "*.json"))
    checkpoint_files = [prefix, f"{prefix}.index", *paths.glob(f"{glob.escape(prefix)}.data-*-of-*")] if prefix else []
    return {"vocab_file": extractor.files.vocab_file, "init_checkpoint": [*checkpoint_files, *beside]}


def _strategy(values: flags.FlagValues) -> Any:
    """Returns the strategy for several devices or a TPU; None for the default device."""
    import tensorflow as tf

    from bert_keras.engine.distribution.devices import create_strategy, workers_of_tf_config

    if values.strategy == "auto" and (num_workers := len(workers_of_tf_config()[0])) > 1:
        raise Mistake(
            "the environment variable TF_CONFIG names {} workers, but vectors are extracted on one "
            "machine; unset it, and give each machine a part of the texts",
            num_workers,
        )
    num_cores = values.num_tpu_cores if "num_tpu_cores" in given_flags(values) else None
    strategy = create_strategy(values.strategy, values.use_tpu, values.master, num_tpu_cores=num_cores)
    return None if strategy is tf.distribute.get_strategy() else strategy


run_program = functools.partial(as_program, main)
