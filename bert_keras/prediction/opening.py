"""Opens a model for the task that it was trained for."""

import os
from typing import Any

from bert_keras import prediction
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.model_folder.tasks import TASKS


def open_model(path: str | os.PathLike, batch_size: int = 16, **options: Any) -> Any:
    """Loads a fine-tuned model or an export for any task.

    Args:
        path: a run folder, its folder `model`, the folder of an export or of sentence-transformers, or
            `hf://owner/name`.
        batch_size: maximum number of sequences in a batch.
        options: the other arguments of the class.

    Returns:
        TextClassifier, ChoicePicker, QuestionAnswerer, EntityTagger or Vectorizer; for an export of a pre-trained
        model also FillMask.

    Raises:
        FileNotFoundError: a part of the model is missing.
        ValueError: a part is damaged, or does not fit the others.
    """
    model = ModelFolder.of(path)
    return getattr(prediction, TASKS[model.settings["task"]].predictor)(model, batch_size=batch_size, **options)
