"""Pre-training on records without a sentence task does not change the weights of that task."""

import json
import pathlib

import pytest

import run_pretraining
from bert_keras.data_prep.records.reading import open_records
from bert_keras.modeling import BertConfig, open_checkpoint

TASK = ("bert/pooler/dense/kernel", "cls/seq_relationship/output_weights")


def note(path, sentence_task):
    pathlib.Path(f"{path}.json").write_text(
        json.dumps({"kind": "pretraining", "format_version": 1, "settings": {"sentence_task": sentence_task}})
    )


@pytest.mark.parametrize("sentence_task", ["none", "sentence_order"])
def test_the_pooler_and_its_head_are_trained_only_for_a_sentence_task(tmp_path, write_records, sentence_task):
    write_records(tmp_path / "a.tfrecord", 8)
    note(tmp_path / "a.tfrecord", sentence_task)
    BertConfig(40, 8, 1, 2, 16, max_position_embeddings=16).to_json_file(tmp_path / "bert_config.json")
    flags = {"bert_config_file": tmp_path / "bert_config.json", "input_file": tmp_path / "a.tfrecord"}
    flags |= {"max_seq_length": 12, "max_predictions_per_seq": 3, "train_batch_size": 4, "learning_rate": 1e-2}
    flags |= {"num_warmup_steps": 0, "save_checkpoints_steps": 1, "output_dir": tmp_path / "run", "num_train_steps": 4}
    run_pretraining.main(["run_pretraining.py", "--do_train", *(f"--{name}={value}" for name, value in flags.items())])
    first, last = (open_checkpoint(tmp_path / "run" / f"model.ckpt-{step}") for step in (1, 4))
    changed = {name for name in first.names if first.read(name).tobytes() != last.read(name).tobytes()}
    assert (changed & set(TASK)) == (set() if sentence_task == "none" else set(TASK))
    assert "bert/embeddings/word_embeddings" in changed


def test_one_file_with_a_sentence_task_is_enough(tmp_path, write_records):
    for name, sentence_task in (("a", "none"), ("b", "next_sentence"), ("c", "none")):
        write_records(tmp_path / f"{name}.tfrecord", 2)
        note(tmp_path / f"{name}.tfrecord", sentence_task)
    write_records(tmp_path / "d.tfrecord", 2)  # like the original BERT, without metadata
    for files, has_sentence_task in {"ac": False, "ab": True, "ba": True, "ad": True}.items():
        records = open_records(",".join(f"{tmp_path}/{name}.tfrecord" for name in files), 12, 3, 40)
        assert records.has_sentence_task == has_sentence_task, files
