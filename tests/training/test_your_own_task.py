"""The example of docs/guides/your_own_task.md works as it is."""

import pathlib
import re

import pytest
from known_models import make_config, write_model

from bert_keras.modeling import PretrainingModel
from bert_keras.modeling.losses import Loss
from bert_keras.tasks.finetuning.task import Task

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guides" / "your_own_task.md"


@pytest.mark.slow
def test_the_program_in_the_docs_trains_evaluates_and_predicts(tmp_path):
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = {"__name__": "run_reviews"}
    exec(compile(program, "run_reviews.py", "exec"), names)
    start = write_model(tmp_path / "start", PretrainingModel(make_config(num_hidden_layers=1)))
    file = tmp_path / "reviews.txt"
    file.write_text("good\tshe was so hungry\nbad\the ate\n" * 4)
    flags = [f"--{action}_file={file}" for action in ("train", "eval", "predict")]
    flags += ["--do_eval", "--do_predict", f"--output_dir={tmp_path / 'run'}"]
    training = ["--do_train", f"--init_checkpoint={start}", "--max_seq_length=8", "--train_batch_size=4"]
    metrics = names["main"](["run_reviews.py", *flags, *training, "--num_train_epochs=20", "--learning_rate=0.01"])
    assert metrics == {"accuracy": 1.0}
    assert (tmp_path / "run" / "predictions.txt").read_text() == "good\nbad\n" * 4
    # The model alone gives the same answers.
    assert names["main"](["run_reviews.py", *flags]) == metrics


@pytest.mark.parametrize("name", ["facts", "files", "baseline", "own_weights", "weight_units"])
def test_tasks_share_no_dict(name):
    first, second = (Task(), Task()) if hasattr(Task, name) else (Loss(None), Loss(None))
    getattr(first, name)["x"] = 1
    assert (getattr(first, name), getattr(second, name)) == ({"x": 1}, {})
