"""The scores of a reranker, compared with the trained network and with sentence-transformers."""

import json
import shutil

import numpy as np
import pytest
import scipy.special
from converted import convert
from fine_tuned_models import random_classifier, write_fine_tuned
from known_models import ID
from rounding import flat

from bert_keras import Reranker, TextClassifier, open_model
from bert_keras.prediction import RankedText, Ranking

pytestmark = pytest.mark.usefixtures("no_graphs")

QUERY = "where is paris"
TEXTS = ["he was hungry so he ate .", "paris is the capital of france", "a", "paris is the capital " * 5]


@pytest.fixture(scope="module")
def model():
    return random_classifier(1, num_hidden_layers=1, seed=4)


@pytest.fixture(scope="module", params=["sigmoid", "identity"])
def run(request, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return write_fine_tuned(folder, model, "rerank", max_seq_length=16, activation=request.param)


@pytest.fixture(scope="module")
def converted(run, tmp_path_factory):
    return convert(run, tmp_path_factory.mktemp("converted") / "model")


@pytest.fixture
def of_peer(converted, tmp_path):
    """Return a function of changes to config.json that writes the model of another library; None removes a key."""

    def write(**config):
        folder = shutil.copytree(converted, tmp_path / "of_peer")
        (folder / "task.json").unlink()
        values = json.loads((folder / "config.json").read_text()) | config
        kept = {name: value for name, value in values.items() if value is not None}
        (folder / "config.json").write_text(json.dumps(kept))
        return folder

    return write


def scores_of(ranking):
    """Returns the scores in the order of the given texts."""
    return [each.score for each in sorted(ranking.texts, key=lambda text: text.index)]


def test_scores_are_those_of_the_trained_model(model, run, messages):
    rerank = open_model(run)
    rows = [["[CLS]", *QUERY.split(), "[SEP]", *text.split()[:10], "[SEP]"] for text in TEXTS]
    features = {name: np.zeros((len(rows), 16), np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    for number, row in enumerate(rows):
        features["input_ids"][number, : len(row)] = [ID.get(token, ID["[UNK]"]) for token in row]
        features["input_mask"][number, : len(row)] = 1
        features["segment_ids"][number, 5 : len(row)] = 1
    logits = np.asarray(model(features)["logits"], np.float64)[:, 0]
    messages.clear()
    found, raw = rerank(QUERY, TEXTS), rerank(QUERY, TEXTS, raw_scores=True)
    assert (
        messages
        == ["queries, each with its text, longer than the model takes (max_seq_length=16) lost their ends: 1"] * 2
    )
    is_sigmoid = rerank.settings["activation"] == "sigmoid"
    np.testing.assert_allclose(scores_of(found), scipy.special.expit(logits) if is_sigmoid else logits, atol=1e-6)
    np.testing.assert_allclose(scores_of(raw), logits, atol=1e-6)
    order = np.argsort(-logits)
    assert [each.index for each in found.texts] == [each.index for each in raw.texts] == order.tolist()
    assert [each.text for each in found.texts] == [TEXTS[index] for index in order]


def test_a_call_takes_one_query_or_several(run):
    rerank = Reranker(run)
    both = rerank([(QUERY, TEXTS), ("he", TEXTS[:1])])
    assert (
        flat(both)
        == flat([rerank(QUERY, TEXTS), rerank(("he", TEXTS[:1]))])
        == flat(list(rerank.pipe([(QUERY, TEXTS), ("he", TEXTS[:1])])))
    )
    assert scores_of(rerank(QUERY, ["a", "a", "a"])) == pytest.approx([both[0].texts[0].score] * 3, abs=1e-5)
    ranking = Ranking("who", [RankedText(1, "he", 0.5), RankedText(0, "it", -0.25)])
    assert ranking.readable() == "who\n  0.5000  he\n  -0.2500  it"


def test_a_reranker_is_not_a_classifier(model, run, tmp_path):
    with pytest.raises(
        ValueError, match="is a model for rerank, and TextClassifier is for classification, regression, "
    ):
        TextClassifier(run)
    regression = write_fine_tuned(tmp_path, model, "regression", max_seq_length=16, is_pair=True, doc_stride=None)
    with pytest.raises(ValueError, match="is a model for regression, and Reranker is for rerank; open it with"):
        Reranker(regression)


def test_the_activation_is_written_for_other_libraries(run, converted):
    config = json.loads((converted / "config.json").read_text())
    is_sigmoid = open_model(run).settings["activation"] == "sigmoid"
    assert config["problem_type"] == ("multi_label_classification" if is_sigmoid else "regression")
    class_ = "activation.Sigmoid" if is_sigmoid else "linear.Identity"
    assert config["sentence_transformers"] == {"activation_fn": f"torch.nn.modules.{class_}"}


SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"


@pytest.mark.parametrize(
    ("config", "facts", "activation"),
    [
        ({"sentence_transformers": {"activation_fn": IDENTITY, "version": "4.0.1"}}, {}, "identity"),
        ({"sentence_transformers": {"activation_fn": SIGMOID}}, {}, "sigmoid"),
        ({"sentence_transformers": {"version": "4.0.1"}}, {}, "sigmoid"),
        ({"sbert_ce_default_activation_function": IDENTITY}, {}, "identity"),
        ({}, {"task": "rerank"}, "sigmoid"),
    ],
)
def test_the_config_of_another_library_says_the_activation(run, of_peer, config, facts, activation):
    rerank = open_model(of_peer(**{"sentence_transformers": None, "problem_type": None} | config), **facts)
    assert rerank.settings == {"task": "rerank", "max_seq_length": 16, "activation": activation}
    raw = scores_of(Reranker(run)(QUERY, TEXTS, raw_scores=True))
    np.testing.assert_allclose(scores_of(rerank(QUERY, TEXTS, raw_scores=True)), raw, atol=1e-6)


@pytest.mark.parametrize(
    ("config", "facts", "message"),
    [
        (
            {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}},
            {},
            "config.json: the activation of the scores is torch.nn.modules.activation.Tanh, but must be one of torch",
        ),
        (
            {"sentence_transformers": {"activation_fn": ["Tanh"]}},
            {},
            "config.json: the activation of the scores is Tanh, but must be one of torch",
        ),
        (
            {"id2label": {"0": "a", "1": "b"}},
            {"task": "rerank"},
            "config.json has 2 labels, but a reranker has one score; take a model with one label",
        ),
        ({}, {"task": "rerank", "is_pair": True}, "is_pair is for classifiers, and .* is a reranker; leave it out"),
        ({"sentence_transformers": None, "problem_type": None}, {}, "or task=rerank for the score of a text for a"),
    ],
)
def test_a_config_of_another_library_that_is_not_a_reranker(of_peer, config, facts, message):
    with pytest.raises(ValueError, match=message):
        open_model(of_peer(**config), **facts)


@pytest.mark.slow  # loads PyTorch
def test_a_folder_that_sentence_transformers_saves(run, converted, tmp_path):
    peer = pytest.importorskip("sentence_transformers", reason="sentence-transformers, of the extra [peers]")
    peer.CrossEncoder(str(converted), device="cpu").save(str(tmp_path / "saved"))
    expected, found = (scores_of(open_model(folder)(QUERY, TEXTS)) for folder in (run, tmp_path / "saved"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.slow  # loads PyTorch
def test_sentence_transformers_opens_the_folder_and_agrees(run, converted):
    peer = pytest.importorskip("sentence_transformers", reason="sentence-transformers, of the extra [peers]")
    opened = peer.CrossEncoder(str(converted), device="cpu")
    found = open_model(run)(QUERY, TEXTS)
    expected = opened.predict([(QUERY, text) for text in TEXTS])
    np.testing.assert_allclose(scores_of(found), expected, rtol=0, atol=1e-5)
    assert [each.index for each in found.texts] == [each["corpus_id"] for each in opened.rank(QUERY, TEXTS)]
