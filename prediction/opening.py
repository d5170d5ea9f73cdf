"""Opens a fine-tuned model or an export for the task that its folder names."""

from bert_keras.prediction.loading.task_file import read_settings
from bert_keras.prediction.tasks.classification import TextClassifier
from bert_keras.prediction.tasks.entities import EntityTagger
from bert_keras.prediction.tasks.fill_mask import FillMask
from bert_keras.prediction.tasks.multiple_choice import ChoicePicker
from bert_keras.prediction.tasks.question_answering import QuestionAnswerer
from bert_keras.prediction.tasks.sentence_vectors import Vectorizer

_CLASSES = (TextClassifier, ChoicePicker, QuestionAnswerer, EntityTagger, FillMask, Vectorizer)


def open_model(path, batch_size=16, **options):
    """Loads a fine-tuned model or an export for any task.

    Args:
        path: a run folder, its folder `model`, or the folder of an export.
        batch_size: maximum number of sequences in a batch.
        options: `limits`; for an export for fill_mask also the other arguments of `FillMask`.

    Returns:
        TextClassifier, ChoicePicker, QuestionAnswerer or EntityTagger; for an export of a pre-trained model, FillMask
        or Vectorizer.

    Raises:
        FileNotFoundError: a part of the model is missing.
        ValueError: a part is damaged, or does not fit the others.
    """
    _, settings = read_settings(path)
    [class_] = [class_ for class_ in _CLASSES if settings["task"] in class_.tasks]
    return class_(path, batch_size=batch_size, **options)
