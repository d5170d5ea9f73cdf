"""The tokenizer as TensorFlow operations; the results equal those of `data_prep.text.tokenization`.

The BERT tokenizers of tensorflow-text differ from the original BERT in casing, control characters, white space and long
words. This module therefore turns text into code points, normalises them with tables, and passes the words to the
WordPiece of tensorflow-text.
"""

import os
from collections.abc import Mapping

import tensorflow as tf
import tensorflow_text

from bert_keras.data_prep.text.characters import is_removed
from bert_keras.data_prep.text.graph.code_point_tables import IN_WORD, NUM_KIND_BITS, SPACE
from bert_keras.data_prep.text.graph.normalization import Normalizer, as_in_transformers, low_bits, without_low_bits
from bert_keras.data_prep.text.model_inputs import check_sequence_length
from bert_keras.data_prep.text.tokenization import FullTokenizer, special_pattern
from bert_keras.mistakes import Mistake

_UNKNOWN = "[UNK]"
_MASK = "[MASK]"
_MAX_TOKEN_BYTES = 256  # limit of tensorflow-text's automaton, without the ##
_DEVICE = "CPU:0"  # string operations run only here, so keep their arrays here too
_TEXTS = tf.TensorSpec([None], tf.string)


class GraphTokenizer(tf.Module):
    """Turns text into WordPiece ids, their positions in the text and model inputs, in a TensorFlow graph.

    Every text gets the same ids as from `FullTokenizer`. Text is UTF-8; the tokenizer drops invalid bytes. A SavedModel
    with this tokenizer needs `import tensorflow_text` when you load it, but not this project.

    Args:
        tokenizer: FullTokenizer.
        vocab_file: of the vocabulary, for readers of a SavedModel, which gets a copy.

    Raises:
        ValueError: the vocabulary lacks [UNK], or has a token that is too long for the automaton of tensorflow-text.
    """

    def __init__(self, tokenizer: FullTokenizer, vocab_file: str | os.PathLike | None = None):
        super().__init__()
        name, vocab, rules = os.fspath(vocab_file or "the vocabulary"), tokenizer.vocab, tokenizer.rules
        if tokenizer.unk_id is None:
            raise Mistake("{} lacks {}, the token for unknown words; add it", name, _UNKNOWN)
        self.unk_id, self.mask_id = tokenizer.unk_id, tokenizer.mask_id  # the second is None without [MASK]
        self._cls_id, self._sep_id = tokenizer.cls_id, tokenizer.sep_id
        self._longest_word = tokenizer.wordpiece_tokenizer.max_input_chars_per_word
        basic = tokenizer.basic_tokenizer
        self._is_foreign, self._do_lower_case = rules.is_foreign, basic.do_lower_case
        pattern = special_pattern(rules.special_tokens)
        self._special_pattern = pattern and pattern.pattern.removeprefix("(").removesuffix(")")
        with tf.device(_DEVICE):
            self._special_tokens = tf.constant(rules.special_tokens, tf.string, [len(rules.special_tokens)])
            special_ids = [vocab[token] for token in rules.special_tokens]
            self._special_ids = tf.constant(special_ids, tf.int32, [len(special_ids)])
            # If the file has a token twice, the first of its ids has no token.
            names = [tokenizer.inv_vocab.get(id_, _UNKNOWN) for id_ in range(tokenizer.vocab_size)]
            self._tokens = tf.constant(names)
            # The graph uses the automaton of the vocabulary.
            self.vocab_file = vocab_file and tf.saved_model.Asset(name)
            self._normalizer = Normalizer(basic.do_lower_case, basic.strip_accents)
            tokens = _matchable_tokens(vocab, name, self._longest_word)
            self._lengths = tf.constant([len(token.removeprefix("##")) for token in tokens], tf.int32)
            self._wordpiece = tensorflow_text.FastWordpieceTokenizer(
                tokens,
                max_bytes_per_word=4 * self._longest_word,
                token_out_type=tf.int32,
                unknown_token=_UNKNOWN,
                no_pretokenization=True,
            )

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of `FullTokenizer.encode`, int32 [B, (tokens)], of texts, string [B]."""
        return self.tokenize_with_offsets(texts)[0]

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize_with_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the ids, starts and ends of `FullTokenizer.tokenize_with_offsets`, int32 [B, (tokens)].

        The positions count characters of the decoded text.
        """
        with tf.device(_DEVICE):
            return self._tokenize(texts) if self._special_pattern is None else self._tokenize_parts(texts)

    def _tokenize_parts(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the tokens of texts with special tokens: each special token is a separate part."""
        # Remove bytes that are not UTF-8 first: they may be inside a special token.
        codes = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        # The split ends at a NUL, which the tokenizer removes as this character.
        decoded = _encode(codes.with_flat_values(tf.where(codes.flat_values == 0, 0x200B, codes.flat_values)))
        pattern = self._special_pattern
        parts = tensorflow_text.regex_split(decoded, pattern, keep_delim_regex_pattern=pattern)  # [B, (parts)]
        is_equal = parts.flat_values[:, tf.newaxis] == self._special_tokens  # [P, S]
        is_special = tf.reduce_any(is_equal, 1)
        lengths = tf.strings.length(parts.flat_values, "UTF8_CHAR")  # [P]
        ends = tf.cumsum(lengths)
        first_ends = tf.gather(tf.concat([[0], ends], 0), parts.row_splits[:-1])
        places = ends - lengths - tf.repeat(first_ends, parts.row_lengths())  # of the parts in their text

        def select_special(values: tf.Tensor) -> tf.RaggedTensor:
            kept = tf.cast(is_special, tf.int64)
            return tf.RaggedTensor.from_row_lengths(tf.boolean_mask(values, is_special), kept, validate=False)

        ids, starts, ends = self._tokenize(tf.where(is_special, "", parts.flat_values))
        special_ids = tf.reduce_sum(tf.where(is_equal, self._special_ids, 0), 1)
        pairs = (ids, special_ids), (starts + places[:, tf.newaxis], places)
        pairs += ((ends + places[:, tf.newaxis], places + lengths),)
        ids, starts, ends = (
            parts.with_values(tf.concat([plain, select_special(values)], 1)).merge_dims(1, 2) for plain, values in pairs
        )
        return ids, starts, ends

    def _tokenize(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        with tf.device(_DEVICE):
            codes, row_splits = code_points(texts)
            if self._is_foreign:
                codes = as_in_transformers(codes, self._do_lower_case)
            words, word_starts, sources = self._split(codes)
            is_long = words.row_lengths() > self._longest_word
            # A string longer than max_bytes_per_word is always unknown.
            pieces = self._wordpiece.tokenize(tf.where(is_long, "a" * (4 * self._longest_word + 1), _encode(words)))
            # Map texts to characters, to words, to tokens.
            first_words = tf.searchsorted(word_starts, tf.searchsorted(sources, row_splits))
            splits = tf.gather(pieces.row_splits, first_words)

            def by_text(values: tf.Tensor) -> tf.RaggedTensor:
                return tf.RaggedTensor.from_row_splits(values, splits, validate=False)

            lengths = self._lengths_of(pieces, words.row_lengths())
            ends = tf.cumsum(lengths)
            starts = tf.gather(sources, ends - lengths)
            ends = self._normalizer.behind_marks(codes, tf.gather(sources, ends - 1) + 1)
            offsets = tf.repeat(row_splits[:-1], splits[1:] - splits[:-1])
            return by_text(pieces.flat_values), by_text(starts - offsets), by_text(ends - offsets)

    def tokenize_with_masks(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of texts, int32 [B, (tokens)], with each literal [MASK] as the mask token.

        Differs from the original BERT, whose tokenizer splits [MASK] in a text into a bracket, a word and a bracket.
        """
        if self.mask_id is None:
            raise Mistake("the vocabulary lacks [MASK]; give that of a model that was pre-trained to fill masks")
        with tf.device(_DEVICE):
            # Remove bytes that are not UTF-8 first: they may be inside a [MASK].
            decoded = _encode(tf.strings.unicode_decode(texts, "UTF-8", errors="ignore"))
            parts = tf.strings.split(decoded, _MASK)  # [B, (masks + 1)]
            ends = tf.expand_dims(parts.row_splits[1:], 1)
            num_masks = 1 - tf.scatter_nd(ends - 1, tf.ones_like(ends[:, 0]), [tf.size(parts.flat_values, tf.int64)])
            ids = tf.concat([self.tokenize(parts.flat_values), _repeat(self.mask_id, num_masks)], axis=1)
            return parts.with_values(ids).merge_dims(1, 2)

    def tokens_of(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the vocabulary tokens of ids, string of the shape of ids."""
        with tf.device(_DEVICE):
            return tf.gather(self._tokens, ids)

    def pack(
        self, ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor | None, max_seq_length: int | None, is_fixed: bool = False
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Joins ids to model inputs like `encode_pair`: [CLS] A [SEP] (B [SEP]), cut and padded with 0.

        ids_b is None without second texts. max_seq_length is None to cut nothing. Returns a dict of input_ids,
        input_mask and segment_ids, int32 [B, T], and is_cut, bool [B]. T is max_seq_length if it is fixed; or else the
        length of the longest row, or 2 for an empty batch.
        """
        if self._cls_id is None or self._sep_id is None:
            raise Mistake("the vocabulary lacks [CLS] or [SEP], which a model's input needs; give that of the model")
        check_sequence_length(max_seq_length)
        with tf.device(_DEVICE):
            num_a = tf.cast(ids_a.row_lengths(), tf.int32)
            num_b = tf.zeros_like(num_a) if ids_b is None else tf.cast(ids_b.row_lengths(), tf.int32)
            kept_a, kept_b = (num_a, num_b) if max_seq_length is None else self._fit_pair(num_a, num_b, max_seq_length)
            parts = [_repeat(self._cls_id, tf.ones_like(kept_a)), _firsts(ids_a, kept_a)]
            parts += [_repeat(self._sep_id, tf.ones_like(kept_a))]
            if ids_b is not None:
                parts += [_firsts(ids_b, kept_b), _repeat(self._sep_id, tf.cast(kept_b > 0, tf.int32))]
            rows = tf.concat(parts, axis=1)
            lengths = tf.cast(rows.row_lengths(), tf.int32)
            width = max_seq_length if is_fixed else tf.reduce_max(tf.concat([[2], lengths], 0))
            return _padded(rows, lengths, kept_a + 2, width), (kept_a < num_a) | (kept_b < num_b)

    def _fit_pair(self, num_a: tf.Tensor, num_b: tf.Tensor, max_seq_length: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the numbers of tokens of both texts to keep, int32 [B] each; see `model_inputs.share_room`."""
        room = max_seq_length - 3
        half = tf.where((num_a <= num_b) & self._is_foreign, room - room // 2, room // 2)
        kept_b = tf.where(num_a + num_b <= room, num_b, tf.minimum(num_b, tf.maximum(half, room - num_a)))
        return tf.where(num_b > 0, tf.minimum(num_a, room - kept_b), tf.minimum(num_a, room + 1)), kept_b

    def _split(self, codes: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Returns words [W, (characters)], the index of their first characters [W], and all characters' sources [M]."""
        characters, sources = self._normalizer.normalize(codes)
        kinds = low_bits(characters, NUM_KIND_BITS)
        in_word = kinds == IN_WORD
        is_start = ~(in_word & tf.concat([[False], in_word[:-1]], 0))
        index = tf.where(kinds != SPACE)[:, 0]
        starts = tf.cast(tf.where(tf.gather(is_start, index))[:, 0], tf.int32)
        characters = without_low_bits(tf.gather(characters, index), NUM_KIND_BITS)
        words = tf.RaggedTensor.from_row_starts(characters, starts, validate=False)
        return words, starts, tf.gather(sources, index)

    def _lengths_of(self, pieces: tf.RaggedTensor, word_lengths: tf.Tensor) -> tf.Tensor:
        """Returns the number of characters of each token, int32 [P]; an unknown word is one token."""
        lengths = tf.gather(self._lengths, pieces.flat_values)
        unknown = tf.where(pieces.flat_values == self.unk_id)
        words = tf.searchsorted(pieces.row_splits, unknown[:, 0], side="right") - 1
        return tf.tensor_scatter_nd_update(lengths, unknown, tf.gather(word_lengths, words))


def code_points(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the code points of all texts, int32 [N], and the row splits of the texts, int32 [B + 1].

    Each text ends with an additional line feed, which separates it from the next one. Invalid UTF-8 is dropped.
    """
    decoded = tf.strings.unicode_decode(tf.strings.join([texts, "\n"]), "UTF-8", errors="ignore")
    return decoded.flat_values, tf.cast(decoded.row_splits, tf.int32)


def cut_out(codes: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the substring of codes from each start to before each end, string [S]."""
    spans = tf.ragged.range(starts, ends, row_splits_dtype=tf.int64)
    return _encode(spans.with_flat_values(tf.gather(codes, spans.flat_values)))


def _encode(words: tf.RaggedTensor) -> tf.Tensor:
    return tf.strings.unicode_encode(words, "UTF-8")


def _matchable_tokens(vocab: Mapping[str, int], vocab_name: str, longest_word: int) -> list[str]:
    """Returns a token for each id; placeholders that match nothing replace tokens that no word can contain."""
    tokens = [f"\x01{number}" for number in range(max(vocab.values()) + 1)]
    for token, number in vocab.items():
        piece = token.removeprefix("##")
        if not piece or len(piece) > longest_word or any(char.isspace() or is_removed(char) for char in piece):
            continue
        num_bytes = len(piece.encode())
        if num_bytes > _MAX_TOKEN_BYTES:
            raise Mistake(
                "{} line {}: a token of {} bytes, but a graph allows at most {}; shorten it",
                vocab_name,
                number + 1,
                num_bytes,
                _MAX_TOKEN_BYTES,
            )
        tokens[number] = token
    return tokens


def _padded(
    rows: tf.RaggedTensor, lengths: tf.Tensor, num_first: tf.Tensor, width: int | tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns rows of ids as the features of a model, given their lengths and those of their first segments [B]."""
    places = tf.range(width)
    is_real = places < lengths[:, tf.newaxis]  # [B, T]
    return {
        "input_ids": rows.to_tensor(shape=tf.stack([-1, width])),
        "input_mask": tf.cast(is_real, tf.int32),
        "segment_ids": tf.cast(is_real & (places >= num_first[:, tf.newaxis]), tf.int32),
    }


def _firsts(rows: tf.RaggedTensor, counts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the first `counts` values of each row."""
    starts = tf.cast(rows.row_starts(), tf.int32)
    return tf.gather(rows.flat_values, tf.ragged.range(starts, starts + counts, row_splits_dtype=tf.int64))


def _repeat(value: int, counts: tf.Tensor) -> tf.RaggedTensor:
    """Returns rows that repeat the value `counts` times."""
    values = tf.fill([tf.reduce_sum(counts)], value)
    return tf.RaggedTensor.from_row_lengths(values, tf.cast(counts, tf.int64), validate=False)
