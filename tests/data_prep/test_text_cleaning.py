"""Cleaning removes what it reports, and the held-out share has no document of the training part."""

import json
import pathlib
import random

import pytest
from tiny_data import examples_of

from bert_keras.cli.progress import Progress
from bert_keras.data_prep import create_pretraining_data
from bert_keras.data_prep.cleaning import text_cleaning
from bert_keras.data_prep.cleaning.filters import Cleaning
from bert_keras.data_prep.corpus import text_lines
from bert_keras.data_prep.corpus.text_lines import TextFile, UnusableTextError
from bert_keras.data_prep.corpus.workers import ThisProcess, Work, WorkFolder
from bert_keras.data_prep.pretraining import build as builder
from bert_keras.data_prep.pretraining.build import Build
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.pretraining.statistics import measure_text
from bert_keras.data_prep.text.same_text import hash_of


def clean(tmp_path, documents, cleaning, num_files=1, seed=12345):
    """Returns the documents of both parts as lists of lines, and the report."""
    tmp_path = tmp_path / f"work{len(list(tmp_path.iterdir()))}"
    tmp_path.mkdir()
    files = []
    for number in range(num_files):
        file = tmp_path / f"in{number}.txt"
        part = documents[number * len(documents) // num_files : (number + 1) * len(documents) // num_files]
        file.write_text("".join("".join(f"{line}\n" for line in lines) + "\n" for lines in part))
        files.append(TextFile(str(file), str(file)))
    with WorkFolder(str(tmp_path / "folder")) as folder:
        work = Work(ThisProcess(None), folder, Progress())
        found = text_cleaning.clean_texts(files, cleaning, seed, False, work)
        parts = ["".join(pathlib.Path(text.path).read_text() for text in part) for part in found]
        report = folder.result("cleaned")
    return *([lines.split("\n") for lines in part.split("\n\n") if lines] for part in parts), report


def random_documents(number, num_lines):
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(1, 6))) for _ in range(400)]
    return [[" ".join(rng.choices(words, k=10)) for _ in range(num_lines)] for _ in range(number)]


def test_exact_duplicates_keep_the_first_and_ignore_case_and_white_space(tmp_path):
    documents = [["Ab  c.", "d e"], ["x"], ["ab c. D", "E"], ["x", "y"], ["X"]]
    train, held_out, report = clean(tmp_path, documents, Cleaning(remove_duplicates="exact"))
    assert (train, held_out) == ([["Ab  c.", "d e"], ["x"], ["x", "y"]], [])
    assert report == {
        "before": {"documents": 5, "lines": 8, "characters": 6 + 3 + 1 + 7 + 1 + 2 + 1},
        "exact_duplicates": {"documents": 2, "lines": 3, "characters": 7 + 1 + 1},
    }


def test_short_documents(tmp_path):
    documents = [["one two", "three"], ["one two"], ["日本語"], ["1 2"]]
    train, _, report = clean(tmp_path, documents, Cleaning(min_document_words=3))
    assert train == [["one two", "three"], ["日本語"]]
    assert report["short"] == {"documents": 2, "lines": 2, "characters": 7 + 3}


def test_warning_about_a_filter_that_removes_much(tmp_path, messages):
    clean(tmp_path, [["a b"], ["c"], ["d"]], Cleaning(min_document_words=2))
    assert any("too few words: removed 2 of 3 documents, 2 of 3 lines, 40.00 %" in line for line in messages)
    assert any("more than half, so look at the text and at the flag" in line for line in messages)


@pytest.mark.parametrize("chunk_bytes", [40, 300])
def test_chunks_and_files_do_not_change_the_result(tmp_path, monkeypatch, chunk_bytes):
    documents = random_documents(8, 2) + random_documents(4, 2)
    cleaning = Cleaning(remove_duplicates="exact", eval_share=0.3)
    expected = clean(tmp_path, documents, cleaning)
    assert len(expected[0]) + len(expected[1]) == 8
    monkeypatch.setattr(text_lines, "_CHUNK_BYTES", chunk_bytes)
    assert clean(tmp_path, documents, cleaning) == expected
    assert clean(tmp_path, documents, cleaning, num_files=3) == expected


@pytest.mark.parametrize("chunk_bytes", [2, 1 << 20])
def test_warnings_about_the_text_come_once(tmp_path, monkeypatch, messages, chunk_bytes):
    (tmp_path / "a").write_bytes(b"a\n\nb\n\xffc\nd\re\n")
    (tmp_path / "b").write_bytes(b"f\n\ng\n")
    monkeypatch.setattr(text_lines, "_CHUNK_BYTES", chunk_bytes)
    texts = [TextFile(str(tmp_path / name), str(tmp_path / name)) for name in "ab"]
    with WorkFolder(str(tmp_path / "folder")) as folder:
        work = Work(ThisProcess(None), folder, Progress())
        found = text_cleaning.clean_texts(texts, Cleaning(remove_duplicates="exact"), 1, False, work)
        assert "".join(pathlib.Path(text.path).read_text() for text in found.train) == "a\n\nb\nc\nde\nf\n\ng\n\n"
    assert sum("dropped 1 byte in 1 line" in line for line in messages) == 1
    assert sum("(1 such lines)" in line for line in messages) == 1
    assert sum("its last document continues in" in line for line in messages) == 1


def test_the_held_out_share_does_not_leak_and_keeps_its_place(tmp_path):
    documents = random_documents(600, 2)
    equal = [[line.upper() for line in lines] for lines in documents[:100]]
    train, held_out, report = clean(tmp_path, documents + equal, Cleaning(eval_share=0.2))
    sides = [{hash_of(lines) for lines in part} for part in (train, held_out)]
    assert not sides[0] & sides[1]
    assert len(train) + len(held_out) == 700
    assert report["held_out"]["documents"] == len(held_out) == pytest.approx(140, abs=40)
    shuffled = random.Random(4).sample(documents, 300)
    _, of_shuffled, _ = clean(tmp_path, shuffled, Cleaning(eval_share=0.2))
    assert {hash_of(lines) for lines in of_shuffled} <= sides[1]
    _, larger, _ = clean(tmp_path, documents, Cleaning(eval_share=0.4))
    assert sides[1] <= {hash_of(lines) for lines in larger}
    _, other_seed, _ = clean(tmp_path, documents, Cleaning(eval_share=0.2), seed=1)
    assert len(sides[1] & {hash_of(lines) for lines in other_seed}) < 60


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"min_document_words": -1}, "min_document_words=-1: -1 is not a whole number from 0"),
        ({"eval_share": 1.0}, "eval_share=1.0 is not a share"),
    ],
)
def test_mistakes(values, message):
    with pytest.raises(ValueError, match=message):
        Cleaning(**values)


def test_nothing_left(tmp_path):
    with pytest.raises(UnusableTextError, match="no document is left to train on"):
        clean(tmp_path, [["a"]], Cleaning(min_document_words=2))
    with pytest.raises(UnusableTextError, match="holds out none of 1 documents"):
        clean(tmp_path, [["a"]], Cleaning(eval_share=1e-9))


@pytest.fixture
def text(tmp_path):
    documents = random_documents(80, 4)
    documents += documents[:10]
    (tmp_path / "text.txt").write_text("\n\n".join("\n".join(lines) for lines in documents))
    return str(tmp_path / "text.txt")


def arguments(text, vocab_file, out):
    flags = {
        "input_file": text,
        "vocab_file": vocab_file,
        "output_file": f"{out}/train.tfrecord",
        "eval_output_file": f"{out}/eval.tfrecord",
        "eval_share": 0.2,
        "remove_duplicates": "exact",
        "max_seq_length": 32,
        "max_predictions_per_seq": 4,
        "dupe_factor": 2,
    }
    return ["create_pretraining_data.py", *(f"--{name}={value}" for name, value in flags.items())]


def read(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_program_writes_both_parts(text, letters_vocab_file, letters_tokenizer, tmp_path, capsys):
    command = arguments(text, letters_vocab_file, tmp_path / "out")
    summary = create_pretraining_data.main(command)
    assert sorted(read(tmp_path / "out")) == [f"{n}.tfrecord{e}" for n in ("eval", "train") for e in ("", ".json")]
    counts = summary["cleaning"]
    assert counts["exact_duplicates"]["documents"] == 10
    assert "exact duplicates: removed 10 of 90 documents" in capsys.readouterr().out
    assert summary["documents"] + summary["eval"]["documents"] == 80
    for name, part in (("train", summary), ("eval", summary["eval"])):
        file = tmp_path / "out" / f"{name}.tfrecord"
        metadata = json.loads(pathlib.Path(f"{file}.json").read_text())
        assert metadata["num_examples"] == part["instances"] == len(list(examples_of(str(file))))
        assert metadata["settings"]["eval_share"] == 0.2
    found = measure_text(
        Build(
            [text],
            [],
            letters_tokenizer,
            PretrainingDataSettings(32, 4),
            cleaning=Cleaning(remove_duplicates="exact", eval_share=0.2),
        )
    )
    assert (found.cleaning, found.documents) == (counts, summary["documents"])


def test_share_and_files_need_each_other(text, letters_vocab_file, tmp_path):
    command = arguments(text, letters_vocab_file, tmp_path / "out")
    for left_out, message in (
        ("--eval_share", "eval_output_file is given without"),
        ("--eval_output_file", "is given"),
    ):
        with pytest.raises(ValueError, match=message):
            create_pretraining_data.main([flag for flag in command if not flag.startswith(left_out)])
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_workers_and_an_interruption_change_nothing(text, letters_vocab_file, tmp_path, monkeypatch):
    command = arguments(text, letters_vocab_file, tmp_path / "out")
    alone = create_pretraining_data.main(command)
    expected = create_pretraining_data.main([*command, "--num_workers=2"])
    files = read(tmp_path / "out")
    same = ("documents", "sentences", "tokens", "cleaning")
    assert {name: alone[name] for name in same} == {name: expected[name] for name in same}
    assert alone["eval"]["tokens"] == expected["eval"]["tokens"]
    assert create_pretraining_data.main([*command, "--num_workers=3"]) == expected
    assert read(tmp_path / "out") == files
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    for module, name, at in (
        (text_cleaning, "_choose", 1),
        (builder, "tokenize_texts", 2),
        (builder, "write_all", 2),
        (builder, "publish", 1),
    ):
        with monkeypatch.context() as patch:
            calls, original = [], getattr(module, name)

            def fail(*args, calls=calls, original=original, at=at, **kwargs):
                calls.append(args)
                if len(calls) == at:
                    raise KeyboardInterrupt
                return original(*args, **kwargs)

            patch.setattr(module, name, fail)
            with pytest.raises(KeyboardInterrupt):
                create_pretraining_data.main([*command, "--num_workers=2"])
        assert not [path for path in (tmp_path / "out").iterdir() if path.name.endswith(("tfrecord", ".json"))]
    assert create_pretraining_data.main([*command, "--num_workers=2"]) == expected
    assert read(tmp_path / "out") == files
