"""Whether a vocabulary belongs to a model: it has a piece for each row of the embeddings, and the right casing."""

import logging
import os
import re
import unicodedata

from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

# [UNK] and the like, and the <S> of the Chinese vocabulary, are no text.
_MARKER = re.compile(r"\[.*\]|<.*>")
# A cased vocabulary has capitals in every third piece, one with accents has them in some in a hundred; an uncased one
# (the released ones have neither at all) at most in a few that somebody added.
_CASED_SHARE = 0.01


def check_vocabulary(vocab_file, config, do_lower_case=None, strip_accents=None):
    """Refuses a vocabulary file that is not the model's, or text prepared otherwise than the vocabulary was.

    Differs from the release: that looks at the name of the checkpoint's folder and knows seven of them
    (`validate_case_matches_checkpoint`).

    Args:
        vocab_file: path of a file of one piece a line.
        config: BertConfig.
        do_lower_case: whether the text is lower-cased; None if that is not known. Text that keeps its capitals is only
            warned of, where the vocabulary has none.
        strip_accents: whether accents are taken off the text; None: as do_lower_case.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it has more or fewer pieces than the model, is not UTF-8, or is cased and the text is lower-cased.
    """
    vocab_file = os.fspath(vocab_file)
    try:
        lines = paths.read_text(vocab_file, "utf-8-sig").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no {vocab_file}; give the vocab.txt that came with the model") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{vocab_file} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    if len(lines) != config.vocab_size:
        raise ValueError(
            f"{vocab_file} has {len(lines)} pieces, but the model has {config.vocab_size} rows of word embeddings; "
            "give the vocabulary that the model was trained with"
        )
    if do_lower_case and is_cased(lines, strip_accents):
        raise ValueError(
            f"{vocab_file} is of a cased model, whose pieces with capitals or accents lower-cased text never meets; "
            "give --do_lower_case=False (from Python: do_lower_case=False)"
        )
    if do_lower_case is False and _has_lower_case_alone(lines):
        log.warning(
            "%s has no pieces with capitals, but the text keeps its capitals: such words will be unknown; if the model "
            "was trained on lower-cased text, give --do_lower_case (from Python: do_lower_case=True)",
            vocab_file,
        )


def is_cased(pieces, strip_accents=None):
    """Returns whether pieces, a collection of str, are the vocabulary of text that was not lower-cased.

    Args:
        pieces: the vocabulary.
        strip_accents: False: lower-casing would leave accents, so that they say nothing; None or True: it takes them
            off, so that pieces with accents have not been lower-cased.
    """
    return _is_usual(piece != _lower_cased(piece, strip_accents is not False) for piece in _without_markers(pieces))


def _lower_cased(piece, strip_accents):
    """Returns a piece as lower-casing leaves it."""
    piece = piece.lower()
    if not strip_accents:
        return piece
    return "".join(char for char in unicodedata.normalize("NFD", piece) if unicodedata.category(char) != "Mn")


def _has_lower_case_alone(pieces):
    words = _without_markers(pieces)
    return _is_usual(word != word.upper() for word in words) and not _is_usual(word != word.lower() for word in words)


def _without_markers(pieces):
    return [piece for piece in pieces if not _MARKER.fullmatch(piece.strip())]


def _is_usual(are_so):
    """Returns whether more than a few of some bools are true."""
    are_so = list(are_so)
    return sum(are_so) > _CASED_SHARE * len(are_so)
