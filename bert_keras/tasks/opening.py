"""Opens a model for the task that it was trained for. `opening.pyi` has the class of each task."""

import os
from typing import Any

from bert_keras.model_folder.folder import ModelFolder
from bert_keras.tasks import predictor_of, settings_of


def open_model(
    path: str | os.PathLike,
    batch_size: int = 64,
    *,
    task: str | None = None,
    is_pair: bool | None = None,
    words: str | None = None,
    **options: Any,
) -> Any:
    """Loads a fine-tuned model or an export for any task.

    Args:
        path: a run folder, its folder `model`, the folder of an export, of sentence-transformers or of a model that
            transformers fine-tuned, or `hf://owner/name`; or `model.onnx`, `model.xml` or `model.tflite` of an export.
        batch_size: maximum number of sequences in a batch.
        task, is_pair, words: what the folder of another library may leave open: the use of a head with one number or
            several uses; whether a classifier takes pairs of texts (None: each text may be one or a pair); and how a
            tagger splits texts into words, "conll" or "transformers" (None: as transformers does).
        options: the other arguments of the class.

    Returns:
        TextClassifier, ChoicePicker, Reranker, QuestionAnswerer, EntityTagger or Vectorizer; for the heads of
        pre-training FillMask, NextSentence, SentenceScorer or ReplacedTokenFinder.

    Raises:
        FileNotFoundError: a part of the model is missing.
        ValueError: a part is damaged, or does not fit the others.
    """
    model = ModelFolder.of(path, task=task, is_pair=is_pair, words=words)
    return predictor_of(settings_of(model)["task"])(model, batch_size=batch_size, **options)
