"""Pre-training with a teacher: a student of the second of its two layers, and one of another width."""

import json

import numpy as np
import pytest
from converted import convert
from pretraining_runs import argv_of, assert_continues, make_files, run
from states import weights_in
from tiny_bert import make_config, make_model
from training_programs import run_pretraining
from training_runs import rows_of

from bert_keras.cli.flags import run_main
from bert_keras.modeling import PretrainingModel, load_weights, save_checkpoint, weights_by_name
from bert_keras.storage.tokenizer.vocabulary import vocabulary_digest

TEACHER = make_config(num_hidden_layers=2)


def write_teacher(folder, config):
    save_checkpoint(folder / "model.ckpt-1", weights_by_name(make_model(config)))
    config.to_json_file(folder / "bert_config.json")
    return folder


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return write_teacher(tmp_path_factory.mktemp("teacher"), TEACHER)


@pytest.fixture
def flags(tmp_path, tiny_config, write_records, teacher):
    given = make_files(tmp_path, tiny_config, write_records)
    return given | {"do_train": True, "teacher": teacher, "masked_lm_loss_weight": 2, "log_steps": 1}


@pytest.mark.usefixtures("no_graphs")
def test_a_student_of_every_second_layer_comes_closer_to_its_teacher(flags, teacher, tmp_path):
    copy = convert(teacher, tmp_path / "student", "tensorflow", layers="2")
    of_teacher, of_student = weights_in(teacher), weights_in(copy)
    for name, value in of_student.items():
        np.testing.assert_array_equal(value, of_teacher[name.replace("layer_0/", "layer_1/")], err_msg=name)
    assert len(of_student) == len(of_teacher) - 16

    flags["bert_config_file"] = copy / "bert_config.json"
    run(flags, init_checkpoint=copy, do_eval=True, num_train_steps=4)
    rows = [row for row in rows_of(flags["output_dir"]) if row["split"] == "train"]
    for name in ("soft_loss", "cosine_loss"):
        assert float(rows[-1][name]) < float(rows[0][name])
    assert "loss/projection" not in weights_in(flags["output_dir"])


@pytest.mark.slow  # three runs
@pytest.mark.usefixtures("no_graphs")
def test_a_narrower_student_resumes_exactly_and_can_be_loaded(flags, tmp_path, tiny_config):
    (tmp_path / "teacher").mkdir()
    flags["teacher"] = write_teacher(tmp_path / "teacher", tiny_config)
    config = make_config(hidden_size=4, num_hidden_layers=1)
    config.to_json_file(flags["bert_config_file"])
    flags |= {"num_train_steps": 6, "deterministic": True, "iterations_per_loop": 1}
    assert_continues(flags, run(flags), tmp_path / "stopped", 3)
    assert weights_in(flags["output_dir"])["loss/projection"].shape == (4, 8)
    assert not load_weights(weights_by_name(PretrainingModel(config)), tmp_path / "stopped").new


def test_mistakes(flags, tmp_path, capsys):
    other = make_config(num_hidden_layers=1, vocab_size=41)
    (tmp_path / "other").mkdir()
    write_teacher(tmp_path / "other", other)
    # The records name the vocabulary of the student.
    (tmp_path / "words.txt").write_text("".join(f"word{number}\n" for number in range(40)))
    digest = vocabulary_digest({f"word{number}": number for number in range(40)})
    stored = {"vocab_sha256": digest, "settings": {"vocab_file": str(tmp_path / "words.txt")}}
    flags["input_file"].with_name("train.tfrecord.json").write_text(json.dumps(stored))
    (tmp_path / "french").mkdir()
    french = write_teacher(tmp_path / "french", TEACHER)
    (french / "vocab.txt").write_text("".join(f"mot{number}\n" for number in range(40)))
    mistakes = {
        f"--teacher={french} has another vocabulary than {tmp_path / 'words.txt'}": {"teacher": french},
        f"--teacher={tmp_path / 'other'} has 41 tokens, but the student has 40": {"teacher": tmp_path / "other"},
    }
    for message, changes in mistakes.items():
        given = {name: value for name, value in {**flags, **changes}.items() if value is not None}
        assert run_main(run_pretraining.main, argv_of(given)) == 1
        assert message in capsys.readouterr().err
        assert not (flags["output_dir"] / "run_config.json").exists()
