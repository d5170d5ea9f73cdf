"""Trains vectors of texts from a model that was not trained for them, with three seeds, and prints correlations.

    python benchmarks/sentence_vectors.py --work_dir=runs --sts=data/STS-B --nli=data/MNLI/train.tsv --model=MODEL

The start is the first layers of the model, a folder or hf://owner/name, so its vectors are those of a layer inside.
"""

import argparse
import pathlib
import shutil

import numpy as np
import scipy.stats

from bert_keras import BertConfig, open_checkpoint, save_checkpoint, train_sentence_vectors
from bert_keras.cli.flags import ending_at_sigterm

NUM_SEEDS = 3
LENGTH = {"max_seq_length": 64, "eval_batch_size": 64}
TRAINING = {"train_batch_size": 64, "learning_rate": 1e-4, "num_train_epochs": 1}


def write_start(folder, model, num_layers):
    """Writes the first layers of a model as a checkpoint with config and vocabulary."""
    checkpoint = open_checkpoint(model)
    if checkpoint.config is None or checkpoint.vocab_file is None:
        raise SystemExit(f"{model} has no config or no vocabulary; give a complete model")
    folder.mkdir(parents=True, exist_ok=True)
    dropped = tuple(f"bert/encoder/layer_{i}/" for i in range(num_layers, checkpoint.config.num_hidden_layers))
    tensors = {name: checkpoint.read(name) for name in checkpoint.names if not name.startswith(dropped)}
    save_checkpoint(folder / "bert_model.ckpt", tensors)
    values = checkpoint.config.to_dict() | {"num_hidden_layers": num_layers}
    BertConfig.from_dict(values).to_json_file(folder / "bert_config.json")
    shutil.copy(checkpoint.vocab_file, folder / "vocab.txt")


def score(name, start, arguments, seed, train_file=None):
    """Trains, unless there is no data, and returns Spearman's correlation on the evaluation data."""
    output_dir = pathlib.Path(arguments.work_dir, f"{name}-{seed}")
    eval_file = pathlib.Path(arguments.sts, "dev.tsv")
    settings = {**TRAINING, "seed": seed} if train_file else {}
    found = train_sentence_vectors(
        train_file, eval_file, output_dir=output_dir, init_checkpoint=start, verbose=False, **LENGTH, **settings
    )
    return found.metrics["spearman"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("work_dir", "sts", "nli", "model"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--num_layers", type=int, default=3)
    arguments = parser.parse_args()
    start = pathlib.Path(arguments.work_dir, "start")
    write_start(start, arguments.model, arguments.num_layers)
    print(f"none: {score('none', start, arguments, 0):.4f}", flush=True)
    files = {"nli": arguments.nli, "sts": pathlib.Path(arguments.sts, "train.tsv")}
    scores = {name: [] for name in files}
    for seed in range(NUM_SEEDS):
        for name, train_file in files.items():
            scores[name].append(score(name, start, arguments, seed, train_file))
            print(f"{name}, seed {seed}: {scores[name][-1]:.4f}", flush=True)
    for name, found in scores.items():
        half = scipy.stats.t.ppf(0.975, NUM_SEEDS - 1) * np.std(found, ddof=1) / NUM_SEEDS**0.5
        print(f"{name}: mean {np.mean(found):.4f}, 95 % interval ± {half:.4f}", flush=True)


if __name__ == "__main__":
    with ending_at_sigterm():
        main()
