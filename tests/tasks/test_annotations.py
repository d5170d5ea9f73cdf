"""Texts with spans, as annotation tools write them, become words and tags that fit exactly."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.tasks.tagging.annotations import UNITS, AnnotatedText, Span, find_unit, to_tags
from bert_keras.tasks.tagging.conll import read_conll
from bert_keras.tasks.tagging.entities import entities
from bert_keras.tasks.tagging.rows import tagged_rows

TEXT = "Anna Holm lives in Oslo."
TAGGED = (["Anna", "Holm", "lives", "in", "Oslo", "."], ["B-PER", "I-PER", "O", "O", "B-LOC", "O"])
SPANS = [(0, 9, "PER"), (19, 23, "LOC")]


@pytest.fixture
def read(write):
    def read_rows(*rows, name="train.jsonl", **options):
        content = rows[0] if isinstance(rows[0], list) else "\n".join(json.dumps(row) for row in rows)
        return read_conll(write(name, content if isinstance(content, str) else json.dumps(content)), **options)

    return read_rows


def of_label_studio(text, spans, **annotation):
    results = [
        {"id": "a", "type": "labels", "value": {"start": start, "end": end, "text": words, "labels": [label]}}
        for start, end, label, words in spans
    ]
    results += [{"type": "choices", "value": {"choices": ["good"]}}, {"type": "relation", "from_id": "a"}]
    return {"id": 7, "data": {"id": "x", "text": text}, "annotations": [{"result": results, **annotation}]}


WITH_TEXT = [(*span, TEXT[span[0] : span[1]]) for span in SPANS]
FORMS = {
    "doccano": {"id": 1, "text": TEXT, "label": SPANS},
    "older doccano": {"text": TEXT, "labels": SPANS, "meta": {}},
    "newer doccano": {
        "text": TEXT,
        "entities": [{"id": 3, "label": label, "start_offset": s, "end_offset": e} for s, e, label in SPANS],
        "relations": [],
        "Comments": [],
    },
    "Prodigy": {
        "text": TEXT,
        "tokens": [{"text": "Anna", "start": 0, "end": 4, "id": 0, "ws": True}],
        "spans": [{"start": s, "end": e, "token_start": 0, "token_end": 1, "label": label} for s, e, label in SPANS],
        "answer": "accept",
    },
    "Label Studio": of_label_studio(TEXT, WITH_TEXT),
    "Label Studio, old": {
        "data": {"review_text": TEXT},
        "completions": of_label_studio(TEXT, WITH_TEXT)["annotations"],
    },
    "Label Studio, short": {
        "text": TEXT,
        "label": [{"start": s, "end": e, "text": words, "labels": [label]} for s, e, label, words in WITH_TEXT],
    },
    "spaCy": {"text": TEXT, "entities": SPANS, "cats": {}},
    "any": {"sentence": TEXT, "ents": [{"begin": s, "end": e, "type": label} for s, e, label in SPANS]},
    "reversed": {"text": TEXT, "label": SPANS[::-1]},
    "with blanks": {"text": TEXT, "label": [[0, 10, "PER"], [18, 23, "LOC"]]},
    "twice": {"text": TEXT, "label": SPANS + SPANS},
    "words and spans": {
        "text": TEXT,
        "tokens": TEXT.split(),
        "spans": [{"start": 0, "end": 9, "label": "PER"}, SPANS[1]],
    },
}


@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_the_forms_of_the_tools(read, messages, form, is_list):
    row = FORMS[form]
    [sentence, other] = read([row, row]) if is_list else read(row, row)
    assert (sentence.words, sentence.tags) == (other.words, other.tags) == TAGGED
    assert other.place(1).endswith("train.jsonl line 1 object 2 word 2" if is_list else "train.jsonl line 2 word 2")
    assert "offsets count code points; texts are split into words as for prediction" in messages[0]


def test_words_are_cut_at_the_ends_of_spans(read, messages):
    [sentence] = read({"text": "Anti-EU pro-Oslonians 's", "label": [[5, 7, "ORG"], [12, 16, "LOC"], [16, 17, "X"]]})
    assert sentence.words == ["Anti-", "EU", "pro-", "Oslo", "n", "ians", "'s"]
    assert sentence.tags == ["O", "B-ORG", "O", "B-LOC", "B-X", "O", "O"]
    assert messages[0].endswith(
        "spans: 3, their offsets count code points; texts are split into words as for "
        "prediction, words that are cut where a span begins or ends: 2"
    )


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("has_text", [False, True])
def test_the_text_shows_what_offsets_count(read, messages, unit, has_text):
    text, start = "\U0001f600 \U0001f600 Anna met Bo \U0001f600 in Oslo", 4 if unit == "code points" else 6
    later = 21 if unit == "code points" else 24
    spans = [[0, 1 + (unit != "code points"), "X"], [start, start + 4, "PER"], [later, later + 4, "LOC"]]
    words = ["\U0001f600", "Anna", "Oslo"]
    if has_text:
        spans = [
            dict(zip(("start", "end", "label", "text"), (*s, w), strict=True))
            for s, w in zip(spans, words, strict=True)
        ]
    plain, sentence = read({"text": "Bo", "label": [[0, 2, "PER"]]}, {"text": text, "label": spans})
    assert [(sentence.words[a], kind) for kind, a, _ in entities(sentence.tags)] == [
        ("\U0001f600", "X"),
        ("Anna", "PER"),
        ("Oslo", "LOC"),
    ]
    assert f"offsets count {unit}" in messages[0]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        # In the text "😀 an ab", both readings are words, or none is.
        ([[3, 4, "X"]], r'\[3, 4, "X"\] could count code points or UTF-16 units'),
        ([{"start": 2, "end": 4, "label": "X", "text": "zz"}], "could count code points or UTF-16 units"),
        (
            [[2, 4, "X"], [6, 8, "X"]],
            r'fits if offsets count code points, but .*train.jsonl line 1, \[6, 8, "X"\] fits if they',
        ),
    ],
)
def test_unclear_offsets_are_an_error(read, spans, message):
    with pytest.raises(ValueError, match=message):
        read({"text": "\U0001f600 an ab", "label": spans})


@given(st.text(st.sampled_from("ab .-\u00e9\u4e2d\U0001f600"), min_size=1, max_size=20), st.data())
def test_tags_mark_exactly_the_spans(text, data):
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    spans = [
        Span(start, end, "X", text[start:end])
        for start, end in zip(places[::2], places[1::2], strict=False)
        if text[start:end].strip()
    ]
    in_units = [
        Span(*(len(text[:place].encode("utf-16-le")) // 2 for place in (s.start, s.end)), s.label, s.text)
        for s in spans
    ]
    for unit, of_unit in zip(UNITS, (spans, in_units), strict=True):
        words, tags, _ = to_tags(AnnotatedText("here", text, of_unit), unit)
        assert "".join(words) == "".join(text.split())
        found = ["".join(words[start:end]) for _, start, end in entities(tags)]
        assert found == ["".join(span.text.split()) for span in spans]
        annotated = AnnotatedText("here", text, of_unit)
        if any(annotated.range_of(s, UNITS[0]) != annotated.range_of(s, UNITS[1]) for s in of_unit):
            one_fits = [all(annotated.fits(s, other) for s in of_unit) for other in UNITS]
            assert sum(one_fits) == 2 or find_unit([annotated]) == unit


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": TEXT, "label": [[0, 9, "PER"], [5, 14, "X"]]}, 'the spans [0, 9, "PER"] and [5, 14, "X"] overlap'),
        ({"text": TEXT, "label": [[0, 9, "PER"], [0, 9, "ORG"]]}, "overlap; a word has one tag, so keep one span"),
        ({"text": TEXT, "label": [[0, 99, "PER"]]}, 'the span [0, 99, "PER"] does not fit its text of 24 code points'),
        ({"text": TEXT, "label": [[4, 5, "PER"]]}, 'the span [4, 5, "PER"] has no word; remove it'),
        ({"text": TEXT, "label": [[5, 5, "PER"]]}, "must begin at 0 or later and end after its start"),
        ({"text": TEXT, "label": [[-4, 5, "PER"]]}, "must begin at 0 or later"),
        ({"text": TEXT, "label": [[0, 4, 1]]}, 'a span of "label" is [0, 4, 1]; it needs [start, end, label]'),
        ({"text": TEXT, "label": [[0.0, 4, "X"]]}, "two whole numbers and one name"),
        ({"text": TEXT, "label": [[0, 4, " "]]}, "two whole numbers and one name"),
        ({"text": TEXT, "label": [[0, 4]]}, "it needs [start, end, label]"),
        ({"text": TEXT, "labels": ["pos"]}, 'a span of "labels" is "pos"; it needs [start, end, label]'),
        ({"text": TEXT, "label": "pos"}, 'has only words; add spans of its text, as in "label": [[0, 4, "PER"]]'),
        ({"text": TEXT}, "has only words; add spans of its text"),
        ({"text": TEXT, "spans": [[0, 4, "X"]], "label": [[0, 4, "Y"]]}, 'has spans in "spans" and "label"; keep one'),
        (of_label_studio(TEXT, [(0, 4, "PER", "Holm")]), 'has the text "Holm", but at its place is "Anna"'),
        ({"data": {"a": TEXT, "b": TEXT}, "annotations": []}, '"data" has no "text", but a, b; name the text so'),
        ({"data": {"text": "a"}, "annotations": 3}, '"annotations" is 3, but Label Studio writes a list of objects'),
        ({"data": {"text": "a"}, "annotations": [{"result": ["x"]}]}, '"result" is ["x"], but Label Studio writes'),
        ({"text": " ", "label": []}, "has no word in its text; give a text"),
        (
            {**FORMS["Label Studio"], "annotations": [{"result": []}, *FORMS["Label Studio"]["annotations"]]},
            "has 2 annotations with different spans; mark one of them as ground truth",
        ),
    ],
)
def test_mistakes(read, row, message):
    with pytest.raises(ValueError, match=re.escape("train.jsonl line 2") + ".*" + re.escape(message)):
        read({"text": "a", "label": []}, row)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"text": "b", "spans": [], "answer": "reject"}, "answer: reject"),
        ({"text": "b", "spans": [[0, 1, "X"]], "answer": "ignore"}, "answer: ignore"),
        (of_label_studio("b", [], was_cancelled=True), "was_cancelled"),
        ({"data": {"text": "b"}, "annotations": []}, "no annotation"),
        ({"data": {"text": "b"}}, "no annotation"),
    ],
)
def test_annotations_that_do_not_count(read, messages, row, reason):
    [sentence] = read(row, {"text": "Anna", "label": [[0, 4, "PER"]]})
    assert sentence.words == ["Anna"]
    assert messages[0].endswith(
        f"because their annotation does not count: 1 of 2; the first is {sentence.path} line 1 ({reason})"
    )
    with pytest.raises(ValueError, match=re.escape("has no annotation that counts, the first is")):
        read(row, row)
    assert [(one.words, one.tags) for one in read(row, needs_tags=False)] == [(["b"], None)]


def test_one_of_several_annotations_is_the_ground_truth(read):
    [first, other] = FORMS["Label Studio"]["annotations"] + [{"result": [], "ground_truth": False}]
    for annotations in (
        [first, first],
        [{**first, "ground_truth": True}, other],
        [first, {**other, "was_cancelled": True}],
    ):
        [sentence] = read({**FORMS["Label Studio"], "annotations": annotations})
        assert sentence.tags == TAGGED[1]


def test_predictions_keep_the_row_and_add_its_words(read, write):
    sentences = read(FORMS["doccano"], needs_tags=False)
    [row] = tagged_rows(sentences, [TAGGED[1]], [[1.0] * 6])
    assert row == {
        **json.loads(json.dumps(FORMS["doccano"])),
        "words": TAGGED[0],
        "tags": TAGGED[1],
        "predicted_tags": TAGGED[1],
        "confidences": [1.0] * 6,
    }
    # The predictions can be read again, with the right tags or the predicted ones.
    path = write("predictions.jsonl", json.dumps(row))
    for keys in (("predicted_tags",), ("tags",)):
        [again] = read_conll(path, tag_keys=keys)
        assert (again.words, again.tags) == TAGGED
