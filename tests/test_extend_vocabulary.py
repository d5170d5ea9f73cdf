"""Adding words to a model with convert_checkpoint.py."""

import json

import numpy as np
import pytest
from converted import OUTPUT_BIAS, TABLE, TOKENS, convert, read_json, write_released
from tiny_bert import make_model

from bert_keras.data_prep.text.vocabulary_files import tokenizer_config_text
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import BertConfig, open_checkpoint, save_checkpoint, weights_by_name


@pytest.fixture
def model_dir(tmp_path):
    return write_released(tmp_path / "released")


def test_casing_and_length_of_a_run_are_kept(model_dir, tmp_path, capsys):
    (model_dir / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    settings = {"max_seq_length": 12, "init_checkpoint": None}
    (model_dir / "run_config.json").write_text(json.dumps({"settings": settings}))
    (tmp_path / "words.txt").write_text("Heart\n")
    convert(model_dir, tmp_path / "out", "safetensors", extend_vocab=tmp_path / "words.txt")
    log = " ".join(capsys.readouterr().out.split())
    assert f"keeping capital letters (set in {model_dir}/tokenizer_config.json)" in log
    written = json.loads(tokenizer_config_text(False, None, 12))
    assert read_json(tmp_path / "out" / "tokenizer_config.json") == written
    assert (tmp_path / "out" / "vocab.txt").read_text().split()[1] == "Heart"
    files = ModelFolder(tmp_path / "out").check()
    assert (files.preparation.longest, files.tokenizer.tokenize("Heart heart")) == (12, ["Heart", "heart"])


def test_kept_accents_are_kept_in_the_copy(model_dir, tmp_path):
    (model_dir / "tokenizer_config.json").write_text('{"do_lower_case": true, "strip_accents": false}')
    (tmp_path / "words.txt").write_text("Étude\n", encoding="utf-8")
    convert(model_dir, tmp_path / "out", "tensorflow", extend_vocab=tmp_path / "words.txt")
    written = read_json(tmp_path / "out" / "tokenizer_config.json")
    assert (written["do_lower_case"], written["strip_accents"]) == (True, False)
    assert ModelFolder(tmp_path / "out").check().tokenizer.tokenize("ÉTUDE") == ["étude"]


def test_words_are_added_to_a_model(model_dir, tmp_path, capsys):
    (tmp_path / "words.txt").write_text("Angiogram\nw7\nhearty\n")
    convert(model_dir, tmp_path / "out", "tensorflow", extend_vocab=tmp_path / "words.txt")
    new_tokens = [*TOKENS, "hearty"]
    new_tokens[1] = "angiogram"
    assert (tmp_path / "out" / "vocab.txt").read_text().split() == new_tokens
    assert BertConfig.from_json_file(tmp_path / "out" / "bert_config.json").vocab_size == 41
    before, after = open_checkpoint(model_dir), open_checkpoint(tmp_path / "out")
    assert before.names == after.names
    for name in before.names:
        old, new = before.read(name), after.read(name)
        if name in (TABLE, OUTPUT_BIAS):
            np.testing.assert_allclose(new[1], (old[8] + old[9]) / 2, rtol=1e-6)  # angio ##gram
            np.testing.assert_allclose(new[40], (old[6] + old[7]) / 2, rtol=1e-6)  # heart ##y
            new = np.concatenate([new[:1], old[1:2], new[2:40]])
        np.testing.assert_array_equal(old, new, err_msg=name)
    log = " ".join(capsys.readouterr().out.split())
    for line in (
        "in the vocabulary already (1): w7",
        'added "angiogram": id 1, [unused0]; starts as the mean of angio ##gram',
        'added "hearty": id 40, a new row; starts as the mean of heart ##y',
        "2 words added: 1 in [unused] places, 1 as new rows; the vocabulary has 41 entries",
    ):
        assert line in log
    # The logits of the other words are the same.
    ids = np.array([[3, 6, 7, 25, 4]], np.int32)
    features = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    logits = []
    for checkpoint in (before, after):
        model = make_model(checkpoint.config)
        for name, weight in weights_by_name(model).items():
            weight.assign(checkpoint.read(name))
        logits.append(np.asarray(model(features | {"masked_lm_positions": ids[:, :2]})["masked_lm_logits"]))
    kept = [0, *range(2, 40)]
    np.testing.assert_allclose(logits[1][..., kept], logits[0][..., kept], rtol=1e-5, atol=1e-5)


def test_adam_starts_from_zero_for_added_words_and_trained_weights_from_their_mean(golden_dir, tmp_path):
    source = golden_dir / "pretraining_a"
    before = open_checkpoint(source / "trained")
    state = {name: before.read(name) for name in before.names}
    # As a run with --ema_decay saves them.
    state[f"{TABLE}/unaveraged"] = state[TABLE] + np.float32(0.5)
    save_checkpoint(tmp_path / "averaged" / "model.ckpt-30", state)
    num_tokens = read_json(source / "bert_config.json")["vocab_size"]
    (tmp_path / "vocab.txt").write_text("\n".join(["[UNK]", "[unused1]", *(f"w{i}" for i in range(2, num_tokens))]))
    (tmp_path / "words.txt").write_text("one\ntwo")
    flags = {"bert_config_file": source / "bert_config.json", "vocab_file": tmp_path / "vocab.txt"}
    flags |= {"keep_optimizer": True, "extend_vocab": tmp_path / "words.txt"}
    convert(tmp_path / "averaged", tmp_path / "out", "tensorflow", **flags)
    after = open_checkpoint(tmp_path / "out")
    for name in (f"{TABLE}/adam_m", f"{TABLE}/adam_v", f"{OUTPUT_BIAS}/adam_v"):
        old, new = before.read(name), after.read(name)
        assert len(new) == num_tokens + 1
        assert not new[[1, num_tokens]].any()
        np.testing.assert_array_equal(new[2:num_tokens], old[2:])
    np.testing.assert_array_equal(after.read(TABLE)[num_tokens], before.read(TABLE)[0])
    np.testing.assert_array_equal(after.read(f"{TABLE}/unaveraged")[num_tokens], before.read(TABLE)[0] + 0.5)
    assert after.read("global_step") == 30
