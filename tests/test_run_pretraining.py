"""The program from flags to files."""

import csv
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from pretraining_runs import assert_bit_equal, make_files, run, weights_in

import run_pretraining
from bert_keras.modeling import BertConfig, open_checkpoint
from bert_keras.training.demo import prepare_demo
from bert_keras.training.evaluation_pass import Evaluator

ROOT = pathlib.Path(run_pretraining.__file__).parent


@pytest.fixture
def files(tmp_path, tiny_config, write_records):
    return make_files(tmp_path, tiny_config, write_records)


def test_training_and_evaluation_leave_what_they_promise(files, capsys):
    held_out = files["input_file"].with_name("held_out.tfrecord")
    metrics = run(files, do_train=True, do_eval=True, eval_file=held_out, eval_steps=6, log_steps=5)
    out = pathlib.Path(files["output_dir"])

    results = dict(line.split(" = ") for line in (out / "eval_results.txt").read_text().splitlines())
    assert list(results) == [
        "global_step",
        "loss",
        "masked_lm_accuracy",
        "masked_lm_loss",
        "next_sentence_accuracy",
        "next_sentence_loss",
    ]
    assert results["global_step"] == "12"
    assert float(results["masked_lm_loss"]) == pytest.approx(metrics["masked_lm_loss"], rel=1e-6)

    with open(out / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["split"], row["step"]) for row in rows] == [
        ("train", "1"),
        ("train", "5"),
        ("eval", "6"),
        ("train", "10"),
        ("train", "12"),
        ("eval", "12"),
    ]
    assert float(rows[0]["learning_rate"]) == 0.0
    assert float(rows[-1]["loss"]) == pytest.approx(metrics["loss"], rel=1e-6)

    assert sorted(path.name for path in out.glob("model.ckpt-*.index")) == [
        "model.ckpt-12.index",
        "model.ckpt-4.index",
        "model.ckpt-8.index",
    ]
    assert BertConfig.from_json_file(out / "bert_config.json").hidden_size == 8
    assert (out / "learning_curves.png").exists()
    assert json.loads((out / "run_config.json").read_text())["settings"]["learning_rate"] == 0.01
    shown = capsys.readouterr().out
    assert "step 1/12: loss" in shown
    assert "evaluation: 11 of the 11 examples of --eval_file" in shown


def test_the_casing_of_the_records_is_frozen_in_the_folder(files):
    note, file = files["input_file"].with_name("train.tfrecord.json"), files["output_dir"] / "tokenizer_config.json"
    note.write_text("{}")  # an earlier builder's records without metadata
    run(files, do_train=True, num_train_steps=1)
    assert not file.exists()
    note.write_text('{"do_lower_case": false}')
    run(files, do_train=True, num_train_steps=1)
    told = {"do_lower_case": False, "model_max_length": 12, "tokenizer_class": "BertTokenizer"}
    assert json.loads(file.read_text()) == told


def test_checkpoints_have_the_names_of_the_release(files, golden_dir, tiny_config):
    dataclasses.replace(tiny_config, num_hidden_layers=2).to_json_file(files["bert_config_file"])
    run(files, do_train=True, num_train_steps=2)
    ours = open_checkpoint(str(files["output_dir"]))
    released = open_checkpoint(golden_dir / "pretraining_a" / "trained" / "model.ckpt-30")
    assert ours.names == released.names
    assert ours.read("global_step").dtype == np.int64


def test_without_held_out_records_evaluation_is_the_release_s_and_says_so(files, capsys):
    run(files, do_train=True, do_eval=True, num_train_steps=2, max_eval_steps=3)
    assert "warning: no --eval_file: evaluating on the training records (--input_file)" in (capsys.readouterr().out)


def test_evaluation_alone_takes_the_newest_checkpoint(files):
    held_out = files["input_file"].with_name("held_out.tfrecord")
    trained = run(files, do_train=True, do_eval=True, eval_file=held_out)
    results = (files["output_dir"] / "eval_results.txt").read_text()
    (files["output_dir"] / "eval_results.txt").unlink()
    # Training settings do not matter then.
    assert run(files, do_eval=True, eval_file=held_out, learning_rate=0.5) == trained
    assert (files["output_dir"] / "eval_results.txt").read_text() == results


def test_a_run_that_has_ended_is_evaluated_without_talk_of_training(files, capsys):
    run(files, do_train=True, num_train_steps=1)
    capsys.readouterr()
    run(files, do_train=True, do_eval=True, num_train_steps=1)
    said = capsys.readouterr().out
    assert "nothing to train: step 1 of 1 is reached, but its evaluation is missing" in said
    assert "training: steps" not in said


def test_another_seed_gives_another_model(files, tmp_path):
    run(files, do_train=True, num_train_steps=1)
    run(files, do_train=True, num_train_steps=1, seed=1, output_dir=tmp_path / "other")
    name = "bert/pooler/dense/kernel"
    assert (weights_in(files["output_dir"])[name] != weights_in(tmp_path / "other")[name]).any()


@pytest.mark.parametrize(
    "ways",
    [
        {"precision": "bfloat16", "recompute": True},
        # XLA needs long to compile training and evaluation.
        pytest.param({"precision": "float16", "jit": True}, marks=pytest.mark.slow),
    ],
)
def test_16_bits_and_recomputed_or_compiled_layers_come_near_to_32_bits(files, tmp_path, ways):
    flags = {"do_train": True, "do_eval": True, "num_train_steps": 4}
    expected = run(files, **flags)["loss"]
    loss = run({**files, "output_dir": tmp_path / "other"}, **flags, **ways)["loss"]
    assert loss == pytest.approx(expected, rel=0.02)
    assert loss != expected


def test_a_packed_run_is_the_run_that_it_would_be_unpacked(files, tmp_path, capsys):
    config = json.loads(files["bert_config_file"].read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    files["bert_config_file"].write_text(json.dumps(config))
    flags = {"do_train": True, "do_eval": True, "num_train_steps": 3, "log_steps": 1, "learning_rate": 1e-4}
    expected = run(files, **flags)
    packed = {**files, "output_dir": tmp_path / "packed"}
    assert run(packed, **flags, pack=True, gradient_accumulation_steps=2) == pytest.approx(expected, rel=1e-5)
    text = "packing: 8 examples fill 7.4 rows of 12 tokens, at most 8; padding: 19.6 %, unpacked 25.4 %"
    assert text in " ".join(capsys.readouterr().out.split())
    trained = []
    for folder in (files["output_dir"], packed["output_dir"]):
        with open(folder / "metrics.csv", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["split"] == "train"]
        trained.append([float(row[name]) for row in rows for name in ("loss", "masked_lm_accuracy", "gradient_norm")])
    assert trained[1] == pytest.approx(trained[0], rel=2e-5)
    weights = weights_in(files["output_dir"])
    for name, value in weights_in(packed["output_dir"]).items():
        # The softmax does not depend on the key biases, so Adam amplifies their gradients, which are rounding errors.
        if "self/key/bias" not in name:
            np.testing.assert_allclose(value, weights[name], rtol=1e-5, atol=1e-6, err_msg=name)
    with pytest.raises(ValueError, match="--pack was True and is False now; give the old settings to resume it"):
        run(packed, **flags, gradient_accumulation_steps=2)


def test_packed_records_are_not_for_what_needs_few_shapes(files):
    for flags in ({"use_tpu": True}, {"strategy": "tpu"}):
        with pytest.raises(ValueError, match="--pack gives each batch .*, but a TPU needs the same number"):
            run(files, do_train=True, pack=True, **flags)
    with pytest.raises(ValueError, match="--pack gives each batch .*, and --jit compiles again for each"):
        run(files, do_train=True, pack=True, jit=True)


def test_damaged_records_are_named_when_they_are_packed(files):
    data = bytearray(files["input_file"].read_bytes())
    data[-20] ^= 1
    files["input_file"].write_bytes(data)
    with pytest.raises(ValueError, match="train.tfrecord is damaged at byte"):
        run(files, do_train=True, pack=True)


def test_the_rate_falls_smoothly_where_that_is_asked_for(files):
    run(files, do_train=True, num_train_steps=6, log_steps=1, smooth_learning_rate=True)
    with open(files["output_dir"] / "metrics.csv", newline="") as file:
        rates = [float(row["learning_rate"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(rates, [0, 0.005, 0.01, 0.0075, 0.005, 0.0025], rtol=1e-6)


def test_held_out_records_that_are_damaged_are_named(files):
    held_out = files["input_file"].with_name("held_out.tfrecord")
    data = bytearray(held_out.read_bytes())
    data[-20] ^= 1
    held_out.write_bytes(data)
    with pytest.raises(ValueError, match="held_out.tfrecord is damaged at byte"):
        run(files, do_train=True, do_eval=True, eval_file=held_out, num_train_steps=1)
    with pytest.raises(ValueError, match="held_out.tfrecord is damaged at byte"):
        run(files, do_eval=True, eval_file=held_out)


def test_records_that_are_both_trained_and_evaluated_on_are_named(files, capsys):
    with pytest.raises(ValueError, match="nothing to evaluate"):
        run(files, do_eval=True, eval_file=files["input_file"])
    assert "train.tfrecord is also training data; its metrics say little" in capsys.readouterr().out


def test_evaluating_before_training_leaves_the_folder_free(files, golden_dir, write_records):
    golden = golden_dir / "pretraining_a"
    write_records(files["input_file"], 8, vocab_size=211)
    flags = {**files, "bert_config_file": golden / "bert_config.json", "init_checkpoint": golden / "bert_model.ckpt"}
    before = run(flags, do_eval=True)
    after = run(flags, do_eval=True, do_train=True, num_train_steps=3, num_warmup_steps=0)
    assert after["masked_lm_loss"] != before["masked_lm_loss"]


def test_a_run_config_is_taken_back(files, tmp_path):
    run(files, do_train=True)
    config = files["output_dir"] / "run_config.json"
    run({"run_config": config, "output_dir": tmp_path / "again"})
    assert_bit_equal(weights_in(files["output_dir"]), weights_in(tmp_path / "again"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"program": "run_squad"}, "run_config.json is from run_squad; give one from run_pretraining"),
        ({"settings": {"learning_rat": 1}}, "run_config.json has an unknown setting 'learning_rat'; take it out"),
        ({"settings": {"do_train": "perhaps"}}, "run_config.json has 'perhaps' for 'do_train': "),
        ({"settings": {"train_batch_size": 0}}, "run_config.json has 0 for 'train_batch_size': "),
        ({"settings": {"train_batch_size": None}}, "run_config.json has None for 'train_batch_size': "),
    ],
)
def test_a_run_config_that_does_not_fit_is_refused(tmp_path, change, message):
    config = {"program": "run_pretraining", "settings": {}, **change}
    (tmp_path / "run_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        run({"run_config": tmp_path / "run_config.json"})


def test_training_starts_from_released_weights_and_says_what_was_loaded(
    files, golden_dir, tmp_path, write_records, capsys
):
    golden = golden_dir / "pretraining_a"
    write_records(tmp_path / "golden.tfrecord", 8, vocab_size=211)
    flags = {**files, "bert_config_file": golden / "bert_config.json", "input_file": tmp_path / "golden.tfrecord"}
    run(flags, do_train=True, init_checkpoint=golden / "bert_model.ckpt", num_train_steps=1, num_warmup_steps=0)
    assert "loaded 46 of 46 weights" in capsys.readouterr().out
    start = open_checkpoint(golden / "bert_model.ckpt")
    weights = weights_in(files["output_dir"])
    for name in start.names:
        # One update moves a weight by at most the rate times 0.1 / sqrt(0.001), and the decay.
        assert np.abs(weights[name] - start.read(name)).max() < 0.01 * (0.1 / 0.001**0.5 + 0.1), name
    assert np.abs(weights["bert/pooler/dense/kernel"] - start.read("bert/pooler/dense/kernel")).max() > 0


def test_a_checkpoint_that_lacks_weights_is_refused_unless_that_is_allowed(files, golden_dir, tmp_path, write_records):
    golden = golden_dir / "pretraining_a"
    checkpoint = open_checkpoint(golden / "bert_model.ckpt")
    from bert_keras.modeling import save_checkpoint

    names = [name for name in checkpoint.names if not name.startswith("cls/")]
    save_checkpoint(tmp_path / "encoder" / "encoder.ckpt", {name: checkpoint.read(name) for name in names})
    write_records(tmp_path / "golden.tfrecord", 8, vocab_size=211)
    flags = {
        **files,
        "bert_config_file": golden / "bert_config.json",
        "input_file": tmp_path / "golden.tfrecord",
        "init_checkpoint": tmp_path / "encoder" / "encoder.ckpt",
        "num_train_steps": 1,
    }
    with pytest.raises(
        ValueError,
        match="encoder.ckpt lacks 7 of the model's 46 weights: cls/.*; take a checkpoint .* or give --allow_",
    ):
        run(flags, do_train=True)
    run(flags, do_train=True, allow_partial_checkpoint=True)
    assert weights_in(files["output_dir"])["global_step"] == 1


def test_a_config_other_than_that_beside_the_checkpoint_is_refused(files, golden_dir, tmp_path, write_records):
    golden = golden_dir / "pretraining_a"
    config = json.loads((golden / "bert_config.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps({**config, "hidden_act": "gelu_erf"}))
    write_records(tmp_path / "golden.tfrecord", 8, vocab_size=211)
    flags = {
        **files,
        "bert_config_file": tmp_path / "other.json",
        "input_file": tmp_path / "golden.tfrecord",
        "init_checkpoint": golden / "bert_model.ckpt",
    }
    with pytest.raises(ValueError, match="bert_model.ckpt: hidden_act is 'gelu_erf', not 'gelu'; give the config"):
        run(flags, do_train=True)
    assert not (files["output_dir"] / "run_config.json").exists()


def test_the_vocabulary_goes_with_the_model(files, tmp_path):
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("\n".join(f"word{number}" for number in range(40)) + "\n")
    run(files, do_train=True, num_train_steps=1, vocab_file=vocabulary)
    assert (files["output_dir"] / "vocab.txt").read_text() == vocabulary.read_text()


@pytest.mark.parametrize(
    ("flags", "error", "message"),
    [
        ({}, ValueError, "nothing to do: give --do_train, --do_eval or both"),
        (
            {"do_train": True, "bert_config_file": "none.json"},
            FileNotFoundError,
            'none.json"; check the path, and give the',
        ),
        ({"do_train": True, "input_file": "none-*"}, FileNotFoundError, "none-.*matches no file; build records"),
        ({"do_train": True, "max_seq_length": 17}, ValueError, "--max_seq_length=17 is more than the 16 positions of"),
        ({"do_train": True, "max_seq_length": 10}, ValueError, "input_ids has 12 values, but 10 are needed; give the"),
        (
            {"do_train": True, "do_eval": True, "eval_file": "none-*"},
            FileNotFoundError,
            "none-.*matches no file; build records",
        ),
        (
            {"do_train": True, "gradient_accumulation_steps": 3},
            ValueError,
            r"--train_batch_size=8 cannot be divided evenly by 1 device\(s\) x --gradient_accumulation_steps=3; give a",
        ),
        ({"do_eval": True}, ValueError, "nothing to evaluate: --output_dir=.*model holds no checkpoint; train first"),
        ({"do_train": True, "init_checkpoint": "none.ckpt"}, FileNotFoundError, "there is no checkpoint .*none.ckpt"),
        ({"do_train": True, "vocab_file": "none.txt"}, FileNotFoundError, "there is no .*none.txt; give the vocab.txt"),
        (
            {"do_train": True, "eval_steps": 2},
            ValueError,
            "--eval_file and --eval_steps say how to evaluate; give --do",
        ),
        ({"do_train": True, "use_tpu": True}, ValueError, "--use_tpu: no TPU could be reached"),
        ({"do_train": True, "learning_rate": 0}, ValueError, "--learning_rate=0 is not a number above 0"),
        ({"do_train": True, "learning_rate": -1}, ValueError, "--learning_rate=-1 is not a number above 0"),
        ({"do_train": True, "learning_rate": "nan"}, ValueError, "--learning_rate=nan is not a number above 0"),
        ({"do_train": True, "run_config": "none.json"}, FileNotFoundError, "No such file or directory: 'none.json'"),
    ],
)
def test_mistakes_are_told_before_any_training(files, monkeypatch, tmp_path, flags, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        run({**files, **flags})
    assert not (tmp_path / "model").exists()


def test_a_vocabulary_that_does_not_belong_to_the_records_is_refused(files, tmp_path):
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("\n".join(f"word{number}" for number in range(41)) + "\n")
    with pytest.raises(ValueError, match="words.txt has 41 tokens, but the model has 40 rows of word embeddings; give"):
        run(files, do_train=True, vocab_file=vocabulary)
    vocabulary.write_text("\n".join(f"word{number}" for number in range(40)) + "\n")
    metadata = {"vocab_sha256": "0", "settings": {"vocab_file": "other.txt"}}
    files["input_file"].with_name("train.tfrecord.json").write_text(json.dumps(metadata))
    with pytest.raises(ValueError, match="is not the vocabulary that the records of --input_file were built with"):
        run(files, do_train=True, vocab_file=vocabulary)


def test_flags_that_are_missing_are_named(files):
    with pytest.raises(ValueError, match="^missing: --bert_config_file, --input_file, --output_dir"):
        run({"do_train": True})
    with pytest.raises(ValueError, match="^missing: --output_dir "):
        run({name: value for name, value in files.items() if name != "output_dir"}, do_train=True)


def test_a_loss_that_explodes_stops_the_run(files):
    with pytest.raises(ValueError, match="the loss or its gradient is not finite in step"):
        run(files, do_train=True, learning_rate=1e30, num_warmup_steps=0)


def test_a_record_that_is_damaged_later_on_is_named(files):
    data = bytearray(files["input_file"].read_bytes())
    data[-20] ^= 1
    files["input_file"].write_bytes(data)
    with pytest.raises(ValueError, match="train.tfrecord is damaged at byte"):
        run(files, do_train=True)


@pytest.mark.parametrize(
    ("flags", "other"),
    [
        ({"do_train": True}, b"\xff\xfe\x00 is not text"),
        ({"do_train": True, "pack": True}, b"text"),
        ({"do_eval": True}, b"\xff\xfe"),
    ],
)
def test_a_record_that_is_not_an_example_is_named(files, flags, other):
    whole = list(tf.data.TFRecordDataset(str(files["input_file"])).as_numpy_iterator())
    if "do_eval" in flags:
        run(files, do_train=True, num_train_steps=1)
    with tf.io.TFRecordWriter(str(files["input_file"])) as writer:
        for record in (*whole[:-1], other):
            writer.write(record)
    with pytest.raises(ValueError, match="train.tfrecord does not hold pre-training examples: record 40 is not"):
        run(files, **flags)


def test_a_batch_that_is_too_large_to_evaluate_is_named(files, monkeypatch):
    def fail(self, batches):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(Evaluator, "evaluate", fail)
    with pytest.raises(ValueError, match="memory does not hold a batch of --eval_batch_size; give a lower one"):
        run(files, do_train=True, do_eval=True, num_train_steps=1)


def test_the_demo_goes_from_text_to_an_evaluated_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def shortened():
        return {**prepare_demo(), "num_train_steps": 30, "num_warmup_steps": 3, "max_eval_steps": 1}

    monkeypatch.setattr(run_pretraining, "prepare_demo", shortened)
    metrics = run_pretraining.main(["run_pretraining.py"])
    model = tmp_path / "bert_demo" / "model"
    assert {"bert_config.json", "vocab.txt", "checkpoint", "eval_results.txt"} <= set(os.listdir(model))
    num_tokens = len((model / "vocab.txt").read_text().splitlines())
    assert metrics["masked_lm_loss"] < math.log(num_tokens), "not better than any token"
    assert "No flags were given, so this is a demo" in capsys.readouterr().out
    # A second run does not build or train anything.
    records = (tmp_path / "bert_demo" / "train.tfrecord").stat().st_mtime_ns
    assert run_pretraining.main(["run_pretraining.py"]) == metrics
    assert (tmp_path / "bert_demo" / "train.tfrecord").stat().st_mtime_ns == records
    assert "nothing to train" in capsys.readouterr().out


def test_flags_of_the_release_keep_their_names_and_defaults():
    values = run_pretraining.define_flags()
    released = {
        "bert_config_file": None,
        "input_file": None,
        "output_dir": None,
        "init_checkpoint": None,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "do_train": False,
        "do_eval": False,
        "train_batch_size": 32,
        "eval_batch_size": 8,
        "learning_rate": 5e-5,
        "num_train_steps": 100000,
        "num_warmup_steps": 10000,
        "save_checkpoints_steps": 1000,
        "iterations_per_loop": 1000,
        "max_eval_steps": 100,
        "use_tpu": False,
        "tpu_name": None,
        "tpu_zone": None,
        "gcp_project": None,
        "master": None,
        "num_tpu_cores": 8,
    }
    ours = {
        "strategy": "auto",
        "eval_file": None,
        "eval_steps": 0,
        "log_steps": 10,
        "vocab_file": None,
        "seed": 12345,
        "gradient_accumulation_steps": 1,
        "smooth_learning_rate": False,
        "allow_partial_checkpoint": False,
        "deterministic": False,
        "precision": "float32",
        "recompute": False,
        "jit": False,
        "pack": False,
        "run_config": None,
    }
    assert {name: values[name].default for name in values} == {**released, **ours}


def test_it_runs_as_a_program_from_anywhere(tmp_path):
    command = [sys.executable, str(ROOT / "run_pretraining.py"), "--do_train"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == (
        "run_pretraining.py: missing: --bert_config_file, --input_file, --output_dir (--help says what each is for)\n"
    )


def test_tensorflow_reads_the_newest_checkpoint(files):
    run(files, do_train=True, num_train_steps=1)
    reader = tf.train.load_checkpoint(str(files["output_dir"]))
    assert reader.get_tensor("global_step") == 1
