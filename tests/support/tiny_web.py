"""Tiny models as web folders, and their answers in Node compared with Python."""

import copy
import json
import shutil
from unittest import mock

import pytest
from fine_tuned_models import FINE_TUNED, write_fine_tuned
from known_models import write_model
from tiny_exports import PRETRAINED, converters_in_this_process

from bert_keras.export.api import export_model
from bert_keras.export.checks.comparison import compare_answers
from bert_keras.export.checks.web_check import answers_in_node, answers_of_python
from bert_keras.export.formats.web_runtime import cached_package
from bert_keras.prediction import open_model


def runtime_package():
    """Returns the package of ONNX Runtime Web in the cache, or skips the test."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    if not cached_package().is_file():
        pytest.skip(f"{cached_package()} does not exist; export any model with --format=web once")
    return cached_package()


class Web:
    """A model in Python, `live`, and the web folder of the same weights in float32."""

    def __init__(self, live, folder):
        self.live, self.folder = live, folder

    def changed(self, folder, **settings):
        """Returns the same model with other settings, in a new folder."""
        live = copy.copy(self.live)
        live.settings = {**self.live.settings, **settings}
        shutil.copytree(self.folder, folder)
        described = json.loads((folder / "model.json").read_text())
        described["settings"] |= settings
        (folder / "model.json").write_text(json.dumps(described))
        return Web(live, folder)

    def check(self, *items, **options):
        """Compares the answers of Python and JavaScript, and returns them; an error is a str."""
        expected = answers_of_python(self.live, items, **options)
        found = answers_in_node(self.folder, items, **options)
        assert compare_answers("text {}", expected, found, ranked=self.live.ranked)[0] < 1e-4
        return found


def open_web(folder, task, tokenizer_config=None, **changes):
    """Exports the tiny model of a task in float32, with changed settings, and opens it in both forms."""
    runtime_package()
    if task in FINE_TUNED:
        make, settings = FINE_TUNED[task]
        model = {"model_dir": write_fine_tuned(folder / "run", make(), task, **settings | changes)}
        if tokenizer_config:
            (folder / "run" / "model" / "tokenizer_config.json").write_text(tokenizer_config)
    else:
        make, settings = PRETRAINED[task]
        settings = {name: value for name, value in settings.items() if name in ("top_k", "max_seq_length")}
        model = {"init_checkpoint": str(write_model(folder / "run", make())), "task": task, **settings}
    without_comparison = mock.patch("bert_keras.export.formats.web.compare_in_node", return_value={})  # by `Web.check`
    with converters_in_this_process(), without_comparison:
        export_model(export_dir=folder / "export", format=["web"], quantize="float32", verbose=False, **model)
    return Web(open_model(folder / ("run" if task in FINE_TUNED else "export")), folder / "export" / "web")
