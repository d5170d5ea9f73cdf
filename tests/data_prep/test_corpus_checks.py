"""Warnings about a corpus before examples are built: unsuitable text and missing disk space."""

import dataclasses
import gzip
import os
import random
import shutil
from types import SimpleNamespace

import pytest
from tokenized import read_documents

from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.raw_text import TextOptions
from bert_keras.data_prep.corpus.workers import ThisProcess
from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
from bert_keras.data_prep.pretraining.corpus_checks import check_documents, tell_need
from bert_keras.data_prep.pretraining.estimates import tell_room
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.pretraining.statistics import measure_text
from bert_keras.data_prep.text.tokenization import FullTokenizer

SETTINGS = PretrainingDataSettings(32, 5)
RANDOM_NEXT = ", so that all of their examples have a random next sentence"
REMEDY = "put one sentence on each line, and a blank line after each document, or give split_sentences"


def documents_of(*lengths):
    """Makes documents from the token counts of their sentences."""
    documents = Documents(10)
    for sentences in lengths:
        for length in sentences:
            documents.add_sentence([[1] * length])
        documents.end_document()
    return documents


def told(messages, documents, settings=SETTINGS):
    messages.clear()
    check_documents(documents, ["text"], settings)
    return [message for message in messages if "paragraph" in message]


def test_warning_about_one_paragraph_a_line(messages):
    [warning] = told(messages, documents_of([100], [100], [10, 10], [100]))
    assert warning == (
        f"the text seems to have one paragraph a line: 75 % of the documents have a single line{RANDOM_NEXT}, and at "
        f"least 67 % of the tokens are cut off, because their lines are longer than an example; {REMEDY}"
    )
    [warning] = told(messages, documents_of([100, 80], [60, 90]))  # paragraphs, with blank lines between documents
    assert "a line: at least 65 % of the tokens are cut off" in warning
    [warning] = told(messages, documents_of([3], [4], [5]))  # sentences, with blank lines between them
    assert warning.endswith(f"a line: 100 % of the documents have a single line{RANDOM_NEXT}; {REMEDY}")
    [warning] = told(
        messages, documents_of([100], [90]), PretrainingDataSettings(32, 5, sentence_task="sentence_order")
    )
    assert "100 % of the documents have a single line, and at least 69 % of the tokens are cut off" in warning


def test_the_warning_knows_that_sentences_are_split_already(messages, tmp_path):
    text, vocab = tmp_path / "text.txt", tmp_path / "vocab.txt"
    text.write_text("a b a b\n\nb a\n\na b\n")
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")
    for options in (TextOptions(split_sentences=True), TextOptions()):
        for num_workers in (1, 2):
            messages.clear()
            build_pretraining_data(
                Build(
                    [str(text)],
                    [str(tmp_path / "out")],
                    FullTokenizer(str(vocab)),
                    SETTINGS,
                    num_workers=num_workers,
                    text_options=options,
                )
            )
            [warning] = [message for message in messages if "100 % of the documents" in message]
            if options.split_sentences:
                assert warning == (
                    "split_sentences finds few ends of sentences: 100 % of the documents have a single sentence"
                    f"{RANDOM_NEXT}; check with documents where documents end; text without marks of sentences needs "
                    "another splitter"
                )
            else:
                assert warning.endswith(REMEDY)


def test_ordinary_text_is_not_warned_of(messages):
    assert told(messages, documents_of([10, 12, 40, 9], [11, 8], [20])) == []
    assert told(messages, documents_of([100], [100]), PretrainingDataSettings(32, 5, sentence_task="none")) == []
    assert told(messages, documents_of([5])) == []  # a single document has its own warning
    assert messages[-1].startswith("the text is a single document, so that random next sentences come from it as well")


def test_documents_on_disk_are_looked_at_part_by_part(tmp_path, messages, monkeypatch):
    monkeypatch.setattr("bert_keras.data_prep.pretraining.corpus_checks._AT_ONCE", 3)
    lengths = [[random.Random(number).randint(40, 60)] * (1 + number % 3) for number in range(20)]
    expected = told(messages, documents_of(*lengths))
    files = [str(tmp_path / name) for name in ("tokens", "sentences", "documents")]
    documents = documents_of(*lengths)
    for file, array in zip(
        files, (documents.tokens, documents.sentence_starts, documents.document_starts), strict=True
    ):
        with open(file, "wb") as output:
            array.tofile(output)
    on_disk = Documents.open(files, 10)
    monkeypatch.setattr("bert_keras.data_prep.pretraining.corpus_checks._AT_ONCE", 2)
    assert told(messages, on_disk) == expected != []
    on_disk.close()  # nothing uses the files any more
    with pytest.raises(ValueError, match="released"):
        on_disk.sentences(0)


@pytest.mark.parametrize("start_workers", [None, ThisProcess])
def test_warning_comes_before_examples_are_built(tmp_path, letters_tokenizer, messages, start_workers):
    (tmp_path / "text").write_text(("abcdefgh ijkl 7 " * 6 + "\n\n") * 9)
    settings = PretrainingDataSettings(16, 3, dupe_factor=1)
    text, output = str(tmp_path / "text"), str(tmp_path / "out")
    summary = build_pretraining_data(Build([text], [output], letters_tokenizer, settings, start_workers=start_workers))
    assert summary["random_next_share"] == 1
    assert summary["unknown_share"] == 1 / 13
    [place] = [number for number, message in enumerate(messages) if "one paragraph a line" in message]
    assert messages[place + 1].startswith("about ")
    assert messages[place + 2].startswith("instance 1, ")


@pytest.fixture
def needed(monkeypatch):
    """The arguments of each line about the disk."""
    found = []
    monkeypatch.setattr("bert_keras.data_prep.pretraining.estimates.tell_need", lambda *told: found.append(told))
    return found


@pytest.mark.parametrize("is_gzip", [False, True])
@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (("ab cd e\n" * 9 + "\n") * 50, PretrainingDataSettings(16, 3, dupe_factor=5)),
        ("ab c\n\n" * 300, PretrainingDataSettings(64, 10, dupe_factor=3)),
        ("ab c d\nef\n\n" * 300, PretrainingDataSettings(128, 20, dupe_factor=2)),
        ("ab cd\n" * 700, PretrainingDataSettings(32, 5, dupe_factor=2, sentence_task="none")),
    ],
)
def test_log_has_the_disk_space_that_examples_need(tmp_path, letters_tokenizer, needed, text, settings, is_gzip):
    (tmp_path / "text").write_text(text)
    output = tmp_path / "out"
    build = Build([str(tmp_path / "text")], [str(output)], letters_tokenizer, settings, is_gzip=is_gzip)
    summary = build_pretraining_data(build)
    [(num_bytes, folder, what)] = needed
    plain = summary["instances"] * len(gzip.decompress(output.read_bytes()) if is_gzip else output.read_bytes())
    plain /= summary["instances"]
    assert num_bytes == pytest.approx(plain + output.stat().st_size, rel=0.25)
    assert folder == str(tmp_path)
    assert int(what.split()[1].replace(",", "")) == pytest.approx(summary["instances"], rel=0.1)


def test_the_disk_of_each_output_is_looked_at(tmp_path, letters_tokenizer, needed, monkeypatch):
    """Folders whose names begin with disk are on disks of the same name."""
    (tmp_path / "text").write_text(("ab cd e\n" * 9 + "\n") * 50)
    plain = os.stat

    def stat(path, *args, **kwargs):
        found = plain(path, *args, **kwargs)
        name = os.path.basename(os.path.dirname(path) if str(path).endswith("out") else path)
        return SimpleNamespace(st_dev=name, st_mode=found.st_mode) if str(name).startswith("disk") else found

    folders = [tmp_path / name for name in ("work", "disk1", "disk2", "here")]
    for folder in folders:
        folder.mkdir()
    outputs = [str(tmp_path / name) for name in ("disk1/a", "disk1/b", "disk2/a", "here/a")]
    documents = read_documents([str(tmp_path / "text")], letters_tokenizer)
    build = Build([], outputs, letters_tokenizer, SETTINGS, work_dir=str(tmp_path / "work"))
    monkeypatch.setattr("bert_keras.data_prep.pretraining.estimates.os.stat", stat)
    tell_room(documents, build.tools, False, build.folder, outputs)
    monkeypatch.undo()
    assert [place for _, place, *_ in needed] == [str(tmp_path / name) for name in ("work", "disk1", "disk2")]
    work, first, second = (size for size, *_ in needed)
    assert (first, second) == (pytest.approx(work / 4), pytest.approx(work / 8))
    assert [told[3:] for told in needed] == [(), ("records need",), ("records need",)]


def test_too_little_disk_is_a_warning(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10, 9, 1))
    tell_need(2e6, str(tmp_path), "about 3 examples", "records need")
    assert caplog.records[-1].levelname == "WARNING"
    expected = f"about 3 examples: records need about 2.0 MB in {tmp_path}, where 0.0 MB are free"
    assert caplog.records[-1].getMessage() == expected


@pytest.mark.parametrize("text", ["ab c\n\n" * 900, "ab cd ef\ngh i\n\n" * 300, ("ab cd e\n" * 9 + "\n") * 50])
def test_a_dry_run_expects_the_examples_of_the_build_and_asks_for_no_disk(tmp_path, letters_tokenizer, text, messages):
    (tmp_path / "text").write_text(text)
    build = Build([str(tmp_path / "text")], [str(tmp_path / "out")], letters_tokenizer, SETTINGS)
    expected = measure_text(dataclasses.replace(build, work_dir=str(tmp_path)))
    assert not [message for message in messages if "unfinished work" in message or "records need" in message]
    summary = build_pretraining_data(build)
    assert expected.instances == pytest.approx(summary["instances"], rel=0.05)
    assert expected.num_bytes == pytest.approx((tmp_path / "out").stat().st_size, rel=0.1)
