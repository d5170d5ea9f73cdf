"""Vectors of texts as a fine-tuning run: texts of similar meaning get similar vectors."""

import io
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.text.model_inputs import encode_pair, pad_rows
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.evaluation.tables import tab_separated
from bert_keras.mistakes import Message
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import BertConfig, SentenceModel
from bert_keras.modeling.heads import check_pooling
from bert_keras.modeling.losses import Loss
from bert_keras.runs.run_dir import RunDir
from bert_keras.tasks.dry_run.opening import ACTIONS, files_used
from bert_keras.tasks.finetuning.task import Task
from bert_keras.tasks.vectors.data import read_texts, split_texts
from bert_keras.tasks.vectors.losses import NO_TEXT, CosineLoss, RankingLoss
from bert_keras.tasks.vectors.metrics import (
    CLUSTERING_METRICS,
    RETRIEVAL_METRICS,
    SIMILARITY_METRICS,
    clustering_metrics,
    cosines,
    retrieval_metrics,
    similarity_metrics,
)
from bert_keras.tasks.vectors.settings import VectorSettings

log = logging.getLogger("bert_keras")

# The settings in task.json, in addition to those of every task.
SETTLED = ("pooling", "normalize", "prefix", "max_seq_length")

# For each kind of evaluation data: its metrics, and the one that selects models.
_METRICS = {
    "scores": (SIMILARITY_METRICS, "spearman"),
    "pairs": (RETRIEVAL_METRICS, "mrr_at_10"),
    "classes": (CLUSTERING_METRICS, "v_measure"),
}


class SentenceVectors(Task):
    """Trains vectors of texts; the training data decide the loss, and the evaluation data the metrics."""

    program = "run_sentence_vectors"
    metric = "spearman"
    has_head = False

    @classmethod
    def reopened(cls, settings: VectorSettings, files: ModelFolder, stored: dict[str, Any]) -> Task:
        return cls(settings, files)

    def __init__(self, settings: VectorSettings, files: ModelFolder) -> None:
        check_pooling(files.config, settings.pooling)
        self._settings = {name: getattr(settings, name) for name in SETTLED}
        self._scale = settings.scale
        self.files = {"train_file": settings.train_file, "eval_file": settings.eval_file}
        found = {name: read_texts(settings, name) for name in files_used(settings)}
        found, parts = split_texts(settings, found)
        # None for each action that the run leaves out; the methods below run only for the others.
        texts: list[Any] = [found.get(name) for name in ACTIONS]
        self._train, self._eval, self._predict = texts
        self._tell_data(self._train, self._eval, parts)

        def features(name: str) -> dict[str, np.ndarray]:
            rows, what = found[name].rows, getattr(settings, name) or "the held-out rows"
            return _make_features(rows, files.tokenizer, settings.max_seq_length, settings.prefix, what)

        if self._train:
            self._prepare_training(settings, features("train_file"))
        if self._eval:
            self.metric_names, self.metric = _METRICS[self._eval.kind]
            self.eval_features = features("eval_file")
        if self._predict:
            self.predict_features = features("predict_file")

    def _prepare_training(self, settings: VectorSettings, features: dict[str, np.ndarray]) -> None:
        self.num_train_examples = len(features["input_ids"])
        self.no_effect = {
            "pack": "an example of vectors is several texts",
            "label_smoothing": "the loss of vectors has no labels",
        }
        if self._train.has_scores:
            self.no_effect["scale"] = "pairs with scores have another loss than the ranking loss"
            highest = settings.max_score or max(map(abs, self._train.labels))
            log.info("loss: squared error of the cosine, and a score of %g is a cosine of 1", highest)
            features["label_values"] = np.array(self._train.labels, np.float32) / np.float32(highest)
        else:
            self.no_effect["max_score"] = Message("{train_file} has no scores")
            if not self._train.has_pairs:
                # Dropout makes the two vectors of a text differ.
                features = {name: np.repeat(values, 2, axis=1) for name, values in features.items()}
            log.info(
                "loss: %s, among the texts of %d examples",
                "rank the second text of a pair first" if self._train.has_pairs else "recognize the same text",
                settings.train_batch_size[0],
            )
        self.train_features = features

    def describe(self) -> dict[str, Any]:
        return {"task": "vectors", "layer": -1, **self._settings}

    def make_network(self, config: BertConfig) -> Loss:
        model = SentenceModel(config, self._settings["pooling"], self._settings["normalize"])
        is_scored = self._train is not None and self._train.has_scores
        return CosineLoss(model) if is_scored else RankingLoss(model, self._scale)

    def evaluate(self, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        vectors = outputs["vectors"]
        if self._eval.has_scores:
            return similarity_metrics(self._eval.labels, cosines(vectors[:, 0], vectors[:, 1]))
        if self._eval.has_pairs:
            return _retrieval(vectors, self.eval_features["text_numbers"])
        return clustering_metrics(vectors[:, 0], self._eval.labels)

    def write_predictions(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> np.ndarray | list[float]:
        """Writes vectors.npy, float32 [N, H]; or for pairs predictions.tsv, the texts and their cosine.

        Returns the vectors, or the cosines.
        """
        vectors = outputs["vectors"]
        run_dir.remove("vectors.npy", "predictions.tsv")
        if vectors.shape[1] == 1:
            file = io.BytesIO()
            np.save(file, vectors[:, 0])
            run_dir.write_text("vectors.npy", file.getvalue())
            return vectors[:, 0]
        found = cosines(vectors[:, 0], vectors[:, 1])
        rows = [[*row[:2], f"{value:.6f}"] for row, value in zip(self._predict.rows, found, strict=True)]
        run_dir.write_text("predictions.tsv", tab_separated(["text", "text_pair", "cosine"], rows))
        return found.tolist()


def _make_features(
    rows: Sequence[Sequence[str]], tokenizer: FullTokenizer, max_seq_length: int, prefix: str, what: str
) -> dict[str, np.ndarray]:
    """Returns the features of N examples of up to K texts, each with the prefix before it.

    The features are int32 "input_ids", int8 "input_mask" and "segment_ids" [N, K, T], and int32 "text_numbers" [N, K]:
    equal texts of the file have one number, and a missing text has NO_TEXT. The log reports the share of cut texts.
    """
    numbers_of = {text: number for number, text in enumerate(dict.fromkeys(text for row in rows for text in row))}
    num_texts = max(map(len, rows))
    numbers = np.full((len(rows), num_texts), NO_TEXT, np.int32)
    for found, row in zip(numbers, rows, strict=True):
        found[: len(row)] = [numbers_of[text] for text in row]
    encoded = [encode_pair(tokenizer, prefix + text, None, max_seq_length) for text in numbers_of]
    if num_cut := sum(cut > 0 for _, _, cut in encoded):
        share = f"{100 * num_cut / len(encoded):.1f} % of the {len(encoded):,} texts of {what}"
        log.info("%s are longer than %d tokens and are cut", share, max_seq_length)
    # NO_TEXT, -1, is the index of the last row.
    sequences = [ids for ids, _, _ in encoded] + [[tokenizer.vocab["[CLS]"], tokenizer.vocab["[SEP]"]]]
    features = pad_rows(sequences, list(map(len, sequences)), max_seq_length)
    return {name: values[numbers] for name, values in features.items()} | {"text_numbers": numbers}


def _retrieval(vectors: np.ndarray, numbers: np.ndarray) -> dict[str, float]:
    """Returns the metrics of finding the second text of each first text among the second and further texts."""
    flat_numbers, flat = numbers[:, 1:].reshape(-1), vectors[:, 1:].reshape(-1, vectors.shape[-1])
    documents, places = np.unique(flat_numbers[flat_numbers >= 0], return_index=True)
    flat = flat[flat_numbers >= 0]
    place_of = {number: place for place, number in enumerate(documents.tolist())}
    queries, rows, inverse = np.unique(numbers[:, 0], return_index=True, return_inverse=True)
    relevant = [set() for _ in queries]
    for query, number in zip(inverse.tolist(), numbers[:, 1].tolist(), strict=True):
        relevant[query].add(place_of[number])
    own = [place_of.get(number, -1) for number in queries.tolist()]
    return retrieval_metrics(vectors[rows, 0], flat[places], relevant, own)
