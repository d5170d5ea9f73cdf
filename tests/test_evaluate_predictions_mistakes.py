"""Mistakes in the flags and files of evaluate_predictions.py."""

import pytest
from scored_files import MRPC, MRPC_FLAGS, SQUAD_FLAGS
from tiny_data import gold_file

from bert_keras.cli.flags import run_main
from bert_keras.commands import evaluate_predictions

NER_FLAGS = ("--task=ner", "--data_file=gold.txt", "--predictions_file=p.txt")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task=squad",), "^missing: data_file, predictions_file "),
        (("--task=ner",), "^missing: predictions_file "),
        (
            ("--task=imdb", *MRPC_FLAGS[1:]),
            "^--task=imdb is not one of squad, ner, minimal_pairs, cola, .*, wnli, xnli, swag$",
        ),
        ((*MRPC_FLAGS, "--xnli_language=de"), "^--xnli_language is for --task=xnli; leave it out for --task=mrpc$"),
        ((*MRPC_FLAGS, "--na_prob_thresh=1"), "^--na_prob_thresh is for --task=squad; leave it out for --task=mrpc$"),
        ((*MRPC_FLAGS, "--output_file=dev.tsv"), "^output_file=dev.tsv is also data_file, which would be lost"),
        (("--task=ax", *MRPC_FLAGS[1:]), "^task=ax has no file with labels; only GLUE's site can score it$"),
        (
            ("--task=ner", "--predictions_file=p.jsonl", "--tag_column=1"),
            r"^word_column and tag_column are for files of columns, not for JSON lines or a table with a header \(p",
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
        (
            (),
            "[]",
            "predictions.json line 1: a JSON list where .*; give the answer to each question by its id$",
        ),
        (
            ("--na_prob_file=odds.json",),
            {"a": "cat"},
            "^na_prob_file and na_prob_thresh are for SQuAD 2.0, but gold.json is scored as 1.1; leave them out,",
        ),
        (
            ("--na_prob_file=odds.json", "--version_2_with_negative"),
            {"a": "x"},
            "odds.json line 1: a JSON .* where an object",
        ),
        (
            ("--na_prob_thresh=0.5", "--version_2_with_negative"),
            {"a": "x"},
            "^na_prob_thresh is compared with the odds in na_prob_file; give both, or leave it out$",
        ),
    ],
)
def test_mistakes_in_squad(score, write, arguments, predictions, message):
    write(gold__json=gold_file({"a": ["cat"]}), predictions__json=predictions, odds__json="[]")
    with pytest.raises(ValueError, match=message):
        score(*SQUAD_FLAGS, *arguments)


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
            '^p.tsv line 3: no example has the id "7"; give the file for this data$',
        ),
        ("0\t1\n1\t0\n1\t0\n3\t0\n", '^p.tsv line 3: the id "1" is also in line 2; ids must be unique$'),
        ("index\tprediction\n0\t1\n1\n", "^p.tsv line 3 has 1 columns, but 2 are needed; restore the row$"),
        ("prediction\tid\n1\t0\n1\n", "^p.tsv line 3 has 1 columns, but 2 are needed; restore the row$"),
        (
            '{"id": 0, "prediction": 1}\n',
            "^p.tsv has rows of JSON; write predictions into columns with tabs or commas$",
        ),
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


def test_numbers_of_classes_that_libraries_order_differently_are_refused(score, write):
    rows = "".join("\t".join([*"abcdefghijklmno", "neutral"]) + "\n" for _ in range(2))
    write(dev__tsv="\t".join([*"abcdefghijklmno", "gold_label"]) + f"\n{rows}", p__tsv="neutral\n1\n")
    with pytest.raises(ValueError, match='"1" is not one of contradiction, entailment, neutral; libraries number'):
        score("--task=mnli", *MRPC_FLAGS[1:])


@pytest.mark.parametrize("value", ["x", "nan"])
def test_predictions_that_are_not_numbers(score, write, value):
    write(dev__tsv="index\tsentence1\tsentence2\tscore\n0\ta\tb\t1.0\n", p__tsv=f"{value}\n")
    message = f'^p.tsv line 1: prediction "{value}" is not a finite number; this task needs numbers$'
    with pytest.raises(ValueError, match=message):
        score("--task=sts-b", *MRPC_FLAGS[1:])


@pytest.mark.parametrize(
    ("gold", "predictions", "message"),
    [
        (
            None,
            "EU B-ORG\n",
            "^p.txt has no column of correct tags before the predicted ones; give them in data_file$",
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
        (', "predicted_tags": [3]', r'^p.jsonl line 1: "predicted_tags" is \[3\], but a tag is a text such as B-PER'),
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
