"""Extractive question answering: finds the answer to a question in a text."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.text.places import Ids
from bert_keras.modeling import BertConfig, SquadModel
from bert_keras.prediction.arguments import check_threshold, check_top_k
from bert_keras.prediction.export_facts import RankedField
from bert_keras.prediction.network import Outputs, ReadOut, Tensors
from bert_keras.prediction.predictor import Counts, Found
from bert_keras.tasks.finetuning.predictor import Arrays, ExplainedPredictor
from bert_keras.tasks.finetuning.why import SeenWord, WordWeight, strongest
from bert_keras.tasks.question_answering.squad import Passage, SquadExample, make_features
from bert_keras.tasks.question_answering.squad_answers import AnswerSettings, Candidate, find_answers

_SETTINGS = tuple(field.name for field in dataclasses.fields(AnswerSettings))


@dataclasses.dataclass(frozen=True)
class Span:
    """One of the n best answers, with its probability among them and its character offsets in the context.

    For no answer, `text` is "", and `start` and `end` are None.
    """

    text: str
    probability: float
    start: int | None
    end: int | None


@dataclasses.dataclass(frozen=True)
class QuestionAnswer:
    """The answer to a question.

    Attributes:
        text: the answer, as run_squad.py writes it; "" for no answer.
        probability: of the answer, or of no answer, among the n best.
        start, end: context[start:end] is the text, except for white space other than single spaces; None for no answer.
        is_impossible: whether the context has no answer.
        null_odds: the score of no answer minus the score of the best answer (scores are sums of two logits); None for
            models that always answer.
        null_threshold: odds above it mean no answer. The value is the best one that training found, or the given one.
        n_best: the most probable first.
        words: the weight of each word of the context for the score of the answer or of no answer, with the option
            `why`; None without it.
    """

    question: str
    text: str
    probability: float
    start: int | None
    end: int | None
    is_impossible: bool
    null_odds: float | None
    null_threshold: float | None
    n_best: list[Span]
    words: list[WordWeight] | None = None

    def readable(self) -> str:
        found = "(no answer)" if self.is_impossible else f"{self.text}  ({self.start} to {self.end})"
        line = f"{self.question}\n  {self.probability:.4f}  {found}"
        if self.null_odds is not None:
            line += f"  odds of no answer {self.null_odds:.4g}, threshold {self.null_threshold:.4g}"
        return "\n".join([line, *strongest(self.words, "+.3f")])


class QuestionAnswerer(ExplainedPredictor[tuple[str, str], QuestionAnswer]):
    """Answers questions with a model of run_squad.py: `QuestionAnswerer("output")(("Who ...?", "The text.")).text`.

    A call takes a tuple (question, context) of str, whose context may have any length, and returns a QuestionAnswer.
    Given several such tuples, it returns a list.

    The arguments are those of `FineTunedPredictor`. Options of a call:

    - `top_k`: number of the n best answers to return; by default all.
    - `threshold`: odds above it mean no answer; by default the one that the training found. Only for models that may
      give no answer. A model of another library does not say whether it may: it always answers unless you give this.
    - `why`: True gives the answer `words`. The weight of a word of the context is the score of the answer (the sum of
      two logits) less its score with [MASK] for each token of the word. Words outside the window of the answer have no
      weight. A text needs one more sequence for each of its words in each window.
    """

    head = "squad"
    ranked = RankedField("n_best", best=("text", "start", "end"))
    card_truncation = ', strategy="only_second"'
    takes_pairs = True
    head_weight = "cls/squad/output_weights"
    cut_parts = "questions"
    cut_setting = "max_query_length"

    @classmethod
    def card_code(cls, settings: Mapping[str, Any]) -> str:
        longest, answer = settings["max_answer_length"], "context[rows[0].offsets[first][0] : rows[0].offsets[last][1]]"
        if settings["version_2_with_negative"]:
            threshold = settings["null_score_diff_threshold"]
            answer = f'"" if start[0] + end[0] - score > {threshold} else {answer}'
        return f"""start, end = outputs["start_logits"][0], outputs["end_logits"][0]
places = [place for place, number in enumerate(rows[0].sequence_ids) if number == 1]
spans = [(start[i] + end[j], i, j) for i in places for j in places if i <= j < i + {longest}]
score, first, last = max(spans)
print({answer})"""

    @property
    def num_classes(self) -> int:
        return 2

    def _default_options(self) -> dict[str, Any]:
        names = ("top_k",) if self.settings["version_2_with_negative"] is False else ("top_k", "threshold")
        return dict.fromkeys(names) | {"why": False}  # None: as in the training

    def _check_options(self, options: dict[str, Any]) -> None:
        if options["top_k"] is not None:
            check_top_k(options["top_k"], self.settings["n_best_size"], "the model's n_best_size of")
        if options.get("threshold") is not None:
            check_threshold(options["threshold"], -math.inf, math.inf)
        super()._check_options(options)

    def _make_model(self, config: BertConfig) -> SquadModel:
        return SquadModel(config)

    def _lengths(self) -> list[int]:
        # As in run_squad.py and the original BERT, the n best places are chosen among all positions, padding included.
        return super()._lengths() if self.settings.get("use_all_places") else [self.max_seq_length]

    def _encode(self, pair: tuple[str, str], source: str) -> SquadExample:
        self._check_pair(pair, source, ("question", "context"))
        question, context = pair
        return SquadExample(source, question, Passage(context))

    def _features(self, example: SquadExample, counts: Counts, options: dict[str, Any]) -> Arrays:
        return make_features(
            [example],
            self.tokenizer,
            self.max_seq_length,
            self.settings["doc_stride"],
            self.settings["max_query_length"],
            is_training=False,
            counts=counts,
        )

    def _starts(self, encoded: Any, segment_ids: Sequence[Ids]) -> list[tuple[int, int]]:
        return [(0, start) for start in encoded[1]["doc_start"].tolist()]

    def _words(self, text: tuple[str, str], example: SquadExample, rows: Arrays) -> list[SeenWord]:
        return [seen for seen in super()._words(text, example, rows) if seen.word.field == "context"]

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        return outputs["start_logits"], outputs["end_logits"]  # [B, T]

    def _answer(
        self,
        pair: tuple[str, str],
        encoded: tuple[SquadExample, Arrays, list[SeenWord]],
        found: Found,
        top_k: int | None,
        threshold: float | None = None,
        why: bool = False,
    ) -> QuestionAnswer:
        example, rows, hidden = encoded
        num_rows = len(rows["input_ids"])
        # Shorter than the features only if no padding can be chosen.
        length = max((len(start) for _, (start, _) in found), default=self.max_seq_length)
        logits = np.zeros((len(found), 2, length), np.float32)
        for row, (_, row_logits) in zip(logits, found, strict=True):
            row[:, : len(row_logits[0])] = row_logits
        start_logits, end_logits = logits[:num_rows].swapaxes(0, 1)  # [W, T]
        settings = AnswerSettings(**{name: self.settings[name] for name in _SETTINGS if name in self.settings})
        if threshold is not None:
            settings = dataclasses.replace(settings, null_score_diff_threshold=threshold, version_2_with_negative=True)
        rows = {name: values[:, :length] if values.ndim == 2 else values for name, values in rows.items()}
        rows["example_index"] = np.zeros(num_rows, np.int32)
        [answer] = find_answers([example], rows, start_logits, end_logits, self.tokenizer, settings)
        n_best = [Span(best.text, best.probability, best.start, best.end) for best in answer.candidates]
        has_null = bool(settings.version_2_with_negative)
        is_impossible = answer.best is None or (has_null and not answer.text)
        chosen = answer.best
        if is_impossible:
            chosen = next((best for best in answer.candidates if best.start is None), None)
        return QuestionAnswer(
            question=example.question,
            text="" if is_impossible else answer.text,
            probability=chosen.probability if chosen else 0.0,
            start=chosen.start if chosen and not is_impossible else None,
            end=chosen.end if chosen and not is_impossible else None,
            is_impossible=is_impossible,
            null_odds=answer.null_odds,
            null_threshold=float(settings.null_score_diff_threshold) if has_null else None,
            n_best=n_best[:top_k],
            words=_weights(hidden, chosen, logits[num_rows:]) if why else None,
        )


def _weights(hidden: Sequence[SeenWord], chosen: Candidate | None, logits: np.ndarray) -> list[WordWeight]:
    """Returns the words of the answer's window with their weights; `logits` are those of each word in each window."""
    if chosen is None or chosen.tokens is None:
        return []
    window, first, last = chosen.tokens
    places = [(seen.word, row) for seen in hidden for row in seen.places]
    without = (logits[:, 0, first].astype(np.float64) + logits[:, 1, last]).tolist()
    score = chosen.start_logit + chosen.end_logit
    return [
        dataclasses.replace(word, weight=score - other)
        for (word, row), other in zip(places, without, strict=True)
        if row == window
    ]
