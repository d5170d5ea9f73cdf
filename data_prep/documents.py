"""Text files into documents of token ids: one sentence a line, a blank line between documents."""

import collections
import glob
import logging
import os
import random
from array import array
from collections.abc import Iterator

from data_prep.masking import shuffle
from data_prep.progress import Progress
from data_prep.records import is_address

log = logging.getLogger("bert_keras")


class Documents:
    """Documents as one flat array of token ids, with the places where sentences and documents start.

    A token takes two bytes (four where the vocabulary has more than 65,536 entries), a sentence and a document eight
    each, so a corpus fits in memory at about a third of the size of its text.

    Args:
        vocab_size: int; every id is below it.

    Attributes:
        tokens: array of all ids, sentence after sentence.
        sentence_starts: array of the places in `tokens` where sentences start; closed by the length of `tokens`.
    """

    def __init__(self, vocab_size: int):
        self.tokens = array("H" if vocab_size <= 1 << 16 else "I")
        self.sentence_starts = array("Q", [0])
        self._document_starts = array("Q", [0])
        self._order = array("Q")

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
        return self.num_sentences > self._document_starts[-1]

    def add_sentence(self, ids: list[int]) -> None:
        """Adds a sentence to the current document; one without tokens is passed over."""
        if ids:
            self.tokens.fromlist(ids)
            self.sentence_starts.append(len(self.tokens))

    def end_document(self) -> None:
        """Ends the current document, if it has a sentence."""
        if self.is_open:
            self._order.append(len(self))
            self._document_starts.append(self.num_sentences)

    def shuffle(self, rng: random.Random) -> None:
        """Puts the documents into a random order, drawn as the release draws it."""
        shuffle(self._order, rng)

    def sentences(self, index: int) -> tuple[int, int]:
        """Returns the sentences [first, end) of a document, as indices into `sentence_starts`."""
        document = self._order[index]
        return self._document_starts[document], self._document_starts[document + 1]


def find_text_files(patterns: str) -> list[str]:
    """Finds the files of a comma-separated list of globs.

    Differs from the release: the files of one glob come sorted (the release leaves the order to the file system), and
    `*` does not match hidden files.

    Returns:
        The files, glob after glob.

    Raises:
        FileNotFoundError: a glob matches nothing.
        ValueError: an empty name between two commas, or an address as gs://bucket/file.
    """
    files = []
    for pattern in patterns.split(","):
        pattern = pattern.strip()
        if not pattern:
            raise ValueError(f'--input_file="{patterns}" has an empty name beside a comma; remove the comma')
        if is_address(pattern):
            raise ValueError(
                f'--input_file: "{pattern}" is an address, but text is read from local files; copy it to this machine'
            )
        matches = sorted(glob.glob(pattern))
        if not matches and os.path.exists(pattern):
            matches = [pattern]  # a name with characters that mean something in a pattern
        if not matches:
            raise FileNotFoundError(f'--input_file: "{pattern}" matches no file (from the folder {os.getcwd()})')
        files += matches
    return files


def check_text_files(files: list[str]) -> None:
    """Checks that every file can be read and holds something; warns where one is named twice.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: none is given, one is a folder, a pipe or a device, cannot be opened, or is empty.
    """
    if not files:
        raise ValueError("no input file is given; name at least one text file")
    for file in files:
        if os.path.isdir(file):
            raise ValueError(f'the input "{file}" is a folder; name its files, for example "{os.path.join(file, "*")}"')
        if os.path.exists(file) and not os.path.isfile(file):
            raise ValueError(
                f'the input "{file}" is not an ordinary file, but a pipe or a device; write its text to a file first'
            )
        try:
            with open(file, "rb"):
                is_empty = not os.path.getsize(file)
        except FileNotFoundError:
            raise FileNotFoundError(f'there is no input file "{file}"; check the path') from None
        except OSError as error:
            raise ValueError(f'the input file "{file}" cannot be read: {error.strerror}') from error
        if is_empty:
            raise ValueError(f'the input file "{file}" is empty; leave it out, or look at how it was made')
    twice = [file for file, count in collections.Counter(files).items() if count > 1]
    if twice:
        log.warning("%s is given more than once and read as often, as the release does", ", ".join(twice))


def read_documents(
    files: list[str], tokenizer, strict_utf8: bool = False, progress: Progress | None = None
) -> Documents:
    """Reads and tokenizes text files: one sentence a line, a blank line after each document.

    As in the release the end of a file does not end a document: without a blank line the last document of a file
    continues in the next file; a line in the log says so.

    Args:
        files: paths, read in this order.
        tokenizer: a `FullTokenizer`.
        strict_utf8: refuses text that is not UTF-8, instead of dropping the offending bytes.
        progress: is told of the bytes read.

    Returns:
        The documents in the order of the files.

    Raises:
        ValueError: text that is not UTF-8, with `strict_utf8`, naming file and line.
    """
    progress = progress or Progress()
    documents = Documents(max(tokenizer.vocab.values()) + 1)
    lines = _Lines(strict_utf8)
    encode, continuing = tokenizer.encode, []
    progress.start("reading", sum(map(os.path.getsize, files)), "bytes")
    for number, file in enumerate(files):
        for size, line in lines.read(file):
            if line:
                documents.add_sentence(encode(line))
            else:
                documents.end_document()
            progress.advance(size)
        if documents.is_open and number + 1 < len(files):
            continuing.append((file, files[number + 1]))
    documents.end_document()
    progress.finish()
    lines.report()
    if continuing:
        log.warning(
            "%s ends without a blank line, so its last document continues in %s, as in the release%s",
            *continuing[0],
            f"; {len(continuing) - 1} more files end so" if len(continuing) > 1 else "",
        )
    return documents


class _Lines:
    """Reads lines of text as the release does, and keeps count of what is dropped from them."""

    def __init__(self, strict_utf8: bool):
        self._strict_utf8 = strict_utf8
        self._num_invalid_lines = self._num_invalid_bytes = self._num_returns = 0
        self._first_invalid = self._first_return = ""

    def read(self, file: str) -> Iterator[tuple[int, str]]:
        """Yields the size in bytes and the stripped text of each line."""
        with open(file, "rb") as content:
            for number, line in enumerate(content, 1):
                size = len(line)
                if b"\r" in line:
                    line = self._drop_returns(line, f"{file} line {number}")
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    text = self._drop_invalid(line, f"{file} line {number}", error)
                yield size, text.strip()

    def report(self) -> None:
        """Writes to the log what was dropped."""
        if self._num_invalid_lines:
            log.warning(
                "%s: not valid UTF-8; dropped %d bytes in %d lines, as the release does (--strict_utf8 refuses them)",
                self._first_invalid,
                self._num_invalid_bytes,
                self._num_invalid_lines,
            )
        if self._num_returns:
            log.warning(
                "%s: a carriage return inside the line is dropped and joins the words beside it, as in the release "
                "(%d such lines); end lines with a line feed",
                self._first_return,
                self._num_returns,
            )

    def _drop_returns(self, line: bytes, place: str) -> bytes:
        # The release's file layer removes them wherever they stand, not only at the end of a line.
        if b"\r" in line.rstrip(b"\r\n"):
            self._first_return = self._first_return or place
            self._num_returns += 1
        return line.replace(b"\r", b"")

    def _drop_invalid(self, line: bytes, place: str, error: UnicodeDecodeError) -> str:
        if self._strict_utf8:
            raise ValueError(
                f"{place}: byte 0x{line[error.start]:02x} is not valid UTF-8; convert the file to UTF-8, "
                "or leave out --strict_utf8 to drop such bytes"
            ) from None
        text = line.decode("utf-8", "ignore")
        self._first_invalid = self._first_invalid or place
        self._num_invalid_lines += 1
        self._num_invalid_bytes += len(line) - len(text.encode("utf-8"))
        return text
