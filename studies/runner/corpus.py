"""The text of a study: documents for training, held-out documents, a vocabulary and records."""

import hashlib
import itertools
import json
import logging
import pathlib
import random
from collections.abc import Sequence
from typing import Any

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.documents import find_text_files, inspect_texts
from bert_keras.data_prep.corpus.text_lines import Chunk, Dropped, read_lines, text_warnings
from bert_keras.data_prep.corpus.text_sources import local_texts
from bert_keras.data_prep.corpus.word_counts import count_words
from bert_keras.data_prep.corpus.workers import ThisProcess, Work, temporary_work
from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.text.learning import learn_vocabulary
from bert_keras.data_prep.text.tokenization import BasicTokenizer, FullTokenizer
from bert_keras.mistakes import Mistake
from bert_keras.storage.writing import write_text
from studies.runner.cells import Cells

log = logging.getLogger("bert_keras")

# One document of this many is held out.
_HELD_OUT = 50
_ALPHABET_SIZE = 200


def read_documents(patterns: str) -> list[str]:
    """Reads the documents of text files as the builder of examples does; the end of a file ends a document, too.

    Raises:
        ValueError: there are fewer than two documents.
    """
    documents = []
    forms = inspect_texts(sorted(find_text_files(patterns)))
    dropped = Dropped()
    with temporary_work(None) as folder:
        for text in local_texts(forms, Work(ThisProcess(None), folder, Progress())):
            groups = itertools.groupby(read_lines([Chunk(text)], dropped), bool)
            documents += ["\n".join(lines) for is_document, lines in groups if is_document]
        for warning in text_warnings(dropped, []):
            log.warning("%s", warning)
    if len(documents) < 2:
        raise Mistake(
            "{} has {} documents, but a study needs two or more; separate them by blank lines", patterns, len(documents)
        )
    return documents


class Corpus:
    """The text of a study, split and tokenized once.

    Attributes:
        digest: of the documents.
        folder: has train.txt, held_out.txt and vocab.txt.

    Args:
        documents: str each, one sentence a line.
        most_documents: number of documents to take at random; None: all.
    """

    def __init__(self, cells: Cells, documents: Sequence[str], most_documents: int | None, vocab_size: int) -> None:
        self._cells = cells
        documents = list(documents)
        random.Random(0).shuffle(documents)
        documents = documents[:most_documents]
        self.digest = hashlib.sha256("\n\n".join(documents).encode()).hexdigest()
        self._settings = {"corpus": self.digest, "vocab_size": vocab_size}
        self.folder = cells.path("corpus", self._settings)
        cells.get("corpus", self._settings, lambda folder: self._write(folder, documents, vocab_size))
        self.vocab_file = str(self.folder / "vocab.txt")

    def _write(self, folder, documents, vocab_size):
        held_out = documents[::_HELD_OUT]
        train = [document for number, document in enumerate(documents) if number % _HELD_OUT]
        for name, part in (("train.txt", train), ("held_out.txt", held_out)):
            write_text(folder / name, "\n\n".join(part) + "\n")
        counts = count_words(inspect_texts([str(folder / "train.txt")]), BasicTokenizer(True)).all
        pieces = learn_vocabulary(counts, vocab_size, num_unused=0, alphabet_size=_ALPHABET_SIZE)
        text = "".join(f"{piece}\n" for piece in pieces)
        write_text(folder / "vocab.txt", text)
        return {
            "documents": len(train),
            "held_out": len(held_out),
            "vocabulary": len(pieces),
            "vocab_sha256": hashlib.sha256(text.encode()).hexdigest(),
        }

    @property
    def vocab_size(self) -> int:
        """Number of word pieces that were learnt."""
        return self._cells.get("corpus", self._settings, lambda folder: {})["vocabulary"]

    def held_out_sentences(self, num_sentences: int) -> list[str]:
        """Returns random sentences of the held-out documents."""
        text = (self.folder / "held_out.txt").read_text(encoding="utf-8")
        sentences = sorted({line for line in text.splitlines() if line.strip()})
        random.Random(1).shuffle(sentences)
        return sentences[:num_sentences]

    def records(self, settings: dict[str, Any]) -> str:
        """Builds records of the documents to train on, with these settings of the examples; returns their path."""
        key = json.loads(json.dumps(self._settings | {"records": settings}))
        file = self._cells.path("records", key) / "train.tfrecord"

        def build(folder: pathlib.Path) -> dict[str, Any]:
            tokenizer = FullTokenizer(self.vocab_file, do_lower_case=True)
            text, made = str(self.folder / "train.txt"), PretrainingDataSettings(**settings)
            return dict(
                build_pretraining_data(Build([text], [str(folder / file.name)], tokenizer, made, self.vocab_file))
            )

        self._cells.get("records", key, build)
        return str(file)
