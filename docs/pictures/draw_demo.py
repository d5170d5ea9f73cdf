"""Draws demo_confusions.png: the confusion matrix that the demo of run_classifier.py writes.

The demo takes half a minute on two cores.
"""

import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "run_classifier.py"


def figures():
    """Runs the demo, and returns the file as bytes by name."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(PROGRAM)], cwd=folder, check=True)
        report = pathlib.Path(folder, "bert_demo", "messages", "confusion_matrix.png")
        return {"demo_confusions": report.read_bytes()}
