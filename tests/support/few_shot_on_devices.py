"""Run by `test_several_devices.py`: few-shot training gives the same weights on 1, 2, 4 and 8 devices."""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import quick_start
from devices import split_processor
from states import weights_of
from tiny_classes import run_few_shot, texts, write_encoder, write_rows

from bert_keras.modeling import ClassifierModel

SIZES = (37, 7)


def train(folder, num_texts, num_devices):
    """Returns the weights of a run."""
    flags = {
        "init_checkpoint": folder / "start",
        "train_file": write_rows(folder / f"{num_texts}.csv", "text,label", texts(num_texts, 1), ","),
        "max_seq_length": 12,
        "contrastive_epochs": 3,
        "learning_rate": 0.01,  # the weights are of the size 1
        "strategy": "mirrored" if num_devices > 1 else "one",
    }
    output_dir = folder / f"{num_texts}_on_{num_devices}"
    run_few_shot(flags, "do_train", output_dir=output_dir)
    return weights_of(ClassifierModel.from_checkpoint(output_dir / "model"))


def train_on(folder, num_devices):
    split_processor(num_devices)
    for num_texts in SIZES:
        np.savez(folder / f"{num_texts}_{num_devices}.npz", **train(folder, num_texts, num_devices))


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    write_encoder(folder / "start")
    file = folder / "start" / "bert_config.json"  # each device draws its own dropout, so this model has none
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    file.write_text(json.dumps(json.loads(file.read_text()) | dropout))
    for num_devices in (1, 2, 8):  # TensorFlow cannot form several groups of devices in a process
        subprocess.run(
            [sys.executable, quick_start.__file__, __file__, folder, str(num_devices)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    for num_texts in SIZES:
        expected, *found = (np.load(folder / f"{num_texts}_{num_devices}.npz") for num_devices in (1, 2, 8))
        embeddings = expected["bert/embeddings/word_embeddings"]
        assert np.abs(embeddings - np.eye(len(embeddings))).max() > 1e-3  # the encoder is trained
        for weights in found:
            for name in expected:
                scale = max(1.0, np.abs(expected[name]).max())
                np.testing.assert_allclose(weights[name], expected[name], rtol=0, atol=1e-4 * scale, err_msg=name)
        print(f"{num_texts} texts: as on one device")


if __name__ == "__main__":
    train_on(pathlib.Path(sys.argv[1]), int(sys.argv[2])) if sys.argv[1:] else main()
