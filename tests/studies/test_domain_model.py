"""More pre-training on a domain's text: the new model, the comparison, and a run that continues."""

import pathlib

import numpy as np
import pytest
from known_models import random_model, write_model

from bert_keras import train_classifier
from bert_keras.modeling import open_checkpoint
from studies import domain_model
from studies.runner import domain

TEXT = "he was hungry .\nshe walks .\n\nshe is so hungry .\nhe walked .\n\nparis is the capital .\n" * 4
ROWS = [(f"{word} was hungry", kind) for word, kind in (("he", "one"), ("she", "two"), ("paris", "two"))] * 4


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "start", random_model(1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    (tmp_path / "text.txt").write_text(TEXT)
    for name, rows in (("train", ROWS), ("eval", ROWS[:5])):
        lines = "".join(f"{text},{label}\n" for text, label in rows)
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{lines}")


SIZES = "--max_seq_length=12", "--train_batch_size=4", "--num_train_steps=3", "--num_train_epochs=1", "--num_seeds=2"
FLAGS = "--init_checkpoint=start", "--input_file=text.txt", "--train_file=train.csv", "--eval_file=eval.csv", *SIZES


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_the_report_has_the_accuracies_of_fine_tuned_models(files, tmp_path, monkeypatch, capsys):
    trained = []
    monkeypatch.setattr(
        domain, "train_classifier", lambda *a, **k: trained.append(k["seed"]) or train_classifier(*a, **k)
    )
    domain_model.main(["domain_model.py", *FLAGS, "--output_dir=out"])
    report = (tmp_path / "out" / "report.md").read_text()
    assert capsys.readouterr().out.endswith(report)
    assert trained == [0, 1, 0, 1]
    before, after = open_checkpoint("start"), open_checkpoint("out/model")
    assert not np.array_equal(*(model.read("bert/embeddings/word_embeddings") for model in (before, after)))
    for name, model in (("as given", "start"), ("after more pre-training", "out/model")):
        right = 0
        for seed in range(2):
            run = train_classifier(
                ROWS,
                None,
                [text for text, _ in ROWS[:5]],
                output_dir=tmp_path / f"{name}{seed}",
                init_checkpoint=model,
                seed=seed,
                max_seq_length=12,
                train_batch_size=4,
                num_train_epochs=1,
                learning_rate=5e-5,
                pack=True,
                verbose=False,
            )
            right += sum(row["prediction"] == label for row, (_, label) in zip(run.predictions, ROWS, strict=False))
        assert f"| {name} | {100 * right / 10:.1f} [" in report
    # What exists is not computed again.
    domain_model.main(["domain_model.py", *FLAGS, "--output_dir=out"])
    assert capsys.readouterr().out.endswith(report)
    assert len(trained) == 4


def test_mistakes_are_told_before_anything_is_trained(files):
    with pytest.raises(ValueError, match="^missing: eval_file "):
        domain_model.main(["domain_model.py", *(flag for flag in FLAGS if "eval_file" not in flag)])
    with pytest.raises(FileNotFoundError, match=r"gone\.csv"):
        domain_model.main(["domain_model.py", *FLAGS, "--eval_file=gone.csv"])
    with pytest.raises(FileNotFoundError, match=r'^input_file: "gone\.txt" matches no file'):
        domain_model.main(["domain_model.py", *FLAGS, "--input_file=gone.txt"])
    for name, rows, message in (
        (
            "eval",
            [("a", "three")],
            '^eval.csv has the class "three", which train.csv does not have; correct it, or add',
        ),
        ("train", [("a", "one"), ("b", "one")], '^train.csv has only the class "one"; give texts of two or more$'),
    ):
        pathlib.Path(f"{name}.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
        with pytest.raises(ValueError, match=message):
            domain_model.main(["domain_model.py", *FLAGS])
    assert not pathlib.Path("domain_model").exists()
