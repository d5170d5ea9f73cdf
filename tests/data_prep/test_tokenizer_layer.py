"""The tokenizer as a Keras layer equals `FullTokenizer`, in tf.data, in models and after loading."""

import pathlib
import pickle
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from other_backends import run_on
from reference_tokenizer import MODES, odd_text, write_odd_vocab
from tiny_bert import make_config

from bert_keras import BertModel, FullTokenizer, TokenizerLayer

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ("input_ids", "input_mask", "segment_ids")
TEXTS = ["abc, de.", "", "a b c d e f g h i j k"]
# Arguments sequence_length and pad_to_longest.
LENGTHS = [(None, False), (7, False), (7, True)]


def equal(found, expected):
    assert set(found) == set(NAMES)
    for name in NAMES:
        np.testing.assert_array_equal(np.asarray(found[name]), expected[name], err_msg=name)
        assert np.asarray(found[name]).dtype == np.int32


@pytest.fixture(scope="module")
def odd_layers(tmp_path_factory):
    """Layers for odd text, by casing and arguments."""
    vocab_file = write_odd_vocab(tmp_path_factory.mktemp("vocab") / "vocab.txt", "[CLS]", "[SEP]")
    pairs = [*zip(MODES, [*LENGTHS, (5, False)], strict=True)]
    return [TokenizerLayer(FullTokenizer(vocab_file, *mode), *arguments) for mode, arguments in pairs]


@pytest.fixture
def layer(letters_tokenizer):
    return TokenizerLayer(letters_tokenizer, 7)


def as_texts(texts):
    """Returns texts without the halves of surrogate pairs, which UTF-8 cannot hold."""
    return [text.encode("utf-8", "ignore").decode() for text in texts]


# The same numbers as in Python.


@settings(max_examples=25)
@given(st.lists(odd_text, min_size=1, max_size=4), st.lists(odd_text, min_size=4, max_size=4), st.integers(0, 3))
@example(["", "\x00", "un"], ["", "\u00ad", "", ""], 0)
def test_odd_texts_and_pairs(odd_layers, firsts, seconds, number):
    layer = odd_layers[number]
    firsts, seconds = as_texts(firsts), as_texts(seconds[: len(firsts)])
    arguments = layer.sequence_length, layer.pad_to_longest
    equal(layer(firsts), layer.tokenizer(firsts, *arguments))
    equal(layer((firsts, seconds)), layer.tokenizer((firsts, seconds), *arguments))


@pytest.mark.parametrize("arguments", LENGTHS)
def test_input_pipelines(letters_tokenizer, arguments):
    layer = TokenizerLayer(letters_tokenizer, *arguments)
    texts = tf.data.Dataset.from_tensor_slices(TEXTS)
    batches = texts.batch(3).map(layer)
    equal(next(iter(batches)), letters_tokenizer(TEXTS, *arguments))
    is_fixed = arguments == (7, False)
    width = 7 if is_fixed else None
    assert batches.element_spec == {name: tf.TensorSpec([None, width], tf.int32) for name in NAMES}
    if is_fixed:
        equal(next(iter(texts.map(layer).batch(3))), letters_tokenizer(TEXTS, *arguments))
    single = layer("ab, c")
    equal(single, {name: values[0] for name, values in letters_tokenizer("ab, c", *arguments).items()})


def test_an_input_pipeline_of_pairs(layer):
    pairs = tf.data.Dataset.from_tensor_slices((TEXTS, TEXTS[::-1], [0, 1, 2])).batch(3)
    features, labels = next(iter(pairs.map(lambda first, second, label: (layer((first, second)), label))))
    equal(features, layer.tokenizer((TEXTS, TEXTS[::-1]), 7))
    assert labels.numpy().tolist() == [0, 1, 2]


# Models.


def text_input():
    return keras.Input(shape=(), dtype="string")


def test_a_saved_model_has_the_vocabulary(layer, tmp_path):
    keras.Model(texts := text_input(), layer(texts)).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    equal(loaded(tf.constant(TEXTS)), layer.tokenizer(TEXTS, 7))
    assert loaded.layers[-1].get_config() == layer.get_config()
    assert {name: tuple(output.shape) for name, output in loaded.output.items()} == dict.fromkeys(NAMES, (None, 7))


@pytest.mark.slow
def test_models_of_pairs_are_saved_cloned_pickled_and_exported(layer, tmp_path):
    first, second = text_input(), text_input()
    inputs = [tf.constant(TEXTS), tf.constant(TEXTS[::-1])]
    model = keras.Model([first, second], layer((first, second)))
    model.save(tmp_path / "model.keras")
    expected = layer.tokenizer((TEXTS, TEXTS[::-1]), 7)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded, keras.models.clone_model(model), pickle.loads(pickle.dumps(model))):
        equal(each(inputs), expected)
    equal(model.predict(tf.data.Dataset.from_tensors(tuple(inputs)).map(lambda *x: (x,)), verbose=0), expected)
    model.export(tmp_path / "export", verbose=False)
    equal(tf.saved_model.load(tmp_path / "export").serve(inputs), expected)


@pytest.mark.parametrize("casing", [(False, None), (True, False)])
def test_the_config_keeps_the_casing_and_the_length(casing):
    tokenizer = FullTokenizer(["[UNK]", "[CLS]", "[SEP]", "a", "e", "é", "A"], *casing)
    layer = TokenizerLayer(tokenizer, 9, pad_to_longest=True, name="words")
    again = TokenizerLayer.from_config(layer.get_config())
    assert (again.name, again.sequence_length, again.pad_to_longest) == ("words", 9, True)
    equal(again(["A é e a"]), tokenizer(["A é e a"]))


def test_a_sequential_model_takes_texts(layer):
    for model in (keras.Sequential([text_input(), layer]), keras.Sequential([layer])):
        equal(model(tf.constant(TEXTS)), layer.tokenizer(TEXTS, 7))


@pytest.mark.slow
def test_a_model_trains_on_texts(layer):
    texts = text_input()
    features = layer(texts)
    encoder = BertModel(make_config(vocab_size=57, max_position_embeddings=7))
    pooled = encoder(*(features[name] for name in NAMES))["pooled_output"]
    model = keras.Model(texts, keras.layers.Dense(1)(pooled))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    data = tf.data.Dataset.from_tensors((tf.constant(TEXTS), tf.constant([[0.0], [1.0], [0.0]])))
    losses = model.fit(data.repeat(8), epochs=2, verbose=0, shuffle=False).history["loss"]
    assert losses[1] < losses[0]


# Loading, and mistakes.


def test_the_tokenizer_of_a_model(tmp_path, letters_tokenizer):
    letters_tokenizer.save(tmp_path)
    layer = TokenizerLayer.from_checkpoint(tmp_path, 7, name="words")
    assert layer.name == "words"
    equal(layer(TEXTS), letters_tokenizer(TEXTS, 7))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([1, 2], '^the texts are of type int32 with 1 dimensions; give strings of shape .*Input.shape=.., dtype="str'),
        ([["a", "b"]], "^the texts are of type string with 2 dimensions; give strings of shape"),
        (
            (["a"], ["b", "c"]),
            r"^the first and the second texts have the shapes \(1,\) and \(2,\); give as many of",
        ),
        (("a", "b", "c"), "^there are 3 texts for each row; give one, or a tuple of two for pairs$"),
    ],
)
def test_inputs_that_are_not_texts(layer, texts, message):
    with pytest.raises(ValueError, match=message):
        layer(texts)


def test_arguments_that_are_refused(letters_tokenizer):
    with pytest.raises(ValueError, match=r"^the tokenizer is of type str; give a FullTokenizer, such as Full"):
        TokenizerLayer("vocab.txt")
    with pytest.raises(ValueError, match=r"^sequence_length is 4, but \[CLS\], \[SEP\] and a token of each text"):
        TokenizerLayer(letters_tokenizer, 4)
    with pytest.raises(ValueError, match=r"^the vocabulary lacks \[SEP\]; give that of the model$"):
        TokenizerLayer(FullTokenizer(["[UNK]", "[CLS]"]))
    with pytest.raises(ValueError, match=r"^the vocabulary lacks \[UNK\], the token for unknown words; add it$"):
        TokenizerLayer(FullTokenizer(["[SEP]", "[CLS]"]))


def test_without_tensorflow_text_the_package_is_named(letters_tokenizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "bert_keras.data_prep.text.graph.tokenization", None)
    with pytest.raises(ValueError, match="^tensorflow-text is not installed, which the layer needs; run pip install"):
        TokenizerLayer(letters_tokenizer)


# Other backends.

_ON_OTHER_BACKENDS = """
import keras, numpy as np, tensorflow as tf
from bert_keras import FullTokenizer, TokenizerLayer
tokenizer = FullTokenizer(["[UNK]", "[CLS]", "[SEP]", "a", "b"])
layer = TokenizerLayer(tokenizer, 6)
expected = tokenizer([("a", "b")] * 2, 6)
eager = layer((["a", "a"], ["b", "b"]))
data = tf.data.Dataset.from_tensors((["a", "a"], ["b", "b"])).map(lambda *texts: layer(texts))
for name, values in next(iter(data)).items():
    assert (values.numpy() == expected[name]).all()
    assert keras.ops.is_tensor(eager[name])
    assert (keras.ops.convert_to_numpy(eager[name]) == expected[name]).all()
model = keras.Sequential([keras.Input((6,), dtype="int32"), keras.layers.Embedding(5, 1), keras.layers.Flatten()])
assert model.predict(data.map(lambda features: features["input_ids"]), verbose=0).shape == (2, 6)
try:
    layer(keras.Input(shape=(), dtype="string"))
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_layer_in_pipelines_of_another_backend(backend):
    assert run_on(backend, "-c", _ON_OTHER_BACKENDS) == (
        f"the tokenizer is a TensorFlow graph, which cannot be a part of a model on {backend}; call the layer in the "
        "input pipeline: dataset.map(layer)\n"
    )
