"""One vector per text, from an export for vectors."""

import dataclasses
import logging

from bert_keras.data_prep.tasks.encoding import make_features
from bert_keras.data_prep.tasks.examples import Example
from bert_keras.prediction.tasks.features import pool
from bert_keras.prediction.tasks.fine_tuned import FineTunedPredictor

log = logging.getLogger("bert_keras")


@dataclasses.dataclass(frozen=True)
class TextVector:
    """The vector of a text.

    Attributes:
        text: the given text.
        vector: list of float, H of them.
    """

    text: str
    vector: list[float]


class Vectorizer(FineTunedPredictor):
    """Returns one vector per text: `Vectorizer("export")("Paris").vector`.

    A call takes a str and returns a TextVector; given a list of texts, it returns a list. The export sets layer and
    pooling. A text that is too long loses its end; the log reports the number of such texts.

    Args:
        path: the folder of an export for vectors.
        batch_size, limits: see `FineTunedPredictor`.
    """

    def _encode(self, text, source):
        self._check_text(text, source)
        return Example("", text, source=source)

    def _features(self, examples, counts):
        features = make_features(examples, (), "single_label", self.tokenizer, self.max_seq_length, counts=counts)
        return features, features["example_index"]

    def _report(self, counts):
        if counts["cut"]:
            told = "texts longer than %d tokens lost their ends: %d of %d"
            log.warning(told, self.max_seq_length, counts["cut"], counts["texts"])

    def _read_out(self, outputs, features):
        values = outputs["sequence_output"][:, :, None]  # [B, T, 1, H]
        return (pool(values, features["input_mask"], self.settings["pooling"]),)

    def _answer(self, text, encoded, found):
        [(_, (values,))] = found  # [1, H]
        return TextVector(text, values[0].tolist())
