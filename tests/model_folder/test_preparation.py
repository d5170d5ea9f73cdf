"""The preparation of text for a model: its casing, and its longest sequence."""

import json
import re

import fine_tuned_models
import pytest
from known_models import CASED_TOKENS, TOKENS, write_model

from bert_keras.data_prep.records.writing import metadata_file, write_metadata
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.prediction import FillMask


def tokenize(folder, text="Paris", **options):
    return ModelFolder(folder, **options).check().tokenizer.tokenize(text)


def write_run(folder, **settings):
    (folder / "run_config.json").write_text(json.dumps({"program": "run_pretraining", "settings": settings}))


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ('{"do_lower_case": false}', {}, "keeping capital letters (set in {}/tokenizer_config.json)"),
        ("{}", {"do_lower_case": False}, "keeping capital letters (as requested)"),
        ('{"do_lower_case": true}', {"do_lower_case": True}, "lower-casing text (as requested)"),
        ("{}", {}, "lower-casing text (guessed from the words of {}/vocab.txt)"),
        ('{"do_lower_case": null, "strip_accents": null}', {}, "lower-casing text (guessed from the words of {}"),
    ],
)
def test_casing_is_requested_or_set_in_the_folder_or_guessed(folder, messages, content, options, message):
    (folder / "tokenizer_config.json").write_text(content)
    assert tokenize(folder, **options) == (["paris"] if message.startswith("lower") else ["[UNK]"])
    assert messages[-1].startswith(message.format(folder))


def test_casing_that_contradicts_the_folder_is_refused(folder):
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "strip_accents": false}')
    for name, value in (("do_lower_case", False), ("strip_accents", True)):
        with pytest.raises(
            ValueError, match=f"^{name}={value} was given, but .*/tokenizer_config.json sets {name}=.*; l"
        ):
            ModelFolder(folder, **{name: value}).check()


def test_accents_may_be_requested(folder, messages):
    assert ModelFolder(folder, do_lower_case=True, strip_accents=False).check().tokenizer.casing == (True, False)
    assert "keeping accents (as requested)" in messages


def test_the_folder_of_a_vocabulary_elsewhere_sets_the_casing(folder, tmp_path, messages):
    (tmp_path / "vocabulary").mkdir()
    vocab_file = (folder / "vocab.txt").rename(tmp_path / "vocabulary" / "vocab.txt")
    (vocab_file.parent / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert ModelFolder(folder, vocab_file).check().tokenizer.casing == (False, None)
    assert f"keeping capital letters (set in {vocab_file.parent}/tokenizer_config.json)" in messages


def test_casing_does_not_depend_on_the_records_of_the_run(folder):
    # A downloaded folder must not point to other files.
    write_run(folder, input_file=f"{folder / 'train_*.tfrecord'}")
    (folder / "train_0.tfrecord").touch()
    write_metadata(str(folder / "train_0.tfrecord"), {"kind": "pretraining", "do_lower_case": False})
    assert tokenize(folder) == ["paris"]
    with open(metadata_file(str(folder / "train_0.tfrecord")), "w") as file:
        file.write("{")
    assert tokenize(folder) == ["paris"]


def test_a_cased_vocabulary_keeps_capital_letters(tmp_path, model, messages):
    folder = write_model(tmp_path / "cased", model, CASED_TOKENS)
    assert tokenize(folder, "Paris paris") == ["Paris", "[UNK]"]
    assert f"keeping capital letters (guessed from the words of {folder / 'vocab.txt'})" in messages
    with pytest.raises(ValueError, match=r"vocab.txt is cased, .* give do_lower_case=False"):
        ModelFolder(folder, do_lower_case=True).check()


def test_the_casing_that_a_fine_tuned_folder_lacks_is_asked_for_where_every_program_reads_it(tmp_path):
    tokens = [token if token.startswith("[") else token.capitalize() for token in fine_tuned_models.TOKENS]
    names = {"0": "bad", "1": "fair", "2": "good"}
    folder = fine_tuned_models.write_foreign(tmp_path / "foreign", "classification", tokens=tokens, id2label=names)
    file = folder / "tokenizer_config.json"
    file.unlink()
    with pytest.raises(ValueError, match=re.escape(f"or accents; set do_lower_case to false in {file}")):
        ModelFolder(folder).check()
    file.write_text('{"do_lower_case": false}')
    ModelFolder(folder).check()


def test_accents_may_be_kept_under_lower_casing(tmp_path, model, messages):
    tokens = ["é" if token == "e" else token for token in TOKENS]
    folder = write_model(tmp_path / "accents", model, tokens)
    # Lower-casing that strips accents contradicts this vocabulary.
    assert tokenize(folder, "É Paris") == ["[UNK]", "[UNK]"]
    [warning] = [each for each in messages if "has no tokens with capitals, but the text keeps its capitals" in each]
    assert warning.endswith("; if the model was trained on lower-cased text, give do_lower_case=True")
    (folder / "tokenizer_config.json").write_text('{"strip_accents": false}')
    assert tokenize(folder, "É Paris") == ["é", "paris"]
    assert f"keeping accents (set in {folder / 'tokenizer_config.json'})" in messages
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "strip_accents": true}')
    # A setting that contradicts the file is refused, so it would not help.
    place = re.escape(f"in {folder / 'tokenizer_config.json'}")
    advice = f"set strip_accents to false {place}$"
    with pytest.raises(ValueError, match=f"never contains its tokens with capitals or accents; {advice}"):
        ModelFolder(folder).check()
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    ModelFolder(folder).check()
    advice = f"set do_lower_case to true {place}$"
    assert any(re.search(f"; if the model was trained on lower-cased text, {advice}", each) for each in messages)


def test_joined_chinese_characters_are_warned_of(folder, messages):
    (folder / "tokenizer_config.json").write_text('{"tokenize_chinese_chars": false}')
    ModelFolder(folder).check()
    assert any("tokenize_chinese_chars is false, which is ignored" in message for message in messages)


@pytest.mark.parametrize(
    "kind", ["BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "BertJapaneseTokenizer"]
)
def test_another_way_to_split_text_is_warned_of(folder, messages, kind):
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    ModelFolder(folder).check()
    is_warned = any("tokenizer_class is BertJapaneseTokenizer, but text is prepared" in message for message in messages)
    assert is_warned == (kind == "BertJapaneseTokenizer")


@pytest.mark.parametrize(
    ("settings", "longest"),
    [
        ({"max_seq_length": 12, "init_checkpoint": None}, 12),
        ({}, 40),
        ({"max_seq_length": 12, "init_checkpoint": "a.ckpt"}, 40),
        ({"max_seq_length": 99}, 40),
        ({"max_seq_length": "12"}, 40),
    ],
)
def test_a_model_that_was_trained_from_random_weights_has_the_length_of_its_training(
    folder, messages, settings, longest
):
    write_run(folder, **settings)
    assert ModelFolder(folder).check().preparation.longest == longest
    told = "sequences have at most 12 tokens (as in training): the model did not learn positions 13 to 40"
    assert (told in messages) == (longest == 12)


@pytest.mark.parametrize(("length", "longest"), [("12", 12), ("40", 40), (f"{10**30}", 40), ("1e30", 40), ("null", 40)])
def test_the_length_may_be_in_a_tokenizer_config(folder, messages, length, longest):
    (folder / "tokenizer_config.json").write_text(f'{{"model_max_length": {length}}}')
    assert ModelFolder(folder).check().preparation.longest == longest
    told = f"sequences have at most 12 tokens (set in {folder}/tokenizer_config.json): the model did not learn"
    assert any(message.startswith(told) for message in messages) == (longest == 12)


def test_the_length_of_the_folder_limits_texts(folder):
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 16}')
    write_run(folder, max_seq_length=12)
    fill_mask = FillMask(folder)
    assert fill_mask.network.lengths[-1] == 16
    with pytest.raises(ValueError, match=r"^text 1 has 15 tokens, 1 more than the 14 that the model takes; "):
        fill_mask("is " * 14 + "[MASK]")
