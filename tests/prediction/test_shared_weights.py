"""Several predictors of one checkpoint share its weights."""

import numpy as np
import pytest
from known_models import random_model, randomise, small_config, write_model

from bert_keras.modeling import ReplacedTokenModel, weights_by_name
from bert_keras.prediction import FeatureExtractor, FillMask, NextSentence, ReplacedTokenFinder, SentenceScorer

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("models") / "bert", random_model(num_hidden_layers=1))


def test_predictors_that_share_weights_answer_as_if_they_were_alone(folder):
    fill = FillMask(folder)
    follow, score = NextSentence(folder, model=fill.model), SentenceScorer(folder, model=fill.model)
    extract = FeatureExtractor(folder, layers=[0, -1], max_seq_length=None, model=fill.model)
    assert follow.model is score.model is fill.model
    shared = {id(weight) for weight in weights_by_name(fill.model).values()}
    assert {id(weight) for weight in weights_by_name(extract.model).values()} < shared
    pair, text = ("he was hungry", "so he ate"), "paris is the [MASK]"
    assert follow(pair).probability == pytest.approx(NextSentence(folder)(pair).probability, rel=1e-5)
    assert score(pair[0]).log_probability == pytest.approx(SentenceScorer(folder)(pair[0]).log_probability, rel=1e-5)
    values = FeatureExtractor(folder, layers=[0, -1], max_seq_length=None)(text).values
    np.testing.assert_allclose(extract(text).values, values, rtol=1e-5, atol=1e-5)
    assert fill(text).best == FillMask(folder)(text).best


def test_vectors_share_the_weights_of_a_discriminator(tmp_path):
    discriminator = randomise(ReplacedTokenModel(small_config(num_hidden_layers=1)))
    folder = write_model(tmp_path / "electra", discriminator)
    find = ReplacedTokenFinder(folder)
    extract = FeatureExtractor(folder, max_seq_length=None, model=find.model)
    assert extract.model is find.model.bert
    values = FeatureExtractor(folder, max_seq_length=None)("he was hungry").values
    np.testing.assert_allclose(extract("he was hungry").values, values, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="^model can only be shared among predictors of a checkpoint of pre-training"):
        FillMask(folder, model=find.model)


def test_weights_of_another_model_cannot_be_shared(folder, tmp_path):
    other = FillMask(write_model(tmp_path / "other", random_model(num_hidden_layers=2)))
    with pytest.raises(ValueError, match="^model has another config than .*; share one of the same checkpoint$"):
        NextSentence(folder, model=other.model)
    with pytest.raises(ValueError, match="^model can only be shared among predictors of a checkpoint of pre-training"):
        FeatureExtractor(folder, model=FeatureExtractor(folder, max_seq_length=None).model)
