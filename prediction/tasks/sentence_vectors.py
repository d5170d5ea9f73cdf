"""One vector per text, from an export for vectors."""

import dataclasses
import logging

from bert_keras.data_prep.tasks.encoding import encode_pair
from bert_keras.prediction.limits import Limits, check_not_blank
from bert_keras.prediction.loading.task_file import read_settings
from bert_keras.prediction.predictor import Predictor
from bert_keras.prediction.sequences import Question
from bert_keras.prediction.tasks.features import FeatureExtractor

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


class Vectorizer(Predictor):
    """Returns one vector per text: `Vectorizer("export")("Paris").vector`.

    The export sets layer and pooling. A text that is too long loses its end; the log reports the number of such texts.

    Args:
        path: the folder of an export for vectors.
        batch_size: maximum number of texts in a batch.
        limits: Limits of the input; None: the defaults.

    Raises:
        FileNotFoundError: a part of the export is missing.
        ValueError: a part is damaged, or the export is for another task.
    """

    tasks = ("vectors",)

    def __init__(self, path, batch_size=16, limits=None):
        folder, settings = read_settings(path)
        if settings["task"] not in self.tasks:
            raise ValueError(f"{folder} is a model for {settings['task']}; open it with bert_keras.open_model")
        self.limits = limits or Limits()
        self.extractor = FeatureExtractor(
            folder, (settings["layer"],), settings["pooling"], settings["max_seq_length"], batch_size
        )
        self.network = self.extractor.network

    def __call__(self, texts):
        """Returns the vector of a text, or of each text of a list.

        Args:
            texts: str, or a list of str.

        Returns:
            TextVector, or a list of them.

        Raises:
            ValueError: a text is empty.
        """
        return self.answer_list(texts) if isinstance(texts, list) else self.answer_one(texts)

    def _encode_all(self, rows, counts):
        super()._encode_all(rows, counts)
        counts["cut"] += sum(row.encoded[1] > 0 for row in rows if row.error is None)

    def _report(self, counts):
        if counts["cut"]:
            log.warning(
                "texts longer than %d tokens lost their ends: %d of %d",
                *(self.extractor.max_seq_length, counts["cut"], counts["texts"]),
            )

    def _encode(self, text, source):
        """Returns the Question and the number of tokens cut."""
        self.limits.check_text(text, source)
        check_not_blank(text, source)
        extractor = self.extractor
        input_ids, segment_ids, num_cut = encode_pair(extractor.tokenizer, text, None, extractor.max_seq_length)
        return Question(input_ids, segment_ids), num_cut

    def _questions(self, encoded):
        yield encoded[0]

    def _answer(self, text, encoded, found):
        [(_, (values,))] = found  # [1, H]
        return TextVector(text, values[0].tolist())
