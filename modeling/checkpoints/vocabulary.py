"""Checks that a vocabulary belongs to a model: it has a token for each embedding row, and the right casing."""

import logging
import os
import re
import unicodedata

from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

# Special tokens such as [UNK], and the <S> of the Chinese vocabulary; they have capitals in every vocabulary.
_MARKER = re.compile(r"\[.*\]|<.*>")
# A vocabulary is cased if more than this share of its tokens has capitals or accents. Cased vocabularies have capitals
# in a third of their tokens, or accents in a few percent. Uncased ones have them only in tokens that users added.
_CASED_SHARE = 0.01


def check_vocabulary(vocab_file, config, do_lower_case=None, strip_accents=None):
    """Checks the size of a vocabulary file, and that the text has the same casing as the vocabulary.

    If the text keeps its capitals and the vocabulary has none, the function only logs a warning.

    Differs from the original BERT: `validate_case_matches_checkpoint` compares the name of the checkpoint's folder with
    a fixed list.

    Args:
        vocab_file: path of a file with one token a line.
        config: BertConfig.
        do_lower_case: bool, whether the text is lower-cased; None: unknown.
        strip_accents: bool, whether the text loses its accents; None: as do_lower_case.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the number of tokens is wrong, the file is not UTF-8, or it is cased and the text is lower-cased.
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
            f"{vocab_file} has {len(lines)} tokens, but the model has {config.vocab_size} rows of word embeddings; "
            "give the vocabulary that the model was trained with"
        )
    if do_lower_case and is_cased(lines, strip_accents):
        raise ValueError(
            f"{vocab_file} is cased, and lower-cased text never contains its tokens with capitals or accents; "
            "give --do_lower_case=False (from Python: do_lower_case=False)"
        )
    if do_lower_case is False and _changes_many(str.upper, lines) and not _changes_many(str.lower, lines):
        log.warning(
            "%s has no tokens with capitals, but the text keeps its capitals, so capitalised words become [UNK]; if "
            "the model was trained on lower-cased text, give --do_lower_case (from Python: do_lower_case=True)",
            vocab_file,
        )


def is_cased(pieces, strip_accents=None):
    """Returns whether a vocabulary was made from text that was not lower-cased.

    Args:
        pieces: collection of str, the tokens of the vocabulary.
        strip_accents: bool or None. False: lower-casing keeps accents, so only capitals count. None or True:
            lower-casing strips accents, so tokens with accents count, too.
    """
    return _changes_many(str.lower if strip_accents is False else _lower_cased, pieces)


def _lower_cased(token):
    return "".join(char for char in unicodedata.normalize("NFD", token.lower()) if unicodedata.category(char) != "Mn")


def _changes_many(change, tokens):
    words = [token for token in tokens if not _MARKER.fullmatch(token.strip())]
    return sum(word != change(word) for word in words) > _CASED_SHARE * len(words)
