"""Documents of text files, for tests."""

import tempfile

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.documents import inspect_texts
from bert_keras.data_prep.corpus.raw_text import RELEASE
from bert_keras.data_prep.corpus.tokenized_corpus import tokenize_corpus
from bert_keras.data_prep.corpus.workers import ThisProcess, WorkFolder


def read_documents(files, tokenizer, strict_utf8=False, options=RELEASE):
    """Reads and tokenizes text files in this process."""
    with tempfile.TemporaryDirectory() as path, WorkFolder(path) as folder:
        texts, workers = inspect_texts(files, options), ThisProcess((tokenizer,))
        return tokenize_corpus(texts, tokenizer, strict_utf8, workers, folder, Progress(), options)[0]
