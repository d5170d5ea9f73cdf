"""Predicts with simple rules, for the examples of docs/guides/evaluation.md.

python docs/simple_predictions.py squad dev-v2.0.json --output_file=predictions.json,null_odds.json
python docs/simple_predictions.py mrpc MRPC/dev.tsv --output_file=MRPC.tsv
python docs/simple_predictions.py ner train.txt test.txt --output_file=test_predictions.txt
"""

import json
import pathlib
import re
import sys

# A name: words with capitals. A number may have commas and points.
NAME_OR_NUMBER = re.compile(r"[A-Z]\w*(?: [A-Z]\w*)*|\d[\d,.]*\d|\d")


def words_of(text):
    """Returns the set of lower-cased words of a text."""
    return set(re.findall(r"\w+", text.lower()))


def answer_questions(data_file, predictions_file, odds_file):
    """Answers with the last name or number of the sentence that shares most words with the question.

    The odds of having no answer are the share of words of the question that this sentence lacks.
    """
    answers, odds = {}, {}
    for article in json.loads(pathlib.Path(data_file).read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            sentences = re.split(r"(?<=[.!?]) ", paragraph["context"])
            for question in paragraph["qas"]:
                question_words = words_of(question["question"])
                best = max(sentences, key=lambda sentence, words=question_words: len(words & words_of(sentence)))
                found = NAME_OR_NUMBER.findall(best)
                answers[question["id"]] = found[-1] if found else ""
                odds[question["id"]] = 1 - len(question_words & words_of(best)) / len(question_words)
    for file, values in ((predictions_file, answers), (odds_file, odds)):
        pathlib.Path(file).write_text(json.dumps(values), encoding="utf-8")


def compare_pairs(data_file, predictions_file):
    """Takes a pair for a paraphrase if its texts share at least 45 % of their words."""
    rows = ["index\tprediction"]
    for number, line in enumerate(pathlib.Path(data_file).read_text(encoding="utf-8-sig").splitlines()[1:]):
        first, second = map(words_of, line.split("\t")[3:5])
        rows.append(f"{number}\t{int(len(first & second) >= 0.45 * len(first | second))}")
    pathlib.Path(predictions_file).write_text("\n".join(rows) + "\n", encoding="utf-8")


def find_names(train_file, test_file, predictions_file):
    """Tags the names that have one type only in the training file; of two that overlap, the longer one."""
    types = {}
    for sentence in sentences_of(train_file):
        for name, kind in entities_of(sentence):
            types.setdefault(name, set()).add(kind)
    known = {name: next(iter(kinds)) for name, kinds in types.items() if len(kinds) == 1}
    longest = max(map(len, known))
    rows = []
    for sentence in sentences_of(test_file):
        words, position = [row[0] for row in sentence], 0
        while position < len(words):
            lengths = range(min(longest, len(words) - position), 0, -1)
            length = next((n for n in lengths if tuple(words[position : position + n]) in known), 0)
            kind = known.get(tuple(words[position : position + length]))
            for offset in range(max(length, 1)):
                tag = f"{'I' if offset else 'B'}-{kind}" if length else "O"
                rows.append(" ".join([*sentence[position + offset], tag]))
            position += max(length, 1)
        rows.append("")
    pathlib.Path(predictions_file).write_text("\n".join(rows) + "\n", encoding="utf-8")


def sentences_of(file):
    """Yields the sentences of a file in columns as lists of rows, without the lines that begin a document."""
    for part in pathlib.Path(file).read_text(encoding="utf-8").split("\n\n"):
        rows = [line.split() for line in part.splitlines() if line and not line.startswith("-DOCSTART-")]
        if rows:
            yield rows


def entities_of(sentence):
    """Yields the entities of a sentence as pairs of their words, a tuple, and their type; tags are BIO or IOB1."""
    words, kind = [], None
    for row in [*sentence, ("", "O")]:
        prefix, _, new_kind = row[-1].partition("-")
        if words and (prefix != "I" or new_kind != kind):
            yield tuple(words), kind
            words = []
        if prefix != "O":
            words, kind = [*words, row[0]], new_kind


RULES = {"squad": answer_questions, "mrpc": compare_pairs, "ner": find_names}

if __name__ == "__main__":
    *inputs, outputs = sys.argv[2:]
    RULES[sys.argv[1]](*inputs, *outputs.removeprefix("--output_file=").split(","))
