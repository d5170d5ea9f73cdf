"""Pre-training of ELECTRA from flags to files: its metrics, its checkpoints, and the programs that read them."""

import dataclasses
import json
import math
import shutil

import pytest
from converted import convert
from eager import without_graphs
from pretraining_runs import TOKENS, WORDS, assert_continues, make_files, run, write_text
from rounding import assert_close
from states import assert_bit_equal, weights_in
from tiny_classes import write_rows
from tiny_squad import write_squad
from training_programs import run_classifier, run_ner, run_squad
from training_runs import assert_near, results_in, rows_of

from bert_keras.data_prep.create_pretraining_data import main as build_records
from bert_keras.modeling import ReplacedTokenModel, load_weights, open_checkpoint, weights_by_name
from bert_keras.modeling.objectives import replaced_tokens
from bert_keras.prediction import FeatureExtractor

METRICS = ["masked_lm_accuracy", "masked_lm_loss", "predicted_share", "replaced_share", "replaced_token_accuracy"]
METRICS += ["replaced_token_loss", "replaced_token_precision", "replaced_token_recall"]
SWITCHES = {"embedding_size": 6, "hidden_act": "gelu_erf", "pooler_act": "gelu_erf"}


def make_flags(folder, config, write_records, **changes):
    flags = make_files(folder, dataclasses.replace(config, **SWITCHES, **changes), write_records)
    flags |= {"objective": "electra", "generator_size": 0.5, "eval_file": folder / "held_out.tfrecord"}
    return flags | {"do_train": True, "do_eval": True, "num_train_steps": 4, "log_steps": 1}


@pytest.fixture
def flags(tmp_path, tiny_config, write_records):
    """The flags of a run of a few steps with dropout."""
    return make_flags(tmp_path, tiny_config, write_records)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_config, write_records):
    """The flags and metrics of a finished run with a vocabulary. Tests must not change its folder."""
    folder = tmp_path_factory.mktemp("trained")
    flags = make_flags(folder, tiny_config, write_records, vocab_size=len(TOKENS), max_position_embeddings=24)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    (folder / "train.tfrecord.json").write_text('{"do_lower_case": true}')
    write_records(folder / "train.tfrecord", 40, vocab_size=len(TOKENS))
    write_records(folder / "held_out.tfrecord", 11, seed=5, vocab_size=len(TOKENS))
    flags |= {"vocab_file": folder / "vocab.txt"}
    with without_graphs():
        return flags, run(flags)


@pytest.mark.usefixtures("no_graphs")
def test_a_run_evaluates_both_networks_and_saves_them(trained, tmp_path):
    flags, metrics = trained
    results = results_in(flags["output_dir"])
    assert list(results) == ["global_step", "loss", *METRICS]
    assert all(math.isfinite(float(row[name])) for row in rows_of(flags["output_dir"]) for name in METRICS)
    # The loss is the mean of the batches; the others are means of examples.
    expected = metrics["masked_lm_loss"] + 50 * metrics["replaced_token_loss"]
    assert metrics["loss"] == pytest.approx(expected, rel=0.05)
    names = {name for name in weights_in(flags["output_dir"]) if not name.endswith(("adam_m", "adam_v"))}
    assert {"loss/generator/embeddings/projection/kernel", "cls/replaced_token/output_weights"} <= names
    assert not any(name.startswith("cls/predictions") or "generator/pooler" in name for name in names)
    assert open_checkpoint(flags["output_dir"]).heads == ("replaced_token",)
    # An evaluation alone loads the generator, too.
    again = {**flags, "output_dir": shutil.copytree(flags["output_dir"], tmp_path / "again")}
    assert run(again, do_train=False) == metrics
    with pytest.raises(ValueError, match="objective was electra and is masked_lm now"):
        run({name: value for name, value in again.items() if name not in ("objective", "generator_size")})


@pytest.mark.usefixtures("no_graphs")
def test_the_discriminator_becomes_a_file_of_transformers_and_is_read_again(trained, tmp_path):
    flags, _ = trained
    folder = convert(flags["output_dir"], tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("electra", ["ElectraForPreTraining"])
    copy, whole = weights_in(folder), weights_in(flags["output_dir"])
    assert_bit_equal(copy, {name: whole[name] for name in copy})
    model = ReplacedTokenModel(open_checkpoint(tmp_path / "copy").config)
    report = load_weights(weights_by_name(model), tmp_path / "copy", new_allowed=("bert/pooler/*",))
    assert (report.new, report.unused) == (["bert/pooler/dense/kernel", "bert/pooler/dense/bias"], [])
    # Training goes further from it with a new generator, if that is wanted.
    further = {**flags, "output_dir": tmp_path / "further", "init_checkpoint": tmp_path / "copy", "do_train": False}
    with pytest.raises(ValueError, match="lacks .* weights: .*loss/generator/.*give allow_partial_checkpoint"):
        run(further)
    metrics = run(further, allow_partial_checkpoint=True)
    assert metrics is not None
    assert math.isfinite(metrics["loss"])
    found = FeatureExtractor(flags["output_dir"], [-1], max_seq_length=12)(["abc de"])[0]
    needed = FeatureExtractor(tmp_path / "copy", [-1], max_seq_length=12)(["abc de"])[0]
    assert_close(found.values, needed.values)


@pytest.mark.slow  # three programs
@pytest.mark.usefixtures("no_graphs")
def test_every_program_of_fine_tuning_starts_from_the_run(trained, tmp_path, capsys):
    start = [f"--init_checkpoint={trained[0]['output_dir']}", "--do_train", "--train_batch_size=2"]
    start += ["--max_seq_length=12", "--num_train_epochs=1"]
    rows = [(text, ("yes", "no")[number % 2]) for number, text in enumerate(WORDS)]
    texts = write_rows(tmp_path / "train.tsv", "text\tlabel", rows)
    (tmp_path / "train.txt").write_text("abc O\nde O\n\nij B-LOC\nkl O\n\n")
    question = {"id": "1", "question": "ij", "answers": [{"text": "abc", "answer_start": 0}]}
    data = write_squad(tmp_path / "train.json", [{"context": WORDS[0], "qas": [question]}] * 2)
    programs = (
        (run_classifier, f"--train_file={texts}"),
        (run_ner, f"--train_file={tmp_path / 'train.txt'}"),
        (run_squad, f"--train_file={data}", "--max_query_length=4"),
    )
    for number, (program, *given) in enumerate(programs):
        program.main([program.name, *given, *start, f"--output_dir={tmp_path / str(number)}"])
        output = " ".join(capsys.readouterr().out.split())
        assert "unused: cls/replaced_token/" in output
        assert "generator" not in output
        assert not any("generator" in name for name in open_checkpoint(tmp_path / str(number) / "model").names)


@pytest.mark.slow  # two runs; tests/training/test_compiled_steps.py compiles the steps
@pytest.mark.usefixtures("no_graphs")
def test_packed_rows_and_parts_change_nothing(tmp_path, tiny_config, write_records, monkeypatch):
    """Without dropout, and with a generator that replaces tokens by the most probable ones."""
    monkeypatch.setattr(replaced_tokens, "gumbel_noise", lambda shape, seed: 0.0)
    changes = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    plain = make_flags(tmp_path, tiny_config, write_records, **changes) | {"learning_rate": 1e-3}
    changed = {**plain, "pack": True, "gradient_accumulation_steps": 2, "output_dir": tmp_path / "packed"}
    assert run(plain)["loss"] == pytest.approx(run(changed)["loss"], rel=1e-4)
    assert_near(weights_in(changed["output_dir"]), weights_in(plain["output_dir"]), atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_a_stopped_run_continues_as_if_it_had_not(flags, tmp_path):
    """With masks that differ in each epoch, dropout, averages and samples of the generator."""
    write_text(tmp_path)
    arguments = ["--max_seq_length=12", "--max_predictions_per_seq=3", "--dynamic_masking", "--sentence_task=none"]
    arguments += [f"--vocab_file={tmp_path}/vocab.txt", f"--output_file={flags['input_file']}"]
    build_records(["create_pretraining_data.py", f"--input_file={tmp_path}/text.txt", *arguments])
    config = json.loads(flags["bert_config_file"].read_text())
    flags["bert_config_file"].write_text(json.dumps(config | {"vocab_size": len(TOKENS)}))
    flags |= {"deterministic": True, "iterations_per_loop": 1, "ema_decay": 0.9, "eval_file": flags["input_file"]}
    flags |= {"precision": "float16", "num_train_steps": 6}
    assert_continues(flags, run(flags), tmp_path / "stopped", 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"objective": "masked_lm"},
            "generator_size has no effect without objective=electra; give both, or leave it out",
        ),
        ({"teacher": "model"}, "teacher has no effect without objective=masked_lm; give both"),
        (
            {"masked_lm_loss_weight": 0, "replaced_token_loss_weight": 0},
            "masked_lm_loss_weight=0 and replaced_token_loss_weight=0 leave nothing to learn",
        ),
        ({"generator_size": 0.01}, "generator_size: a generator of 0.01 times .* hidden_size is 0, .*; give another"),
        ({"is_decoder": True}, "has is_decoder, but objective=electra needs a model that sees all tokens"),
    ],
)
def test_mistakes_are_explained_before_any_training(flags, changes, message):
    config = json.loads(flags["bert_config_file"].read_text())
    of_config = {name: value for name, value in changes.items() if name in config or name == "is_decoder"}
    flags["bert_config_file"].write_text(json.dumps(config | of_config))
    with pytest.raises(ValueError, match=message):
        run({**flags, **{name: value for name, value in changes.items() if name not in of_config}})
    assert not flags["output_dir"].exists()
