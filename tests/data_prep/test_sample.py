"""The sample text: its format, its vocabulary and the numbers in its README."""

import pathlib
import re

import pytest
from tiny_data import SPECIAL_TOKENS

from bert_keras.data_prep.text.tokenization import FullTokenizer

SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "data_prep" / "sample"
TEXTS = ("documents.txt", "held_out.txt")


def read_documents(name):
    """Returns the documents of a file, each a list of sentences."""
    text = (SAMPLE / name).read_text(encoding="utf-8")
    return [document.split("\n") for document in text.removesuffix("\n").split("\n\n")]


def read_sentences(name):
    return [sentence for document in read_documents(name) for sentence in document]


def read_vocab_lines():
    return (SAMPLE / "vocab.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")


def read_readme():
    return (SAMPLE / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tokenizer():
    return FullTokenizer(SAMPLE / "vocab.txt")


def test_there_is_enough_text():
    documents = read_documents("documents.txt")
    assert len(documents) >= 30
    assert sum(map(len, documents)) >= 300
    assert len(read_documents("held_out.txt")) >= 5


@pytest.mark.parametrize("name", TEXTS)
def test_each_line_is_one_sentence(name):
    for sentence in read_sentences(name):
        assert sentence.isascii(), sentence
        assert re.fullmatch(r"[A-Z]\S*( \S+)*[.?]", sentence), sentence
        assert not re.search(r"[.?!] ", sentence), sentence
        assert 9 <= len(sentence.split(" ")) <= 25, sentence


@pytest.mark.parametrize("name", TEXTS)
def test_documents_are_long_enough_for_segment_pairs(name):
    assert min(map(len, read_documents(name))) >= 15


def test_no_sentence_appears_twice_and_no_document_is_in_both_files():
    sentences = [sentence.lower() for name in TEXTS for sentence in read_sentences(name)]
    assert sorted(sentences) == sorted(set(sentences))


def test_vocabulary_has_the_special_tokens_first_and_every_entry_once():
    lines = read_vocab_lines()
    assert lines[:5] == SPECIAL_TOKENS
    assert len(set(lines)) == len(lines)
    assert all(line == line.strip() != "" for line in lines)


def test_vocabulary_can_spell_any_word_of_lower_case_letters_and_digits():
    characters = set("abcdefghijklmnopqrstuvwxyz0123456789")
    assert characters | {"##" + character for character in characters} <= set(read_vocab_lines())


@pytest.mark.parametrize("name", TEXTS)
def test_no_word_is_unknown(name, tokenizer):
    unknown = [sentence for sentence in read_sentences(name) if "[UNK]" in tokenizer.tokenize(sentence)]
    assert unknown == []


def test_training_text_contains_continuation_pieces(tokenizer):
    tokens = {token for sentence in read_sentences("documents.txt") for token in tokenizer.tokenize(sentence)}
    pieces = {token for token in read_vocab_lines() if token.startswith("##")}
    assert len(pieces & tokens) > 0.8 * len(pieces)


@pytest.mark.parametrize("name", TEXTS)
def test_readme_states_the_figures(name, tokenizer):
    sentences = read_sentences(name)
    words = sum(len(sentence.split()) for sentence in sentences)
    pieces = sum(len(tokenizer.tokenize(sentence)) for sentence in sentences)
    row = re.search(rf"^\| `{re.escape(name)}` .*$", read_readme(), re.MULTILINE).group()
    figures = [cell.strip() for cell in row.split("|")[2:-1]]
    expected = [len(read_documents(name)), len(sentences), words, pieces, f"{pieces / words:.2f}"]
    assert figures == [str(figure) for figure in expected]


def test_readme_states_the_size_of_the_vocabulary():
    assert f"`vocab.txt` has {len(read_vocab_lines())} lines" in read_readme()


def test_snippet_of_the_readme_makes_the_vocabulary(tmp_path, monkeypatch):
    pytest.importorskip("tensorflow_text", reason="learning the vocabulary needs tensorflow-text")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", read_readme(), re.MULTILINE | re.DOTALL)
    folder = tmp_path / "data_prep" / "sample"
    folder.mkdir(parents=True)
    (folder / "documents.txt").write_bytes((SAMPLE / "documents.txt").read_bytes())
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "README.md", "exec"), {})
    assert (folder / "vocab.txt").read_bytes() == (SAMPLE / "vocab.txt").read_bytes()
