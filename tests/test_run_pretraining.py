"""The program from flags to files."""

import contextlib
import dataclasses
import io
import json
import math
import os
import pathlib
import re
import shlex
import shutil

import numpy as np
import pytest
import tensorflow as tf
from eager import without_graphs
from pretraining_runs import make_files, run
from states import assert_bit_equal, weights_in
from training_programs import run_pretraining
from training_runs import assert_near, results_in, rows_of

from bert_keras.data_prep.text.vocabulary_files import tokenizer_config_text
from bert_keras.engine.distribution import tpu
from bert_keras.engine.evaluation_pass import Evaluator
from bert_keras.modeling import BertConfig, open_checkpoint, save_checkpoint
from bert_keras.programs import demo

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture
def files(tmp_path, tiny_config, write_records):
    return make_files(tmp_path, tiny_config, write_records)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_config, write_records):
    """A finished run: its flags, metrics and output. Tests must not change its folder."""
    folder = tmp_path_factory.mktemp("trained")
    flags = make_files(folder, tiny_config, write_records)
    (folder / "train.tfrecord.json").write_text('{"do_lower_case": false}')
    (folder / "words.txt").write_text("".join(f"word{number}\n" for number in range(40)))
    flags |= {"do_train": True, "do_eval": True, "eval_file": folder / "held_out.tfrecord"}
    flags |= {"vocab_file": folder / "words.txt", "eval_steps": 6, "log_steps": 5}
    with contextlib.redirect_stdout(io.StringIO()) as output, without_graphs():
        metrics = run(flags)
    return flags, metrics, " ".join(output.getvalue().split())


@pytest.fixture
def again(trained, tmp_path):
    """The flags of the finished run, with a copy of its folder."""
    return {**trained[0], "output_dir": shutil.copytree(trained[0]["output_dir"], tmp_path / "again")}


@pytest.fixture(scope="module")
def plain(tmp_path_factory, tiny_config, write_records):
    """The flags and metrics of a run of three steps without dropout."""
    folder = tmp_path_factory.mktemp("plain")
    flags = make_files(folder, tiny_config, write_records)
    config = json.loads(flags["bert_config_file"].read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    flags["bert_config_file"].write_text(json.dumps(config))
    flags |= {"do_train": True, "do_eval": True, "num_train_steps": 3, "log_steps": 1, "learning_rate": 1e-4}
    with without_graphs():
        return flags, run(flags)


def test_training_and_evaluation_leave_what_they_promise(trained, golden_dir):
    flags, metrics, output = trained
    out = flags["output_dir"]
    results = results_in(out)
    names = ["masked_lm_accuracy", "masked_lm_loss", "next_sentence_accuracy", "next_sentence_loss"]
    assert list(results) == ["global_step", "loss", *names]
    assert results["global_step"] == "12"
    assert float(results["masked_lm_loss"]) == pytest.approx(metrics["masked_lm_loss"], rel=1e-6)

    rows = rows_of(out)
    steps = [("train", "1"), ("train", "5"), ("eval", "6"), ("train", "10"), ("train", "12"), ("eval", "12")]
    assert [(row["split"], row["step"]) for row in rows] == steps
    assert float(rows[0]["learning_rate"]) == 0.0
    assert float(rows[-1]["loss"]) == pytest.approx(metrics["loss"], rel=1e-6)

    assert {path.name for path in out.glob("model.ckpt-*.index")} == {f"model.ckpt-{step}.index" for step in (4, 8, 12)}
    assert BertConfig.from_json_file(out / "bert_config.json").hidden_size == 8
    assert (out / "learning_curves.png").exists()
    assert json.loads((out / "run_config.json").read_text())["settings"]["learning_rate"] == 0.01
    assert (out / "vocab.txt").read_text() == flags["vocab_file"].read_text()
    assert (out / "tokenizer_config.json").read_text() == tokenizer_config_text(False, None, 12)
    assert "step 1/12: loss" in output
    assert "evaluation: 11 of the 11 examples of --eval_file" in output

    # The checkpoint has the names of the original BERT, for one layer instead of two, and TensorFlow reads it.
    released = open_checkpoint(golden_dir / "pretraining_a" / "trained" / "model.ckpt-30")
    reader = tf.train.load_checkpoint(str(out))
    assert set(reader.get_variable_to_dtype_map()) == {name for name in released.names if "layer_1/" not in name}
    assert reader.get_variable_to_dtype_map()["global_step"] == tf.int64
    assert reader.get_tensor("global_step") == 12


@pytest.mark.usefixtures("no_graphs")
def test_evaluation_alone_takes_the_newest_checkpoint(trained, again, capsys):
    results = again["output_dir"] / "eval_results.txt"
    before = results.read_text()
    results.unlink()
    # Training settings do not matter then.
    assert run(again, do_train=False, eval_steps=0, learning_rate=0.5) == trained[1]
    assert results.read_text() == before
    # The run knows its settings, and has its own copies of files that have moved since.
    own, stored = {"output_dir": again["output_dir"]}, again["output_dir"] / "run_config.json"
    values = json.loads(stored.read_text())
    values["settings"] |= dict.fromkeys(("bert_config_file", "vocab_file", "input_file", "init_checkpoint"), "moved")
    stored.write_text(json.dumps(values))
    assert run(own, do_eval=True) == trained[1]
    run({**own, "input_file": again["input_file"]}, do_eval=True, max_eval_steps=3)
    assert "warning: no --eval_file: evaluating on the training records (--input_file)" in capsys.readouterr().out


@pytest.mark.usefixtures("no_graphs")
def test_a_finished_run_is_not_trained_again_but_evaluated_if_that_is_missing(trained, again, capsys):
    def run_again():
        run(again)
        return " ".join(capsys.readouterr().out.split())

    assert "nothing to train: step 12 of 12 is reached; give a higher --num_train_steps to continue" in run_again()
    rows = (again["output_dir"] / "metrics.csv").read_text().splitlines()
    state = json.loads((again["output_dir"] / "state.json").read_text())
    del state["evaluations"]["12"]  # of a run that was killed after the row and before this entry
    (again["output_dir"] / "state.json").write_text(json.dumps(state))
    output = run_again()
    assert "nothing to train: step 12 of 12 is reached, but its evaluation is missing" in output
    assert "training: steps" not in output
    assert (again["output_dir"] / "metrics.csv").read_text().splitlines() == rows
    assert_bit_equal(weights_in(trained[0]["output_dir"]), weights_in(again["output_dir"]))


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_a_run_config_gives_the_same_run(trained, tmp_path):
    flags, metrics, _ = trained
    config = flags["output_dir"] / "run_config.json"
    assert run({"run_config": config, "output_dir": tmp_path / "other"}) == metrics
    assert_bit_equal(weights_in(flags["output_dir"]), weights_in(tmp_path / "other"))


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_the_recipe_of_one_day_has_the_published_settings(files):
    """On another model and fewer steps; the expected rates are those of a triangle."""
    recipe = ROOT / "examples" / "one_day"
    config, released = (
        BertConfig.from_json_file(recipe / "bert_config.json"),
        BertConfig.from_name("uncased_L-12_H-768_A-12"),
    )
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    assert config == dataclasses.replace(released, **dropout)
    smaller = {"train_batch_size": 4, "gradient_accumulation_steps": 2, "num_train_steps": 4, "num_warmup_steps": 3}
    given = ("bert_config_file", "input_file", "output_dir", "max_seq_length", "max_predictions_per_seq")
    flags = {name: files[name] for name in given} | smaller
    run({**flags, "run_config": recipe / "run_config.json", "do_train": True, "log_steps": 1})
    settings = json.loads((files["output_dir"] / "run_config.json").read_text())["settings"]
    published = {"adam_beta_2": 0.98, "adam_epsilon": 1e-12, "adam_bias_correction": True, "clip_norm": 0.5}
    assert {name: settings[name] for name in published} == published
    rates = [float(row["learning_rate"]) for row in rows_of(files["output_dir"]) if row["learning_rate"]]
    np.testing.assert_allclose(rates, [0.0, 1e-3 / 3, 2e-3 / 3, 1e-3], rtol=1e-5, atol=1e-12)


@pytest.mark.slow  # two runs
@pytest.mark.parametrize(
    "ways",
    [{"precision": "bfloat16", "recompute": True}, {"precision": "float16", "jit": True}],
    ids=["bfloat16", "float16"],
)
def test_16_bits_and_recomputed_or_compiled_layers_come_near_to_32_bits(plain, tmp_path, ways):
    flags, metrics = plain
    loss = run(flags, output_dir=tmp_path / "other", **ways)["loss"]
    assert loss == pytest.approx(metrics["loss"], rel=0.02)
    assert loss != metrics["loss"]


@pytest.mark.slow  # a run; tests/training/test_packing.py packs single steps
@pytest.mark.usefixtures("no_graphs")
def test_a_packed_run_is_the_run_that_it_would_be_unpacked(plain, tmp_path, capsys):
    flags, metrics = plain
    # The records do not say how their text was cased.
    assert not (flags["output_dir"] / "tokenizer_config.json").exists()
    packed = {**flags, "output_dir": tmp_path / "packed", "gradient_accumulation_steps": 2}
    assert run(packed, pack=True) == pytest.approx(metrics, rel=1e-5)
    text = "packing: 8 examples fill 7.4 rows of 12 tokens, at most 8; padding: 19.6 %, unpacked 25.4 %"
    assert text in " ".join(capsys.readouterr().out.split())
    trained = []
    for folder in (flags["output_dir"], packed["output_dir"]):
        rows = [row for row in rows_of(folder) if row["split"] == "train"]
        trained.append([float(row[name]) for row in rows for name in ("loss", "masked_lm_accuracy", "gradient_norm")])
    assert trained[1] == pytest.approx(trained[0], rel=2e-5)
    assert_near(weights_in(packed["output_dir"]), weights_in(flags["output_dir"]))
    with pytest.raises(ValueError, match="pack was True and is False now; give the old settings to resume it"):
        run(packed)


@pytest.mark.usefixtures("no_graphs")
def test_damaged_records_are_named_when_they_are_packed_or_evaluated(files, again):
    data = bytearray(files["input_file"].read_bytes())
    data[-20] ^= 1
    files["input_file"].write_bytes(data)
    with pytest.raises(ValueError, match="train.tfrecord is damaged at byte"):
        run(files, do_train=True, pack=True)
    path = files["input_file"].with_name("held_out.tfrecord")
    whole = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in (*whole[:-1], b"\xff\xfe\x00 is not text"):
            writer.write(record)
    with pytest.raises(ValueError, match="held_out.tfrecord does not hold pre-training examples: record 11 is not"):
        run({**again, "eval_file": path}, do_train=False, eval_steps=0)


def without_config(flags):
    return {name: value for name, value in flags.items() if name != "bert_config_file"}


@pytest.mark.usefixtures("no_graphs")
def test_a_model_is_evaluated_and_trained_from_the_weights_of_the_original_bert(
    files, golden_dir, write_records, capsys
):
    golden = golden_dir / "pretraining_a"
    write_records(files["input_file"], 8, vocab_size=211)
    flags = {**files, "bert_config_file": golden / "bert_config.json", "init_checkpoint": golden / "bert_model.ckpt"}
    # The evaluation leaves the folder free for training.
    run(flags, do_eval=True)
    assert "loaded 46 of 46 weights" in capsys.readouterr().out
    # The folder of the checkpoint has the config, too.
    run(without_config(flags), do_train=True, num_train_steps=1, num_warmup_steps=0)
    # No file of the vocabulary is known, which the commands for the model need.
    output = " ".join(capsys.readouterr().out.replace("\\\n", " ").split())
    assert output.count(f"--init_checkpoint={files['output_dir']} --vocab_file=your_vocab.txt") == 2
    start, weights = open_checkpoint(golden / "bert_model.ckpt"), weights_in(files["output_dir"])
    for name in start.names:
        # One update moves a weight by at most the rate times 0.1 / sqrt(0.001), and the decay.
        assert np.abs(weights[name] - start.read(name)).max() < 0.01 * (0.1 / 0.001**0.5 + 0.1), name
    assert np.abs(weights["bert/pooler/dense/kernel"] - start.read("bert/pooler/dense/kernel")).max() > 0


@pytest.mark.usefixtures("no_graphs")
def test_checkpoints_and_configs_that_do_not_match_are_refused(files, golden_dir, tmp_path, write_records):
    golden = golden_dir / "pretraining_a"
    checkpoint = open_checkpoint(golden / "bert_model.ckpt")
    names = [name for name in checkpoint.names if not name.startswith("cls/")]
    save_checkpoint(tmp_path / "encoder" / "encoder.ckpt", {name: checkpoint.read(name) for name in names})
    write_records(files["input_file"], 8, vocab_size=211)
    flags = {**files, "bert_config_file": golden / "bert_config.json", "do_eval": True}
    flags["init_checkpoint"] = tmp_path / "encoder" / "encoder.ckpt"
    with pytest.raises(FileNotFoundError, match="encoder has no bert_config.json or config.json; put it"):
        run(without_config(flags))
    message = "encoder.ckpt lacks 7 of the model's 46 weights: cls/.*; take a checkpoint .* or give allow_"
    with pytest.raises(ValueError, match=message):
        run(flags)
    assert math.isfinite(run(flags, allow_partial_checkpoint=True)["loss"])
    config = json.loads((golden / "bert_config.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps({**config, "hidden_act": "gelu_erf"}))
    flags |= {"bert_config_file": tmp_path / "other.json", "init_checkpoint": golden / "bert_model.ckpt"}
    with pytest.raises(ValueError, match="bert_model.ckpt: hidden_act is 'gelu_erf', not 'gelu'; give the config"):
        run(flags, do_train=True)
    assert not (files["output_dir"] / "run_config.json").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, "nothing to do: give do_train, do_eval or both"),
        ({"do_train": True, "max_seq_length": 17}, "max_seq_length=17 is more than the 16 positions of"),
        (
            {"do_train": True, "gradient_accumulation_steps": 3},
            r"train_batch_size=8 cannot be divided evenly by 1 device x gradient_accumulation_steps=3; give a",
        ),
        ({"do_eval": True}, "nothing to evaluate: output_dir=.*model holds no checkpoint; train first"),
        (
            {"do_train": True, "eval_steps": 2},
            "eval_steps has no effect without do_eval; give both, or leave it out",
        ),
        ({"do_train": True, "learning_rate": 0}, "learning_rate=0 is not a number above 0"),
        ({"do_train": True, "learning_rate": "nan"}, "learning_rate=nan: 'nan' is not a number"),
        (
            {"do_train": True, "pack": True, "jit": True},
            "pack gives each batch .*, and jit compiles again for each",
        ),
    ],
)
def test_mistakes_are_explained_before_any_training(files, flags, message):
    with pytest.raises(ValueError, match=message):
        run({**files, **flags})
    assert not files["output_dir"].exists()


def test_packed_rows_are_not_for_a_tpu(files, monkeypatch):
    monkeypatch.setattr(tpu, "_has_library", lambda: True)
    with pytest.raises(ValueError, match="pack gives each batch .*, but a TPU needs the same number"):
        run(files, do_train=True, pack=True, use_tpu=True)
    assert not files["output_dir"].exists()


def test_records_that_are_both_trained_and_evaluated_on_are_named(files, capsys):
    not_possible = {"objective": "electra", "generator_size": 0.001}
    with pytest.raises(ValueError, match="generator_size"):
        run(files, do_train=True, do_eval=True, eval_file=files["input_file"], **not_possible)
    assert "train.tfrecord is also training data; its metrics say little" in capsys.readouterr().out


def test_a_vocabulary_that_does_not_belong_to_the_records_is_refused(files, tmp_path):
    (tmp_path / "words.txt").write_text("".join(f"word{number}\n" for number in range(40)))
    metadata = {"vocab_sha256": "0", "settings": {"vocab_file": "other.txt"}}
    files["input_file"].with_name("train.tfrecord.json").write_text(json.dumps(metadata))
    with pytest.raises(ValueError, match="is not the vocabulary that the records of input_file were built with"):
        run(files, do_train=True, vocab_file=tmp_path / "words.txt")


@pytest.mark.usefixtures("no_graphs")
def test_the_records_of_a_run_may_move_but_not_change_places(files, tmp_path, write_records):
    write_records(tmp_path / "b.tfrecord", 8)
    run(files, do_train=True, num_train_steps=1, input_file=f"{files['input_file']},{tmp_path}/b.tfrecord")
    (tmp_path / "moved").mkdir()
    names = [
        str(path.rename(tmp_path / "moved" / path.name)) for path in (files["input_file"], tmp_path / "b.tfrecord")
    ]
    with pytest.raises(ValueError, match=r"num_examples: file 1 \(b.tfrecord\) was not given and is 8 now"):
        run(files, do_train=True, num_train_steps=2, input_file=",".join(reversed(names)))
    run(files, do_train=True, num_train_steps=2, input_file=",".join(names))
    assert weights_in(files["output_dir"])["global_step"] == 2
    write_records(names[1], 8, seed=1)
    with pytest.raises(ValueError, match="holds a run with other settings: records content has changed; give the old"):
        run(files, do_train=True, num_train_steps=3, input_file=",".join(names))


def test_a_batch_that_is_too_large_to_evaluate_is_named(again, monkeypatch):
    def fail(self, batches):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(Evaluator, "evaluate", fail)
    with pytest.raises(ValueError, match="memory does not hold a batch of eval_batch_size; give a lower one"):
        run(again, do_train=False, eval_steps=0)


@pytest.mark.slow  # the demo
def test_the_demo_goes_from_text_to_an_evaluated_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    monkeypatch.setitem(demo._EXAMPLES, "dupe_factor", 1)
    shortened = {"num_train_steps": 30, "num_warmup_steps": 3, "max_eval_steps": 1}
    monkeypatch.setattr(demo, "_PRETRAINING", demo._PRETRAINING | shortened)
    metrics = run_pretraining.main(["run_pretraining.py"])
    model = tmp_path / "bert_demo" / "model"
    assert {"bert_config.json", "vocab.txt", "checkpoint", "eval_results.txt"} <= set(os.listdir(model))
    num_tokens = len((model / "vocab.txt").read_text().splitlines())
    assert metrics["masked_lm_loss"] < math.log(num_tokens), "not better than any token"
    output = capsys.readouterr().out
    assert "No flags were given, so this is a demo" in output
    (command,) = re.findall(r"the same as this command:\n(.*num_warmup_steps=3.*)\n", output.replace("\\\n", " "))
    # Neither a second run nor the command builds or trains anything.
    records = (tmp_path / "bert_demo" / "train.tfrecord").stat().st_mtime_ns
    assert run_pretraining.main(["run_pretraining.py"]) == metrics
    assert (tmp_path / "bert_demo" / "train.tfrecord").stat().st_mtime_ns == records
    assert run_pretraining.main(shlex.split(command)[1:]) == metrics
    assert capsys.readouterr().out.count("nothing to train") == 2
