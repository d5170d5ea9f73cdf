"""Sentence scores equal those of minicons (PyTorch) on the same safetensors model."""

import numpy as np
import pytest
from known_models import random_model, write_model

import convert_checkpoint
from bert_keras.prediction import SentenceScorer

TEXTS = ["he walkeds soing .", "paris is the capital of france , so", "walking", "a b c d e f g h i walking walked p"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of PyTorch and transformers
@pytest.mark.parametrize("pll", ["original", "within_word_l2r"])
def test_scores_are_those_of_minicons(tmp_path, pll):
    scorer = pytest.importorskip("minicons.scorer", reason="needs minicons and PyTorch", exc_type=ImportError)
    write_model(tmp_path / "model", random_model(seed=3, hidden_act="gelu_erf"))
    folder = tmp_path / "converted"
    flags = [f"--input={tmp_path / 'model'}", f"--output={folder}", "--format=safetensors"]
    convert_checkpoint.main(["convert_checkpoint.py", *flags])
    theirs = scorer.MaskedLMScorer(str(folder), "cpu").token_score(TEXTS, PLL_metric=pll)
    for text, scores, answer in zip(TEXTS, theirs, SentenceScorer(folder, pll=pll)(TEXTS), strict=True):
        assert [token for token, _ in scores] == [score.token for score in answer.tokens], text
        values = [score.log_probability for score in answer.tokens]
        np.testing.assert_allclose(values, [score for _, score in scores], atol=1e-4)
