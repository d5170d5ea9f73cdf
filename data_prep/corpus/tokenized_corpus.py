"""Tokenizes a corpus of any size, also with several processes, into the three arrays of `Documents` on disk."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.text_lines import (
    Chunk,
    Dropped,
    TextFile,
    cut,
    noting_mistakes,
    pieces_of,
    read_lines,
    text_warnings,
)
from bert_keras.data_prep.corpus.workers import Work, WorkFolder
from bert_keras.data_prep.text.chinese_words import CorpusTokenizer, count_unknown
from bert_keras.mistakes import Message

log = logging.getLogger("bert_keras")

_ARRAYS = ("tokens", "sentence_starts", "document_starts")


def tokenize_texts(
    get_texts: Callable[[], Sequence[TextFile]], tokenizer: CorpusTokenizer, strict_utf8: bool, work: Work
) -> tuple[Documents, int]:
    """Tokenizes texts with one sentence per line and a blank line after each document; gets them only if needed.

    As in the original BERT, the end of a file does not end a document. Without a blank line, the last document of a
    file continues in the next file, with a warning in the log. Bytes that are not UTF-8 are dropped; with `strict_utf8`
    they raise UnusableTextError, which names file and line.

    The tokenizer must also be the first element of the workers' context. The work folder may hold results of an
    interrupted build. Returns the documents in the order of the files, and the number of `[UNK]` tokens.
    """
    corpus = work.folder.result("corpus")
    if corpus is None:
        texts = get_texts()
        chunks, sizes = cut(texts)
        tasks = {name: (parts, strict_utf8) for name, parts in chunks.items()}
        results = dict(work.run(_tokenize_chunk, tasks, "reading", sizes))
        corpus = _join({name: results[name] for name in chunks}, texts, work.folder)
    work.folder.remove("text-")
    for warning in corpus["warnings"]:
        log.warning(Message(*warning))
    if not corpus["num_documents"]:
        return Documents(tokenizer.vocab_size), 0
    return open_corpus(work.folder, tokenizer.vocab_size), corpus["num_unknown"]


def open_corpus(folder: WorkFolder, vocab_size: int) -> Documents:
    """Returns the documents that `tokenize_texts` wrote to a folder."""
    return Documents.open([folder.file(name) for name in _ARRAYS], vocab_size)


@noting_mistakes
def _tokenize_chunk(context: Sequence[Any], folder: WorkFolder, name: str, task: tuple[list[Chunk], bool]) -> dict:
    tokenizer, (chunks, strict_utf8) = context[0], task
    documents, dropped = Documents(tokenizer.vocab_size), Dropped()
    ends_a_document = False  # a document that started in an earlier task
    for line in read_lines(chunks, dropped, strict_utf8):
        if line:
            documents.add_sentence(map(tokenizer.encode, pieces_of(line)))
        else:
            ends_a_document = ends_a_document or not documents.num_sentences
            documents.end_document()
    files = []
    for array_name in _ARRAYS:
        with folder.create(f"{name}.{array_name}") as file:
            file.write(getattr(documents, array_name))
        files.append(file)
    result = {
        "num_unknown": count_unknown(documents.tokens, tokenizer),
        "ends_a_document": ends_a_document,
        "dropped": dataclasses.asdict(dropped),
    }
    return folder.finish(name, result, files)


def _join(results: Mapping[str, dict], texts: Sequence[TextFile], folder: WorkFolder) -> dict:
    """Copies the arrays of all chunks into one file each, and returns the result of the task "corpus".

    Random next sentences come from anywhere in the text. Looking up the chunk of each of them, and opening its file
    if too many are open, takes far longer than this copy.
    """
    num_tokens = num_sentences = num_documents = last_end = 0
    dropped = Dropped()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(folder.create(name)) for name in _ARRAYS]
        tokens, sentences, documents = files
        for starts in (sentences, documents):
            starts.write(np.zeros(1, np.uint64))
        for name, result in results.items():
            tokens.write(np.fromfile(folder.file(f"{name}.tokens"), np.uint8))
            sentence_starts, document_starts = (
                np.fromfile(folder.file(f"{name}.{starts}"), np.uint64) for starts in _ARRAYS[1:]
            )
            ends = np.concatenate([[0] if result["ends_a_document"] else [], document_starts[1:]])
            ends = ends.astype(np.uint64) + np.uint64(num_sentences)
            ends = ends[ends > last_end]
            last_end = int(ends[-1]) if len(ends) else last_end
            sentences.write(sentence_starts[1:] + np.uint64(num_tokens))
            documents.write(ends)
            num_tokens += int(sentence_starts[-1])
            num_sentences += len(sentence_starts) - 1
            num_documents += len(ends)
            dropped.add(Dropped(**result["dropped"]))
        if num_sentences > last_end:  # the last document ends with the text
            documents.write(np.array([num_sentences], np.uint64))
            num_documents += 1
    return folder.finish(
        "corpus",
        {
            "num_documents": num_documents,
            "num_unknown": sum(result["num_unknown"] for result in results.values()),
            "warnings": [(warning.text, *warning.values) for warning in text_warnings(dropped, texts)],
        },
        files,
    )
