"""The programs with KERAS_BACKEND=jax: killed runs, several processes, and runs that continue elsewhere."""

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
from training_programs import run_classifier, run_ner, run_sentence_vectors, run_squad
from training_runs import assert_near, results_in, rows_of, stop_after
from workers import KILL, NOTHING, PRETRAIN, STOP, run_workers

from bert_keras.modeling import PretrainingModel, save_checkpoint, weights_by_name

PROGRAMS = {program.name: program for program in (run_classifier, run_ner, run_sentence_vectors, run_squad)}


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
    flags["do_eval"] = False  # the test of two processes evaluates
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
    results = {name: float(value) for name, value in results_in(tmp_path / "whole").items() if name != "global_step"}
    for name in ("to jax", "from jax"):
        with without_graphs():
            metrics = run(flags, output_dir=tmp_path / name)
        assert_near(weights_in(tmp_path / name), expected, atol=1e-5)
        assert metrics == pytest.approx(results, rel=1e-5)


# Prints a digest of the whole state at each checkpoint.
WITH_DIGESTS = (
    """
import zlib
from bert_keras.engine.loop import Hooks
save = Hooks.save
def saving(hooks, step, state, since_row):
    print("digest", step, zlib.crc32(b"".join(state[name].numpy().tobytes() for name in sorted(state))))
    save(hooks, step, state, since_row)
Hooks.save = saving
"""
    + PRETRAIN
)


def run_processes(count, flags, worker=NOTHING[0], step=0, action="", devices=2, **more):
    """Pre-trains in processes of JAX; returns the statuses, the errors, and the digests of each."""
    pytest.importorskip("jax")
    argv = argv_of(flags, **more)[1:]
    ended = run_workers(count, WITH_DIGESTS, worker, step, action, *argv, jax_devices=devices)
    digests = [[line for line in told.splitlines() if line.startswith("digest")] for _, told, _ in ended]
    return [status for status, _, _ in ended], [error for _, _, error in ended], digests


@pytest.mark.slow
def test_two_processes_train_and_evaluate_as_one_and_survive_their_loss(flags, tmp_path):
    statuses, errors, _ = run_processes(1, flags, devices=4, output_dir=tmp_path / "one")
    assert statuses == [0], errors
    statuses, errors, digests = run_processes(2, flags, output_dir=tmp_path / "two")
    assert statuses == [0, 0], errors
    assert len(digests[0]) == 3
    assert digests[0] == digests[1]
    one, two = (weights_in(tmp_path / name) for name in ("one", "two"))
    assert two["global_step"] == 12
    assert_near(two, one, atol=1e-6)
    numbers = [
        [float(value) for row in rows_of(tmp_path / name) for key, value in row.items() if value and key != "split"]
        for name in ("one", "two")
    ]
    assert numbers[1] == pytest.approx(numbers[0], rel=1e-5, abs=1e-6)
    for lost, step, saved in ((1, 6, 4), (0, 10, 8)):
        statuses, errors, _ = run_processes(2, flags, lost, step, KILL, output_dir=tmp_path / "killed")
        assert statuses[lost] == -signal.SIGKILL, errors
        assert weights_in(tmp_path / "killed")["global_step"] == saved
        assert statuses[1 - lost] not in (0, None), errors
        if lost == 1:  # else JAX itself ends the other
            assert statuses[0] == 1
            assert f"in all workers continues from step {saved}, the last that is saved" in errors[0]
    statuses, errors, digests = run_processes(2, flags, output_dir=tmp_path / "killed")
    assert statuses == [0, 0], errors
    assert digests[0] == digests[1]
    assert_bit_equal(weights_in(tmp_path / "killed"), two)
    assert rows_of(tmp_path / "killed") == rows_of(tmp_path / "two")


@pytest.mark.slow
@pytest.mark.parametrize(("count", "devices"), [(2, 2), pytest.param(4, 1, marks=pytest.mark.rare)])
def test_a_run_of_one_process_continues_in_several_which_stop_together(flags, tmp_path, count, devices):
    folder = {"output_dir": tmp_path / "run", "devices": devices}
    assert run_processes(1, flags, output_dir=tmp_path / "whole")[0] == [0]
    assert run_processes(1, flags, "all", 3, STOP, output_dir=tmp_path / "run")[0] == [143]
    statuses, errors, digests = run_processes(count, flags, 1, 5, STOP, **folder)
    assert statuses == [143] * count, errors
    assert weights_in(tmp_path / "run")["global_step"] == 6
    assert all(digest == digests[0] for digest in digests)
    statuses, errors, digests = run_processes(count, flags, **folder)
    assert statuses == [0] * count, errors
    assert all(digest == digests[0] for digest in digests)
    assert_near(weights_in(tmp_path / "run"), weights_in(tmp_path / "whole"), atol=1e-5)


@pytest.mark.slow
def test_two_processes_fine_tune_evaluate_and_predict_as_one(tmp_path):
    pytest.importorskip("jax")
    script = (
        "import sys\nfrom bert_keras.programs.command import PROGRAMS\n"
        "PROGRAMS['run_classifier'].main(['run_classifier.py', *sys.argv[2:]])\n"
    )
    flags = fine_tunings(tmp_path)["run_classifier"] | {"eval_steps": 2, "early_stopping": 5, "ema_decay": 0.9}
    for count, devices in ((1, 4), (2, 2)):
        argv = [f"--{name}={value}" for name, value in {**flags, "output_dir": tmp_path / str(count)}.items()]
        ended = run_workers(count, script, *argv, jax_devices=devices)
        assert [status for status, _, _ in ended] == [0] * count, ended
    assert_near(weights_in(tmp_path / "2"), weights_in(tmp_path / "1"), atol=1e-5)
    predictions = [np.loadtxt(tmp_path / name / "test_results.tsv") for name in ("1", "2")]
    assert len(predictions[0]) == 24
    np.testing.assert_allclose(*predictions, rtol=0, atol=1e-5)
    names = [{file.name for file in (tmp_path / name).iterdir() if "tfevents" not in file.name} for name in ("1", "2")]
    assert names[0] == names[1]


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
