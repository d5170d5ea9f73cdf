"""Compares a model with the same model after more pre-training on a domain's text."""

import functools
import hashlib
import logging
import math
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras.data_prep.corpus.documents import find_text_files
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.programs.classifier import train_classifier
from bert_keras.programs.pretraining import pretrain
from bert_keras.storage import writing
from bert_keras.tasks.tables.columns import Columns
from bert_keras.tasks.tables.tables import Table
from bert_keras.tasks.tables.user_data import read_own_file
from studies.runner.cells import Cells
from studies.runner.intervals import Scores, difference_of, interval_of
from studies.runner.probes import right_values
from studies.runner.report import FEWEST_SEEDS, markdown_table, percent

log = logging.getLogger("bert_keras")

_WARMUP_SHARE, _MASKED_SHARE = 0.1, 0.16


# Texts with their classes.
Rows = list[tuple[str, str]]


def read_task(
    train_file: str, eval_file: str, text_column: str | None = None, label_column: str | None = None
) -> tuple[Rows, Rows]:
    """Reads texts with classes to train on and to compare on; columns without a name are found by the usual names.

    Raises:
        ValueError: there is only one class to train on, or a class to compare on that is not among them.
    """
    train, test = (_read_rows(file, Columns(text=text_column, label=label_column)) for file in (train_file, eval_file))
    classes = {label for _, label in train}
    if len(classes) < 2:
        raise Mistake('{} has only the class "{}"; give texts of two or more', train_file, min(classes))
    if unknown := sorted({label for _, label in test} - classes):
        raise Mistake(
            '{} has the class "{}", which {} does not have; correct it, or add such texts',
            eval_file,
            unknown[0],
            train_file,
        )
    return train, test


def _read_rows(path, given):
    examples = read_own_file(Table(path), given, needs_label=True)
    return [(example.text_a, str(example.label)) for example in examples]


def pretrain_further(start: str, texts: str, folder: pathlib.Path, settings: Mapping[str, Any]) -> str:
    """Continues the pre-training of a model with masked LM, and returns the folder of the new model.

    Args:
        texts: text files: paths and patterns between commas.
        settings: flags of run_pretraining.py and create_pretraining_data.py.
    """
    find_text_files(texts)  # the error names --input_file; that of `pretrain` its own argument
    files = ModelFolder(start)
    folder.parent.mkdir(parents=True, exist_ok=True)
    config_file = folder.with_name("bert_config.json")
    files.config.to_json_file(config_file)
    pretrain(
        texts,
        output_dir=folder,
        init_checkpoint=start,
        bert_config_file=config_file,
        vocab_file=files.vocab_file,
        do_lower_case=files.preparation.do_lower_case,
        strip_accents=files.preparation.strip_accents,
        # A model without the head of masked LM gets a new one.
        allow_partial_checkpoint=True,
        num_warmup_steps=int(_WARMUP_SHARE * settings["num_train_steps"]),
        max_predictions_per_seq=math.ceil(_MASKED_SHARE * settings["max_seq_length"]),
        sentence_task="none",
        dynamic_masking=True,
        dupe_factor=1,
        pack=True,
        **settings,
    )
    return str(folder)


def compare(
    start: str,
    model: str,
    train: Rows,
    test: Rows,
    fine_tuning: Mapping[str, Any],
    num_seeds: int,
    folder: pathlib.Path,
) -> str:
    """Fine-tunes two models with several seeds, writes report.md to a folder, and returns it.

    Args:
        fine_tuning: flags of run_classifier.py.
    """
    cells = Cells(folder / "cells")
    rows, found = [], []
    for name, path in (("as given", start), ("after more pre-training", model)):
        inputs = hashlib.sha256(f"{_digest(path)} {train} {test}".encode()).hexdigest()
        values = []
        for seed in range(num_seeds):
            log.info("%s, seed %d of %d", name, seed + 1, num_seeds)
            settings = {"seed": seed, **fine_tuning}
            compute = functools.partial(_right_answers, path, train, test, settings)
            values.append(cells.get("fine_tuning", {"inputs": inputs, **settings}, compute)["values"])
        found.append(Scores(np.array(values).swapaxes(1, 2)))
        rows.append([name, percent(interval_of(found[-1])), num_seeds])
    advantage = difference_of(found[1], found[0])
    lines = [
        *markdown_table(["model", "accuracy, %", "seeds"], rows),
        "",
        f"More pre-training changes the accuracy by {percent(advantage)} points.",
        f"The intervals of 95 % are over {num_seeds} seeds and {len(test):,} examples (multibootstrap).",
    ]
    if num_seeds < FEWEST_SEEDS:
        lines.append(f"With fewer than {FEWEST_SEEDS} seeds, they mean little.")
    text = "\n".join(lines) + "\n"
    writing.write_text(folder / "report.md", text)
    return text


def _digest(model):
    """Returns a digest of the weights of a model."""
    checkpoint: Any = ModelFolder(model).checkpoint
    digest = hashlib.sha256()
    for name in sorted(checkpoint.names):
        digest.update(name.encode() + checkpoint.read(name).tobytes())
    return digest.hexdigest()


def _right_answers(model, train, test, settings, folder):
    """Returns whether each example was right, and ones: float [2, E]."""
    run = train_classifier(
        train,
        None,
        [text for text, _ in test],
        output_dir=folder / "run",
        init_checkpoint=model,
        pack=True,
        verbose=False,
        **settings,
    )
    answers = [row["prediction"] for row in run.predictions]
    shutil.rmtree(folder / "run")
    return {"values": right_values(answers, [label for _, label in test])}
