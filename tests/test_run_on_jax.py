"""The programs with KERAS_BACKEND=jax: killed runs, and runs that continue on the other backend."""

import json
import shutil
import signal

import keras
import numpy as np
import pytest
import quick_start
import stopped_runs
from eager import without_graphs
from known_models import make_config, write_model
from other_backends import run_on
from pretraining_runs import argv_of, make_files, run
from states import assert_bit_equal, weights_in
from tiny_classes import VOCABULARY, texts, write_texts
from tiny_squad import VOCABULARY as SQUAD_VOCABULARY
from tiny_squad import paragraphs, write_squad
from training_runs import assert_near, rows_of, stop_after

from bert_keras.commands import run_classifier, run_ner, run_sentence_vectors, run_squad
from bert_keras.modeling import PretrainingModel, save_checkpoint, weights_by_name

PROGRAMS = {program.PROGRAM.name: program for program in (run_classifier, run_ner, run_sentence_vectors, run_squad)}


def run_on_jax(tmp_path, *command_lines, step=0, number=0, num_devices=1):
    """Runs command lines in a process on JAX; a signal with a number ends it before the step after `step`."""
    file = tmp_path / "command_lines.json"
    file.write_text(json.dumps(command_lines))
    status = -number if number == signal.SIGKILL else 0
    run_on(
        "jax",
        quick_start.__file__,
        stopped_runs.__file__,
        step,
        int(number),
        file,
        num_devices=num_devices,
        status=status,
    )


@pytest.fixture
def flags(tmp_path, tiny_config, write_records):
    """The flags of a pre-training with dropout, from a checkpoint, since the backends draw other initial weights."""
    assert tiny_config.hidden_dropout_prob == tiny_config.attention_probs_dropout_prob == 0.1
    save_checkpoint(tmp_path / "start" / "model.ckpt-1", weights_by_name(PretrainingModel(tiny_config)))
    flags = make_files(tmp_path, tiny_config, write_records) | {"do_train": True, "do_eval": True, "log_steps": 1}
    return flags | {"init_checkpoint": tmp_path / "start" / "model.ckpt-1", "learning_rate": 0.001}


@pytest.mark.slow
def test_a_killed_run_continues_bit_by_bit(flags, tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "false")  # each run compiles, as those of users do
    whole, killed = (argv_of(flags, output_dir=tmp_path / name, jit=True) for name in ("whole", "killed"))
    run_on_jax(tmp_path, whole)
    run_on_jax(tmp_path, killed, step=6, number=signal.SIGKILL)
    assert json.loads((tmp_path / "killed" / "state.json").read_text())["end"] is None
    run_on_jax(tmp_path, killed)
    assert_bit_equal(weights_in(tmp_path / "killed"), weights_in(tmp_path / "whole"))
    assert rows_of(tmp_path / "killed") == rows_of(tmp_path / "whole")


@pytest.mark.slow
def test_a_pretraining_continues_on_the_other_backend(flags, tmp_path):
    with without_graphs():
        run(flags, output_dir=tmp_path / "whole")
        with pytest.MonkeyPatch.context() as patch:
            stop_after(patch, 6)
            assert run(flags, output_dir=tmp_path / "to jax") is None
    run_on_jax(tmp_path, argv_of(flags, output_dir=tmp_path / "to jax"))
    run_on_jax(tmp_path, argv_of(flags, output_dir=tmp_path / "from jax"), step=6, number=signal.SIGTERM)
    expected = weights_in(tmp_path / "whole")
    assert expected["global_step"] == 12
    for name in ("to jax", "from jax"):
        with without_graphs():
            metrics = run(flags, output_dir=tmp_path / name)
        assert_near(weights_in(tmp_path / name), expected, atol=1e-5)
        assert metrics == pytest.approx(rows_of_last_evaluation(tmp_path / "whole"), rel=1e-5)


def rows_of_last_evaluation(folder):
    lines = (folder / "eval_results.txt").read_text().splitlines()
    results = {name: float(value) for name, value in (line.split(" = ") for line in lines)}
    return {name: value for name, value in results.items() if name != "global_step"}


def fine_tunings(folder):
    """Writes data and models, and returns the flags of each program."""
    keras.utils.set_random_seed(1)
    sizes = {"num_hidden_layers": 1, "hidden_size": 16, "hidden_act": "gelu", "max_position_embeddings": 24}
    starts = {
        name: write_model(folder / name, PretrainingModel(make_config(vocab_size=len(tokens), **sizes)), tokens)
        for name, tokens in {"start": VOCABULARY, "squad": SQUAD_VOCABULARY}.items()
    }
    for name, seed in (("train", 1), ("dev", 2), ("test", 3)):
        tagged = (
            "\n".join(f"{word} {'B-X' if word in 'good bad' else 'O'}" for word in text.split())
            for text, _ in texts(24, seed)
        )
        (folder / f"{name}.txt").write_text("\n\n".join(tagged) + "\n")
    pairs = [f"{text}\t{other}" for (text, _), (other, _) in zip(texts(24, 4), texts(24, 5), strict=True)]
    (folder / "pairs.tsv").write_text("\n".join(["anchor\tpositive", *pairs]) + "\n")
    shared = {"max_seq_length": 12, "train_batch_size": 8, "learning_rate": 0.001, "log_steps": 1, "do_train": True}
    shared["init_checkpoint"] = starts["start"]
    table = {name: write_texts(folder / f"{name}.csv", 24, 1) for name in ("train", "dev")}
    predicted = {"do_eval": True, "do_predict": True}
    squad = {name: write_squad(folder / f"{name}.json", paragraphs(12, seed)) for seed, name in enumerate(table)}
    lengths = {"doc_stride": 4, "max_query_length": 4, "max_answer_length": 4}
    return {
        "run_classifier": {
            **(shared | predicted),
            "train_file": table["train"],
            "eval_file": table["dev"],
            "predict_file": table["dev"],
            "max_steps": 6,
            "gradient_accumulation_steps": 2,
        },
        "run_ner": {**shared, **predicted, "data_dir": folder, "max_steps": 6},
        "run_sentence_vectors": {
            **shared,
            "train_file": folder / "pairs.tsv",
            "max_steps": 6,
            "gradient_accumulation_steps": 2,
        },
        "run_squad": {
            **shared,
            **lengths,
            "init_checkpoint": starts["squad"],
            "train_file": squad["train"],
            "predict_file": squad["dev"],
            "do_predict": True,
            "num_train_epochs": 2,
        },
    }


@pytest.mark.slow
def test_each_fine_tuning_continues_on_several_devices_of_jax(tmp_path):
    """The first steps are on TensorFlow, since the backends draw other weights for a new head."""
    made, command_lines = fine_tunings(tmp_path), []
    for name, flags in made.items():
        folders = [tmp_path / backend / name for backend in ("tensorflow", "jax")]
        of_backends = [
            [f"{name}.py", *(f"--{flag}={value}" for flag, value in {**flags, "output_dir": folder}.items())]
            for folder in folders
        ]
        with without_graphs():
            with pytest.MonkeyPatch.context() as patch:
                stop_after(patch, 2)
                PROGRAMS[name].main(of_backends[0])
            shutil.copytree(*folders)
            PROGRAMS[name].main(of_backends[0])
        command_lines.append(of_backends[1])
    run_on_jax(tmp_path, *command_lines, num_devices=4)
    for name in made:
        expected, found = (tmp_path / backend / name for backend in ("tensorflow", "jax"))
        assert weights_in(found)["global_step"] > 2
        assert_near(weights_in(found), weights_in(expected), atol=1e-5)
        numbers, expected_numbers = (
            [float(value) for row in rows_of(folder) for name, value in row.items() if value and name != "split"]
            for folder in (found, expected)
        )
        assert numbers == pytest.approx(expected_numbers, rel=1e-4, abs=1e-5)
        names, expected_names = (
            {file.name for file in folder.iterdir() if "tfevents" not in file.name} for folder in (found, expected)
        )
        assert names == expected_names
    predictions = [
        np.loadtxt(tmp_path / name / "run_classifier" / "test_results.tsv") for name in ("tensorflow", "jax")
    ]
    np.testing.assert_allclose(*predictions, rtol=0, atol=1e-4)
