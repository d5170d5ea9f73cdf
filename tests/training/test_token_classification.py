"""Token classification runs: data, network, metrics and files, without training."""

import json
import types

import numpy as np
import pytest
from known_models import TOKENS
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2
from training_runs import results_in

from bert_keras.data_prep.text.same_text import find_shared
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.runs.run_dir import RunDir
from bert_keras.tasks.tagging.settings import NerSettings
from bert_keras.tasks.tagging.task import TokenClassification

TRAIN = """-DOCSTART- O

paris B-LOC
is O
the O
capital O

-DOCSTART- O

she B-PER
was O
hungry O
"""
DEV = "he B-PER\nwas O\nlondon B-LOC\nof I-LOC\nfrance I-LOC\n\nparis B-LOC\nwalks O\n"
TAGS = ["O", "B-LOC", "B-PER", "I-LOC", "I-PER"]


@pytest.fixture
def make(tmp_path):
    """Return a function of the texts of its files and of settings that makes a task."""
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    files = types.SimpleNamespace(tokenizer=FullTokenizer(tmp_path / "vocab.txt"), labels=None)

    def make(train=TRAIN, dev=None, test=None, ending="txt", stored=None, **changes):
        settings = {"max_seq_length": 12} | changes
        for name, text in (("train", train), ("eval", dev), ("predict", test)):
            path = tmp_path / f"{name}_file.{ending}"
            settings |= {f"{name}_file": str(path), f"do_{name}": text is not None}
            if text is not None:
                path.write_text(text)
        return TokenClassification(NerSettings(**settings), files, stored)

    return make


def test_columns_are_those_that_are_named_in_all_files(make):
    germeval = "# a source of this text\n1\tparis\tB-LOC\tO\n2\tis\tO\tB-PER\n"
    task = make(germeval, germeval, germeval)
    assert task.tags == ["O", "B-PER", "I-PER"]
    task = make(germeval, germeval, germeval, tag_column=2)
    assert task.tags == ["O", "B-LOC", "I-LOC"]
    assert task.predict_features["input_ids"].tolist() == task.train_features["input_ids"].tolist()
    task = make(germeval, word_column=3, tag_column=2)
    assert task.num_train_examples == 1
    assert make('{"words": ["paris"], "tags": ["B-LOC"]}\n', ending="jsonl", tag_column=2).tags == [
        "O",
        "B-LOC",
        "I-LOC",
    ]


def test_sentences_of_training_are_found_in_the_evaluation(make):
    texts = make("he B-PER\nwas O\n\nparis B-LOC\n", "london B-LOC\n\nHE O\nwas O\n").texts
    keys = [[each.key for each in texts[part]] for part in ("eval", "train")]
    assert find_shared(*keys) == [(1, 0)]
    assert [each.place.rpartition("/")[2] for each in texts["eval"]] == ["eval_file.txt line 1", "eval_file.txt line 3"]
    assert make().texts["eval"] == []


def answers(features, tag_lists):
    """Returns logits that give each word the given tag, in place of the network's for these features."""
    logits = np.zeros((*features["input_ids"].shape, len(TAGS)), np.float32)
    for row, column in zip(*np.nonzero(features["word_index"] >= 0), strict=True):
        tag = tag_lists[features["sentence_index"][row]][features["word_index"][row, column]]
        logits[row, column, TAGS.index(tag)] = 5.0
    return {"logits": logits}


DEV_TAGS = [["B-PER", "O", "B-LOC", "I-LOC", "I-LOC"], ["B-LOC", "O"]]
PREDICTED = [["B-PER", "O", "B-LOC", "I-LOC", "O"], ["B-LOC", "B-PER"]]


def test_it_learns_the_tags_of_the_training_file(make, messages):
    task = make(dev=DEV, document_context=True)
    assert task.tags == TAGS
    assert task.describe() == {
        "task": "token_classification",
        "labels": TAGS,
        "tag_scheme": "BIO",
        "max_seq_length": 12,
        "document_context": True,
        "words": "conll",
    }
    assert messages[-1] == "tags: O, B-LOC, B-PER, I-LOC, I-PER"
    assert task.train_features["label_ids"][:, 1:5].tolist() == [[1, 0, 0, 0], [2, 0, 0, -1]]


@pytest.mark.parametrize(("words", "num_words"), [("conll", 3), ("transformers", 7)])
def test_texts_with_spans_are_split_as_for_prediction(make, words, num_words):
    """A file of words keeps its words."""
    text = '{"text": "he was new-york/london", "label": [[0, 2, "PER"]]}\n'
    task = make(text, ending="jsonl", words=words)
    assert task.describe()["words"] == words
    assert (task.train_features["label_ids"] >= 0).sum() == num_words
    task = make("he B-PER\nnew-york/london O\n", words=words)
    assert (task.train_features["label_ids"] >= 0).sum() == 2


def test_steps_are_counted_from_windows(make):
    assert make().num_train_examples == 2
    task = make(max_seq_length=5)
    assert task.num_train_examples == len(task.train_features["input_ids"]) == 3


def test_figures_are_those_of_entities(make):
    task = make(dev=DEV)
    assert task.evaluate(answers(task.eval_features, DEV_TAGS)) == dict.fromkeys(task.metric_names, 1.0)
    metrics = task.evaluate(answers(task.eval_features, PREDICTED))
    # he and paris are correct; london of france is cut short, walks has no tag.
    assert metrics == pytest.approx({"precision": 2 / 4, "recall": 2 / 3, "f1": 4 / 7, "accuracy": 5 / 7})
    assert metrics["f1"] == pytest.approx(f1_score(DEV_TAGS, PREDICTED, mode="strict", scheme=IOB2))
    assert task.baseline == pytest.approx({"precision": 0, "recall": 0, "f1": 0, "accuracy": 2 / 7})


def test_facts_follow_what_is_learnt_and_nothing_else(make):
    facts = make(dev=DEV).facts
    assert make(dev="\ufeff" + DEV.replace(" ", "\t\t").replace("\t\t", " NN ").replace("\n", "\r\n")).facts == facts
    assert make(train=TRAIN.replace("she", "he"), dev=DEV).facts["train_file_sha256"] != facts["train_file_sha256"]
    assert make(dev=DEV.replace("he", "she")).facts["eval_file_sha256"] != facts["eval_file_sha256"]
    assert facts["tags"] == TAGS


def test_the_report_has_the_figures_of_each_type(make, tmp_path):
    task = make(dev=DEV)
    task.write_evaluation(RunDir(str(tmp_path), "run_ner"), answers(task.eval_features, PREDICTED))
    rows = [line.split() for line in (tmp_path / "entity_report.txt").read_text().splitlines() if line.split()]
    assert ["LOC", "0.5000", "0.5000", "0.5000", "2", "2"] in rows
    assert ["PER", "0.5000", "1.0000", "0.6667", "1", "2"] in rows
    assert rows[-1] == ["all", "0.5000", "0.6667", "0.5714", "3", "4"]


def test_predictions_are_a_column_and_are_judged_where_there_are_tags(make, tmp_path, messages):
    task = make(test=DEV.replace("B-LOC", "B-TOWN"))
    task.write_predictions(RunDir(str(tmp_path), "run_ner"), answers(task.predict_features, PREDICTED))
    assert (tmp_path / "predictions.txt").read_text() == (
        "he B-PER B-PER\nwas O O\nlondon B-TOWN B-LOC\nof I-LOC I-LOC\nfrance I-LOC O\n\n"
        "paris B-TOWN B-LOC\nwalks O B-PER\n"
    )
    results = results_in(tmp_path, "predict_results.txt")
    assert float(results["recall"]) == pytest.approx(1 / 4)
    assert messages[-1].startswith(
        f"predictions, compared with the tags of {tmp_path / 'predict_file.txt'}: precision 0.25,"
    )
    assert (tmp_path / "predict_entity_report.txt").exists()


def test_predictions_of_json_lines_are_json_lines(make, tmp_path):
    train = {"words": ["paris", "she"], "tags": ["B-LOC", "B-PER"]}
    test = {"id": 1, "words": ["he", "was"]}
    task = make(train=json.dumps(train), test=json.dumps(test), ending="jsonl")
    for left in ("predictions.txt", "predict_results.txt", "predict_entity_report.txt"):
        (tmp_path / left).write_text("of another file")
    [row] = task.write_predictions(RunDir(str(tmp_path), "run_ner"), answers(task.predict_features, [["B-PER", "O"]]))
    probability = round(float(np.exp(5) / (np.exp(5) + 4)), 6)
    [line] = (tmp_path / "predictions.jsonl").read_text().splitlines()
    assert json.loads(line) == row
    assert row == {
        "id": 1,
        "words": ["he", "was"],
        "predicted_tags": ["B-PER", "O"],
        "confidences": [probability, probability],
    }
    assert list(tmp_path.glob("predict*.txt")) == []


def test_a_model_that_is_there_needs_no_training_file(make):
    task = make(train=None, dev=DEV, stored={"labels": TAGS})
    assert task.train_features is None
    assert task.evaluate(answers(task.eval_features, DEV_TAGS))["f1"] == 1.0
    with pytest.raises(
        ValueError, match=r"^the set of tags is unknown; train with do_train, or give a model from run_ner$"
    ):
        make(train=None, dev=DEV)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"dev": "he B-ORG\n"},
            r'eval_file.txt line 1: the tag "B-ORG" is not one of those of training \(O, B-LOC, B-',
        ),
        ({"train": "he O\nis O\n"}, "train_file.txt has no entity: the tag of every word is O; training needs some"),
        ({"dev": "he\n"}, "eval_file.txt line 1 has only words"),
        ({"test": ""}, "predict_file.txt is empty"),
    ],
)
def test_data_that_cannot_be_used_is_refused_at_once(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


def test_conll_2003_in_full_circle(shared_dir):
    """With the true tags as answers every metric is 1, for any windows."""
    dev = str(shared_dir("data/conll2003") / "dev.txt")
    files = types.SimpleNamespace(tokenizer=FullTokenizer(shared_dir("data/vocab") / "uncased.txt"), labels=None)
    settings = {"max_seq_length": 32, "document_context": True, "train_file": dev, "eval_file": dev}
    settings |= {"do_train": True, "do_eval": True, "do_predict": False}
    task = TokenClassification(NerSettings(**settings), files)
    outputs = {"logits": np.eye(len(task.tags), dtype=np.float32)[np.maximum(task.eval_features["label_ids"], 0)]}
    assert task.evaluate(outputs) == dict.fromkeys(task.metric_names, 1.0)
    assert task.baseline["accuracy"] == pytest.approx(0.8325, abs=1e-4)
