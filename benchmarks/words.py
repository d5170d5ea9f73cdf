"""Measures `why` from a finished run of run_classifier.py with --do_eval: do the strongest words carry the answers?

    python benchmarks/words.py --output=sst2.json --counts=1,2,4 sst_run
    python benchmarks/words.py --output=bbc.json --counts=3,6,12 bbc_run

For each of some evaluation texts drawn at random, the words with the highest weights become [MASK], all at once, and
then as many words drawn at random; a text with fewer words loses all of them. The result is by how much more the
probability of the answer falls for the highest weights, with an interval of 95 % from a bootstrap over the texts; and
the share of texts whose gradients add up to the difference of the logit within 2 %.
"""

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bert_keras.evaluation.intervals import interval_of_mean
from bert_keras.prediction import Classification, TextClassifier
from bert_keras.prediction.network import Question
from bert_keras.tasks.finetuning.why import SeenWord

NUM_DRAWS = 10  # of random words, for each text
LARGEST_ERROR, LEAST_ERROR = 0.02, 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run")
    parser.add_argument("--output", required=True)
    parser.add_argument("--counts", default="1,2,4", help="numbers of words to hide")
    parser.add_argument("--num_texts", type=int, default=50)
    arguments = parser.parse_args()
    counts = list(map(int, arguments.counts.split(",")))
    classify = TextClassifier(arguments.run, task="classification", why=True, precision="float32")
    random, falls, num_words, are_exact = np.random.default_rng(0), [], [], []
    for text in texts_of(Path(arguments.run), arguments.num_texts):
        answer = classify(text)
        num_words.append(len(answer.words or ()))
        falls.append(falls_of(classify, answer, counts, random))
        are_exact.append(gradients_add_up(classify, answer))
        print(len(falls), falls[-1].round(3).tolist(), are_exact[-1], flush=True)
    report = {
        "run": Path(arguments.run).name,
        "num_texts": len(falls),
        "mean_num_words": float(np.mean(num_words)),
        "gradients_within_2_percent": float(np.mean(are_exact)),
        "falls_of_the_probability": {
            count: {"strongest": mean_of(strongest), "random": mean_of(drawn), "more": mean_of(strongest - drawn)}
            for count, (strongest, drawn) in zip(counts, np.transpose(falls, (1, 2, 0)), strict=True)
        },
    }
    print(json.dumps(report, indent=2))
    Path(arguments.output).write_text(json.dumps(report, indent=2) + "\n")


def texts_of(run: Path, num_texts: int) -> list[str]:
    """Returns some of a run's evaluation texts."""
    with open(run / "eval_predictions.tsv", encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return [texts[place] for place in np.random.default_rng(0).permutation(len(texts))[:num_texts]]


def falls_of(
    classify: TextClassifier[Classification], answer: Classification, counts: Sequence[int], random: np.random.Generator
) -> np.ndarray:
    """Returns by how much the probability of the answer falls without the strongest and without random words."""
    (_, rows, words), questions = classify.sequences(answer.text)
    questions = questions[: len(rows["input_ids"])]
    order = np.argsort([-word.weight for word in answer.words or ()], kind="stable")
    draws = [order, *(random.permutation(len(words)) for _ in range(NUM_DRAWS))]
    mask_id, label = classify.tokenizer.vocab["[MASK]"], classify.labels.index(answer.label)
    hidden = [
        question
        for draw in draws
        for count in counts
        for question in masked(questions, [words[place] for place in draw[:count]], mask_id)
    ]
    found = np.array([scores[label] for (scores,) in classify.network.answer(hidden)])
    falls = answer.probabilities[answer.label] - found.reshape(len(draws), len(counts), -1).mean(-1)
    return np.stack([falls[0], falls[1:].mean(0)], axis=-1)


def masked(questions: Iterable[Question], words: Iterable[SeenWord], mask_id: int) -> list[Question]:
    """Returns sequences with [MASK] for the tokens of words."""
    hidden = []
    for row, question in enumerate(questions):
        input_ids = np.array(question.input_ids)
        input_ids[[position for word in words for position in word.places.get(row, ())]] = mask_id
        hidden.append(Question(input_ids, question.segment_ids))
    return hidden


def gradients_add_up(classify: TextClassifier[Classification], answer: Classification) -> bool:
    """Returns whether the integrated gradients add up to the difference of the logit between text and [MASK]s."""
    (_, rows, words), questions = classify.sequences(answer.text)
    questions = questions[: len(rows["input_ids"])]
    label, logits = classify.labels.index(answer.label), []
    for rows_read in (questions, masked(questions, words, classify.tokenizer.vocab["[MASK]"])):
        outputs = [classify.model([row.input_ids], segment_ids=[row.segment_ids])["logits"] for row in rows_read]
        logits.append(np.mean([np.asarray(output)[0, label] for output in outputs]))
    total = sum(word.weight for word in classify(answer.text, why="gradients").words or ())
    difference = float(logits[0] - logits[1])
    return abs(total - difference) <= max(LARGEST_ERROR * abs(difference), LEAST_ERROR)


def mean_of(values: np.ndarray) -> dict[str, object]:
    """Returns the mean of some texts and its interval of 95 %."""
    return {"mean": float(values.mean()), "interval": interval_of_mean(values, 10_000)}


if __name__ == "__main__":
    main()
