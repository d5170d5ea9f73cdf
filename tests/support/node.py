"""Runs JavaScript of the web page in Node."""

import json
import pathlib
import shutil
import subprocess

import pytest
from guards import at_least

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "bert_keras"
PAGE, TASKS = PACKAGE / "serving" / "page", PACKAGE / "tasks"


def run_node(folder, script, value):
    """Runs a script in a new folder with the page's modules. Returns what its `main` makes of a value of JSON.

    The script is text that defines `main`, and may import the modules as "./tokenizer.js".
    """
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    folder.mkdir()
    for path in PAGE.glob("*.js"):
        shutil.copy(path, folder)
    # An export has the code of its task as task.js; here it is that of all tasks.
    codes = {f"task_{path.parent.name}": path for path in at_least(7, TASKS.glob("*/web.js"))}
    for name, path in codes.items():
        shutil.copy(path, folder / f"{name}.js")
    imports = [f'import {{ TASKS as {name} }} from "./{name}.js";' for name in codes]
    merged = ", ".join(f"...{name}" for name in codes)
    (folder / "task.js").write_text("\n".join([*imports, f"export const TASKS = {{ {merged} }};"]))
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
