"""Tasks share nothing; the log reports an evaluation that is not better than the baseline, with what may help."""

import types

import pytest

from bert_keras.mistakes import flag_name
from bert_keras.modeling.losses import Loss
from bert_keras.tasks.few_shot.run import FewShot
from bert_keras.tasks.finetuning.task import Task


def made(metric, baseline_name="", kind=Task):
    task = kind.__new__(kind)
    task.metric, task.baseline_name = metric, baseline_name
    return task


def settings_of(**changes):
    values = {"do_train": True, "max_steps": 0, "num_train_epochs": (3.0,), "learning_rate": (5e-5,), "num_seeds": 1}
    return types.SimpleNamespace(**values | {"contrastive_epochs": 1} | changes)


@pytest.mark.parametrize(
    ("metric", "metrics", "baseline", "is_told"),
    [
        ("accuracy", {"accuracy": 0.362, "loss": 1.0}, {"accuracy": 0.362}, True),
        ("accuracy", {"accuracy": 0.363}, {"accuracy": 0.362}, False),
        ("f1", {"f1": 0.0, "accuracy": 0.9}, {"f1": 0.0, "accuracy": 0.8}, True),
        ("f1", {"f1": 0.1, "accuracy": 0.7}, {"f1": 0.0, "accuracy": 0.8}, False),
        ("best_f1", {"best_f1": 50.06}, {"best_f1": 50.07}, True),
        ("mrr_at_10", {"mrr_at_10": 0.1}, {}, False),
        # A constant has no correlation, so the errors are compared.
        ("spearman", {"spearman": 0.1, "mae": 1.0, "rmse": 1.3}, {"mae": 0.9, "rmse": 1.2}, True),
        ("spearman", {"spearman": 0.9, "mae": 0.2, "rmse": 0.3}, {"mae": 0.9, "rmse": 1.2}, False),
        ("accuracy", {"accuracy": float("nan")}, {"accuracy": 0.1}, True),
    ],
)
def test_what_is_not_better_than_the_baseline_is_told(metric, metrics, baseline, is_told):
    assert bool(made(metric).shortfall(metrics, baseline, settings_of())) == is_told


START = "accuracy 36.2 % is not better than the baseline (most frequent class), 36.2 %: the model is of no use yet. "
START += "Train again in another --output_dir; try "


@pytest.mark.parametrize(
    ("kind", "changes", "remedies"),
    [
        (
            Task,
            {},
            "a lower --learning_rate (here 5e-05), more --num_train_epochs (here 3), several seeds (--num_seeds=5)",
        ),
        (
            Task,
            {"num_seeds": 3, "learning_rate": (1e-4, 2e-5), "max_steps": 40},
            "a lower --learning_rate (here 0.0001, 2e-05), more --max_steps (here 40)",
        ),
        (
            Task,
            {"do_train": False},
            "a lower --learning_rate, more --num_train_epochs, several seeds (--num_seeds=5)",
        ),
        (
            FewShot,
            {},
            "more examples of each class, more --contrastive_epochs (here 1), another encoder (--init_checkpoint)",
        ),
    ],
)
def test_the_remedies_are_settings_of_the_run(kind, changes, remedies):
    task, values = made("accuracy", "most frequent class", kind), {"accuracy": 0.3616}
    message = task.shortfall(values, values, settings_of(**changes))
    assert message.spelled(flag_name) == START + remedies


@pytest.mark.parametrize("name", ["facts", "files", "baseline", "own_weights", "weight_units"])
def test_tasks_share_no_dict(name):
    first, second = (Task(), Task()) if hasattr(Task, name) else (Loss(None), Loss(None))
    getattr(first, name)["x"] = 1
    assert (getattr(first, name), getattr(second, name)) == ({"x": 1}, {})
