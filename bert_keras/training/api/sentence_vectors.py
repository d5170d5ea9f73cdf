"""`train_sentence_vectors`, the flags of run_sentence_vectors.py and what it does with them."""

import logging
import os
from collections.abc import Callable
from typing import Any

from absl import flags

from bert_keras.cli.flags import given_flags, tell_unused
from bert_keras.mistakes import Mistake, Setting
from bert_keras.prediction.arguments import POOLINGS
from bert_keras.training.api.calls import Program, TrainedModel
from bert_keras.training.api.data import json_lines, rows_of
from bert_keras.training.distribution.devices import strategy_of
from bert_keras.training.finetuning.run import FineTuning
from bert_keras.training.finetuning.settings import define_evaluation_flags, define_fine_tuning_flags, open_fine_tuning
from bert_keras.training.report import NO_CALLBACKS, Callbacks
from bert_keras.training.sentence_vectors.task import FILES, SETTLED, SentenceVectors
from bert_keras.training.settings import NumberParser

log = logging.getLogger("bert_keras")


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_string(
        "train_file",
        None,
        "Texts to train on: pairs or triplets, scored pairs, labelled inferences, or single texts. Table (.csv, .tsv, "
        ".jsonl), or .txt with a text a line.",
        **define,
    )
    flags.DEFINE_string(
        "eval_file",
        None,
        "Texts to evaluate on: scored pairs for correlations, pairs for retrieval, texts with classes for clustering.",
        **define,
    )
    flags.DEFINE_string("predict_file", None, "Texts to write the vectors of, or pairs for their cosines.", **define)
    flags.DEFINE_list(
        "text_columns",
        [],
        "Columns of the texts: one; two that belong together; further columns do not belong to the first. If not "
        "given: found by their names, with scores and labels.",
        **define,
    )
    flags.DEFINE_string("score_column", None, "Column with the score of each pair.", **define)
    flags.DEFINE_string(
        "label_column", None, "Column with the class of each text, or the inference of each pair.", **define
    )
    define_fine_tuning_flags(values)
    define_evaluation_flags(values)
    flags.DEFINE_enum(
        "pooling", "mean", POOLINGS[1:], "How the vectors of tokens become one: that of [CLS], mean, maximum.", **define
    )
    flags.DEFINE_bool("normalize", True, "Give all vectors the length 1.", **define)
    flags.DEFINE_string("prefix", "", 'Text before each text, such as "query: ". The model stores it.', **define)
    flags.DEFINE(
        NumberParser(0.01), "scale", 20.0, "Factor of the cosines in the ranking loss, 1 / temperature.", **define
    )
    flags.DEFINE(
        NumberParser(0.01),
        "max_score",
        None,
        "Score of two texts of the same meaning. If not given: the highest in --train_file.",
        **define,
    )
    return values


def open_run(flag_values, console, callbacks=NO_CALLBACKS):
    """Reads the data and opens the model of run_sentence_vectors.py; returns a `FineTuning` to execute."""
    tell_unused(flag_values, FILES)
    opened = open_fine_tuning(
        flag_values,
        "run_sentence_vectors",
        tuple(FILES),
        tasks=("vectors",),
        settled=SETTLED,
        fixed=("pooling", "normalize", "prefix"),
    )
    for name, action in FILES.items():
        if opened.settings[action] and not opened.settings[name]:
            raise Mistake("{} needs {}; give the file", Setting(action), Setting(name))
    if opened.settings["do_train"]:
        _keep_settings_of_start(opened.settings, given_flags(flag_values), opened.files)
    strategy = strategy_of(opened.settings)
    return FineTuning(SentenceVectors(opened.settings, opened.files), opened, strategy, console, callbacks)


def _keep_settings_of_start(settings, given, model):
    """Takes the settings of the model to start from, if that model is for vectors, unless their flags are given."""
    stored = model.task or {}
    if stored.get("task") != "vectors":
        return
    kept = {name: stored[name] for name in SETTLED[:-1] if name in stored and name not in given}
    settings |= kept
    log.info("as in %s: %s", settings["init_checkpoint"], ", ".join(f"{name}={value}" for name, value in kept.items()))


def train_sentence_vectors(
    train_data: Any = None,
    eval_data: Any = None,
    predict_data: Any = None,
    *,
    output_dir: str | os.PathLike[str],
    init_checkpoint: str | os.PathLike[str] | None = None,
    on_step: Callable[[int, dict[str, float]], Any] | None = None,
    on_evaluation: Callable[[int, dict[str, float]], Any] | None = None,
    on_save: Callable[[int, str], Any] | None = None,
    verbose: bool = True,
    **settings: Any,
) -> TrainedModel:
    """Trains vectors of texts, as run_sentence_vectors.py does. It works as `train_classifier`.

    Args:
        train_data: the path of a file, or rows in memory. A row is a text; a tuple of two texts that belong together,
            or of three, whose third does not belong to the first; or a dict of columns with the names that the program
            finds, such as {"sentence1": ..., "sentence2": ..., "score": 4.5}.
        eval_data: data to evaluate on, in one of these forms.
        predict_data: texts to write the vectors of, or pairs, in one of these forms.
        settings: the other flags of run_sentence_vectors.py, by name.
    """
    data = {"train_file": train_data, "eval_file": eval_data, "predict_file": predict_data}
    settings |= {"output_dir": output_dir, "init_checkpoint": init_checkpoint}
    return _PROGRAM.call(data, settings, Callbacks(on_step, on_evaluation, on_save), verbose)


def to_file(data: Any, name: str) -> tuple[bytes, str]:
    """Returns rows as the content of a JSON lines file."""
    columns = {1: ("text",), 2: ("anchor", "positive"), 3: ("anchor", "positive", "negative")}
    return json_lines(rows_of(data, name, columns))


_PROGRAM = Program("run_sentence_vectors", "train_sentence_vectors", define_flags, open_run, to_file)
