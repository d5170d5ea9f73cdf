"""Pre-training with the span boundary objective, from the text to fine-tuning."""

import dataclasses
import random

import numpy as np
import pytest
from eager import without_graphs
from pretraining_runs import argv_of, assert_continues, run
from states import weights_in
from tiny_bert import make_config
from training_programs import run_classifier, run_pretraining, run_sentence_vectors
from training_runs import assert_near, rows_of

from bert_keras.cli.flags import run_main
from bert_keras.data_prep.create_pretraining_data import main
from bert_keras.prediction import FillMask, SentenceScorer

LETTERS = "abcdefghijklmnopq"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
CONFIG = make_config(
    vocab_size=len(TOKENS),
    num_hidden_layers=1,
    max_position_embeddings=24,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
SPANS = ("--masked_spans=geometric", "--sentence_task=none")


def build(folder, name, *flags):
    """Builds examples of 24 tokens and returns their path."""
    arguments = {"input_file": "text.txt", "vocab_file": "vocab.txt", "output_file": name}
    arguments = [f"--{flag}={folder / value}" for flag, value in arguments.items()]
    arguments += ["--max_seq_length=24", "--max_predictions_per_seq=6", "--masked_lm_prob=0.25", "--dupe_factor=1"]
    main(["create_pretraining_data.py", *arguments, *flags])
    return folder / name


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("files"), random.Random(0)
    words = ["".join(rng.choices(LETTERS, k=rng.randint(1, 3))) for _ in range(40)]
    sentences = [" ".join(rng.choices(words, k=rng.randint(3, 8))) for _ in range(60)]
    (folder / "text.txt").write_text("\n\n".join("\n".join(sentences[n : n + 4]) for n in range(0, 60, 4)) + "\n")
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    CONFIG.to_json_file(folder / "bert_config.json")
    build(folder, "spans.tfrecord", *SPANS)
    return folder


@pytest.fixture(scope="module")
def plain(files):
    """The flags and metrics of a finished run. Tests must not change its folder."""
    flags = {
        "bert_config_file": files / "bert_config.json",
        "vocab_file": files / "vocab.txt",
        "input_file": files / "spans.tfrecord",
        "output_dir": files / "model",
        "objective": "span_boundary",
        "max_seq_length": 24,
        "max_predictions_per_seq": 6,
        "train_batch_size": 8,
        "learning_rate": 3e-3,
        "num_train_steps": 4,
        "num_warmup_steps": 1,
        "log_steps": 1,
        "do_train": True,
        "do_eval": True,
        "max_eval_steps": 2,
        "deterministic": True,
        "iterations_per_loop": 1,
    }
    with without_graphs():
        return flags, run(flags)


@pytest.mark.slow  # two runs; tests/modeling/test_span_boundary.py has the loss, test_packing.py the packed rows
@pytest.mark.usefixtures("no_graphs")
def test_a_packed_run_is_the_run_that_it_would_be_unpacked(plain, tmp_path):
    flags, metrics = plain
    packed = {**flags, "output_dir": tmp_path / "packed", "gradient_accumulation_steps": 2, "pack": True}
    assert run(packed) == pytest.approx(metrics, rel=1e-4)
    assert_near(weights_in(packed["output_dir"]), weights_in(flags["output_dir"]))
    for row in rows_of(flags["output_dir"])[:4]:
        masked_lm, of_spans = float(row["masked_lm_loss"]), float(row["span_boundary_loss"])
        assert float(row["loss"]) == pytest.approx(masked_lm + of_spans, rel=1e-4)
    moments = weights_in(flags["output_dir"])["cls/span_boundary/position_embeddings/adam_v"]
    assert np.all(moments[0] > 0)
    # Spans of at most 6 tokens have no later positions.
    assert not moments[6:].any()


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_a_stopped_run_continues_as_if_it_had_not(plain, tmp_path):
    flags, metrics = plain
    stopped = {**flags, "output_dir": tmp_path / "stopped"}
    assert_continues(flags, metrics, stopped["output_dir"], 2)
    # Evaluation alone, and another objective in the same folder.
    assert run(stopped, do_train=False) == metrics
    with pytest.raises(ValueError, match="objective was span_boundary and is masked_lm now; give the old settings"):
        run(stopped, objective="masked_lm")


@pytest.mark.slow  # several runs
@pytest.mark.usefixtures("no_graphs")
def test_the_head_is_ignored_after_pretraining(plain, tmp_path, capsys):
    flags, model = plain[0], plain[0]["output_dir"]
    assert len(FillMask(model, top_k=2)("a [MASK] c").masks) == 1
    assert SentenceScorer(model)("a b c").log_probability < 0
    rows = {"classes.tsv": "text\tlabel\na b\tx\nc d\ty\n", "pairs.tsv": "text\tother\na b\tb a\nc d\td c\n"}
    for name, text in rows.items():
        (tmp_path / name).write_text(text)
    shared = [f"--init_checkpoint={model}", "--do_train", "--train_batch_size=2", "--max_seq_length=16"]
    # test_run_pretraining_electra.py has the other programs.
    for program, data in {run_classifier: "classes.tsv", run_sentence_vectors: "pairs.tsv"}.items():
        output = tmp_path / program.name
        argv = [f"--train_file={tmp_path / data}", f"--output_dir={output}", *shared]
        argv += ["--num_train_epochs=1"]
        capsys.readouterr()
        program.main([f"{program.name}.py", *argv])
        printed = " ".join(capsys.readouterr().out.split())
        assert "unused: " in printed
        assert "cls/span_boundary/output_bias" in printed
        assert not any("span_boundary" in name for name in weights_in(output / "model"))
    # More pre-training without the objective, and the model as a teacher.
    more = {**flags, "objective": "masked_lm", "init_checkpoint": model, "output_dir": tmp_path / "more"}
    more |= {"num_train_steps": 1, "do_eval": False}
    with pytest.raises(ValueError, match="the model lacks: cls/span_boundary/.*allow_partial_checkpoint"):
        run(more)
    assert not (tmp_path / "more").exists()
    run(more, allow_partial_checkpoint=True)
    run({**more, "output_dir": tmp_path / "student"}, teacher=model, init_checkpoint=tmp_path / "more")


@pytest.mark.usefixtures("no_graphs")
def test_mistakes(files, plain, tmp_path, capsys):
    flags = {**plain[0], "output_dir": tmp_path / "model", "do_eval": False}
    dataclasses.replace(CONFIG, is_decoder=True).to_json_file(tmp_path / "left.json")
    bare = tmp_path / "bare.tfrecord"
    bare.write_bytes((files / "spans.tfrecord").read_bytes())
    refused = [
        build(files, "words.tfrecord", "--do_whole_word_mask", "--sentence_task=none"),
        build(files, "dynamic.tfrecord", "--dynamic_masking", "--sentence_task=none"),
        build(files, "pairs.tfrecord", "--masked_spans=geometric"),
        bare,  # without its metadata
    ]
    needed = "not all were built with --masked_spans and --sentence_task=none, which --objective=span_boundary needs;"
    mistakes = [({"input_file": path}, f"{path}: {needed}") for path in refused]
    mistakes += [
        ({"do_eval": True, "eval_file": refused[0]}, f"{refused[0]}: {needed}"),
        ({"bert_config_file": tmp_path / "left.json"}, f"{tmp_path / 'left.json'} has is_decoder, but --objective="),
        ({"masked_lm_loss_weight": 0}, "--masked_lm_loss_weight=0: --objective=span_boundary adds to the loss of"),
    ]
    for changes, message in mistakes:
        assert run_main(run_pretraining.main, argv_of(flags, **changes)) == 1
        assert message in " ".join(capsys.readouterr().err.split())
        assert not flags["output_dir"].exists()
    build(files, "ngrams.tfrecord", "--masked_spans=ngram", "--sentence_task=none")
    run(flags, input_file=files / "ngrams.tfrecord", num_train_steps=1)
