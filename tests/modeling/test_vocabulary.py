"""Checks that a vocabulary belongs to a model."""

import re

import pytest
from tiny_bert import make_config

from bert_keras.modeling import check_vocabulary, is_cased, with_vocab_size

UNCASED = ["[PAD]", "[UNK]", "<S>", *(f"word{i}" for i in range(37))]
CASED = ["[PAD]", "[UNK]", *(f"{'Word' if i % 3 else 'word'}{i}" for i in range(38))]


@pytest.fixture
def write(tmp_path):
    def write(pieces, end="\n"):
        path = tmp_path / "vocab.txt"
        path.write_bytes(("\n".join(pieces) + end).encode())
        return path

    return write


def test_a_token_for_each_row_is_needed(write):
    for end in ("\n", "", "\n\n", "\n \r\n\n"):
        check_vocabulary(write(UNCASED, end), make_config())
    check_vocabulary(write([*UNCASED[:-2], "", ""]), make_config())
    check_vocabulary(write(UNCASED[:-7]), make_config())  # 40 rows are a multiple of 8
    for tokens in (UNCASED[:-8], [*UNCASED, "more"], [*UNCASED, "", "more"]):
        message = (
            f"vocab.txt has {len(tokens)} tokens, but the model has 40 rows of word embeddings; give the model's own"
        )
        with pytest.raises(ValueError, match=re.escape(message)):
            check_vocabulary(write(tokens), make_config())


def test_rows_without_a_token_get_the_lines_of_the_advice(write):
    with pytest.raises(
        ValueError, match=r"give the model's own vocabulary, and append a line such as \[spare1\] for each row without"
    ):
        check_vocabulary(write(UNCASED[:-8]), make_config(), do_lower_case=True)
    spare = [f"[spare{number}]" for number in range(8)]
    check_vocabulary(write([*UNCASED[:-8], *spare]), make_config(), do_lower_case=True)
    with pytest.raises(
        ValueError, match=r"42 tokens, but the model has 40 rows .*, or a model with a row for each token"
    ):
        check_vocabulary(write([*UNCASED, "two", "more"]), make_config(), do_lower_case=True)


def test_a_cased_model_is_refused_under_lower_casing(write):
    path = write(CASED)
    check_vocabulary(path, make_config(), do_lower_case=False)
    check_vocabulary(path, make_config())
    with pytest.raises(ValueError, match=r"vocab\.txt is cased, .*; give do_lower_case=False"):
        check_vocabulary(path, make_config(), do_lower_case=True)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path, write):
    with pytest.raises(FileNotFoundError, match=r"none\.txt\" does not exist; give the vocab\.txt that came with"):
        check_vocabulary(tmp_path / "none.txt", make_config())
    path = write([])
    path.write_bytes(b"a\n\xff")
    with pytest.raises(
        ValueError, match=r"vocab\.txt line 2: the vocabulary is not UTF-8 \(byte 0xff\); save it as UTF-8"
    ):
        check_vocabulary(path, make_config())


@pytest.mark.parametrize("name", ["uncased", "chinese"])
def test_released_vocabularies_are_told_apart(shared_dir, name):
    pieces = shared_dir(f"data/vocab/{name}.txt").read_text(encoding="utf-8").split("\n")
    assert not is_cased(pieces)
    # A user's added word with a capital does not make a vocabulary cased.
    assert not is_cased([*pieces, "COVID"])
    assert is_cased([piece.capitalize() for piece in pieces])


ACCENTED = [*UNCASED[:30], *(f"{letter}t{letter}" for letter in "éèêàùçôîïœ")]


def test_pieces_with_accents_are_cased_unless_accents_are_kept(write):
    assert is_cased(ACCENTED)
    assert is_cased([*UNCASED, "が", "한"])
    assert not is_cased(ACCENTED, strip_accents=False)
    assert is_cased(CASED, strip_accents=False)
    path = write(ACCENTED)
    check_vocabulary(path, make_config(), do_lower_case=True, strip_accents=False)
    with pytest.raises(
        ValueError, match=r"never contains its tokens with capitals or accents; give strip_accents=False$"
    ):
        check_vocabulary(path, make_config(), do_lower_case=True)


@pytest.mark.parametrize(
    ("pieces", "file", "advice"),
    [
        (CASED, "tokenizer_config.json", "set do_lower_case to false"),
        (CASED, "tokenizer.json", "set lowercase to false"),
        (ACCENTED, "tokenizer.json", "set strip_accents to false"),
    ],
)
def test_a_wrong_casing_names_the_key_of_the_file_that_sets_it(write, pieces, file, advice):
    with pytest.raises(ValueError, match=rf"; {advice} in model/{file}$"):
        check_vocabulary(write(pieces), make_config(), True, casing_file=f"model/{file}")


def test_markers_are_no_pieces():
    assert not is_cased(["[É]", "<S>", "[UNK]", "word"])
    assert not is_cased(["[PAD]", "[UNK]"])


@pytest.mark.parametrize(
    ("pieces", "do_lower_case", "warned"),
    [(UNCASED, False, True), (UNCASED, True, False), (UNCASED, None, False), (CASED, False, False)]
    + [(["字"] * 40, False, False), (ACCENTED, False, True)],
)
def test_capitals_that_no_piece_has_are_warned_of(write, messages, pieces, do_lower_case, warned):
    check_vocabulary(write(pieces), make_config(), do_lower_case)
    told = "has no tokens with capitals, but the text keeps its capitals"
    assert any(told in message for message in messages) == warned


@pytest.mark.parametrize(
    ("tokens", "size"),
    [(UNCASED, 40), ([*UNCASED, "", ""], 40), ([*UNCASED[:-2], "", ""], 40), (UNCASED[:-2], 38), ([*UNCASED, "a"], 41)],
)
def test_random_weights_have_a_row_for_each_token(messages, tokens, size):
    config = make_config()
    found = with_vocab_size(config, tokens, "vocab.txt")
    check_vocabulary(tokens, found)
    assert found.to_dict() == {**config.to_dict(), "vocab_size": size}
    told = f"random weights for the {size} tokens of vocab.txt (vocab_size in the config: 40)"
    assert messages == ([] if size == 40 else [told])
    assert with_vocab_size(config, size, "records") == found
