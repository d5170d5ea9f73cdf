"""Each folder of sentence-transformers answers here as it does there, or is refused by a key."""

import numpy as np
import pytest
from foreign_folders import MODULES_CASES, ODD_MODULES, PAIRS, TEXTS, write_cross_encoder, write_modules

from bert_keras import open_model
from bert_keras.mistakes import Mistake

torch = pytest.importorskip("torch", reason="PyTorch, of the extra [peers], is not installed")
peer = pytest.importorskip("sentence_transformers", reason="sentence-transformers, of the extra [peers]")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("no_graphs")]

TOLERANCE = 1e-5
ACTIVATIONS = {
    None: None,
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
    "identity": "torch.nn.modules.linear.Identity",
}


@pytest.mark.parametrize("case", MODULES_CASES, ids=str)
def test_a_folder_gives_the_vectors_of_sentence_transformers(tmp_path, case):
    write_modules(tmp_path, case)
    refused_as = ODD_MODULES[case.odd][1]
    if refused_as:
        with pytest.raises(Mistake, match=refused_as):
            open_model(tmp_path)
        return
    found = np.array([answer.vector for answer in open_model(tmp_path)(list(TEXTS))])
    expected = peer.SentenceTransformer(str(tmp_path), device="cpu").encode(list(TEXTS))
    off = np.abs(found - expected).max(axis=1)
    assert off.max() < TOLERANCE, f"off by {off.max()} for {TEXTS[off.argmax()]!r}"


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("key", ["sentence_transformers", "sbert_ce_default_activation_function"])
def test_a_cross_encoder_scores_as_there(tmp_path, activation, key):
    value = ACTIVATIONS[activation]
    entry = {"activation_fn": value, "version": "5.0.0"} if key == "sentence_transformers" else value
    if activation is None and key != "sentence_transformers":
        entry = ACTIVATIONS["sigmoid"]
    write_cross_encoder(tmp_path, 1, **{key: entry})
    queries = [(first, [second, "walked"]) for first, second in PAIRS]
    expected = peer.CrossEncoder(str(tmp_path), device="cpu")
    for (query, texts), answer in zip(queries, open_model(tmp_path)(queries), strict=True):
        scores = dict(zip(texts, expected.predict([(query, text) for text in texts]).tolist(), strict=True))
        assert {each.text: each.score for each in answer.texts} == pytest.approx(scores, abs=TOLERANCE)


def test_a_cross_encoder_of_three_classes_classifies_pairs(tmp_path):
    write_cross_encoder(tmp_path, 3, sentence_transformers={"activation_fn": ACTIVATIONS["identity"]})
    logits = peer.CrossEncoder(str(tmp_path), device="cpu").predict(list(PAIRS))
    expected = torch.softmax(torch.tensor(logits), -1).numpy()
    found = [list(answer.probabilities.values()) for answer in open_model(tmp_path)(list(PAIRS))]
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)
