"""Entities with their places in the text."""

import numpy as np
import pytest
from fine_tuned_models import OF_TAGS, TAGS, randomise, small_config, word_tagger, write_fine_tuned
from known_models import ids_of

from bert_keras.modeling import TokenClassifierModel, weights_by_name
from bert_keras.prediction import Entity, EntityTagger

pytestmark = pytest.mark.usefixtures("no_graphs")

TAGS_BY_WORD = {"paris": "B-LOC", "france": "B-LOC", "london": "I-LOC", "he": "B-PER", "walk": "I-PER"}


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return EntityTagger(
        write_fine_tuned(folder, word_tagger(TAGS_BY_WORD), "token_classification", labels=TAGS, **OF_TAGS)
    )


def test_entities_have_their_places_in_the_text(tagger):
    text = "He walks, so:\tParis  London-a (FRANCE)."
    answer = tagger(text)
    assert answer.text == text
    assert [(entity.text, entity.type, entity.start, entity.end) for entity in answer.entities] == [
        ("He walks", "PER", 0, 8),
        ("Paris  London-a", "LOC", 14, 29),
        ("FRANCE", "LOC", 31, 37),
    ]
    assert [(word.word, word.tag) for word in answer.words] == [
        *(("He", "B-PER"), ("walks", "I-PER"), (",", "O"), ("so", "O"), (":", "O"), ("Paris", "B-LOC")),
        *(("London-a", "I-LOC"), ("(", "O"), ("FRANCE", "B-LOC"), (")", "O"), (".", "O")),
    ]
    assert all(text[word.start : word.end] == word.word for word in answer.words)


def test_an_entity_has_the_lowest_probability_of_its_words(tmp_path):
    model = word_tagger(TAGS_BY_WORD)
    weight = weights_by_name(model)["output_weights"]
    weight.assign(weight * [[0.9 if tag == "I-PER" else 1.0] for tag in TAGS])
    tagger = EntityTagger(write_fine_tuned(tmp_path, model, "token_classification", labels=TAGS, **OF_TAGS))
    answer = tagger("he walk paris")
    shares = [word.probability for word in answer.words]
    assert shares[1] < shares[0]
    assert answer.entities[0] == Entity("he walk", "PER", 0, 7, shares[1])
    assert answer.entities[1].probability == shares[2]


def test_every_word_of_a_long_text_is_tagged_once(tagger, messages):
    text = "a b c d e f " * 6 + "paris " + "g h i " * 10 + "france"
    [answer, other] = tagger([text, "london"])
    assert [(entity.text, entity.start) for entity in answer.entities] == [("paris", 72), ("france", 138)]
    assert [word.word for word in answer.words] == text.split()
    assert [(entity.text, entity.type) for entity in other.entities] == [("london", "LOC")]
    assert messages[-1] == "texts longer than 16 tokens were read through windows: 1 of 2"


def test_probabilities_are_those_of_a_plain_call(tmp_path):
    model = randomise(TokenClassifierModel(small_config(num_hidden_layers=1), len(TAGS)), seed=3)
    folder = write_fine_tuned(tmp_path, model, "token_classification", labels=TAGS, **OF_TAGS)
    text = "he was hungry so she walks ."
    ids = np.array([ids_of("[CLS] he was hungry so she walk ##s . [SEP]")], np.int32)
    features = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    logits = np.asarray(model(features)["logits"], np.float64)[0, [1, 2, 3, 4, 5, 6, 8]]
    shares = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    answer = EntityTagger(folder)(text)
    assert [word.tag for word in answer.words] == [TAGS[number] for number in shares.argmax(axis=-1)]
    assert [word.probability for word in answer.words] == pytest.approx(shares.max(axis=-1).tolist(), abs=1e-5)
    assert len({round(word.probability, 3) for word in answer.words}) == 7
