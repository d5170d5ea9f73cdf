"""Building a vocabulary: counting words, their coverage, and the program."""

import collections
import dataclasses
import os
import random
import string

import pytest

from bert_keras.data_prep.build_vocab import main
from bert_keras.data_prep.corpus import text_lines, word_counts
from bert_keras.data_prep.corpus.coverage import Coverage, cover
from bert_keras.data_prep.corpus.documents import inspect_texts
from bert_keras.data_prep.corpus.word_counts import count_words
from bert_keras.data_prep.text.learning import learn_vocabulary
from bert_keras.data_prep.text.same_text import hash_of
from bert_keras.data_prep.text.tokenization import BasicTokenizer, FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import files_of_vocabulary

ODD = "Don't stop\x1cit\u00a0now, Stop\tÉté 力加!\n\nstop \x85stop\r\n don't"


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
        monkeypatch.setattr(text_lines, "_CHUNK_BYTES", chunk_bytes)
        assert count_words(inspect_texts(files), tokenizer, num_workers).all == expected


def test_about_every_tenth_line_is_held_out_by_its_text(tmp_path, monkeypatch):
    lines = [f"line {number}" for number in range(400)]
    (tmp_path / "text").write_text("\n".join([*lines, *(line.upper() for line in lines[:200])]))
    expected = [str(number) for number, line in enumerate(lines) if hash_of([line]) % 10 == 0]
    assert 20 < len(expected) < 80
    for num_workers, chunk_bytes in ((1, 100_000), (2, 300)):
        monkeypatch.setattr(text_lines, "_CHUNK_BYTES", chunk_bytes)
        words = count_words(inspect_texts([str(tmp_path / "text")]), BasicTokenizer(), num_workers)
        assert [*words.held_out] == ["line", *expected]
        assert all(words.held_out[number] == words.all[number] for number in expected)


def test_bytes_that_are_not_utf8_are_reported_or_refused(tmp_path, messages):
    (tmp_path / "odd").write_bytes(b"a\nb\n\xff\n")
    files = [str(tmp_path / "odd")]
    assert count_words(inspect_texts(files), BasicTokenizer()).all == {"a": 1, "b": 1}
    assert messages[0].startswith(f"{files[0]} line 3: not valid UTF-8; dropped 1 byte in 1 line")
    with pytest.raises(ValueError, match="odd line 3: byte 0xff is not valid UTF-8"):
        count_words(inspect_texts(files), BasicTokenizer(), strict_utf8=True)


def test_rare_words_are_forgotten_where_there_are_too_many(tmp_path, monkeypatch, messages):
    monkeypatch.setattr(text_lines, "_CHUNK_BYTES", 500)
    monkeypatch.setattr(word_counts, "_MOST_WORDS", 100)
    words = [f"{a}{b}" for a in string.ascii_lowercase for b in string.ascii_lowercase]
    (tmp_path / "text").write_text("\n".join(word + " the the" for word in words))
    counts = count_words(inspect_texts([str(tmp_path / "text")]), BasicTokenizer()).all
    assert counts["the"] == 2 * len(words)
    assert len(counts) <= 100
    assert messages == ["more than 100 different words; dropped those found at most 1 times so far"]


def test_text_without_words_is_refused(tmp_path):
    (tmp_path / "text").write_text("\n \n")
    with pytest.raises(ValueError, match="no word was found in .*text; give text"):
        count_words(inspect_texts([str(tmp_path / "text")]), BasicTokenizer())


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


def test_the_table_measures_lines_that_the_vocabulary_was_not_learned_from(tmp_path, capsys):
    rng = random.Random(1)
    lines = [" ".join("".join(rng.choices("abcdefgh", k=rng.randint(1, 7))) for _ in range(12)) for _ in range(300)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    flags = [f"--input_file={tmp_path}/text.txt", "--vocab_size=400", "--num_unused=3"]
    summary = main(["build_vocab.py", *flags, f"--vocab_file={tmp_path}/vocab.txt"])
    rest = [line for line in lines if hash_of([line]) % 10]
    held_out = collections.Counter(word for line in lines if hash_of([line]) % 10 == 0 for word in line.split())
    counts = collections.Counter(word for line in rest for word in line.split())
    assert [*summary["held_out"]] == ["100", "200", "400", "800"]
    for size in (100, 200, 400, 800):
        expected = cover(held_out, learn_vocabulary(counts, size, 3))
        assert summary["held_out"][str(size)] == dataclasses.asdict(expected)
    assert summary["pieces_per_word"] < summary["held_out"]["400"]["pieces_per_word"]  # the text itself flatters
    output = capsys.readouterr().out
    assert f"measuring on {held_out.total()} words of every tenth line, chosen by the hash of its text" in output
    (row,) = [line for line in output.splitlines() if line.startswith(" word pieces per word")]
    assert row.split()[5::2] == [f"{each['pieces_per_word']:.3f}" for each in summary["held_out"].values()]
    assert (tmp_path / "vocab.txt").read_text().split() == learn_vocabulary(
        collections.Counter(" ".join(lines).split()), 400, 3
    )


def test_another_vocabulary_is_measured_on_the_same_words(arguments, tmp_path, capsys):
    lines = [f"The cafe {number} plays Élan." for number in range(60)]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    held_out = collections.Counter(
        word
        for line in lines
        if hash_of([line]) % 10 == 0
        for word in BasicTokenizer(do_lower_case=False).tokenize(line)
    )
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "words.txt"
    other.write_text("[PAD]\n[UNK]\nthe\ncafe\nelan\nplay\n##s\n.\n")
    main([*arguments, "--vocab_size=60", "--num_unused=0", "--nodo_lower_case", f"--compare_vocab_file={other}"])
    assert "words.txt (8)" in capsys.readouterr().out
    numbers = sum(count for word, count in held_out.items() if word.isdigit())
    found = main(
        [
            *(arguments[0], arguments[1], f"--vocab_file={tmp_path}/second.txt", "--vocab_size=60", "--num_unused=0"),
            f"--compare_vocab_file={other}",
        ]
    )["held_out"]["words.txt (8)"]
    assert found["unknown_share"] == numbers / held_out.total()
    assert found["pieces_per_word"] == (held_out.total() + held_out["plays"]) / held_out.total()


@pytest.mark.parametrize(
    ("tokens", "flags", "message"),
    [
        ("[UNK]\nThe\nPlay\nA\n", [], "words.txt is for text with do_lower_case=False, but .* have do_lower_case=True"),
        ("[UNK]\nthe\nélan\n", [], "words.txt is for text with strip_accents=False, but .* have strip_accents=True"),
        (None, [], 'the vocabulary file ".*words.txt" does not exist'),
    ],
)
def test_another_vocabulary_that_cannot_be_measured_is_refused(arguments, tmp_path, tokens, flags, message):
    other = tmp_path / "other" / "words.txt"
    other.parent.mkdir()
    if tokens:
        other.write_text(tokens, encoding="utf-8")
        casing = '{"do_lower_case": true, "strip_accents": false}' if "élan" in tokens else '{"do_lower_case": false}'
        (other.parent / "tokenizer_config.json").write_text(casing)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        main([*arguments, *flags, f"--compare_vocab_file={other}"])
    assert sorted(os.listdir(tmp_path)) == ["other", "text.txt"]


def test_a_text_of_few_lines_measures_itself_and_says_so(arguments, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("one two\n")
    summary = main([*arguments, "--vocab_size=60", "--num_unused=0"])
    assert [each["num_words"] for each in summary["held_out"].values()] == [2]
    output = " ".join(capsys.readouterr().out.split())
    assert "warning: the text has too few lines to hold some out, so the table measures the text itself" in output
    assert (
        f"warning: the text gives only {summary['vocab_size']} tokens, fewer than --vocab_size=60: all its words are "
        "tokens; give more text"
    ) in output


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
    assert "unknown words" in output
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
    told = files_of_vocabulary(tmp_path / "vocab.txt").casing
    assert (told["do_lower_case"].value, told["strip_accents"].value) == casing
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
