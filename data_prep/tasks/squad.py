"""Reads SQuAD 1.1 and 2.0 files into questions, and converts questions to windows of features.

A context may be too long for the model. Overlapping windows cover it, and each is a row of features together with the
question. `data_prep.tasks.squad_answers` combines the predictions of the windows.
"""

import bisect
import collections
import dataclasses
import logging
import re
from collections.abc import Sequence

import numpy as np

from bert_keras.data_prep.tasks.squad_files import read_articles, repeated_ids
from bert_keras.data_prep.tasks.squad_windows import Windows, empty_features, report
from bert_keras.data_prep.text.vocabulary_files import check_special_tokens

log = logging.getLogger("bert_keras")

# As in the original BERT, only these five characters separate words; a no-break space is part of a word.
_WORD = re.compile("[^ \t\r\n\u202f]+")
_SPECIAL_TOKENS = ("[CLS]", "[SEP]")


class Passage:
    """A text that questions refer to, and its words.

    Attributes:
        text: str.
        words: list of str.
        word_starts: list of int; the position in the text where each word starts.
    """

    def __init__(self, text: str):
        self.text = text
        matches = list(_WORD.finditer(text))
        self.words = [match.group() for match in matches]
        self.word_starts = [match.start() for match in matches]

    def word_at(self, place: int) -> int:
        """Returns the index of the word at a position in the text; at white space, of the word before."""
        return bisect.bisect_right(self.word_starts, place) - 1


@dataclasses.dataclass(frozen=True)
class SquadExample:
    """A question about a passage; in training with its answer.

    Attributes:
        question_id, question: its id in the file, and its text.
        passage: Passage; one object for all questions about it.
        answer_text: the answer in the file; "" if missing or not read.
        start_position, end_position: indices of the answer's first and last word; -1 if missing or not read.
        is_impossible: whether the file says that the passage does not answer the question.
    """

    question_id: str
    question: str
    passage: Passage
    answer_text: str = ""
    start_position: int = -1
    end_position: int = -1
    is_impossible: bool = False


def read_squad(path: str, is_training: bool, version_2_with_negative: bool) -> list[SquadExample]:
    """Reads the questions of a SQuAD file.

    In training, a question whose answer is not at its `answer_start` is left out, as in the original BERT; the log
    reports how many and lists up to five. Prediction ignores answers.
    Source: `read_squad_examples` of the original run_squad.py.

    Args:
        path: a JSON file in the format of SQuAD.
        is_training: whether to read the answers.
        version_2_with_negative: whether questions may have no answer.

    Returns:
        The questions in the order of the file.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not SQuAD's JSON, has the other version, or has no question. In training: an answer is
            missing, empty or one of several, or no answer is at its position. In prediction: an id occurs twice.
    """
    return make_examples(read_articles(path), path, is_training, version_2_with_negative)


def make_examples(
    articles: Sequence[dict], path: str, is_training: bool, version_2_with_negative: bool
) -> list[SquadExample]:
    """Makes examples of the articles from `read_articles`; otherwise like `read_squad`.

    Args:
        articles: list of dict.
        path: the file of the articles, for messages.
        is_training, version_2_with_negative: see `read_squad`.
    """
    _check_ids(repeated_ids(articles), path, is_training)
    examples, misplaced = [], []
    for article in articles:
        for paragraph in article["paragraphs"]:
            passage = Passage(paragraph["context"])
            for question in paragraph["qas"]:
                example = SquadExample(question["id"], question["question"], passage)
                if is_training:
                    example = _with_answer(example, question, path, version_2_with_negative)
                    if example is None:
                        misplaced.append(question["id"])
                        continue
                examples.append(example)
    if misplaced:
        shown = ", ".join(misplaced[:5]) + (", ..." if len(misplaced) > 5 else "")
        if not examples:
            raise ValueError(
                f"{path}: no answer is at its answer_start ({shown}), so no question is left to train on; "
                "answer_start counts the characters of the context from 0"
            )
        log.warning(
            "%s: %d of %d questions are left out, because their answer is not at its answer_start: %s",
            *(path, len(misplaced), len(misplaced) + len(examples), shown),
        )
    return examples


def _check_ids(repeated: list[str], path: str, is_training: bool) -> None:
    if repeated and not is_training:
        raise ValueError(
            f'{path} has more than one question with the id "{repeated[0]}", but predictions need unique ids; '
            "give each question its own id"
        )
    if repeated:
        log.warning("%s: %d ids occur more than once; training uses all their questions", path, len(repeated))


def _with_answer(example: SquadExample, question: dict, path: str, version_2_with_negative: bool):
    """Returns the example with the answer of its question in the file; None if the answer is not at its position."""
    name = f'{path} question "{question["id"]}"'
    answers = question.get("answers", [])
    if version_2_with_negative:
        if "is_impossible" not in question:
            raise ValueError(
                f'{name} lacks "is_impossible", which every question of SQuAD 2.0 has; '
                "add it, or leave out --version_2_with_negative for SQuAD 1.1"
            )
        if question["is_impossible"]:
            return dataclasses.replace(example, is_impossible=True)
    elif question.get("is_impossible"):
        raise ValueError(f"{name} is marked is_impossible, as in SQuAD 2.0; give --version_2_with_negative")
    if not answers:
        advice = (
            'set its "is_impossible" to true'
            if version_2_with_negative
            else "give --version_2_with_negative for SQuAD 2.0"
        )
        raise ValueError(f"{name} has no answer; to train on it, {advice}, or take it out")
    if len(answers) > 1:
        raise ValueError(
            f"{name} has {len(answers)} answers, but training needs exactly one; train on a training file, "
            "as those for evaluation have several, or keep one of them"
        )
    text, offset = answers[0]["text"], answers[0]["answer_start"]
    if not text.strip():
        raise ValueError(f"{name} has an answer without text; give its text, or take the question out")
    passage = example.passage
    if not 0 <= offset <= offset + len(text) <= len(passage.text):
        return None
    start, end = passage.word_at(offset), passage.word_at(offset + len(text) - 1)
    # The answer is split at all Unicode white space, the passage only at five characters. So an answer with a no-break
    # space is not found.
    if " ".join(text.split()) not in " ".join(passage.words[start : end + 1]):
        return None
    return dataclasses.replace(example, answer_text=text, start_position=start, end_position=end)


class PassagePieces:
    """The word pieces of a passage.

    A word has the same tokens in the text as alone, so the whole text is tokenized at once.

    Attributes:
        ids: int32 [tokens].
        words: int32 [tokens]; the index of each token's word.
        starts, ends: int32 [tokens]; the positions in the text where each token starts and ends.
    """

    def __init__(self, passage: Passage, tokenizer):
        tokens = tokenizer.tokenize_with_offsets(passage.text)
        self.ids = np.array(tokenizer.convert_tokens_to_ids(token for token, _, _ in tokens), np.int32)
        self.starts = np.array([start for _, start, _ in tokens], np.int32)
        self.ends = np.array([end for _, _, end in tokens], np.int32)
        self.words = np.searchsorted(np.array(passage.word_starts, np.int32), self.starts, "right").astype(np.int32) - 1

    def __len__(self) -> int:
        return len(self.ids)

    def first_of_word(self, word: int) -> int:
        """Returns the index of the first token of a word, or of the next word's if it has none."""
        return int(np.searchsorted(self.words, word))


def make_features(
    examples: Sequence[SquadExample],
    tokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    is_training: bool,
    counts: collections.Counter | None = None,
) -> dict[str, np.ndarray]:
    """Converts questions to the features of their windows: [CLS] question [SEP] window [SEP] and padding.

    A training window without the whole answer is labelled with [CLS], as in the original BERT.
    Source: `convert_examples_to_features` of the original run_squad.py.
    Differs from the original: a context is tokenized once rather than for each question. One loop over the windows, not
    one for each token, finds the window with the most context.

    Args:
        tokenizer: FullTokenizer.
        max_seq_length: T, the tokens of a row.
        doc_stride: tokens from the start of one window to that of the next.
        max_query_length: the maximum number of tokens of a question, which is truncated.
        is_training: whether to add the labels.
        counts: if given, replaces the log line: "windows" grows by the number of questions with several windows, "cut"
            by that of truncated questions.

    Returns:
        dict of arrays, N windows in the order of the questions: `input_ids` int32 [N, T], `input_mask` and
        `segment_ids` int8 [N, T], `unique_ids` int64 [N], `example_index` and `doc_span_index` int32 [N], `doc_start`
        int32 [N] (the index in the passage of the window's first token), `token_to_orig_map` int32 [N, T] (the word of
        a passage token, else -1), `token_is_max_context` int8 [N, T] (1 if no other window has more context around the
        token). In training also `start_positions`, `end_positions` int32 [N] and `is_impossible` int8 [N].

    Raises:
        ValueError: max_seq_length leaves no room for the passage, or the vocabulary lacks a special token.
    """
    if max_seq_length <= max_query_length + 3:
        raise ValueError(
            f"--max_seq_length={max_seq_length} leaves no room for a text after --max_query_length={max_query_length} "
            "question tokens and 3 special tokens; increase --max_seq_length"
        )
    check_special_tokens(tokenizer.vocab, _SPECIAL_TOKENS)
    passages = {}
    windows, num_cut = [], 0
    for index, example in enumerate(examples):
        question = tokenizer.encode(example.question)
        num_cut += len(question) > max_query_length
        # By identity, because the questions about a passage share the object.
        key = id(example.passage)
        if key not in passages:
            passages[key] = PassagePieces(example.passage, tokenizer)
        windows.append(Windows(index, question[:max_query_length], passages[key], max_seq_length, doc_stride))
    features = empty_features(sum(len(of_example.starts) for of_example in windows), max_seq_length, is_training)
    row, num_outside = 0, 0
    for example, of_example in zip(examples, windows, strict=True):
        rows = slice(row, row + len(of_example.starts))
        of_example.fill({name: values[rows] for name, values in features.items()}, tokenizer.vocab)
        if is_training:
            span = gold_span(example, of_example.pieces, tokenizer)
            num_outside += of_example.label({name: values[rows] for name, values in features.items()}, span)
            features["is_impossible"][rows] = example.is_impossible
        row = rows.stop
    if counts is None:
        report(windows, max_seq_length, num_cut, max_query_length, num_outside)
    else:
        counts.update(windows=sum(len(of_example.starts) > 1 for of_example in windows), cut=num_cut)
    return features


def gold_span(example: SquadExample, pieces: PassagePieces, tokenizer) -> tuple[int, int] | None:
    """Returns the first and the last token of an answer, or None if the question has no answer.

    If the answer's words contain its exact tokens, the span is narrowed to these: "1895" in "(1895-1943)".
    Source: `_improve_answer_span` of the original run_squad.py.
    """
    if example.is_impossible:
        return None
    first = pieces.first_of_word(example.start_position)
    last = pieces.first_of_word(example.end_position + 1) - 1
    answer = tokenizer.encode(example.answer_text)
    span = pieces.ids[first : last + 1].tolist()
    for start in range(len(span) - len(answer) + 1 if answer else 0):
        if span[start : start + len(answer)] == answer:
            return first + start, first + start + len(answer) - 1
    return first, last
