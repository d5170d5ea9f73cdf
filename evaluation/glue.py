"""Writes files in the format of GLUE's submission site."""

import io
import logging
import zipfile

import numpy as np

log = logging.getLogger("bert_keras")

# By task in lower case; `ax` is the diagnostic set.
SUBMISSION_FILES = {
    "cola": "CoLA.tsv",
    "sst-2": "SST-2.tsv",
    "mrpc": "MRPC.tsv",
    "sts-b": "STS-B.tsv",
    "qqp": "QQP.tsv",
    "mnli": "MNLI-m.tsv",
    "mnli-mm": "MNLI-mm.tsv",
    "qnli": "QNLI.tsv",
    "rte": "RTE.tsv",
    "wnli": "WNLI.tsv",
    "ax": "AX.tsv",
}

_NUMBERS, _TWO_WAYS = {"0", "1"}, {"entailment", "not_entailment"}
_THREE_WAYS = {"contradiction", "entailment", "neutral"}
# The labels that the site accepts: names if the data has names.
_LABELS = {
    **dict.fromkeys(("cola", "sst-2", "mrpc", "qqp", "wnli"), _NUMBERS),
    **dict.fromkeys(("qnli", "rte"), _TWO_WAYS),
    **dict.fromkeys(("mnli", "mnli-mm", "ax"), _THREE_WAYS),
}
_NUM_TEST_EXAMPLES = {
    "cola": 1063,
    "sst-2": 1821,
    "mrpc": 1725,
    "sts-b": 1379,
    "qqp": 390965,
    "mnli": 9796,
    "mnli-mm": 9847,
    "qnli": 5463,
    "rte": 3000,
    "wnli": 146,
    "ax": 1104,
}


def submission_text(task, predictions, labels=None):
    """Formats predictions as the file that GLUE's site takes for a task.

    Args:
        task: str, a key of SUBMISSION_FILES.
        predictions: for the examples of test.tsv, in their order: int [N], class ids; float [N] for sts-b.
        labels: list of str, the class names in the order of their ids; None for sts-b.

    Returns:
        str, tab-separated: the header `index`, `prediction`, then a row for each example. Classes have their names (0
        and 1 in the numeric tasks); numbers are clipped to 0 to 5 and have three decimals. The log warns if test.tsv
        has another number of examples, because the site then rejects the file.

    Raises:
        ValueError: the task is unknown, the labels are not those of the task, or a number is NaN.
    """
    if task not in SUBMISSION_FILES:
        raise ValueError(f'"{task}" is not a GLUE task; give one of {", ".join(SUBMISSION_FILES)}')
    values = _regression_values(predictions) if task == "sts-b" else _class_names(task, predictions, labels)
    if len(values) != _NUM_TEST_EXAMPLES[task]:
        log.warning(
            "%s has %d predictions, but the test.tsv of the task has %d examples: GLUE's site will reject it",
            *(SUBMISSION_FILES[task], len(values), _NUM_TEST_EXAMPLES[task]),
        )
    return "index\tprediction\n" + "".join(f"{index}\t{value}\n" for index, value in enumerate(values))


def submission_zip(texts):
    """Packs files for GLUE's site into a zip archive.

    Args:
        texts: dict of str by file name (values of SUBMISSION_FILES). The log lists those of the eleven files that are
            missing.

    Returns:
        bytes of the archive; the same texts give the same bytes.

    Raises:
        ValueError: a name is not in SUBMISSION_FILES.
    """
    unknown = sorted(set(texts) - set(SUBMISSION_FILES.values()))
    if unknown:
        raise ValueError(f"{unknown[0]} is not a submission file; give some of {', '.join(SUBMISSION_FILES.values())}")
    missing = [name for name in SUBMISSION_FILES.values() if name not in texts]
    if missing:
        log.info("the submission lacks %s; GLUE's site needs all %d files", ", ".join(missing), len(SUBMISSION_FILES))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(texts):
            # The default date is constant, so the bytes do not depend on the time of writing.
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, texts[name])
    return file.getvalue()


def _regression_values(predictions):
    values = np.asarray(predictions, np.float64)
    if np.isnan(values).any():
        place = int(np.argmax(np.isnan(values))) + 1
        raise ValueError(f"prediction {place} of {len(values)} is nan; a file for GLUE's site needs numbers")
    return [f"{value:.3f}" for value in np.clip(values, 0, 5)]


def _class_names(task, predictions, labels):
    if set(labels or ()) != _LABELS[task]:
        given = ", ".join(labels) if labels else "none"
        raise ValueError(
            f"the labels of {task} are {', '.join(sorted(_LABELS[task]))}, but {given} were given; "
            "a submission needs predictions of a model for this task"
        )
    return [labels[class_id] for class_id in predictions]
