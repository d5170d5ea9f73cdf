"""Caches the features of a fine-tuning task in record files: built once, read afterwards.

The files are train.tf_record, eval.tf_record and predict.tf_record, as in the original BERT, which builds them again in
every run. A note (`.json`) next to each file records its sources.
"""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.data_prep.records import writing
from bert_keras.mistakes import Mistake
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

_KIND = "features"
_RECORDS_AT_ONCE = 1024


def cached_features(path: str, facts: dict, build: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns the features of a record file if its note has the same facts and code; else builds and writes them.

    `facts` are JSON values that determine the features: digests of the data and the vocabulary, lengths. `build`
    returns integer or float32 arrays by name, with the examples as first axis.
    """
    # Compare in the form that JSON returns: it has no tuples.
    wanted = json.loads(json.dumps({"kind": _KIND, "code": writing.code_digest(), "made_from": facts}))
    stored = _stored_note(path) if paths.exists(path) else None
    if stored is not None and {name: stored.get(name) for name in wanted} == wanted:
        features = _read(path, stored)
        if features is not None:
            log.info("%s: %s examples, made earlier from the same data", path, f"{stored['num_examples']:,}")
            return features
        log.warning("%s is damaged; making it again", path)
    features = build()
    _write(path, features, wanted)
    return features


def _stored_note(path: str) -> dict[str, Any] | None:
    """Returns the note of a file; None if it is missing or damaged."""
    try:
        return writing.read_metadata(path)
    except Mistake:
        log.warning("%s is damaged; making %s again", writing.metadata_file(path), path)
        return None


def _write(path: str, features: Mapping[str, np.ndarray], notes: Mapping[str, Any]) -> None:
    num_rows = len(next(iter(features.values())))
    flat = {name: np.reshape(values, (num_rows, -1)) for name, values in features.items()}
    layout = {name: {"shape": values.shape[1:], "dtype": str(values.dtype)} for name, values in features.items()}
    rows = ({name: values[row].tolist() for name, values in flat.items()} for row in range(num_rows))
    writing.write_records(path, map(writing.serialize_example, rows), {**notes, "features": layout})


def _read(path: str, stored: Mapping[str, Any]) -> dict[str, np.ndarray] | None:
    """Returns the features of a file; None if they do not match the note."""
    layout, num_rows = stored["features"], stored["num_examples"]
    features = {name: np.empty((num_rows, *feature["shape"]), feature["dtype"]) for name, feature in layout.items()}
    parsed = {
        name: tf.io.FixedLenFeature(
            feature["shape"], tf.float32 if np.issubdtype(feature["dtype"], np.floating) else tf.int64
        )
        for name, feature in layout.items()
    }
    row = 0
    try:
        for batch in tf.data.TFRecordDataset(path).batch(_RECORDS_AT_ONCE):
            for name, values in tf.io.parse_example(batch, parsed).items():
                features[name][row : row + len(values)] = values
            row += len(batch)
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, ValueError):
        return None
    return features if row == num_rows else None
