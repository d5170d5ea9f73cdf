"""Question answering as a fine-tuning run: SQuAD 1.1 and 2.0, evaluated with the official scores."""

import dataclasses
import functools
import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.records.feature_cache import cached_features
from bert_keras.data_prep.text.same_text import Key, Placed, key_of
from bert_keras.engine.report import in_words
from bert_keras.mistakes import Message
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import BertConfig, SquadLoss, SquadModel
from bert_keras.runs.run_dir import RunDir
from bert_keras.storage import paths
from bert_keras.storage.checks import is_same_file
from bert_keras.tasks.finetuning.task import Task
from bert_keras.tasks.question_answering.metrics import squad_v1_metrics, squad_v2_metrics, warn_of_words
from bert_keras.tasks.question_answering.settings import SquadSettings
from bert_keras.tasks.question_answering.squad import SquadExample, make_features
from bert_keras.tasks.question_answering.squad_answers import (
    Answer,
    AnswerSettings,
    answer_files,
    find_answers,
    report_unanswered,
)
from bert_keras.tasks.question_answering.squad_files import QuestionFile, check_answers, make_examples, unanswered_ids
from bert_keras.tasks.tables.held_out import with_part

log = logging.getLogger("bert_keras")

# The features in the original BERT's train.tf_record.
_TRAINING_FEATURES = (
    *("unique_ids", "input_ids", "input_mask", "segment_ids"),
    *("start_positions", "end_positions", "is_impossible"),
)


# Flags that turn questions into rows of features, see `tasks.question_answering.squad.make_features`.
WINDOW_FLAGS = ("max_seq_length", "doc_stride", "max_query_length")


@dataclasses.dataclass(frozen=True)
class _Questions:
    """The questions of a file, and the articles to score them with."""

    path: str
    articles: list[dict]
    examples: list[SquadExample]
    digest: str

    @property
    def placed(self) -> list[Placed]:
        """The passages, each with its first question."""
        places: dict[Key, str] = {}
        for passage, examples in itertools.groupby(self.examples, lambda example: example.passage):
            places.setdefault(key_of([passage.text]), f'{self.path} question "{next(examples).question_id}"')
        return [Placed(*item) for item in places.items()]


class QuestionAnswering(Task):
    """Finds answers to questions in texts; in SQuAD 2.0, also decides whether a question has an answer.

    Without an `eval_file`, a `predict_file` with answers is the evaluation data.

    With `version_2_with_negative`, the evaluation finds the threshold with the best F1: above it, a question has no
    answer. The model stores this threshold, and a separate `predict_file` uses it. Predictions for the evaluation data
    use the threshold of the settings, so their metrics do not profit.

    Args:
        is_threshold_given: whether to use and store the threshold of the settings instead of the one found.
        is_evaluated: whether the run has an evaluation already, which a predict_file with answers must not replace.
    """

    program = "run_squad"
    baseline_name = "empty answers"
    is_trimmed = False  # the scores of all positions compete, including padding

    @classmethod
    def reopened(cls, settings: SquadSettings, files: ModelFolder, stored: dict[str, Any]) -> Task:
        return cls(settings, files)

    def __init__(
        self, settings: SquadSettings, files: ModelFolder, is_threshold_given: bool = False, is_evaluated: bool = False
    ) -> None:
        eval_file = settings.eval_file
        predict_file = settings.predict_file if settings.do_predict else None
        self._tokenizer = files.tokenizer
        self._windows = {name: getattr(settings, name) for name in WINDOW_FLAGS}
        # Of a model of another library; a model that is trained here gets the rule of the original BERT.
        has_all = not settings.do_train and bool((files.task or {}).get("use_all_places"))
        names = {field.name for field in dataclasses.fields(AnswerSettings)} - {"use_all_places"}
        values = {name: getattr(settings, name) for name in names}
        self._answers = AnswerSettings(**values, use_all_places=has_all)
        self._is_threshold_given = is_threshold_given
        self._language = settings.answer_language
        self._is_evaluated = is_evaluated or settings.evaluation_data() is not None
        self._found_threshold = None
        self._judged = None
        train_file = settings.train_file if settings.do_train or settings.holds_out else None
        files_read = {"train_file": train_file, "eval_file": eval_file}
        read = {name: QuestionFile.read(path) for name, path in files_read.items() if path}
        read, parts = with_part(settings, read, "contexts")
        self._train = self._questions(read.get("train_file"), is_training=True)
        self._eval: Any = self._questions(read.get("eval_file"))
        is_same = eval_file and predict_file and is_same_file(eval_file, predict_file)
        self._predict: Any = (
            self._eval if is_same else self._questions(predict_file and QuestionFile.read(predict_file))
        )
        if self._eval:
            check_answers(self._eval.articles, self._eval.path, self._answers.version_2_with_negative)
        self._judges_predictions = not is_same and self._predict is not None and self._is_answered(self._predict)
        if self._judges_predictions and not self._is_evaluated:
            self._eval = self._predict
        if self._language is None and self._eval:
            warn_of_words(self._eval.articles, self._eval.path)
        self.num_train_examples = len(self._train.examples) if self._train else 0
        self.metric = "best_f1" if self._answers.version_2_with_negative else "f1"
        self.metric_names = tuple(self.baseline) if self._eval else ()
        self._tell_data(self._train, self._eval, parts)

    def describe(self) -> dict[str, Any]:
        return {
            "task": "question_answering",
            **self._windows,
            "max_answer_length": self._answers.max_answer_length,
            "n_best_size": self._answers.n_best_size,
            "version_2_with_negative": self._answers.version_2_with_negative,
            "null_score_diff_threshold": self._threshold,
            "answer_text": self._answers.answer_text,
        }

    def prepare(self, folder: str) -> None:
        self.train_features = self._features(self._train, paths.join(folder, "train.tf_record"), is_training=True)
        self.eval_features = self._features(self._eval, paths.join(folder, "eval.tf_record"))
        if self._predict is not self._eval:
            # The original BERT writes its only other data, those to predict, into eval.tf_record.
            name = "predict.tf_record" if self._is_evaluated else "eval.tf_record"
            self.predict_features = self._features(self._predict, paths.join(folder, name))

    def make_network(self, config: BertConfig) -> SquadLoss:
        return SquadLoss(SquadModel(config))

    def evaluate(self, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        """Returns the official metrics in percent, without the numbers of questions.

        In version 2: exact and f1 (also HasAns_ and NoAns_) with the threshold of the settings, and best_exact and
        best_f1 with their thresholds. Also keeps the threshold with the best F1.
        """
        answers = self._answers_of_evaluation(outputs)
        metrics = self._metrics(self._eval, answers)
        if self._answers.version_2_with_negative:
            self._found_threshold = self._best_threshold(answers, metrics)
        # Under their official names, with all digits.
        self.results = metrics
        return metrics

    @functools.cached_property
    def baseline(self) -> dict[str, float]:
        """The metrics of an empty answer to every question."""
        ids = [example.question_id for example in self._eval.examples]
        if not self._answers.version_2_with_negative:
            return squad_v1_metrics(self._eval.articles, dict.fromkeys(ids, ""), self._language)
        empty, odds = dict.fromkeys(ids, ""), dict.fromkeys(ids, 0.0)
        return _without_totals(squad_v2_metrics(self._eval.articles, empty, odds, language=self._language))

    def write_evaluation(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> dict[str, str] | None:
        """Writes the predictions of the evaluation, with the prefix "eval_" unless it is on the predict_file."""
        answers, is_predicted = self._answers_of_evaluation(outputs), self._predict is self._eval
        texts = self._write(run_dir, answers, "" if is_predicted else "eval_")
        if is_predicted:
            run_dir.remove("predict_results.txt")
        if self._found_threshold is not None and not self._is_threshold_given:
            f1 = self._judge(self._eval, answers, self._found_threshold)["f1"]
            log.info(
                Message(
                    "{}: {null_score_diff_threshold}={:.6g} gives the best F1, {:.4g}{}",
                    self._eval.path,
                    self._found_threshold,
                    f1,
                    "; it is stored with the model" if self._train else "",
                )
            )
        return texts if is_predicted else None

    def write_predictions(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> dict[str, str]:
        """Writes (nbest_)predictions.json, null_odds.json (version 2), and predict_results.txt (if scored).

        Returns the contents of predictions.json.
        """
        settings = dataclasses.replace(self._answers, null_score_diff_threshold=self._threshold)
        answers = self._find(self._predict, self.predict_features, outputs, settings)
        texts = self._write(run_dir, answers, "")
        if settings.version_2_with_negative:
            log.info("questions above %.6g in null_odds.json get no answer", settings.null_score_diff_threshold)
        run_dir.remove("predict_results.txt")
        if self._judges_predictions:
            metrics = self._metrics(self._predict, answers, settings.null_score_diff_threshold)
            log.info("predictions, compared with the answers of %s: %s", self._predict.path, in_words(metrics))
            lines = [f"{name} = {metrics[name]:.6f}\n" for name in sorted(metrics)]
            run_dir.write_text("predict_results.txt", "".join(lines))
        return texts

    @property
    def _threshold(self) -> float:
        if self._is_threshold_given or self._found_threshold is None:
            return self._answers.null_score_diff_threshold
        return self._found_threshold

    def _questions(self, file: Any, is_training: bool = False) -> _Questions | None:
        if not file:
            return None
        examples = make_examples(file.articles, file.name, is_training, self._answers.version_2_with_negative)
        return _Questions(file.name, file.articles, examples, file.digest)

    def _is_answered(self, questions: _Questions) -> bool:
        unanswered = unanswered_ids(questions.articles, self._answers.version_2_with_negative)
        if unanswered and len(unanswered) < len(questions.examples):
            advice = "" if self._answers.version_2_with_negative else "; for SQuAD 2.0 give {version_2_with_negative}"
            log.warning(
                Message(
                    '{} is not evaluated: {} of {} questions have no answers, the first is "{}"' + advice,
                    questions.path,
                    len(unanswered),
                    len(questions.examples),
                    unanswered[0],
                )
            )
        return not unanswered

    def _features(
        self, questions: _Questions | None, path: str, is_training: bool = False
    ) -> dict[str, np.ndarray] | None:
        if questions is None:
            return None
        facts = {
            "file_sha256": questions.digest,
            "is_training": is_training,
            "version_2_with_negative": self._answers.version_2_with_negative,
            **self._tokenizer.facts,
            **self._windows,
        }

        def build() -> dict[str, np.ndarray]:
            features = make_features(questions.examples, self._tokenizer, is_training=is_training, **self._windows)
            return {name: features[name] for name in _TRAINING_FEATURES} if is_training else features

        return cached_features(path, facts, build)

    def _answers_of_evaluation(self, outputs: dict[str, np.ndarray]) -> list[Answer]:
        # Cached: first evaluated, then written.
        if self._judged is None or self._judged[0] is not outputs:
            self._judged = outputs, self._find(self._eval, self.eval_features, outputs, self._answers)
        return self._judged[1]

    def _find(
        self,
        questions: _Questions,
        features: dict[str, np.ndarray],
        outputs: dict[str, np.ndarray],
        settings: AnswerSettings,
    ) -> list[Answer]:
        logits = outputs["start_logits"], outputs["end_logits"]
        answers = find_answers(questions.examples, features, *logits, self._tokenizer, settings)
        report_unanswered(answers)
        return answers

    def _metrics(
        self, questions: _Questions, answers: Sequence[Answer], threshold: float | None = None
    ) -> dict[str, float]:
        if not self._answers.version_2_with_negative:
            return squad_v1_metrics(
                questions.articles, {answer.question_id: answer.text for answer in answers}, self._language
            )
        if threshold is None:
            threshold = self._answers.null_score_diff_threshold
        return _without_totals(self._judge(questions, answers, threshold))

    def _judge(self, questions: _Questions, answers: Sequence[Answer], threshold: float) -> dict[str, float]:
        """Returns the official SQuAD 2.0 metrics, computed from the best answers before any threshold."""
        best = {answer.question_id: answer.best.text if answer.best else "" for answer in answers}
        return squad_v2_metrics(questions.articles, best, _odds_of(answers), threshold, self._language)

    def _best_threshold(self, answers: Sequence[Answer], metrics: Mapping[str, float]) -> float:
        """Returns the threshold with the best F1. The official one for "never answer" is 0, which answers some."""
        candidates = (metrics["best_f1_thresh"], min(_odds_of(answers).values()) - 1.0)
        return max(candidates, key=lambda threshold: self._judge(self._eval, answers, threshold)["f1"])

    def _write(self, run_dir: RunDir, answers: Sequence[Answer], prefix: str) -> dict[str, str]:
        files = answer_files(answers)
        for name, text in files.items():
            run_dir.write_text(f"{prefix}{name}", text)
        if "null_odds.json" not in files:
            run_dir.remove(f"{prefix}null_odds.json")
        return {answer.question_id: answer.text for answer in answers}


def _odds_of(answers: Sequence[Answer]) -> dict[str, float]:
    return {answer.question_id: answer.null_odds for answer in answers if answer.null_odds is not None}


def _without_totals(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if not name.endswith("total")}
