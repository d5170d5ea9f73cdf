"""The program that scores predictions, from its command line to its metrics."""

import json
import os
import subprocess
import sys

import pytest
from scored_files import MRPC, MRPC_FLAGS, SQUAD_FLAGS
from tiny_data import gold_file

from bert_keras.tasks.question_answering.metrics import squad_v2_metrics
from bert_keras.tasks.tagging.entities import entity_metrics

# ----------------------------------------------------------------------------------------------------------------------
# SQuAD


def test_the_report_of_squad_2(score, write):
    write(gold__json=gold_file({"a": ["cat"], "b": ["dog"], "c": []}))
    write(predictions__json={"a": "the cat", "b": "dog house", "c": "x"}, odds__json={"a": -5, "b": -4, "c": 2.5})
    expected = (
        "               all  with answer  without\n"
        "exact      33.3333      50.0000   0.0000\n"
        "f1         55.5556      83.3333   0.0000\n"
        "questions        3            2        1\n"
    )
    assert score(*SQUAD_FLAGS) == expected
    assert score(*SQUAD_FLAGS, "--na_prob_file=odds.json", "--na_prob_thresh=3") == expected + (
        "\n       at best  threshold\nexact  66.6667         -5\nf1     88.8889         -4\n"
    )
    assert "without" in score(*SQUAD_FLAGS, "--na_prob_file=odds.json")
    assert "100.0000\n" in score(*SQUAD_FLAGS, "--na_prob_file=odds.json").splitlines(keepends=True)[1]


def test_the_json_of_squad_has_the_official_keys(score, write):
    gold, predictions, odds = gold_file({"a": ["cat"], "b": []}), {"a": "cat", "b": ""}, {"a": 0.25, "b": 0.75}
    write(gold__json=gold, predictions__json=predictions, odds__json=odds)
    metrics = json.loads(score(*SQUAD_FLAGS, "--na_prob_file=odds.json", "--json"))
    assert metrics == squad_v2_metrics(gold, predictions, odds)
    assert list(metrics) == (
        ["exact", "f1", "total", "HasAns_exact", "HasAns_f1", "HasAns_total", "NoAns_exact", "NoAns_f1", "NoAns_total"]
        + ["best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"]
    )
    assert "gold.json: scored as SQuAD 2.0 (some questions may have no answer)" in score.log
    assert any(message.startswith("warning: 1 of 2 predictions are already empty, and no thr") for message in score.log)


def test_the_version_of_squad_is_found_or_given(score, write):
    write(gold__json=gold_file({"a": ["cat"]}), predictions__json={"a": "the cats"})
    assert score(*SQUAD_FLAGS) == "             percent\nexact_match   0.0000\nf1            0.0000\n"
    assert score.log == ["gold.json: scored as SQuAD 1.1 (every question has an answer)"]
    assert "HasAns_exact" in score(*SQUAD_FLAGS, "--version_2_with_negative", "--json")
    assert score.log == ["gold.json: scored as SQuAD 2.0 (set by the flag)"]


@pytest.mark.parametrize("is_v2", [False, True])
def test_the_arguments_of_the_official_scripts(score, write, tmp_path, is_v2):
    gold = gold_file({"a": ["cat"], "b": []} if is_v2 else {"a": ["cat"]})
    write(gold__json=gold, predictions__json={"a": "cat", "b": "x"}, odds__json={"a": 0.25, "b": 0.75})
    expected = score(*SQUAD_FLAGS, "--json")
    assert score("gold.json", "predictions.json") == expected
    assert score("gold.json", "predictions.json", "--nojson") == score(*SQUAD_FLAGS)
    if is_v2:
        arguments = ("gold.json", "predictions.json", "--na-prob-file", "odds.json", "-t", "0.5", "--out-file=out.json")
        official = score(*arguments)
        assert official == score(*SQUAD_FLAGS, "--json", "--na_prob_file=odds.json", "--na_prob_thresh=0.5")
        assert (tmp_path / "out.json").read_text() == official


def test_answers_in_other_languages(score, write):
    write(gold__json=gold_file({"a": ["北京大学"], "b": ["上海"]}), predictions__json={"a": "北京", "b": "上海。"})
    assert json.loads(score("gold.json", "predictions.json")) == {"exact_match": 0.0, "f1": 0.0}
    assert any("a partly correct answer has F1 0; --answer_language=zh compares" in line for line in score.log)
    expected = {"exact_match": 50.0, "f1": pytest.approx((200 / 3 + 100) / 2)}
    assert json.loads(score("gold.json", "predictions.json", "zh")) == expected
    assert json.loads(score(*SQUAD_FLAGS, "--answer_language=zh", "--json")) == expected
    assert not any("partly correct" in line for line in score.log)


def test_ids_that_are_numbers(score, write):
    gold = gold_file({"1": ["cat"]})
    gold["data"][0]["paragraphs"][0]["qas"][0] |= {"id": 1, "answers": [{"text": "cat", "answer_start": 0.0}]}
    write(gold__json=gold, predictions__json={"1": "cat"})
    assert json.loads(score(*SQUAD_FLAGS, "--json")) == {"exact_match": 100.0, "f1": 100.0}


# ----------------------------------------------------------------------------------------------------------------------
# GLUE

RTE = "index\tsentence1\tsentence2\tlabel\n4\ta\tb\tentailment\n6\tc\td\tnot_entailment\n"


@pytest.mark.parametrize(
    "predictions",
    [
        "index\tprediction\n0\t1\n1\t0\n2\t0\n3\t1\n",
        "\ufeffIndex\tlabel\r\n3\t1\r\n2\t0\r\n0\t1\r\n1\t0\r\n",
        "0\t1\n1\t0\n2\t0\n3\t1\n",
        "1\n0\n0\n1\n",
        "prediction\n1\n0\n0\n1\n",
        "prediction\tsentence\tid\n1\ta\t3\n0\tb\t2\n1\tc\t0\n0\td\t1\n",
        "label\tindex\n1\t3\n0\t2\n1\t0\n0\t1\n",
        "equivalent\nnot_equivalent\n0.0\nLABEL_1\n",
        "index\tprediction\n0\tEquivalent\n1\tnot_equivalent\n2\tnot_equivalent\n3\tequivalent\n",
        "0.1\t0.9\n0.75\t0.25\n1.0\t1e-9\n0.4\t0.6\n",
        "id\tprediction\tprobability of 0\tprobability of 1\ttext_a\ttext_b\n"
        "0\t1\t0.1\t0.9\ta\tb\n1\t0\t1\t0\ta\tb\n2\t0\t1\t0\ta\tb\n3\t1\t0\t1\ta\tb\n",
    ],
    ids=[
        "submission",
        "other head",
        "no head",
        "one column",
        "one column and head",
        "ids at the end",
        "ids at the end, other head",
        "names",
        "other names",
        "probabilities",
        "ours",
    ],
)
def test_predictions_of_any_program(score, write, predictions):
    write(dev__tsv=MRPC, MRPC__tsv=predictions)
    arguments = ("--task=MRPC", "--data_file=dev.tsv", "--predictions_file=MRPC.tsv")
    assert json.loads(score(*arguments, "--json")) == (
        {"task": "mrpc", "examples": 4, "f1": pytest.approx(0.8), "accuracy": 0.75}
    )
    assert score(*arguments) == (
        "mrpc      4 examples\n"
        "f1            0.8000\n"
        "accuracy      0.7500\n"
        "\n"
        "          precision  recall      f1  examples\n"
        "0            0.5000  1.0000  0.6667         1\n"
        "1            1.0000  0.6667  0.8000         3\n"
        "\n"
        "macro        0.7500  0.8333  0.7333         4\n"
        "weighted     0.8750  0.7500  0.7667         4\n"
    )


def test_predictions_with_commas(score, write):
    write(
        dev__tsv=MRPC, p__csv='prediction;"text;s";id\n1;"a;b";3\n0;b;2\n1;c;0\n0;d;1\n', q__csv="0,1\n1,0\n2,0\n3,1\n"
    )
    for name in ("p.csv", "q.csv"):
        arguments = ("--task=MRPC", "--data_file=dev.tsv", f"--predictions_file={name}", "--json")
        assert json.loads(score(*arguments))["accuracy"] == 0.75


RTE_FLAGS = ("--task=rte", "--data_file=rte.tsv", "--predictions_file=p.tsv", "--json")


def test_ids_are_those_of_the_data_or_numbers(score, write):
    write(rte__tsv=RTE, p__tsv="6\tnot_entailment\n4\tnot_entailment\n")
    assert json.loads(score(*RTE_FLAGS))["accuracy"] == 0.5
    write(p__tsv="1\tnot_entailment\n0\tentailment\n")
    assert json.loads(score(*RTE_FLAGS)) == {"task": "rte", "examples": 2, "accuracy": 1}
    assert "p.tsv: its ids are not those of the examples; reading them as example numbers from 0" in score.log


def test_numbers(score, write):
    write(
        dev__tsv="index\tsentence1\tsentence2\tscore\n0\ta\tb\t1.0\n1\ta\tb\t2.0\n2\ta\tb\t4.0\n",
        p__tsv="index\tprediction\n0\t0.5\n1\t3\n2\t2.25\n",
    )
    assert score("--task=stsb", "--data_file=dev.tsv", "--predictions_file=p.tsv") == (
        "sts-b     3 examples\nspearman      0.5000\npearson       0.5316\n"
    )


# ----------------------------------------------------------------------------------------------------------------------
# Entities

COLUMNS = """-DOCSTART- -X- O O

EU NNP B-ORG B-ORG
rejects VBZ O O
Peter NNP B-PER B-PER
Blackburn NNP I-PER O

Peter NNP I-PER B-PER
"""


def test_entities(score, write):
    write(columns__txt=COLUMNS)
    assert score("--task=ner", "--predictions_file=columns.txt") == (
        "     precision  recall      f1  entities  predicted\n"
        "ORG     1.0000  1.0000  1.0000         1          1\n"
        "PER     0.5000  0.5000  0.5000         2          2\n"
        "\n"
        "all     0.6667  0.6667  0.6667         3          3\n"
        "\n"
        "accuracy of the tags of 5 words: 0.6000\n"
    )
    metrics = json.loads(score("--task=ner", "--predictions_file=columns.txt", "--json"))
    truth = [["B-ORG", "O", "B-PER", "I-PER"], ["I-PER"]]
    found = [["B-ORG", "O", "B-PER", "O"], ["B-PER"]]
    assert metrics.pop("types")["PER"] == ({"precision": 0.5, "recall": 0.5, "f1": 0.5, "entities": 2, "predicted": 2})
    assert metrics == {"task": "ner", "sentences": 2, "words": 5, **entity_metrics(truth, found)}


def test_entities_of_two_files_and_of_json_lines(score, write):
    write(columns__txt=COLUMNS)
    expected = score("--task=ner", "--predictions_file=columns.txt", "--json")
    lines = [line.split(" ") for line in COLUMNS.splitlines()]
    write(
        gold__txt="\n".join("\t".join(line[:1] + line[2:3]) for line in lines),
        found__txt="\n".join(" ".join(line[:1] + line[3:]) for line in lines[2:]),
    )
    assert score("--task=ner", "--data_file=gold.txt", "--predictions_file=found.txt", "--json") == expected
    sentences = [
        {
            "words": ["EU", "rejects", "Peter", "Blackburn"],
            "tags": ["B-ORG", "O", "B-PER", "I-PER"],
            "predicted_tags": ["B-ORG", "O", "B-PER", "O"],
        },
        {"words": ["Peter"], "tags": ["I-PER"], "predicted_tags": ["B-PER"]},
    ]
    write(both__jsonl="\n".join(map(json.dumps, sentences)))
    assert score("--task=ner", "--predictions_file=both.jsonl", "--json") == expected
    for sentence in sentences:
        del sentence["tags"]
    write(found__jsonl="\n".join(map(json.dumps, sentences)))
    assert score("--task=ner", "--data_file=gold.txt", "--predictions_file=found.jsonl", "--json") == expected


@pytest.mark.parametrize(("name", "separator"), [("csv", ","), ("tsv", "\t")])
def test_entities_in_tables_of_words(score, write, name, separator):
    """Their header tells where the predicted and the correct tags are; nothing takes the correct tags for predicted."""
    write(columns__txt=COLUMNS)
    expected = score("--task=ner", "--predictions_file=columns.txt", "--json")
    words, sentence = [], 0
    for line in COLUMNS.splitlines()[2:]:
        sentence += not line
        words += [[str(sentence), *line.split(" ")]] if line else []

    def table(head, *places):
        rows = [head.split(), *([row[place] for place in places] for row in words)]
        return "".join(separator.join(row) + "\n" for row in rows)

    both = table("sentence word tag predicted_tags", 0, 1, 3, 4)
    write(**{f"both__{name}": both, f"found__{name}": table("sentence word tag", 0, 1, 4)})
    write(**{f"gold__{name}": table("sentence word tag", 0, 1, 3)})
    for files in (
        [f"--predictions_file=both.{name}"],
        [f"--predictions_file=both.{name}", f"--data_file=gold.{name}"],
        [f"--predictions_file=found.{name}", f"--data_file=gold.{name}"],
        [f"--predictions_file=found.{name}", "--data_file=columns.txt", "--tag_column=-2"],
    ):
        assert score("--task=ner", *files, "--json") == expected
    with pytest.raises(ValueError, match="needs columns such as Sentence #, Word, predicted_tags; rename"):
        score("--task=ner", f"--predictions_file=found.{name}")


def test_correct_tags_that_are_taken_for_predicted_ones_are_named(score, write):
    sentence = {"words": ["Peter", "met"], "tags": ["B-PER", "O"]}
    write(gold__jsonl=json.dumps(sentence), found__jsonl=json.dumps(sentence | {"predictions": ["O", "O"]}))
    score("--task=ner", "--data_file=gold.jsonl", "--predictions_file=found.jsonl")
    assert "every tag of found.jsonl is right; if they are the correct ones themselves" in " ".join(score.log)


def test_entities_in_named_columns_and_other_schemes(score, write):
    rows = ["1 Peter S-PER O", "2 of O O", "3 New B-LOC O", "4 York E-LOC O"]
    predictions = ["B-PER", "O", "B-LOC", "O"]
    write(
        gold__txt="\n".join(rows),
        found__txt="\n".join(f"{row} {tag}" for row, tag in zip(rows, predictions, strict=True)),
    )
    expected = entity_metrics([["B-PER", "O", "B-LOC", "I-LOC"]], [predictions])
    for arguments in (("--data_file=gold.txt", "--tag_column=2"), ("--tag_column=2",), ("--tag_column=-3",)):
        metrics = json.loads(score("--task=ner", "--predictions_file=found.txt", *arguments, "--json"))
        assert {name: metrics[name] for name in expected} == expected
        assert not any("also has tags" in line for line in score.log)  # tags are expected in predictions


# ----------------------------------------------------------------------------------------------------------------------
# Output


def test_an_output_file(score, write, tmp_path):
    write(dev__tsv=MRPC, p__tsv="1\n1\n0\n1\n", out__json="old")
    assert score(*MRPC_FLAGS, "--json", "--output_file=out.json") == (tmp_path / "out.json").read_text()
    score(*MRPC_FLAGS, "--output_file=named.json")
    assert (tmp_path / "named.json").read_text() == (tmp_path / "out.json").read_text()
    assert json.loads((tmp_path / "out.json").read_text())["accuracy"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.tsv", "named.json", "out.json", "p.tsv"]


def test_a_closed_pipe_ends_the_program_which_does_not_import_tensorflow(write, tmp_path):
    write(dev__tsv=MRPC, p__tsv="0.1\t0.9\n0.75\t0.25\n1\t0\n0.4\t0.6\n")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-X", "importtime", "-m", "bert_keras", "evaluate", *MRPC_FLAGS]
    done = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert (done.returncode, lines) == (141, ["p.tsv: read as the probabilities of 0, 1, in this order"])
    assert "bert_keras.evaluation.classification" in done.stderr  # the list of imports is there
    assert "tensorflow" not in done.stderr
