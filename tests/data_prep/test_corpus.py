"""Text tokenised by several processes gives the same documents as one process, however the text is split into tasks."""

import gzip
import os

import pytest
from tokenized import read_documents, tokenize_files

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus import text_lines
from bert_keras.data_prep.corpus.workers import ThisProcess, Work, Workers, WorkFolder

TEXTS = {
    "0.txt": b"\n\n ab cd \r\nefg\n\n\n\x00\n\nhi",
    "1.txt": b"jk\n\n\nl\x0cm no\rpq\n\xff\xfe r\n",
    "2.txt": b"\n\nst\xe2\x82\nuvw\n",
    "3.txt": b"\n \n",
    "4.txt": b"xyz",
}


def content(documents):
    arrays = (documents.tokens, documents.sentence_starts, documents.document_starts)
    spans = [documents.sentences(index) for index in range(len(documents))]
    return [list(array) for array in arrays], spans, documents.num_sentences


def write(folder, texts):
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return [str(folder / name) for name in texts]


@pytest.fixture
def tokenize(letters_tokenizer, tmp_path, monkeypatch):
    with Workers(2, (letters_tokenizer,)) as workers:

        def tokenize(name, files, chunk_bytes):
            monkeypatch.setattr(text_lines, "_CHUNK_BYTES", chunk_bytes)
            with WorkFolder(str(tmp_path / name)) as folder:
                return tokenize_files(files, letters_tokenizer, Work(workers, folder, Progress()))

        yield tokenize


def test_documents_and_warnings_are_those_of_one_process(tokenize, letters_tokenizer, tmp_path, messages):
    files = write(tmp_path, TEXTS)
    expected = read_documents(files, letters_tokenizer)
    told = messages.copy()
    assert len(told) == 3
    for chunk_bytes in (1, 3, 1000):
        documents, num_unknown = tokenize(f"work{chunk_bytes}", files, chunk_bytes)
        assert content(documents) == content(expected)
        assert num_unknown == list(expected.tokens).count(1)
        assert messages == told * (2 + (1, 3, 1000).index(chunk_bytes))
        documents.release()
        assert content(documents) == content(expected)
    assert sorted(path.name for path in (tmp_path / "work3").iterdir()) == [
        "corpus.json",
        "document_starts",
        "lock",
        "sentence_starts",
        "tokens",
    ]


def test_lines_are_counted_once_for_all_of_the_text(letters_tokenizer, tmp_path, monkeypatch, messages):
    """Every chunk has invalid UTF-8 and carriage returns; the reported line is the first one in the archive."""
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"ok\n" * 7 + b"a\xff\nb\rc\n" * 30))
    monkeypatch.setattr(text_lines, "_CHUNK_BYTES", 5)
    counted, line_of = [], text_lines.line_of
    monkeypatch.setattr(text_lines, "line_of", lambda place: counted.append(place) or line_of(place))
    with WorkFolder(str(tmp_path / "work")) as folder:
        for _ in range(2):  # the second time, all tasks are already finished
            work = Work(ThisProcess((letters_tokenizer,)), folder, Progress())
            tokenize_files([str(tmp_path / "text.gz")], letters_tokenizer, work)
            assert messages[-2].startswith(f"{tmp_path}/text.gz line 8: not valid UTF-8; dropped 30 bytes in 30 lines")
            assert messages[-1].startswith(f"{tmp_path}/text.gz line 9: a carriage return inside the line is dropped")
        assert not any(name.startswith("text-") for name in os.listdir(folder.path))
    assert len(counted) == 2
