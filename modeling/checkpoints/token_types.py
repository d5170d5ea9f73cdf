"""Weights of a model whose second texts have no token type of their own."""

import dataclasses
import functools

import numpy as np

from bert_keras.modeling.checkpoints.files import Checkpoint
from bert_keras.modeling.config import BertConfig


class OneTokenType(Checkpoint):
    """A checkpoint for which the tokens of a second text have the type 0, as those of the first.

    It reads the first row of the table of types for each type. So these weights answer so in every program.
    """

    _TABLE = "bert/embeddings/token_type_embeddings"

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint.prefix, checkpoint)

    def shape(self, name: str) -> tuple[int, ...]:
        shape = super().shape(name)
        return (max(2, shape[0]), *shape[1:]) if name == self._TABLE else shape

    def read(self, name: str) -> np.ndarray:
        value = super().read(name)
        return np.repeat(value[:1], self.shape(name)[0], axis=0) if name == self._TABLE else value

    @functools.cached_property
    def config(self) -> BertConfig | None:
        config = super().config
        if config is None or self._TABLE not in self.names:
            return config
        return dataclasses.replace(config, type_vocab_size=max(2, config.type_vocab_size))
