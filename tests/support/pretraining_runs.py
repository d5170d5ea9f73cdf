"""Small pre-training runs for the tests of the program."""

import pytest
from states import assert_bit_equal, weights_in
from training_programs import run_pretraining
from training_runs import rows_of, stop_after

# A text whose words have several pieces.
LETTERS = "abcdefghijklmnopq"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
WORDS = ["abc de fgh", "ij kl", "mno p qab", "cde fg", "hi j", "klm nop q"]


def write_text(folder):
    """Writes vocab.txt, and text.txt of six documents."""
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    (folder / "text.txt").write_text("\n\n".join("\n".join([*WORDS[n:], *WORDS[:n]]) for n in range(6)) + "\n")


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
        "max_eval_steps": 3,
        "learning_rate": 0.01,
        "num_train_steps": 12,
        "num_warmup_steps": 2,
        "save_checkpoints_steps": 4,
    }


def argv_of(flags, **more):
    return ["run_pretraining.py", *(f"--{name}={value}" for name, value in {**flags, **more}.items())]


def run(flags, **more):
    return run_pretraining.main(argv_of(flags, **more))


def assert_continues(flags, metrics, folder, step):
    """Checks that a run that is stopped after a step and continued ends as the finished run of these flags did."""
    stopped = {**flags, "output_dir": folder}
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, step)
        assert run(stopped) is None
    assert run(stopped) == metrics
    assert_bit_equal(weights_in(folder), weights_in(flags["output_dir"]))
    assert rows_of(folder) == rows_of(flags["output_dir"])
