"""Describes the evaluation data of a fine-tuned model, and warns if its metrics would mislead."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.text.same_text import Placed, find_shared
from bert_keras.engine.report import in_words
from bert_keras.mistakes import Message
from bert_keras.runs.run_dir import RunDir
from bert_keras.storage import checks, paths, writing
from bert_keras.storage.json_rows import name_of

log = logging.getLogger("bert_keras")

EVALUATION_FILE = "evaluation.json"


def warn_of_trained_data(settings: Mapping[str, Any], texts: Mapping[str, Sequence[Placed]] | None = None) -> None:
    """Warns if the evaluation file is the training file or a copy of it, or if it has some of the same `Task.texts`."""
    train_file, eval_file = settings.get("train_file"), _eval_file(settings)
    train, evaluated = (texts or {}).get("train", ()), (texts or {}).get("eval", ())
    if train_file and eval_file and _is_same_data(train_file, eval_file):
        log.warning(
            Message(
                "{} is the training data: its metrics are too good and say little about other data; evaluate "
                "on held-out data ({eval_file})",
                name_of(eval_file),
            )
        )
    elif shared := find_shared((text.key for text in evaluated), (text.key for text in train)):
        log.warning(
            "texts to evaluate on that the training data also have: %s of %s, such as %s (the same as %s); "
            "the metrics are too good, so take these texts out of one of the two",
            f"{len(shared):,}",
            f"{len(evaluated):,}",
            evaluated[shared[0].number].place,
            train[shared[0].other].place,
        )


def describe_evaluation_data(settings: Mapping[str, Any], features: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns the entry "data" of evaluation.json: source, number of rows and digest of the features."""
    digest = hashlib.sha256()
    for name in sorted(features):
        digest.update(name.encode())
        digest.update(features[name].tobytes())
    share = settings.get("eval_share")
    source = _eval_file(settings) or (f"{share:g} of {settings['train_file']}" if share else settings.get("tfds"))
    source = source or settings.get("data_dir")
    return {"source": source, "num_rows": len(features["input_ids"]), "sha256": digest.hexdigest()}


def warn_of_replaced_reports(run_dir: RunDir, data: Mapping[str, Any]) -> None:
    """Warns if new reports replace reports on other data; `data` is from `describe_evaluation_data`."""
    try:
        stored = json.loads(paths.read_text(run_dir.file(EVALUATION_FILE)))
        before, metrics = stored["data"], in_words(stored["metrics"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return  # no report, or a damaged one
    if before["sha256"] != data["sha256"]:
        again = " after a change" if before["source"] == data["source"] else ""
        log.warning(
            Message(
                "the reports in {} are of {} ({}), and are replaced by those of {}{}; to keep them, evaluate "
                "into another {output_dir}, with {init_checkpoint}={}",
                run_dir.path,
                before["source"],
                metrics,
                data["source"],
                again,
                run_dir.path,
            )
        )


def _eval_file(settings: Mapping[str, Any]) -> str | None:
    if "do_eval" not in settings and not settings.get("eval_share"):  # run_squad.py, with answers for predict_file
        return settings.get("eval_file") or settings.get("predict_file")
    return settings.get("eval_file")


def _is_same_data(first: str, second: str) -> bool:
    if checks.is_same_file(first, second):
        return True
    if not (paths.is_file(first) and paths.is_file(second)) or paths.size(first) != paths.size(second):
        return False
    return writing.sha256(first) == writing.sha256(second)
