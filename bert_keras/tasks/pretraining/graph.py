"""Text models for the tasks of pre-training."""

from typing import Any, ClassVar

import tensorflow as tf

from bert_keras.tasks.graph.text_model import TextModel


class FillMaskModel(TextModel):
    """Predicts the most probable tokens for each literal [MASK] of a text, independently of the other masks.

    Input: "text" string [B]. Outputs: "tokens" string [B, M, K] as in the vocabulary, the most probable first;
    "probabilities" float32 [B, M, K]; "num_masks" int32 [B]. M is the largest number of masks in a text; other texts
    are padded with "" and 0. K is the setting top_k. The model ignores masks after max_seq_length.
    """

    def expected(self, answer: Any) -> dict[str, Any]:
        return {
            "num_masks": len(answer.masks),
            "tokens": [[guess.token for guess in guesses] for guesses in answer.masks],
            "probabilities": [[guess.probability for guess in guesses] for guesses in answer.masks],
        }

    def _answer(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
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


class NextSentenceModel(TextModel):
    """Predicts whether one text follows another, like `NextSentence`.

    Inputs: "text_a" and "text_b", string [B]. Output: "probability" float32 [B] that the second follows the first.
    """

    def expected(self, answer: Any) -> dict[str, Any]:
        return {"probability": answer.probability}

    def _answer(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        features, is_cut = self._pack(*(self.tokenizer.tokenize_with_masks(text) for text in texts.values()))
        logits = self.network(features)["logits"]  # [B, 2]; class 0 is "follows"
        return {"probability": tf.nn.softmax(logits)[:, 0], "is_cut": is_cut}


class ReplacedTokensModel(TextModel):
    """Finds the tokens of a text that do not fit, like `ReplacedTokenFinder` for texts that fit into one window.

    Input: "text" string [B]. Outputs: "tokens" string [B, N] of the text; "probabilities" float32 [B, N] that they do
    not belong there; "num_tokens" int32 [B]. Shorter texts are padded with "" and 0.
    """

    meanings: ClassVar = {
        "tokens": 'the tokens of the text; rows are padded with ""',
        "probabilities": "the probability that each token does not belong there",
    }

    def expected(self, answer: Any) -> dict[str, Any]:
        return {
            "num_tokens": len(answer.tokens),
            "tokens": [replacement.token for replacement in answer.tokens],
            "probabilities": [replacement.probability for replacement in answer.tokens],
        }

    def _answer(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        features, is_cut = self._pack(self.tokenizer.tokenize_with_masks(texts["text"]))
        logits = self.network(features)["logits"][:, 1:-1]  # without [CLS] and the last [SEP]
        num_tokens = tf.reduce_sum(features["input_mask"], axis=1) - 2
        is_token = tf.sequence_mask(num_tokens, tf.shape(logits)[1])
        return {
            "tokens": tf.where(is_token, self.tokenizer.tokens_of(features["input_ids"][:, 1:-1]), ""),
            "probabilities": tf.where(is_token, tf.sigmoid(logits), 0.0),
            "num_tokens": num_tokens,
            "is_cut": is_cut,
        }
