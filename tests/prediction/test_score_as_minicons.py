"""Sentence scores equal those of minicons (PyTorch) on the same safetensors model."""

import numpy as np
import pytest
from converted import convert
from known_models import random_model, write_model

from bert_keras.prediction import SentenceScorer

TEXTS = ["he walkeds soing .", "paris is the capital of france , so", "walking", "a b c d e f g h i walking walked p"]


def write_safetensors(folder, **changes):
    """Writes a random model, converts it, and returns the folder of the result."""
    write_model(folder / "model", random_model(seed=3, hidden_act="gelu_erf", **changes))
    return convert(folder / "model", folder / "converted", head="masked_lm")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of PyTorch and transformers
@pytest.mark.parametrize("pll", ["original", "within_word_l2r"])
def test_scores_are_those_of_minicons(tmp_path, pll):
    scorer = pytest.importorskip("minicons.scorer", reason="needs minicons and PyTorch", exc_type=ImportError)
    folder = write_safetensors(tmp_path)
    theirs = scorer.MaskedLMScorer(str(folder), "cpu").token_score(TEXTS, PLL_metric=pll)
    check(theirs, SentenceScorer(folder, pll=pll)(TEXTS))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scores_from_left_to_right_are_those_of_minicons(tmp_path):
    scorer = pytest.importorskip("minicons.scorer", reason="needs minicons and PyTorch", exc_type=ImportError)
    folder = write_safetensors(tmp_path, is_decoder=True)
    # Its sequences begin with [CLS] and end with [SEP], the first without a score.
    theirs = [scores[1:-1] for scores in scorer.IncrementalLMScorer(str(folder), "cpu").token_score(TEXTS)]
    check(theirs, SentenceScorer(folder)(TEXTS))


def check(theirs, ours):
    for text, scores, answer in zip(TEXTS, theirs, ours, strict=True):
        assert [token for token, _ in scores] == [score.token for score in answer.tokens], text
        values = [score.log_probability for score in answer.tokens]
        np.testing.assert_allclose(values, [score for _, score in scores], atol=1e-4)
