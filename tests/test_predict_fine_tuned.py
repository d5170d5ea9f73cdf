"""predict.py with the folder of a fine-tuned model."""

import io
import json
import pathlib
import re
import sys

import pytest
from fine_tuned_models import (
    OF_ANSWERS,
    OF_TAGS,
    OF_TEXTS,
    TAGS,
    random_classifier,
    word_finder,
    word_tagger,
    write_fine_tuned,
)
from known_models import random_model, write_model

import predict
from bert_keras.cli.flags import run_main
from bert_keras.modeling import ClassifierModel, weights_by_name
from bert_keras.prediction import open_model


def fixed_classifier(*logits):
    """Returns a classifier that gives the same logits to every text."""
    model = random_classifier(len(logits))
    weights = weights_by_name(model)
    weights["output_weights"].assign(weights["output_weights"] * 0)
    weights["output_bias"].assign(logits)
    assert isinstance(model, ClassifierModel)
    return model


MODELS = {
    "classification": (lambda: fixed_classifier(1.0, 2.0), OF_TEXTS | {"labels": ["no", "yes"]}),
    "pair": (lambda: fixed_classifier(1.0, 2.0), OF_TEXTS | {"labels": ["no", "yes"], "is_pair": True}),
    "regression": (lambda: fixed_classifier(2.5), OF_TEXTS | {"is_pair": True}),
    "multi_label": (lambda: fixed_classifier(1.0, -1.0, 3.0, 0.0), OF_TEXTS | {"labels": ["a", "b", "c", "d"]}),
    "multiple_choice": (lambda: fixed_classifier(0.5), {"max_seq_length": 16}),
    "question_answering": (
        lambda: word_finder({"paris": 5, "[CLS]": 1}, {"capital": 5, "[CLS]": 1}),
        OF_ANSWERS | {"version_2_with_negative": True},
    ),
    "token_classification": (
        lambda: word_tagger({"paris": "B-LOC", "he": "B-PER"}),
        OF_TAGS | {"labels": TAGS},
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: write_fine_tuned(folder / name, make(), "classification" if name == "pair" else name, **settings)
        for name, (make, settings) in MODELS.items()
    }


@pytest.fixture
def ask(folders, capsys):
    """Return a function of a model name and arguments that runs the program and returns standard output."""

    def run(name, *arguments):
        capsys.readouterr()
        predict.main(["predict.py", f"--model_dir={folders[name]}", *arguments])
        return capsys.readouterr().out

    return run


SHOWN = {
    "classification": (
        ["He was", "hungry"],
        "He was\n  0.7311  yes\n  0.2689  no\nhungry\n  0.7311  yes\n  0.2689  no\n",
    ),
    "pair": (["He was", "hungry"], "He was  |  hungry\n  0.7311  yes\n  0.2689  no\n"),
    "regression": (["he was\thungry"], "2.5000  he was  |  hungry\n"),
    "multi_label": (["He was"], "He was\n  0.9526  c\n  0.7311  a\n  0.5000  d\n"),
    "multiple_choice": (["He was", "hungry", "so"], "He was\n> 0.5000  hungry\n  0.5000  so\n"),
    "question_answering": (
        ["Where?", "He is in Paris, the Capital."],
        "Where?\n  1.0000  Paris, the Capital  (9 to 27)  odds of no answer -51.24, threshold 0\n",
    ),
    "token_classification": (
        ["He is in Paris.", "so?"],
        "He is in Paris.\n  0.9945  PER  He  (0 to 2)\n  0.9945  LOC  Paris  (9 to 14)\nso?\n  no entity\n",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_answers_are_shown_for_people(ask, name):
    arguments, shown = SHOWN[name]
    assert ask(name, *arguments) == shown


def test_few_of_many_classes_are_shown(tmp_path, capsys):
    labels = [f"class {number}" for number in range(7)]
    model = fixed_classifier(*range(7))
    folder = write_fine_tuned(tmp_path, model, "classification", **(OF_TEXTS | {"labels": labels}))
    predict.main(["predict.py", f"--model_dir={folder}", "he"])
    lines = capsys.readouterr().out.splitlines()
    shown = [f"class {number}" for number in (6, 5, 4, 3, 2)]
    assert [line.split("  ")[-1] for line in lines] == ["he", *shown, "and 2 others; --json has all"]


def test_no_label_and_no_answer_are_said(tmp_path, capsys):
    model = fixed_classifier(-1.0, -2.0)
    folder = write_fine_tuned(tmp_path / "a", model, "multi_label", **(OF_TEXTS | {"labels": ["a", "b"]}))
    predict.main(["predict.py", f"--model_dir={folder}", "he"])
    assert capsys.readouterr().out == "he\n  no label\n"
    settings = OF_ANSWERS | {"version_2_with_negative": True, "null_score_diff_threshold": -60}
    model = word_finder({"paris": 5, "[CLS]": 1}, {"capital": 5, "[CLS]": 1})
    folder = write_fine_tuned(tmp_path / "b", model, "question_answering", **settings)
    predict.main(["predict.py", f"--model_dir={folder}", "where?", "Paris, the capital"])
    shown = capsys.readouterr().out
    assert shown == "where?\n  0.0000  (no answer)  odds of no answer -51.24, threshold -60\n"


KEYS = {
    "classification": ["text", "text_pair", "label", "probabilities"],
    "pair": ["text", "text_pair", "label", "probabilities"],
    "regression": ["text", "text_pair", "value"],
    "multi_label": ["text", "text_pair", "labels", "probabilities"],
    "multiple_choice": ["text", "choices", "index", "probabilities"],
    "question_answering": [
        *("question", "text", "probability", "start", "end", "is_impossible", "null_odds", "null_threshold", "n_best")
    ],
    "token_classification": ["text", "entities", "words"],
}


@pytest.mark.parametrize("name", KEYS)
def test_answers_are_the_python_objects_for_programs(ask, folders, name):
    arguments, _ = SHOWN[name]
    answers = [json.loads(line) for line in ask(name, "--json", *arguments).splitlines()]
    assert all(list(answer) == KEYS[name] for answer in answers)
    if name == "token_classification":
        assert [list(answer["words"][0]) for answer in answers] == [["word", "tag", "probability", "start", "end"]] * 2
        [first, second] = open_model(folders[name])(arguments)
        assert answers[0]["entities"][1]["probability"] == first.entities[1].probability
        assert answers[1]["entities"] == second.entities == []


LINES = {
    "classification": "he was\n\nso\tit is\n",
    "pair": "he was\tso\n\na\tb\n",
    "multiple_choice": "he was\tso\thungry\ta\n\nparis\tis\twas\n",
    "question_answering": "where\tin paris\n\nwho\the is in the capital\n",
    "token_classification": "he was\n\nso\tit is\n",
}


@pytest.mark.parametrize("name", LINES)
def test_arguments_a_file_and_standard_input_give_the_same(ask, name, tmp_path, monkeypatch):
    expected = ask(name, "--json", *filter(None, LINES[name].split("\n")))
    assert len(expected.splitlines()) == 2
    (tmp_path / "texts.txt").write_text(LINES[name])
    assert ask(name, "--json", f"--input_file={tmp_path / 'texts.txt'}") == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES[name].encode())))
    assert ask(name, "--json") == expected


def test_the_task_may_be_given_if_it_is_the_model_s(ask, folders):
    assert ask("classification", "--task=classification", "he was") == ask("classification", "he was")
    message = f"^--task=regression, but --model_dir={folders['classification']} is for classification; leave --task out"
    with pytest.raises(ValueError, match=message):
        ask("classification", "--task=regression", "he was")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "pair",
            ["he was"],
            "takes two texts for each pair, but 1 were given; give an even number, or each pair as one",
        ),
        (
            "question_answering",
            ["a\tb\tc"],
            "^argument 1 has 2 tabs, but a pair is two texts with one tab between them",
        ),
        ("question_answering", ["where", " "], "^pair 1 has no word in its context; give a context$"),
        (
            "multiple_choice",
            ["he", "was"],
            "takes a text and two or more choices, but 2 arguments were given; give the",
        ),
        (
            "multiple_choice",
            ["he\twas"],
            "^argument 1 has 1 tabs, but a text and two or more choices with tabs between",
        ),
        ("classification", [""], "^argument 1 has no word in its text; give a text$"),
        ("classification", ["he", "--long=window"], "^--long: a fine-tuned model or an export sets this; leave it out"),
        ("classification", ["he", "--top_k=2", "--vocab_file=a"], "^--vocab_file, --top_k: a fine-tuned model or"),
        (
            "classification",
            ["he", "--init_checkpoint=a"],
            "^there are both --model_dir and --init_checkpoint; give one",
        ),
    ],
)
def test_mistakes_are_one_sentence(ask, name, arguments, message):
    with pytest.raises(ValueError, match=message):
        ask(name, *arguments)


def test_mistakes_in_a_file_name_its_line(ask, tmp_path):
    (tmp_path / "texts.txt").write_text("a\tb\n\nc\n")
    with pytest.raises(
        ValueError, match="texts.txt line 3 has 0 tabs, but a pair is two texts with one tab between them"
    ):
        ask("pair", f"--input_file={tmp_path / 'texts.txt'}")


def test_a_pre_trained_model_is_told_from_a_fine_tuned_one(tmp_path, capsys):
    folder = write_model(tmp_path / "model", random_model())
    argv = ["/somewhere/predict.py", f"--model_dir={folder}", "he"]
    assert run_main(predict.main, argv) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(
        f"predict.py: there is no fine-tuned model in {folder}: neither task.json nor model/task.json"
    )
    message = "^--task=classification is for fine-tuned models; give the folder of one as --model_dir$"
    with pytest.raises(ValueError, match=message):
        predict.main(["predict.py", "--task=classification", f"--init_checkpoint={folder}", "he"])


def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    for page_name, name in (
        ("reviews_model", "classification"),
        ("squad_model", "question_answering"),
        ("ner_model", "token_classification"),
    ):
        make, settings = MODELS[name]
        write_fine_tuned(tmp_path / page_name, make(), name, **settings)
    page = pathlib.Path(__file__).parents[1] / "docs" / "predict.md"
    of_stream, block = re.findall(r"^```py\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "million_reviews.txt").write_text("He was hungry.\nA film to see twice.\n")
    exec(compile(of_stream, "predict.md", "exec"), {})
    labels = [line for line in capsys.readouterr().out.splitlines() if line in MODELS["classification"][1]["labels"]]
    assert len(labels) == 2
    exec(compile(block, "predict.md", "exec"), {})
    # The log may also go there if another test has opened a console.
    shown = capsys.readouterr().out.splitlines()
    of_class, of_answer, first, second = (line for line in shown if line.startswith(("yes", "Paris", "[(")))
    assert of_class.startswith("yes {'no': 0.26")
    assert of_answer.startswith("Paris 0.")
    assert of_answer.endswith(" Paris")
    assert [first, second] == ["[('Paris', 'LOC', 13, 18)]", "[('He', 'PER', 0, 2)]"]
