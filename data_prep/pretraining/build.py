"""Builds record files of pre-training examples from text files (create_pretraining_data in the original BERT).

The same settings give the same examples in the same order and files as the original BERT. Differs in memory use:
documents and examples are on disk, so an interrupted build continues.
"""

import logging
from collections.abc import Mapping

from bert_keras.data_prep.cleaning.filters import check_eval
from bert_keras.data_prep.pretraining.building import build_in_folder
from bert_keras.data_prep.pretraining.plan import Build
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.records.writing import check_record_files, tell_replaced
from bert_keras.mistakes import Message, Mistake

log = logging.getLogger("bert_keras")


def build_pretraining_data(build: Build) -> dict:
    """Builds pre-training examples from text files.

    Returns:
        The summary; see `summarize`. Also "cleaning", the report, and "eval", the summary of the held-out part.

    Raises:
        FileNotFoundError, ValueError: the input, the outputs or the vocabulary are not usable.
        OSError: writing failed, for example on a full disk, or a worker died.
    """
    all_files = [*build.output_files, *build.eval_files]
    check_eval(build.cleaning, build.eval_files)
    words_files, texts = build.words_files, build.texts  # both are checked here
    check_record_files(all_files, [text.file for text in texts] + words_files, build.vocab_file)
    tell_replaced(all_files)
    warn_about_casing(build.tokenizer.vocab, build.tokenizer.basic_tokenizer.do_lower_case)
    _warn_about_predictions(build.settings)
    if build.num_workers < 1:
        raise Mistake("{num_workers}={} is not a valid number of processes; give 1 or more", build.num_workers)
    return build_in_folder(build)


def _warn_about_predictions(settings: PretrainingDataSettings) -> None:
    if settings.max_predictions_per_seq < 0.8 * settings.most_predictions:
        log.warning(
            Message(
                "{max_predictions_per_seq}={} limits the masked tokens: {:g} of {} tokens would be {}",
                settings.max_predictions_per_seq,
                settings.masked_lm_prob,
                settings.max_seq_length,
                settings.most_predictions,
            )
        )


def warn_about_casing(vocab: Mapping[str, int], do_lower_case: bool) -> None:
    """Warns if the vocabulary was clearly made for the other value of `do_lower_case`."""
    words = [token for token in vocab if len(token) > 1 and token.isalpha()]
    capitalised = [word for word in words if word != word.lower()]
    if do_lower_case and len(capitalised) > len(vocab) / 100:
        log.warning(
            Message(
                "text is lower-cased, but {} of the {} entries of the vocabulary have capital letters "
                '("{}"); for a cased vocabulary give {do_lower_case}=False',
                len(capitalised),
                len(vocab),
                capitalised[0],
            )
        )
    elif not do_lower_case and not capitalised and any(word != word.upper() for word in words):
        log.warning(
            Message(
                "text keeps its capital letters, but no word of the vocabulary has any, so that most "
                "capitalised words become [UNK]; for an uncased vocabulary give {do_lower_case}=True"
            )
        )
