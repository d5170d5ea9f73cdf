"""Token classification as a fine-tuning run: a tag for each word, evaluated by entities."""

import dataclasses
import functools
import json
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.data_prep.text.places import split_by
from bert_keras.engine.report import in_words
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import BertConfig, TokenClassificationLoss, TokenClassifierModel
from bert_keras.runs.run_dir import RunDir
from bert_keras.tasks.finetuning.task import Task
from bert_keras.tasks.tables.examples import in_order, naming_teacher
from bert_keras.tasks.tagging.conll import read_conll
from bert_keras.tasks.tagging.conll_columns import format_columns
from bert_keras.tasks.tagging.entities import entity_metrics, entity_report
from bert_keras.tasks.tagging.features import collect_tags, make_features, tags_from_logits
from bert_keras.tasks.tagging.files import TaggedFile, columns_of, find_files, split_sentences
from bert_keras.tasks.tagging.rows import tagged_rows
from bert_keras.tasks.tagging.settings import NerSettings

log = logging.getLogger("bert_keras")


class TokenClassification(Task):
    """Predicts a tag for each word; evaluated by entities, as conlleval does.

    Every run makes its features, because that takes less time than reading them from records.

    Args:
        stored: the task.json of a trained model, whose tags are used; None: the tags of the training file.
    """

    program = "run_ner"
    baseline_name = "no entities"
    metric = "f1"
    metric_names = ("precision", "recall", "f1", "accuracy")

    def __init__(self, settings: NerSettings, files: ModelFolder, stored: dict[str, Any] | None = None) -> None:
        paths_by_flag = find_files(settings)
        self.files = {name: paths_by_flag.get(name) for name in ("train_file", "eval_file")}
        self._settings = {name: getattr(settings, name) for name in ("max_seq_length", "document_context", "words")}
        split = functools.partial(split_by, settings.words, files.tokenizer)
        read = {
            name: read_conll(path, name != "predict_file", **columns_of(settings, path), split=split)
            for name, path in paths_by_flag.items()
        }
        read, parts = split_sentences(settings, read)
        train, self._eval, self._predict = (read.get(name, []) for name in ("train_file", "eval_file", "predict_file"))
        if stored is None and not train:
            raise Mistake("the set of tags is unknown; train with {do_train}, or give a model from run_ner")
        held = None if settings.new_head else files.labels
        self.tags = stored["labels"] if stored else in_order(collect_tags(train), held)
        self.facts = {"tags": self.tags, **parts}
        parts = (("train", train), ("eval", self._eval))
        self.texts = {part: [sentence.placed for sentence in sentences] for part, sentences in parts}
        for name, sentences in (("train_file", train), ("eval_file", self._eval)):
            if sentences:
                self.facts[f"{name}_sha256"] = TaggedFile(sentences).digest

        def features(sentences: list[Sentence]) -> dict[str, np.ndarray] | None:
            if not sentences:
                return None
            length, has_context = settings.max_seq_length, settings.document_context
            with naming_teacher(settings):
                return make_features(sentences, self.tags, files.tokenizer, length, has_context)

        self.train_features = features(train)
        self.eval_features = features(self._eval)
        # Without tags, because they may differ from those of training.
        untagged = [dataclasses.replace(sentence, tags=None) for sentence in self._predict]
        self.predict_features = features(untagged)
        self.num_train_examples = len(self.train_features["input_ids"]) if self.train_features else 0
        log.info("tags: %s", ", ".join(self.tags))

    def describe(self) -> dict[str, Any]:
        return {"task": "token_classification", "labels": self.tags, "tag_scheme": "BIO", **self._settings}

    def make_network(self, config: BertConfig) -> TokenClassificationLoss:
        return TokenClassificationLoss(TokenClassifierModel(config, len(self.tags)))

    def evaluate(self, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        return entity_metrics(_tags_of(self._eval), self._predicted(outputs))

    @property
    def baseline(self) -> dict[str, float]:
        """The metrics of predicting no entity: every word is O."""
        return entity_metrics(_tags_of(self._eval), [["O"] * len(sentence.words) for sentence in self._eval])

    def write_evaluation(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> None:
        """Writes entity_report.txt, the metrics of each entity type."""
        predicted = self._predicted(outputs)
        run_dir.write_text("entity_report.txt", entity_report(_tags_of(self._eval), predicted))

    def write_predictions(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> list[dict[str, Any]] | None:
        """Writes predictions.txt or .jsonl in the format of the input file, and metrics if that file has tags.

        Returns the objects of predictions.jsonl; None for predictions.txt.
        """
        predicted, confidences = tags_from_logits(self.predict_features, outputs["logits"], self._predict, self.tags)
        run_dir.remove("predictions.txt", "predictions.jsonl", "predict_results.txt", "predict_entity_report.txt")
        rows = None
        if self._predict[0].row is not None:
            rows = tagged_rows(self._predict, predicted, confidences)
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            run_dir.write_text("predictions.jsonl", lines)
        else:
            run_dir.write_text("predictions.txt", format_columns(self._predict, predicted))
        if self._predict[0].tags is not None:
            truth = _tags_of(self._predict)
            metrics = entity_metrics(truth, predicted)
            log.info("predictions, compared with the tags of %s: %s", self._predict[0].path, in_words(metrics))
            lines = "".join(f"{name} = {metrics[name]:.6f}\n" for name in sorted(metrics))
            run_dir.write_text("predict_results.txt", lines)
            run_dir.write_text("predict_entity_report.txt", entity_report(truth, predicted))
        return rows

    def _predicted(self, outputs: dict[str, np.ndarray]) -> list[list[str]]:
        return tags_from_logits(self.eval_features, outputs["logits"], self._eval, self.tags)[0]


def _tags_of(sentences: Sequence[Sentence]) -> list[Sequence[str]]:
    return [sentence.tags or () for sentence in sentences]
