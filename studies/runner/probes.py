"""The probes of a study. Each returns numerators and denominators of its score, a float for each example."""

import dataclasses
import math
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

from bert_keras.data_prep.tasks.conll import read_conll
from bert_keras.data_prep.tasks.glue import GLUE_TASKS, read_glue_file
from bert_keras.data_prep.tasks.minimal_pairs import read_paradigms, right_pairs
from bert_keras.evaluation.entities import entities
from bert_keras.prediction import Limits, SentenceScorer
from bert_keras.studies.runner.corpus import Corpus
from bert_keras.studies.runner.word_features import tag_with_features
from bert_keras.training.api.classifier import train_classifier
from bert_keras.training.api.ner import train_ner

# Numerator and denominator of each example.
Sums = tuple[list[float], list[float]]


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
    """

    title: str
    files: tuple[str, ...]
    run: Callable[..., Sums]
    is_higher_better: bool = True
    has_percent: bool = True


def _bits_per_byte(place: Place, num_sentences: int) -> Sums:
    """Pseudo-log-likelihood of held-out sentences in bits, and their length in bytes of UTF-8."""
    sentences = place.corpus.held_out_sentences(num_sentences)
    scorer = SentenceScorer(place.model, batch_size=64, long="window")
    bits = [-answer.log_probability / math.log(2) for answer in scorer.pipe(sentences)]
    return bits, [float(len(sentence.encode())) for sentence in sentences]


def _minimal_pairs(place: Place, name: str, num_pairs: int | None) -> Sums:
    """Returns 1 for each pair whose good sentence has the higher score."""
    paradigms = read_paradigms(os.path.join(place.data_dir, name))
    paradigms = [dataclasses.replace(paradigm, pairs=paradigm.pairs[:num_pairs]) for paradigm in paradigms]
    sentences = list(dict.fromkeys(text for one in paradigms for pair in one.pairs for text in pair))
    scorer = SentenceScorer(place.model, batch_size=128, long="window", pll="within_word_l2r")
    scores = {answer.text: answer.log_probability for answer in scorer.pipe(sentences)}
    right = [float(is_right) for paradigm in paradigms for is_right in right_pairs(paradigm, scores)]
    return right, [1.0] * len(right)


def _classification(place: Place, task: str, train_file: str, test_file: str, **options: Any) -> Sums:
    """Returns 1 for each example of the dev file that is right after fine-tuning."""
    num_train, num_test, settings = options.pop("num_train"), options.pop("num_test"), options
    files = {"train": (train_file, num_train), "dev": (test_file, num_test)}
    train, test = (
        read_glue_file(GLUE_TASKS[task], os.path.join(place.data_dir, file), "train")[:most]
        for file, most in files.values()
    )
    longest = Limits().max_chars

    def texts(example):
        return tuple(text[:longest] for text in (example.text_a, example.text_b) if text is not None)

    run = train_classifier(
        [(*texts(example), example.label) for example in train],
        None,
        [texts(example) if example.text_b is not None else example.text_a for example in test],
        output_dir=place.folder / "run",
        init_checkpoint=place.model,
        seed=place.seed,
        verbose=False,
        **settings,
    )
    answers = [row["prediction"] for row in run.predictions]
    right = [float(answer == example.label) for answer, example in zip(answers, test, strict=True)]
    shutil.rmtree(place.folder / "run")
    return right, [1.0] * len(right)


def _sentences(place, file, most):
    return read_conll(os.path.join(place.data_dir, "conll2003", file))[:most]


def _ner(place: Place, num_train: int | None, num_test: int | None, **settings: Any) -> Sums:
    """Entities of the test file after fine-tuning: 2 true positives / (predicted + gold entities)."""
    train, test = _sentences(place, "train.txt", num_train), _sentences(place, "test.txt", num_test)
    run = train_ner(
        [{"words": list(one.words), "tags": list(one.tags or ())} for one in train],
        None,
        [{"words": list(one.words)} for one in test],
        output_dir=place.folder / "run",
        init_checkpoint=place.model,
        seed=place.seed,
        verbose=False,
        **settings,
    )
    tags = [row["predicted_tags"] for row in run.predictions]
    shutil.rmtree(place.folder / "run")
    return _entity_sums(test, tags)


def _ner_features(place: Place, num_train: int | None, num_test: int | None, **options: Any) -> Sums:
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


def _of_task(task, folder, test_file="dev.tsv"):
    files = tuple(f"{folder}/{name}" for name in ("train.tsv", test_file))

    def run(place, **options):
        return _classification(place, task, *files, **options)

    return files, run


PROBES = {
    "bits_per_byte": Probe("bits per byte", (), _bits_per_byte, is_higher_better=False, has_percent=False),
    "blimp": Probe("BLiMP", ("blimp",), lambda place, **options: _minimal_pairs(place, "blimp", **options)),
    "zorro": Probe("Zorro", ("zorro",), lambda place, **options: _minimal_pairs(place, "zorro", **options)),
    "sst2": Probe("SST-2", *_of_task("sst-2", "glue/SST-2")),
    "mrpc": Probe("MRPC", *_of_task("mrpc", "glue/MRPC")),
    "mnli_small": Probe("MNLI-small", *_of_task("mnli", "mnli_small")),
    "ner": Probe("CoNLL F1, fine-tuned", ("conll2003",), _ner),
    "ner_features": Probe("CoNLL F1, features", ("conll2003",), _ner_features),
}
