"""Whether a vocabulary belongs to a model: it has a piece for each row of the embeddings, and the right casing."""

import os
import pathlib
import re

# [UNK] and the like, and the <S> of the Chinese vocabulary, are no text.
_MARKER = re.compile(r"\[.*\]|<.*>")
# A cased vocabulary has capitals in every third piece; an uncased one at most in a few that somebody added.
_CASED_SHARE = 0.01


def check_vocabulary(vocab_file, config, do_lower_case=None):
    """Refuses a vocabulary file that is not the model's, or text prepared otherwise than the vocabulary was.

    Differs from the release: that looks at the name of the checkpoint's folder and knows seven of them
    (`validate_case_matches_checkpoint`).

    Args:
        vocab_file: path of a file of one piece a line.
        config: BertConfig.
        do_lower_case: whether the text is lower-cased; None if that is not known.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it has more or fewer pieces than the model, is not UTF-8, or is cased and the text is lower-cased.
    """
    vocab_file = os.fspath(vocab_file)
    try:
        lines = pathlib.Path(vocab_file).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no {vocab_file}; give the vocab.txt that came with the model") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{vocab_file} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    if len(lines) != config.vocab_size:
        raise ValueError(
            f"{vocab_file} has {len(lines)} pieces, but the model has {config.vocab_size} rows of word embeddings; "
            "give the vocabulary that the model was trained with"
        )
    if do_lower_case and is_cased(lines):
        raise ValueError(
            f"{vocab_file} is of a cased model, whose pieces with capitals lower-cased text never meets; "
            "set do_lower_case to False"
        )


def is_cased(pieces):
    """Returns whether pieces, a collection of str, are the vocabulary of text that kept its capitals."""
    capitals = sum(piece != piece.lower() and not _MARKER.fullmatch(piece.strip()) for piece in pieces)
    return capitals > _CASED_SHARE * len(pieces)
