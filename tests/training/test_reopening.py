"""Matching a model to its run: only the run that wrote a model provides its settings and metrics."""

import json
import shutil

import numpy as np
import pytest

from bert_keras.export.run_folder import read_run
from bert_keras.modeling import save_checkpoint
from bert_keras.runs.run_dir import RunDir
from bert_keras.tasks.finetuning.model_dir import note_model


def write_run(folder, value, **settings):
    """Writes the files of a fine-tuning run that `read_run` reads. Returns the folder of its model."""
    run_dir = RunDir(str(folder), "run_classifier")
    run_dir.claim(settings, {}, ())
    save_checkpoint(folder / "model" / "model.ckpt-7", {"output_bias": np.full(2, value, np.float32)})
    (folder / "model" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    note_model(run_dir)
    run_dir.write_text("evaluation.json", json.dumps({"step": 7, "metrics": {"accuracy": value}, "baseline": {}}))
    run_dir.write_text("tries.tsv", "seed\taccuracy\tstatus\n")
    return str(folder / "model")


def test_a_model_in_the_folder_of_its_run(tmp_path):
    run = read_run(write_run(tmp_path / "news", 0.5, seed=3), 7)
    assert (run["program"], run["settings"], run["folder"]) == ("run_classifier", {"seed": 3}, str(tmp_path / "news"))
    assert run["evaluation"]["metrics"] == {"accuracy": 0.5}
    assert run["tries"] == "seed\taccuracy\tstatus\n"


def test_a_model_gets_nothing_of_a_run_that_did_not_write_it(tmp_path, messages):
    model = write_run(tmp_path / "news", 0.5)
    other = write_run(tmp_path / "other", 0.75)
    shutil.rmtree(other)
    shutil.copytree(model, other)
    assert read_run(other, 7) is None
    assert messages[-1].startswith(f"ignoring {tmp_path}/other/run_config.json: nothing shows that this run wrote")
    # A folder that no run wrote.
    shutil.copytree(model, tmp_path / "elsewhere" / "model")
    assert read_run(str(tmp_path / "elsewhere" / "model"), 7) is None


def test_a_run_without_a_digest_is_not_trusted(tmp_path, messages):
    model = write_run(tmp_path / "news", 0.5)
    (tmp_path / "news" / "model.sha256").unlink()
    assert read_run(model, 7) is None
    assert messages[-1].endswith(
        "; if it did, run its command again with the same flags, which records the model without more training"
    )


@pytest.mark.parametrize("name", ["evaluation.json", "tries.tsv"])
def test_a_run_without_a_report(tmp_path, name):
    model = write_run(tmp_path / "news", 0.5)
    (tmp_path / "news" / name).unlink()
    assert read_run(model, 7)[name.partition(".")[0]] is None


def test_figures_of_another_step_are_left_out(tmp_path):
    assert read_run(write_run(tmp_path / "news", 0.5), 9)["evaluation"] is None
