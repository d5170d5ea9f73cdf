"""Predicts with a fine-tuned model, an export or a pre-trained model.

    python predict.py --model_dir=output "A text to classify." "Another one."
    python predict.py --model_dir=output --input_file=texts.csv --text_column=review --json
    python predict.py --task=fill_mask --init_checkpoint=model "Paris is the [MASK] of France."
    python predict.py --task=score --init_checkpoint=model --input_file=sentences.txt --json

A fine-tuned model or an export performs its own task. A pre-trained model fills masks, judges pairs or scores texts.
Texts are arguments, lines of --input_file, or lines of standard input. A pair is two arguments, or one line with a tab
between its texts; for question answering, the question comes first, then the text with its answer. Tables (.csv, .tsv,
.jsonl) are read by their columns. Answers go to standard output, in order, everything else to standard error.
"""

import dataclasses
import functools
import itertools
import os
import sys
from collections.abc import Iterator
from typing import Any

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, given_flags, parse, require
from bert_keras.cli.start import start_tensorflow
from bert_keras.mistakes import Mistake
from bert_keras.prediction.arguments import LONG_CHOICES, ON_ERROR, PLL_CHOICES, LimitSettings, answer_precision
from bert_keras.settings.devices import check_backend
from bert_keras.settings.fields import make_flags, read_flags, setting
from bert_keras.settings.model_files import WORDS, ModelSettings, OpenFacts
from bert_keras.storage.checks import refuse_fine_tuned
from bert_keras.tasks import abilities, ability_of, leading_to_program, predictor_of, settings_of
from bert_keras.tasks.tables.columns import HEADERS
from bert_keras.tasks.tables.input_texts import is_table, read_sentences, read_table, read_texts
from bert_keras.tasks.tables.minimal_pairs import has_pairs

_FINE_TUNED, _PRETRAINED = abilities(is_fine_tuned=True), abilities(is_fine_tuned=False)
# A fine-tuned model or an export stores all of these values. With an export for fill_mask, the last is allowed.
_PRETRAINED_SETTINGS = ("vocab_file", "bert_config_file", "do_lower_case", "strip_accents", "long")
_OPTIONS = ("top_k", "threshold", "candidates", "pll", "why", "coverage")  # a predictor refuses those of others
_TABLE_SETTINGS = ("text_column", "text_pair_column", "choice_columns", "has_header")


@dataclasses.dataclass(frozen=True)
class Prediction(OpenFacts):
    """The model, the texts and the answers."""

    model_dir: str | None = setting("A fine-tuned model, the {output_dir} of its run; or an export.", None)
    init_checkpoint: str | None = setting("A pre-trained model: checkpoint, folder, run, or hf://owner/name.", None)
    task: str | None = setting("Task of a head with several.", None, choices=(*_PRETRAINED, *_FINE_TUNED))
    input_file: str | None = setting("A text or pair a line, or a table (.csv, .tsv, .jsonl); score: a folder.", None)
    text_column: str | None = setting("Column of texts in a table. If not given: as in training, or by its name.", None)
    text_pair_column: str | None = setting("Column of the second texts in a table.", None)
    choice_columns: tuple[str, ...] = setting("Columns of the choices in a table, separated by commas.", ())
    has_header: str | None = setting("Whether a table has a header. If not given: auto.", None, choices=HEADERS)
    json: bool = setting("Write each answer as a line of JSON.", False)
    on_error: str = setting("Stop at a text without an answer, or report it.", "stop", choices=ON_ERROR)
    long: str = setting("What to do with texts that are too long.", "error", choices=LONG_CHOICES)
    top_k: int | None = setting("Number of best guesses, classes or spans.", None, lower_bound=1)
    threshold: float | None = setting("Lowest probability of a label; odds of no answer.", None)
    similarity: bool = setting("vectors: read pairs, and write how similar their texts are.", False)
    why: bool = setting("Also show the words that move the answer most: classes, spans, tags.", False)
    coverage: float | None = setting("Also show a set of labels that has the right one in this share of texts.", None)
    candidates: tuple[str, ...] | None = setting("fill_mask: the only words to guess, separated by commas.", None)
    pll: str | None = setting("score: mask one token, or also the rest of its word.", None, choices=PLL_CHOICES)
    batch_size: int = setting("Maximum number of sequences in a batch.", 64, lower_bound=1)
    precision: str = answer_precision()


def define_flags() -> flags.FlagValues:
    """Returns the flags of this program."""
    return make_flags({"Model and texts": Prediction, "Files of the model": ModelSettings, "Limits": LimitSettings})


def main(argv: list[str]) -> None:
    """Runs the program, given its name, its flags and its texts."""
    values = define_flags()
    arguments = parse(values, argv, __doc__, takes_texts=True)
    open_console(stderr=True)
    if values.model_dir and values.init_checkpoint:
        raise Mistake("there are both --model_dir and --init_checkpoint; give one of them")
    if not values.model_dir:
        _check_pretrained(values)
    check_backend(os.environ.get("KERAS_BACKEND") or "tensorflow")
    start_tensorflow()
    from bert_keras.model_folder.folder import ModelFolder  # both load TensorFlow
    from bert_keras.prediction.answer_lines import answer_lines

    given = {name: values[name].value for name in ("task", "is_pair", "words")}
    model = ModelFolder(values.model_dir or values.init_checkpoint, **given)
    settings = settings_of(model) if values.model_dir else {"task": values.task}
    if values.model_dir:
        _check_fine_tuned(values, settings["task"])
    rows = itertools.tee(_read_rows(values, arguments, settings))
    sources, texts = (source for source, _ in rows[0]), (text for _, text in rows[1])
    for line in answer_lines(_open(values, model).pipe(texts, sources=sources, on_error=values.on_error), values.json):
        print(line, flush=True)


def _check_pretrained(values: flags.FlagValues) -> None:
    if values.task is None and not values.init_checkpoint:
        raise Mistake("missing: --model_dir, or --task and --init_checkpoint (--help says what each is for)")
    fine_tuned_values, names = (*_FINE_TUNED, True, False, *WORDS), ("task", "is_pair", "words")
    if wrong := [f"--{name}={value}" for name in names if (value := values[name].value) in fine_tuned_values]:
        raise Mistake("{} is for fine-tuned models; give one's folder as --model_dir", wrong[0])
    if values.task is None:
        refuse_fine_tuned(values.init_checkpoint)
    require(values, ("task", "init_checkpoint"))


def _check_fine_tuned(values: flags.FlagValues, task: str) -> None:
    allowed = ("long",) if task in _PRETRAINED else ()
    if wrong := [f"--{name}" for name in _PRETRAINED_SETTINGS if name in given_flags(values) and name not in allowed]:
        raise Mistake("{}: a fine-tuned model or an export sets this; leave it out", ", ".join(wrong))


def _read_rows(values: flags.FlagValues, arguments: list[str], settings: dict) -> Iterator[tuple[str, Any]]:
    """Returns the name of each text for errors, and the text."""
    if values.similarity and settings["task"] != "vectors":
        raise Mistake("--similarity is for vectors, and this model is for {}; leave it out", settings["task"])
    form = "pair" if settings.get("is_pair") or values.similarity else ability_of(settings["task"]).form
    given = {name: values[name].value for name in _TABLE_SETTINGS if values[name].value}
    is_file, limits = values.input_file and not arguments, read_flags(LimitSettings, values)
    with leading_to_program(settings["task"] if is_file else ""):
        are_pairs = values.task == "score" and is_file and has_pairs(values.input_file)
        if is_file and (given or not are_pairs) and is_table(values.input_file, form):
            return read_table(values.input_file, form, given, settings)
        if given:
            raise Mistake("--{} is for a table as --input_file (.csv, .tsv, .jsonl); leave it out", next(iter(given)))
        if are_pairs:
            return read_sentences(values.input_file)
        called = f"--model_dir={values.model_dir}" if values.model_dir else f"--task={values.task}"
        return read_texts(values.input_file, arguments, sys.stdin, form, called, limits)


def _open(values: flags.FlagValues, model: Any) -> Any:
    from bert_keras.tasks.opening import open_model  # loads TensorFlow

    options: dict[str, Any] = {"batch_size": values.batch_size, "limits": read_flags(LimitSettings, values)}
    options |= {name: values[name].value for name in (*_OPTIONS, "long", "precision") if name in given_flags(values)}
    if values.model_dir:
        return open_model(model, **options)
    options |= {name: values[name].value for name in ("vocab_file", "do_lower_case", "strip_accents")}
    return predictor_of(values.task)(model, config_file=values.bert_config_file, **options)


run_program = functools.partial(as_program, main, writes_texts=True)
