"""Splitting running text into words like those of tagged corpora."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data_prep.text.tokenization import BasicTokenizer
from bert_keras.data_prep.text.words import split_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EU rejects German call.", "EU|rejects|German|call|."),
        ("  He (John)\tsaid:\n“No!”", "He|(|John|)|said|:|“|No|!|”"),
        ("co-founded, AT&T O'Neill and/or a_b", "co-founded|,|AT&T|O'Neill|and/or|a_b"),
        ("Germany's chancellor’s son", "Germany|'s|chancellor|’s|son"),
        ("the boys' dogs 's", "the|boys|'|dogs|'s"),
        ("O's-x don't I'm we'VE", "O's-x|don't|I|'m|we|'VE"),
        ("'so' he said -- 'd'or...", "'|so|'|he|said|--|'|d'or|..."),
        ("U.S. and J. Smith. It", "U.S.|and|J.|Smith|.|It"),
        ("in the U.S.", "in|the|U.S."),
        ("10,000 1.5 12:30 1996-08-22 $5 6% 2-1.", "10,000|1.5|12:30|1996-08-22|$|5|6|%|2-1|."),
        ("Rome,Paris x:y --a-- -5", "Rome|,|Paris|x|:|y|--|a|--|-|5"),
        ("首都 Tokyo首", "首|都|Tokyo|首"),
        ("é\u0301t\xe9-Zoë", "é\u0301t\xe9-Zoë"),
        ("", ""),
        (" \n", ""),
    ],
)
def test_words_are_those_of_corpora(text, expected):
    assert "|".join(text[start:end] for start, end in split_words(text)) == expected


@given(st.text() | st.text("aS1 .,-':’首"))
def test_nothing_that_the_tokenizer_sees_is_lost_or_read_twice(text):
    spans = split_words(text)
    places = [place for start, end in spans for place in range(start, end)]
    assert places == sorted(set(places))
    kept = "".join(text[start:end] for start, end in spans)
    tokenizer = BasicTokenizer(do_lower_case=False)
    assert "".join(tokenizer.tokenize(kept)) == "".join(tokenizer.tokenize(text))
