"""BERT with its pre-training heads in plain NumPy: an independent reference for the tests, written from the paper.

It shares no code with the project and takes its weights by the names of the released checkpoints. It uses loops where
they make the definition clear. All arithmetic is float64.
"""

import math

import numpy as np

ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_erf": lambda x: 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0))),
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
    "linear": lambda x: x,
}


class ReferenceBert:
    """The network for given sizes and weights.

    Args:
        num_hidden_layers, num_attention_heads, hidden_act: as in the config.
        weights: dict of checkpoint names to arrays. Without a table of segments, there are none; a projection of the
            embeddings is used if it is there; and all layers are the first one if the others are missing (ALBERT).
        pooler_act: as in the config.
        is_decoder: whether a token sees only itself and earlier tokens, and the pooler the last token.
    """

    def __init__(
        self, num_hidden_layers, num_attention_heads, hidden_act, weights, pooler_act="tanh", is_decoder=False
    ):
        self.pooler_activation = ACTIVATIONS[pooler_act]
        self.is_decoder = is_decoder
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.activation = ACTIVATIONS[hidden_act]
        self.weights = {name: np.asarray(value, np.float64) for name, value in weights.items()}

    def dense(self, x, scope):
        return x @ self.weights[f"{scope}/kernel"] + self.weights[f"{scope}/bias"]

    def layer_norm(self, x, scope):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        normal = (x - mean) / np.sqrt(variance + 1e-12)
        return normal * self.weights[f"{scope}/LayerNorm/gamma"] + self.weights[f"{scope}/LayerNorm/beta"]

    def embed(self, input_ids, segment_ids):
        words = self.weights["bert/embeddings/word_embeddings"]
        segments = self.weights.get("bert/embeddings/token_type_embeddings", ())
        positions = self.weights["bert/embeddings/position_embeddings"]
        summed = np.zeros((*input_ids.shape, words.shape[1]))
        for b, t in np.ndindex(*input_ids.shape):
            summed[b, t] = words[input_ids[b, t]] + positions[t]
            if segment_ids[b, t] < len(segments) or len(segments) == 1:
                summed[b, t] += segments[min(segment_ids[b, t], len(segments) - 1)]
        embedded = self.layer_norm(summed, "bert/embeddings")
        has_projection = "bert/embeddings/projection/kernel" in self.weights
        return self.dense(embedded, "bert/embeddings/projection") if has_projection else embedded

    def probabilities(self, hidden, input_mask, scope):
        """Returns the attention probabilities [B, N, T, T] of a layer."""
        query, key = (self.dense(hidden, f"{scope}/self/{name}") for name in ("query", "key"))
        size = hidden.shape[-1] // self.num_attention_heads
        probabilities = np.zeros((len(hidden), self.num_attention_heads, hidden.shape[1], hidden.shape[1]))
        for b, head in np.ndindex(*probabilities.shape[:2]):
            columns = slice(head * size, (head + 1) * size)
            scores = query[b, :, columns] @ key[b, :, columns].T / math.sqrt(size)
            scores = scores + (1.0 - input_mask[b]) * -10000.0
            for t, row in enumerate(scores):
                seen = t + 1 if self.is_decoder else len(row)
                probabilities[b, head, t, :seen] = softmax(row[:seen])
        return probabilities

    def attend(self, hidden, input_mask, scope):
        value = self.dense(hidden, f"{scope}/self/value")
        probabilities = self.probabilities(hidden, input_mask, scope)
        size = hidden.shape[-1] // self.num_attention_heads
        context = np.zeros_like(hidden)
        for b, head in np.ndindex(*probabilities.shape[:2]):
            columns = slice(head * size, (head + 1) * size)
            context[b, :, columns] = probabilities[b, head] @ value[b, :, columns]
        return self.layer_norm(self.dense(context, f"{scope}/output/dense") + hidden, f"{scope}/output")

    def encode(self, input_ids, input_mask, segment_ids):
        """Returns the embedding output, the output of every layer, and the pooled output."""
        embedded = hidden = self.embed(input_ids, segment_ids)
        layers = []
        for i in range(self.num_hidden_layers):
            scope = f"bert/encoder/layer_{i}"
            if f"{scope}/output/dense/kernel" not in self.weights:
                scope = "bert/encoder/layer_0"
            attended = self.attend(hidden, input_mask, f"{scope}/attention")
            inner = self.activation(self.dense(attended, f"{scope}/intermediate/dense"))
            hidden = self.layer_norm(self.dense(inner, f"{scope}/output/dense") + attended, f"{scope}/output")
            layers.append(hidden)
        first = np.zeros(len(hidden), int)
        last = [max(np.flatnonzero(row), default=0) for row in input_mask]
        vectors = np.stack([row[at] for row, at in zip(hidden, last if self.is_decoder else first, strict=True)])
        pooled = self.pooler_activation(self.dense(vectors, "bert/pooler/dense"))
        return embedded, layers, pooled

    def masked_lm_log_probs(self, sequence_output, positions):
        picked = np.stack([row[at] for row, at in zip(sequence_output, positions, strict=True)])
        transformed = self.activation(self.dense(picked, "cls/predictions/transform/dense"))
        transformed = self.layer_norm(transformed, "cls/predictions/transform")
        logits = transformed @ self.weights["bert/embeddings/word_embeddings"].T
        return np.log(softmax(logits + self.weights["cls/predictions/output_bias"]))

    def replaced_token_logits(self, sequence_output):
        transformed = self.activation(self.dense(sequence_output, "cls/replaced_token/dense"))
        logits = transformed @ self.weights["cls/replaced_token/output_weights"].T
        return (logits + self.weights["cls/replaced_token/output_bias"])[..., 0]

    def next_sentence_log_probs(self, pooled_output):
        logits = pooled_output @ self.weights["cls/seq_relationship/output_weights"].T
        return np.log(softmax(logits + self.weights["cls/seq_relationship/output_bias"]))

    def losses(self, features):
        """Returns the masked-LM loss and the next-sentence loss of a batch of pre-training examples."""
        _, layers, pooled = self.encode(features["input_ids"], features["input_mask"], features["segment_ids"])
        log_probs = self.masked_lm_log_probs(layers[-1], features["masked_lm_positions"])
        nll = -np.take_along_axis(log_probs, features["masked_lm_ids"][..., None], -1)[..., 0]
        weights = features["masked_lm_weights"]
        masked_lm_loss = (weights * nll).sum() / (weights.sum() + 1e-5)
        sentences = self.next_sentence_log_probs(pooled)
        next_sentence_loss = -np.take_along_axis(sentences, features["next_sentence_labels"], -1).mean()
        return masked_lm_loss, next_sentence_loss


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
