"""The part of a `ModelFolder` that belongs to models of other libraries."""

import functools
import logging
import os
from typing import Any, cast

from bert_keras.model_folder.facts import Decision, decisions, line_of
from bert_keras.model_folder.sentence_transformers import Modules, length_of_encoder
from bert_keras.modeling import open_checkpoint
from bert_keras.modeling.checkpoints.files import Checkpoint
from bert_keras.modeling.checkpoints.hugging_face_config import HUGGING_FACE_FILE
from bert_keras.modeling.checkpoints.hugging_face_task import TASKS_OF_PRETRAINING, OpenQuestion, task_of_config
from bert_keras.modeling.checkpoints.loading import OneTokenType
from bert_keras.storage import paths
from bert_keras.storage.tokenizer.files import TokenizerFiles

log = logging.getLogger("bert_keras")


class ForeignFolder(os.PathLike[str]):
    """The base of `ModelFolder`, which sets the attributes; it says by whose rules the model answers."""

    path: str | os.PathLike | None
    folder: str
    is_export: bool
    has_task_file: bool
    has_modules: bool
    _place: str
    _modules: Modules | None
    _facts: dict[str, Any]
    _uses_head: bool

    @functools.cached_property
    def _foreign_task(self) -> dict[str, Any] | None:
        """What the config.json of a model with a head says about its task; None without such a head."""
        file = paths.join(self.folder, HUGGING_FACE_FILE)
        if self.is_export or self.path is None or not paths.is_file(file):
            return None
        checkpoint = cast(Checkpoint, self._opened)
        config = checkpoint.hugging_face_config | (self._modules.reranker_config if self._modules else {})
        length = length_of_encoder(self.folder, self.has_modules)
        return task_of_config(config, file, checkpoint.heads, length, **self._facts)

    @property
    def has_head(self) -> bool:
        """Whether the files say a task: an export, a fine-tuned model, or a model of another library with a head."""
        return self.is_export or self.has_task_file or self.has_modules or self._foreign_task is not None

    @functools.cached_property
    def _opened(self) -> Checkpoint | None:
        return None if self.path is None or self.is_export else open_checkpoint(self._place)

    @functools.cached_property
    def checkpoint(self) -> Checkpoint | None:
        """The open checkpoint; None for an export, and without a path."""
        found = self._opened
        if found and self.is_foreign and not self.tokenizer_files.has_token_types.value:
            found = OneTokenType(found)
        return self._modules.with_head(found) if found and self._modules else found

    @functools.cached_property
    def is_foreign(self) -> bool:
        """Whether the model answers by the rules of another library, which trained its head."""
        if self.has_task_file or self.is_export or self.path is None:
            return False
        if self.has_modules:
            return True
        try:
            found = self._foreign_task
        except OpenQuestion:
            return True
        return found is not None and (self._uses_head or found["task"] not in TASKS_OF_PRETRAINING)

    @functools.cached_property
    def tokenizer_files(self) -> TokenizerFiles:
        """The files in the folder that say how text becomes tokens."""
        return TokenizerFiles(self.folder, self.is_foreign)

    @functools.cached_property
    def decided(self) -> list[Decision]:
        """What the files of a model of another library decide, after `check`. The log reports it, once."""
        found = decisions(self)
        log.info("%s answers as in the library that made it: %s", self, line_of(found))
        return found
