"""Text files into documents of token ids: one sentence a line, a blank line between documents."""

import collections
import contextlib
import logging
import mmap
import os
import random
from array import array
from collections.abc import Sequence

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.text_lines import Dropped, TextFile, as_text_file, read_lines, text_warnings
from bert_keras.data_prep.corpus.text_sources import form_of
from bert_keras.data_prep.pretraining.masking import shuffle
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")


class Documents:
    """Documents as one flat array of token ids, with the places where sentences and documents start.

    A token takes two bytes (four where the vocabulary has more than 65,536 entries), a sentence and a document eight
    each, together about 0.6 of the size of English text.

    Args:
        vocab_size: int; every id is below it.

    Attributes:
        tokens: array of all ids, sentence after sentence.
        sentence_starts: array of the places in `tokens` where sentences start; closed by the length of `tokens`.
        document_starts: array of the sentences, as indices into `sentence_starts`, that documents start with; closed by
            the number of sentences.
    """

    def __init__(self, vocab_size: int):
        self.tokens = array(_typecode(vocab_size))
        self.sentence_starts = array("Q", [0])
        self.document_starts = array("Q", [0])
        self._order = array("Q")
        self._maps = []

    @classmethod
    def open(cls, files: Sequence[str], vocab_size: int) -> "Documents":
        """Returns the documents of three files with the three attributes; their content stays on disk."""
        documents = cls(vocab_size)
        views = []
        for file, typecode in zip(files, (_typecode(vocab_size), "Q", "Q"), strict=True):
            with open(file, "rb") as content:
                documents._maps.append(mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ))
            views.append(memoryview(documents._maps[-1]).cast(typecode))
        documents.tokens, documents.sentence_starts, documents.document_starts = views
        documents._order = range(len(documents.document_starts) - 1)
        return documents

    def close(self) -> None:
        """Closes the files of documents on disk, which can then be deleted on every system. Nothing can be read after.

        Documents in memory stay as they are.
        """
        if self._maps:
            views = (self.tokens, self.sentence_starts, self.document_starts)
            for end in [*(view.release for view in views), *(content.close for content in self._maps)]:
                with contextlib.suppress(BufferError):  # after an error, something may still look at a part
                    end()

    def release(self) -> None:
        """Gives back the memory that documents on disk take; what is asked for next is read again."""
        for content in self._maps:
            if hasattr(mmap, "MADV_DONTNEED"):
                content.madvise(mmap.MADV_DONTNEED)

    def __len__(self) -> int:
        """The number of documents; one that is not ended yet does not count."""
        return len(self._order)

    @property
    def num_sentences(self) -> int:
        """int; the sentences of all documents."""
        return len(self.sentence_starts) - 1

    @property
    def is_open(self) -> bool:
        """Whether sentences were added since the last document ended."""
        return self.num_sentences > self.document_starts[-1]

    def add_sentence(self, ids: list[int]) -> None:
        """Adds a sentence to the current document; one without tokens is left out."""
        if ids:
            self.tokens.fromlist(ids)
            self.sentence_starts.append(len(self.tokens))

    def end_document(self) -> None:
        """Ends the current document, if it has a sentence."""
        if self.is_open:
            self._order.append(len(self))
            self.document_starts.append(self.num_sentences)

    def shuffle(self, rng: random.Random) -> None:
        """Puts the documents into a random order, drawn as the original draws it."""
        shuffle(self._order, rng)

    def sentences(self, index: int) -> tuple[int, int]:
        """Returns the sentences [first, end) of a document, as indices into `sentence_starts`."""
        document = self._order[index]
        return self.document_starts[document], self.document_starts[document + 1]


def find_text_files(patterns: str) -> list[str]:
    """Finds the files of a comma-separated list of globs, local or remote.

    Differs from the original: the files of one glob are sorted (the original leaves the order to the file system), and
    `*` does not match hidden files.

    Returns:
        The files, glob after glob.

    Raises:
        FileNotFoundError: a glob matches nothing.
        ValueError: an empty name between two commas.
    """
    files = []
    for pattern in patterns.split(","):
        pattern = pattern.strip()
        if not pattern:
            raise ValueError(f'--input_file="{patterns}" has an empty name next to a comma; remove the comma')
        matches = paths.find(pattern)
        if not matches:
            where = "" if paths.is_remote(pattern) else f" (from the folder {os.getcwd()})"
            raise FileNotFoundError(f'--input_file: "{pattern}" matches no file{where}')
        files += matches
    return files


def check_text_files(files: list[str]) -> None:
    """Checks that every file can be read and holds text; warns where one is named twice.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: none is given, one is a folder, a pipe or a device, cannot be opened, is empty, or is not text.
    """
    if not files:
        raise ValueError("no input file is given; name at least one text file")
    for file in files:
        if paths.is_dir(file):
            raise ValueError(f'the input "{file}" is a folder; name its files, for example "{paths.join(file, "*")}"')
        if paths.exists(file) and not paths.is_file(file):
            raise ValueError(
                f'the input "{file}" is not an ordinary file, but a pipe or a device; write its text to a file first'
            )
        try:
            form = form_of(file)
        except FileNotFoundError:
            raise FileNotFoundError(f'there is no input file "{file}"; check the path') from None
        except OSError as error:
            raise ValueError(f'the input file "{file}" cannot be read: {error.strerror or error}') from error
        if form.encoding != "utf-8":
            log.info("%s: read as %s, as its byte order mark says", file, form.encoding.upper())
    twice = [file for file, count in collections.Counter(files).items() if count > 1]
    if twice:
        log.warning("%s is given more than once and read as often, as the original does", ", ".join(twice))


def read_documents(
    files: Sequence[str | TextFile], tokenizer, strict_utf8: bool = False, progress: Progress | None = None
) -> Documents:
    """Reads and tokenizes text files: one sentence a line, a blank line after each document.

    As in the original the end of a file does not end a document: without a blank line the last document of a file
    continues in the next file; a line in the log says so.

    Args:
        files: local files of UTF-8 lines, read in this order.
        tokenizer: a `FullTokenizer`.
        strict_utf8: refuses text that is not UTF-8, instead of dropping the offending bytes.
        progress: is told of the bytes read.

    Returns:
        The documents in the order of the files.

    Raises:
        UnusableTextError: text that is not UTF-8, with `strict_utf8`, naming file and line.
        OSError: a file cannot be read.
    """
    progress = progress or Progress()
    documents = Documents(max(tokenizer.vocab.values()) + 1)
    dropped, continuing = Dropped(), []
    texts = [as_text_file(file) for file in files]
    progress.start("reading", sum(os.path.getsize(text.path) for text in texts), "bytes")
    for number, file in enumerate(texts):
        for size, line in read_lines(file, dropped, strict_utf8):
            if line:
                documents.add_sentence(tokenizer.encode(line))
            else:
                documents.end_document()
            progress.advance(size)
        if strict_utf8:
            dropped.refuse_invalid()
        if documents.is_open and number + 1 < len(texts):
            continuing.append((file.name, texts[number + 1].name))
    documents.end_document()
    progress.finish()
    for warning in text_warnings(dropped, continuing):
        log.warning("%s", warning)
    return documents


def _typecode(vocab_size: int) -> str:
    return "H" if vocab_size <= 1 << 16 else "I"
