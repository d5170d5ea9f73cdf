"""The program from flags to files, on sentences whose words determine the tags."""

import json
import random
import re

import keras
import numpy as np
import pytest
import tiny_classes
from known_models import TOKENS, make_config, write_model
from training_programs import run_ner
from training_runs import results_in

from bert_keras.cli.flags import run_main
from bert_keras.modeling import PretrainingModel, open_checkpoint
from bert_keras.tasks.tagging.task import TokenClassification

TAG_OF = {"paris": "B-LOC", "london": "B-LOC", "france": "B-LOC", "he": "B-PER", "she": "B-PER"}
WORDS = [*TAG_OF, "is", "the", "was", "walking", "so", "capital"]


def sentences(num_sentences, seed):
    """Makes sentences of tagged words as lists of pairs."""
    draw = random.Random(seed)
    drawn = [[draw.choice(WORDS) for _ in range(draw.randint(3, 9))] for _ in range(num_sentences)]
    return [[(word, TAG_OF.get(word, "O")) for word in words] for words in drawn]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A folder with train.txt, dev.txt and test.txt in columns."""
    folder = tmp_path_factory.mktemp("ner")
    for seed, (name, count) in enumerate({"train": 64, "dev": 16, "test": 8}.items()):
        rows = ("\n".join(f"{word} x {tag}" for word, tag in sentence) for sentence in sentences(count, seed))
        (folder / f"{name}.txt").write_text("-DOCSTART- x O\n\n" + "\n\n".join(rows) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """An untrained model."""
    keras.utils.set_random_seed(1)
    model = PretrainingModel(make_config(hidden_size=16, hidden_act="gelu"))
    return write_model(tmp_path_factory.mktemp("start"), model, ["\ufeff" + TOKENS[0], *TOKENS[1:]])


@pytest.fixture
def run(tmp_path, data_dir, start):
    """Return a function of flag changes, None to omit a flag, that runs the program."""

    def run(*actions, **changes):
        given = {
            "data_dir": data_dir,
            "init_checkpoint": start,
            "output_dir": tmp_path / "out",
            "max_seq_length": 16,
            "train_batch_size": 8,
            "num_train_epochs": 20,
            "learning_rate": 0.003,
        } | changes
        return tiny_classes.run(given, *actions, program=run_ner)

    return run


def test_training_learns_the_tags_and_leaves_what_it_promises(run, data_dir, tmp_path, capsys):
    metrics = run("do_train", "do_eval", "do_predict", do_lower_case=True)
    out = tmp_path / "out"
    assert metrics == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "accuracy": 1.0}
    results = results_in(out)
    assert {name: float(results[f"eval_{name}"]) for name in metrics} == metrics
    assert re.search(r"^LOC +1\.0000 ", (out / "entity_report.txt").read_text(), re.MULTILINE)

    given = (data_dir / "test.txt").read_text().splitlines()
    predicted = (out / "predictions.txt").read_text().splitlines()
    assert predicted == [f"{line} {line.split()[-1]}" if line else "" for line in given]
    assert results_in(out, "predict_results.txt")["f1"] == "1.000000"

    task = json.loads((out / "model" / "task.json").read_text())
    assert task["task"] == "token_classification"
    assert task["labels"] == ["O", "B-LOC", "B-PER", "I-LOC", "I-PER"]
    assert (task["document_context"], task["max_seq_length"]) == (False, 16)
    assert open_checkpoint(out / "model").shape("output_weights") == (5, 16)
    shown = capsys.readouterr().out
    assert "train.txt: 64 sentences" in shown
    assert json.loads((out / "evaluation.json").read_text())["data"]["source"] == f"{data_dir}/dev.txt"
    assert "tags: O, B-LOC, B-PER, I-LOC, I-PER" in shown

    # Only the model, from its folder: other data, in the other format.
    lines = [{"words": [word for word, _ in sentence]} for sentence in sentences(5, seed=9)]
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, lines)))
    changes = dict.fromkeys(("data_dir", "init_checkpoint", "max_seq_length", "train_batch_size", "num_train_epochs"))
    run("do_predict", **changes, predict_file=tmp_path / "new.jsonl", learning_rate=None)
    rows = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    assert [row["predicted_tags"] for row in rows] == [
        [tag for _, tag in sentence] for sentence in sentences(5, seed=9)
    ]
    assert min(min(row["confidences"]) for row in rows) > 0.5
    changes |= {"data_dir": data_dir, "init_checkpoint": out}
    other = run("do_eval", **changes, learning_rate=None, output_dir=tmp_path / "other")
    assert other == metrics


@pytest.mark.usefixtures("no_graphs")
def test_an_encoder_that_the_task_freezes_stays_as_it_is(run, start, tmp_path, monkeypatch):
    monkeypatch.setattr(TokenClassification, "frozen", ("bert/",))
    with pytest.raises(ValueError, match="^layer_decay does not apply: this task leaves the encoder as it is"):
        run("do_train", layer_decay=0.9)
    run("do_train", learning_rate=0.01, num_train_epochs=1)
    before, after = open_checkpoint(start), open_checkpoint(tmp_path / "out" / "model")
    names = [name for name in after.names if name.startswith("bert/")]
    assert len(names) == 23
    for name in names:
        np.testing.assert_array_equal(after.read(name), before.read(name), err_msg=name)


@pytest.mark.parametrize(
    ("actions", "changes", "message"),
    [
        (["do_train"], {"data_dir": None}, "^do_train needs train_file, or data_dir with a train.txt$"),
        (["do_predict"], {"data_dir": None}, "^do_predict needs predict_file, or data_dir with a test.txt$"),
        (
            ["do_train"],
            {"tag_column": 1, "train_file": "a.jsonl"},
            "^tag_column does not apply: .*a.jsonl has no columns, but JSON; leave it out$",
        ),
        (
            ["do_train"],
            {"lora_rank": 2, "freeze_layers": 1},
            "^lora_rank does not apply: freeze_layers=. freez",
        ),
        (
            ["do_train"],
            {"lora_rank": 2, "freeze_layers": 0},
            "^freeze_layers does not apply: lora_rank freezes the em",
        ),
    ],
)
def test_mistakes_are_one_sentence(run, actions, changes, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run(*actions, **changes)


def test_a_mistake_is_one_line_and_nothing_is_written(data_dir, start, tmp_path, capsys):
    (tmp_path / "dev.txt").write_text("he B-PER\nis O\n\nparis B-ORG\n")
    flags = [f"--data_dir={data_dir}", f"--eval_file={tmp_path}/dev.txt", f"--init_checkpoint={start}"]
    flags += [f"--output_dir={tmp_path / 'out'}", "--max_seq_length=16"]
    assert run_main(run_ner.main, ["run_ner.py", "--do_train", "--do_eval", *flags]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert 'dev.txt line 4: the tag "B-ORG" is not one of those of training (O, B-LOC' in line
    assert not (tmp_path / "out").exists()
