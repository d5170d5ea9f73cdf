"""Runs JavaScript of the web page in Node."""

import json
import pathlib
import shutil
import subprocess

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "bert_keras" / "serving" / "page"


def run_node(folder, script, value):
    """Runs a script in a new folder with the page's modules. Returns what its `main` makes of a value of JSON.

    The script is text that defines `main`, and may import the modules as "./tokenizer.js".
    """
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    folder.mkdir()
    for path in PAGE.glob("*.js"):
        shutil.copy(path, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "input.json").write_text(json.dumps(value))
    lines = [
        'import { readFileSync, writeFileSync } from "node:fs";',
        script,
        'const value = JSON.parse(readFileSync("input.json", "utf8"));',
        'writeFileSync("output.json", JSON.stringify(await main(value)));',
    ]
    (folder / "main.js").write_text("\n".join(lines))
    process = subprocess.run(["node", "main.js"], cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return json.loads((folder / "output.json").read_text())
