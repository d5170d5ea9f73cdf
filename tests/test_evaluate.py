"""The program that scores predictions, from its command line to its metrics."""

import json
import os
import subprocess
import sys

import pytest
from tiny_data import gold_file

import evaluate_predictions
from bert_keras.cli.flags import run_main
from bert_keras.evaluation.entities import entity_metrics
from bert_keras.evaluation.squad import squad_v2_metrics


@pytest.fixture
def score(tmp_path, monkeypatch, capsys):
    """Return a function that runs the program in a folder and returns standard output; it keeps the log."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capsys.readouterr()
        evaluate_predictions.main(["evaluate_predictions.py", *arguments])
        captured = capsys.readouterr()
        run.log = captured.err.splitlines()
        return captured.out

    return run


@pytest.fixture
def write(tmp_path):
    """Return a function that writes files into the folder by name: text, or objects as JSON."""

    def write_files(**files):
        for name, content in files.items():
            path = tmp_path / name.replace("__", ".")
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    return write_files


def test_the_flags():
    flag_values = evaluate_predictions.define_flags()
    names = ("task", "data_file", "predictions_file", "na_prob_file", "version_2_with_negative", "answer_language")
    names += ("word_column", "tag_column", "output_file")
    defaults = {**dict.fromkeys(names), "na_prob_thresh": 1.0, "xnli_language": "zh", "json": False}
    assert {name: flag_values[name].default for name in flag_values} == defaults


# ----------------------------------------------------------------------------------------------------------------------
# SQuAD


SQUAD = ("--task=squad", "--data_file=gold.json", "--predictions_file=predictions.json")


def test_the_report_of_squad_2(score, write):
    write(gold__json=gold_file({"a": ["cat"], "b": ["dog"], "c": []}))
    write(predictions__json={"a": "the cat", "b": "dog house", "c": "x"}, odds__json={"a": -5, "b": -4, "c": 2.5})
    expected = (
        "               all  with answer  without\n"
        "exact      33.3333      50.0000   0.0000\n"
        "f1         55.5556      83.3333   0.0000\n"
        "questions        3            2        1\n"
    )
    assert score(*SQUAD) == expected
    assert score(*SQUAD, "--na_prob_file=odds.json", "--na_prob_thresh=3") == expected + (
        "\n       at best  threshold\nexact  66.6667         -5\nf1     88.8889         -4\n"
    )
    assert "without" in score(*SQUAD, "--na_prob_file=odds.json")
    assert "100.0000\n" in score(*SQUAD, "--na_prob_file=odds.json").splitlines(keepends=True)[1]


def test_the_json_of_squad_has_the_official_keys(score, write):
    gold, predictions, odds = gold_file({"a": ["cat"], "b": []}), {"a": "cat", "b": ""}, {"a": 0.25, "b": 0.75}
    write(gold__json=gold, predictions__json=predictions, odds__json=odds)
    metrics = json.loads(score(*SQUAD, "--na_prob_file=odds.json", "--json"))
    assert metrics == squad_v2_metrics(gold, predictions, odds)
    assert list(metrics) == (
        ["exact", "f1", "total", "HasAns_exact", "HasAns_f1", "HasAns_total", "NoAns_exact", "NoAns_f1", "NoAns_total"]
        + ["best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"]
    )
    assert "gold.json: scored as SQuAD 2.0 (some questions may have no answer)" in score.log
    assert any(message.startswith("warning: 1 of 2 predictions are already empty, and no thr") for message in score.log)


def test_the_version_of_squad_is_found_or_given(score, write):
    write(gold__json=gold_file({"a": ["cat"]}), predictions__json={"a": "the cats"})
    assert score(*SQUAD) == "             percent\nexact_match   0.0000\nf1            0.0000\n"
    assert score.log == ["gold.json: scored as SQuAD 1.1 (every question has an answer)"]
    assert "HasAns_exact" in score(*SQUAD, "--version_2_with_negative", "--json")
    assert score.log == ["gold.json: scored as SQuAD 2.0 (set by the flag)"]


@pytest.mark.parametrize("is_v2", [False, True])
def test_the_arguments_of_the_official_scripts(score, write, tmp_path, is_v2):
    gold = gold_file({"a": ["cat"], "b": []} if is_v2 else {"a": ["cat"]})
    write(gold__json=gold, predictions__json={"a": "cat", "b": "x"}, odds__json={"a": 0.25, "b": 0.75})
    expected = score(*SQUAD, "--json")
    assert score("gold.json", "predictions.json") == expected
    assert score("gold.json", "predictions.json", "--nojson") == score(*SQUAD)
    if is_v2:
        arguments = ("gold.json", "predictions.json", "--na-prob-file", "odds.json", "-t", "0.5", "--out-file=out.json")
        official = score(*arguments)
        assert official == score(*SQUAD, "--json", "--na_prob_file=odds.json", "--na_prob_thresh=0.5")
        assert (tmp_path / "out.json").read_text() == official


def test_answers_in_other_languages(score, write):
    write(gold__json=gold_file({"a": ["北京大学"], "b": ["上海"]}), predictions__json={"a": "北京", "b": "上海。"})
    assert json.loads(score("gold.json", "predictions.json")) == {"exact_match": 0.0, "f1": 0.0}
    assert any("a partly correct answer has F1 0; --answer_language=zh compares" in line for line in score.log)
    expected = {"exact_match": 50.0, "f1": pytest.approx((200 / 3 + 100) / 2)}
    assert json.loads(score("gold.json", "predictions.json", "zh")) == expected
    assert json.loads(score(*SQUAD, "--answer_language=zh", "--json")) == expected
    assert not any("partly correct" in line for line in score.log)


def test_ids_that_are_numbers(score, write):
    gold = gold_file({"1": ["cat"]})
    gold["data"][0]["paragraphs"][0]["qas"][0] |= {"id": 1, "answers": [{"text": "cat", "answer_start": 0.0}]}
    write(gold__json=gold, predictions__json={"1": "cat"})
    assert json.loads(score(*SQUAD, "--json")) == {"exact_match": 100.0, "f1": 100.0}


# ----------------------------------------------------------------------------------------------------------------------
# GLUE

MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + "".join(
    f'{label}\t1\t2\tA "text\tanother\n' for label in (1, 1, 0, 1)
)
RTE = "index\tsentence1\tsentence2\tlabel\n4\ta\tb\tentailment\n6\tc\td\tnot_entailment\n"


@pytest.mark.parametrize(
    "predictions",
    [
        "index\tprediction\n0\t1\n1\t0\n2\t0\n3\t1\n",
        "\ufeffIndex\tlabel\r\n3\t1\r\n2\t0\r\n0\t1\r\n1\t0\r\n",
        "0\t1\n1\t0\n2\t0\n3\t1\n",
        "1\n0\n0\n1\n",
        "prediction\n1\n0\n0\n1\n",
        "0.1\t0.9\n0.75\t0.25\n1.0\t1e-9\n0.4\t0.6\n",
        "id\tprediction\tprobability of 0\tprobability of 1\ttext_a\ttext_b\n"
        "0\t1\t0.1\t0.9\ta\tb\n1\t0\t1\t0\ta\tb\n2\t0\t1\t0\ta\tb\n3\t1\t0\t1\ta\tb\n",
    ],
    ids=["submission", "other head", "no head", "one column", "one column and head", "probabilities", "ours"],
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
# Output and mistakes

MRPC_FLAGS = ("--task=mrpc", "--data_file=dev.tsv", "--predictions_file=p.tsv")
NER_FLAGS = ("--task=ner", "--data_file=gold.txt", "--predictions_file=p.txt")


def test_an_output_file(score, write, tmp_path):
    write(dev__tsv=MRPC, p__tsv="1\n1\n0\n1\n", out__json="old")
    assert score(*MRPC_FLAGS, "--json", "--output_file=out.json") == (tmp_path / "out.json").read_text()
    assert json.loads((tmp_path / "out.json").read_text())["accuracy"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.tsv", "out.json", "p.tsv"]


def test_a_closed_pipe_ends_the_program_which_does_not_import_tensorflow(write, tmp_path):
    write(dev__tsv=MRPC, p__tsv="0.1\t0.9\n0.75\t0.25\n1\t0\n0.4\t0.6\n")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-X", "importtime", evaluate_predictions.__file__, *MRPC_FLAGS]
    done = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert (done.returncode, lines) == (141, ["p.tsv: read as the probabilities of 0, 1, in this order"])
    assert "sklearn.metrics" in done.stderr  # the list of imports is there
    assert "tensorflow" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task=squad",), "^missing: --data_file, --predictions_file "),
        (("--task=ner",), "^missing: --predictions_file "),
        (
            ("--task=imdb", *MRPC_FLAGS[1:]),
            "^--task=imdb is not one of squad, ner, minimal_pairs, cola, .*, wnli, xnli, swag$",
        ),
        ((*MRPC_FLAGS, "--xnli_language=de"), "^--xnli_language is for --task=xnli; leave it out for --task=mrpc$"),
        ((*MRPC_FLAGS, "--na_prob_thresh=1"), "^--na_prob_thresh is for --task=squad; leave it out for --task=mrpc$"),
        ((*MRPC_FLAGS, "--output_file=dev.tsv"), "^--output_file=dev.tsv is also --data_file, which would be lost"),
        (("--task=ax", *MRPC_FLAGS[1:]), "^--task=ax has no file with labels; only GLUE's site can score it$"),
        (
            ("--task=ner", "--predictions_file=p.jsonl", "--tag_column=1"),
            r"^--word_column and --tag_column are for files of columns, not for JSON lines \(p.jsonl\)$",
        ),
        (("--task=mrpc", "gold.json", "p.json"), '^"gold.json" is not a flag; give only flags, or only the answer fil'),
        (("gold.json",), '^"gold.json" is not a flag; give only flags, or only the answer file'),
        (("gold.json", "p.json", "fr"), '^the third argument, "fr", is not one of MLQA\'s languages ar, de, en, es'),
    ],
)
def test_mistakes_in_flags(score, write, arguments, message):
    write(dev__tsv=MRPC)
    with pytest.raises(ValueError, match=message):
        score(*arguments)


@pytest.mark.parametrize(
    ("arguments", "predictions", "message"),
    [
        ((), "[]", "^predictions.json is JSON, but not an object; give the answer to each question by its id$"),
        (
            ("--na_prob_file=odds.json",),
            {"a": "cat"},
            "^--na_prob_file and --na_prob_thresh are for SQuAD 2.0, but gold.json is scored as 1.1; leave them out,",
        ),
        (
            ("--na_prob_file=odds.json", "--version_2_with_negative"),
            {"a": "x"},
            "^odds.json is JSON, but not an object",
        ),
    ],
)
def test_mistakes_in_squad(score, write, arguments, predictions, message):
    write(gold__json=gold_file({"a": ["cat"]}), predictions__json=predictions, odds__json="[]")
    with pytest.raises(ValueError, match=message):
        score(*SQUAD, *arguments)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ("index\tprediction\n0\t1\n1\tyes\n", '^p.tsv line 3: prediction "yes" is not one of 0, 1$'),
        ("1\n1\n1\n", "^p.tsv has 3 predictions, but there are 4 examples; the first without one is dev.tsv line 5$"),
        (
            "prediction\n1\n1\n1\n0\n0\n",
            "^p.tsv line 6: this is prediction 5, but there are only 4 examples; give one for each$",
        ),
        (
            "index\tprediction\n0\t1\n1\t0\n2\t0\n",
            '^p.tsv has no prediction with the id "3", of dev.tsv line 5; give one for each example$',
        ),
        (
            "0\t1\n1\t0\n7\t0\n3\t0\n",
            '^p.tsv line 3: there is no example with the id "7"; give the file for this data$',
        ),
        ("0\t1\n1\t0\n1\t0\n3\t0\n", '^p.tsv line 3: the id "1" is also in line 2; ids must be unique$'),
        ("index\tprediction\n0\t1\n1\n", "^p.tsv line 3 has 1 columns, but 2 are needed; restore the row$"),
        ("0\ta\tb\n", "^p.tsv line 1 has 3 columns, but a file of predictions without a header has one or two"),
        (
            "id\ttext\tanswer\n0\ta\t1\n",
            '^p.tsv line 1: no column "prediction" among id, text, answer; rename the column$',
        ),
    ],
)
def test_mistakes_in_predictions(score, write, predictions, message):
    write(dev__tsv=MRPC, p__tsv=predictions)
    with pytest.raises(ValueError, match=message):
        score(*MRPC_FLAGS)


@pytest.mark.parametrize(("value", "problem"), [("x", "not a number"), ("nan", "not finite")])
def test_predictions_that_are_not_numbers(score, write, value, problem):
    write(dev__tsv="index\tsentence1\tsentence2\tscore\n0\ta\tb\t1.0\n", p__tsv=f"{value}\n")
    with pytest.raises(ValueError, match=f'^p.tsv line 1: prediction "{value}" is {problem}; this task needs numbers$'):
        score("--task=sts-b", *MRPC_FLAGS[1:])


@pytest.mark.parametrize(
    ("gold", "predictions", "message"),
    [
        (
            None,
            "EU B-ORG\n",
            "^p.txt has no column of correct tags before the predicted ones; give them in --data_file$",
        ),
        (
            "EU O\nis O\n",
            "EU O\nwas O\n",
            '^p.txt line 2 has the word "was" where gold.txt line 2 has "is"; both files need the same words$',
        ),
        (
            "EU O\nis O\n",
            "EU O\n\nis O\n",
            "^p.txt line 1 begins a sentence of 1 words, which at gold.txt line 1 has 2; both files need the same sent",
        ),
        (
            "EU O\n\nis O\n",
            "EU O\n",
            "^gold.txt line 3 begins a sentence that p.txt lacks; give the predictions of this file$",
        ),
        (
            "EU O\n",
            "EU O\n\nis O\n",
            "^p.txt line 3 begins a sentence that gold.txt lacks; give the predictions of this file$",
        ),
    ],
)
def test_mistakes_in_files_of_entities(score, write, gold, predictions, message):
    write(gold__txt=gold or "", p__txt=predictions)
    with pytest.raises(ValueError, match=message):
        score(*(NER_FLAGS if gold else NER_FLAGS[::2]))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("", '^p.jsonl line 1 has only words; add "predicted_tags", a list of as many tags$'),
        (', "predicted_tags": [3]', r'^p.jsonl line 1: "predicted_tags" is \[3\], but must be a list of'),
        (', "predicted_tags": ["O", "O"]', "^p.jsonl line 1 has 1 words but 2 predicted_tags; every word needs one"),
        (
            ', "predicted_tags": ["X"]',
            '^p.jsonl line 1 word 1: the tag "X" is not .*; convert "predicted_tags" to tags O, B-<type> and I-<type>$',
        ),
    ],
)
def test_mistakes_in_predicted_tags(score, write, more, message):
    write(p__jsonl='{"words": ["EU"], "tags": ["O"]' + more + "}")
    with pytest.raises(ValueError, match=message):
        score("--task=ner", "--predictions_file=p.jsonl")


def test_a_mistake_prints_one_line_and_writes_nothing(write, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(dev__tsv=MRPC, p__tsv="1\n1\n")
    flags = [*MRPC_FLAGS, "--output_file=out.json"]
    assert run_main(evaluate_predictions.main, ["evaluate_predictions.py", *flags]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.endswith("the first without one is dev.tsv line 4\n")
    assert not (tmp_path / "out.json").exists()
