"""The sample data: their format, the vocabulary, and the numbers in their README."""

import collections
import csv
import json
import pathlib
import re

import make_samples
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from tiny_data import SPECIAL_TOKENS

from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.prediction import FillMask

SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "data_prep" / "sample"
TEXTS = ("documents.txt", "held_out.txt")
LABELLED = ("entities.txt", "entities_dev.txt", "questions.json", "questions_dev.json")


VOCAB = (SAMPLE / "vocab.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
README = (SAMPLE / "README.md").read_text(encoding="utf-8")


def read_documents(name):
    """Returns the documents of a file, each a list of sentences."""
    text = (SAMPLE / name).read_text(encoding="utf-8")
    return [document.split("\n") for document in text.removesuffix("\n").split("\n\n")]


def read_sentences(name):
    return [sentence for document in read_documents(name) for sentence in document]


def test_each_line_is_one_sentence_and_appears_once():
    sentences = [sentence for name in TEXTS for sentence in read_sentences(name)]
    for sentence in sentences:
        assert sentence.isascii(), sentence
        assert re.fullmatch(r"[A-Z]\S*( \S+)*[.?]", sentence), sentence
        assert not re.search(r"[.?!] ", sentence), sentence
        assert 9 <= len(sentence.split(" ")) <= 25, sentence
    assert len(sentences) == len({sentence.lower() for sentence in sentences})


def test_vocabulary_can_spell_every_word_and_has_every_entry_once():
    assert VOCAB[:5] == SPECIAL_TOKENS
    assert len(set(VOCAB)) == len(VOCAB)
    assert all(line == line.strip() != "" for line in VOCAB)
    characters = set("abcdefghijklmnopqrstuvwxyz0123456789")
    assert characters | {"##" + character for character in characters} <= set(VOCAB)
    assert f"`vocab.txt` has {len(VOCAB)} lines" in README


@pytest.mark.parametrize("name", TEXTS)
def test_readme_has_the_counts_and_no_word_is_unknown(name):
    tokenizer, sentences = FullTokenizer(SAMPLE / "vocab.txt"), read_sentences(name)
    words = sum(len(sentence.split()) for sentence in sentences)
    tokens = [token for sentence in sentences for token in tokenizer.tokenize(sentence)]
    assert "[UNK]" not in tokens
    row = re.search(rf"^\| `{re.escape(name)}` .*$", README, re.MULTILINE).group()
    expected = [len(read_documents(name)), len(sentences), words, len(tokens), f"{len(tokens) / words:.2f}"]
    assert [cell.strip() for cell in row.split("|")[2:-1]] == [str(count) for count in expected]
    pieces = {token for token in VOCAB if token.startswith("##")}
    assert name != "documents.txt" or len(pieces & set(tokens)) > 0.8 * len(pieces)


def test_snippet_of_the_readme_makes_the_vocabulary(tmp_path, monkeypatch):
    pytest.importorskip("tensorflow_text", reason="learning the vocabulary needs tensorflow-text")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    folder = tmp_path / "data_prep" / "sample"
    folder.mkdir(parents=True)
    (folder / "documents.txt").write_bytes((SAMPLE / "documents.txt").read_bytes())
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "README.md", "exec"), {})
    assert (folder / "vocab.txt").read_bytes() == (SAMPLE / "vocab.txt").read_bytes()


def test_the_program_makes_the_committed_files():
    made = make_samples.make_samples()
    assert set(made) == {"messages.csv", *LABELLED}
    for name, text in made.items():
        assert text == (SAMPLE / name).read_text(encoding="utf-8"), f"{name}: run make_samples.py again"


def read_messages():
    with open(SAMPLE / "messages.csv", encoding="utf-8", newline="") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file)]


def test_messages_differ_and_have_six_classes_of_unequal_size():
    messages = read_messages()
    assert len({text.lower() for text, _ in messages}) == len(messages) == 600
    assert len(set(collections.Counter(label for _, label in messages).values())) == 6
    assert not [text for text, _ in messages if re.search(r"[{}|()]", text) or not text.isascii()]


@pytest.mark.slow
def test_counting_words_classifies_held_out_messages_well_but_far_from_perfectly():
    texts, labels = zip(*read_messages(), strict=True)
    model = make_pipeline(CountVectorizer(), LogisticRegression(max_iter=2000))
    scores = cross_val_score(model, texts, labels, cv=KFold(n_splits=5, shuffle=True, random_state=0))
    assert 0.65 < scores.mean() < 0.9
    assert f"{100 * scores.mean():.0f} %" in README


def test_the_encoder_is_small_and_fills_in_the_words_of_its_card():
    sizes = {file.name: file.stat().st_size for file in (SAMPLE / "encoder").iterdir()}
    assert set(sizes) == {"README.md", "config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"}
    assert sum(sizes.values()) < 10e6
    card = (SAMPLE / "encoder" / "README.md").read_text(encoding="utf-8")
    assert f"({sizes['model.safetensors'] / 1e6:.1f} MB)" in card
    answer = FillMask(SAMPLE / "encoder")("the president of the united [MASK] of america").readable()
    assert f"\n{re.sub('0[.][0-9]+', 'P', answer)}\n" in re.sub("0[.][0-9]+", "P", card)


def test_the_config_of_the_encoder_fits_its_vocabulary_which_spells_every_message():
    tokenizer = FullTokenizer(SAMPLE / "encoder" / "vocab.txt")
    config = json.loads((SAMPLE / "encoder" / "config.json").read_text(encoding="utf-8"))
    assert config["vocab_size"] == len(tokenizer.vocab)
    assert "[UNK]" not in [token for text, _ in read_messages() for token in tokenizer.tokenize(text)]
