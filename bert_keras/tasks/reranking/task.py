"""Reranking as a fine-tuning run: a model reads a query and a text together and gives a score."""

import logging
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import scipy.special

from bert_keras.evaluation.html_report import join, note, text_list
from bert_keras.evaluation.intervals import interval_of_shares
from bert_keras.evaluation.ranking import RANKING_METRICS, ranking_metrics
from bert_keras.evaluation.tables import tab_separated
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import BertConfig, ClassifierModel, MultiLabelLoss, MultipleChoiceModel
from bert_keras.modeling.losses import Loss
from bert_keras.prediction import Vectorizer
from bert_keras.runs.run_dir import RunDir
from bert_keras.tasks.dry_run.opening import ACTIONS, files_used
from bert_keras.tasks.finetuning.task import Task, finite_logits
from bert_keras.tasks.reports.page import Findings
from bert_keras.tasks.reranking.data import (
    Queries,
    check_queries,
    list_features,
    pair_features,
    read_queries,
    split_queries,
)
from bert_keras.tasks.reranking.losses import ListwiseLoss
from bert_keras.tasks.reranking.mining import mine_negatives
from bert_keras.tasks.reranking.settings import RerankerSettings

log = logging.getLogger("bert_keras")

_NUM_WORST_QUERIES = 20


class Reranking(Task):
    """The task of run_reranker.py. The constructor reads and checks all queries.

    With the loss "bce", an example is a query with one text, and the score is the sigmoid of the logit. With
    "listwise", an example is a query with all of its texts, and the score is the logit.
    """

    program = "run_reranker"
    metric_names = ("loss", *RANKING_METRICS)

    def __init__(self, settings: RerankerSettings, files: ModelFolder, stored: dict[str, Any] | None = None) -> None:
        self.metric = settings.metric or RANKING_METRICS[0]
        if self.metric not in RANKING_METRICS:
            raise Mistake("{metric}={} is not one of the metrics of such data: {}", self.metric, [*RANKING_METRICS])
        losses = {"sigmoid": "bce", "identity": "listwise"}
        self._loss = losses[stored["activation"]] if stored else settings.rerank_loss
        if self._loss == "listwise":
            self.no_effect = {
                "pack": "the texts of a query are rows that are compared with each other",
                "label_smoothing": "the listwise loss compares the texts of a query",
            }
        self.max_seq_length = settings.max_seq_length
        self._tokenizer = files.tokenizer
        self._read(settings)

    def _read(self, settings: RerankerSettings) -> None:
        if settings.mine_negatives and settings.do_train and keras.backend.backend() != "tensorflow":
            raise Mistake("{mine_negatives} predicts, which needs TensorFlow; leave it out, or train with TensorFlow")
        found: dict[str, Any] = {
            name: read_queries(getattr(settings, name), settings, has_relevance=name != "predict_file")
            for name in files_used(settings)
        }
        found, parts = split_queries(settings, found)
        vectors = None
        for name, queries in found.items():
            # An evaluation has the texts of its file, unless all of them fit.
            is_mined = name == "train_file" or (name == "eval_file" and not queries.has_wrong_texts)
            if settings.mine_negatives and is_mined:
                vectors = vectors or Vectorizer(settings.mine_negatives, precision="float32")
                found[name] = mine_negatives(queries, vectors, settings.num_mined_negatives)
            check_queries(found[name], name)
        train, self._eval, self._predict = (found.get(name) for name in ACTIONS)
        self._tell_data(train, self._eval, parts)
        if train:
            self._prepare_training(train)
        if self._eval:
            self.eval_features = self._rows(_pairs_of(self._eval), "the evaluation data")
        if self._predict:
            self.predict_features = self._rows(self._predict.rows, "the data to predict")

    def _prepare_training(self, queries: Queries) -> None:
        if self._loss == "listwise":
            self.train_features = list_features(queries, self._tokenizer, self.max_seq_length, "the training data")
            log.info(
                "loss: listwise; an example is a query with up to %d texts",
                self.train_features["label_values"].shape[1],
            )
        else:
            relevance = np.array([value for texts in queries.texts.values() for value in texts.values()], np.float32)
            self.train_features = self._rows(_pairs_of(queries), "the training data")
            self.train_features["label_values"] = relevance[:, np.newaxis] / relevance.max()
            log.info(
                "loss: bce; an example is a query with a text, and a score of %g means that it fits", relevance.max()
            )
        self.num_train_examples = len(self.train_features["input_ids"])

    def _rows(self, rows: list[tuple[str, str]], what: str) -> dict[str, np.ndarray]:
        features = pair_features(rows, self._tokenizer, self.max_seq_length, what)
        if self._loss == "bce":
            return features
        return {name: values[:, np.newaxis] for name, values in features.items()}

    def describe(self) -> dict[str, Any]:
        activation = "sigmoid" if self._loss == "bce" else "identity"
        return {"task": "rerank", "max_seq_length": self.max_seq_length, "activation": activation}

    def make_network(self, config: BertConfig) -> Loss:
        if self._loss == "listwise":
            return ListwiseLoss(MultipleChoiceModel(config))
        return MultiLabelLoss(ClassifierModel(config, 1))

    def evaluate(self, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        found, relevance = self._by_query(outputs)
        return {"loss": self._mean_loss(found, relevance), **ranking_metrics(relevance, found)}

    def _by_query(self, outputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Returns the scores and the relevance of the texts of each query."""
        relevance = [np.array(list(texts.values())) for texts in self._queries().values()]
        return np.split(finite_logits(outputs)[:, 0], np.cumsum([len(gains) for gains in relevance])[:-1]), relevance

    def _queries(self) -> dict[str, dict[str, float]]:
        return self._eval.texts if self._eval else {}

    def _mean_loss(self, scores: Sequence[np.ndarray], relevance: Sequence[np.ndarray]) -> float:
        if self._loss == "bce":
            labels, logits = np.concatenate(relevance), np.concatenate(scores)
            return float(np.mean(np.logaddexp(0, logits) - logits * labels / labels.max()))
        pairs = zip(relevance, scores, strict=True)
        return float(np.mean([-(gains / gains.sum()) @ scipy.special.log_softmax(logits) for gains, logits in pairs]))

    def write_evaluation(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> None:
        """Writes eval_predictions.tsv: each text with its query, its relevance and its score."""
        triples = [(query, *item) for query, texts in self._queries().items() for item in texts.items()]
        rows = [
            [query, text, f"{relevance:g}", f"{score:.6f}"]
            for (query, text, relevance), score in zip(triples, self._shown(outputs), strict=True)
        ]
        run_dir.write_text("eval_predictions.tsv", tab_separated(["query", "text", "relevance", "score"], rows))

    def findings(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> Findings:
        found, relevance = self._by_query(outputs)
        values = [ranking_metrics([gains], [scores]) for gains, scores in zip(relevance, found, strict=True)]
        items = []
        for (query, texts), gains, scores in zip(self._queries().items(), relevance, found, strict=True):
            order, names = np.lexsort((gains, -scores)), list(texts)
            rank = int((gains[order] > 0).argmax())
            facts = f"the first text that fits has place {rank + 1} of {len(texts)}"
            items.append((rank, ([facts], [query, f"1: {names[order[0]]}", f"{rank + 1}: {names[order[rank]]}"])))
        worst = sorted((item for item in items if item[0]), key=lambda item: -item[0])[:_NUM_WORST_QUERIES]
        message = "Each has its query, the text with the highest score, and the first text that fits."
        return Findings(
            num_rows=len(found),
            unit="queries",
            intervals={name: interval_of_shares(np.array([row[name] for row in values])) for name in RANKING_METRICS},
            texts={"Worst queries": join(note(message), text_list(item for _, item in worst))},
        )

    def write_predictions(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> list[float]:
        """Writes predictions.tsv: each text with its query and its score. Returns the scores."""
        scores = self._shown(outputs)
        pairs = self._predict.rows if self._predict else []
        rows = [[*pair, f"{score:.6f}"] for pair, score in zip(pairs, scores, strict=True)]
        run_dir.write_text("predictions.tsv", tab_separated(["query", "text", "score"], rows))
        return scores.tolist()

    def _shown(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        scores = finite_logits(outputs)[:, 0]
        return scipy.special.expit(scores) if self._loss == "bce" else scores


def _pairs_of(queries: Queries) -> list[tuple[str, str]]:
    return [(query, text) for query, texts in queries.texts.items() for text in texts]
