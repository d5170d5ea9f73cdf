"""`pretrain`, and the run of run_pretraining.py."""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import rich.console

from bert_keras.cli.flags import require
from bert_keras.data_prep.cleaning.filters import Cleaning
from bert_keras.data_prep.corpus.raw_text import TextOptions
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.engine.distribution.jax_processes import connect
from bert_keras.engine.distribution.tpu import check_tpu
from bert_keras.engine.given_settings import check_given_checkpoint, completed, over_run
from bert_keras.engine.report import NO_CALLBACKS, Callbacks
from bert_keras.mistakes import Mistake
from bert_keras.programs.calls import Arguments, Data, TrainedModel, call, takes
from bert_keras.programs.data import DataFiles, iterate, json_lines, to_json
from bert_keras.runs.run_dir import RUN_CONFIG
from bert_keras.settings.fields import checked_arguments, part, setting_fields
from bert_keras.storage import paths, writing
from bert_keras.storage.inspection import FORMATS, ending_of
from bert_keras.tasks.pretraining.settings import PretrainingSettings

if TYPE_CHECKING:
    from bert_keras.tasks.pretraining.fill_mask import FillMask
    from bert_keras.tasks.pretraining.run import Pretraining

_TEXTS = (".txt", *FORMATS, ".parquet", ".arrow")
# Flags of create_pretraining_data.py that are not settings of the examples.
_FILE_SETTINGS = {"input_file", "output_file", "work_dir", "num_shards", "compression", "dry_run"}
_FILE_SETTINGS |= {"eval_share", "eval_output_file"}  # `pretrain` takes the text to evaluate on as an argument


def open_run(
    settings: PretrainingSettings, console: rich.console.Console, callbacks: Callbacks = NO_CALLBACKS
) -> "Pretraining":
    """Turns the settings of run_pretraining.py into a run."""
    from bert_keras.tasks.pretraining.run import Pretraining  # --help does not need it

    connect(settings)
    check_tpu(settings)
    settings = _with_own_files(over_run(settings, "run_pretraining"))
    check_given_checkpoint(settings, "run_pretraining")
    is_only_evaluated = settings.eval_file and not settings.do_train
    config = () if settings.init_checkpoint else ("bert_config_file",)
    require(settings, (*config, *(() if is_only_evaluated else ("input_file",)), "output_dir"))
    settings = completed(settings, path_lists=("input_file", "eval_file"))
    settings.check_effects()
    for name, reason in (
        ("use_tpu", "but a TPU needs the same number in every batch; leave {pack} out"),
        ("jit", "and {jit} compiles again for each number; leave one of the two out"),
    ):
        if settings.pack and getattr(settings, name) is True:
            raise Mistake("{pack} gives each batch a different number of rows, " + reason)
    if settings.objective == "span_boundary" and not settings.masked_lm_loss_weight:
        raise Mistake(
            "{masked_lm_loss_weight}=0: {objective}=span_boundary adds to the loss of masked LM; give a weight above 0"
        )
    return Pretraining(settings, console, callbacks)


def _with_own_files(settings: PretrainingSettings) -> PretrainingSettings:
    """Returns the settings of an evaluation with files of the run in its folder for those that were not given.

    Other files that the run was given may have moved since, and its records to train on need not be there.
    """
    folder = settings.output_dir
    if settings.do_train or settings.run_config or not folder or not paths.is_file(paths.join(folder, RUN_CONFIG)):
        return settings
    own: dict[str, Any] = {"bert_config_file": folder, "vocab_file": None}
    own |= {"init_checkpoint": None, "allow_partial_checkpoint": False}  # its checkpoint has all weights
    if {"input_file", "eval_file"} & settings.given:
        own |= {"input_file": None, "eval_file": None}
    elif settings.eval_file:
        own["input_file"] = None
    changes = {name: value for name, value in own.items() if name not in settings.given}
    return dataclasses.replace(settings, **changes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Arguments(Arguments, PretrainingSettings, PretrainingDataSettings, TextOptions, Cleaning, Data):
    """The arguments of `pretrain`."""

    bert_config_file: str | os.PathLike[str] | None = None
    vocab_file: str | os.PathLike[str] | None = None
    do_lower_case: bool = True
    strip_accents: bool | None = None
    num_workers: int = 1


@takes(_Arguments)
def pretrain(train_data: Any = None, eval_data: Any = None, **settings: Any) -> "TrainedModel[FillMask]":
    """Pre-trains BERT, as run_pretraining.py does. It works as `train_classifier`.

    Args:
        train_data: records, text files, or documents in memory. Records are paths and patterns between
            commas; so are text files, whose names end in .txt, also compressed. A document is a text with one sentence
            a line, a list of sentences, or a dict with one of them as "text", or as the `text_field`. Documents may
            be in a list, a generator, a table, or a finite `tf.data.Dataset`. The call writes documents and the
            examples that it builds to `output_dir/data`.
        eval_data: data to evaluate on, in one of these forms.
        bert_config_file: the config of the model: a file, or the name of a released model. Default: the config next to
            `init_checkpoint`.
        vocab_file: the vocabulary, which texts need. Default: that of `init_checkpoint` or of the run to evaluate.
        settings: the other flags of run_pretraining.py by name; for texts also the settings of the examples, which are
            flags of create_pretraining_data.py, such as `dupe_factor`.
    """
    from bert_keras.data_prep.pretraining import flags as text_flags  # run_pretraining.py does not need them

    own = {field.name for field in setting_fields(PretrainingSettings)}
    text_settings = set(text_flags.define_flags()) - own - _FILE_SETTINGS
    text_settings = {name: settings.pop(name) for name in text_settings & set(settings)}
    data = [source for source in (train_data, eval_data) if source is not None]
    prepare = functools.partial(_build_records, text_settings, not all(map(_are_records, data)))
    return call("run_pretraining", settings, prepare, input_file=train_data, eval_file=eval_data)


def to_file(data: Any, name: str) -> tuple[bytes, str]:
    """Returns documents as the content of a JSON lines file, which keeps the ends of documents with blank lines."""
    rows = []
    # A tuple has documents, as a list has: to pre-train, columns need names.
    for number, document in enumerate(iterate([*data] if isinstance(data, tuple) else data, name, 0)):
        where = f"{name} document {number}"
        if isinstance(document, str) and ending_of(document) in _TEXTS and paths.is_file(document):
            raise Mistake(
                '{} is the name of the file "{}"; to read files, give their names in one text, with commas between '
                "them",
                where,
                document,
            )
        row = document if isinstance(document, Mapping) else {"text": document}
        rows.append({str(column): _to_text(to_json(value, where), where) for column, value in row.items()})
    if not rows:
        raise Mistake("{} has no document; give at least one", name)
    return json_lines(rows)


def _to_text(value: Any, where: str) -> Any:
    """Returns a list of sentences as a text with one sentence a line; other values of a row stay."""
    if isinstance(value, list) and all(isinstance(sentence, str) for sentence in value):
        return "\n".join(" ".join(sentence.split()) for sentence in value)
    return value


def _are_records(data: Any) -> bool:
    return isinstance(data, str | os.PathLike) and ending_of(os.fspath(data)) not in _TEXTS


def _build_records(
    text_settings: dict[str, Any],
    has_texts: bool,
    path: str,
    name: str,
    training: PretrainingSettings,
    files: DataFiles,
) -> str:
    """Builds the examples of text files, and returns the path of their records; a path of records stays."""
    if _are_records(path):
        if text_settings and not has_texts:
            message = "{} is for texts, but {} is the name of records, {}; leave it out, or give text files, such as {}"
            raise Mistake(message, min(text_settings), name, path, "folder/*.txt")
        return path
    # Imported here, because training on records does not need the builder of examples.
    from bert_keras.data_prep.corpus.documents import find_text_files
    from bert_keras.data_prep.pretraining import flags as text_flags
    from bert_keras.data_prep.text.chinese_words import Segmenter
    from bert_keras.data_prep.text.tokenization import FullTokenizer
    from bert_keras.model_folder.folder import ModelFolder

    training = _with_own_files(training)
    model = training.init_checkpoint or (None if training.do_train else training.output_dir)
    if not training.vocab_file and model:
        training = dataclasses.replace(training, vocab_file=ModelFolder(model).vocab_file)
    require(training, ("vocab_file",))
    shared = {name: getattr(training, name) for name in ("vocab_file", "max_seq_length", "max_predictions_per_seq")}
    groups = (text_flags.Files, PretrainingDataSettings, TextOptions, Cleaning)
    given = checked_arguments(groups, "pretrain", {**text_settings, **shared})
    build_files, settings = part(text_flags.Files, given), part(PretrainingDataSettings, given)
    text_options, cleaning = part(TextOptions, given), part(Cleaning, given)
    tokenizer = FullTokenizer(build_files.vocab_file, **text_flags.casing_of(build_files, given.keys()))
    texts = find_text_files(path)
    facts = [
        *map(writing.sha256, texts),
        tokenizer.facts,
        dataclasses.asdict(settings),
        dataclasses.asdict(text_options),
        *([cleaning.changes] if cleaning.changes else []),
        *([Segmenter(settings.chinese_words).source] if settings.chinese_words != "none" else []),
    ]
    records = files.path(name, json.dumps(facts).encode(), ".tfrecord")
    if not paths.is_file(records):  # it gets its name when it is complete
        from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data

        build_pretraining_data(
            Build(
                texts,
                [records],
                tokenizer,
                settings,
                build_files.vocab_file,
                num_workers=build_files.num_workers,
                text_options=text_options,
                cleaning=cleaning,
            )
        )
    return records
