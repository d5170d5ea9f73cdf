"""The duties of the `Ability` of every task: a new task has these tests without a line here."""

import dataclasses
import subprocess
import sys

import pytest

from bert_keras import tasks
from bert_keras.modeling.checkpoints.hugging_face_task import TASKS_OF_PRETRAINING
from bert_keras.tasks.graph.text_model import TextModel
from bert_keras.tasks.predictor import TaskPredictor
from bert_keras.tasks.reports.commands import example_texts


@pytest.mark.parametrize("task", tasks.abilities())
class TestEveryTask:
    def test_its_classes_fit_together(self, task):
        ability, predictor, answer = tasks.ability_of(task), tasks.predictor_of(task), tasks.answer_of(task)
        assert issubclass(predictor, TaskPredictor)
        assert predictor.is_for(task)
        assert dataclasses.is_dataclass(answer)
        assert callable(answer.readable)
        graph = tasks.graph_of(task)
        assert issubclass(graph, TextModel) if ability.is_exported else graph is None

    def test_it_is_opened_from_a_folder_or_a_checkpoint(self, task):
        ability, predictor = tasks.ability_of(task), tasks.predictor_of(task)
        assert ability.is_fine_tuned or ability.is_pretrained
        assert (task in TASKS_OF_PRETRAINING) is not ability.is_fine_tuned
        assert hasattr(predictor, "open_pretrained") or not ability.is_pretrained
        assert ability.purpose or not ability.is_exported

    def test_its_commands_have_example_texts(self, task):
        texts = example_texts(task)
        assert len(texts) == len({*texts})
        assert not [text for text in texts if text.startswith(("your one", "your another"))]

    def test_a_program_that_needs_one_task_loads_no_other(self, task):
        code = f"import sys; from bert_keras import tasks; tasks.ability_of({task!r}); print(*sys.modules)"
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        folder = f"bert_keras.tasks.{tasks._TASKS[task]}"
        below = {name for name in loaded if name.startswith("bert_keras.tasks.")}
        assert below == {"bert_keras.tasks.ability", folder}
        assert not {"tensorflow", "keras", "numpy"} & {*loaded}


@pytest.mark.parametrize("name", ["made_up", "tables", "classification.graph", "..model_folder"])
def test_only_the_table_names_modules(name):
    with pytest.raises(KeyError):
        tasks.ability_of(name)
