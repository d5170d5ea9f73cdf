"""Text model for token classification, as trained by run_ner.py.

Axes: B batch, T tokens, C tags, W words.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer, code_points, cut_out
from bert_keras.data_prep.text.graph.words import WordSplitter
from bert_keras.tasks.graph.networks import IdsNetwork
from bert_keras.tasks.graph.text_model import TextModel


class TagModel(TextModel):
    """Tags the words of texts, like `EntityTagger` for texts that fit into one window.

    Input: "text" string [B]. `data_prep.text.places.split_by` defines the words. The model omits words that do not fit.

    Outputs, with the padding at the end of rows in brackets: "words" string [B, W] (""), substrings of the text; "tags"
    string [B, W] (""); "probabilities" float32 [B, W] of the tags (0); "starts", "ends" int32 [B, W] (-1), positions in
    characters of the decoded text; "num_words" int32 [B].
    """

    def __init__(self, network: IdsNetwork, tokenizer: GraphTokenizer, settings: Mapping[str, Any]):
        super().__init__(network, tokenizer, settings)
        self._splitter = WordSplitter()
        self._room = self.max_seq_length - 2

    def expected(self, answer: Any) -> dict[str, Any]:
        words = answer.words
        return {
            "num_words": len(words),
            "words": [word.word for word in words],
            "tags": [word.tag for word in words],
            "probabilities": [word.probability for word in words],
            "starts": [word.start for word in words],
            "ends": [word.end for word in words],
        }

    def _answer(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        codes, row_splits = code_points(texts["text"])
        if self.settings["words"] == "conll":
            starts, ends, word_splits = self._splitter.split(codes, row_splits)
        else:
            starts, ends, word_splits = self._words_of_tokens(texts["text"], codes, row_splits)
        words = cut_out(codes, starts, ends)
        pieces, is_long = self._tokenize(words)
        rows, columns, fits = self._places(pieces.row_lengths(), word_splits)
        offsets = tf.gather(row_splits, rows)
        is_cut = tf.RaggedTensor.from_row_splits(is_long | ~fits, word_splits, validate=False)
        rows, columns, words, pieces, starts, ends = (
            tf.gather(values, tf.where(fits)[:, 0])
            for values in (rows, columns, words, pieces, starts - offsets, ends - offsets)
        )

        def by_text(values: tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor:
            return tf.RaggedTensor.from_value_rowids(values, rows, tf.size(texts["text"], tf.int64), validate=False)

        features, _ = self._pack(by_text(pieces).merge_dims(1, 2))
        logits = tf.gather_nd(self.network(features)["logits"], tf.stack([rows, columns], axis=1))  # [W, C]
        # top_k puts the first of equal logits first.
        best = tf.math.top_k(logits, 1).indices[:, 0]
        return {
            "words": by_text(words).to_tensor(),
            "tags": by_text(tf.gather(self.settings["labels"], best)).to_tensor(),
            "probabilities": by_text(tf.reduce_max(tf.nn.softmax(logits), axis=1)).to_tensor(),
            "starts": by_text(starts).to_tensor(-1),
            "ends": by_text(ends).to_tensor(-1),
            "num_words": tf.cast(by_text(words).row_lengths(), tf.int32),
            "is_cut": tf.reduce_any(is_cut, axis=1),
        }

    def _words_of_tokens(
        self, texts: tf.Tensor, codes: tf.Tensor, row_splits: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns what `WordSplitter.split` does, for the words into which the tokenizer splits texts."""
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(texts)
        offsets = tf.repeat(row_splits[:-1], ids.row_lengths())
        starts = starts.flat_values + offsets
        begins = tf.strings.substr(self.tokenizer.tokens_of(ids.flat_values), 0, 2) != "##"
        # A special token of the text may begin with "##", too; a piece of a word never begins at "#".
        begins |= tf.gather(codes, starts) == ord("#")
        starts = tf.boolean_mask(starts, begins)
        ends = tf.boolean_mask(ends.flat_values + offsets, tf.roll(begins, -1, 0))
        return starts, ends, tf.searchsorted(starts, row_splits)

    def _tokenize(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns the tokens of each word, int32 [W, (tokens)], and whether they were cut, bool [W].

        A word without tokens, which has only stripped marks, becomes [UNK].
        """
        pieces = self.tokenizer.tokenize(words)
        missing = tf.cast(pieces.row_lengths() == 0, tf.int64)
        unknown = tf.RaggedTensor.from_row_lengths(
            tf.fill([tf.reduce_sum(missing)], self.tokenizer.unk_id), missing, validate=False
        )
        pieces = tf.concat([pieces, unknown], axis=1)
        return pieces[:, : self._room], pieces.row_lengths() > self._room

    def _places(self, lengths: tf.Tensor, word_splits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the row of each word, the column of its first token, both int64 [W], and whether it fits."""
        num_words = word_splits[1:] - word_splits[:-1]
        rows = tf.repeat(tf.range(tf.size(num_words, tf.int64)), num_words)
        sums = tf.cumsum(tf.concat([[0], lengths], 0))
        ends = 1 + sums[1:] - tf.gather(sums, tf.gather(word_splits, rows))  # [CLS] comes first
        return rows, ends - lengths, ends <= 1 + self._room
