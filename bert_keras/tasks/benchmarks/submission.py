"""Writes files in the format of GLUE's submission site."""

import io
import logging
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bert_keras.mistakes import Mistake

log = logging.getLogger("bert_keras")

_BINARY, _TWO_WAY = {"0", "1"}, {"entailment", "not_entailment"}
_THREE_WAY = {"contradiction", "entailment", "neutral"}
# By task in lower case (`ax` is the diagnostic set): the name of the file, the labels that the site accepts (names if
# the data has names), and the number of test examples.
_SITE = {
    "cola": ("CoLA.tsv", _BINARY, 1063),
    "sst-2": ("SST-2.tsv", _BINARY, 1821),
    "mrpc": ("MRPC.tsv", _BINARY, 1725),
    "sts-b": ("STS-B.tsv", None, 1379),
    "qqp": ("QQP.tsv", _BINARY, 390965),
    "mnli": ("MNLI-m.tsv", _THREE_WAY, 9796),
    "mnli-mm": ("MNLI-mm.tsv", _THREE_WAY, 9847),
    "qnli": ("QNLI.tsv", _TWO_WAY, 5463),
    "rte": ("RTE.tsv", _TWO_WAY, 3000),
    "wnli": ("WNLI.tsv", _BINARY, 146),
    "ax": ("AX.tsv", _THREE_WAY, 1104),
}
SUBMISSION_FILES = {task: name for task, (name, _, _) in _SITE.items()}


def submission_text(task: str, predictions: Any, labels: Sequence[str] | None = None) -> str:
    """Formats predictions as the file that GLUE's site takes for a task, a tab-separated str.

    Args:
        task: str, a key of SUBMISSION_FILES.
        predictions: for the examples of test.tsv, in their order: int [N], class ids; float [N] for sts-b, which are
            clipped to 0 to 5. The log warns if test.tsv has another number of examples, because the site then rejects
            the file.
        labels: list of str, the class names in the order of their ids; None for sts-b.

    Raises:
        ValueError: the task is unknown, the labels are not those of the task, or a number is NaN.
    """
    if task not in _SITE:
        raise ValueError(f'"{task}" is not a GLUE task; give one of {", ".join(SUBMISSION_FILES)}')
    name, accepted, num_examples = _SITE[task]
    if accepted is None:
        values = _clipped(predictions)
    elif labels and set(labels) == accepted:
        values = [labels[class_id] for class_id in predictions]
    else:
        given = ", ".join(labels) if labels else "none"
        raise Mistake(
            "the labels of {} are {}, but {} were given; a submission needs predictions of a model for this task",
            task,
            ", ".join(sorted(accepted)),
            given,
        )
    if len(values) != num_examples:
        needed = f"the test.tsv of the task has {num_examples} examples"
        log.warning("%s has %d predictions, but %s: GLUE's site will reject it", name, len(values), needed)
    return "index\tprediction\n" + "".join(f"{index}\t{value}\n" for index, value in enumerate(values))


def submission_zip(texts: Mapping[str, str]) -> bytes:
    """Returns files for GLUE's site, a dict of str by file name, as bytes of a zip archive.

    The same texts give the same bytes. The log lists missing files; a name not in SUBMISSION_FILES is a ValueError.
    """
    names = list(SUBMISSION_FILES.values())
    unknown = sorted(set(texts) - set(names))
    if unknown:
        raise ValueError(f"{unknown[0]} is not a submission file; give some of {', '.join(names)}")
    missing = [name for name in names if name not in texts]
    if missing:
        log.info("the submission lacks %s; GLUE's site needs all %d files", ", ".join(missing), len(names))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(texts):
            # The default date is constant, so the bytes do not depend on the time of writing.
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, texts[name])
    return file.getvalue()


def _clipped(predictions: ArrayLike) -> list[str]:
    values = np.asarray(predictions, np.float64)
    if np.isnan(values).any():
        place = int(np.argmax(np.isnan(values))) + 1
        raise Mistake("prediction {} of {} is nan; a file for GLUE's site needs numbers", place, len(values))
    return [f"{value:.3f}" for value in np.clip(values, 0, 5)]
