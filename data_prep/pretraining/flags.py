"""The settings of create_pretraining_data.py and what they say: casing, names of the record files, compression."""

import dataclasses
import logging
import re
from collections.abc import Set
from typing import Any

from absl import flags

from bert_keras.data_prep.cleaning.filters import Cleaning
from bert_keras.data_prep.corpus.raw_text import TextOptions
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.text.vocabulary_files import check_casing, files_of_vocabulary
from bert_keras.mistakes import Message, Mistake, Setting
from bert_keras.settings.fields import REQUIRED, make_flags, setting
from bert_keras.storage.checks import check_ending

log = logging.getLogger("bert_keras")

INPUT_FILE = (
    "Required. Text files, JSON lines, CSV, Parquet or Arrow, also compressed: paths, patterns and folders, separated "
    "by commas; - is standard input."
)
STRIP_ACCENTS = "Strip accents, or keep them. If not given: as {do_lower_case}."
# Splits a file name into stem and ending: "train-v1.0" and ".tfrecord.gz".
_ENDING = re.compile(r"(?:\.[A-Za-z_]\w*)?(?:\.gz)?\Z")


@dataclasses.dataclass(frozen=True)
class Files:
    """The files of a build, and the work to do; the vocabulary has its casing if the flags do not give it."""

    input_file: str = setting(INPUT_FILE, REQUIRED)
    output_file: str = setting(
        "Required. TFRecord files to write, separated by commas; examples go to them in turn.", REQUIRED
    )
    vocab_file: str = setting("Required. WordPiece vocabulary, one token a line.", REQUIRED)
    do_lower_case: bool = setting(
        "Lower-case texts and strip accents. If not given: as in tokenizer_config.json next to the vocabulary.", True
    )
    strip_accents: bool | None = setting(STRIP_ACCENTS, None)
    eval_output_file: str | None = setting(
        "TFRecord files for the examples of the held-out share, separated by commas; see {eval_share}.", None
    )
    num_shards: int = setting(
        "Number of files to write. With more than 1: NAME-00000-of-00010.tfrecord and so on.", 1, lower_bound=1
    )
    compression: str = setting(
        "gzip writes compressed files, as a name that ends in .gz does.", "none", choices=("none", "gzip")
    )
    work_dir: str | None = setting(
        "Local folder for unfinished work. If not given: the folder of the first output.", None
    )
    num_workers: int = setting(
        "Number of processes. 1 gives the order of the original BERT; all others give the same files.", 1, lower_bound=1
    )
    dry_run: bool = setting(
        "Read the text and report what it gives: sentences, unknown tokens, expected examples and disk. Writes no "
        "records.",
        False,
    )


def define_flags() -> flags.FlagValues:
    """Returns the flags: those of the original BERT with the same names and defaults, and additional ones."""
    return make_flags({"Files": Files, "Text": TextOptions, "Cleaning": Cleaning, "Examples": PretrainingDataSettings})


def casing_of(files: Any, given: Set[str]) -> dict[str, Any]:
    """Returns the arguments for text preparation: the given ones, or those of the vocabulary's folder.

    `files` are settings with "vocab_file", "do_lower_case" and "strip_accents".
    """
    casing = {"do_lower_case": files.do_lower_case, "strip_accents": files.strip_accents}
    vocabulary_files = files_of_vocabulary(files.vocab_file)
    check_casing(vocabulary_files, **{name: value if name in given else None for name, value in casing.items()})
    for name, fact in vocabulary_files.casing.items():
        if name not in given:
            casing[name] = fact.value
            log.info(Message("{}={} ({})", Setting(name), fact.value, fact.source))
    return casing


def name_outputs(output_file: str, num_shards: int = 1, called: str = "output_file") -> list[str]:
    """Returns the names of the record files; several shards are named NAME-00000-of-00010.tfrecord."""
    output_files = [name.strip() for name in output_file.split(",")]
    for name in output_files:
        check_ending(name, called, (".gz",))
    if num_shards == 1:
        return output_files
    if len(output_files) > 1:
        raise Mistake(
            "{output_file} names {} files, but {num_shards}={} needs one name; give one name, or leave out "
            "{num_shards}",
            len(output_files),
            num_shards,
        )
    shards = (rf"-{number:05}-of-{num_shards:05}\g<0>" for number in range(num_shards))
    return [_ENDING.sub(shard, output_files[0], count=1) for shard in shards]


def is_gzip(output_files: list[str], values: flags.FlagValues) -> bool:
    """Returns whether to compress the record files."""
    is_named_so = [name.endswith(".gz") for name in output_files]
    if any(is_named_so) and not all(is_named_so):
        raise Mistake(
            'the output "{}" is compressed (.gz), but "{}" is not; give all outputs the same ending',
            output_files[is_named_so.index(True)],
            output_files[is_named_so.index(False)],
        )
    if values["compression"].present and values.compression == "none" and any(is_named_so):
        raise Mistake(
            "{compression}=none contradicts the name {}; leave out {compression}, or the ending .gz", output_files[0]
        )
    return values.compression == "gzip" or all(is_named_so)
