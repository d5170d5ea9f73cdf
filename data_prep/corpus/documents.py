"""Documents of token ids, and the text files that they come from."""

import contextlib
import json
import logging
import mmap
import os
from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

from bert_keras.data_prep.corpus.raw_text import RELEASE, TextOptions
from bert_keras.data_prep.corpus.text_sources import inspect_text
from bert_keras.data_prep.records.writing import metadata_file
from bert_keras.mistakes import MissingFile, Mistake, several, some_of
from bert_keras.storage import paths
from bert_keras.storage.inspection import FileForm
from bert_keras.storage.json_rows import name_of

log = logging.getLogger("bert_keras")

_FORMATS = {"json": "JSON lines", "parquet": "Parquet", "arrow": "Arrow", "csv": "CSV", "tsv": "TSV"}
_FORMATS |= {"wiki": "the output of WikiExtractor"}
_STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")  # a worker process has another stream there
_Typecode = Literal["H", "I", "Q"]


class Documents:
    """Documents as one flat array of token ids, with the start positions of sentences and documents.

    A token takes two bytes, or four if the vocabulary has more than 65,536 entries. A sentence takes 8 bytes, a
    document 16 (8 on disk). The total is about 0.6 times the size of English text.
    """

    def __init__(self, vocab_size: int):
        # Any: an array, or a memoryview of a file.
        self.tokens: Any = array(_typecode(vocab_size))
        self.sentence_starts: Any = array("Q", [0])  # indices in `tokens`; ends with the length of `tokens`
        self.document_starts: Any = array("Q", [0])  # indices in `sentence_starts`; ends with the number of sentences
        self.order: Any = array("Q")  # of the documents
        self._maps = []

    @classmethod
    def open(cls, files: Sequence[str], vocab_size: int) -> "Documents":
        """Memory-maps documents from three files, one for each attribute."""
        documents = cls(vocab_size)
        views = []
        typecodes: tuple[_Typecode, ...] = (_typecode(vocab_size), "Q", "Q")
        for file, typecode in zip(files, typecodes, strict=True):
            with open(file, "rb") as content:
                documents._maps.append(mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ))
            views.append(memoryview(documents._maps[-1]).cast(typecode))
        documents.tokens, documents.sentence_starts, documents.document_starts = views
        documents.order = range(len(documents.document_starts) - 1)
        return documents

    def close(self) -> None:
        """Closes memory-mapped files, so that every system can delete them; the documents are unusable afterwards."""
        if self._maps:
            views = (self.tokens, self.sentence_starts, self.document_starts)
            for end in [*(view.release for view in views), *(content.close for content in self._maps)]:
                with contextlib.suppress(BufferError):  # after an error, other objects may still use a view
                    end()

    def release(self) -> None:
        """Frees the memory of memory-mapped documents; the next access reads from disk again."""
        for content in self._maps:
            if hasattr(mmap, "MADV_DONTNEED"):
                content.madvise(mmap.MADV_DONTNEED)

    def __len__(self) -> int:
        return len(self.order)

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_starts) - 1

    def add_sentence(self, parts: Iterable[list[int]]) -> None:
        """Adds a sentence, as parts of its ids, to the current document; ignores one without tokens."""
        for ids in parts:
            self.tokens.fromlist(ids)
        if len(self.tokens) > self.sentence_starts[-1]:
            self.sentence_starts.append(len(self.tokens))

    def end_document(self) -> None:
        """Ends the current document; ignores one without sentences."""
        if self.num_sentences > self.document_starts[-1]:
            self.order.append(len(self))
            self.document_starts.append(self.num_sentences)

    def sentences(self, index: int) -> tuple[int, int]:
        """Returns the sentences [first, end) of a document, as indices into `sentence_starts`."""
        document = self.order[index]
        return self.document_starts[document], self.document_starts[document + 1]


def find_text_files(patterns: str, own_files: Collection[str] = ()) -> list[str]:
    """Finds the files of a comma-separated list of globs and folders, local or remote; each needs to have a file.

    Differs from the original BERT: the files of a glob are sorted, not in file system order; `*` skips hidden files.
    A folder gives all its files, also those in folders inside, except for names that begin with "." or "_". A folder
    that `save_to_disk` of the package datasets wrote gives its Arrow files. Folders and globs leave out records, and
    the `own_files` that the program reads or writes for another purpose.
    """
    files = []
    for pattern in patterns.split(","):
        pattern = pattern.strip()
        if not pattern:
            raise Mistake('{input_file}="{}" has an empty name next to a comma; remove the comma', patterns)
        if pattern in _STANDARD_INPUT:
            files.append("-")
            continue
        matches = paths.find(pattern)
        if not matches:
            where = "" if paths.is_remote(pattern) else f" (from the folder {os.getcwd()})"
            raise MissingFile('{input_file}: "{}" matches no file{}', pattern, where)
        found = [file for match in matches for file in (_files_of(match) if paths.is_dir(match) else [match])]
        if found != [pattern]:
            found = _without_own(found, own_files, pattern)
        if not found:
            raise MissingFile('{input_file}: "{}" has no text files; give a folder with text files', pattern)
        if len(found) > len(matches):
            log.info("%s: found %s", pattern, several(len(found), "files"))
        files += found
    return files


def _without_own(files: list[str], own_files: Collection[str], pattern: str) -> list[str]:
    """Returns the files without records, their metadata and `own_files`, which the log names."""
    own, known = {paths.real(file) for file in own_files}, {*files}
    for file in files:
        note = metadata_file(file)
        if note in known and b'"num_examples"' in paths.read_bytes(note):
            own |= {paths.real(file), paths.real(note)}
    left_out = [file for file in files if paths.real(file) in own]
    if left_out:
        file_names = some_of(left_out, 3, kind=" files")
        log.info("%s: left out %s: records and a vocabulary are not text", pattern, file_names)
    return [file for file in files if paths.real(file) not in own]


def _files_of(folder: str, above: Collection[object] = ()) -> list[str]:
    """Returns the files of a folder and of the folders inside, sorted.

    A link to a folder `above`, given by their ids, would lead in a circle.
    """
    above = {*above, paths.file_id(folder)}
    names = [name for name in paths.list_dir(folder) if not name.startswith((".", "_"))]
    if "dataset_dict.json" in names:
        splits = [name for name in names if paths.is_dir(paths.join(folder, name))]
        raise Mistake(
            '{input_file}: "{}" is a dataset with the splits {}; name one of them, for example "{}"',
            folder,
            [*splits],
            paths.join(folder, *splits[:1]),
        )
    if {"state.json", "dataset_info.json"} <= {*names}:
        try:
            state = json.loads(paths.read_text(paths.join(folder, "state.json")))
            return [paths.join(folder, part["filename"]) for part in state["_data_files"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Mistake("{}/state.json does not list the dataset's files; save it again", folder) from None
    found = []
    for path in (paths.join(folder, name) for name in names):
        if not paths.is_dir(path):
            found.append(path)
        elif paths.file_id(path) in above:
            log.warning("%s is a link to a folder that it is in; left out", path)
        else:
            found += _files_of(path, above)
    return found


def inspect_texts(files: Sequence[str], options: TextOptions = RELEASE) -> list[FileForm]:
    """Looks at each file, and returns how to read it; warns about files given more than once.

    Raises an error unless every file is readable text, also in the first row of JSON lines, Parquet and Arrow. Options
    that fit none of the files are an error, too.
    """
    if not files:
        raise Mistake("no input file is given; name at least one text file")
    forms = []
    for file in files:
        if paths.is_dir(file):
            raise Mistake('the input "{}" is a folder; name its files', file)
        if paths.is_special(file):
            raise Mistake(
                'the input "{}" is not an ordinary file, but a pipe or a device; write its text to a file first', file
            )
        try:
            forms.append(inspect_text(file, options))
        except FileNotFoundError:
            raise FileNotFoundError(f'the input file "{file}" does not exist; check the path') from None
        except OSError as error:
            raise Mistake('the input file "{}" cannot be read: {}', file, error.strerror or error) from error
        if forms[-1].format != "text":
            log.info("%s: read as %s", file, _FORMATS[forms[-1].format])
    formats = {form.format for form in forms}
    if options.text_field and formats <= {"text", "wiki"}:
        raise Mistake(
            "{text_field}={} names a field of JSON lines, or a column, but {} and the other files are "
            "text; leave it out",
            options.text_field,
            files[0],
        )
    if options.documents != "blank_line" and "text" not in formats:
        raise Mistake(
            "{documents}={} is for text files, but {} has one document a row; leave it out",
            options.documents,
            name_of(files[0]),
        )
    if twice := paths.given_twice(files):
        log.warning("%s is given more than once; reading it each time, as the original does", some_of(twice, 5))
    return forms


def _typecode(vocab_size: int) -> _Typecode:
    return "H" if vocab_size <= 1 << 16 else "I"
