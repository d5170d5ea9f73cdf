"""Models in numbered folders: which one answers, and when the others close."""

import gc
import json
import re
import shutil
import threading
import weakref

import extra_serve  # noqa: F401
import numpy as np
import pytest
import requests
from fine_tuned_models import OF_TEXTS, fixed_classifier, random_classifier, write_fine_tuned
from running_server import serving, wait_until

from bert_keras.modeling import weights_by_name
from bert_keras.prediction.arguments import Limits
from bert_keras.serving import versions
from bert_keras.serving.metrics import Metrics
from bert_keras.serving.versions import open_folders

# Models with one number that is not finite: its weight and its value.
BROKEN = {
    "nan": ("output_bias", np.nan),
    "infinite": ("output_weights", np.inf),
    "rare": ("bert/embeddings/word_embeddings", np.nan),
    "far": ("bert/embeddings/position_embeddings", -np.inf),
    "huge": ("bert/embeddings/LayerNorm/gamma", 3e38),  # finite, but not its results
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Runs of a classifier whose version 1 answers with the label 1, and so on; one of another task; a broken one."""
    folder = tmp_path_factory.mktemp("written")
    for number in (1, 2, 3):
        logits = [float(label == number) for label in (1, 2, 3)]
        write_fine_tuned(
            folder / str(number), fixed_classifier(*logits), "classification", **OF_TEXTS, labels=["1", "2", "3"]
        )
    write_fine_tuned(folder / "other", random_classifier(1, num_hidden_layers=1), "regression", **OF_TEXTS)
    shutil.copytree(folder / "3", folder / "broken")
    (folder / "broken" / "model" / "vocab.txt").unlink()
    for name, (weight, value) in BROKEN.items():
        model = fixed_classifier(0.0, 0.0, 1.0)
        values = np.array(weights_by_name(model)[weight])
        values.flat[-1] = value
        weights_by_name(model)[weight].assign(values)
        write_fine_tuned(folder / name, model, "classification", **OF_TEXTS, labels=["1", "2", "3"])
    return folder


@pytest.fixture
def add(written, tmp_path):
    """Return a function that adds a version, a copy of one of the runs, as a server needs it: complete at once."""

    def copy(number, name=None):
        shutil.copytree(written / (name or str(number)), tmp_path / ".new")
        (tmp_path / ".new").rename(tmp_path / str(number))

    return copy


@pytest.fixture
def opened(add, tmp_path):
    add(1)
    [model] = open_folders({"news": str(tmp_path)}, (), Limits())
    start(model.models[0])
    yield model
    model.stop()
    for each in model.models:
        each.stop()


def start(model):
    model.start(64, 0.0, Metrics())


def label_of(versioned):
    [model] = versioned.models
    with model.in_use():
        [answer] = model.answers(["paris"], {})
    return answer["label"]


def test_a_new_version_replaces_the_old_one_whose_memory_is_freed(opened, add):
    assert (opened.number, label_of(opened)) == (1, "1")
    [old] = opened.models
    things = [weakref.ref(each) for each in (old, old.predictor, old.predictor.model, old.predictor.network._network)]
    del old
    add(3)
    opened.update(start)
    assert (opened.number, label_of(opened)) == (3, "3")
    gc.collect()
    assert [thing() for thing in things] == [None] * 4
    add(2)  # an older one
    opened.update(start)
    assert opened.number == 3


def test_a_request_keeps_the_version_that_it_began_with(opened, add):
    add(2)
    [old] = opened.models
    with old.in_use() as is_open:
        assert is_open
        changing = threading.Thread(target=opened.update, args=(start,))
        changing.start()
        wait_until(lambda: opened.number == 2)
        [answer] = old.answers(["paris"], {})
        assert answer["label"] == "1"
        assert changing.is_alive()
    changing.join()
    with old.in_use() as is_open:
        assert not is_open


def test_without_the_newest_version_the_one_before_answers(opened, add, tmp_path):
    add(3)
    opened.update(start)
    assert opened.number == 3
    shutil.rmtree(tmp_path / "3")
    opened.update(start)
    assert (opened.number, label_of(opened)) == (1, "1")
    shutil.rmtree(tmp_path / "1")
    opened.update(start)
    assert label_of(opened) == "1"


def test_a_version_that_fails_is_tried_again_when_its_files_change_and_after_a_while(
    opened, add, written, tmp_path, messages, monkeypatch
):
    tried = []
    opening = opened._open
    opened._open = lambda folder: (tried.append(folder[-1]), opening(folder))[1]
    add(2)
    add(3, "broken")
    opened.update(start)
    assert (opened.number, tried) == (2, ["3", "2"])
    assert any("version 3 cannot be served: " in line and "vocab.txt" in line for line in messages)
    opened.update(start)
    assert tried == ["3", "2"]
    monkeypatch.setattr(versions, "_SECONDS_UNTIL_RETRY", 0.0)
    opened.update(start)
    assert tried == ["3", "2", "3"]
    monkeypatch.undo()
    shutil.copy(written / "3" / "model" / "vocab.txt", tmp_path / "3" / "model" / "vocab.txt")
    opened.update(start)
    assert (opened.number, label_of(opened)) == (3, "3")


def test_a_version_for_another_task_is_not_served(opened, add, messages):
    add(2, "other")
    opened.update(start)
    assert (opened.number, label_of(opened)) == (1, "1")
    assert any("its tasks are regression, but those of version 1 are classification" in line for line in messages)


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize("name", BROKEN)
def test_a_version_whose_numbers_are_not_finite_is_not_served(opened, add, messages, name):
    add(2, name)
    opened.update(start)
    assert (opened.number, label_of(opened)) == (1, "1")
    assert re.search("not finite numbers", opened.failed[2])
    assert any("version 2 cannot be served: " in line for line in messages)
    add(3)
    opened.update(start)
    assert (opened.number, opened.failed, label_of(opened)) == (3, {2: opened.failed[2]}, "3")


def write_canary(folder, *lines):
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    (folder / "canary.jsonl").write_text(text)


def line(answer, **fields):
    return {"request": {"text": "paris"}, "answer": answer, **fields}


# Lines, and what is wrong with them.
CANARIES = [
    ([line({"label": "2"})], None),
    ([line({"probabilities": {"2": 0.575}}), line({"probabilities": {"1": 0.3}}, tolerance=0.1)], None),
    ([{"request": {"text": "he", "top_k": 1, "why": True}, "answer": {"words": [{"word": "he", "weight": 0}]}}], None),
    ([line({"label": "1"})], 'line 1: the answer.label is "2", but "1" is expected'),
    (
        [line({}), line({"probabilities": {"2": 0.6}})],
        r"line 2: the answer.probabilities.2 is 0.576\d+, but 0.6 is .* 0.01",
    ),
    ([line({"probabilities": {"2": 0.6}}, tolerance=0.0)], "within 0"),
    ([line({"labels": ["2"]})], 'the answer has no "labels"; its fields are "text"'),
    ([line({"words": []})], 'the answer has no "words"'),
    ([line({"is_cut": 0})], "the answer.is_cut is false, but 0 is expected"),
    ([{"request": {"text": "he", "why": True}, "answer": {"words": []}}], r"the answer.words is \[.*, but \[\] is exp"),
    ([{"request": {"txt": "he"}, "answer": {}}], '"txt" is not a field of "request"; do you mean "text"'),
    ([{"request": {"text": " "}, "answer": {}}], "the request has no word in its text"),
    ([{"request": {"text": "he"}}], '"answer" is missing'),
    ([line({}, task="vectors")], '"task" is "vectors", but must be "classification"'),
    (["label: 2\n"], "line 1: this is not valid JSON"),
    ([""], "is empty"),
]


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize(("lines", "problem"), CANARIES)
def test_a_version_is_served_if_it_meets_its_canary(opened, written, tmp_path, lines, problem):
    shutil.copytree(written / "2", tmp_path / ".new")
    write_canary(tmp_path / ".new", *lines)
    (tmp_path / ".new").rename(tmp_path / "2")
    opened.update(start)
    if problem is None:
        assert (opened.number, opened.failed) == (2, {})
        return
    assert opened.number == 1
    assert re.search(problem, opened.failed[2]), opened.failed
    assert "2/canary.jsonl" in opened.failed[2]


def test_at_its_start_a_server_takes_the_newest_version_that_works(add, tmp_path, messages):
    add(1)
    add(2)
    write_canary(tmp_path / "2", line({"label": "1"}))
    add(3, "nan")
    add(4, "broken")
    with serving(open_folders({"news": str(tmp_path)}, (), Limits())) as server:
        [found] = requests.post(f"{server.url}/v1/classify", json={"text": "paris"}, timeout=60).json()["answers"]
        [model] = requests.get(f"{server.url}/models", timeout=60).json()["models"]
        metrics = requests.get(f"{server.url}/metrics", timeout=60).text
        ready = requests.get(f"{server.url}/readyz", timeout=60)
    assert (found["label"], model["version"], ready.status_code) == ("1", 1, 200)
    assert [*model["failed_versions"]] == ["4", "3", "2"]
    assert 'bert_failed_versions{model="news"} 3.0' in metrics
    assert len([message for message in messages if "cannot be served" in message]) == 3


@pytest.mark.parametrize("is_versioned", [True, False])
def test_without_a_version_that_works_a_server_is_not_ready(add, written, tmp_path, is_versioned):
    if is_versioned:
        add(1, "infinite")
    folder = tmp_path if is_versioned else written / "infinite"
    with serving(open_folders({"news": str(folder)}, (), Limits()), is_ready=False) as server:
        wait_until(lambda: server.failure)
        ready, alive = (requests.get(f"{server.url}/{path}", timeout=60) for path in ("readyz", "livez"))
        asked = requests.post(f"{server.url}/v1/classify", json={"text": "paris"}, timeout=60)
    assert [each.status_code for each in (ready, alive, asked)] == [503, 500, 503]
    assert "the weight " in ready.text
    assert "not finite numbers" in asked.json()["error"]


def test_an_error_while_listing_does_not_end_the_search(opened, add, messages, monkeypatch):
    listing, calls = versions.numbered_folders, []

    def fail_thrice(folder):
        calls.append(folder)
        if len(calls) < 4:
            raise PermissionError("the disk does not answer")
        return listing(folder)

    monkeypatch.setattr(versions, "numbered_folders", fail_thrice)
    add(2)
    opened.watch(0.01, start)
    wait_until(lambda: opened.number == 2)
    assert [line for line in messages if "cannot be listed: the disk does not answer" in line] == messages[:1]


def test_a_server_changes_to_a_new_version(add, tmp_path, monkeypatch):
    monkeypatch.setattr("bert_keras.serving.app._SECONDS_BETWEEN_LOOKS", 0.02)
    add(1)
    with serving(open_folders({"news": str(tmp_path)}, (), Limits())) as server:

        def answer():
            [found] = requests.post(f"{server.url}/v1/classify", json={"text": "paris"}, timeout=60).json()["answers"]
            [model] = requests.get(f"{server.url}/models", timeout=60).json()["models"]
            return found["label"], model["version"]

        assert answer() == ("1", 1)
        add(2)
        wait_until(lambda: answer() == ("2", 2))


@pytest.mark.parametrize("task", ["fill_mask", "multi_label"])
def test_a_task_that_no_model_has_is_refused(written, task):
    with pytest.raises(ValueError, match=f"^task={task}, but the models are for classification; leave it out$"):
        open_folders({"a": str(written / "1")}, (task,), Limits())


def test_a_saved_model_alone_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "1"):
        folder.mkdir(exist_ok=True)
        (folder / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match=r"is only a SavedModel; .* with TensorFlow Serving"):
        open_folders({"a": str(tmp_path)}, (), Limits())
    (tmp_path / "saved_model.pb").unlink()
    with pytest.raises(ValueError, match="1 is only a SavedModel"):
        open_folders({"a": str(tmp_path)}, (), Limits())
