"""WordPiece tokenizer: converts text to tokens and ids exactly as the original BERT, cased and uncased.

Most callers need `FullTokenizer`. It combines `BasicTokenizer` (text to words) and `WordpieceTokenizer` (words to word
pieces). The module needs the standard library only, and TensorFlow for remote vocabularies.
"""

import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from bert_keras.data_prep.text.characters import as_in_transformers, is_dropped_mark
from bert_keras.data_prep.text.decoding import join_tokens
from bert_keras.data_prep.text.splitting import (
    LONGEST_WORD_TO_SPLIT,
    BasicTokenizer,
    PieceMemo,
    WordpieceTokenizer,
    convert_to_unicode,
)
from bert_keras.data_prep.text.vocabulary_files import (
    files_of_vocabulary,
    find_casing,
    find_vocabulary,
    load_vocab,
    tokenizer_config_text,
)
from bert_keras.mistakes import Mistake, Setting
from bert_keras.storage import paths, writing
from bert_keras.storage.tokenizer.keys import ORIGINAL_RULES, TEXT_RULES, TextRules
from bert_keras.storage.tokenizer.vocabulary import TOKENIZER_CONFIG, VOCAB_FILE, Tokens, read_tokens, vocabulary_digest

if TYPE_CHECKING:
    import numpy as np

    from bert_keras.data_prep.text.model_inputs import Texts

log = logging.getLogger("bert_keras")

# Control characters at which str.split() splits. The tokenizer removes them, so their neighbours join.
_JOINERS = "\x0b\x0c\x1c-\x1f\x85"
_REMOVE_JOINERS = re.compile(f"[{_JOINERS}]+")
_PIECE = re.compile(rf"[\S{_JOINERS}]+")


def special_pattern(tokens: Iterable[str]) -> re.Pattern[str] | None:
    """Returns a pattern of special tokens, each whole and the longest first; None without tokens."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})") if longest_first else None


def convert_tokens_to_ids(vocab: Mapping[str, int], tokens: Iterable[str]) -> list[int]:
    """Returns the id of each token; raises ValueError for a token that is not in the vocabulary."""
    try:
        return [vocab[token] for token in tokens]
    except KeyError as error:
        raise ValueError(
            f"the token {error.args[0]!r} is not in the vocabulary of {len(vocab)} tokens; "
            "tokenize the text with this vocabulary, or add the token to the vocabulary file"
        ) from None


def convert_ids_to_tokens(inv_vocab: Mapping[int, str], ids: Iterable[int]) -> list[str]:
    """Returns the token of each id; raises ValueError for an id that is not in the vocabulary."""
    try:
        return [inv_vocab[id_] for id_ in ids]
    except KeyError as error:
        raise ValueError(
            f"the id {error.args[0]} is not in the vocabulary, whose ids are 0 to {max(inv_vocab)}; "
            "use the vocabulary that the ids were made with"
        ) from None


class FullTokenizer:
    """Converts text to WordPiece tokens, ids, positions in the text, and inputs of a model.

    Threads may share a tokenizer. It splits text at white space and caches the result of each part (see `PieceMemo`).
    Parts are independent, so the result equals that of `BasicTokenizer` and `WordpieceTokenizer`. The caches take 80 MB
    for usual text, 210 MB at most. Pickling drops them.

    Args:
        vocab_file: one token per line; or a list of the tokens.
        do_lower_case: lower-cases; must match the training of the model.
        strip_accents: see `BasicTokenizer`.
        rules: how texts become sequences: those of the original BERT, or of the library that trained the model.

    Attributes:
        vocab: token to id; do not change it.
        inv_vocab: id to token.
        vocab_size: int; every id is below it. More than `len(vocab)` if lines of the file repeat.
        cls_id, sep_id, mask_id, unk_id: ids of [CLS], [SEP], [MASK] and [UNK]; None if the vocabulary lacks the token.
        pad_id: 0, which pads sequences, as in the original BERT.

    Raises:
        FileNotFoundError, ValueError: the vocabulary cannot be read (see `load_vocab`).
        ValueError: from every method: a text is neither str nor bytes.
    """

    pad_id = 0

    def __init__(
        self,
        vocab_file: str | os.PathLike | Sequence[str],
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        rules: TextRules = ORIGINAL_RULES,
    ):
        for name, value in (("do_lower_case", do_lower_case), ("strip_accents", strip_accents)):
            if value not in (None, True, False):  # a text such as "no" would count as true
                raise Mistake("{} is {!r}, but must be True or False", Setting(name), value)
        tokens = read_tokens(vocab_file)
        self.vocab = load_vocab(tokens)
        self.inv_vocab = {id_: token for token, id_ in self.vocab.items()}
        self.vocab_size = max(self.inv_vocab) + 1
        self.cls_id, self.sep_id = self.vocab.get("[CLS]"), self.vocab.get("[SEP]")
        self.mask_id, self.unk_id = self.vocab.get("[MASK]"), self.vocab.get("[UNK]")
        self.basic_tokenizer = BasicTokenizer(do_lower_case, strip_accents)
        self.longest_word = tokens.longest_word
        self.wordpiece_tokenizer = WordpieceTokenizer(
            self.vocab, max_input_chars_per_word=self.longest_word or LONGEST_WORD_TO_SPLIT
        )
        self.rules = rules
        self._special = special_pattern(rules.special_tokens)
        self._forget()

    @classmethod
    def from_checkpoint(cls, path: str | os.PathLike, do_lower_case: bool | None = None) -> "FullTokenizer":
        """Returns the tokenizer of a model. The log reports the casing.

        Args:
            path: the folder of a model, of a run or of an export; a file or the prefix of a checkpoint; or
                `hf://owner/name`, of which only the files of the tokenizer are downloaded.
            do_lower_case: None: the setting in the model's folder, or else a guess from the vocabulary.

        Raises:
            FileNotFoundError: the model does not exist or has no vocabulary.
            ValueError, OSError: a file is damaged, or the download failed.
        """
        vocab_file = find_vocabulary(path)
        files = files_of_vocabulary(vocab_file)
        do_lower_case, strip_accents, lines = find_casing(files, vocab_file, do_lower_case)
        for line in lines:
            log.info(line)
        return cls(vocab_file, do_lower_case, strip_accents, files.rules)

    def save(self, folder: str | os.PathLike) -> None:
        """Writes vocab.txt and `tokenizer_config.json` into a folder, which may have other files.

        `from_checkpoint`, the predictors and the programs read them.

        Raises:
            ValueError: the folder has one of the two files.
        """
        files = [paths.join(folder, name) for name in (VOCAB_FILE, TOKENIZER_CONFIG)]
        if found := [file for file in files if paths.exists(file)]:
            raise Mistake("{} is there already; nothing is overwritten, so give another folder", found[0])
        paths.make_dirs(folder)
        writing.write_text(files[1], tokenizer_config_text(*self.casing, None, self.longest_word, self.rules))
        writing.write_text(files[0], "".join(f"{token}\n" for token in self.tokens))

    @property
    def casing(self) -> tuple[bool, bool | None]:
        """The arguments do_lower_case and strip_accents; None if accents follow the case."""
        do_lower_case, strip_accents = self.basic_tokenizer.do_lower_case, self.basic_tokenizer.strip_accents
        return do_lower_case, None if strip_accents == do_lower_case else strip_accents

    @property
    def tokens(self) -> Tokens:
        """The token of each id; "" for an id without a token, because its line of the file is repeated later."""
        names = [self.inv_vocab.get(id_, "") for id_ in range(self.vocab_size)]
        return Tokens(names, longest_word=self.longest_word)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that decide the ids of a text, as values of JSON, for the metadata and digests of such ids."""
        return {
            "vocab_sha256": vocabulary_digest(self.vocab),
            "do_lower_case": self.basic_tokenizer.do_lower_case,
            "strip_accents": self.basic_tokenizer.strip_accents,
            "max_input_chars_per_word": self.wordpiece_tokenizer.max_input_chars_per_word,
            **({} if self.rules == ORIGINAL_RULES else {TEXT_RULES: self.rules.to_json()}),
        }

    def _forget(self) -> None:
        self._ids = PieceMemo(self._encode_piece, max_pieces=1 << 17)
        self._alignments = PieceMemo(self._align_piece, max_pieces=1 << 15)

    def __getstate__(self) -> dict:
        return {name: value for name, value in vars(self).items() if name not in ("_ids", "_alignments")}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        self._forget()

    def __call__(
        self,
        texts: "Texts",
        sequence_length: int | None = None,
        pad_to_longest: bool = False,
        with_offsets: bool = False,
    ) -> "dict[str, np.ndarray]":
        """Returns texts or pairs of texts as the inputs of a model: [CLS] A [SEP], or [CLS] A [SEP] B [SEP].

        Args:
            texts: a text, or a tuple of two texts for a pair; or a list, an array, a Series or another iterable of
                these; or a tuple of two such lists, the first and the second texts. B is their number.
            sequence_length: the number T of tokens of each row. A longer text loses its end. Of a longer pair, the
                longer text loses tokens, as in the original BERT. None: nothing is cut, and T is that of the longest
                row.
            pad_to_longest: T is that of the longest row, and at most `sequence_length`.
            with_offsets: adds "offsets".

        Returns:
            input_ids, input_mask and segment_ids, int32 [B, T], padded with 0. With offsets, also offsets int32
            [B, T, 2]: the start and the end of each token in its text, as of `tokenize_with_offsets`; both are 0 for
            [CLS], [SEP] and padding.

        Raises:
            ValueError: a value is not a text, sequence_length is less than 5, or the vocabulary lacks [CLS] or [SEP].
        """
        from bert_keras.data_prep.text.model_inputs import encode_batch  # loads NumPy

        return encode_batch(self, texts, sequence_length, pad_to_longest, with_offsets)

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids, without [CLS], [SEP] and [PAD].

        Word pieces are joined, and most punctuation marks lose their spaces. The text has the same ids, but may differ
        from the original in case, accents and spaces.

        Raises:
            ValueError: an id is not in the vocabulary.
        """
        return join_tokens(self.convert_ids_to_tokens(map(int, ids)))

    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of `tokenize(text)`, faster than converting tokens.

        Raises:
            ValueError: the text has an unknown word and the vocabulary has no `[UNK]`.
        """
        text = self._decoded(text)
        if self._special and len(parts := self._special.split(text)) > 1:
            # Every second part is a special token.
            ids = [[self.vocab[part]] if number % 2 else self._encode_part(part) for number, part in enumerate(parts)]
            return list(chain.from_iterable(ids))
        return self._encode_part(text)

    def _decoded(self, text: str | bytes) -> str:
        text = convert_to_unicode(text)
        return as_in_transformers(text, self.basic_tokenizer.do_lower_case) if self.rules.is_foreign else text

    def _encode_part(self, text: str) -> list[int]:
        if not text.isprintable():
            text = _REMOVE_JOINERS.sub("", text)
        return list(chain.from_iterable(map(self._ids.__getitem__, text.split())))

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the WordPiece tokens of a text."""
        if self.wordpiece_tokenizer.unk_token in self.vocab:
            return [self.inv_vocab[id_] for id_ in self.encode(text)]
        # Without [UNK] in the vocabulary, unknown words have no id.
        return [token for token, _, _ in self.tokenize_with_offsets(text)]

    def tokenize_with_offsets(self, text: str | bytes) -> list[tuple[str, int, int]]:
        """Returns (token, start, end) for each token of `tokenize(text)`; the token comes from text[start:end].

        Offsets count characters of the original text, or of the decoded text if `text` is bytes. Starts and ends never
        decrease. A dropped mark belongs to the character before it. If one character gives several tokens (a Hangul
        syllable), they share its span. An unknown word has the span of the whole word.
        Differs from the original BERT, which has no offsets. Tagging and question answering need them.
        """
        text = self._decoded(text)
        if not self._special:
            return self._align_part(text, 0, len(text))
        found, place = [], 0
        for match in self._special.finditer(text):
            found += [*self._align_part(text, place, match.start()), (match.group(), *match.span())]
            place = match.end()
        return found + self._align_part(text, place, len(text))

    def _align_part(self, text: str, start: int, end: int) -> list[tuple[str, int, int]]:
        return [
            (token, match.start() + first, match.start() + last)
            for match in _PIECE.finditer(text, start, end)
            for token, first, last in self._alignments[match.group()]
        ]

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Returns the id of each token; see the module's function `convert_tokens_to_ids`."""
        return convert_tokens_to_ids(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Returns the token of each id; see the module's function `convert_ids_to_tokens`."""
        return convert_ids_to_tokens(self.inv_vocab, ids)

    def _encode_piece(self, piece: str) -> tuple[int, ...]:
        split_word = self.wordpiece_tokenizer.split_word
        tokens = chain.from_iterable(map(split_word, self.basic_tokenizer.tokenize(piece)))
        return tuple(convert_tokens_to_ids(self.vocab, tokens))

    def _align_piece(self, piece: str) -> tuple[tuple[str, int, int], ...]:
        aligned = []
        for word, sources in self.basic_tokenizer.tokenize_with_sources(piece):
            tokens = self.wordpiece_tokenizer.split_word(word)
            first = 0
            for token in tokens:
                length = len(token) - 2 if first else len(token)
                last = len(word) - 1 if len(tokens) == 1 else first + length - 1
                end = sources[last] + 1
                while self.basic_tokenizer.strip_accents and end < len(piece) and is_dropped_mark(piece[end]):
                    end += 1
                aligned.append((token, sources[first], end))
                first = last + 1
        return tuple(aligned)
