"""Texts and documents of files, for tests."""

import contextlib

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.documents import inspect_texts
from bert_keras.data_prep.corpus.raw_text import RELEASE
from bert_keras.data_prep.corpus.text_sources import local_texts
from bert_keras.data_prep.corpus.tokenized_corpus import tokenize_texts
from bert_keras.data_prep.corpus.workers import ThisProcess, Work, temporary_work


@contextlib.contextmanager
def opened_texts(files, options=RELEASE, work_dir=None):
    """Yield the readable texts of files."""
    with temporary_work(work_dir) as folder:
        yield local_texts(inspect_texts(files, options), Work(ThisProcess(None), folder, Progress()), options)


def read_documents(files, tokenizer, strict_utf8=False, options=RELEASE):
    """Read and tokenize text files in this process."""
    with temporary_work(None) as folder:
        work = Work(ThisProcess((tokenizer,)), folder, Progress())
        return tokenize_files(files, tokenizer, work, strict_utf8, options)[0]


def tokenize_files(files, tokenizer, work, strict_utf8=False, options=RELEASE):
    """Read and tokenize text files; return documents and number of unknown tokens."""
    forms = inspect_texts(files, options)
    return tokenize_texts(lambda: local_texts(forms, work, options), tokenizer, strict_utf8, work)
