"""Questions and their windows, compared with the original BERT's features and with plain definitions."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_squad import (
    best_window_as_described,
    rows_as_described,
    span_as_described,
    windows_as_described,
    words_as_described,
)
from reference_tokenizer import odd_text, write_odd_vocab

from bert_keras.data_prep.tasks.squad import (
    Passage,
    PassagePieces,
    SquadExample,
    gold_span,
    make_examples,
    make_features,
    read_squad,
)
from bert_keras.data_prep.tasks.squad_files import unanswered_ids
from bert_keras.data_prep.tasks.squad_windows import max_context
from bert_keras.data_prep.text.tokenization import FullTokenizer


@pytest.mark.parametrize("name", ["predict_v1", "predict_v2", "train_v2"])
def test_features_are_those_of_the_release(shared_dir, name):
    folder = shared_dir(f"golden/squad/{name}")
    settings = json.loads((folder / "meta.json").read_text())
    is_training = settings["is_training"]
    tokenizer = FullTokenizer(shared_dir("data/vocab/uncased.txt"), settings["do_lower_case"])
    examples = read_squad(str(folder / "input.json"), is_training, settings["version_2_with_negative"])
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


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    vocab_file = write_odd_vocab(tmp_path_factory.mktemp("vocab") / "vocab.txt")
    with open(vocab_file, "a", encoding="utf-8") as file:
        file.write("[CLS]\n[SEP]\n")
    return FullTokenizer(vocab_file)


def example_of(context, answer=None, start=None, question="who?", **more):
    answers = [] if answer is None else [{"text": answer, "answer_start": start}]
    question = {"id": "q1", "question": question, "answers": answers, **more}
    articles = [{"paragraphs": [{"context": context, "qas": [question]}]}]
    return make_examples(articles, "train.json", answer is not None, False)[0]


def answer_words(*arguments):
    example = example_of(*arguments)
    return example.passage.words[example.start_position : example.end_position + 1]


@given(odd_text)
def test_words_are_parted_by_five_characters(text):
    passage = Passage(text)
    words, word_of_char = words_as_described(text)
    assert passage.words == words
    assert [passage.word_at(place) for place in range(len(text))] == word_of_char
    assert [text[start:].startswith(word) for start, word in zip(passage.word_starts, words, strict=True)] == [
        True
    ] * len(words)


def test_a_no_break_space_is_part_of_a_word_and_a_narrow_one_is_not():
    assert Passage("a\u00a0b\u202fc\u2003d\te").words == ["a\u00a0b", "c\u2003d", "e"]


def test_a_text_is_tokenized_as_its_words_are(tokenizer):
    @given(odd_text)
    def check(text):
        passage = Passage(text)
        pieces = PassagePieces(passage, tokenizer)
        tokens = [(token, word) for word, text in enumerate(passage.words) for token in tokenizer.tokenize(text)]
        assert tokenizer.convert_ids_to_tokens(pieces.ids.tolist()) == [token for token, _ in tokens]
        assert pieces.words.tolist() == [word for _, word in tokens]

    check()


@given(st.integers(0, 900), st.integers(1, 250), st.integers(1, 300))
def test_the_most_context_is_where_the_definition_says(num_pieces, room, doc_stride):
    windows = windows_as_described(num_pieces, room, doc_stride)
    best = max_context(*zip(*windows, strict=True), num_pieces) if windows else np.zeros(0)
    assert best.tolist() == [best_window_as_described(windows, piece) for piece in range(num_pieces)]


def test_of_windows_with_as_much_context_the_earliest_has_the_most():
    # Windows 0-3 and 2-5: tokens 2 and 3 have one token of context on one side in one window, none in the other.
    assert max_context([0, 2], [4, 4], 6).tolist() == [0, 0, 0, 1, 1, 1]
    # Windows 0-2 and 2-4: token 2 is at the edge of both.
    assert max_context([0, 2], [3, 3], 5).tolist() == [0, 0, 0, 1, 1]
    # A window that is 100 tokens shorter counts one token of context less.
    assert max_context([0, 50], [200, 100], 200)[[149, 99, 98]].tolist() == [0, 0, 0]


def test_windows_hold_what_their_definition_says(tokenizer):
    @given(st.lists(odd_text, max_size=8).map(" ".join), odd_text, st.integers(1, 12), st.integers(1, 20), st.data())
    def check(context, question, room, doc_stride, data):
        max_query_length = data.draw(st.integers(0, 5))
        lengths = (max_query_length + 3 + room, doc_stride, max_query_length)
        example = SquadExample("q1", question, Passage(context))
        rows, _, _ = rows_as_described(example, tokenizer, *lengths)
        features = make_features([example], tokenizer, *lengths, False)
        assert features["doc_start"].tolist() == [start for *_, start in rows]
        assert features["doc_span_index"].tolist() == list(range(len(rows)))
        for row, (tokens, words, has_context, _) in enumerate(rows):
            padding = [0] * (lengths[0] - len(tokens))
            first = tokens.index("[SEP]") + 1
            of_row = {name: values[row].tolist() for name, values in features.items()}
            assert of_row["input_ids"] == tokenizer.convert_tokens_to_ids(tokens) + padding
            assert of_row["input_mask"] == [1] * len(tokens) + padding
            assert of_row["segment_ids"] == [0] * first + [1] * (len(tokens) - first) + padding
            assert of_row["token_to_orig_map"] == words + [-1] * len(padding)
            assert of_row["token_is_max_context"] == list(map(int, has_context)) + padding

    check()


def test_answers_are_narrowed_down_as_their_definition_says(tokenizer):
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
        _, pieces, first_piece = rows_as_described(example, tokenizer, 20, 5, 3)
        expected = span_as_described(example, pieces, first_piece, tokenizer)
        assert gold_span(example, PassagePieces(passage, tokenizer), tokenizer) == expected

    check()


@pytest.mark.parametrize(
    ("context", "answer", "start", "pieces"),
    [
        ("born (1895-1943). so", "1895", 6, ["1895"]),
        ("was 5.5% of it", "5.5%", 4, ["5", ".", "5", "%"]),
        ("the co-founded one", "founded", 7, ["founded"]),
        ("a Japanese garden", "Japan", 2, ["japanese"]),
        ("one two three", "two three", 4, ["two", "three"]),
    ],
)
def test_answers_of_the_contract(shared_dir, context, answer, start, pieces):
    tokenizer = FullTokenizer(shared_dir("data/vocab/uncased.txt"))
    example = example_of(context, answer, start)
    of_passage = PassagePieces(example.passage, tokenizer)
    first, last = gold_span(example, of_passage, tokenizer)
    assert tokenizer.convert_ids_to_tokens(of_passage.ids[first : last + 1].tolist()) == pieces


def test_an_answer_is_its_words():
    assert answer_words("one two three", "two", 4) == ["two"]
    assert answer_words("one two three", "wo thr", 5) == ["two", "three"]
    assert answer_words("one two\nthree", "two\nthree", 4) == ["two", "three"]
    assert answer_words("one  two", " two", 4) == ["one", "two"]


# Training features.


def letters(number):
    return " ".join("abcdefghijklmnopqrstuvwxyz"[:number])


def training_features(letters_tokenizer, example, **changes):
    arguments = {"max_seq_length": 9, "doc_stride": 2, "max_query_length": 2, "is_training": True, **changes}
    return make_features([example], letters_tokenizer, **arguments)


def test_windows_without_the_whole_answer_are_kept_and_labelled_with_cls(letters_tokenizer, messages):
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


def test_there_must_be_room_for_the_passage(letters_tokenizer, tmp_path):
    example = SquadExample("q1", "x", Passage("a"))
    with pytest.raises(
        ValueError, match="--max_seq_length=5 leaves no room for a text after --max_query_length=2 question tokens"
    ):
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


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a file with the given content, for training or not, as SQuAD 2.0 or not."""

    def read_content(content, is_training=True, version_2_with_negative=False):
        path = tmp_path / "train.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return read_squad(str(path), is_training, version_2_with_negative)

    return read_content


def test_a_file_is_read_in_its_order_with_or_without_answers(read):
    content = squad(question(1), question(2, answers=[], is_impossible=True))
    assert [(example.question_id, example.start_position) for example in read(content, False)] == [
        ("q1", -1),
        ("q2", -1),
    ]
    first, second = read(
        squad(question(1, is_impossible=False), content["data"][0]["paragraphs"][0]["qas"][1]), True, True
    )
    assert (first.answer_text, first.start_position, first.end_position, first.is_impossible) == ("bb", 1, 1, False)
    assert (second.answer_text, second.start_position, second.end_position, second.is_impossible) == ("", -1, -1, True)
    assert first.passage is second.passage
    # Windows editors write a byte order mark.
    assert len(read(b"\xef\xbb\xbf" + json.dumps(content).encode(), False)) == 2


def test_answers_that_are_not_where_they_should_be_are_counted_and_left_out(read, messages):
    misplaced = [
        {"text": "bb", "answer_start": 6},
        {"text": "b\u00a0b", "answer_start": 3},
        {"text": "bb", "answer_start": -5},
        {"text": "bb", "answer_start": 7},
        {"text": "bb", "answer_start": 900},
        {"text": "xx", "answer_start": 0},
    ]
    questions = [question(number, answers=[answer]) for number, answer in enumerate(misplaced)]
    examples = read(squad(question(9), *questions))
    assert [example.question_id for example in examples] == ["q9"]
    assert messages[0].endswith(
        "train.json: 6 of 7 questions are left out, because their answer is not at its answer_start: "
        "q0, q1, q2, q3, q4, ..."
    )
    assert len(read(squad(question(9), *questions), False)) == 7
    assert len(messages) == 1
    with pytest.raises(ValueError, match=r"train.json: no answer is at its answer_start \(q0, q1, q2, q3, q4, "):
        read(squad(*questions))


def test_a_place_before_the_text_is_none_in_it(read):
    content = {"data": [{"paragraphs": [{"context": "bbb", "qas": [question(1, answers=[])]}]}]}
    content["data"][0]["paragraphs"][0]["qas"][0]["answers"] = [{"text": "bbb", "answer_start": -1}]
    with pytest.raises(ValueError, match="no answer is at its answer_start"):
        read(json.dumps(content).encode())


def test_an_id_that_is_there_twice_matters_where_answers_are_told_apart(read, messages):
    assert len(read(squad(question(1), question(1)))) == 2
    assert messages[0].endswith("train.json: 1 ids occur more than once; training uses all their questions")
    with pytest.raises(
        ValueError, match='train.json has more than one question with the id "q1", but predictions need'
    ):
        read(squad(question(1), question(1)), is_training=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" \n", "train.json is empty; give a file of SQuAD's JSON"),
        (b'{"data":\n [}', r"train.json line 2: not valid JSON \(Expecting value, column 3\)"),
        (b'{"data":\n\n"\xff"}', r"train.json line 3: not UTF-8 \(byte 0xff\); save it as UTF-8"),
        (b"[" * 100_000, "train.json: JSON is nested too deeply; give a file of SQuAD's JSON"),
        ([], 'train.json is JSON, but has no list "data" of articles; SQuAD is {"data": '),
        ({"data": {}}, 'train.json is JSON, but has no list "data" of articles; '),
        ({"data": []}, "train.json has no question; SQuAD is "),
        (squad(), "train.json has no question; SQuAD is "),
        ({"data": ["x"]}, 'train.json article 1 is "x" where an object with the key "paragraphs" is needed; '),
        ({"data": [{"title": "a"}]}, 'train.json article 1 lacks "paragraphs"; SQuAD is '),
        (
            squad(context=None),
            r'train.json article 1 \("Letters"\) paragraph 1 has null for "context", which must be text',
        ),
        (squad(qas=5), r'train.json article 1 \("Letters"\) paragraph 1 has 5 for "qas", which must be a list'),
        (squad(question(id=None)), r'article 1 \("Letters"\) paragraph 1 question 1 lacks "id"; SQuAD is '),
        (
            squad(question(id=True)),
            r'article 1 \("Letters"\) paragraph 1 question 1 has true for "id", which must be text',
        ),
        (squad(question(id=1.5)), r'paragraph 1 question 1 has 1.5 for "id", which must be text'),
        (squad(question(question=None)), 'train.json question "q1" lacks "question"; SQuAD is '),
        (squad(question(answers="bb")), 'train.json question "q1" has "bb" for "answers", which must be a list'),
        (squad(question(answers=["bb"])), 'question "q1", in its answers, is "bb" where an object with the key "text"'),
        (squad(question(answers=[{"text": "bb"}])), 'question "q1", in its answers, lacks "answer_start"; '),
        (
            squad(question(answers=[{"text": "bb", "answer_start": True}])),
            'in its answers, has true for "answer_start", which must be a whole number',
        ),
        (squad(question(is_impossible=1)), 'question "q1" has 1 for "is_impossible", which must be true or false'),
        (
            squad(question(answers=[{"text": " ", "answer_start": 2}])),
            'train.json question "q1" has an answer without text; give its text, or take the question out',
        ),
        (
            squad(question(answers=[])),
            'question "q1" has no answer; to train on it, give --version_2_with_negative for SQuAD 2.0, or take it out',
        ),
        (
            squad(question(is_impossible=True)),
            'question "q1" is marked is_impossible, as in SQuAD 2.0; give --version_2_with_negative',
        ),
        (
            squad(question(answers=[{"text": "bb", "answer_start": 3}] * 2)),
            'train.json question "q1" has 2 answers, but training needs exactly one; train on a training file',
        ),
    ],
)
def test_a_file_that_cannot_be_trained_on_is_refused(read, content, message):
    with pytest.raises(ValueError, match=message):
        read(content)


def test_a_file_of_the_second_version_says_what_has_no_answer(read):
    with pytest.raises(
        ValueError, match='question "q1" lacks "is_impossible", which every question of SQuAD 2.0 has; '
    ):
        read(squad(question(1)), True, True)
    with pytest.raises(
        ValueError, match='question "q1" has no answer; to train on it, set its "is_impossible" to true, or take it out'
    ):
        read(squad(question(1, answers=[], is_impossible=False)), True, True)


def test_a_file_must_be_there(tmp_path):
    with pytest.raises(
        FileNotFoundError, match='there is no file .*none.json"; check the path, and give a file of SQuAD' + "'s JSON"
    ):
        read_squad(str(tmp_path / "none.json"), True, False)
    with pytest.raises(ValueError, match="is a folder; give a file of SQuAD's JSON"):
        read_squad(str(tmp_path), True, False)


def test_which_questions_cannot_be_judged():
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
