"""The files that a run of run_ner.py reads."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.data_prep.text.same_text import Key
from bert_keras.mistakes import Mistake, Setting
from bert_keras.settings.effects import refuse
from bert_keras.storage import paths
from bert_keras.storage.json_rows import has_json_rows
from bert_keras.tasks.dry_run.opening import ACTIONS, needed_files
from bert_keras.tasks.tables.held_out import with_part
from bert_keras.tasks.tagging.settings import USUAL_EVAL_FILE, NerSettings

# The names of the files in --data_dir.
_FILES = {"train_file": "train.txt", "eval_file": USUAL_EVAL_FILE, "predict_file": "test.txt"}


def find_files(settings: NerSettings) -> dict[str, str]:
    """Returns the paths of the files that the actions of the settings need, by flag name."""
    files = {}
    for name in needed_files(settings):
        path = getattr(settings, name) or (settings.data_dir and paths.join(settings.data_dir, _FILES[name]))
        if not path:
            also = ", or {eval_share} of {train_file}" if name == "eval_file" else ""
            raise Mistake(
                "{} needs {}, or {data_dir} with a {}" + also, Setting(ACTIONS[name]), Setting(name), _FILES[name]
            )
        files[name] = path
    return files


@dataclasses.dataclass(frozen=True)
class TaggedFile:
    """The sentences of a file, see `tasks.tables.held_out.Divisible`; with `document_context`, documents stay whole."""

    sentences: list[Sentence]
    document_context: bool = False

    @property
    def keys(self) -> list[Key]:
        if self.document_context:
            return [(sentence.document,) for sentence in self.sentences]
        return [sentence.placed.key for sentence in self.sentences]

    @property
    def strata(self) -> list[list[str]]:
        types = ({tag[2:] or "entity" for tag in sentence.tags or () if tag != "O"} for sentence in self.sentences)
        return [sorted(sentence_types) or [""] for sentence_types in types]

    @property
    def digest(self) -> str:
        """The SHA-256 of documents, words and tags; other columns and the file format do not matter."""
        digest = hashlib.sha256()
        for sentence in self.sentences:
            digest.update(json.dumps([sentence.document, sentence.words, sentence.tags]).encode("ascii"))
        return digest.hexdigest()

    def take(self, numbers: Iterable[int]) -> "TaggedFile":
        return TaggedFile([self.sentences[number] for number in numbers], self.document_context)


def split_sentences(
    settings: NerSettings, files: Mapping[str, list[Sentence]]
) -> tuple[dict[str, list[Sentence]], dict[str, str]]:
    """Divides the sentences of a run by `with_part`.

    Raises:
        ValueError: as there, or the documents that stay whole are one.
    """
    documents = {sentence.document for sentence in files.get("train_file", ())}
    if settings.holds_out and settings.document_context and len(documents) == 1:
        raise Mistake(
            "{}: {document_context} keeps documents whole, and all sentences are in one; leave it out, or give "
            "{eval_file}",
            settings.train_file,
        )
    divisible = {name: TaggedFile(sentences, settings.document_context) for name, sentences in files.items()}
    found, facts = with_part(settings, divisible, "sentences")
    return {name: file.sentences for name, file in found.items()}, facts


def check_columns(settings: NerSettings) -> None:
    """Refuses columns for files that have none."""
    files = find_files(settings).values()
    if all(map(has_json_rows, files)):
        reason = f"{', '.join(files)} has no columns, but JSON"
        refuse(settings, dict.fromkeys(("word_column", "tag_column"), reason))


def columns_of(settings: NerSettings, path: str) -> dict[str, Any]:
    """Returns the columns of a file as arguments of `read_conll`; JSON lines have none."""
    columns = {"word_column": settings.word_column, "tag_column": settings.tag_column}
    return {} if has_json_rows(path) else columns
