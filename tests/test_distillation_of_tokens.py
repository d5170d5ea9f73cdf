"""Teachers of run_ner.py and run_squad.py, from flags to files."""

import keras
import numpy as np
import pytest
from eager import without_graphs
from known_models import TOKENS, make_config, write_model
from states import assert_bit_equal, weights_in
from tiny_squad import LEARNING, paragraphs, write_squad
from tiny_squad import write_start as write_squad_start
from training_runs import stop_after

import run_ner
import run_squad
from bert_keras.modeling import PretrainingModel

WORDS = {"paris": "B-LOC", "london": "B-LOC", "he": "B-PER", "she": "B-PER", "is": "O", "the": "O", "was": "O"}
TAGS = {"max_seq_length": 16, "train_batch_size": 8, "num_train_epochs": 15, "learning_rate": 0.003}
TEACHER_ONLY = {"label_loss_weight": 0, "soft_loss_weight": 1}


def call(program, flags, *actions):
    argv = [*(f"--{action}" for action in actions), *(f"--{name}={value}" for name, value in flags.items())]
    return program.main([f"{program.__name__}.py", *argv])


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """The flags of a run of run_ner.py that learns, and the folder of one that took two steps."""
    folder = tmp_path_factory.mktemp("tagger")
    draw = np.random.default_rng(1)
    for name, count in (("train", 64), ("dev", 16)):
        rows = ["\n".join(f"{word} {WORDS[word]}" for word in draw.choice(list(WORDS), 6)) for _ in range(count)]
        (folder / f"{name}.txt").write_text("\n\n".join(rows) + "\n")
    keras.utils.set_random_seed(1)
    start = write_model(folder / "start", PretrainingModel(make_config(hidden_size=16, hidden_act="gelu")), TOKENS)
    flags = TAGS | {"data_dir": folder, "init_checkpoint": start}
    with without_graphs():
        call(run_ner, flags | {"max_steps": 2, "output_dir": folder / "run"}, "do_train")
    return flags, folder / "run"


@pytest.mark.slow  # two runs; test_run_distillation.py learns from a teacher, test_distillation_loss.py has the losses
def test_a_tagger_learns_from_its_teacher(tagger, tmp_path):
    flags, _ = tagger
    assert call(run_ner, flags | {"output_dir": tmp_path / "teacher"}, "do_train", "do_eval")["f1"] == 1.0
    flags = flags | TEACHER_ONLY | {"teacher": tmp_path / "teacher", "max_steps": 80, "output_dir": tmp_path / "taught"}
    assert call(run_ner, flags, "do_train", "do_eval")["f1"] == 1.0


@pytest.mark.usefixtures("no_graphs")
def test_a_tagger_with_a_teacher_resumes_exactly(tagger, tmp_path, monkeypatch):
    flags, teacher = tagger
    flags = flags | TEACHER_ONLY | {"teacher": teacher, "max_steps": 5, "iterations_per_loop": 1}
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    call(run_ner, flags | {"output_dir": whole}, "do_train", "deterministic")
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        assert call(run_ner, flags | {"output_dir": halves}, "do_train", "deterministic") is None
    call(run_ner, flags | {"output_dir": halves}, "do_train", "deterministic")
    assert_bit_equal(*(weights_in(folder / "model.ckpt-5") for folder in (whole, halves)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tagger": "bilstm"}, "--teacher needs --tagger=linear, for the student and for the teacher"),
        ({"document_context": True}, "was trained with --document_context=False, but this run has .*=True"),
        ({"max_seq_length": 4096}, "--max_seq_length=4096 is more than"),
    ],
)
def test_mistakes_with_a_teacher_of_tags(tagger, tmp_path, changes, message):
    flags, teacher = tagger
    with pytest.raises(ValueError, match=message):
        call(run_ner, flags | {"teacher": teacher, "output_dir": tmp_path / "out"} | changes, "do_train")
    assert not (tmp_path / "out").exists()


def test_flags_of_a_teacher_need_one(tagger, tmp_path):
    with pytest.raises(ValueError, match="--temperature needs --do_train and --teacher; give both, or leave it out"):
        call(run_ner, tagger[0] | {"temperature": 3, "output_dir": tmp_path / "out"}, "do_train")


@pytest.fixture(scope="module")
def squad(tmp_path_factory):
    """The flags of a run of run_squad.py, without an output folder."""
    folder = tmp_path_factory.mktemp("squad")
    keras.utils.set_random_seed(1)
    return LEARNING | {
        "init_checkpoint": write_squad_start(folder / "start"),
        "train_file": write_squad(folder / "train.json", paragraphs(160, 1)),
        "eval_file": write_squad(folder / "dev.json", paragraphs(24, 2)),
    }


@pytest.mark.slow  # as above
def test_answers_are_learnt_from_a_teacher(squad, tmp_path):
    metrics = call(run_squad, squad | {"output_dir": tmp_path / "teacher"}, "do_train")
    taught = squad | TEACHER_ONLY | {"teacher": tmp_path / "teacher", "output_dir": tmp_path / "out"}
    assert call(run_squad, taught, "do_train")["f1"] > 0.9 * metrics["f1"] > 50.0


@pytest.mark.usefixtures("no_graphs")
def test_mistakes_with_a_teacher_of_answers(squad, tagger, tmp_path):
    call(run_squad, squad | {"max_steps": 1, "output_dir": tmp_path / "teacher"}, "do_train")
    flags = squad | {"teacher": tmp_path / "teacher", "output_dir": tmp_path / "out"}
    with pytest.raises(ValueError, match="was trained with --version_2_with_negative=False, but this run has .*=True"):
        call(run_squad, flags | {"version_2_with_negative": True}, "do_train")
    with pytest.raises(ValueError, match="is a model for token_classification; give a model of run_squad.py"):
        call(run_squad, flags | {"teacher": tagger[1]}, "do_train")
    assert not (tmp_path / "out").exists()
