"""The flags of create_pretraining_data.py and what they say: settings, names of the record files, compression."""

import dataclasses
import logging
import re
from typing import Any

from absl import flags

from bert_keras.cli.flags import given_flags
from bert_keras.data_prep.cleaning.text_flags import INPUT_FILE, define_cleaning_flags, define_text_flags
from bert_keras.data_prep.pretraining.instances import SENTENCE_TASKS, PretrainingDataSettings
from bert_keras.data_prep.pretraining.masking import SPAN_LENGTHS
from bert_keras.data_prep.text.vocabulary_files import check_casing, read_tokenizer_config, tokenizer_file_of
from bert_keras.mistakes import Mistake

log = logging.getLogger("bert_keras")

_FILES = {
    "input_file": INPUT_FILE,
    "output_file": "Required. TFRecord files to write, separated by commas; examples go to them in turn.",
    "eval_output_file": "TFRecord files for the examples of the held-out share, separated by commas; see --eval_share.",
    "vocab_file": "Required. WordPiece vocabulary, one token a line.",
    "work_dir": "Local folder for unfinished work. If not given: the folder of the first output.",
}
# The flags of `PretrainingDataSettings`, which has their types and defaults.
_SETTINGS = {
    "do_whole_word_mask": "Mask all word pieces of a word together.",
    "chinese_words": "With --do_whole_word_mask or --masked_spans: words of Chinese text, whose characters are masked "
    "together: jieba, spaces (a segmenter put them between words), a file with one word a line, or none.",
    "max_seq_length": "Number of tokens in each example, with its three special tokens.",
    "max_predictions_per_seq": "Maximum masked tokens in an example; about max_seq_length * masked_lm_prob.",
    "random_seed": "Seed of all random choices.",
    "dupe_factor": "Number of times that the text is used, each time with other masks.",
    "masked_lm_prob": "Share of the tokens to mask.",
    "short_seq_prob": "Probability that a document is cut into shorter examples.",
    "strict_utf8": "Refuse text that is not UTF-8 instead of dropping bytes.",
    "masked_spans": "Mask spans of words: ngram, up to 3 words as in ALBERT, or geometric, up to 10 as in SpanBERT.",
    "replace_prob": "Share of the chosen tokens that become [MASK].",
    "keep_prob": "Share of the chosen tokens that stay. All others become random tokens.",
    "dynamic_masking": "Write examples without masks. Training draws new masks in each epoch.",
    "sentence_task": "Second task: next_sentence, sentence_order (exchanged segments, as in ALBERT), or none (whole "
    "sentences, as in RoBERTa).",
}
_CHOICES = {"masked_spans": list(SPAN_LENGTHS), "sentence_task": list(SENTENCE_TASKS)}

# Splits a file name into stem and ending: "train-v1.0" and ".tfrecord.gz".
_ENDING = re.compile(r"(?:\.[A-Za-z_]\w*)?(?:\.gz)?\Z")


def define_flags() -> flags.FlagValues:
    """Returns the flags: those of the original BERT with the same names and defaults, and additional ones."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    for name, meaning in _FILES.items():
        flags.DEFINE_string(name, None, meaning, **define)
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Lower-case texts and strip accents. If not given: as in tokenizer_config.json next to the vocabulary.",
        **define,
    )
    flags.DEFINE_bool("strip_accents", None, "Strip accents, or keep them. If not given: as --do_lower_case.", **define)
    define_text_flags(values)
    define_cleaning_flags(values)
    kinds = {bool: flags.DEFINE_bool, int: flags.DEFINE_integer, float: flags.DEFINE_float, str: flags.DEFINE_string}
    for name, meaning in _SETTINGS.items():
        default = getattr(PretrainingDataSettings(), name)
        if name in _CHOICES:
            flags.DEFINE_enum(name, default, _CHOICES[name], meaning, **define)
        else:
            kinds[type(default)](name, default, meaning, **define)
    flags.DEFINE_integer(
        "num_workers",
        1,
        "Number of processes. 1 gives the order of the original BERT; all others give the same files.",
        **define,
    )
    flags.DEFINE_integer(
        "num_shards", 1, "Number of files to write. With more than 1: NAME-00000-of-00010.tfrecord and so on.", **define
    )
    flags.DEFINE_bool(
        "dry_run",
        False,
        "Read the text and report what it gives: sentences, unknown tokens, expected examples and disk. Writes no "
        "records.",
        **define,
    )
    flags.DEFINE_enum(
        "compression",
        "none",
        ("none", "gzip"),
        "gzip writes compressed files, as a name that ends in .gz does.",
        **define,
    )
    return values


def read_settings(values: flags.FlagValues) -> PretrainingDataSettings:
    """Returns the settings of the examples; raises ValueError for an invalid value."""
    given = values.flag_values_dict()
    return PretrainingDataSettings(
        **{field.name: given[field.name] for field in dataclasses.fields(PretrainingDataSettings)}
    )


def casing_of(values: flags.FlagValues) -> dict[str, Any]:
    """Returns the arguments for text preparation: those of the flags, or of the folder of the vocabulary."""
    casing = {"do_lower_case": values.do_lower_case, "strip_accents": values.strip_accents}
    told = read_tokenizer_config(tokenizer_file_of(values.vocab_file))
    given = {name: value if name in given_flags(values) else None for name, value in casing.items()}
    check_casing(told, **given)
    for name in casing:
        if name in told and name not in given_flags(values):
            casing[name] = told[name]
            log.info("--%s=%s (set in %s)", name, told[name], told["casing_file"])
    return casing


def name_outputs(values: flags.FlagValues) -> list[str]:
    """Returns the names of the record files; several shards are named NAME-00000-of-00010.tfrecord."""
    output_files, num_shards = [name.strip() for name in values.output_file.split(",")], values.num_shards
    if num_shards == 1:
        return output_files
    if num_shards < 1:
        raise Mistake("{num_shards}={} is not a valid number of files; give 1 or more", num_shards)
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
        raise ValueError(
            f'the output "{output_files[is_named_so.index(True)]}" is compressed (.gz), but '
            f'"{output_files[is_named_so.index(False)]}" is not; give all outputs the same ending'
        )
    if values["compression"].present and values.compression == "none" and any(is_named_so):
        raise Mistake(
            "{compression}=none contradicts the name {}; leave out {compression}, or the ending .gz", output_files[0]
        )
    return values.compression == "gzip" or all(is_named_so)
