import pytest
from reference_tokenizer import write_vocab

from bert_keras.data_prep.text.tokenization import BasicTokenizer, FullTokenizer, WordpieceTokenizer, load_vocab
from bert_keras.data_prep.text.vocabulary_files import check_special_tokens, files_of_vocabulary
from bert_keras.storage import paths
from bert_keras.storage.tokenizer.keys import Fact


def test_ids_are_those_of_the_original(golden_texts):
    arguments, texts, expected = golden_texts
    tokenizer = FullTokenizer(*arguments)
    for text, ids in zip(texts, expected, strict=True):
        tokens = tokenizer.tokenize(text)
        assert tokenizer.encode(text) == ids
        assert tokenizer.convert_tokens_to_ids(tokens) == ids
        assert [token for token, _, _ in tokenizer.tokenize_with_offsets(text)] == tokens


RELEASED_VOCAB = ["[UNK]", "[CLS]", "[SEP]", "want", "##want", "##ed", "wa", "un", "runn", "##ing", ","]


def test_facts_of_the_original_tests(tmp_path):
    tokenizer = FullTokenizer(write_vocab(tmp_path / "vocab.txt", *RELEASED_VOCAB))
    tokens = tokenizer.tokenize("UNwant\u00e9d,running")
    assert tokens == ["un", "##want", "##ed", ",", "runn", "##ing"]
    assert tokenizer.convert_tokens_to_ids(tokens) == tokenizer.encode("UNwant\u00e9d,running") == [7, 4, 5, 10, 8, 9]
    assert tokenizer.convert_ids_to_tokens([7, 4, 5, 10, 8, 9]) == tokens

    assert BasicTokenizer().tokenize("ah\u535a\u63a8zz") == ["ah", "\u535a", "\u63a8", "zz"]
    text = " \tHeLLo!how  \n Are yoU?  H\u00e9llo"
    assert BasicTokenizer(True).tokenize(text) == ["hello", "!", "how", "are", "you", "?", "hello"]
    assert BasicTokenizer(False).tokenize(text) == ["HeLLo", "!", "how", "Are", "yoU", "?", "H\u00e9llo"]

    wordpiece = WordpieceTokenizer(tokenizer.vocab)
    assert wordpiece.tokenize("") == []
    assert wordpiece.tokenize("unwanted running") == ["un", "##want", "##ed", "runn", "##ing"]
    assert wordpiece.tokenize("unwantedX running") == ["[UNK]", "runn", "##ing"]


# The vocabulary.


def test_vocabulary_with_blank_and_duplicate_lines(tmp_path):
    path = write_vocab(tmp_path / "vocab.txt", "UNK", "a", "", "b", "a", "  c  ", "\u3000", "d")
    assert list(load_vocab(path).items()) == [("UNK", 0), ("a", 4), ("", 6), ("b", 3), ("c", 5), ("d", 7)]
    assert FullTokenizer(path).inv_vocab == {0: "UNK", 4: "a", 6: "", 3: "b", 5: "c", 7: "d"}


def test_vocabulary_lines_end_at_line_feeds_only(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("[UNK]\r\na\u2028b\nc\x0cd\nlast".encode())
    assert load_vocab(str(path)) == {"[UNK]": 0, "a\u2028b": 1, "c\x0cd": 2, "last": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, 'the vocabulary file ".*vocab.txt" does not exist; give the vocab.txt that came with the model$'),
        (b"", 'vocab.txt" has no tokens; it needs one token a line$'),
        (b"\n \n", 'vocab.txt" has no tokens; it needs one token a line$'),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "vocab.txt is not text but a pointer of Git LFS; run git lfs",
        ),
        ("[UNK]\nthe\n".encode("utf-16"), "vocab.txt is UTF-16LE, but UTF-8 is needed; convert it: iconv -f UTF-16LE"),
        (b"[UNK]\ncaf\xe9\n", r"vocab.txt line 2: the vocabulary is not UTF-8 \(byte 0xe9\); save it as UTF-8$"),
    ],
)
def test_vocabulary_errors(tmp_path, content, message):
    with pytest.raises(ValueError, match="the vocabulary file .* is a folder; give the vocab.txt itself$"):
        FullTokenizer(tmp_path)
    if content is not None:
        (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        FullTokenizer(tmp_path / "vocab.txt")


def test_missing_special_tokens_are_named():
    check_special_tokens({"[UNK]": 0}, ["[UNK]"])
    with pytest.raises(ValueError, match=r"^the vocabulary lacks \[CLS\], \[SEP\]; give that of the model$"):
        check_special_tokens({"[UNK]": 0}, ["[CLS]", "[UNK]", "[SEP]"])


def test_conversion_errors_name_the_culprit(tmp_path):
    tokenizer = FullTokenizer(write_vocab(tmp_path / "vocab.txt", *RELEASED_VOCAB))
    with pytest.raises(ValueError, match="^the token 'wanted' is not in the vocabulary of 11 tokens; tokenize"):
        tokenizer.convert_tokens_to_ids(["un", "wanted"])
    with pytest.raises(ValueError, match="^the id 11 is not in the vocabulary, whose ids are 0 to 10; use the vocab"):
        tokenizer.convert_ids_to_tokens([3, 11])


def test_vocabulary_without_unknown_token(tmp_path):
    tokenizer = FullTokenizer(write_vocab(tmp_path / "vocab.txt", "a", "##b"))
    assert tokenizer.encode("ab") == [0, 1]
    assert tokenizer.tokenize("ab x") == ["a", "##b", "[UNK]"]
    assert tokenizer.tokenize_with_offsets("ab x") == [("a", 0, 1), ("##b", 1, 2), ("[UNK]", 3, 4)]
    with pytest.raises(ValueError, match=r"^the token '\[UNK\]' is not in the vocabulary of 2 tokens"):
        tokenizer.encode("ab x")


# Accepted types of text, and normalisation.


def test_bytes_are_decoded_and_invalid_ones_dropped(tmp_path):
    tokenizer = FullTokenizer(write_vocab(tmp_path / "vocab.txt", *RELEASED_VOCAB))
    content = b"UNwant\xc3\xa9d,\xffrunn\xe2\x82ing"
    assert tokenizer.encode(content) == [7, 4, 5, 10, 8, 9]
    assert tokenizer.tokenize(content) == tokenizer.tokenize("UNwant\u00e9d,running")
    assert tokenizer.tokenize_with_offsets(content) == tokenizer.tokenize_with_offsets("UNwant\u00e9d,running")
    assert BasicTokenizer().tokenize(content) == ["unwanted", ",", "running"]
    assert WordpieceTokenizer(tokenizer.vocab).tokenize(b"unwanted\xff") == ["un", "##want", "##ed"]


@pytest.mark.parametrize("text", [None, 5, ["a"], bytearray(b"a")])
def test_other_types_are_refused(tmp_path, text):
    tokenizer = FullTokenizer(write_vocab(tmp_path / "vocab.txt", *RELEASED_VOCAB))
    for method in (
        tokenizer.encode,
        tokenizer.tokenize,
        tokenizer.tokenize_with_offsets,
        BasicTokenizer().tokenize,
        WordpieceTokenizer(tokenizer.vocab).tokenize,
    ):
        with pytest.raises(ValueError, match=f"of type {type(text).__name__}; give str, or bytes in UTF-8$"):
            method(text)


def test_lower_case_and_accents_apart():
    text = "\u00c9t\u00e9 E\u0301 \u0130"
    assert BasicTokenizer(True).tokenize(text) == ["ete", "e", "i"]
    assert BasicTokenizer(False).tokenize(text) == ["\u00c9t\u00e9", "E\u0301", "\u0130"]
    assert BasicTokenizer(True, strip_accents=False).tokenize(text) == ["\u00e9t\u00e9", "e\u0301", "i\u0307"]
    assert BasicTokenizer(False, strip_accents=True).tokenize(text) == ["Ete", "E", "I"]
    for flag in (True, False):
        assert BasicTokenizer(flag).strip_accents is flag
        assert BasicTokenizer(flag, strip_accents=flag).tokenize(text) == BasicTokenizer(flag).tokenize(text)


def test_a_vocabulary_with_a_byte_order_mark_and_duplicates(tmp_path, messages):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"\xef\xbb\xbf[PAD]\n[UNK]\nthe \na\nthe\n\n\nthe\na\n")
    vocab = load_vocab(path)
    assert vocab == {"[PAD]": 0, "[UNK]": 1, "the": 7, "a": 8, "": 6}
    assert messages == [
        f"{path} lines 3, 5, 8 are all 'the': the last of them gives the id, and the other ids are never used, as in "
        "the original (2 such tokens)",
    ]


def test_a_vocabulary_may_be_remote():
    paths.make_dirs("ram://models")
    with paths.open_file("ram://models/vocab.txt", "wb") as file:
        file.write(b"[PAD]\n[UNK]\nthe\n")
    with paths.open_file("ram://models/tokenizer_config.json", "wb") as file:
        file.write(b'{"do_lower_case": true, "strip_accents": false, "model_max_length": 512}')
    assert FullTokenizer("ram://models/vocab.txt").tokenize("The x") == ["the", "[UNK]"]
    files, file = files_of_vocabulary("ram://models/vocab.txt"), "ram://models/tokenizer_config.json"
    assert files.casing == {"do_lower_case": Fact(True, file), "strip_accents": Fact(False, file)}
    assert files.longest == Fact(512, file)
    paths.remove_dir("ram://models")


def test_damaged_tokenizer_config_is_named(tmp_path):
    assert files_of_vocabulary(tmp_path / "vocab.txt").casing == {}
    for content, message in (
        ("[]", "tokenizer_config.json line 1: a JSON list where an object .* is needed; give JSON with do_lower_case"),
        ('{"do_lower_case": "no"}', 'tokenizer_config.json: do_lower_case is "no", but must be true or false; correct'),
    ):
        (tmp_path / "tokenizer_config.json").write_text(content)
        with pytest.raises(ValueError, match=message):
            _ = files_of_vocabulary(tmp_path / "vocab.txt").casing
