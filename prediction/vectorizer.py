"""A vector for each text, by an export that was made for it."""

import dataclasses

from prediction.feature_extractor import FeatureExtractor
from prediction.fine_tuned import check_text
from prediction.task_file import read_settings


@dataclasses.dataclass(frozen=True)
class TextVector:
    """The vector of a text.

    Attributes:
        text: as it was given.
        vector: list of float, H of them.
    """

    text: str
    vector: list[float]


class Vectorizer:
    """Gives each text one vector: `Vectorizer("export")("Paris").vector`.

    Layer and pooling are those of the export; a text that is too long for it loses its end, and the log says how many.

    Args:
        path: the folder of an export for vectors.
        batch_size: how many texts are looked at together, at most.

    Raises:
        FileNotFoundError: a part of the export is not there.
        ValueError: a part is damaged, or it is for another task.
    """

    tasks = ("vectors",)

    def __init__(self, path, batch_size=16):
        folder, settings = read_settings(path)
        if settings["task"] not in self.tasks:
            raise ValueError(f"{folder} is a model for {settings['task']}; open it with prediction.open_model")
        self.extractor = FeatureExtractor(
            folder, (settings["layer"],), settings["pooling"], settings["max_seq_length"], batch_size
        )

    def __call__(self, texts):
        """Gives the vector of a text, or of each text of a list.

        Args:
            texts: str, or a list of str.

        Returns:
            TextVector, or a list of them.

        Raises:
            ValueError: a text is empty.
        """
        if isinstance(texts, list):
            return list(self.answers(texts))
        [answer] = self.answers([texts])
        return answer

    def answers(self, texts, sources=None):
        """Yields the TextVector of each text, in order; the arguments are those of `Predictor.answers`."""
        for number, text in enumerate(texts):
            check_text(text, sources[number] if sources else f"text {number + 1}")
        for text, features in zip(texts, self.extractor.features(texts), strict=True):
            yield TextVector(text, features.values[0].tolist())
