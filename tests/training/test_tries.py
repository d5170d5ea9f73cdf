"""Several settings and seeds: the runs, their log, and the selected model."""

import gc
import os
import types

import pytest

from bert_keras.mistakes import NotFinite
from bert_keras.runs.run_dir import RunDir
from bert_keras.settings.groups import FineTuningSettings
from bert_keras.tasks.finetuning.sweep import list_tries, try_all

NOT_FINITE = NotFinite("the loss or its gradient is not finite in step 3; start again with a lower --learning_rate")


def make_settings(learning_rate=(0.1, 0.2), seed=5, num_seeds=3, **more):
    more = {"train_batch_size": (8,), "num_train_epochs": (2.0,), **more}
    return FineTuningSettings(learning_rate=learning_rate, seed=seed, num_seeds=num_seeds, **more)


class Task:
    """A stand-in for a task with a baseline of 0.5."""

    program = "run_made_up"
    metric = "f1"

    baseline = {"f1": 0.5, "accuracy": 0.9}


class Train:
    """A stand-in for training: writes the files of a run, and returns the metric of a learning rate and seed.

    Args:
        figures: dict of metric by learning rate and seed; None stops the run; an exception is raised.
    """

    def __init__(self, figures):
        self.figures = figures
        self.asked = []

    def __call__(self, settings, run_dir):
        place = settings.learning_rate, settings.seed
        self.asked.append(place)
        figure = self.figures[place]
        for name in ("checkpoint", "model.ckpt-6.index", "model.ckpt-6.data-00000-of-00001", "metrics.csv"):
            run_dir.write_text(name, str(place))
        if isinstance(figure, Exception):
            raise figure
        make_model(run_dir, str(place))
        return None if figure is None else types.SimpleNamespace(best=figure)


def make_model(run_dir, text):
    os.makedirs(run_dir.file("model"), exist_ok=True)
    run_dir.write_text("model/weights", text)


FIGURES = {(0.1, 5): 0.9, (0.1, 6): 0.4, (0.1, 7): 0.5, (0.2, 5): 0.7, (0.2, 6): 0.8, (0.2, 7): 0.3}


@pytest.fixture(autouse=True)
def _no_garbage(monkeypatch):
    """Searching for garbage after each try would take most of the time."""
    monkeypatch.setattr(gc, "collect", lambda: None)


@pytest.fixture
def run_dir(tmp_path):
    return RunDir(str(tmp_path), "run_made_up")


def try_them(run_dir, figures, settings=None):
    """Tries all settings, and returns the result of `try_all` and the trained ones."""
    settings = settings or make_settings()
    train = Train(figures)
    return try_all(list_tries(settings), settings, run_dir, Task(), train), train.asked


def folders(tmp_path):
    return sorted(path.name for path in (tmp_path / "tries").iterdir())


def test_every_combination_is_tried_with_every_seed():
    settings = make_settings((0.1, 0.2), seed=3, num_seeds=2, train_batch_size=(16, 32), num_train_epochs=(3.0,))
    assert list_tries(settings) == [
        {"learning_rate": rate, "train_batch_size": size, "num_train_epochs": 3.0, "seed": seed}
        for rate in (0.1, 0.2)
        for size in (16, 32)
        for seed in (3, 4)
    ]
    assert list_tries(make_settings((0.1,), num_seeds=1)) == [
        {"learning_rate": 0.1, "train_batch_size": 8, "num_train_epochs": 2.0, "seed": 5}
    ]


def test_the_best_seed_of_the_setting_with_the_best_median_is_taken(run_dir, tmp_path, messages):
    assert try_them(run_dir, FIGURES) == (True, list(FIGURES))
    # 0.1 has the best run of all, but its median of 0.5 is below the 0.7 of 0.2.
    assert (tmp_path / "model" / "weights").read_text() == "(0.2, 6)"
    assert (tmp_path / "tries.tsv").read_text().splitlines() == [
        "learning_rate\tseed\tf1\tstatus",
        "0.1\t5\t0.9\tdone",
        "0.1\t6\t0.4\tfailed: not above the baseline 0.5",
        "0.1\t7\t0.5\tfailed: not above the baseline 0.5",
        "0.2\t5\t0.7\tdone",
        "0.2\t6\t0.8\tdone",
        "0.2\t7\t0.3\tfailed: not above the baseline 0.5",
    ]
    assert messages[0] == "try 1 of 6: learning_rate=0.1, seed=5"
    assert messages[6:] == [
        "learning_rate=0.2: median f1 0.7 of 3 seeds, from 0.3 to 0.8; 1 failed, not above the baseline 0.5",
        "learning_rate=0.1: median f1 0.5 of 3 seeds, from 0.4 to 0.9; 2 failed, not above the baseline 0.5",
        "chosen: learning_rate=0.2, seed=6",
    ]


def test_seeds_alone_are_told_without_settings(run_dir, tmp_path, messages):
    try_them(run_dir, FIGURES, make_settings((0.2,)))
    assert (tmp_path / "tries.tsv").read_text().splitlines()[:2] == ["seed\tf1\tstatus", "5\t0.7\tdone"]
    assert messages[-2].startswith("median f1 0.7 of 3 seeds, from 0.3 to 0.8; 1 failed")
    assert messages[-1] == "chosen: seed=6"


def test_a_score_that_equals_the_baseline_is_not_above_it(run_dir, messages, monkeypatch):
    monkeypatch.setattr(Task, "baseline", {"f1": 52 / 99})
    try_them(run_dir, dict.fromkeys(FIGURES, 0.52525253), make_settings((0.2,)))  # with the digits of state.json
    assert messages[-2].endswith("; 3 failed, not above the baseline 0.5253")


def test_of_equals_the_first_is_taken(run_dir, tmp_path):
    try_them(run_dir, dict.fromkeys(FIGURES, 0.6))
    assert (tmp_path / "model" / "weights").read_text() == "(0.1, 5)"


def test_only_models_that_can_still_be_chosen_and_no_checkpoints_are_left(run_dir, tmp_path):
    try_them(run_dir, FIGURES)
    left = sorted(str(path.relative_to(tmp_path / "tries")) for path in tmp_path.glob("tries/*/model"))
    assert [name.split(",")[0] + "," + name.split(",")[-1] for name in left] == [
        "learning_rate=0.1,seed=5/model",
        "learning_rate=0.2,seed=6/model",
    ]
    assert not list(tmp_path.rglob("model.ckpt-*"))
    assert not list(tmp_path.rglob("checkpoint"))
    assert len(list(tmp_path.rglob("metrics.csv"))) == 6


def test_finished_tries_are_not_trained_again(run_dir, tmp_path):
    try_them(run_dir, FIGURES)
    before = (tmp_path / "tries.tsv").read_text()
    assert try_them(run_dir, {}) == (True, [])
    assert (tmp_path / "tries.tsv").read_text() == before
    assert (tmp_path / "model" / "weights").read_text() == "(0.2, 6)"


def test_a_command_that_was_asked_to_stop_goes_on_with_the_try_it_was_in(run_dir, tmp_path):
    stopped = {**FIGURES, (0.1, 7): None}
    assert try_them(run_dir, stopped) == (False, [(0.1, 5), (0.1, 6), (0.1, 7)])
    assert len((tmp_path / "tries.tsv").read_text().splitlines()) == 3  # the heading exists before the first result
    assert not (tmp_path / "model").exists()
    # The checkpoint to resume from still exists.
    assert len(list(tmp_path.rglob("model.ckpt-6.index"))) == 1
    assert try_them(run_dir, FIGURES) == (True, [(0.1, 7), (0.2, 5), (0.2, 6), (0.2, 7)])
    assert (tmp_path / "model" / "weights").read_text() == "(0.2, 6)"


def test_a_kill_after_a_result_leaves_no_checkpoints_for_good(run_dir, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(RunDir, "forget_checkpoints", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            try_them(run_dir, FIGURES)
    assert len(list(tmp_path.rglob("model.ckpt-6.index"))) == 1
    assert try_them(run_dir, FIGURES)[1] == list(FIGURES)[1:]
    assert not list(tmp_path.rglob("model.ckpt-*"))


def test_tries_of_other_settings_in_the_same_folder_are_not_taken_for_these(run_dir, tmp_path):
    try_them(run_dir, FIGURES, make_settings((0.1,)))
    _, asked = try_them(run_dir, FIGURES, make_settings((0.2,)))
    assert asked == [(0.2, 5), (0.2, 6), (0.2, 7)]
    assert (tmp_path / "model" / "weights").read_text() == "(0.2, 6)"
    # A larger sweep reuses the existing tries.
    assert try_them(run_dir, FIGURES, make_settings((0.1, 0.2))) == (True, [])
    _, asked = try_them(run_dir, {**FIGURES, (0.2, 8): 0.95}, make_settings((0.2,), num_seeds=4))
    assert asked == [(0.2, 8)]
    assert (tmp_path / "model" / "weights").read_text() == "(0.2, 8)"
    assert len(folders(tmp_path)) == 7


def test_a_try_that_is_not_finite_is_counted_as_the_worst(run_dir, tmp_path, messages):
    figures = {**FIGURES, (0.2, 5): NOT_FINITE}
    try_them(run_dir, figures)
    assert f"0.2\t5\t\t{NOT_FINITE}" in (tmp_path / "tries.tsv").read_text().splitlines()
    assert f"this try failed: {NOT_FINITE}" in messages
    # 0.2 has -inf, 0.3 and now 0.8.
    assert (tmp_path / "model" / "weights").read_text() == "(0.1, 5)"
    assert try_them(run_dir, {}) == (True, [])


def test_nothing_is_taken_where_all_failed(run_dir, tmp_path):
    with pytest.raises(ValueError, match=r"all 6 tries failed, see .*tries.tsv; the loss or its gradient is not fin"):
        try_them(run_dir, dict.fromkeys(FIGURES, NOT_FINITE))
    assert not (tmp_path / "model").exists()


def test_other_mistakes_end_the_command(run_dir):
    with pytest.raises(ValueError, match="the device's memory does not hold a batch"):
        try_them(run_dir, {**FIGURES, (0.1, 6): ValueError("the device's memory does not hold a batch")})


def test_a_model_that_was_there_is_replaced_as_a_whole(run_dir, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").write_text("old")
    try_them(run_dir, FIGURES)
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["weights"]
    assert not list(tmp_path.glob(".model*"))


def test_a_kill_while_the_model_is_taken_is_made_up_for(run_dir, tmp_path, monkeypatch):
    try_them(run_dir, FIGURES)
    replace = os.replace

    def killing(source, target):
        if str(target).endswith("/model"):
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killing)
        with pytest.raises(KeyboardInterrupt):
            try_them(run_dir, FIGURES)
    assert try_them(run_dir, FIGURES) == (True, [])
    assert (tmp_path / "model" / "weights").read_text() == "(0.2, 6)"
