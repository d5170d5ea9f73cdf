"""Tags words with a linear classifier on the hidden vectors of a model that does not change (paper, section 5.3)."""

from collections.abc import Sequence

import numpy as np
import scipy.optimize
import scipy.special
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bert_keras.model_folder.folder import ModelFolder
from bert_keras.prediction import FeatureExtractor
from bert_keras.prediction.network import Question
from bert_keras.tasks.tagging.conll import Sentence

_MOST_ITERATIONS = 200


def tag_with_features(
    model: str,
    train: Sequence[Sentence],
    test: Sequence[Sentence],
    layers: Sequence[int | str] | str,
    combine: str = "concatenate",
) -> list[list[str]]:
    """Returns the tags of the words of test sentences.

    The features of a word are the vectors of its first word piece. The paper has LSTMs on them; a linear classifier
    shows more directly what they contain.

    Args:
        layers: as in `FeatureExtractor`, or "all" layers of the encoder.
        combine: "concatenate" the vectors of the layers, or learn the weights of a "weighted_sum".
    """
    if layers == "all":
        layers = range(ModelFolder(model).config.num_hidden_layers)
    extractor = FeatureExtractor(model, layers=layers, max_seq_length=None, batch_size=64, precision="float32")
    vectors, nums = _word_vectors(extractor, train)
    tags = [tag for one, num in zip(train, nums, strict=True) for tag in (one.tags or ())[:num]]
    is_weighted = combine == "weighted_sum"
    classifier = WeightedSumClassifier(len(layers)) if is_weighted else LogisticRegression(max_iter=_MOST_ITERATIONS)
    scaler = StandardScaler()
    classifier.fit(scaler.fit_transform(vectors), tags)
    vectors, nums = _word_vectors(extractor, test)
    found = iter(classifier.predict(scaler.transform(vectors)).tolist())
    # Words beyond the length of the model have no vector.
    return [
        [next(found) if i < num else "O" for i in range(len(one.words))] for one, num in zip(test, nums, strict=True)
    ]


def _encode(extractor, sentence):
    """Returns the ids of a sentence, and the position of the first word piece of each word that fits."""
    tokenizer, ids, starts = extractor.tokenizer, [extractor.tokenizer.cls_id], []
    for word in sentence.words:
        pieces = tokenizer.encode(word) or [tokenizer.vocab["[UNK]"]]
        if len(ids) + len(pieces) + 1 > extractor.max_seq_length:
            break
        starts.append(len(ids))
        ids += pieces
    return [*ids, tokenizer.sep_id], starts


def _word_vectors(extractor, sentences):
    """Returns the vectors of all words that fit, float32 [W, L * H], and the number of these words in each sentence."""
    encoded = [_encode(extractor, sentence) for sentence in sentences]
    questions = [Question(ids, [0] * len(ids)) for ids, _ in encoded]
    places = [starts for _, starts in encoded]
    answers = zip(extractor.network.answer(questions), places, strict=True)
    vectors = np.concatenate([values[starts] for (values,), starts in answers])
    return vectors.reshape(len(vectors), -1), [len(starts) for starts in places]


class WeightedSumClassifier:
    """A logistic regression on a weighted sum of layers, which learns the weights too (Peters et al. 2018).

    The weights are positive and their sum is 1. The penalty is that of scikit-learn's `LogisticRegression`, so one
    layer gives the same classifier.

    Args:
        num_layers: L; the features are those of all layers, [W, L * H].
    """

    def __init__(self, num_layers: int) -> None:
        self._num_layers = num_layers

    def fit(self, features: np.ndarray, tags: Sequence[str]) -> None:
        """Learns from float [W, L * H] and a tag for each word."""
        layers = self._split(features)
        self.classes, labels = np.unique(tags, return_inverse=True)
        num_weights, rows = layers.shape[2] * len(self.classes), np.arange(len(labels))

        def loss_of(parameters):
            shares, matrix, bias = self._unpack(parameters, num_weights)
            summed = _weighted_sum(shares, layers)
            log_probs = scipy.special.log_softmax(summed @ matrix + bias, axis=1)  # [W, C]
            loss = -log_probs[rows, labels].sum() + 0.5 * (matrix**2).sum()
            errors = np.exp(log_probs)
            errors[rows, labels] -= 1
            sum_gradient = (errors @ matrix.T).astype(layers.dtype)
            layer_gradients = np.array(
                [np.einsum("wh,wh->w", layer, sum_gradient).sum(dtype=float) for layer in layers]
            )
            share_gradients = shares * (layer_gradients - shares @ layer_gradients)
            return loss, np.concatenate([share_gradients, (summed.T @ errors + matrix).ravel(), errors.sum(0)])

        start = np.zeros(self._num_layers + num_weights + len(self.classes))
        options = {"maxiter": _MOST_ITERATIONS}
        found = scipy.optimize.minimize(loss_of, start, jac=True, method="L-BFGS-B", options=options)
        self.shares, self._matrix, self._bias = self._unpack(found.x, num_weights)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Returns the tags of float [W, L * H]."""
        summed = _weighted_sum(self.shares, self._split(features))
        return self.classes[(summed @ self._matrix + self._bias).argmax(1)]

    def _split(self, features):
        """Returns the features of the layers one after the other, [L, W, H]: a sum of them then reads memory once."""
        return np.ascontiguousarray(features.reshape(len(features), self._num_layers, -1).swapaxes(0, 1))

    def _unpack(self, parameters, num_weights):
        shares, matrix, bias = np.split(parameters, [self._num_layers, self._num_layers + num_weights])
        return scipy.special.softmax(shares), matrix.reshape(-1, len(self.classes)), bias


def _weighted_sum(shares, layers):
    """Returns [W, H] from layers of [L, W, H], in their precision: float64 would need twice the memory."""
    return (shares.astype(layers.dtype) @ layers.reshape(len(layers), -1)).reshape(layers.shape[1:])
