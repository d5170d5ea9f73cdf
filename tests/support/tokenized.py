"""Texts and documents of files, for tests."""

import contextlib

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.documents import inspect_texts
from bert_keras.data_prep.corpus.raw_text import RELEASE
from bert_keras.data_prep.corpus.text_sources import local_texts
from bert_keras.data_prep.corpus.tokenized_corpus import tokenize_corpus
from bert_keras.data_prep.corpus.workers import ThisProcess, temporary_work


@contextlib.contextmanager
def opened_texts(files, options=RELEASE, work_dir=None):
    """Yield the readable texts of files."""
    with temporary_work(work_dir) as folder:
        yield local_texts(inspect_texts(files, options), folder, ThisProcess(None).run, Progress(), options)


def read_documents(files, tokenizer, strict_utf8=False, options=RELEASE):
    """Read and tokenize text files in this process."""
    with temporary_work(None) as folder:
        texts, workers = inspect_texts(files, options), ThisProcess((tokenizer,))
        return tokenize_corpus(texts, tokenizer, strict_utf8, workers, folder, Progress(), options)[0]
