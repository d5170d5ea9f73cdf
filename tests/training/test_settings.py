"""From flags to settings: paths, settings of an earlier run, and the flags that override them."""

import json
import os

import pytest

from bert_keras.engine.given_settings import completed, over_run
from bert_keras.settings.fields import setting_fields
from bert_keras.settings.groups import EvaluatedSettings, values_of


def parsed(*arguments):
    return EvaluatedSettings.from_argv(["run", *arguments])


def write_config(path, settings, program="run_made_up"):
    path.write_text(json.dumps({"program": program, "settings": settings, "facts": {}}))
    return str(path)


def test_settings_are_all_flags_with_paths_made_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    values = parsed("--output_dir=run", "--init_checkpoint=gs://bucket/model", "--learning_rate=2e-5,3e-5")
    settings = completed(values)
    assert settings.output_dir == str(tmp_path / "run")
    assert settings.init_checkpoint == "gs://bucket/model"
    assert settings.vocab_file is None
    assert settings.learning_rate == (2e-5, 3e-5)
    assert values_of(settings).keys() == {field.name for field in setting_fields(EvaluatedSettings)} - {"run_config"}


def test_a_released_config_may_be_named_and_globs_may_be_listed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    values = parsed("--bert_config_file=uncased_L-12_H-768_A-12", "--vocab_file=a*.txt, b.txt")
    settings = completed(values, ("vocab_file",))
    assert settings.bert_config_file == "uncased_L-12_H-768_A-12"
    assert settings.vocab_file == f"{tmp_path / 'a*.txt'},{tmp_path / 'b.txt'}"
    settings = completed(parsed("--bert_config_file=other.json"))
    assert settings.bert_config_file == str(tmp_path / "other.json")


def test_a_name_on_hugging_face_stays_as_it_is():
    values = parsed("--bert_config_file=hf://owner/name@v1")
    assert completed(values).bert_config_file == "hf://owner/name@v1"


def test_the_number_of_cores_is_known_only_where_it_was_given():
    assert completed(parsed()).num_tpu_cores is None
    assert completed(parsed("--num_tpu_cores=8")).num_tpu_cores == 8


def test_a_run_config_gives_what_the_command_line_does_not(tmp_path):
    stored = {"learning_rate": [1e-5, 2e-5], "train_batch_size": 16, "seed": 7, "do_train": True, "freeze_layers": None}
    path = write_config(tmp_path / "config.json", stored)
    values = over_run(parsed("--seed=8", f"--run_config={path}"), "run_made_up")
    assert (values.learning_rate, values.train_batch_size) == ((1e-5, 2e-5), (16,))
    assert (values.seed, values.do_train, values.freeze_layers) == (8, True, None)


def test_settings_that_do_not_fit_or_are_of_another_program_are_refused(tmp_path):
    path = write_config(tmp_path / "config.json", {"seed": -1})
    with pytest.raises(ValueError, match="config.json has -1 for 'seed': -1 is not a whole number from 0 to 2,147,48"):
        over_run(parsed(f"--run_config={path}"), "run_made_up")
    path = write_config(tmp_path / "config.json", {}, "run_squad")
    with pytest.raises(ValueError, match=r"config.json is from run_squad; give one from run_made_up"):
        over_run(parsed(f"--run_config={path}"), "run_made_up")
    with pytest.raises(FileNotFoundError):
        over_run(parsed(f"--run_config={tmp_path / 'none.json'}"), "run_made_up")


def test_without_training_the_settings_of_the_run_are_taken_but_not_what_it_did(tmp_path, messages):
    stored = {"use_tpu": True, "tpu_name": "old", "strategy": "mirrored", "master": "grpc://old", "num_tpu_cores": 4}
    stored |= {"max_seq_length": 64, "do_train": True, "do_eval": True, "do_predict": True, "predict_batch_size": 2}
    write_config(tmp_path / "run_config.json", stored)
    values = over_run(parsed(f"--output_dir={tmp_path}", "--do_predict", "--predict_batch_size=3"), "run_made_up")
    assert (values.max_seq_length, values.predict_batch_size) == (64, 3)
    assert (values.use_tpu, values.tpu_name, values.strategy, values.num_tpu_cores) == (False, None, "auto", 8)
    assert (values.do_train, values.do_eval, values.do_predict) == (False, False, True)
    assert messages == [f"settings that were not given are taken from the run in {tmp_path}"]


@pytest.mark.parametrize("arguments", [["--do_train"], ["--run_config"], []])
def test_the_settings_of_the_run_are_left_alone(tmp_path, arguments, messages):
    if arguments:
        write_config(tmp_path / "run_config.json", {"max_seq_length": 64})
    if arguments == ["--run_config"]:
        arguments = [f"--run_config={write_config(tmp_path / 'other.json', {})}"]
    values = over_run(parsed(f"--output_dir={tmp_path}", *arguments), "run_made_up")
    assert values.max_seq_length == 128
    assert messages == []
    assert over_run(parsed(), "run_made_up") == parsed()
    assert ("run_config.json" in os.listdir(tmp_path)) == bool(arguments)
