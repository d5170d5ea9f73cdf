"""Learning a vocabulary: counting, the learnt tokens and their order, and their coverage."""

import collections
import os
import random
import string

import pytest

from bert_keras.data_prep.build_vocab import main
from bert_keras.data_prep.corpus import tokenized_corpus, word_counts
from bert_keras.data_prep.corpus.documents import inspect_texts
from bert_keras.data_prep.corpus.word_counts import count_words
from bert_keras.data_prep.text.tokenization import BasicTokenizer, FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import read_tokenizer_config
from bert_keras.data_prep.text.vocabulary_learning import (
    Coverage,
    cover,
    learn_vocabulary,
    reserved_tokens,
)

ODD = "Don't stop\x1cit\u00a0now, Stop\tÉté 力加!\n\nstop \x85stop\r\n don't"


def words_of(count, seed=0):
    """Makes words of an artificial language with their frequencies; frequent words are short."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcde", k=rng.randint(1, 2 + number // 20))) for number in range(count)]
    return collections.Counter({word: 1 + 2000 // (number + 1) for number, word in enumerate(words)})


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_words_are_counted_as_the_tokenizer_gives_them(tmp_path, monkeypatch, do_lower_case):
    (tmp_path / "odd").write_bytes(ODD.encode() + b"\xff\n")
    (tmp_path / "other").write_text("stop\n" * 50)
    files, tokenizer = [str(tmp_path / "odd"), str(tmp_path / "other")], BasicTokenizer(do_lower_case)
    expected = collections.Counter(
        word for line in (ODD.replace("\r", "").split("\n") + ["stop"] * 50) for word in tokenizer.tokenize(line)
    )
    assert expected["stop"] == (54 if do_lower_case else 53) - 1
    for num_workers, chunk_bytes in ((1, 10), (2, 40)) if do_lower_case else ((1, 10000),):
        monkeypatch.setattr(tokenized_corpus, "_CHUNK_BYTES", chunk_bytes)
        assert count_words(inspect_texts(files), tokenizer, num_workers) == expected


def test_bytes_that_are_not_utf8_are_reported_or_refused(tmp_path, messages):
    (tmp_path / "odd").write_bytes(b"a\nb\n\xff\n")
    files = [str(tmp_path / "odd")]
    assert count_words(inspect_texts(files), BasicTokenizer()) == {"a": 1, "b": 1}
    assert messages[0].startswith(f"{files[0]} line 3: not valid UTF-8; dropped 1 bytes in 1 lines")
    with pytest.raises(ValueError, match="odd line 3: byte 0xff is not valid UTF-8"):
        count_words(inspect_texts(files), BasicTokenizer(), strict_utf8=True)


def test_rare_words_are_forgotten_where_there_are_too_many(tmp_path, monkeypatch, messages):
    monkeypatch.setattr(tokenized_corpus, "_CHUNK_BYTES", 500)
    monkeypatch.setattr(word_counts, "_MOST_WORDS", 100)
    words = [f"{a}{b}" for a in string.ascii_lowercase for b in string.ascii_lowercase]
    (tmp_path / "text").write_text("\n".join(word + " the the" for word in words))
    counts = count_words(inspect_texts([str(tmp_path / "text")]), BasicTokenizer())
    assert counts["the"] == 2 * len(words)
    assert len(counts) <= 100
    assert messages == ["more than 100 different words; dropped those found at most 1 times so far"]


def test_text_without_words_is_refused(tmp_path):
    (tmp_path / "text").write_text("\n \n")
    with pytest.raises(ValueError, match="no word was found in .*text; give text"):
        count_words(inspect_texts([str(tmp_path / "text")]), BasicTokenizer())


def test_reserved_tokens_have_the_ids_of_the_original(shared_dir):
    tokens = reserved_tokens(994)
    released = shared_dir("data/vocab/uncased.txt").read_text(encoding="utf-8").split("\n")
    assert tokens == released[:999]
    assert reserved_tokens(2) == ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def test_vocabulary_has_the_requested_size_and_the_frequent_words(messages):
    counts = words_of(300)
    pieces = learn_vocabulary(counts, vocab_size=150, num_unused=3)
    assert len(pieces) == len(set(pieces)) == 150
    assert pieces[:8] == reserved_tokens(3)
    assert pieces[8:13] == list("abcde")
    assert {f"##{letter}" for letter in "abcde"} <= set(pieces)
    assert {word for word, _ in counts.most_common(20)} <= set(pieces)
    assert pieces == learn_vocabulary(dict(sorted(counts.items())), vocab_size=150, num_unused=3)
    assert messages[0] == f"learning from {len(counts)} of {len(counts)} different words, 100.00 % of the text"
    coverage = cover(counts, pieces)
    assert coverage.unknown_share == 0
    assert 1 < coverage.pieces_per_word < cover(counts, learn_vocabulary(counts, 40, 3)).pieces_per_word


def test_text_with_few_tokens_is_reported(messages):
    pieces = learn_vocabulary({"ab": 3, "b": 1}, vocab_size=100, num_unused=0)
    assert sorted(pieces[5:]) == ["##a", "##b", "a", "ab", "b"]
    assert messages[-1] == "the text gives only 10 tokens, fewer than vocab_size=100"


def test_an_alphabet_that_does_not_fit_is_refused():
    message = "vocab_size=8 is too small for 7 reserved tokens and 2 characters at the beginning .* need 9; give"
    with pytest.raises(ValueError, match=message):
        learn_vocabulary({"ab": 3}, vocab_size=8, num_unused=2)
    pieces = learn_vocabulary({"ab": 3, "aac": 5, "a": 9}, vocab_size=9, num_unused=0, alphabet_size=1)
    assert set(pieces[5:]) <= {"a", "##a", "aa"}


@pytest.mark.parametrize(
    ("counts", "size", "expected"),
    [
        ({"ab": 3}, 2, {"a", "##b"}),
        ({"ab": 3, "b": 1}, 3, {"a", "##b", "b"}),
        ({"ab": 3, "cd": 2, "ea": 2, "ae": 1, "c": 1}, 7, {"a", "##b", "c", "##d", "e", "##a", "##e"}),
        ({"力": 5, "加": 3}, 2, {"力", "加"}),  # a Chinese character is always a word
    ],
)
def test_a_size_that_only_the_characters_of_the_words_need_is_enough(counts, size, expected):
    pieces = learn_vocabulary(counts, 5 + size, num_unused=0)
    assert set(pieces[5:]) == expected
    assert cover(counts, pieces).unknown_share == 0


def test_coverage_counts_words_as_often_as_they_occur():
    counts = {"play": 6, "playing": 3, "xé": 1, "é": 2}
    assert cover(counts, ["[UNK]", "play", "##ing", "x"]) == Coverage(
        num_words=12,
        num_different=4,
        whole_share=6 / 12,
        pieces_per_word=(6 + 2 * 3 + 1 + 2) / 12,
        unknown_share=3 / 12,
        too_long_share=0,
        unknown_character_share=3 / (6 * 4 + 3 * 7 + 2 + 2),
        unknown_characters="é",
    )


def test_the_alphabet_grows_with_the_script(monkeypatch):
    counts = {chr(0x4E00 + number): 10 for number in range(1500)} | {chr(0x3400): 1}
    assert cover(counts, learn_vocabulary(counts, 4000, 0)).unknown_share == 1 / 15001
    assert cover(counts, learn_vocabulary(counts, 4000, 0, alphabet_size=1000)).unknown_share == 5001 / 15001


def test_clauses_of_scripts_without_spaces_are_learned_in_parts():
    clause = "".join(chr(0x0E01 + number % 40) for number in range(120))
    pieces = learn_vocabulary({clause: 2, "x" * 60: 3, "ab": 1}, 400, 0)
    assert cover({clause: 2}, pieces).unknown_share == 0
    assert "x" not in "".join(pieces[5:])


@pytest.fixture
def arguments(tmp_path):
    (tmp_path / "text.txt").write_text("The play played.\nA player plays 力.\n" * 9, encoding="utf-8")
    return ["build_vocab.py", f"--input_file={tmp_path}/text.txt", f"--vocab_file={tmp_path}/vocab.txt"]


def test_the_program_writes_a_vocabulary_that_the_tokenizer_reads(arguments, tmp_path, capsys):
    summary = main([*arguments, "--vocab_size=60", "--num_unused=5", "--nodo_lower_case"])
    tokenizer = FullTokenizer(tmp_path / "vocab.txt", do_lower_case=False)
    assert len(tokenizer.vocab) == summary["vocab_size"] <= 60
    assert tokenizer.vocab["[MASK]"] == 9
    assert tokenizer.tokenize("The play") == ["The", "play"]
    assert summary["num_words"] == 9 * 9
    output = capsys.readouterr().out
    assert "unknown words ([UNK])" in output
    assert output.splitlines()[-1] == (
        f"wrote {tmp_path}/vocab.txt; {tmp_path}/tokenizer_config.json sets do_lower_case=False and "
        "strip_accents=False for the programs that use it"
    )
    assert sorted(os.listdir(tmp_path)) == ["text.txt", "tokenizer_config.json", "vocab.txt"]
    with pytest.raises(ValueError, match="vocab.txt exists, and models may depend on it; choose another name"):
        main(arguments)


@pytest.mark.parametrize(
    "flags", [[], ["--nodo_lower_case"], ["--nostrip_accents"], ["--nodo_lower_case", "--strip_accents"]]
)
def test_all_programs_prepare_text_as_for_the_vocabulary(arguments, tmp_path, flags):
    main([*arguments, "--vocab_size=60", "--num_unused=5", *flags])
    casing = "--nodo_lower_case" not in flags, "--nostrip_accents" not in flags
    if flags == ["--nodo_lower_case"]:
        casing = (False, False)
    told = read_tokenizer_config(tmp_path / "tokenizer_config.json")
    assert (told["do_lower_case"], told["strip_accents"]) == casing
    tokenizer = FullTokenizer.from_checkpoint(tmp_path)
    assert (tokenizer.basic_tokenizer.do_lower_case, tokenizer.basic_tokenizer.strip_accents) == casing
    assert tokenizer.tokenize("The play")[0] == ("the" if casing[0] else "The")


def test_a_second_vocabulary_in_a_folder_is_prepared_as_the_first(arguments, tmp_path):
    flags = ["--vocab_size=60", "--num_unused=5"]
    main([*arguments, *flags, "--nodo_lower_case"])
    before = (tmp_path / "tokenizer_config.json").read_bytes()
    other = f"--vocab_file={tmp_path}/second.txt"
    with pytest.raises(
        ValueError, match="^do_lower_case=True was given, but .*/tokenizer_config.json sets do_lower_cas"
    ):
        main([*arguments[:2], other, *flags, "--do_lower_case"])
    main([*arguments[:2], other, *flags])
    assert (tmp_path / "second.txt").read_bytes() == (tmp_path / "vocab.txt").read_bytes()
    assert (tmp_path / "tokenizer_config.json").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bert_config.json", "{}", "has a bert_config.json, and a tokenizer_config.json would change how its model"),
        ("vocab.txt", "a", "has a vocab.txt, and a tokenizer_config.json would change how its model prepares text; "),
        ("tokenizer_config.json", "{}", "tokenizer_config.json does not set do_lower_case; add it, or write the voc"),
    ],
)
def test_a_model_in_the_folder_keeps_its_casing(arguments, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        main([*arguments[:2], f"--vocab_file={tmp_path}/new.txt"])
    assert sorted(os.listdir(tmp_path)) == sorted([name, "text.txt"])
    assert (tmp_path / name).read_text() == content


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        (
            "abc dbc " * 9,
            ["--alphabet_size=3"],
            "50.0 % of the words are unknown ([UNK]), so a model will not see them: "
            "their characters are too rare for the vocabulary; give a larger --alphabet_size and --vocab_size",
        ),
        (
            "\u0e01" * 201 + " \u0e01",
            [],
            "50.0 % of the words are unknown ([UNK]), so a model will not see them: most have more than 200 "
            "characters; insert spaces between words, which Thai and some other languages do not write",
        ),
    ],
)
def test_many_unknown_words_are_warned_of(arguments, tmp_path, capsys, text, flags, message):
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    summary = main([*arguments, "--vocab_size=60", "--num_unused=5", *flags])
    assert summary["unknown_share"] == 0.5
    assert f"warning: {message}" in " ".join(capsys.readouterr().out.split())


def test_output_that_cannot_be_written_is_refused_before_reading(arguments, tmp_path, monkeypatch):
    monkeypatch.setattr("bert_keras.data_prep.build_vocab.count_words", lambda *_: pytest.fail("text was read"))
    with pytest.raises(ValueError, match="vocab_file=.*text.txt is also input_file, which would be lost"):
        main([*arguments[:2], f"--vocab_file={tmp_path}/text.txt"])


def test_a_system_without_tensorflow_text_is_told_before_reading(arguments, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("bert_keras.data_prep.build_vocab.count_words", lambda *_: pytest.fail("text was read"))
    with pytest.raises(ValueError, match="tensorflow-text is not installed: pip install tensorflow-text"):
        main(arguments)
