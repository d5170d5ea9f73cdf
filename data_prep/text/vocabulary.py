"""Adds words of a domain to a vocabulary."""

import dataclasses
import re

from bert_keras.data_prep.text.tokenization import BasicTokenizer, WordpieceTokenizer, convert_tokens_to_ids
from bert_keras.data_prep.text.vocabulary_files import read_tokens
from bert_keras.storage import text_files

_SLOT = re.compile(r"\[unused\d+\]")
_MAX_CHARS = WordpieceTokenizer({}).max_input_chars_per_word


@dataclasses.dataclass(frozen=True)
class AddedWord:
    """A word that has been added to a vocabulary.

    Attributes:
        word: as the tokenizer gives it, so in lower case where it lower-cases.
        id: its id.
        slot: the piece whose place it took, such as "[unused17]"; None where it has a new id.
        piece_ids: the ids of the pieces that the word was split into so far.
    """

    word: str
    id: int
    slot: str | None
    piece_ids: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class ExtendedVocabulary:
    """What `extend_vocabulary` gives.

    Attributes:
        tokens: all pieces in the order of their ids.
        added: the words that are new.
        present: the words that the vocabulary had already.
    """

    tokens: list[str]
    added: list[AddedWord]
    present: list[str]


def read_words(words_file):
    """Reads a file of one word a line; blank lines are left out.

    Returns:
        dict of the word, white space around it stripped, to the number of its first line from 1.

    Raises:
        FileNotFoundError, ValueError: see `storage.text_files.read_text`.
    """
    needed = "give a file of one word a line"
    try:
        text = text_files.read_text(words_file, needed)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file of words {words_file}; {needed}") from None
    words = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            words.setdefault(line.strip(), number)
    return words


def extend_vocabulary(vocab_file, words_file, do_lower_case, strip_accents=None):
    """Adds words to a vocabulary: into the places of its `[unusedN]` pieces as long as there are any, then at its end.

    No other piece changes its id. The file is read as the tokenizer reads it.

    Args:
        vocab_file: path of the vocabulary.
        words_file: path of the words, one a line.
        do_lower_case: whether the tokenizer lower-cases; the words are treated as it treats text.
        strip_accents: whether it takes accents off; None: as do_lower_case.

    Returns:
        ExtendedVocabulary.

    Raises:
        FileNotFoundError, ValueError: a file cannot be read, or words would never be found as the tokenizer splits
            them.
    """
    tokens = read_tokens(vocab_file)
    vocab = {token: number for number, token in enumerate(tokens)}
    slots = iter([piece for piece in vocab if _SLOT.fullmatch(piece)])
    pieces_of = WordpieceTokenizer(vocab).split_word
    added, present = {}, []
    for word in _normalised(read_words(words_file), words_file, BasicTokenizer(do_lower_case, strip_accents)):
        if word in vocab:
            present.append(word)
            continue
        slot = next(slots, None)
        piece_ids = tuple(convert_tokens_to_ids(vocab, pieces_of(word)))
        added[word] = AddedWord(word, len(tokens) if slot is None else vocab[slot], slot, piece_ids)
        tokens[added[word].id : added[word].id + 1] = [word]
    return ExtendedVocabulary(tokens, list(added.values()), present)


def _normalised(words, words_file, tokenizer):
    """Returns the words as the tokenizer gives them, each once."""
    normalised, refused = {}, []
    for word, line in words.items():
        parts = tokenizer.tokenize(word)
        if len(parts) == 1 and len(parts[0]) <= _MAX_CHARS:
            normalised[parts[0]] = line
        else:
            reason = " ".join(parts) if len(parts) > 1 else f"{len(word)} characters"
            refused.append(f'line {line} "{word[:40]}" ({reason[:60]})')
    if refused:
        more = f" and {len(refused) - 5} more" if len(refused) > 5 else ""
        raise ValueError(
            f"{words_file}: the tokenizer would never find {'; '.join(refused[:5])}{more}, because it splits text at "
            f"white space and punctuation and takes words of at most {_MAX_CHARS} characters; give single words"
        )
    return list(normalised)
