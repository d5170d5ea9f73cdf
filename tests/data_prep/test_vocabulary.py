"""Words of a domain replace unused entries, and all other tokens keep their ids."""

import pytest

from bert_keras.data_prep.text.tokenization import FullTokenizer, load_vocab
from bert_keras.data_prep.text.vocabulary import AddedWord, extend_vocabulary, read_words

PIECES = ["[PAD]", "[unused0]", "[UNK]", "heart", "##y", "angio", "##gram"]
PIECES += ["##gr", "##am", "[unused1]", "Ab", "é", "the"]


@pytest.fixture
def files(tmp_path):
    """Return a function of words (and tokens) that writes both files and returns their paths."""

    def write(words, pieces=PIECES):
        vocab_file, words_file = tmp_path / "vocab.txt", tmp_path / "words.txt"
        vocab_file.write_text("\n".join(pieces) + "\n", encoding="utf-8")
        words_file.write_bytes(words if isinstance(words, bytes) else words.encode())
        return vocab_file, words_file

    return write


def test_words_go_into_unused_places_first_and_then_to_the_end(files):
    extended = extend_vocabulary(*files("angiogram\nhearty\nzebra\nangioy\n"), do_lower_case=True)
    assert extended.added == [
        AddedWord("angiogram", 1, "[unused0]", (5, 6)),
        AddedWord("hearty", 9, "[unused1]", (3, 4)),
        AddedWord("zebra", 13, None, (2,)),  # none of its tokens are known
        AddedWord("angioy", 14, None, (5, 4)),
    ]
    expected = PIECES + ["zebra", "angioy"]
    expected[1], expected[9] = "angiogram", "hearty"
    assert extended.tokens == expected
    assert extended.present == []


def test_the_tokenizer_finds_every_added_word(files, tmp_path):
    vocab_file, words_file = files("Angiogram\nZÉBRA\n心")
    extended = extend_vocabulary(vocab_file, words_file, do_lower_case=True)
    (tmp_path / "new.txt").write_text("\n".join(extended.tokens), encoding="utf-8")
    tokens = FullTokenizer(tmp_path / "new.txt").tokenize("The ZÉBRA's angiogram 心 hearty")
    assert tokens == ["the", "zebra", "[UNK]", "[UNK]", "angiogram", "心", "heart", "##y"]


@pytest.mark.parametrize(
    ("words", "casing", "added", "present"),
    [
        ("Heart\nAb\nHEART", (True, None), ["ab"], ["heart"]),
        ("Heart\nAb\nété", (False, None), ["Heart", "été"], ["Ab"]),
        ("Été\nÉ", (True, False), ["été"], ["é"]),
    ],
    ids=["uncased", "cased", "accents"],
)
def test_words_are_prepared_like_text(files, words, casing, added, present):
    extended = extend_vocabulary(*files(words), *casing)
    assert [word.word for word in extended.added] == added
    assert extended.present == present


def test_blank_lines_and_repeated_lines_of_a_vocabulary_keep_their_ids(files, tmp_path):
    pieces = ["[UNK]", "", "[unused3]", "a", "[unused3]", "a", "b"]
    extended = extend_vocabulary(*files("x\ny", pieces), do_lower_case=True)
    # The tokenizer uses the last of equal lines.
    assert extended.tokens == ["[UNK]", "", "[unused3]", "a", "x", "a", "b", "y"]
    (tmp_path / "new.txt").write_text("\n".join(extended.tokens), encoding="utf-8")
    vocab = load_vocab(tmp_path / "new.txt")
    assert {word.word: word.id for word in extended.added}.items() <= vocab.items()


def test_reading_words(files):
    assert read_words(files("\ufeffone\r\n\n two \none\rlast\n")[1]) == {"one": 1, "two": 3, "last": 5}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("covid-19\nfine\nheart attack", r'line 1 "covid-19" \(covid - 19\); line 3 "heart attack" \(heart attack\)'),
        ("x" * 201, r"line 1 .* \(201 characters\), because .* words of at most 200 characters"),
        ("##gram", r'line 1 "##gram" \(# # gram\)'),
        ("\n\n", "is empty; give a file with one word a line"),
        (b"caf\xe9", r"words.txt line 1: not UTF-8 \(byte 0xe9\); save it as UTF-8"),
        ("\n".join(f"a-{i}" for i in range(7)), r'line 5 "a-4" \(a - 4\); and 2 more, because'),
    ],
)
def test_words_that_would_be_of_no_use_are_refused(files, words, message):
    with pytest.raises(ValueError, match=message):
        extend_vocabulary(*files(words), do_lower_case=True)


def test_the_longest_word_is_that_of_the_tokenizer(files, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"max_input_chars_per_word": 5}')
    with pytest.raises(ValueError, match=r'find line 2 "zebras" .6 characters., because .* of at most 5 characters'):
        extend_vocabulary(*files("zebra\nzebras"), do_lower_case=True)
    assert extend_vocabulary(*files("zebra"), do_lower_case=True).tokens[1] == "zebra"


def test_a_missing_file_of_words(files, tmp_path):
    with pytest.raises(FileNotFoundError, match="the file .*none.txt. does not exist; check the path, and give a file"):
        extend_vocabulary(files("a")[0], tmp_path / "none.txt", do_lower_case=True)


def test_an_unknown_word_needs_the_unknown_piece(files):
    with pytest.raises(ValueError, match=r"the token '\[UNK\]' is not in the vocabulary"):
        extend_vocabulary(*files("zebra", ["a", "b"]), do_lower_case=True)
