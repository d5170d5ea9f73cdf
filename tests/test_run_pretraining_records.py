"""Pre-training on records like those of later models: without masks, without a sentence task, compressed."""

import contextlib
import json
import math
import pathlib

import numpy as np
import pytest
from pretraining_runs import make_files, run

from bert_keras.data_prep import build_vocab
from bert_keras.data_prep.create_pretraining_data import main
from bert_keras.data_prep.records.reading import open_records
from bert_keras.engine.input.pretraining_batches import evaluation_batches
from bert_keras.modeling import open_checkpoint, save_checkpoint
from bert_keras.settings.fields import setting_fields
from bert_keras.storage.tokenizer.vocabulary import vocabulary_digest
from bert_keras.tasks.pretraining.input import read_input
from bert_keras.tasks.pretraining.settings import PretrainingSettings


def entropy_of_masked_tokens(path):
    """Returns the loss of predicting the frequency of each masked token, the minimum without context."""
    records = open_records(str(path), 12, 3, 40)
    ids = [batch["masked_lm_ids"][batch["masked_lm_weights"] > 0] for batch in evaluation_batches(records, 4)]
    _, counts = np.unique(np.concatenate(ids), return_counts=True)
    shares = counts / counts.sum()
    return -(shares * np.log(shares)).sum()


def test_training_needs_no_flag_for_records_without_masks_and_labels(tmp_path, tiny_config, write_records):
    flags = make_files(tmp_path, tiny_config, write_records)
    letters = [chr(code) for code in range(ord("a"), ord("r"))]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    (tmp_path / "text.txt").write_text("abc de\nfgh ij\nkl mno p\n\npq ab\ncde fg hij\n\n" * 20)
    arguments = [
        "--max_seq_length=12",
        "--max_predictions_per_seq=3",
        "--dupe_factor=1",
        f"--vocab_file={tmp_path}/vocab.txt",
    ]
    arguments += ["--sentence_task=none", "--dynamic_masking", f"--output_file={tmp_path}/new.tfrecord.gz"]
    main(["create_pretraining_data.py", f"--input_file={tmp_path}/text.txt", *arguments])
    flags = {**flags, "input_file": tmp_path / "new.tfrecord.gz", "eval_file": tmp_path / "new.tfrecord.gz"}
    metrics = run(flags, do_train=True, do_eval=True, num_train_steps=200, save_checkpoints_steps=100)
    assert metrics["masked_lm_loss"] < 0.9 * entropy_of_masked_tokens(flags["input_file"])
    assert metrics["next_sentence_loss"] == metrics["next_sentence_accuracy"] == 0
    # Without a sentence task, training does not change the weights of that task.
    first, last = (open_checkpoint(flags["output_dir"] / f"model.ckpt-{step}") for step in (100, 200))
    for name in ("bert/pooler/dense/kernel", "cls/seq_relationship/output_weights"):
        np.testing.assert_array_equal(first.read(name), last.read(name))


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize(("vocab_size", "has_vocab_file"), [(30, True), (30, False), (60, True), (46, False)])
def test_random_weights_take_their_size_from_the_vocabulary(
    tmp_path, tiny_config, write_records, capsys, vocab_size, has_vocab_file
):
    """From the text to a model, with a config of 40 tokens."""
    flags = make_files(tmp_path, tiny_config, write_records)
    (tmp_path / "text.txt").write_text("abc de\nfgh ij\nkl mno p\n\npq ab\ncde fg hij\n\n" * 9)
    vocabulary = ["program", f"--input_file={tmp_path}/text.txt", f"--vocab_file={tmp_path}/new/vocab.txt"]
    (tmp_path / "new").mkdir()
    num_tokens = build_vocab.main([*vocabulary, f"--vocab_size={vocab_size + 4}", "--num_unused=4"])["vocab_size"]
    assert num_tokens != 40
    more = ["--max_seq_length=12", "--max_predictions_per_seq=3", "--dupe_factor=1"]
    main([*vocabulary, f"--output_file={tmp_path}/new.tfrecord", *more])
    flags |= {"input_file": tmp_path / "new.tfrecord"}
    flags |= {"vocab_file": tmp_path / "new" / "vocab.txt"} if has_vocab_file else {}
    capsys.readouterr()
    for steps in (2, 3):
        run(flags, do_train=True, num_train_steps=steps, save_checkpoints_steps=1)
    config = json.loads((flags["output_dir"] / "bert_config.json").read_text())
    assert config == {**config, **tiny_config.to_dict(), "vocab_size": num_tokens}
    # Also the run that was not given its vocabulary has a copy: the records name the file.
    assert (flags["output_dir"] / "vocab.txt").read_bytes() == (tmp_path / "new" / "vocab.txt").read_bytes()
    source = flags["vocab_file"] if has_vocab_file else flags["input_file"]
    line = f"random weights for the {num_tokens} tokens of {source} (vocab_size in the config: 40)"
    assert line in capsys.readouterr().out.replace("\n", " ")
    weights = open_checkpoint(flags["output_dir"] / "model.ckpt-3")
    assert weights.read("bert/embeddings/word_embeddings").shape[0] == num_tokens
    # The rows of a checkpoint belong to its own vocabulary.
    run({name: flags[name] for name in flags if name != "do_train"}, do_eval=True, max_eval_steps=1)
    other = flags | {"output_dir": tmp_path / "other", "init_checkpoint": flags["output_dir"] / "model.ckpt-3"}
    with pytest.raises(ValueError, match="in the checkpoint and .40, 8. in the model; take the config"):
        run(other | {"vocab_file": source} if has_vocab_file else other, do_train=True, num_train_steps=2)


def note(path, sentence_task):
    pathlib.Path(f"{path}.json").write_text(
        json.dumps({"kind": "pretraining", "format_version": 1, "settings": {"sentence_task": sentence_task}})
    )


def test_a_weight_for_the_sentence_task_needs_records_with_one(tmp_path, tiny_config, write_records):
    flags = make_files(tmp_path, tiny_config, write_records)
    note(flags["input_file"], "none")
    message = "^next_sentence_loss_weight does not apply: the records have no sentence task; leave it out$"
    with pytest.raises(ValueError, match=message):
        run(flags, do_train=True, next_sentence_loss_weight=2)
    assert not (flags["output_dir"] / "run_config.json").exists()


def test_without_a_sentence_task_a_checkpoint_may_lack_its_head(golden_dir, tmp_path, tiny_config, write_records):
    golden, flags = golden_dir / "pretraining_a", make_files(tmp_path, tiny_config, write_records)
    checkpoint = open_checkpoint(golden / "bert_model.ckpt")
    names = [name for name in checkpoint.names if not name.startswith(("cls/seq_relationship", "bert/pooler"))]
    save_checkpoint(tmp_path / "masked" / "masked.ckpt", {name: checkpoint.read(name) for name in names})
    write_records(flags["input_file"], 8, vocab_size=211)
    flags |= {"bert_config_file": golden / "bert_config.json", "init_checkpoint": tmp_path / "masked" / "masked.ckpt"}
    with pytest.raises(ValueError, match="masked.ckpt lacks 4 of the model's 46 weights: bert/pooler/dense/"):
        run(flags, do_eval=True)
    note(flags["input_file"], "none")
    assert math.isfinite(run(flags, do_eval=True)["masked_lm_loss"])


def test_one_file_with_a_sentence_task_is_enough(tmp_path, write_records):
    for name, sentence_task in (("a", "none"), ("b", "next_sentence"), ("c", "none")):
        write_records(tmp_path / f"{name}.tfrecord", 2)
        note(tmp_path / f"{name}.tfrecord", sentence_task)
    write_records(tmp_path / "d.tfrecord", 2)  # like the original BERT, without metadata
    for files, has_sentence_task in {"ac": False, "ab": True, "ba": True, "ad": True}.items():
        records = open_records(",".join(f"{tmp_path}/{name}.tfrecord" for name in files), 12, 3, 40)
        assert records.has_sentence_task == has_sentence_task, files


def note_tasks(flags, **tasks):
    """Writes the metadata of the records of `make_files`: the sentence task of the files of each flag."""
    for name, task in tasks.items():
        path = flags["input_file"].with_name({"input_file": "train", "eval_file": "held_out"}[name] + ".tfrecord.json")
        path.write_text(json.dumps({"settings": {"sentence_task": task}}))
    settings = {**flags, "eval_file": flags["input_file"].with_name("held_out.tfrecord")}
    known = {field.name for field in setting_fields(PretrainingSettings)}
    return {name: str(value) if "file" in name else value for name, value in settings.items() if name in known}


def test_labels_of_different_sentence_tasks_are_not_mixed(tmp_path, tiny_config, write_records):
    flags = make_files(tmp_path, tiny_config, write_records)
    settings = note_tasks(flags, input_file="next_sentence", eval_file="sentence_order")
    message = "train.tfrecord and .*held_out.tfrecord were built with different sentence_task; build them with the same"
    for files in ({}, {"input_file": f"{settings['input_file']},{settings['eval_file']}", "eval_file": None}):
        with pytest.raises(ValueError, match=message):
            read_input(PretrainingSettings(**{**settings, **files}))
    read_input(PretrainingSettings(**settings, objective="electra"))  # it has no use for these labels


@pytest.mark.parametrize(
    ("trained", "evaluated", "flag"),
    [
        ("next_sentence", "none", "eval_file"),
        ("none", "sentence_order", "input_file"),
        ("none", "none", None),
        ("sentence_order", "sentence_order", None),
    ],
)
def test_metrics_without_labels_are_named(tmp_path, tiny_config, write_records, messages, trained, evaluated, flag):
    flags = make_files(tmp_path, tiny_config, write_records)
    read_input(PretrainingSettings(**note_tasks(flags, input_file=trained, eval_file=evaluated)))
    said = [message for message in messages if "no sentence task" in message]
    expected = f"the records of {flag} have no sentence task, so next_sentence_loss and next_sentence_accuracy say"
    assert [message.startswith(expected) for message in said] == [True] * (flag is not None)


@pytest.mark.parametrize("num_blanks", [0, 2])
def test_records_of_another_vocabulary_than_that_of_the_model_are_refused(
    tmp_path, tiny_config, write_records, num_blanks
):
    flags = make_files(tmp_path, tiny_config, write_records)
    settings = note_tasks(flags)
    model = tmp_path / "model"
    model.mkdir()
    tokens = [f"word{number}" for number in range(30)]
    (model / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens) + "\n" * num_blanks)
    note = flags["input_file"].with_name("train.tfrecord.json")
    for digest, is_refused in ((vocabulary_digest(dict(zip(tokens, range(30), strict=True))), False), ("other", True)):
        note.write_text(json.dumps({"vocab_sha256": digest}))
        for model_flags in ({"init_checkpoint": str(model)}, {"output_dir": str(model), "do_train": False}):
            context = pytest.raises(ValueError, match="train.tfrecord was built with another vocabulary than .*vocab.t")
            with context if is_refused else contextlib.nullcontext():
                read_input(PretrainingSettings(**{**settings, "eval_file": None, **model_flags}))
