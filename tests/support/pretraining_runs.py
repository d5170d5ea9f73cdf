"""Small pre-training runs for the tests of the program."""

from states import assert_bit_equal, weights_in  # noqa: F401 (for the tests)

import run_pretraining


def make_files(folder, tiny_config, write_records):
    """Writes a config and records, and returns the flags that name them."""
    tiny_config.to_json_file(folder / "bert_config.json")
    write_records(folder / "train.tfrecord", 40)
    write_records(folder / "held_out.tfrecord", 11, seed=5)
    return {
        "bert_config_file": folder / "bert_config.json",
        "input_file": folder / "train.tfrecord",
        "output_dir": folder / "model",
        "max_seq_length": 12,
        "max_predictions_per_seq": 3,
        "train_batch_size": 8,
        "eval_batch_size": 4,
        "learning_rate": 0.01,
        "num_train_steps": 12,
        "num_warmup_steps": 2,
        "save_checkpoints_steps": 4,
    }


def argv_of(flags, **more):
    return ["run_pretraining.py", *(f"--{name}={value}" for name, value in {**flags, **more}.items())]


def run(flags, **more):
    return run_pretraining.main(argv_of(flags, **more))
