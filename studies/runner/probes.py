"""The probes of a study. Each returns the values of its score: lists of a float for each example."""

import dataclasses
import functools
import json
import math
import os
import pathlib
import random
import shutil
from collections.abc import Callable
from typing import Any

from bert_keras.prediction import Limits, SentenceScorer
from bert_keras.programs.classifier import train_classifier
from bert_keras.programs.ner import train_ner
from bert_keras.programs.squad import train_squad
from bert_keras.tasks.benchmarks.glue import GLUE_TASKS, GlueTask
from bert_keras.tasks.benchmarks.glue_files import read_glue_file
from bert_keras.tasks.question_answering.metrics import f1_of_answers
from bert_keras.tasks.tables.minimal_pairs import read_paradigms, right_pairs
from bert_keras.tasks.tagging.conll import read_conll
from bert_keras.tasks.tagging.entities import entities
from studies.runner.corpus import Corpus
from studies.runner.intervals import correlation, ratio
from studies.runner.word_features import tag_with_features

_SQUAD = "squad/train_v2_10_articles.json"
# The columns of `intervals.Scores`: for each a value of each example.
Values = tuple[list[float], ...]


@dataclasses.dataclass(frozen=True)
class Place:
    """What a probe works with: the model's folder, the study's text, the data, the seed, and a folder for runs."""

    model: str
    corpus: Corpus
    data_dir: str
    seed: int
    folder: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Probe:
    """A probe.

    Attributes:
        title: name of the score in reports.
        files: paths below the data folder that it needs.
        run: function of the place and the options.
        is_higher_better: whether a high score is good.
        has_percent: whether to show the score in percent.
        statistic: makes the score of the sums of the values; see `intervals`.
        constant: function as `run` to the score of the best answer that is the same for all examples.
        has_seed: whether the values depend on the seed, for the same model.
    """

    title: str
    files: tuple[str, ...]
    run: Callable[..., Values]
    is_higher_better: bool = True
    has_percent: bool = True
    statistic: Callable[..., Any] = ratio
    constant: Callable[..., float] | None = None
    has_seed: bool = True


def _bits_per_byte(place: Place, num_sentences: int) -> Values:
    """Pseudo-log-likelihood of held-out sentences in bits, and their length in bytes of UTF-8."""
    sentences = place.corpus.held_out_sentences(num_sentences)
    scorer = SentenceScorer(place.model, batch_size=64, long="window", precision="float32")
    bits = [-answer.log_probability / math.log(2) for answer in scorer.pipe(sentences)]
    return bits, [float(len(sentence.encode())) for sentence in sentences]


def _minimal_pairs(place: Place, name: str, num_pairs: int | None) -> Values:
    """Returns 1 for each pair whose good sentence has the higher score."""
    paradigms = read_paradigms(os.path.join(place.data_dir, name))
    paradigms = [dataclasses.replace(paradigm, pairs=paradigm.pairs[:num_pairs]) for paradigm in paradigms]
    sentences = list(dict.fromkeys(text for one in paradigms for pair in one.pairs for text in pair))
    scorer = SentenceScorer(place.model, batch_size=128, long="window", pll="within_word_l2r", precision="float32")
    scores = {answer.text: answer.log_probability for answer in scorer.pipe(sentences)}
    right = [float(is_right) for paradigm in paradigms for is_right in right_pairs(paradigm, scores)]
    return right, [1.0] * len(right)


def _predictions(place: Place, train: Callable[..., Any], *data: Any, **settings: Any) -> Any:
    """Returns the predictions of a model that a function of `programs` has fine-tuned; its run is deleted."""
    folder = place.folder / "run"
    shared = {"output_dir": folder, "init_checkpoint": place.model, "seed": place.seed, "verbose": False}
    predictions = train(*data, **shared, **settings).predictions
    shutil.rmtree(folder)
    return predictions


def _answers(place: Place, task: GlueTask, train: list, test: list, settings: dict[str, Any]) -> list[Any]:
    """Returns the predictions for test examples after fine-tuning on others."""
    longest = Limits().max_chars

    def texts(example):
        return tuple(text[:longest] for text in (example.text_a, example.text_b) if text is not None)

    labelled = [(*texts(example), example.label) for example in train]
    test_texts = [texts(example) if example.text_b is not None else example.text_a for example in test]
    rows = _predictions(place, train_classifier, labelled, None, test_texts, kind=task.kind, **settings)
    return [row["prediction"] for row in rows]


def right_values(answers: list[Any], labels: list[Any]) -> Values:
    """Returns 1 for each right answer."""
    return [float(answer == label) for answer, label in zip(answers, labels, strict=True)], [1.0] * len(labels)


def _moments(answers: list[Any], labels: list[Any]) -> Values:
    """Returns what `correlation` takes."""
    rows = [(1.0, x, y, x * x, y * y, x * y) for x, y in zip(map(float, answers), map(float, labels), strict=True)]
    return tuple(map(list, zip(*rows, strict=True)))


def _sentences(place, file, most):
    return read_conll(os.path.join(place.data_dir, "conll2003", file))[:most]


def _ner(place: Place, num_train: int | None, num_test: int | None, **settings: Any) -> Values:
    """Entities of the test file after fine-tuning: 2 true positives / (predicted + gold entities)."""
    train, test = _sentences(place, "train.txt", num_train), _sentences(place, "test.txt", num_test)
    tagged = [{"words": list(one.words), "tags": list(one.tags or ())} for one in train]
    rows = _predictions(place, train_ner, tagged, None, [{"words": list(one.words)} for one in test], **settings)
    return _entity_sums(test, [row["predicted_tags"] for row in rows])


def _ner_features(place: Place, num_train: int | None, num_test: int | None, **options: Any) -> Values:
    """Entities of the test file from a linear classifier on features of the model, which does not change."""
    train, test = _sentences(place, "train.txt", num_train), _sentences(place, "test.txt", num_test)
    return _entity_sums(test, tag_with_features(place.model, train, test, **options))


def _entity_sums(sentences, predicted):
    numerators, denominators = [], []
    for sentence, tags in zip(sentences, predicted, strict=True):
        gold, found = set(entities(sentence.tags)), set(entities(tags))
        numerators.append(2.0 * len(gold & found))
        denominators.append(float(len(gold) + len(found)))
    return numerators, denominators


def _squad(place: Place, num_train: int | None, num_test: int | None, **settings: Any) -> Values:
    """Returns the F1 of each answer in the last two articles, after fine-tuning on the questions of the others."""
    articles = json.loads(pathlib.Path(place.data_dir, _SQUAD).read_text(encoding="utf-8"))["data"]
    train, test = _questions(articles[:-2])[:num_train], _questions(articles[-2:])[:num_test]
    questions = [{name: one[name] for name in ("id", "context", "question")} for one in test]
    texts = _predictions(place, train_squad, train, None, questions, **settings)
    gold = [[answer["text"] for answer in one["answers"]] for one in test]
    return f1_of_answers([texts[one["id"]] for one in test], gold), [1.0] * len(test)


def _questions(articles):
    """Returns the questions with an answer in random order, each with its context."""
    questions = [
        {**question, "context": paragraph["context"], "is_impossible": False}
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
        if question["answers"]
    ]
    random.Random(0).shuffle(questions)
    return questions


def _glue(
    title: str, name: str, folder: str, train_share: float | None = None, values=right_values, **options: Any
) -> Probe:
    """Returns the probe of a task: fine-tuning on its train.tsv, scores on its dev.tsv.

    Args:
        train_share: share of dev.tsv to train on, instead of train.tsv: its first rows.
        values: the function of the answers and the labels.
    """
    task, dev = GLUE_TASKS[name], f"{folder}/dev.tsv"
    files = (f"{folder}/train.tsv", dev) if train_share is None else (dev,)

    def read(place: Place, num_train: int | None, num_test: int | None) -> tuple[list, list]:
        *train, test = ([*read_glue_file(task, os.path.join(place.data_dir, file), "train")] for file in files)
        if train_share is not None:
            num = int(train_share * len(test))
            train, test = [test[:num]], test[num:]
        return train[0][:num_train], test[:num_test]

    def run(place: Place, num_train: int | None, num_test: int | None, **settings: Any) -> Values:
        train, test = read(place, num_train, num_test)
        answers = _answers(place, task, train, test, settings)
        return values(answers, [example.label for example in test])

    def constant(place: Place, num_train: int | None, num_test: int | None, **settings: Any) -> float:
        if values is _moments:
            return 0.0  # a constant has no correlation with anything
        labels = [example.label for example in read(place, num_train, num_test)[1]]
        return max(map(labels.count, set(labels))) / len(labels)

    return Probe(title, files, run, constant=constant, **options)


PROBES = {
    "bits_per_byte": Probe(
        "bits per byte", (), _bits_per_byte, is_higher_better=False, has_percent=False, has_seed=False
    ),
    "blimp": Probe("BLiMP", ("blimp",), functools.partial(_minimal_pairs, name="blimp"), has_seed=False),
    "zorro": Probe("Zorro", ("zorro",), functools.partial(_minimal_pairs, name="zorro"), has_seed=False),
    "sst2": _glue("SST-2", "sst-2", "glue/SST-2"),
    "mrpc": _glue("MRPC", "mrpc", "glue/MRPC"),
    "mnli_small": _glue("MNLI-small", "mnli", "mnli_small"),
    "cola": _glue("CoLA, Matthews", "cola", "glue/CoLA", values=_moments, statistic=correlation),
    "stsb": _glue("STS-B, Pearson", "sts-b", "glue/STS-B", values=_moments, statistic=correlation),
    # A part of dev.tsv serves to train. Neighbours share an article, so it is cut at one place.
    "qnli": _glue("QNLI-small", "qnli", "glue/QNLI", train_share=0.8),
    "squad": Probe("SQuAD F1, 10 articles", (_SQUAD,), _squad),
    "ner": Probe("CoNLL F1, fine-tuned", ("conll2003",), _ner),
    "ner_features": Probe("CoNLL F1, features", ("conll2003",), _ner_features, has_seed=False),
}
