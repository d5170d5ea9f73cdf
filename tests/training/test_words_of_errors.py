"""The words that carry the wrong answers of an evaluation, compared with BERT in plain NumPy."""

import json

import numpy as np
import pytest
from fine_tuned_models import OF_TEXTS, logits_of, random_classifier, write_fine_tuned
from reference_bert import softmax
from scipy.special import expit
from tiny_classes import run, table_in

from bert_keras.tasks.classification.report import words_of_errors

pytestmark = pytest.mark.usefixtures("no_graphs")

LABELS = ["arts", "sport", "world"]
SINGLE = ["He  was walking", "london is so hungry", "she ate", "the capital of france"]
PAIRS = [(text, other) for text, other in zip(SINGLE, reversed(SINGLE), strict=True)]
LONG = ["a b c d e f g h i j k l m n o p a b c", *SINGLE[:2]]


def tokens_of(text):
    """Returns the tokens of each word of a text."""
    return [["walk", "##ing"] if word == "walking" else [word.lower()] for word in text.split()]


def score_of(model, parts, activation, stride):
    """Returns the mean score of each class over the windows of a text or a pair, given as words of tokens."""
    tokens = [[token for word in part for token in word] for part in parts]
    starts = range(0, max(1, len(tokens[0]) - 14 + stride), stride) if stride else (0,)
    rows = [[tokens[0][start : start + 14], *tokens[1:]] for start in starts]
    return np.mean([activation(logits_of(model, *map(" ".join, row))) for row in rows], axis=0)


def weights_of(model, texts, activation, stride):
    """Returns the scores of texts, and for each word by how much they fall with [MASK] in its place."""
    parts = [tokens_of(text) for text in texts]
    whole, weights = score_of(model, parts, activation, stride), []
    for number, part in enumerate(parts):
        for place, tokens in enumerate(part):
            hidden = [*parts]
            hidden[number] = [*part[:place], ["[MASK]"] * len(tokens), *part[place + 1 :]]
            without = score_of(model, hidden, activation, stride)
            weights.append((texts[number].split()[place], whole - without))
    return whole, weights


def evaluate(folder, model, task, rows, labels, **settings):
    """Evaluates a model with wrong labels; returns the errors as a table."""
    names = [] if task == "regression" else LABELS
    write_fine_tuned(folder, model, task, **(OF_TEXTS | {"labels": names} | settings))
    lines = [
        json.dumps(dict(zip(("text", "text_pair"), row, strict=False)) | {"label": label})
        for row, label in zip(rows, labels, strict=True)
    ]
    (folder / "dev.jsonl").write_text("\n".join(lines))
    stride = {name: settings[name] for name in ("doc_stride",) if name in settings}
    kind = {"classification": "single_label"}.get(task, task)
    run({"output_dir": folder, "eval_file": folder / "dev.jsonl", "max_seq_length": 16}, "do_eval", kind=kind, **stride)
    return table_in(folder / "eval_errors.tsv")


@pytest.mark.parametrize(
    ("task", "texts", "settings"),
    [
        ("classification", SINGLE, {}),
        ("classification", PAIRS, {"is_pair": True}),
        ("classification", LONG, {"doc_stride": 5}),
        ("multi_label", SINGLE, {}),
        ("regression", SINGLE, {}),
    ],
    ids=["single", "pairs", "windows", "multi_label", "regression"],
)
def test_the_words_of_errors_have_the_weights_of_why(tmp_path, task, texts, settings):
    model = random_classifier(1 if task == "regression" else 3, seed=4, num_hidden_layers=1)
    activation = {"classification": softmax, "multi_label": expit}.get(task, np.asarray)
    rows = [text if isinstance(text, tuple) else (text,) for text in texts]
    expected = [weights_of(model, row, activation, settings.get("doc_stride")) for row in rows]
    wrong = {
        "classification": lambda scores: LABELS[scores.argmin()],
        "multi_label": lambda scores: LABELS[scores.argmin()],
        "regression": lambda scores: 7.0,
    }[task]
    labels = [wrong(scores) for scores, _ in expected]
    errors = evaluate(tmp_path, model, task, rows, labels, **settings)
    assert len(errors) == len(rows)
    largest = 0
    for error in errors:
        scores, weights = expected[int(error["id"])]
        label, _, cell = error["words"].rpartition(": ")
        place = scores.argmax()
        if task == "multi_label":
            truth = np.array([name == labels[int(error["id"])] for name in LABELS])
            place = np.abs(scores - truth).argmax()
            assert label == LABELS[place]
        strongest = sorted(weights, key=lambda weight: -abs(weight[1][place]))[:3]
        strongest = sorted(((word, weight[place]) for word, weight in strongest), key=lambda pair: -pair[1])
        found = [part.split(" ") for part in cell.split(", ")]
        assert [word for _, word in found] == [word for word, _ in strongest]
        assert [float(weight) for weight, _ in found] == pytest.approx(
            [weight for _, weight in strongest], abs=6e-4, rel=5.1e-3 if task == "regression" else 0
        )
        largest = max(largest, *(abs(weight) for _, weight in strongest))
    assert largest > 0.02


def test_the_first_errors_have_words_as_long_as_these_take_few_tokens(tmp_path, monkeypatch, capsys):
    model = random_classifier(3, seed=4, num_hidden_layers=1)
    labels = [LABELS[weights_of(model, [text], softmax, None)[0].argmin()] for text in SINGLE]
    every = evaluate(tmp_path, model, "classification", [(text,) for text in SINGLE], labels)
    # Each word is hidden once, in a sequence that also has [CLS] and [SEP].
    words = [tokens_of(row["text"]) for row in every]
    sizes = [len(of_row) * (2 + sum(map(len, of_row))) for of_row in words]
    told = "eval_errors.tsv has words for the first {} of 4 errors: at most {}, with at most {} tokens"
    limits = ((20, sum(sizes), 4), (20, sum(sizes) - 1, 3), (20, sizes[0], 1), (20, sizes[0] - 1, 0))
    for most_errors, most, num_explained in (*limits, (4, sum(sizes), 4), (2, sum(sizes), 2)):
        capsys.readouterr()
        monkeypatch.setattr(words_of_errors, "_MOST_ERRORS", most_errors)
        monkeypatch.setattr(words_of_errors, "_MOST_TOKENS", most)
        rows = evaluate(tmp_path, model, "classification", [(text,) for text in SINGLE], labels)
        words = [row["words"] for row in every[:num_explained]] + [""] * (4 - num_explained)
        assert [row["words"] for row in rows] == words
        assert [line for line in capsys.readouterr().out.splitlines() if "has words" in line] == (
            [] if num_explained == 4 else [told.format(num_explained, most_errors, most)]
        )
