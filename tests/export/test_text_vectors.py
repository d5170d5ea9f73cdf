"""Text models of pre-trained models give the answers of the live models."""

import numpy as np
import pytest
from known_models import TOKENS, random_model, write_model

from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.graph.tokenization import GraphTokenizer
from bert_keras.export.graph.vectors import FillMaskModel, VectorModel
from bert_keras.prediction import FeatureExtractor, FillMask

LENGTH = 16


@pytest.fixture(scope="module")
def model():
    # Gives FillMask, whose limit is the number of positions, the same limit.
    return random_model(max_position_embeddings=LENGTH)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), model)


@pytest.fixture(scope="module")
def filler(model, tokenizer):
    """A text model that returns three guesses a mask."""
    settings = {"task": "fill_mask", "max_seq_length": LENGTH, "top_k": 3}
    return FillMaskModel(IdsNetwork(model, "fill_mask"), tokenizer, settings)


@pytest.mark.parametrize(("pooling", "layer"), [("cls", -1), ("mean", 0), ("max", "embeddings"), ("mean", -1)])
def test_vectors(model, folder, tokenizer, ask, texts, pooling, layer):
    live = FeatureExtractor(folder, layers=[layer], pooling=pooling, max_seq_length=LENGTH)
    settings = {"task": "vectors", "max_seq_length": LENGTH, "pooling": pooling, "layer": layer}
    text_model = VectorModel(IdsNetwork(model.bert, "vectors", layer=layer), tokenizer, settings)
    answers = ask(text_model, text=["", *texts])
    expected = [features.values[0] for features in live(["", *texts])]
    np.testing.assert_allclose(answers["vector"], expected, rtol=0, atol=1e-5)
    assert answers["is_cut"].tolist() == [False] * (len(texts) - 2) + [True, False, True]
    assert ask(text_model, text=[])["vector"].shape == (0, 16)


MASKED = [
    "Paris is the [MASK] of France.",
    "[MASK]",
    "[MASK][MASK] [MASK]",
    "un[MASK]s paris[MASK]",
    "  [MASK]\twalk[MASK]ing\n",
    "[[MASK]] [mask] [MASK",
    "\u0391\u03a3[MASK]\u03a3 e[MASK]\u0301",
    "[MASK] " * 14,
    "a" * 201 + "[MASK]" + "\u4e2d",
]


def test_masks_are_filled_as_by_the_live_model(folder, filler, ask):
    live = FillMask(folder, top_k=3)(MASKED)
    check_filled(ask(filler, text=MASKED), live)
    check_filled(ask(filler, text=MASKED[:1]), live[:1])
    assert len({guess.token for one in live for guesses in one.masks for guess in guesses}) > 3


def check_filled(answers, live):
    num_masks = [len(one.masks) for one in live]
    assert answers["num_masks"].tolist() == num_masks
    assert answers["tokens"].shape == answers["probabilities"].shape == (len(live), max(num_masks), 3)
    assert not answers["is_cut"].any()
    for row, one in enumerate(live):
        for number, guesses in enumerate(one.masks):
            assert [token.decode() for token in answers["tokens"][row, number]] == [guess.token for guess in guesses]
            expected = [guess.probability for guess in guesses]
            np.testing.assert_allclose(answers["probabilities"][row, number], expected, rtol=0, atol=1e-5)
        assert set(answers["tokens"][row, num_masks[row] :].flat) <= {b""}
        assert not answers["probabilities"][row, num_masks[row] :].any()


def test_masks_beyond_the_limit(folder, filler, ask):
    answers = ask(filler, text=["a " * 13 + "[MASK] [MASK]", "a " * 14 + "[MASK]", "[MASK]" + " a" * 14, "a [MASK]"])
    assert answers["num_masks"].tolist() == [1, 0, 1, 1]
    assert answers["is_cut"].tolist() == [True, True, True, False]
    live = FillMask(folder, top_k=3, long="truncate")("[MASK]" + " a" * 14)
    assert [token.decode() for token in answers["tokens"][2, 0]] == [guess.token for guess in live.masks[0]]


def test_a_mask_with_bytes_in_it_that_are_not_utf8(filler, ask):
    answers = ask(filler, text=[b"paris [MA\xffSK] is\xe2\x82", "paris [MASK] is"])
    assert answers["num_masks"].tolist() == [1, 1]
    np.testing.assert_allclose(*answers["probabilities"], rtol=0, atol=1e-6)


def test_no_masks_and_no_rows(filler, ask):
    answers = ask(filler, text=["paris", ""])
    assert (answers["num_masks"].tolist(), answers["tokens"].shape) == ([0, 0], (2, 0, 3))
    assert {value.shape[0] for value in ask(filler, text=[]).values()} == {0}


# Mistakes.


def test_settings_that_cannot_be(model, tokenizer, tmp_path):
    settings = {"max_seq_length": LENGTH, "pooling": "none", "top_k": 41}
    network = IdsNetwork(model, "fill_mask")
    with pytest.raises(ValueError, match='^pooling is "none", but must be one of cls, mean, max$'):
        VectorModel(network, tokenizer, settings)
    with pytest.raises(ValueError, match="^top_k is 41, but must be from 1 to the vocabulary's 40$"):
        FillMaskModel(network, tokenizer, settings)
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("".join(f"{token}\n" for token in TOKENS if token != "[MASK]"))
    with pytest.raises(ValueError, match=r"^the vocabulary lacks \[MASK\]; give that of a model that was pre-trained"):
        FillMaskModel(network, GraphTokenizer(vocab_file), {**settings, "top_k": 1}).answer({"text": ["a"]})
