"""The example for experiment trackers in docs/guides/train_from_python.md, with the tracker itself."""

import pathlib
import warnings

import pytest
from blocks import blocks_of
from tiny_classes import write_start, write_texts

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_graphs")]


def test_mlflow_gets_metrics_settings_and_the_model(monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    write_start(tmp_path / "minilm")
    write_texts(tmp_path / "train.csv", 40, 1)
    write_texts(tmp_path / "eval.csv", 10, 2)
    blocks = [block for block in blocks_of("docs/guides/train_from_python.md") if "import mlflow\n" in block.text]
    [block] = [block for block in blocks if block.kind == "python"]
    code = block.text.replace('init_checkpoint="minilm"', 'init_checkpoint="minilm", max_seq_length=12, log_steps=1')
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the tracker
        exec(compile(f"from bert_keras import train_classifier\n{code}", block.place, "exec"), names)
    trained = names["shop"]
    (run,) = mlflow.MlflowClient().search_runs(["0"])
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
    expected = {row["step"]: row["loss"] for row in trained.history if row["split"] == "train"}
    assert {metric.step: metric.value for metric in history} == pytest.approx(expected, rel=1e-6)
    assert run.data.metrics["eval_accuracy"] == pytest.approx(trained.metrics["accuracy"])
    assert run.data.params["train_file"] == str(tmp_path / "train.csv")
    artifacts = pathlib.Path(run.info.artifact_uri.removeprefix("file://")) / "model"
    assert (artifacts / "task.json").exists()
