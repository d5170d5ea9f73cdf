"""Converts the logits of windows to answers: the best spans of each question, their texts, and the no-answer odds.

Source: `write_predictions` and `get_final_text` of the original run_squad.py.
"""

import dataclasses
import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from bert_keras.data_prep.text.splitting import BasicTokenizer
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.mistakes import Mistake
from bert_keras.tasks.question_answering.squad import Passage, SquadExample

log = logging.getLogger("bert_keras")

ANSWER_TEXTS = ("release", "offsets")

# The upper limit of null scores; as null odds, it means no answer for every threshold.
NO_ANSWER = 1_000_000.0

_SPANS_AT_A_TIME = 64

_Null = tuple[float, float, float, tuple[int, int, int] | None]  # score, start_logit, end_logit, tokens
_Span = tuple[int, int, int, float, float]  # window, start, end, start_logit, end_logit
# text, start, end, start_logit, end_logit, tokens
_Found = tuple[str, int | None, int | None, float, float, tuple[int, int, int] | None]


@dataclasses.dataclass(frozen=True)
class AnswerSettings:
    """Settings for choosing answers: the flags of run_squad.py.

    A question with null odds greater than `null_score_diff_threshold` has no answer. `answer_text` is "release" for the
    text that the original BERT projects, "offsets" for the text in the passage. With `use_all_places`, an answer may
    begin and end at any token of the passage; without, at the `n_best_size` best of the window, padding included.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    version_2_with_negative: bool = False
    null_score_diff_threshold: float = 0.0
    answer_text: str = "release"
    use_all_places: bool = False
    verbose_logging: bool = False


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One of the n best answers to a question; no answer has the text "" and no place.

    `start_logit` and `end_logit` are those of its first and its last token, and `tokens` has their window and their
    positions there. passage[start:end] is the text, except for white space other than single spaces.
    """

    text: str
    probability: float
    start_logit: float
    end_logit: float
    start: int | None = None
    end: int | None = None
    tokens: tuple[int, int, int] | None = None


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer to a question, and its candidates, the most probable first; the text "" means no answer.

    `best` is the best candidate from the passage. `null_odds` are the summed logits of no answer minus those of `best`:
    higher if an answer is less likely; None unless version_2_with_negative.
    """

    question_id: str
    text: str
    candidates: list[Candidate]
    best: Candidate | None
    null_odds: float | None


def find_answers(
    examples: Sequence[SquadExample],
    features: dict[str, np.ndarray],
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    tokenizer: FullTokenizer,
    settings: AnswerSettings,
) -> list[Answer]:
    """Chooses the answers to all questions from the logits of their windows, float [N, T].

    Differs from the original: if no window has a candidate, its version 2 mode ends with an error. Here the answer is
    "" with null odds of 1000000. In version 1 the answer is "empty", as in the original. Raises ValueError if a logit
    is not finite.
    """
    if not start_logits.shape == end_logits.shape == features["input_ids"].shape:
        raise ValueError(
            f"the logits have the shapes {start_logits.shape} and {end_logits.shape}, but the windows "
            f"have {features['input_ids'].shape}; give the logits of these windows"
        )
    stops = np.searchsorted(features["example_index"], np.arange(len(examples)), "right").tolist()
    answers = []
    for example, start, stop in zip(examples, [0, *stops], stops, strict=False):
        rows = {name: values[start:stop] for name, values in features.items()}
        # As in the original, logits are summed in double precision. [W, 2, T]
        logits = np.stack((start_logits[start:stop], end_logits[start:stop]), axis=1).astype(np.float64)
        num_broken = np.count_nonzero(~np.isfinite(logits))
        if num_broken:
            raise Mistake(
                '{} of the {} logits of question "{}" are not finite: the '
                "weights of the model are broken; take an earlier checkpoint, or train with a lower learning rate",
                num_broken,
                logits.size,
                example.question_id,
            )
        answers.append(_answer(example, rows, logits, tokenizer, settings))
    return answers


def report_unanswered(answers: Sequence[Answer]) -> None:
    """Logs how many questions of a file have no span to answer with."""
    without = [answer for answer in answers if answer.best is None]
    if without:
        substitute = '"empty", as in the original BERT' if without[0].text else '""'
        log.warning("%d of %d questions have no valid span; their answer is %s", len(without), len(answers), substitute)


def answer_files(answers: Sequence[Answer]) -> dict[str, str]:
    """Returns the JSON of predictions.json, nbest_predictions.json and, in version 2, null_odds.json, by file name."""
    names = ("text", "probability", "start_logit", "end_logit")
    files = {
        "predictions.json": {answer.question_id: answer.text for answer in answers},
        "nbest_predictions.json": {
            answer.question_id: [{name: getattr(candidate, name) for name in names} for candidate in answer.candidates]
            for answer in answers
        },
        "null_odds.json": {answer.question_id: answer.null_odds for answer in answers if answer.null_odds is not None},
    }
    return {name: json.dumps(content, indent=4) + "\n" for name, content in files.items() if content}


def project(piece_text: str, original: str, basic_tokenizer: BasicTokenizer) -> tuple[int, int] | None:
    """Finds the text of some tokens in their words, which have the original case, accents and spaces.

    If the text occurs several times, the first place counts. Positions are mapped by counting characters without
    spaces. In both texts, words are separated by single spaces. Returns (start, end) in `original`; None if the text is
    not found, or the tokenizer changes the number of characters. The original BERT then takes all of `original`.
    Source: `get_final_text` of the original run_squad.py.
    """
    tokenized = " ".join(basic_tokenizer.tokenize(original))
    start = tokenized.find(piece_text)
    if start < 0 or not piece_text:
        return None
    places = [place for place, char in enumerate(original) if char != " "]
    if len(places) != len(tokenized) - tokenized.count(" "):
        return None
    first = start - tokenized.count(" ", 0, start)
    return places[first], places[first + len(piece_text) - piece_text.count(" ") - 1] + 1


def _answer(
    example: SquadExample,
    rows: Mapping[str, np.ndarray],
    logits: np.ndarray,
    tokenizer: FullTokenizer,
    settings: AnswerSettings,
) -> Answer:
    """Returns the Answer to a question from its rows of the features and its logits [W, 2, T]."""
    null = _null(logits) if settings.version_2_with_negative else None
    texts = _Texts(example.passage, rows, tokenizer, settings)
    found = _distinct(_ranked_spans(rows, logits, settings), null, texts, settings.n_best_size)
    candidates = _with_probabilities(found or [("empty", None, None, 0.0, 0.0, None)])
    # The text "empty" does not identify the original's placeholder, because a passage may contain it.
    best = next((candidate for candidate in candidates if candidate.start is not None), None)
    if null is None:
        return Answer(example.question_id, candidates[0].text, candidates, best, None)
    odds = null[0] - best.start_logit - best.end_logit if best else NO_ANSWER
    text = best.text if best and odds <= settings.null_score_diff_threshold else ""
    return Answer(example.question_id, text, candidates, best, odds)


def _null(logits: np.ndarray) -> _Null:
    """Returns the lowest no-answer score of the windows, the two logits that it sums, and their place."""
    scores = logits[:, 0, 0] + logits[:, 1, 0]
    if not len(scores) or scores.min() >= NO_ANSWER:
        return NO_ANSWER, 0.0, 0.0, None
    window = int(scores.argmin())
    start, end = logits[window, :, 0].tolist()
    return float(scores[window]), start, end, (window, 0, 0)


def _ranked_spans(rows: Mapping[str, np.ndarray], logits: np.ndarray, settings: AnswerSettings) -> Iterator[_Span]:
    """Yields all possible answer spans, the best first.

    Ties are in the order of windows, then of start ranks, then of end ranks. As in the original, a start needs the
    maximum context, but an end does not.
    """
    # Stable: among equal logits the first position comes first. [W, 2, n]
    num_places = None if settings.use_all_places else settings.n_best_size
    top = np.argsort(-logits, axis=2, stable=True)[:, :, :num_places]
    starts, ends = top[:, 0, :, None], top[:, 1, None, :]
    top_logits = np.take_along_axis(logits, top, axis=2)
    has_context = np.take_along_axis(rows["token_is_max_context"], top[:, 0], axis=1) == 1
    is_passage = np.take_along_axis(rows["token_to_orig_map"], top[:, 1], axis=1) >= 0
    is_span = (starts <= ends) & (ends - starts < settings.max_answer_length)  # [W, n, n]
    window, start, end = np.nonzero(is_span & has_context[:, :, None] & is_passage[:, None, :])
    start_logits, end_logits = top_logits[window, 0, start], top_logits[window, 1, end]
    order = np.argsort(-(start_logits + end_logits), stable=True)
    spans = (window, top[window, 0, start], top[window, 1, end], start_logits, end_logits)
    for first in range(0, len(order), _SPANS_AT_A_TIME):  # the first ones mostly suffice
        part = order[first : first + _SPANS_AT_A_TIME]
        yield from zip(*(values[part].tolist() for values in spans), strict=True)


def _distinct(spans: Iterable[_Span], null: _Null | None, texts: "_Texts", n_best_size: int) -> list[_Found]:
    """Returns the best spans with different texts, and no answer.

    The no-answer entry is ranked by its score, after spans with the same score; if its score is too low, it comes last.
    """
    found: list[_Found] = []
    waiting: list[_Found] = [("", None, None, *null[1:])] if null else []
    seen = set()
    for window, start, end, start_logit, end_logit in spans:
        if waiting and sum(waiting[0][3:5]) > start_logit + end_logit and len(found) < n_best_size:
            found.append(waiting.pop())
        if len(found) >= n_best_size:
            break
        text, first, last = texts.of(window, start, end)
        if text not in seen:
            seen.add(text)
            found.append((text, first, last, start_logit, end_logit, (window, start, end)))
    return found + waiting


def _with_probabilities(found: Sequence[_Found]) -> list[Candidate]:
    """Returns Candidates with the softmax of the summed logits."""
    scores = [start_logit + end_logit for *_, start_logit, end_logit, _ in found]
    exponentials = [math.exp(score - max(scores)) for score in scores]
    total = sum(exponentials)
    return [
        Candidate(text, exponential / total, start_logit, end_logit, start, end, tokens)
        for (text, start, end, start_logit, end_logit, tokens), exponential in zip(found, exponentials, strict=True)
    ]


class _Texts:
    """The texts of the spans of a question's windows."""

    def __init__(
        self, passage: Passage, rows: Mapping[str, np.ndarray], tokenizer: FullTokenizer, settings: AnswerSettings
    ):
        self._passage = passage
        self._rows = rows
        self._tokenizer = tokenizer
        self._settings = settings
        self._known = {}

    def of(self, window: int, start: int, end: int) -> tuple[str, int, int]:
        """Returns the text between two positions of a row, and its start and end in the passage."""
        if self._settings.answer_text == "offsets":
            return self._by_offsets(window, start, end)
        words = self._rows["token_to_orig_map"][window, [start, end]].tolist()
        inv_vocab = self._tokenizer.inv_vocab
        tokens = [inv_vocab[id_] for id_ in self._rows["input_ids"][window, start : end + 1].tolist()]
        piece_text = " ".join(" ".join(tokens).replace(" ##", "").replace("##", "").split())
        key = (piece_text, *words)
        if key not in self._known:
            self._known[key] = self._by_projection(piece_text, *words)
        return self._known[key]

    def _by_projection(self, piece_text: str, first_word: int, last_word: int) -> tuple[str, int, int]:
        words = self._passage.words[first_word : last_word + 1]
        original = " ".join(words)
        place = project(piece_text, original, self._tokenizer.basic_tokenizer)
        if place is None:
            if self._settings.verbose_logging:
                log.info('"%s" is not in "%s", so all of this text is the answer', piece_text, original)
            place = (0, len(original))
        start, end = place
        places = (self._in_passage(first_word, original, start), self._in_passage(first_word, original, end - 1) + 1)
        return original[start:end], *places

    def _in_passage(self, first_word: int, original: str, place: int) -> int:
        """Returns the position in the passage of a character of `original`, which begins with the word `first_word`."""
        word = first_word + original.count(" ", 0, place)
        return self._passage.word_starts[word] + place - (original.rfind(" ", 0, place) + 1)

    def _by_offsets(self, window: int, start: int, end: int) -> tuple[str, int, int]:
        first = self._rows["doc_start"][window] - int(np.argmax(self._rows["token_to_orig_map"][window] >= 0))
        pieces = self._passage.tokens(self._tokenizer)
        place = int(pieces.starts[first + start]), int(pieces.ends[first + end])
        return self._passage.text[slice(*place)], *place
