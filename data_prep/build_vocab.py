#!/usr/bin/env python3
"""Learns a WordPiece vocabulary from text files.

    python data_prep/build_vocab.py --input_file='texts/*.txt' --vocab_file=vocab.txt --vocab_size=30522

The reserved tokens have the same ids as in the released vocabularies. tokenizer_config.json, next to the vocabulary,
tells all other programs how to prepare text. A table shows how well vocabularies of several sizes cover lines that they
were not learned from.
"""

import dataclasses
import functools
import logging
import os
import sys
from collections.abc import Mapping

if not __package__:
    # Python looks for modules in the folder of a script, data_prep/; the packages are in the folder above.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, given_flags, parse, require
from bert_keras.cli.progress import progress_on
from bert_keras.data_prep.corpus.coverage import cover, coverage_table, measure, open_vocabulary, warn_about_unknown
from bert_keras.data_prep.corpus.documents import find_text_files, inspect_texts
from bert_keras.data_prep.corpus.raw_text import TextOptions
from bert_keras.data_prep.corpus.text_sources import received
from bert_keras.data_prep.corpus.word_counts import count_words
from bert_keras.data_prep.pretraining.flags import INPUT_FILE, STRIP_ACCENTS, casing_of
from bert_keras.data_prep.text.learning import learn_vocabulary, words_to_learn_from
from bert_keras.data_prep.text.splitting import BasicTokenizer
from bert_keras.data_prep.text.vocabulary_files import (
    files_of_vocabulary,
    tokenizer_config_text,
    tokenizer_file_of,
)
from bert_keras.mistakes import Message, Mistake
from bert_keras.settings.fields import REQUIRED, make_flags, read_flags, setting
from bert_keras.storage import paths, writing
from bert_keras.storage.checks import check_ending, check_output_file
from bert_keras.storage.tokenizer.vocabulary import TOKENIZER_CONFIG, VOCAB_FILE

log = logging.getLogger("bert_keras")


@dataclasses.dataclass(frozen=True)
class VocabularySettings:
    """The text, the vocabulary to write, and how to learn it."""

    input_file: str = setting(INPUT_FILE, REQUIRED)
    vocab_file: str = setting("Required. Vocabulary to write; it must not exist.", REQUIRED)
    vocab_size: int = setting("Number of word pieces in the vocabulary.", 30522)
    do_lower_case: bool = setting("Lower-case texts and strip accents.", True)
    strip_accents: bool | None = setting(STRIP_ACCENTS, None)
    num_unused: int = setting("Number of [unusedN] tokens, for words that you add.", 994, lower_bound=0)
    alphabet_size: int | None = setting(
        "Number of frequent characters that become tokens. If not given: 1000, or more if the text needs more, as "
        "Chinese does.",
        None,
        lower_bound=1,
    )
    compare_vocab_file: str | None = setting(
        "Vocabulary to measure next to the new one, such as a released vocab.txt.", None
    )
    strict_utf8: bool = setting("Refuse text that is not UTF-8 instead of dropping bytes.", False)
    num_workers: int = setting("Number of processes. The vocabulary does not depend on it.", 1, lower_bound=1)


def define_flags() -> flags.FlagValues:
    """Returns the flags of this program."""
    return make_flags({"Vocabulary": VocabularySettings, "Text": TextOptions})


def main(argv: list[str]) -> dict:
    """Builds a vocabulary.

    Returns:
        "vocab_size", the attributes of `Coverage` for the whole text, and "held_out": those for the held-out lines by
        the size of the vocabulary, and under the name of the other vocabulary.
    """
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("input_file", "vocab_file"))
    settings, text_options = read_flags(VocabularySettings, values), read_flags(TextOptions, values)
    tokenizer_file = tokenizer_file_of(settings.vocab_file)
    own_files = [settings.vocab_file, tokenizer_file, settings.compare_vocab_file or settings.vocab_file]
    found_files = find_text_files(settings.input_file, own_files)
    check_output_file(settings.vocab_file, "vocab_file", {"input_file": found_files})
    check_ending(settings.vocab_file, "vocab_file", ())
    if paths.exists(settings.vocab_file):
        raise Mistake("{vocab_file}={} exists, and models may depend on it; choose another name", settings.vocab_file)

    has_tokenizer_file = _check_folder(tokenizer_file)
    tokenizer = BasicTokenizer(**casing_of(settings, given_flags(values)))
    other = open_vocabulary(settings.compare_vocab_file, tokenizer) if settings.compare_vocab_file else None

    console = open_console()
    with received(found_files) as input_files, progress_on(console) as progress:
        texts = inspect_texts(input_files, text_options)
        words = count_words(texts, tokenizer, settings.num_workers, settings.strict_utf8, progress, text_options)
    pieces = _learn(words.all, settings)
    measured = measure(words, settings.vocab_size, settings.num_unused, settings.alphabet_size, other)
    if not has_tokenizer_file:
        text = tokenizer_config_text(tokenizer.do_lower_case, tokenizer.strip_accents)
        writing.write_text(tokenizer_file, text)
    writing.write_text(settings.vocab_file, "".join(f"{piece}\n" for piece in pieces))
    console.print(coverage_table(measured))
    coverage = cover(words.all, pieces)
    warn_about_unknown(coverage, measured)
    log.info(
        "wrote %s; %s sets do_lower_case=%s and strip_accents=%s for the programs that use it",
        settings.vocab_file,
        tokenizer_file,
        tokenizer.do_lower_case,
        tokenizer.strip_accents,
    )
    held_out = {name: dataclasses.asdict(figures) for name, figures in measured.items()}
    return {"vocab_size": len(pieces), **dataclasses.asdict(coverage), "held_out": held_out}


def _learn(counts: Mapping[str, int], settings: VocabularySettings) -> list[str]:
    used = words_to_learn_from(counts)
    sizes = [sum(len(word) * count for word, count in words.items()) for words in (used, counts)]
    log.info(
        "learning from %s of %s different words, %.2f %% of the text",
        f"{len(used):,}",
        f"{len(counts):,}",
        100 * sizes[0] / sizes[1],
    )
    pieces = learn_vocabulary(counts, settings.vocab_size, settings.num_unused, settings.alphabet_size)
    if len(pieces) < settings.vocab_size:
        log.warning(
            Message(
                "the text gives only {} tokens, fewer than {vocab_size}={}: all its words are tokens; give more text",
                len(pieces),
                settings.vocab_size,
            )
        )
    return pieces


def _check_folder(tokenizer_file: str) -> bool:
    """Returns whether the folder of the new vocabulary has a `tokenizer_config.json`, which then sets the casing.

    Raises ValueError if it sets none, or if a new one would change how a model in the folder prepares text.
    """
    folder = paths.parent(tokenizer_file)
    advice = Message("write the vocabulary into another folder, for example {vocab_file}=vocabulary/vocab.txt")
    if paths.exists(tokenizer_file):
        if "do_lower_case" not in files_of_vocabulary(tokenizer_file).casing:
            raise Mistake("{} does not set do_lower_case; add it, or {}", tokenizer_file, advice)
        return True
    for name in ("bert_config.json", "config.json", VOCAB_FILE):
        if paths.exists(paths.join(folder, name)):
            raise Mistake(
                "{} has a {}, and a {} would change how its model prepares text; {}",
                folder,
                name,
                TOKENIZER_CONFIG,
                advice,
            )
    return False


run_program = functools.partial(as_program, main)

if __name__ == "__main__":
    run_program()
