"""Checks and warnings about a corpus, its vocabulary and the disk before examples are built."""

import logging
import shutil
from array import array
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.data_prep.pretraining.instances import SENTENCE_TASKS
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.mistakes import Message, several

log = logging.getLogger("bert_keras")

_MOST_LONE_SENTENCES = 0.5  # share of the documents
_MOST_CUT_TOKENS = 0.2
_AT_ONCE = 1 << 20


def check_documents(
    documents: Documents,
    input_files: Sequence[str],
    settings: PretrainingDataSettings,
    is_split: bool = False,
) -> None:
    """Raises UnusableTextError without documents, and warns if they do not suit the sentence task.

    Logs their size. `is_split`: rules split the sentences.
    """
    if not documents:
        raise UnusableTextError(
            "no document was found in {}; the text needs one sentence a line and a blank line after each document",
            [*input_files],
        )
    log.info(
        "read %s, %s, %s from %s",
        several(len(documents), "documents"),
        several(documents.num_sentences, "sentences"),
        several(len(documents.tokens), "tokens"),
        several(len(input_files), "files"),
    )
    if settings.sentence_task != "none":
        _warn_about_lines(documents, settings, is_split)


def _warn_about_lines(documents: Documents, settings: PretrainingDataSettings, is_split: bool) -> None:
    """Warns about a single document, and if lines look like paragraphs.

    They do if most documents have one line, or many lines exceed an example.
    """
    if len(documents) == 1:
        log.warning(
            "the text is a single document, so that random next sentences come from it as well, as in the original: "
            "a model cannot learn next-sentence prediction from it; put a blank line after each document"
        )
    lone_share, cut_share = lone_and_cut_shares(documents, settings)
    if (len(documents) > 1 and lone_share >= _MOST_LONE_SENTENCES) or cut_share >= _MOST_CUT_TOKENS:
        random_next = ", so that all of their examples have a random next sentence"
        unit = "sentence" if is_split else "line"
        signs = [
            f"{100 * lone_share:.0f} % of the documents have a single {unit}"
            + random_next * (settings.sentence_task == "next_sentence"),
            f"at least {100 * cut_share:.0f} % of the tokens are cut off, because their {unit}s are longer "
            "than an example",
        ]
        notable_signs = [sign for sign, share in zip(signs, (lone_share, cut_share), strict=True) if share >= 0.005]
        text = (
            "the text seems to have one paragraph a line: {}; put one sentence on each line, and a blank line after "
            "each document, or give {split_sentences}"
        )
        if is_split:
            text = (
                "{split_sentences} finds few ends of sentences: {}; check with {documents} where documents end; text "
                "without marks of sentences needs another splitter"
            )
        log.warning(Message(text, ", and ".join(notable_signs)))


def lone_and_cut_shares(documents: Documents, settings: PretrainingDataSettings) -> tuple[float, float]:
    """Returns the shares of documents with one sentence, and of tokens beyond an example in a sentence."""
    num_special, _ = SENTENCE_TASKS[settings.sentence_task]
    longest = settings.max_seq_length - num_special
    num_lone = sum(int(np.count_nonzero(counts == 1)) for counts in differences(documents.document_starts))
    num_cut = sum(int((counts[counts > longest] - longest).sum()) for counts in differences(documents.sentence_starts))
    return num_lone / len(documents), num_cut / len(documents.tokens)


def differences(starts: array | memoryview) -> Iterator[np.ndarray]:
    """Yields the differences between consecutive starts, in parts."""
    numbers = np.frombuffer(starts, np.uint64)
    for first in range(0, len(numbers) - 1, _AT_ONCE):
        yield np.diff(numbers[first : first + _AT_ONCE + 1])


def tell_need(num_bytes: float, folder: str, what: str, needs: str = "unfinished work needs") -> None:
    """Logs the space that `what` needs in a folder, and warns if less is free."""
    free = shutil.disk_usage(folder).free
    tell = log.warning if num_bytes > free else log.info
    needed, available = size_text(num_bytes), size_text(free)
    tell("%s: %s about %s in %s, where %s are free", what, needs, needed, folder, available)


def size_text(num_bytes: float) -> str:
    """Returns a size for messages, in GB, or in MB below 0.1 GB."""
    return f"{num_bytes / 1e9:,.1f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:,.1f} MB"


def warn_about_predictions(settings: PretrainingDataSettings) -> None:
    """Warns if the limit of predictions leaves clearly fewer masked tokens than `masked_lm_prob`."""
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
