"""Text models without fine-tuning: vectors of texts, and predictions for masks."""

import tensorflow as tf

from bert_keras.export.graph.text_model import TextModel


class VectorModel(TextModel):
    """Computes one vector of one layer for each text, like `FeatureExtractor` with the same pooling.

    Input: "text" string [B]. Output: "vector" float32 [B, H], the vector of [CLS], or the mean or maximum over all
    tokens including [CLS] and [SEP]. The network defines the layer.
    """

    def _answer(self, texts):
        features, is_cut = self._pack(self.tokenizer.tokenize(texts["text"]))
        values = self.network(features)["sequence_output"]
        return {"vector": self._pool(values, features["input_mask"]), "is_cut": is_cut}

    def _pool(self, values, input_mask):
        if self.settings["pooling"] == "cls":
            return values[:, 0]
        is_token = tf.expand_dims(input_mask == 1, 2)  # [B, T, 1]
        if self.settings["pooling"] == "max":
            return tf.reduce_max(tf.where(is_token, values, values.dtype.min), axis=1)
        num_tokens = tf.reduce_sum(tf.cast(is_token, tf.float32), axis=1)  # [B, 1]
        return tf.reduce_sum(tf.where(is_token, values, 0.0), axis=1) / num_tokens


class FillMaskModel(TextModel):
    """Predicts the most probable tokens for each literal [MASK] of a text, independently of the other masks.

    Input: "text" string [B]. Outputs: "tokens" string [B, M, K] as in the vocabulary, the most probable first;
    "probabilities" float32 [B, M, K]; "num_masks" int32 [B]. M is the largest number of masks in a text; other texts
    are padded with "" and 0. K is the setting top_k. The model ignores masks after max_seq_length.
    """

    def _answer(self, texts):
        features, is_cut = self._pack(self.tokenizer.tokenize_with_masks(texts["text"]))
        is_mask = features["input_ids"] == self.tokenizer.mask_id  # [B, T]
        num_masks = tf.reduce_sum(tf.cast(is_mask, tf.int32), axis=1)
        places = tf.cast(tf.where(is_mask)[:, 1], tf.int32)
        positions = tf.RaggedTensor.from_row_lengths(places, num_masks).to_tensor()  # [B, M]
        logits = self.network({**features, "masked_lm_positions": positions})["logits"]  # [B, M, V]
        probabilities, ids = tf.math.top_k(tf.nn.softmax(logits), self.settings["top_k"])  # [B, M, K]
        is_asked = tf.expand_dims(tf.sequence_mask(num_masks, tf.shape(positions)[1]), 2)  # [B, M, 1]
        return {
            "tokens": tf.where(is_asked, self.tokenizer.tokens_of(ids), ""),
            "probabilities": tf.where(is_asked, probabilities, 0.0),
            "num_masks": num_masks,
            "is_cut": is_cut,
        }
