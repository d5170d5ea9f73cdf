"""The description of a build of pre-training examples, and what every process needs for it."""

import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.cleaning.filters import NO_CLEANING, Cleaning
from bert_keras.data_prep.corpus.documents import inspect_texts
from bert_keras.data_prep.corpus.raw_text import RELEASE, TextOptions
from bert_keras.data_prep.corpus.workers import ThisProcess, Workers
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.records.writing import metadata_file
from bert_keras.data_prep.text.chinese_words import CorpusTokenizer, Segmenter, WordMarker
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.storage import paths
from bert_keras.storage.inspection import FileForm

_LISTS, _LONGEST_LIST = ("input_file", "output_file", "eval_output_file"), 1000  # flags, and characters


class Tools(NamedTuple):
    """Objects that every process needs."""

    tokenizer: CorpusTokenizer
    vocabulary: MaskingVocabulary
    settings: PretrainingDataSettings

    @classmethod
    def of(cls, tokenizer: FullTokenizer, settings: PretrainingDataSettings) -> "Tools":
        """Returns the tools for some settings; raises an error if the vocabulary or the Chinese words are unusable."""
        vocabulary = MaskingVocabulary.from_vocab(tokenizer.vocab)
        if settings.chinese_words == "none":
            return cls(tokenizer, vocabulary, settings)
        return cls(WordMarker(tokenizer, Segmenter(settings.chinese_words)), vocabulary, settings)


@dataclasses.dataclass(frozen=True)
class Build:
    """Text files, and how to make record files of pre-training examples from them.

    Attributes:
        input_files: text with one sentence per line and a blank line after each document; UTF-8, or UTF-16 or UTF-32
            with a byte order mark. Also JSON lines, Parquet, Arrow and the output of WikiExtractor. Compressed (gzip,
            bzip2, xz, Zstandard), remote and converted files are copied to the folder of unfinished work first.
        output_files: TFRecord files, local or remote. With one worker, example j goes to file j modulo their number;
            with more, to a random file. NAME.json holds the metadata of the file NAME.
        tokenizer: makes the tokens.
        settings: settings of the examples.
        vocab_file: recorded in the metadata, and never overwritten.
        progress: reports the progress; by default, lines in the log.
        num_workers: number of processes. One gives the examples and order of the original BERT. With more, each
            document of each duplicate has its own random stream, so every number gives the same files.
        is_gzip: compresses the files.
        start_workers: starts other workers instead of `num_workers` processes, given the `Tools`.
        work_dir: local folder for unfinished work; None: the folder of the first output, or the system's temporary
            folder for a remote output.
        text_options: how to read the text, for example to split it into sentences.
        cleaning: what to remove from the text, and the share to hold out.
        eval_files: TFRecord files for the examples of the held-out share.
    """

    input_files: Sequence[str]
    output_files: Sequence[str]
    tokenizer: FullTokenizer
    settings: PretrainingDataSettings
    vocab_file: str | None = None
    progress: Progress = dataclasses.field(default_factory=Progress)
    num_workers: int = 1
    is_gzip: bool = False
    start_workers: Callable[["Tools"], Workers] | None = None
    work_dir: str | None = None
    text_options: TextOptions = RELEASE
    cleaning: Cleaning = NO_CLEANING
    eval_files: Sequence[str] = ()

    @functools.cached_property
    def tools(self) -> Tools:
        """Raises an error if the vocabulary or the Chinese words are unusable."""
        return Tools.of(self.tokenizer, self.settings)

    @functools.cached_property
    def texts(self) -> list[FileForm]:
        """How to read the input files; raises ValueError if they are not usable."""
        return inspect_texts(self.input_files, self.text_options)

    @property
    def seeded_cleaning(self) -> Cleaning:
        """The cleaning with the seed of the examples, which chooses the held-out documents."""
        return dataclasses.replace(self.cleaning, random_seed=self.settings.random_seed)

    @property
    def is_release_order(self) -> bool:
        """bool; whether the examples and their order are those of the original BERT."""
        return self.num_workers == 1 and self.start_workers is None

    @property
    def folder(self) -> str:
        """The local folder for unfinished work."""
        if self.work_dir:
            return os.path.realpath(self.work_dir)
        first = self.output_files[0]
        return tempfile.gettempdir() if paths.is_remote(first) else os.path.dirname(os.path.realpath(first))

    def start(self) -> Any:
        """Starts the `Workers`, or what replaces them."""
        start = self.start_workers or (
            ThisProcess if self.num_workers == 1 else functools.partial(Workers, self.num_workers)
        )
        return start(self.tools)

    @property
    def words_files(self) -> list[str]:
        """The files that --chinese_words reads."""
        is_list = isinstance(self.tools.tokenizer, WordMarker) and self.tools.tokenizer.segmenter.method == "list"
        return [self.settings.chinese_words] if is_list else []

    @functools.cached_property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the record files, without their examples."""
        tokenizer, settings = self.tokenizer, self.settings
        facts = tokenizer.facts
        casing = {name: facts[name] for name in ("do_lower_case", "strip_accents")}
        masking = {
            **{f"{name}_id": tokenizer.vocab[f"[{name.upper()}]"] for name in ("cls", "sep", "mask")},
            "vocab_size": tokenizer.vocab_size,
            "masked_lm_prob": settings.masked_lm_prob,
        }
        return {
            "kind": "pretraining",
            "format_version": 1,
            "max_seq_length": settings.max_seq_length,
            "max_predictions_per_seq": settings.max_predictions_per_seq,
            "vocab_size": tokenizer.vocab_size,
            **facts,
            **({"masking": masking} if settings.dynamic_masking else {}),
            "order": "release" if self.is_release_order else "of any number of workers from 2 on",
            "settings": {**self._flags(), **casing, **dataclasses.asdict(settings)},
        }

    def _flags(self) -> dict[str, Any]:
        """Returns the flags for the metadata; none about text in the format of the original BERT."""
        flags: dict[str, Any] = {
            "input_file": ",".join(self.input_files),
            "output_file": ",".join(self.output_files),
            "vocab_file": self.vocab_file,
        }
        if self.text_options != RELEASE:
            flags |= dataclasses.asdict(self.text_options)
        flags |= self.cleaning.changes
        if self.is_gzip:
            flags["compression"] = "gzip"
        if self.eval_files:
            flags["eval_output_file"] = ",".join(self.eval_files)
        if isinstance(self.tools.tokenizer, WordMarker):
            flags["chinese_words_source"] = self.tools.tokenizer.segmenter.source
        return flags

    def per_file(self, summaries: Sequence[dict]) -> list[dict]:
        """Returns the metadata of each output, from the summaries of both parts; only one has long lists of files."""
        counts = (len(self.output_files), len(self.eval_files))
        each = [summary for summary, count in zip(summaries, counts, strict=False) for _ in range(count)]
        settings, first = self.metadata["settings"], paths.name(metadata_file(self.output_files[0]))
        short = {name: f"see {first}" for name in _LISTS if len(settings.get(name) or "") > _LONGEST_LIST}
        others = {**self.metadata, "settings": settings | short}
        return [{**(others if number else self.metadata), "summary": summary} for number, summary in enumerate(each)]
