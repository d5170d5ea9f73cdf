"""The weights of words, compared with BERT in plain NumPy."""

import dataclasses

import numpy as np
import pytest
from fine_tuned_models import (
    FINE_TUNED,
    OF_ANSWERS,
    OF_TAGS,
    OF_TEXTS,
    TAGS,
    logits_of,
    random_answerer,
    random_classifier,
    write_fine_tuned,
)
from known_models import ID
from reference_bert import softmax
from rounding import flat

from bert_keras.prediction import (
    Classification,
    EntityTagger,
    Limits,
    QuestionAnswerer,
    Regression,
    TextClassifier,
    WordWeight,
    open_model,
)
from bert_keras.tasks.finetuning import why

pytestmark = pytest.mark.usefixtures("no_graphs")

LABELS = ["sport", "world", "arts"]
LETTERS = list("abcdefghijklmnop")


@pytest.fixture(scope="module")
def model():
    return random_classifier(3, seed=4, num_hidden_layers=1)


@pytest.fixture
def open_as(tmp_path):
    """Return a function that opens a model for a task with changed settings."""

    def open_(model, task="classification", limits=None, **settings):
        labels = {} if task == "regression" else {"labels": LABELS}
        return TextClassifier(write_fine_tuned(tmp_path, model, task, **(OF_TEXTS | labels | settings)), limits=limits)

    return open_


def probabilities(model, *segments):
    return softmax(logits_of(model, *segments))


def weights(answer):
    return [word.weight for word in answer.words]


def near(values):
    return pytest.approx(list(map(float, values)), abs=1e-5)


def test_a_word_has_the_probability_that_goes_with_it(model, open_as):
    classify, text = open_as(model), "He  was\tHungry, WALKING!"
    answer = classify(text, why=True)
    whole = probabilities(model, "he was hungry , walk ##ing [UNK]")
    hidden = [
        *("[MASK] was hungry , walk ##ing [UNK]", "he [MASK] hungry , walk ##ing [UNK]"),
        *("he was [MASK] , walk ##ing [UNK]", "he was hungry [MASK] walk ##ing [UNK]"),
        *("he was hungry , [MASK] [MASK] [UNK]", "he was hungry , walk ##ing [MASK]"),
    ]
    best = whole.argmax()
    assert [word.word for word in answer.words] == ["He", "was", "Hungry", ",", "WALKING", "!"]
    assert [text[word.start : word.end] for word in answer.words] == [word.word for word in answer.words]
    assert {word.field for word in answer.words} == {"text"}
    assert weights(answer) == near(whole[best] - probabilities(model, each)[best] for each in hidden)
    assert max(map(abs, weights(answer))) > 0.01
    # The answer is otherwise the same, and the weights do not depend on the options and the company of a text.
    assert flat(dataclasses.replace(answer, words=None)) == flat(classify(text))
    assert classify(text).words is None
    several = classify([text, "paris", text], why=True, top_k=1, batch_size=2)
    assert flat(several[0].words) == flat(several[2].words) == flat(answer.words)
    assert len(several[1].words) == 1


def test_words_of_a_pair_tell_their_text(model, open_as):
    classify = open_as(model, is_pair=True)
    answer = classify(("he was", "so he"), why=True)
    assert [(word.word, word.field, word.start) for word in answer.words] == [
        *(("he", "text", 0), ("was", "text", 3), ("so", "text_pair", 0), ("he", "text_pair", 3))
    ]
    whole, hidden = (
        probabilities(model, "he was", "so he"),
        [
            *(("[MASK] was", "so he"), ("he [MASK]", "so he")),
            *(("he was", "[MASK] he"), ("he was", "so [MASK]")),
        ],
    )
    best = whole.argmax()
    assert weights(answer) == near(whole[best] - probabilities(model, *each)[best] for each in hidden)
    assert [word.field for word in classify(("he was", ""), why=True).words] == ["text", "text"]


def test_words_that_the_model_does_not_read_have_no_weight(model, open_as):
    """Of 16 tokens, 14 are of the text; of the last word, the model reads the first of two word pieces."""
    text = " ".join([*LETTERS[:13], "walking", *LETTERS])
    answer = open_as(model)(text, why=True)
    assert [word.word for word in answer.words] == [*LETTERS[:13], "walking"]
    read = [*LETTERS[:13], "walk"]
    whole = probabilities(model, " ".join(read))
    without_last = probabilities(model, " ".join([*LETTERS[:13], "[MASK]"]))
    assert weights(answer)[-1:] == near([whole.max() - without_last[whole.argmax()]])
    pair = open_as(model, is_pair=True)((text, text), why=True)
    assert [word.word for word in pair.words] == [*LETTERS[:7], *LETTERS[:6]]


def test_windows_without_a_word_keep_their_score(open_as):
    regressor = random_classifier(1, seed=9, num_hidden_layers=1)
    tokens = LETTERS + LETTERS
    answer = open_as(regressor, "regression", doc_stride=5)(" ".join(tokens), why=True)

    def value(tokens):
        windows = [" ".join(tokens[start : start + 14]) for start in (0, 5, 10, 15, 20)]
        return np.mean([logits_of(regressor, window)[0] for window in windows])

    assert answer.value == pytest.approx(value(tokens), abs=1e-5)
    hidden = [value([*tokens[:place], "[MASK]", *tokens[place + 1 :]]) for place in range(32)]
    assert weights(answer) == near(value(tokens) - hidden)


def test_of_several_labels_the_most_probable_has_weights(model, open_as):
    answer = open_as(model, "multi_label")("he was", why=True, threshold=0.9)
    whole, *hidden = (1 / (1 + np.exp(-logits_of(model, text))) for text in ("he was", "[MASK] was", "he [MASK]"))
    assert weights(answer) == near(whole.max() - each[whole.argmax()] for each in hidden)


def test_a_text_has_a_limit_of_words(model, open_as):
    classify = open_as(model, limits=Limits(max_sequences=4))
    assert len(classify("he was so", why=True).words) == 3
    message = (
        "^text 1 has 5 sequences for its words, each hidden once, but max_sequences is 4; make it shorter, or raise "
        "max_sequences$"
    )
    with pytest.raises(ValueError, match=message):
        classify("he was so a", why=True)
    with pytest.raises(ValueError, match="^why is 'no', but must be true, false or \"gradients\"$"):
        classify("he", why="no")


@pytest.mark.parametrize(
    ("num_layers", "settings", "text", "segments"),
    [
        (1, {}, "He was walking.", ["he was walk ##ing ."]),
        (3, {"is_pair": True}, ("he was", "So he ate"), ["he was", "so he ate"]),
        (2, {"doc_stride": 5}, " ".join(LETTERS), [" ".join(LETTERS[:14]), " ".join(LETTERS[5:])]),
    ],
)
def test_gradients_add_up_to_the_difference_of_the_logit(open_as, num_layers, settings, text, segments):
    """From [MASK] for every token to the text; the logit is the mean of the windows."""
    model = random_classifier(3, seed=4, num_hidden_layers=num_layers)
    classify = open_as(model, **settings)
    answer = classify(text, why="gradients")
    assert [(word.word, word.start, word.field) for word in answer.words] == [
        (word.word, word.start, word.field) for word in classify(text, why=True).words
    ]
    label, rows = (
        LABELS.index(answer.label),
        [[segment] for segment in segments] if "doc_stride" in settings else [segments],
    )

    def logit(rows):
        ids = [[ID["[CLS]"], *(ID[token] for part in row for token in [*part.split(), "[SEP]"])] for row in rows]
        parts = [[0, *(number for number, part in enumerate(row) for _ in [*part.split(), ""])] for row in rows]
        outputs = [model([each], segment_ids=[part])["logits"] for each, part in zip(ids, parts, strict=True)]
        return np.mean([np.asarray(output)[0, label] for output in outputs])

    masked = [[" ".join(["[MASK]"] * len(part.split())) for part in row] for row in rows]
    difference = logit(rows) - logit(masked)
    assert abs(difference) > 0.01
    assert sum(weights(answer)) == pytest.approx(difference, rel=0.02)
    assert flat(dataclasses.replace(answer, words=None)) == flat(classify(text))


def test_points_double_until_the_gradients_add_up(open_as, monkeypatch, messages):
    classify = open_as(random_classifier(3, seed=4, num_hidden_layers=2))
    expected = classify("he was hungry", why="gradients")
    monkeypatch.setattr(why, "_LARGEST_ERROR", 1e-3)
    monkeypatch.setattr(why, "_NUMS_OF_POINTS", (1, 32))
    assert flat(classify("he was hungry", why="gradients")) == flat(expected)
    assert not any("add up" in message for message in messages)
    monkeypatch.setattr(why, "_NUMS_OF_POINTS", (1,))
    assert flat(classify("he was hungry", why="gradients")) != flat(expected)
    assert messages[-1].startswith("the gradients of the words add up to ")


@pytest.mark.parametrize(
    ("text", "limit", "count"),
    [
        ("he was hungry", 33, 34),  # two ends of the line, and 32 points
        (" ".join(LETTERS), 67, 68),  # two windows
        (" ".join(LETTERS * 40), 1000, 4318),  # 127 windows
    ],
)
def test_gradients_have_the_same_limit_of_sequences(open_as, monkeypatch, text, limit, count):
    classify = open_as(
        random_classifier(3, seed=4, num_hidden_layers=1), doc_stride=5, limits=Limits(max_sequences=limit)
    )
    monkeypatch.setattr(classify.model.bert, "call", lambda *_: pytest.fail("it computes"))
    monkeypatch.setattr(classify.network, "answer_by_length", lambda *_: pytest.fail("it computes"))
    message = (
        f"^text 1 has {count:,} sequences for its gradients, but max_sequences is {limit:,}; make it shorter, or ra"
    )
    with pytest.raises(ValueError, match=message):
        classify(text, why="gradients")


def test_more_points_count_for_the_limit(open_as, monkeypatch):
    monkeypatch.setattr(why, "_LARGEST_ERROR", 0.0)
    monkeypatch.setattr(why, "_LEAST_ERROR", 0.0)
    model = random_classifier(3, seed=4, num_hidden_layers=1)
    message = "^text 1 has 98 sequences for its gradients, but max_sequences is 97"
    with pytest.raises(ValueError, match=message):
        open_as(model, limits=Limits(max_sequences=97))("he was hungry", why="gradients")
    monkeypatch.setattr(why, "_NUMS_OF_POINTS", (32, 64))
    assert len(open_as(model, limits=Limits(max_sequences=98))("he was hungry", why="gradients").words) == 3


def test_a_word_that_equals_the_mask_has_no_gradient(open_as):
    model = random_classifier(3, seed=4, num_hidden_layers=1)
    table = model.bert.embedding_table
    rows = np.array(table)
    rows[ID["was"]] = rows[ID["[MASK]"]]
    table.assign(rows)
    he, was, hungry = weights(open_as(model)("he was hungry", why="gradients"))
    assert (he != 0, was, hungry != 0) == (True, 0, True)


def sequence_of(*segments):
    """Returns the ids and the segments of a sequence of texts."""
    parts = [[*segment.split(), "[SEP]"] for segment in segments]
    ids = [ID["[CLS]"], *(ID[token] for part in parts for token in part)]
    return ids, [0, *(number for number, part in enumerate(parts) for _ in part)]


def span_logits(model, context):
    """Returns the start and the end logits of a window, as long as the sequence."""
    ids, segments = sequence_of("she", context)
    outputs = model([ids], segment_ids=[segments])
    return [np.asarray(outputs[name])[0] for name in ("start_logits", "end_logits")]


def test_a_word_of_a_context_moves_the_score_of_the_answer(tmp_path):
    model = random_answerer(seed=2, num_hidden_layers=1)
    settings = OF_ANSWERS | {"max_seq_length": 12, "doc_stride": 4, "answer_text": "offsets"}
    answer_ = QuestionAnswerer(write_fine_tuned(tmp_path, model, "question_answering", **settings))
    tokens = [*LETTERS[:6], "walk", "##ing", *LETTERS[6:12]]
    context = " ".join(tokens).replace(" ##", "")
    answer = answer_(("She", context), why=True)
    assert flat(dataclasses.replace(answer, words=None)) == flat(answer_(("She", context)))
    # Of the windows with 8 tokens of the context, the words are of the one with the answer.
    words = [word.word for word in answer.words]
    [window] = [tokens[start : start + 8] for start in (0, 4, 8) if tokens[start] == words[0]]
    assert words == " ".join(window).replace(" ##", "").split()
    assert {word.field for word in answer.words} == {"context"}
    assert all(context[word.start : word.end] == word.word for word in answer.words)
    first, *_, last = [3 + window.index(token) for token in (answer.text.split()[0], answer.text.split()[-1])]
    assert 1 < len(answer.text.split()) < 6

    def score(tokens):
        starts, ends = span_logits(model, " ".join(tokens))
        return starts[first] + ends[last]

    pieces = {"walking": ("walk", "##ing")}
    hidden = [["[MASK]" if token in pieces.get(word, word) else token for token in window] for word in words]
    assert weights(answer) == near(score(window) - score(each) for each in hidden)
    assert max(map(abs, weights(answer))) > 0.01


def test_no_answer_has_words_too(tmp_path):
    model = random_answerer(seed=2, num_hidden_layers=1)
    settings = OF_ANSWERS | {"version_2_with_negative": True}
    answer_ = QuestionAnswerer(write_fine_tuned(tmp_path, model, "question_answering", **settings))
    answer = answer_(("she", "he was hungry"), why=True, threshold=-100)
    assert answer.is_impossible
    score = sum(logits[0] for logits in span_logits(model, "he was hungry"))
    hidden = ("[MASK] was hungry", "he [MASK] hungry", "he was [MASK]")
    assert weights(answer) == near(score - sum(logits[0] for logits in span_logits(model, each)) for each in hidden)


def test_a_word_moves_the_probability_of_each_entity(tmp_path):
    """Of two windows, each word counts in the one with more context; a word is hidden in both."""
    model = FINE_TUNED["token_classification"][0]()
    settings = OF_TAGS | {"labels": TAGS, "max_seq_length": 8}
    tag = EntityTagger(write_fine_tuned(tmp_path, model, "token_classification", **settings))
    text = "He was walking so a b c"
    answer = tag(text, why=True)
    assert flat(dataclasses.replace(answer, entity_words=None)) == flat(tag(text))
    assert len(answer.entity_words) == len(answer.entities) >= 2

    def shares(tokens):
        """Returns the probabilities of the tags of each word, from windows of 6 tokens."""
        windows = [
            softmax(np.asarray(model([ids], segment_ids=[segments])["logits"])[0])
            for ids, segments in map(sequence_of, (" ".join(tokens[:6]), " ".join(tokens[2:])))
        ]
        # he was walk ##ing | so a b c: three words on the left count in the first window.
        places = [(0, 1), (0, 2), (0, 3), (1, 3), (1, 4), (1, 5), (1, 6)]
        return [windows[window][column] for window, column in places]

    tokens = ["he", "was", "walk", "##ing", "so", "a", "b", "c"]
    whole = shares(tokens)
    assert [word.probability for word in answer.words] == near(share.max() for share in whole)
    places = [[0], [1], [2, 3], [4], [5], [6], [7]]
    for entity, of_entity in zip(answer.entities, answer.entity_words, strict=True):
        assert [word.word for word in of_entity] == text.split()
        inside = [n for n, word in enumerate(answer.words) if entity.start <= word.start < entity.end]
        tags = [whole[n].argmax() for n in inside]
        expected = []
        for hidden in places:
            without = shares(["[MASK]" if n in hidden else token for n, token in enumerate(tokens)])
            expected.append(entity.probability - min(without[n][t] for n, t in zip(inside, tags, strict=True)))
        assert [word.weight for word in of_entity] == near(expected)
    assert tag(text, why=True, threshold=1.0).entity_words == []
    assert "  +" in answer.readable()


@pytest.mark.parametrize("task", ["question_answering", "token_classification"])
def test_only_classifiers_have_gradients(tmp_path, task):
    make, settings = FINE_TUNED[task]
    predictor = open_model(write_fine_tuned(tmp_path, make(), task, **settings))
    with pytest.raises(ValueError, match='^why is "gradients", which only classifiers have; give true$'):
        predictor.pipe([], why="gradients")
    with pytest.raises(ValueError, match="^why is 1, but must be true or false$"):
        predictor.pipe([], why=1)
    predictor.tokenizer.vocab.pop("[MASK]")
    with pytest.raises(ValueError, match=r"^why needs \[MASK\], which the vocabulary of this model does not have"):
        predictor.pipe([], why=True)


def test_readers_see_the_strongest_words():
    words = [
        WordWeight(f"w{number}", 0, 2, weight, "text") for number, weight in enumerate((0.1, -0.4, 0, 0.2, 0.3, 0.15))
    ]
    answer = Classification("text", None, "a", {"a": 1.0}, words)
    assert answer.readable().splitlines()[1:] == [
        *("  1.0000  a", "  +0.300  w4", "  +0.200  w3", "  +0.150  w5", "  +0.100  w0", "  -0.400  w1")
    ]
    assert Regression("text", None, 1234.5, [WordWeight("w", 0, 1, -120.25, "text")]).readable() == (
        "1234.5  text\n  -120  w"
    )
