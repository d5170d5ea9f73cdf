"""Sentences of running text: abbreviations, initials, numbers, quotes, ellipses and the marks of other scripts."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data_prep.text import sentence_splitting
from bert_keras.data_prep.text.sentence_splitting import split_sentences

# "|" is where the rules are to split.
TEXTS = [
    "She left. | He stayed! | Why? | Nobody knew.",
    "Mr. Smith met Dr. A. B. Jones at 5 p.m. | They talked.",
    "The U.S. Senate met in the U.S. | It voted at 3.5 percent, i.e. Rep. Lee lost.",
    "Acme Inc. Chairman Lee spoke. | He left Acme Inc. | The rest stayed.",
    "See Fig. 3 and No. 7. | No. | It was Jan. 5, 2006. | In 2006. | Then it ended.",
    'He said: "Stop!" | "Why?" she asked. | "Go on." | (He did.) | Then he left.',
    "\u201eHalt!\u201c, rief er. | \u00bbWarum?\u00ab | Sie schwieg.",
    "Well... maybe not. | He waited... | Nothing came. | So it was\u2026 | Yes.",
    "1. Open it. | 2. Close it.",
    "Visit www.example.org or v1.2.3 today. | It costs $1.50.",
    "Yahoo! is a company. | It sells (among others) ads. | [Laughter.] | Good.",
    "Am 3. Oktober kam z. B. Dr. Klein. | Es war im 19. Jahrhundert. | Er kam um 8. | Sie ging usw. | Dann kam er.",
    # Without capitals.
    "mr smith said so. he left at once. | it was 3.5 percent. | why? | nobody knew.".replace("so. he", "so. | he"),
    # Arabic, Urdu, Hindi, Chinese, Japanese.
    "\u0645\u0631\u062d\u0628\u0627. | \u0643\u064a\u0641 \u062d\u0627\u0644\u0643\u061f | \u0628\u062e\u064a\u0631.",
    "\u06cc\u06c1 \u06a9\u062a\u0627\u0628 \u06c1\u06d2\u06d4 | \u06c1\u0627\u06ba\u06d4",
    "\u0918\u0930 \u0939\u0948\u0964 | \u0915\u094c\u0928? | \u0930\u093e\u092e \u0964 | \u0939\u093e\u0901\u0964",
    "\u4ed6\u8bf4\uff1a\u201c\u4f60\u597d\uff01\u201d|\u6211\u7b11\u4e86\u3002|\u771f\u7684\u5417\uff1f\uff01|\u662f\u3002",
    "\u300c\u306f\u3044\u3002\u300d|\u5f7c\u306f3.5\u4eba\u3002",
    # No mark ends a Thai sentence.
    "\u0e27\u0e31\u0e19\u0e19\u0e35\u0e49 \u0e2d\u0e32\u0e01\u0e32\u0e28\u0e14\u0e35",
]


@pytest.mark.parametrize("text", TEXTS)
def test_sentences(text):
    expected = [sentence.strip() for sentence in text.split("|")]
    joined = text.replace(" | ", " ").replace("|", "")
    assert list(split_sentences(joined)) == expected


@given(st.text(string.ascii_letters + " .!?\"')(\u3002\uff01\u0964\n\t0123456789", max_size=80))
def test_no_character_is_lost(text):
    sentences = list(split_sentences(text))
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


@given(st.text('.!\u3002\u300d)" a\u3000BM1-(', max_size=40))
def test_looking_at_each_run_of_marks_once_changes_nothing(text):
    every_start = re.sub(r"\(\?<!\[[^]]*\]\)", "", sentence_splitting._CANDIDATE.pattern)
    every_start = re.compile(every_start.replace("++", "+").replace("*+", "*"))
    with pytest.MonkeyPatch.context() as patch:
        sentences = list(split_sentences(text))
        patch.setattr(sentence_splitting, "_CANDIDATE", every_start)
        assert list(split_sentences(text)) == sentences


@pytest.mark.parametrize(
    ("text", "num_sentences"),
    [
        (".", 1),
        ("\u3002", 1),
        (".)", 1),
        ("Mr. ", 1),  # the words before each period would be read again
        ("(", 1),
        ("a. B.", 1),
        (". ", 1),
        ("A bc. ", 100_000),
    ],
)
def test_the_time_grows_with_the_length(text, num_sentences):
    """A time that grew with the square of the length would be minutes."""
    assert sum(1 for _ in split_sentences(text * 100_000)) == num_sentences
    assert list(split_sentences("\u3002" * 100_000 + "\u300d\u3002")) == ["\u3002" * 100_000 + "\u300d\u3002"]
