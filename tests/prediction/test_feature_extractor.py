"""Text vectors, compared with BERT in plain NumPy and with another library's numbers."""

import numpy as np
import pytest
import tensorflow as tf
from known_models import ID, random_model, write_model
from reference_bert import ReferenceBert
from rounding import assert_close

from bert_keras.modeling import weights_by_name
from bert_keras.prediction import predictor
from bert_keras.prediction.arguments import EMBEDDINGS, parse_layers
from bert_keras.tasks.vectors.features import FeatureExtractor

pytestmark = pytest.mark.usefixtures("no_graphs")

TEXTS = ["he was hungry", ("so he ate .", "paris is"), "", "a b c d e f g h i j k l m n o p a b c d", "walks , he"]
TOKENS = [
    "[CLS] he was hungry [SEP]",
    "[CLS] so he ate . [SEP] paris is [SEP]",
    "[CLS] [SEP]",
    "[CLS] a b c d e f g h i j k l m n o p a b c d [SEP]",
    "[CLS] walk ##s , he [SEP]",
]


@pytest.fixture(scope="module")
def random(tmp_path_factory):
    model = random_model(seed=11)
    return model, write_model(tmp_path_factory.mktemp("random"), model)


@pytest.fixture(scope="module")
def extractor(random):
    """Extracts the last layer of up to 8 tokens."""
    return FeatureExtractor(random[1], [-1], max_seq_length=8, batch_size=2)


def reference(model, tokens):
    """Returns the embedding output and the output of every block for one unpadded sequence: float64 [1 + L][T, H]."""
    ids = np.array([[ID[token] for token in tokens.split()]])
    segment_ids = np.zeros_like(ids)
    segment_ids[0, tokens.split().index("[SEP]") + 1 :] = 1
    bert = ReferenceBert(
        model.config.num_hidden_layers, model.config.num_attention_heads, "gelu", weights_by_name(model)
    )
    embedded, layers, _ = bert.encode(ids, np.ones_like(ids), segment_ids)
    return [embedded[0], *(layer[0] for layer in layers)]


def test_every_layer_is_that_of_the_plain_network(random):
    model, folder = random
    extractor = FeatureExtractor(folder, [EMBEDDINGS, 0, 1, -1, -2], max_seq_length=32, batch_size=2)
    for features, tokens in zip(extractor(TEXTS), TOKENS, strict=True):
        assert features.tokens == tokens.split()
        embedded, first, second = reference(model, tokens)
        expected = np.stack([embedded, first, second, second, first], axis=1)
        assert features.values.dtype == np.float32
        assert_close(features.values, expected)
    assert np.abs(first - second).max() > 0.1


@pytest.mark.parametrize(
    ("pooling", "pool"), [("cls", lambda x: x[0]), ("mean", lambda x: x.mean(0)), ("max", lambda x: x.max(0))]
)
def test_pooling_ignores_padding(random, pooling, pool):
    model, folder = random
    extractor = FeatureExtractor(folder, [1, EMBEDDINGS], pooling, max_seq_length=32)
    for features, tokens in zip(extractor(TEXTS), TOKENS, strict=True):
        embedded, _, second = reference(model, tokens)
        assert_close(features.values, np.stack([pool(second), pool(embedded)]))


def test_groups_change_neither_values_nor_order(extractor, monkeypatch, messages):
    expected = extractor(TEXTS * 2)
    # The pair has 1 token too many, the letters 14.
    assert messages[-1] == "4 of 10 texts are longer than 8 tokens; tokens cut off their ends: 30"
    changes = [(extractor, "max_group_size", 1), (extractor, "max_group_size", 2000), (extractor, "is_prompt", True)]
    for owner, name, value in [*changes, (predictor, "_BATCHES_A_GROUP", 2)]:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            for features, other in zip(extractor(TEXTS * 2), expected, strict=True):
                assert features.tokens == other.tokens
                assert_close(features.values, other.values)


def test_progress_advances_before_vectors_are_yielded(extractor):
    told = []
    answers = extractor.pipe(["he", "was", "so"], advance=lambda: told.append(1))
    assert told == []
    next(answers)
    assert len(told) == 3
    assert len(list(answers)) == 2
    assert len(told) == 3


def test_long_texts_lose_their_ends_as_in_the_original(random, messages):
    extractor = FeatureExtractor(random[1], [-1], max_seq_length=9)
    letters = "a b c d e f g h i"
    expected = ["[CLS] a b c d e f g [SEP]", "[CLS] a b c d [SEP] k l [SEP]", "[CLS] a b c [SEP] a b c [SEP]"]
    for text, tokens in zip((letters, (letters, "k l"), (letters, letters)), expected, strict=True):
        assert extractor(text).tokens == tokens.split()
    assert messages[-3:] == [
        f"1 of 1 texts are longer than 9 tokens; tokens cut off their ends: {number}" for number in (2, 5, 12)
    ]


def test_a_strategy_computes_the_same(random):
    expected = FeatureExtractor(random[1], [-1], "mean", max_seq_length=32)(TEXTS)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    extractor = FeatureExtractor(random[1], [-1], "mean", max_seq_length=32, batch_size=2, strategy=strategy)
    for features, other in zip(extractor(TEXTS), expected, strict=True):
        # Other batch sizes change the summation order of products; values reach 3.
        assert_close(features.values, other.values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"layers": [2]},
            "^the model has no layer 2: its 2 layers are 0 to 1, or from the end -1 to -2; give these, or",
        ),
        ({"layers": [-1, -3]}, "^the model has no layer -3: its 2 layers"),
        ({"layers": []}, '^layers is empty; give at least one, such as -1 for the last layer, or "embeddings"$'),
        ({"layers": ["last"]}, "^the model has no layer last: its 2 layers"),
        ({"pooling": "sum"}, '^pooling is "sum", but must be one of none, cls, mean, max$'),
        ({"max_seq_length": 41}, "^max_seq_length is 41, but must be from 3 to the 40 tokens that the model takes$"),
        ({"max_seq_length": 2}, "^max_seq_length is 2, but must be from 3"),
    ],
)
def test_mistakes_in_arguments(random, options, message):
    with pytest.raises(ValueError, match=message):
        FeatureExtractor(random[1], **({"layers": [-1], "max_seq_length": 16} | options))


def test_layers_are_parsed_in_order():
    assert parse_layers("-1,-2,-3,-4") == [-1, -2, -3, -4]
    assert parse_layers(" 0, embeddings ,+1") == [0, "embeddings", 1]
    for text, entry in (("-1,,2", ""), ("first", "first"), ("1.0", "1.0")):
        with pytest.raises(ValueError, match=rf'^layers is "{text}", and "{entry}" is not a layer; give whole numbers'):
            parse_layers(text)


def test_real_weights_give_what_another_library_computes(shared_dir, minilm):
    golden = np.load(shared_dir("golden/minilm.npz"))
    extractor = FeatureExtractor(minilm, [EMBEDDINGS, *range(6), -1])
    rows = zip(golden["input_ids"], golden["segment_ids"], golden["input_mask"].sum(axis=1), strict=True)
    for number, (ids, segment_ids, length) in enumerate(rows):
        num_first = length - segment_ids.sum()
        tokens = extractor.tokenizer.convert_ids_to_tokens(ids[:length].tolist())
        features = extractor((" ".join(tokens[1 : num_first - 1]), " ".join(tokens[num_first:-1])))
        assert features.tokens == tokens
        np.testing.assert_allclose(features.values[:, 7], golden["sequence_output"][number, :length], atol=1e-4)
        np.testing.assert_array_equal(features.values[:, 6], features.values[:, 7])
        if number < 2:
            # Stored as float16, which keeps three digits.
            states = golden["hidden_states"][:, number, :length].astype(np.float32)
            np.testing.assert_allclose(features.values[:, :7].swapaxes(0, 1), states, atol=4e-3)


def test_the_default_length_is_lowered_to_that_of_the_model(random, messages):
    assert FeatureExtractor(random[1], [-1]).max_seq_length == 40
    assert "texts have at most 40 tokens, as many as the model takes" in messages
