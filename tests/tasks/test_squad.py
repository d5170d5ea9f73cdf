"""Questions and their windows, compared with the original BERT's features and with plain definitions."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_squad import (
    best_window_as_described,
    rows_as_described,
    span_as_described,
    windows_as_described,
    words_as_described,
)
from reference_tokenizer import odd_text

from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.tasks.question_answering.question_files import read_articles
from bert_keras.tasks.question_answering.squad import (
    Passage,
    PassageTokens,
    SquadExample,
    gold_span,
    make_features,
    max_context,
)
from bert_keras.tasks.question_answering.squad_files import make_examples, unanswered_ids


@pytest.mark.parametrize("name", ["predict_v1", "predict_v2", "train_v2"])
def test_features_equal_those_of_the_original(shared_dir, name):
    folder = shared_dir(f"golden/squad/{name}")
    settings = json.loads((folder / "meta.json").read_text())
    is_training = settings["is_training"]
    tokenizer = FullTokenizer(shared_dir("data/vocab/uncased.txt"), settings["do_lower_case"])
    path = str(folder / "input.json")
    examples = make_examples(read_articles(path), path, is_training, settings["version_2_with_negative"])
    assert len(examples) == settings["examples"]
    lengths = [settings[key] for key in ("max_seq_length", "doc_stride", "max_query_length")]
    features = make_features(examples, tokenizer, *lengths, is_training)
    names = {"start_position": "start_positions", "end_position": "end_positions"}
    with np.load(folder / "features.npz") as expected:
        assert len(expected["input_ids"]) == settings["features"]
        assert set(features) == {names.get(key, key) for key in expected} | {"doc_start"}
        for key in expected:
            ours = features[names.get(key, key)]
            np.testing.assert_array_equal(ours, expected[key], err_msg=key)
            assert ours.dtype == expected[key].dtype or key == "is_impossible"


def example_of(context, answer, start, question="who?"):
    answers = [{"text": answer, "answer_start": start}]
    question = {"id": "q1", "question": question, "answers": answers}
    return make_examples([{"paragraphs": [{"context": context, "qas": [question]}]}], "train.json", True, False)[0]


@given(odd_text)
def test_five_characters_separate_words(text):
    passage = Passage(text)
    words, word_of_char = words_as_described(text)
    assert passage.words == words
    assert [passage.word_at(place) for place in range(len(text))] == word_of_char
    assert all(text.startswith(word, start) for start, word in zip(passage.word_starts, words, strict=True))


def test_a_no_break_space_is_part_of_a_word_and_a_narrow_one_is_not():
    assert Passage("a\u00a0b\u202fc\u2003d\te").words == ["a\u00a0b", "c\u2003d", "e"]


def test_a_text_has_the_tokens_of_its_words(odd_tokenizer):
    @given(odd_text)
    def check(text):
        passage = Passage(text)
        pieces = PassageTokens(passage, odd_tokenizer)
        tokens = [(token, word) for word, text in enumerate(passage.words) for token in odd_tokenizer.tokenize(text)]
        assert odd_tokenizer.convert_ids_to_tokens(pieces.ids.tolist()) == [token for token, _ in tokens]
        assert pieces.words.tolist() == [word for _, word in tokens]

    check()


@settings(max_examples=40)
@given(st.integers(0, 900), st.integers(1, 250), st.integers(1, 300))
def test_the_most_context_follows_its_definition(num_pieces, room, doc_stride):
    windows = windows_as_described(num_pieces, room, doc_stride)
    best = max_context(*zip(*windows, strict=True), num_pieces) if windows else np.zeros(0)
    assert best.tolist() == [best_window_as_described(windows, piece) for piece in range(num_pieces)]


def test_windows_follow_their_definition(odd_tokenizer):
    @given(st.lists(odd_text, max_size=8).map(" ".join), odd_text, st.integers(1, 12), st.integers(1, 20), st.data())
    def check(context, question, room, doc_stride, data):
        max_query_length = data.draw(st.integers(0, 5))
        lengths = (max_query_length + 3 + room, doc_stride, max_query_length)
        example = SquadExample("q1", question, Passage(context))
        rows, _, _ = rows_as_described(example, odd_tokenizer, *lengths)
        features = make_features([example], odd_tokenizer, *lengths, False)
        assert features["doc_start"].tolist() == [start for *_, start in rows]
        assert features["doc_span_index"].tolist() == list(range(len(rows)))
        for row, (tokens, words, has_context, _) in enumerate(rows):
            padding = [0] * (lengths[0] - len(tokens))
            first = tokens.index("[SEP]") + 1
            of_row = {name: values[row].tolist() for name, values in features.items()}
            assert of_row["input_ids"] == odd_tokenizer.convert_tokens_to_ids(tokens) + padding
            assert of_row["input_mask"] == [1] * len(tokens) + padding
            assert of_row["segment_ids"] == [0] * first + [1] * (len(tokens) - first) + padding
            assert of_row["token_to_orig_map"] == words + [-1] * len(padding)
            assert of_row["token_is_max_context"] == list(map(int, has_context)) + padding

    check()


def test_spans_of_answers_follow_their_definition(odd_tokenizer):
    @given(st.lists(odd_text, min_size=1, max_size=5).map(" ".join), st.data())
    def check(context, data):
        passage = Passage(context)
        if not passage.words:
            return
        first = data.draw(st.integers(0, len(passage.words) - 1))
        last = data.draw(st.integers(first, len(passage.words) - 1))
        words = " ".join(passage.words[first : last + 1])
        start = data.draw(st.integers(0, len(words) - 1))
        answer = words[start : data.draw(st.integers(start + 1, len(words)))]
        example = SquadExample("q1", "", passage, answer, first, last)
        _, pieces, first_piece = rows_as_described(example, odd_tokenizer, 20, 5, 3)
        expected = span_as_described(example, pieces, first_piece, odd_tokenizer)
        assert gold_span(example, PassageTokens(passage, odd_tokenizer), odd_tokenizer) == expected

    check()


@pytest.mark.parametrize(
    ("context", "answer", "start", "words"),
    [
        ("one two three", "wo thr", 5, ["two", "three"]),
        ("one two\nthree", "two\nthree", 4, ["two", "three"]),
        ("one  two", " two", 4, ["one", "two"]),
    ],
)
def test_the_words_of_an_answer(context, answer, start, words):
    example = example_of(context, answer, start)
    assert example.passage.words[example.start_position : example.end_position + 1] == words


# Training features.


def letters(number):
    return " ".join("abcdefghijklmnopqrstuvwxyz"[:number])


def training_features(letters_tokenizer, example):
    return make_features([example], letters_tokenizer, 9, doc_stride=2, max_query_length=2, is_training=True)


def test_windows_without_the_whole_answer_are_labelled_with_cls(letters_tokenizer, messages):
    # Questions of two tokens leave room for four: windows at 0, 2, 4 and 6 of ten tokens; the answer is 4 and 5.
    example = example_of(letters(10), "e f", 8, question="x y z")
    features = training_features(letters_tokenizer, example)
    assert features["doc_start"].tolist() == [0, 2, 4, 6]
    assert features["start_positions"].tolist() == [0, 6, 4, 0]
    assert features["end_positions"].tolist() == [0, 7, 5, 0]
    assert features["is_impossible"].tolist() == [0, 0, 0, 0]
    assert features["unique_ids"].tolist() == [1000000000, 1000000001, 1000000002, 1000000003]
    assert messages == [
        "1 questions in 4 windows of 9 tokens: 1 of the questions need more than one; 1 questions are cut to 2 tokens; "
        "2 windows do not contain the whole answer and are labelled with [CLS]"
    ]
    # The first window ends, and the third starts, within the answer 3 and 4.
    features = training_features(letters_tokenizer, example_of(letters(10), "d e", 6, question="x y z"))
    assert features["start_positions"].tolist() == [0, 5, 0, 0]
    assert features["end_positions"].tolist() == [0, 6, 0, 0]


def test_a_question_without_answer_is_labelled_with_cls(letters_tokenizer, messages):
    example = SquadExample("q1", "x", Passage(letters(3)), is_impossible=True)
    features = training_features(letters_tokenizer, example)
    assert features["start_positions"].tolist() == features["end_positions"].tolist() == [0]
    assert features["is_impossible"].tolist() == [1]
    assert messages == ["1 questions in 1 windows of 9 tokens: 0 of the questions need more than one"]


def test_a_context_without_words_has_no_window(letters_tokenizer, messages):
    examples = [SquadExample("q1", "x", Passage(" \n")), SquadExample("q2", "x", Passage("a"))]
    features = make_features(examples, letters_tokenizer, 9, 2, 2, False)
    assert features["example_index"].tolist() == [1]
    assert "1 questions have no window, because their text has no words" in messages[0]


def test_a_passage_is_tokenized_once_for_all_its_questions(letters_tokenizer, monkeypatch):
    seen = []
    tokenize = letters_tokenizer.tokenize_with_offsets
    monkeypatch.setattr(letters_tokenizer, "tokenize_with_offsets", lambda text: seen.append(text) or tokenize(text))
    passage = Passage(letters(5))
    examples = [SquadExample(str(number), "x", passage) for number in range(3)]
    make_features([*examples, SquadExample("3", "x", Passage("y"))], letters_tokenizer, 9, 2, 2, False)
    assert seen == [passage.text, "y"]


def test_mistakes(letters_tokenizer, tmp_path):
    example = SquadExample("q1", "x", Passage("a"))
    message = "max_seq_length=5 leaves no room for a text after a question of max_query_length=2 and 3"
    with pytest.raises(ValueError, match=message):
        make_features([example], letters_tokenizer, 5, 2, 2, False)
    (tmp_path / "vocab.txt").write_text("[UNK]\na\n")
    with pytest.raises(ValueError, match=r"the vocabulary lacks \[CLS\], \[SEP\]; give that of the model"):
        make_features([example], FullTokenizer(tmp_path / "vocab.txt"), 9, 2, 2, False)


# Files.


def question(number=1, **changes):
    question = {"id": f"q{number}", "question": "who?", "answers": [{"text": "bb", "answer_start": 3}], **changes}
    return {key: value for key, value in question.items() if value is not None}


def squad(*questions, **changes):
    paragraph = {"context": "aa bb cc", "qas": list(questions), **changes}
    return {"version": "1.1", "data": [{"title": "Letters", "paragraphs": [paragraph]}]}


def answered(text, start):
    return squad(question(answers=[{"text": text, "answer_start": start}]))


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a file with the given content, for training or not, as SQuAD 2.0 or not."""

    def read_content(content, is_training=True, version_2_with_negative=False):
        path = tmp_path / "train.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return make_examples(read_articles(str(path)), str(path), is_training, version_2_with_negative)

    return read_content


def test_a_file_with_and_without_answers(read):
    content = squad(question(1, is_impossible=False), question(2, answers=[], is_impossible=True))
    assert [(each.question_id, each.start_position) for each in read(content, False)] == [("q1", -1), ("q2", -1)]
    first, second = read(content, True, True)
    assert (first.answer_text, first.start_position, first.end_position, first.is_impossible) == ("bb", 1, 1, False)
    assert (second.answer_text, second.start_position, second.end_position, second.is_impossible) == ("", -1, -1, True)
    assert first.passage is second.passage


def test_misplaced_answers_are_left_out(read, messages):
    misplaced = [("bb", 6), ("b\u00a0b", 3), ("bb", -5), ("bb", 7), ("bb", 900), ("xx", 0), ("cc", -2)]
    questions = [
        question(number, answers=[{"text": text, "answer_start": start}])
        for number, (text, start) in enumerate(misplaced)
    ]
    assert [example.question_id for example in read(squad(question(9), *questions))] == ["q9"]
    assert messages[0].endswith(
        "train.json: 7 of 8 questions are left out, because their answer is not at its answer_start: "
        "q0, q1, q2, q3, q4, ..."
    )
    assert len(read(squad(question(9), *questions), False)) == 8
    assert len(messages) == 1
    with pytest.raises(ValueError, match=r"train.json: no answer is at its answer_start \(q0, q1, q2, q3, q4, "):
        read(squad(*questions))


def test_a_repeated_id(read, messages):
    assert len(read(squad(question(1), question(1)))) == 2
    assert messages[0].endswith("train.json has 1 repeated id; training uses all their questions")
    message = 'train.json has more than one question with the id "q1", but predictions need'
    with pytest.raises(ValueError, match=message):
        read(squad(question(1), question(1)), is_training=False)


PARAGRAPH = r'train.json article 1 \("Letters"\) paragraph 1'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" \n", "train.json is empty; give a file of questions, such as SQuAD's JSON"),
        ([], "train.json: the list of objects is empty; give a file of questions"),
        ({"data": {}}, "train.json line 1 is neither an article nor a question, but has data; SQuAD is "),
        ({"data": []}, "train.json: the list of objects is empty; give a file of questions"),
        (squad(), "train.json has no question; SQuAD is "),
        ({"data": ["x"]}, "train.json line 1 is neither an article nor a question, but has data; SQuAD is "),
        (
            {"data": [{"title": "a"}]},
            "train.json line 1 object 1 is neither an article nor a question, but has title; ",
        ),
        ({"data": [{"paragraphs": ["x"]}]}, 'paragraph 1 is "x" where an object with the key "context" is needed; '),
        (squad(context=None), PARAGRAPH + ' has null for "context", which must be text'),
        (squad(qas=5), PARAGRAPH + ' has 5 for "qas", which must be a list'),
        (squad(question(id=None)), PARAGRAPH + ' question 1 lacks "id"; SQuAD is '),
        (squad(question(id=True)), PARAGRAPH + ' question 1 has true for "id", which must be text'),
        (squad(question(id=1.5)), 'paragraph 1 question 1 has 1.5 for "id", which must be text'),
        (squad(question(question=None)), 'train.json question "q1" lacks "question"; SQuAD is '),
        (squad(question(answers=[5])), 'question "q1", in its answers, is 5 where an object with the key "text"'),
        (squad(question(answers=None, answer="cd")), 'train.json question "q1": the answer "cd" is not in the context'),
        (squad(question(answers=[{"answer_start": 3}])), 'question "q1", in its answers, lacks "text"; '),
        (answered("bb", True), 'in its answers, has true for "answer_start", which must be a whole number'),
        (squad(question(is_impossible=1)), 'question "q1" has 1 for "is_impossible", which must be true or false'),
        (answered("\u200b", 2), 'question "q1" has an answer without text; give its text, or take the question out'),
        (answered(" ", 2), 'question "q1" has an answer without text; give its text, or take the question out'),
        (
            squad(question(answers=[])),
            'question "q1" has no answer; to train on it, give version_2_with_negative for SQuAD 2.0, or take it out',
        ),
        (
            squad(question(is_impossible=True)),
            'question "q1" is marked is_impossible, as in SQuAD 2.0; give version_2_with_negative',
        ),
        (
            squad(question(answers=[{"text": "bb", "answer_start": 3}] * 2)),
            'train.json question "q1" has 2 answers, but training needs exactly one; train on a training file',
        ),
    ],
)
def test_mistakes_in_a_file(read, content, message):
    with pytest.raises(ValueError, match=message):
        read(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (question(1), '"q1" lacks "is_impossible", which every question of SQuAD 2.0 has; add it, or leave out'),
        (
            question(1, answers=[], is_impossible=False),
            'question "q1" has no answer; to train on it, set its "is_impossible" to true, or take it out',
        ),
    ],
)
def test_mistakes_in_a_file_of_version_2(read, content, message):
    with pytest.raises(ValueError, match=message):
        read(squad(content), True, True)


def test_questions_that_cannot_be_scored():
    questions = [
        question(1),
        question(2, answers=[]),
        question(3, answers=None),
        question(4, answers=None, is_impossible=True),
        question(5, answers=None, is_impossible=False),
    ]
    articles = squad(*questions)["data"]
    assert unanswered_ids(articles, version_2_with_negative=False) == ["q2", "q3", "q4", "q5"]
    assert unanswered_ids(articles, version_2_with_negative=True) == ["q3", "q5"]
