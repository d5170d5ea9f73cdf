"""The start of a fine-tuning program rejects contradictory flags before it reads any data."""

import json
import shutil

import pytest
from made_up_task import MadeUpSettings, open_run
from training_programs import (
    run_classifier,
    run_few_shot,
    run_ner,
    run_pretraining,
    run_reranker,
    run_sentence_vectors,
    run_squad,
)

from bert_keras.modeling import ClassifierModel, read_config, save_checkpoint, weights_by_name
from bert_keras.tasks.finetuning.opening import open_fine_tuning


@pytest.fixture
def trained(start, tmp_path):
    """The folder of a run of three classes: a newest checkpoint and, from an earlier step, the model to use."""
    folder = tmp_path / "trained"
    weights = weights_by_name(ClassifierModel(read_config(start), 3))
    (folder / "model").mkdir(parents=True)
    for path, step in ((folder, 6), (folder / "model", 4)):
        save_checkpoint(path / f"model.ckpt-{step}", weights)
        (path / "checkpoint").write_text(f'model_checkpoint_path: "model.ckpt-{step}"\n')
    for name in ("bert_config.json", "vocab.txt"):
        (folder / "model" / name).write_bytes((start / name).read_bytes())
    (folder / "model" / "tokenizer_config.json").write_text('{"do_lower_case": false, "model_max_length": 16}')
    task = {"task": "classification", "labels": ["a", "b", "c"], "max_seq_length": 6}
    (folder / "model" / "task.json").write_text(json.dumps(task))
    settings = {"init_checkpoint": str(start), "max_seq_length": 7, "eval_steps": 2, "do_train": True, "do_eval": True}
    config = {"program": "run_made_up", "settings": settings, "facts": {}}
    (folder / "run_config.json").write_text(json.dumps(config))
    return folder


def test_training_starts_from_what_is_given(start, tmp_path):
    opened = open_run(
        do_train=True, init_checkpoint=start, output_dir=tmp_path, learning_rate="1e-5,2e-5", do_eval=True
    )
    assert opened.files.checkpoint.prefix == str(start / "bert_model.ckpt")
    assert opened.files.preparation.do_lower_case is True
    assert opened.settings.learning_rate == (1e-5, 2e-5)
    assert opened.stored is None


def test_training_from_the_folder_of_a_run_starts_from_its_best_model(trained, tmp_path):
    opened = open_run(do_train=True, init_checkpoint=trained, output_dir=tmp_path / "new")
    assert opened.files.checkpoint.prefix == str(trained / "model" / "model.ckpt-4")
    assert opened.files.preparation.do_lower_case is False
    assert opened.stored is None
    assert opened.settings.init_checkpoint == str(trained)


@pytest.mark.parametrize(
    ("name", "folder"), [("output_dir", "."), ("init_checkpoint", "."), ("init_checkpoint", "model")]
)
def test_without_training_the_model_that_is_there_is_opened(trained, tmp_path, name, folder):
    flags = {"output_dir": tmp_path / "new", name: trained / folder}
    opened = open_run(do_predict=True, **flags)
    assert opened.files.checkpoint.prefix == str(trained / "model" / "model.ckpt-4")
    assert opened.stored["labels"] == ["a", "b", "c"]
    # The setting of the training replaces the flag's default; an explicit flag overrides it.
    assert opened.settings.max_seq_length == 6
    assert open_run(do_predict=True, max_seq_length=5, **flags).settings.max_seq_length == 5


def test_a_run_that_was_interrupted_is_asked_as_it_is(trained, tmp_path):
    """It does not open the fine-tuned model that it started from, whose labels may differ."""
    folder = tmp_path / "interrupted"
    folder.mkdir()
    config = json.loads((trained / "run_config.json").read_text())
    config["settings"]["init_checkpoint"] = str(trained)
    (folder / "run_config.json").write_text(json.dumps(config))
    for path in trained.glob("model.ckpt-6.*"):
        (folder / path.name).write_bytes(path.read_bytes())
    opened = open_run(do_eval=True, output_dir=folder)
    assert opened.stored is None
    assert opened.settings.max_seq_length == 7


def test_a_model_of_another_program_is_refused(trained, tmp_path):
    task = json.loads((trained / "model" / "task.json").read_text())
    (trained / "model" / "task.json").write_text(json.dumps({**task, "task": "question_answering"}))
    with pytest.raises(
        ValueError, match=r"the model in .*model was trained for question_answering; give one from run_made_up"
    ):
        open_run(do_predict=True, init_checkpoint=trained, output_dir=tmp_path / "new")


def test_what_a_model_was_built_with_may_not_be_given_otherwise(trained, tmp_path):
    def open_with(length):
        given = {"init_checkpoint": trained, "output_dir": tmp_path / "new", "do_predict": True}
        settings = MadeUpSettings.from_arguments("made_up", given | {"max_seq_length": length})
        return open_fine_tuning(settings, "run_made_up", ("classification",), (), ("max_seq_length",))

    assert open_with(6).settings.max_seq_length == 6
    with pytest.raises(ValueError, match="max_seq_length=5, but the model has the max_seq_length 6; leave it out"):
        open_with(5)


def test_a_run_config_is_taken_and_overridden(start, tmp_path):
    settings = {"do_train": True, "init_checkpoint": str(start), "learning_rate": [1e-5], "seed": 3}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"program": "run_made_up", "settings": settings}))
    opened = open_run(run_config=path, output_dir=tmp_path / "new", seed=4)
    assert (opened.settings.learning_rate, opened.settings.seed) == ((1e-5,), 4)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, "nothing to do: give one or more of do_train, do_eval, do_predict"),
        ({"do_train": True, "output_dir": None}, "missing: output_dir"),
        (
            {"do_train": True, "init_checkpoint": None},
            r"missing: init_checkpoint, the model to start from \(or, to start from random numbers, "
            r"bert_config_file, vocab_file\)",
        ),
        (
            {"do_train": True, "init_checkpoint": None, "vocab_file": "vocab.txt"},
            r"missing: init_checkpoint, the model to start from \(or, to start from random numbers, "
            r"bert_config_file\)",
        ),
        ({"do_eval": True, "init_checkpoint": None}, "output_dir=.* does not contain a model; train one with"),
        ({"do_train": True, "num_seeds": 2}, "several seeds or settings are compared by an evaluation; give do_eval"),
        ({"do_train": True, "learning_rate": "1e-5,2e-5"}, "several seeds or settings are compared by an evaluation"),
        ({"do_train": True, "eval_steps": 5}, "eval_steps has no effect without do_eval; give both, or leave"),
        (
            {"do_train": True, "do_eval": True, "max_steps": 9, "num_train_epochs": "2,3"},
            "max_steps=9 replaces the epochs, but num_train_epochs has several values; leave out one of the two",
        ),
        (
            {"do_train": True, "max_seq_length": 17},
            "max_seq_length=17 is more than the 16 positions that the model has; give 16 or less",
        ),
        (
            {"do_train": True, "lora_rank": 9},
            "lora_rank is 9, but must be a whole number from 1 to the hidden size 8",
        ),
        ({"do_train": True, "lora_rank": 1, "lora_alpha": 0}, "lora_alpha is 0.0, but must be above 0"),
        (
            {"do_train": True, "lora_rank": 1, "lora_targets": "query,pooler"},
            "lora_targets are pooler; give one or more of query, key, value, attention_output, intermediate, output",
        ),
        ({"do_train": True, "lora_alpha": 4}, "lora_alpha has no effect without lora_rank; give both, or leave it out"),
        ({"do_train": True, "freeze_layers": 3}, "freeze_layers=3, but the model has 1 layers; give 1 or less"),
    ],
)
def test_what_does_not_go_together_is_refused(start, tmp_path, flags, message):
    given = {"init_checkpoint": start, "output_dir": tmp_path / "run", **flags}
    with pytest.raises(ValueError, match=message):
        open_run(**{name: value for name, value in given.items() if value is not None})
    assert not (tmp_path / "run").exists()


def test_an_evaluation_in_training_says_nothing_about_predicting_alone(trained):
    """The run was trained with --eval_steps; its settings apply, and this command has nothing to evaluate."""
    opened = open_run(do_predict=True, output_dir=trained)
    assert (opened.settings.eval_steps, opened.settings.do_eval) == (2, False)


PROGRAMS = (
    *(run_classifier, run_few_shot, run_ner, run_pretraining),
    *(run_reranker, run_sentence_vectors, run_squad),
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
@pytest.mark.parametrize("given", ["START", "RUN/other", "hf://owner/name", "nowhere"])
def test_a_checkpoint_beside_a_run_that_has_its_own_is_refused_by_every_program(trained, start, program, given):
    config = json.loads((trained / "run_config.json").read_text())
    (trained / "run_config.json").write_text(json.dumps({**config, "program": program.name, "settings": {}}))
    action = "do_predict" if program is run_squad else "do_eval"
    shutil.copytree(start, trained / "other")
    given = given.replace("START", str(start)).replace("RUN", str(trained))
    argv = [program.name, f"--{action}", f"--output_dir={trained}", f"--init_checkpoint={given}"]
    message = "does not exist" if given == "nowhere" else f"so init_checkpoint={given} would not be used; give another"
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        program.main(argv)
