"""Questions to a pre-trained model: text in, answers out. One class a task."""

from prediction.fill_mask import FilledText, FillMask, Guess
from prediction.next_sentence import NextSentence, PairAnswer
from prediction.score import SentenceScore, SentenceScorer, TokenScore

__all__ = [
    "FillMask",
    "FilledText",
    "Guess",
    "NextSentence",
    "PairAnswer",
    "SentenceScore",
    "SentenceScorer",
    "TokenScore",
]
