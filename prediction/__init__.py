"""Questions to a model: text in, answers out. One class a task."""

from prediction.choice_picker import Choice, ChoicePicker
from prediction.entity_tagger import Entity, EntityTagger, TaggedText, TaggedWord
from prediction.feature_extractor import FeatureExtractor, Features
from prediction.fill_mask import FilledText, FillMask, Guess
from prediction.fine_tuned_tasks import open_model
from prediction.next_sentence import NextSentence, PairAnswer
from prediction.question_answerer import QuestionAnswer, QuestionAnswerer, Span
from prediction.score import SentenceScore, SentenceScorer, TokenScore
from prediction.text_classifier import Classification, MultiLabel, Regression, TextClassifier
from prediction.vectorizer import TextVector, Vectorizer

__all__ = [
    "Choice",
    "ChoicePicker",
    "Classification",
    "Entity",
    "EntityTagger",
    "FeatureExtractor",
    "Features",
    "FillMask",
    "FilledText",
    "Guess",
    "MultiLabel",
    "NextSentence",
    "PairAnswer",
    "QuestionAnswer",
    "QuestionAnswerer",
    "Regression",
    "SentenceScore",
    "SentenceScorer",
    "Span",
    "TaggedText",
    "TaggedWord",
    "TextClassifier",
    "TextVector",
    "TokenScore",
    "Vectorizer",
    "open_model",
]
