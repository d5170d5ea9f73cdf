"""Normalizes answers for comparison, like SQuAD's official scripts or by MLQA's rules for each language."""

import re
import string
import unicodedata

# The languages of MLQA.
LANGUAGES = ("ar", "de", "en", "es", "hi", "vi", "zh")

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ENGLISH_ARTICLES = re.compile(r"\b(a|an|the)\b")
# Hindi and Chinese have none. The Arabic article is part of a word; like MLQA's script, this removes it everywhere.
_ARTICLES = {
    "ar": re.compile("ال"),
    "de": re.compile(r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b"),
    "en": _ENGLISH_ARTICLES,
    "es": re.compile(r"\b(un|una|unos|unas|el|la|los|las)\b"),
    "vi": re.compile(r"\b(của|là|cái|chiếc|những)\b"),
}
_CHINESE_CHARACTER = re.compile("[\u4e00-\u9fa5]")
# Chinese, Japanese, Thai, Lao, Burmese and Khmer.
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


def normalize_answer(text, language=None):
    """Normalizes a text for comparison: lower case, without punctuation, articles and extra white space.

    Args:
        text: str.
        language: one of LANGUAGES for the rules of MLQA. They remove the punctuation of all scripts and the articles of
            the language, and separate Chinese characters. None: the rules of SQuAD's official scripts, with ASCII
            punctuation and English articles.

    Returns:
        str; the remaining words, separated by single spaces.
    """
    text = text.lower()
    if language is None:
        text = _ENGLISH_ARTICLES.sub(" ", text.translate(_PUNCTUATION))
        return " ".join(text.split())
    text = "".join(character for character in text if not _is_punctuation(character))
    if language in _ARTICLES:
        text = _ARTICLES[language].sub(" ", text)
    if language == "zh":
        text = _CHINESE_CHARACTER.sub(r" \g<0> ", text)
    return " ".join(text.split())


def are_without_spaces(texts):
    """Returns whether most letters of texts belong to scripts without spaces between words."""
    text = " ".join(texts)
    num_without = len(_WITHOUT_SPACES.findall(text))
    return num_without > sum(map(str.isalpha, _WITHOUT_SPACES.sub("", text)))


def _is_punctuation(character):
    return character in string.punctuation or unicodedata.category(character).startswith("P")
