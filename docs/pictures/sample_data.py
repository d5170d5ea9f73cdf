"""The sample text of the project, for pictures."""

import functools
import pathlib

from bert_keras import FullTokenizer

SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "data_prep" / "sample"
SAMPLE_TEXT = SAMPLE / "documents.txt"


@functools.cache
def sample_tokenizer():
    return FullTokenizer(SAMPLE / "vocab.txt")
