"""The tokenizer as a Keras layer, for input pipelines and for models that take text."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_keras.data_prep.text.model_inputs import check_sequence_length
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import check_special_tokens
from bert_keras.mistakes import Mistake
from bert_keras.storage.tokenizer.keys import TEXT_RULES, TextRules
from bert_keras.storage.tokenizer.vocabulary import Tokens

FEATURES = ("input_ids", "input_mask", "segment_ids")


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenizerLayer(keras.layers.Layer):
    """Converts texts or pairs of texts to the inputs of a model with TensorFlow operations.

    The result equals that of `FullTokenizer` with the same arguments, for every text. The layer works in `tf.data` with
    every backend of Keras, and as a part of a model with the TensorFlow backend. Needs tensorflow-text.

    Call it with texts, or with a tuple of two for pairs: string tensors [B], or [] for a single text. It returns a dict
    of input_ids, input_mask and segment_ids, int32 [B, T], or [T] for a single text.

    Args:
        tokenizer: FullTokenizer. A saved model contains its vocabulary.
        sequence_length: T; longer texts are cut, see `FullTokenizer`. None: nothing is cut, and T is that of the
            longest text of the batch.
        pad_to_longest: T is that of the longest text of the batch, and at most `sequence_length`.
        **kwargs: arguments of `keras.layers.Layer`, such as the name.

    Raises:
        ValueError: the vocabulary lacks [UNK], [CLS] or [SEP], sequence_length is less than 5, or tensorflow-text is
            not installed. From a call: the texts are not strings, or have more than one dimension.
    """

    def __init__(
        self, tokenizer: FullTokenizer, sequence_length: int | None = None, pad_to_longest: bool = False, **kwargs: Any
    ):
        super().__init__(**kwargs)
        if not isinstance(tokenizer, FullTokenizer):
            raise ValueError(
                f"the tokenizer is of type {type(tokenizer).__name__}; give a FullTokenizer, such as "
                'FullTokenizer("vocab.txt"), or call TokenizerLayer.from_checkpoint'
            )
        try:
            from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer
        except ImportError:
            raise Mistake(
                "tensorflow-text is not installed, which the layer needs; run pip install tensorflow-text, or use a "
                "FullTokenizer outside the graph"
            ) from None
        check_sequence_length(sequence_length)
        check_special_tokens(tokenizer.vocab, ("[CLS]", "[SEP]"))
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.pad_to_longest = pad_to_longest
        self._graph = GraphTokenizer(tokenizer)
        self.supports_jit = False  # of strings
        self.built = True

    @classmethod
    def from_checkpoint(
        cls, path: str | os.PathLike, sequence_length: int | None = None, pad_to_longest: bool = False, **kwargs: Any
    ) -> "TokenizerLayer":
        """Returns the layer with the tokenizer of a model; see `FullTokenizer.from_checkpoint` for the path."""
        return cls(FullTokenizer.from_checkpoint(path), sequence_length, pad_to_longest, **kwargs)

    # Keras takes the type of the inputs from these, and does not cast.
    compute_dtype = variable_dtype = "string"

    def __call__(self, texts: Any, training: bool | None = None) -> dict[str, Any]:
        if not any(isinstance(column, keras.KerasTensor) for column in _columns(texts)):
            # Layers of other backends convert their inputs to arrays, which cannot hold strings.
            return self.call(texts)
        if keras.backend.backend() != "tensorflow":
            raise ValueError(
                f"the tokenizer is a TensorFlow graph, which cannot be a part of a model on {keras.backend.backend()}; "
                "call the layer in the input pipeline: dataset.map(layer)"
            )
        return super().__call__(texts)

    def call(self, texts: Any) -> dict[str, Any]:
        columns = [_as_strings(column) for column in _columns(texts)]
        if not columns[0].shape.is_compatible_with(columns[-1].shape):
            shapes = " and ".join(str(column.shape) for column in columns)
            raise ValueError(f"the first and the second texts have the shapes {shapes}; give as many of both")
        is_single = columns[0].shape.rank == 0
        if is_single:
            columns = [tf.expand_dims(column, 0) for column in columns]
        check = tf.debugging.assert_equal(
            tf.shape(columns[0]), tf.shape(columns[-1]), "the first and the second texts need the same number"
        )
        with tf.control_dependencies([check] if check is not None else []):
            ids = [self._graph.tokenize(tf.identity(column)) for column in columns]
        is_fixed = self.sequence_length is not None and not self.pad_to_longest
        features, _ = self._graph.pack(ids[0], ids[1] if len(ids) == 2 else None, self.sequence_length, is_fixed)
        if is_single:
            features = {name: values[0] for name, values in features.items()}
        shape = self._shape(() if is_single else columns[0].shape)
        for values in features.values():
            values.set_shape(shape)
        if keras.backend.backend() == "tensorflow" or tf.inside_function():
            return features
        return {name: keras.ops.convert_to_tensor(values.numpy()) for name, values in features.items()}

    def compute_output_spec(self, texts: Any) -> dict[str, keras.KerasTensor]:
        columns = _columns(texts)
        for column in columns:
            _check(column.dtype, len(column.shape))
        return {name: keras.KerasTensor(self._shape(columns[0].shape), "int32", name=name) for name in FEATURES}

    def get_config(self) -> dict[str, Any]:
        do_lower_case, strip_accents = self.tokenizer.casing
        return {
            **super().get_config(),
            "vocabulary": [*self.tokenizer.tokens],
            "do_lower_case": do_lower_case,
            "strip_accents": strip_accents,
            "max_input_chars_per_word": self.tokenizer.longest_word,
            TEXT_RULES: self.tokenizer.rules.to_json(),
            "sequence_length": self.sequence_length,
            "pad_to_longest": self.pad_to_longest,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "TokenizerLayer":
        config = dict(config)
        tokens = Tokens(config.pop("vocabulary"), longest_word=config.pop("max_input_chars_per_word", None))
        rules = TextRules.of(config.pop(TEXT_RULES), "the config of the layer")
        return cls(FullTokenizer(tokens, config.pop("do_lower_case"), config.pop("strip_accents"), rules), **config)

    def _shape(self, shape_of_texts: Iterable[int | None]) -> tuple[int | None, ...]:
        return (*shape_of_texts, None if self.pad_to_longest else self.sequence_length)


def _columns(texts: Any) -> Sequence[Any]:
    """Returns the one or two columns of texts of an input; Keras may turn a tuple of tensors into a list."""
    if not isinstance(texts, tuple) and not (isinstance(texts, list) and texts and all(map(_is_tensor, texts))):
        return [texts]
    if len(texts) != 2:
        raise ValueError(f"there are {len(texts)} texts for each row; give one, or a tuple of two for pairs")
    return texts


def _is_tensor(value: object) -> bool:
    return tf.is_tensor(value) or isinstance(value, keras.KerasTensor)


def _as_strings(column: Any) -> tf.Tensor:
    column = tf.convert_to_tensor(column)
    _check(column.dtype.name, column.shape.rank)
    return column


def _check(dtype: str, rank: int | None) -> None:
    if dtype != "string" or (rank or 0) > 1:
        raise ValueError(
            f"the texts are of type {dtype} with {rank} dimensions; give strings of shape [B], such as those of "
            'keras.Input(shape=(), dtype="string"), or a tuple of two for pairs'
        )
