"""Features of tagged words: every word gets exactly one tag, from the window with the most context, for any length."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.tasks.tagging.conll import read_conll
from bert_keras.tasks.tagging.features import collect_tags, make_features, tags_from_logits

TAGS = ["O", "B-X", "I-X"]
UNK, CLS, SEP, A = 1, 2, 3, 5


def ids(letters):
    """Returns ids of the letters vocabulary; letters after the first of a word carry ##."""
    return [A + ord(letter) - ord("a") for letter in letters]


def more(letters):
    return [number + 26 for number in ids(letters)]


def tagged(*texts, documents=None):
    """Makes sentences whose tags are O, or B-X for words that begin with x."""
    return [
        Sentence(
            text.split(), ["B-X" if word[0] == "x" else "O" for word in text.split()], documents[i] if documents else 0
        )
        for i, text in enumerate(texts)
    ]


def one_hot(features, num_tags=3):
    return np.eye(num_tags, dtype=np.float32)[np.maximum(features["label_ids"], 0)]


def test_the_first_token_of_a_word_has_its_tag(letters_tokenizer):
    features = make_features(tagged("ab x cd"), TAGS, letters_tokenizer, 8)
    assert features["input_ids"].tolist() == [[CLS, *ids("a"), *more("b"), *ids("xc"), *more("d"), SEP, 0]]
    assert features["input_mask"].tolist() == [[1, 1, 1, 1, 1, 1, 1, 0]]
    assert features["segment_ids"].tolist() == [[0] * 8]
    assert features["label_ids"].tolist() == [[-1, 0, -1, 1, 0, -1, -1, -1]]
    assert features["word_index"].tolist() == [[-1, 0, -1, 1, 2, -1, -1, -1]]
    assert features["sentence_index"].tolist() == [0]
    assert {name: values.dtype.name for name, values in features.items()} == {
        "input_ids": "int32",
        "input_mask": "int8",
        "segment_ids": "int8",
        "label_ids": "int32",
        "word_index": "int32",
        "sentence_index": "int32",
    }


def test_a_word_without_tokens_is_unknown(letters_tokenizer):
    sentence = Sentence(["a", "\u200b\x00", "", "b"], ["O", "B-X", "O", "O"])
    features = make_features([sentence], TAGS, letters_tokenizer, 8)
    assert features["input_ids"][0, :6].tolist() == [CLS, *ids("a"), UNK, UNK, *ids("b"), SEP]
    assert features["label_ids"][0, :6].tolist() == [-1, 0, 1, 0, 0, -1]


def test_a_long_sentence_has_overlapping_windows(letters_tokenizer, messages):
    features = make_features(tagged("a b c d e f g h", "x"), TAGS, letters_tokenizer, 6)
    assert features["sentence_index"].tolist() == [0, 0, 0, 1]
    assert features["input_ids"][:3, 1:5].tolist() == [ids("abcd"), ids("cdef"), ids("efgh")]
    # c has one word on its left in the first window, none in the second; d has equal context in both.
    assert features["word_index"][:3, 1:5].tolist() == [[0, 1, 2, -1], [-1, 3, 4, -1], [-1, 5, 6, 7]]
    assert messages == ["1 of 2 sentences (50.0 %) are longer than 4 tokens and read in 3 overlapping windows"]


def test_windows_begin_and_end_between_words(letters_tokenizer):
    features = make_features(tagged("aaa bbb c d e"), TAGS, letters_tokenizer, 7)
    assert features["input_ids"].tolist() == [
        [CLS, *ids("a"), *more("aa"), SEP, 0, 0],
        [CLS, *ids("b"), *more("bb"), *ids("cd"), SEP],
        [CLS, *ids("cde"), SEP, 0, 0],
    ]
    assert [row[row >= 0].tolist() for row in features["word_index"]] == [[0], [1, 2], [3, 4]]


def test_a_word_longer_than_the_room_is_cut(letters_tokenizer, messages):
    features = make_features(tagged("a xbcdefg h"), TAGS, letters_tokenizer, 6)
    rows, columns = np.nonzero(features["label_ids"] == 1)
    assert features["input_ids"][rows[0], columns[0] :].tolist() == [*ids("x"), *more("bcd"), SEP]
    assert messages[-1] == '1 words have more than 4 tokens, for example "xbcdefg"; only the first 4 tokens are used'
    assert tags_from_logits(features, one_hot(features), tagged("a xbcdefg h"), TAGS)[0] == [["O", "B-X", "O"]]


def test_neighbouring_sentences_fill_the_room_on_both_sides(letters_tokenizer):
    sentences = tagged("a b c", "x", "d e", "f", documents=[0, 0, 0, 1])
    features = make_features(sentences, TAGS, letters_tokenizer, 7, document_context=True)
    # Five tokens: as many on the left as on the right, more on one side if the other side is shorter.
    assert features["input_ids"].tolist() == [
        [CLS, *ids("abcxd"), SEP],
        [CLS, *ids("bcxde"), SEP],
        [CLS, *ids("bcxde"), SEP],
        [CLS, *ids("f"), SEP, 0, 0, 0, 0],
    ]
    assert features["label_ids"].tolist() == [
        [-1, 0, 0, 0, -1, -1, -1],
        [-1, -1, -1, 1, -1, -1, -1],
        [-1, -1, -1, -1, 0, 0, -1],
        [-1, 0, -1, -1, -1, -1, -1],
    ]


def test_words_of_the_context_are_whole(letters_tokenizer):
    features = make_features(tagged("aa", "x", "bbb"), TAGS, letters_tokenizer, 6, document_context=True)
    # Only half of "aa" would fit on the left, so the right side gets its space.
    assert features["input_ids"].tolist() == [
        [CLS, *ids("a"), *more("a"), *ids("x"), SEP, 0],
        [CLS, *ids("x"), *ids("b"), *more("bb"), SEP],
        [CLS, *ids("x"), *ids("b"), *more("bb"), SEP],
    ]


def test_a_file_without_marks_is_one_document(letters_tokenizer, messages):
    make_features(tagged("a", "b"), TAGS, letters_tokenizer, 6, document_context=True)
    assert messages == ["all 2 sentences are treated as one document, because nothing marks the start of another"]


# The tokenizer is the same for all examples.
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.lists(st.text("abx", min_size=1, max_size=9), min_size=1, max_size=20), min_size=1, max_size=6),
    length=st.integers(3, 16),
    document_context=st.booleans(),
    data=st.data(),
)
def test_every_word_gets_back_its_own_tag(letters_tokenizer, texts, length, document_context, data):
    documents = sorted(data.draw(st.lists(st.integers(0, 2), min_size=len(texts), max_size=len(texts))))
    sentences = tagged(*map(" ".join, texts), documents=documents)
    features = make_features(sentences, TAGS, letters_tokenizer, length, document_context)
    predicted, _ = tags_from_logits(features, one_hot(features), sentences, TAGS)
    assert predicted == [sentence.tags for sentence in sentences]
    counted = features["word_index"] >= 0
    np.testing.assert_array_equal(features["label_ids"] >= 0, counted)
    pairs = np.stack([np.repeat(features["sentence_index"], counted.sum(1)), features["word_index"][counted]])
    assert len(np.unique(pairs, axis=1).T) == counted.sum() == sum(map(len, texts))
    # A scored word begins at its own position, and each row is complete.
    firsts = features["input_ids"][counted]
    np.testing.assert_array_equal(firsts, [ids(texts[text][word][0])[0] for text, word in pairs.T])
    lengths = features["input_mask"].sum(1)
    assert (features["input_ids"][np.arange(len(lengths)), lengths - 1] == SEP).all()
    assert (features["input_ids"][:, 0] == CLS).all()
    assert (counted.sum(1) > 0).all()


def test_confidences_are_probabilities_of_the_best_tag(letters_tokenizer):
    sentences = tagged("a x", "b")
    features = make_features(sentences, TAGS, letters_tokenizer, 5)
    logits = np.full((2, 5, 3), -100, np.float32)
    logits[0, 1] = np.log([0.5, 0.3, 0.2])
    logits[0, 2] = np.log([0.1, 0.2, 0.7])
    logits[1, 1] = [1000, 1000, -1000]
    tags, [first, second] = tags_from_logits(features, logits, sentences, TAGS)
    assert tags == [["O", "I-X"], ["O"]]
    assert first == pytest.approx([0.5, 0.7])
    assert second == pytest.approx([0.5])


def test_tags_to_learn():
    assert collect_tags([Sentence(["a", "b", "c"], ["I-Y", "O", "B-X"])]) == ["O", "B-X", "B-Y", "I-X", "I-Y"]
    assert collect_tags([Sentence(["a", "b"], ["B", "O"])]) == ["O", "B", "I"]
    assert collect_tags([Sentence(["a", "b"], ["B", "B-X"])]) == ["O", "B", "B-X", "I", "I-X"]
    with pytest.raises(ValueError, match=r"^train.txt has no entity: the tag of every word is O.*tag_column"):
        collect_tags([Sentence(["a"], ["O"], path="train.txt")])


def test_an_unknown_tag(letters_tokenizer, tmp_path):
    (tmp_path / "dev.txt").write_text("a O\n\nb B-X\nc B-Z\n")
    message = r'dev.txt line 4: the tag "B-Z" is not one of those of training \(O, B-X, I-X\); correct it, or train on'
    with pytest.raises(ValueError, match=message):
        make_features(read_conll(tmp_path / "dev.txt"), TAGS, letters_tokenizer, 8)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_not_finite(letters_tokenizer, tmp_path, value):
    (tmp_path / "dev.txt").write_text("a O\n\nb B-X\nc O\n")
    sentences = read_conll(tmp_path / "dev.txt")
    features = make_features(sentences, TAGS, letters_tokenizer, 5)
    logits = np.zeros((2, 5, 3), np.float32)
    logits[1, 2, 0] = value
    with pytest.raises(ValueError, match=r"dev.txt line 4: the model's scores are not finite; give a model whose"):
        tags_from_logits(features, logits, sentences, TAGS)


def test_a_length_without_room_is_refused(letters_tokenizer):
    with pytest.raises(ValueError, match=r"^max_seq_length is 2, but must be 3 or more: \[CLS\], a token and"):
        make_features(tagged("a"), TAGS, letters_tokenizer, 2)


def test_sentences_without_tags_have_no_labels(letters_tokenizer):
    features = make_features([Sentence(["a", "b"])], TAGS, letters_tokenizer, 5)
    assert features["label_ids"].tolist() == [[-1] * 5]
    assert features["word_index"].tolist() == [[-1, 0, 1, -1, -1]]


@pytest.mark.parametrize(("length", "document_context"), [(32, False), (128, True)])
def test_conll_2003_gets_back_its_tags(shared_dir, length, document_context):
    sentences = read_conll(shared_dir("data/conll2003") / "dev.txt")
    tokenizer = FullTokenizer(shared_dir("data/vocab") / "uncased.txt")
    tags = collect_tags(sentences)
    assert tags == ["O", "B-LOC", "B-MISC", "B-ORG", "B-PER", "I-LOC", "I-MISC", "I-ORG", "I-PER"]
    features = make_features(sentences, tags, tokenizer, length, document_context)
    assert (features["label_ids"] >= 0).sum() == sum(len(sentence.words) for sentence in sentences) == 51362
    predicted, _ = tags_from_logits(features, one_hot(features, len(tags)), sentences, tags)
    assert predicted == [sentence.tags for sentence in sentences]
    share = features["input_mask"].mean()
    assert share > 0.9 if document_context else share < 0.7


def test_types_that_look_or_sound_the_same(tmp_path, messages):
    file = tmp_path / "train.txt"
    file.write_text("a B-caf\u00e9\nb O\nc I-cafe\u0301\n", encoding="utf-8")
    message = (
        r'train.txt line 3: the type of entity "cafe\u0301" looks like "caf\u00e9" in .*train.txt line 1, but it is '
    )
    with pytest.raises(ValueError, match=message):
        collect_tags(read_conll(file))
    file.write_text("a B-PER\nb O\nc B-Per\n", encoding="utf-8")
    assert collect_tags(read_conll(file)) == ["O", "B-PER", "B-Per", "I-PER", "I-Per"]
    [message] = [message for message in messages if "different" in message]
    assert message.startswith(f'these are different types of entity: "PER" ({file} line 1), "Per" ({file} line 3); if')
