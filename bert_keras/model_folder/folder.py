"""`ModelFolder` opens a model once, and answers for all of its files."""

import copy
import dataclasses
import functools
import hashlib
import os
import pathlib
from typing import Any, Self, cast

from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import check_special_tokens
from bert_keras.mistakes import MissingFile, Mistake, Setting
from bert_keras.model_folder.foreign import ForeignFolder
from bert_keras.model_folder.preparation import Preparation, find_preparation
from bert_keras.model_folder.run_files import settings_of_run
from bert_keras.model_folder.sentence_transformers import MODULES_FILE, Modules
from bert_keras.model_folder.task_checks import agreed_labels, check_length, read_task, shown_model, without_task
from bert_keras.modeling import BertConfig, check_config, check_sizes, with_vocab_size
from bert_keras.modeling.checkpoints.files import Checkpoint
from bert_keras.modeling.checkpoints.hub import local_model, model_of_run
from bert_keras.modeling.checkpoints.hugging_face_config import given_config
from bert_keras.modeling.checkpoints.hugging_face_task import TASKS_OF_PRETRAINING, OpenQuestion
from bert_keras.modeling.checkpoints.safetensors_format import warn_about_pooler
from bert_keras.modeling.checkpoints.vocabulary import with_blank_lines, with_blank_tokens
from bert_keras.storage import paths, writing
from bert_keras.storage.checks import TASK_FILE, part_of_model
from bert_keras.storage.tokenizer.vocabulary import TOKENIZER_CONFIG, VOCAB_FILE, Tokens, read_tokens, vocabulary_bytes

EXPORT_FILE = "export.json"
_FORMATS_OF_FILES = {".onnx": "onnx", ".xml": "openvino", ".tflite": "litert"}

_CONFIG_FILE = "bert_config.json"
_SPECIAL_TOKENS = ("[CLS]", "[SEP]", "[MASK]", "[UNK]")


class ModelFolder(ForeignFolder):
    """A model with all that belongs to it. Its files are read when they are needed, and only once.

    The object is a path, so you can give it wherever the path of a model is needed.

    Args:
        path: a checkpoint as `modeling.open_checkpoint` takes it: a folder, a prefix, one of its files, or
            `hf://owner/name`. Also the folder of an export, or its ONNX, OpenVINO or LiteRT file; the folder of
            sentence-transformers, or of a run; the model of a run of fine-tuning is its folder `model`. None: no
            checkpoint; both files are required.
        vocab_file: the vocabulary; None: vocab.txt in the model's folder, or else its tokenizer.json.
        config_file: the config, or the name of a released model; None: the config in the model's folder.
        do_lower_case: None: the setting in the model's folder, or else a guess from the vocabulary.
        strip_accents: None: the setting in the model's folder, or else the same as do_lower_case.
        task, is_pair, words: of a model that another library fine-tuned, what its config.json may leave open; see
            `modeling.checkpoints.hugging_face_task.task_of_config`.
        uses_head: whether the model answers with a head of pre-training, and not a new head is trained on its encoder.
            Then the rules of the library that made the head hold, as they always do for a fine-tuned model.

    Attributes:
        path: as given.
        folder: folder of the checkpoint or of the export.
        is_of_run: whether the path is a run of fine-tuning, so that the model is in its folder `model`.
        is_export: whether the model is an export, which has no checkpoint.
        format_of_file: "onnx", "openvino" or "litert" if the path is this file of an export, else None.
        has_task_file, task_file: whether the folder has a task.json, and the path that it has there.
        has_modules: whether it is a folder of sentence-transformers.

    Raises:
        FileNotFoundError: from a property: a part of the model is missing.
        ValueError: the path is a file with a network that is not part of an export. From a property: a part is
            damaged, or does not fit the others.
    """

    def __init__(
        self,
        path: str | os.PathLike | None,
        vocab_file: str | os.PathLike | None = None,
        config_file: str | os.PathLike | None = None,
        do_lower_case: bool | None = None,
        strip_accents: bool | None = None,
        task: str | None = None,
        is_pair: bool | None = None,
        uses_head: bool | None = None,
        words: str | None = None,
    ):
        self.path = path
        self._uses_head = bool(uses_head)
        self._facts: dict[str, Any] = {"task": task, "is_pair": is_pair, "words": words}
        self._given: dict[str, Any] = {"vocab_file": vocab_file, "config_file": config_file}
        self._given |= {"do_lower_case": do_lower_case, "strip_accents": strip_accents}
        self._place = "" if path is None else model_of_run(path)
        self.is_of_run = path is not None and self._place != local_model(path)
        self._is_folder = not (paths.is_file(f"{self._place}.index") or paths.is_file(self._place))
        self.folder = self._place if self._is_folder else paths.parent(self._place)
        if path is None:
            self.folder = paths.parent(vocab_file or "")
        names = (EXPORT_FILE, TASK_FILE, MODULES_FILE)
        held = (path is not None and paths.is_file(paths.join(self.folder, name)) for name in names)
        self.is_export, self.has_task_file, self.has_modules = held
        self.format_of_file = None if self._is_folder else _FORMATS_OF_FILES.get(os.path.splitext(self._place)[1])
        if self.format_of_file and not self.is_export:
            if explanation := part_of_model(self.folder):
                raise Mistake("{}", explanation)
            raise Mistake(
                "{} is a file of another program: no {} is beside it; give a file that export_model.py wrote, in its "
                "folder, or the model that it was made from",
                self,
                EXPORT_FILE,
            )
        self._modules = None
        if self.has_modules and not self.has_task_file:
            self._modules = Modules(self.folder, task)
            self.folder = self._modules.encoder
            self._place = self.folder if self._is_folder else self._place
        self.task_file = paths.join(self.folder, TASK_FILE)

    @classmethod
    def of(cls, path: str | os.PathLike, **given: Any) -> "ModelFolder":
        """Returns a model at a path, or the one that is open already, unless other files or settings are given."""
        if not isinstance(path, ModelFolder):
            return cls(paths.as_text(path), **given)
        kept: dict[str, Any] = {**path._given, **path._facts, "uses_head": path._uses_head}
        wanted = kept | {name: value for name, value in given.items() if value is not None}
        return path if wanted == kept else cls(path.path, **wanted)

    def with_answer(self, *tasks: str) -> "ModelFolder":
        """Returns the model itself, or with the first of these tasks that answers its OpenQuestion."""
        try:
            _ = self.task
        except OpenQuestion as question:
            for task in tasks:
                if task in question.tasks:
                    return ModelFolder.of(self, task=task)
            raise
        return self

    def __fspath__(self) -> str:
        return os.fspath(self.path or "")

    def __str__(self) -> str:
        return os.fspath(self)

    def __repr__(self) -> str:
        return self.describe("ModelFolder")

    def describe(self, kind: str, *facts: str) -> str:
        """Returns one line that shows an object of a class, `kind`, with this model and further facts."""
        try:
            values = self.task or {}
        except (ValueError, OSError):
            values = {}
        return shown_model(kind, self, values.get("task"), values.get("labels"), *facts)

    def check(self, may_be_export: bool = False) -> Self:
        """Reads all but the weights, so that mistakes are reported before any work. Returns the object itself."""
        if self.is_export and not may_be_export:
            self.need_checkpoint()
        if self.is_export and (names := [Setting(name) for name, value in self._given.items() if value is not None]):
            raise Mistake("{} is an export, which sets how to prepare text; leave out {}", self, names)
        _ = self.tokenizer
        if self.is_foreign:
            _ = self.decided
        return self

    @functools.cached_property
    def task(self) -> dict[str, Any] | None:
        """The content of task.json, or what the files of another library say; None if the model has no such head."""
        if self._modules and not self._modules.reranker_config:
            return self._modules.task()
        if not self.has_task_file:
            found = self._foreign_task
            return found if found and found["task"] not in TASKS_OF_PRETRAINING else None
        return read_task(self.task_file)

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The task, of a model that has one, as its file says it; `tasks.settings_of` checks the settings.

        A pre-trained model of another library has the first task of its head.
        """
        is_other_file = self.is_export and not self._is_folder and not self.format_of_file
        values = None if is_other_file else self.task or self._foreign_task
        if values is None and paths.is_file(self._place):
            suffix = " of an export" if self.is_export else ""
            files = (TASK_FILE, _CONFIG_FILE, "config.json")
            is_of_model = any(paths.is_file(paths.join(self.folder, name)) for name in files)
            advice = f"its folder, {self.folder}" if is_of_model else "the folder of a model"
            raise Mistake("{} is a file{}; give {}", self, suffix, advice)
        if values is None:
            raise without_task(self, self.folder)
        for name, value in self._facts.items():
            if value not in (None, values.get(name)):
                own = f"has {values[name]}" if name in values else f"is for {values['task']}, without this setting"
                raise Mistake("{}={}, but {} {}; leave it out", Setting(name), value, self, own)
        return values

    @functools.cached_property
    def labels(self) -> list[str] | None:
        """The names of the classes in task.json, or else in config.json; None without names."""
        task_labels = (self.task or {}).get("labels") if self.has_task_file else None
        return agreed_labels(self.folder, task_labels, self.checkpoint and self.checkpoint.labels)

    def need_checkpoint(self) -> Checkpoint:
        """Returns the open checkpoint of a model with a path. Raises a Mistake for an export."""
        if self.is_export:
            raise Mistake(
                "{} is an export, which has no checkpoint; give the run or the model that it was made from, or "
                "use the export with predict.py --model_dir",
                self,
            )
        return cast(Checkpoint, self.checkpoint)

    @property
    def format(self) -> str:
        """The format of the weights: "tensorflow", "safetensors" or "export"; "" if there are none."""
        return "export" if self.is_export else self.checkpoint.format if self.checkpoint else ""

    @functools.cached_property
    def config(self) -> BertConfig:
        """The config, whose sizes are those of the checkpoint, or of the vocabulary without a checkpoint."""
        given, checkpoint = self._given["config_file"], self.checkpoint
        if self.is_export:
            given = self._export_file(_CONFIG_FILE)
        config = given_config(given) if given else checkpoint and checkpoint.config
        config = self._modules.with_pooling(config) if config and self._modules else config
        if config is None:
            raise MissingFile(
                "{} has no bert_config.json or config.json; put it there, or give {config_file}", self.folder
            )
        if self.path is None:
            return with_vocab_size(config, self._tokens, self.vocab_file)
        if checkpoint:
            check_sizes(config, checkpoint)
            if given:
                check_config(config, checkpoint)
            if self.format == "safetensors":
                warn_about_pooler(config, checkpoint.names)
        return config

    @functools.cached_property
    def vocab_file(self) -> str:
        """The path of the vocabulary."""
        if self.is_export:
            return self._export_file(VOCAB_FILE)
        found = self._given["vocab_file"] or (self.path is not None and self.tokenizer_files.vocab_file)
        if not found:
            raise MissingFile(
                "{} has no vocab.txt, and no tokenizer.json with word pieces; put one there, or give {vocab_file}",
                self.folder,
            )
        return paths.as_text(found)

    def _export_file(self, name: str) -> str:
        file = paths.join(self.folder, name)
        if not paths.is_file(file):
            raise FileNotFoundError(f"{self} has no {name}; take the whole folder of the export")
        return file

    @functools.cached_property
    def _tokens(self) -> Tokens:
        if self._given["vocab_file"]:
            return read_tokens(self.vocab_file)
        tokens = self.tokenizer_files.tokens if self.is_foreign else read_tokens(self.vocab_file)
        # Other libraries open a model whose table of words has more rows than its vocabulary has tokens.
        is_padded = self.checkpoint and self.checkpoint.hugging_face_config
        return with_blank_tokens(tokens, self.config.vocab_size) if is_padded else tokens

    @functools.cached_property
    def preparation(self) -> Preparation:
        """The settings that prepare text. The log reports the casing."""
        config, casing = self.config, (self._given["do_lower_case"], self._given["strip_accents"])
        return find_preparation(
            self.tokenizer_files, self._tokens, config, self.settings_of_run, *casing, self.has_modules
        )

    @functools.cached_property
    def tokenizer(self) -> FullTokenizer:
        """The tokenizer, with the model's vocabulary and casing."""
        casing = self.preparation
        tokenizer = FullTokenizer(self._tokens, casing.do_lower_case, casing.strip_accents, casing.rules)
        advice = "give the vocabulary that the model was trained with"
        check_special_tokens(tokenizer.vocab, _SPECIAL_TOKENS, self.vocab_file, advice)
        return tokenizer

    @functools.cached_property
    def max_seq_length(self) -> int:
        """The maximum number of tokens in a sequence of its task, or else of the network."""
        if self.task is None:
            return self.preparation.longest
        length = self.settings["max_seq_length"]
        check_length(length, self.config.max_position_embeddings, self.folder, self.has_task_file)
        return length

    @functools.cached_property
    def settings_of_run(self) -> dict[str, Any]:
        """The settings of the training run in whose folder the model is, by name; {} without one."""
        return settings_of_run(self.folder)

    @property
    def digest(self) -> str:
        """The SHA-256 of the weights; for an export, of all its files."""
        if self.checkpoint:
            return writing.sha256(self.checkpoint.weights_file)
        files = sorted(path for path in pathlib.Path(self.folder).rglob("*") if path.is_file())
        return hashlib.sha256("".join(map(writing.sha256, files)).encode()).hexdigest()

    def with_config(self, **values: Any) -> "ModelFolder":
        """Returns the model with other values in its config, for a network that is built on its weights."""
        found = copy.copy(self)
        found.config = dataclasses.replace(self.config, **values)
        return found

    def text_files(self) -> dict[str, bytes]:
        """Returns the contents of the files that a folder with these weights needs besides them, by their names."""
        return {
            _CONFIG_FILE: self.config.to_json_string().encode(),
            VOCAB_FILE: with_blank_lines(vocabulary_bytes(self.vocab_file), self.config.vocab_size),
            TOKENIZER_CONFIG: self.preparation.to_text().encode(),
        }
