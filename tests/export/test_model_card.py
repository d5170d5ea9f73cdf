"""The sentences of a model card."""

import dataclasses
import types

import pytest

from bert_keras import tasks
from bert_keras.export.card import model_card
from bert_keras.export.card.model_card import spread
from bert_keras.export.card.usage_examples import example_texts


def test_a_task_from_outside_the_project_has_examples_whatever_the_names_of_its_texts(monkeypatch):
    ability = dataclasses.replace(tasks.ability_of("classification"), texts=("title", "review"), route="review")
    monkeypatch.setattr(tasks, "_TASKS", {**tasks._TASKS, "reviews": ability})
    assert [*example_texts({"task": "reviews"})] == ["title", "review"]


@pytest.mark.parametrize(
    ("start", "shown"),
    [("/home/user/uncased_L-2_H-128_A-2/", "uncased_L-2_H-128_A-2"), ("hf://owner/name@v1", "hf://owner/name@v1")],
)
def test_the_start_of_the_training_is_a_name_without_folders(start, shown):
    run = {"settings": {"init_checkpoint": start}, "program": "run_classifier"}
    source = types.SimpleNamespace(run=run, settings={"step": 3})
    _, line, _ = model_card._making(source, {"Keras": "3"})
    assert line == f"`run_classifier.py`, step 3: init_checkpoint {shown}."


def test_the_data_that_a_share_was_held_out_of_are_those_of_training():
    files = {"train_file": "/a/train.csv", "eval_share": 0.2, "predict_file": "/a/new.csv"}
    (text,) = model_card._data({"settings": files, "facts": {}})
    assert text == "## Data\n\ntrained on `train.csv` (a share of 0.2 held out), predicted `new.csv`."


def test_the_spread_over_seeds_is_of_the_combination_with_the_best_median():
    tries = (
        "learning_rate\tseed\tf1\tstatus\n"
        "2e-05\t1\t0.5\tdone\n2e-05\t2\t0.7\tdone\n2e-05\t3\t0.6\tdone\n"
        "5e-05\t1\t0.1\tfailed: not above the baseline 0.2\n5e-05\t2\t0.9\tdone\n5e-05\t3\t\tnot finite\n"
    )
    assert spread(tries) == (
        "Median f1 of 3 seeds with learning_rate=2e-05: 0.6, from 0.5 to 0.7; this model is the best of them."
    )


def test_the_spread_of_seeds_alone():
    tries = "seed\taccuracy\tstatus\n1\t0.5\tdone\n2\t0.75\tdone\n"
    assert spread(tries).startswith("Median accuracy of 2 seeds: 0.625, from 0.5 to 0.75")


def test_one_seed_has_no_spread():
    assert spread("learning_rate\tf1\tstatus\n2e-05\t0.5\tdone\n5e-05\t0.7\tdone\n") is None
    assert spread("seed\tf1\tstatus\n") is None
