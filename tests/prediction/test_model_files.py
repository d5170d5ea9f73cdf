"""Finding a model from one path, checking it, and loading it with its training settings."""

import json
import shutil

import pytest
from known_models import CASED_TOKENS, TOKENS, constant_model, make_config, random_model, write_model

from bert_keras.data_prep.records.writing import metadata_file, write_metadata
from bert_keras.modeling import PretrainingModel, save_checkpoint, save_safetensors, weights_by_name
from bert_keras.prediction import FillMask, NextSentence, SentenceScorer
from bert_keras.prediction.network import lengths_up_to


@pytest.fixture(scope="module")
def model():
    return random_model(seed=7)


@pytest.fixture
def folder(tmp_path, model):
    return write_model(tmp_path / "model", model)


def answer(*arguments, **options):
    return FillMask(*arguments, **options)("paris is the [MASK]").masks[0][0].probability


def test_any_way_to_name_a_checkpoint_gives_the_same_answer(folder):
    expected = answer(folder)
    assert answer(str(folder)) == expected
    assert answer(folder / "bert_model.ckpt") == expected
    assert answer(folder / "bert_model.ckpt.index") == expected


def test_config_and_vocabulary_may_lie_elsewhere(folder, tmp_path):
    expected = answer(folder)
    for name in ("bert_config.json", "vocab.txt"):
        shutil.move(folder / name, tmp_path / f"my_{name}")
    assert (
        answer(folder, vocab_file=tmp_path / "my_vocab.txt", config_file=tmp_path / "my_bert_config.json") == expected
    )


def test_a_safetensors_folder_answers_as_the_released_checkpoint(folder, model, tmp_path):
    other = tmp_path / "safetensors"
    save_safetensors(other, {name: weight.numpy() for name, weight in weights_by_name(model).items()}, model.config)
    shutil.copy(folder / "vocab.txt", other)
    assert answer(other) == answer(folder)


def test_the_folder_of_a_run_answers(folder, model):
    expected = answer(folder)
    for path in folder.glob("bert_model.ckpt.*"):
        path.unlink()
    state = {f"{name}/adam_m": weight for name, weight in weights_by_name(model).items()}
    for step in (2, 4):
        save_checkpoint(folder / f"model.ckpt-{step}", weights_by_name(model) | state)
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-4"\n')
    assert answer(folder) == expected


def test_of_a_run_of_fine_tuning_its_model_answers(folder, model, tmp_path):
    expected = answer(folder)
    run = tmp_path / "run"
    run.mkdir()
    folder.rename(run / "model")
    # The newest training checkpoint is not the right one, and its folder has no config or vocabulary.
    save_checkpoint(run / "model.ckpt-9", weights_by_name(random_model(seed=8)))
    (run / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"\n')
    with pytest.raises(FileNotFoundError, match=r"^there is no bert_config.json or config.json in .*run; put it there"):
        answer(run)
    (run / "model" / "task.json").write_text("{}")
    assert answer(run) == answer(run / "model") == expected


def test_what_was_loaded_is_said(folder, messages):
    FillMask(folder)
    [loaded] = [message for message in messages if message.startswith("loaded ")]
    assert loaded.startswith(f"loaded 42 of 42 weights from {folder / 'bert_model.ckpt'}")


def without(model, *prefixes):
    return {name: weight for name, weight in weights_by_name(model).items() if not name.startswith(prefixes)}


def test_only_the_head_that_is_asked_needs_to_be_there(folder, model):
    expected = answer(folder), NextSentence(folder)(("he", "ate")).probability
    save_checkpoint(folder / "bert_model.ckpt", without(model, "cls/seq_relationship/", "bert/pooler/"))
    assert answer(folder) == expected[0]
    with pytest.raises(
        ValueError,
        match=r"bert_model.ckpt has no next-sentence head: it lacks bert/pooler/dense/kernel, bert/pooler/dense/bias, "
        r"cls/seq_relationship/output_weights, cls/seq_relationship/output_bias; give a checkpoint of pre-training, ",
    ):
        NextSentence(folder)
    save_checkpoint(folder / "bert_model.ckpt", without(model, "cls/predictions/"))
    assert NextSentence(folder)(("he", "ate")).probability == expected[1]
    for predictor in (FillMask, SentenceScorer):
        with pytest.raises(ValueError, match=r"bert_model.ckpt has no masked-LM head: it lacks cls/predictions/"):
            predictor(folder)


def write_run(folder, do_lower_case=None, **settings):
    """Writes a run folder whose records had this casing; None: an old run without this field."""
    if do_lower_case is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": do_lower_case}))
    (folder / "run_config.json").write_text(json.dumps({"program": "run_pretraining", "settings": settings}))


def test_casing_is_that_of_the_folder_whatever_the_records_are_now(folder, messages):
    write_run(folder, do_lower_case=False, input_file=f"{folder / 'train_*.tfrecord'}")
    (folder / "train_0.tfrecord").touch()
    write_metadata(str(folder / "train_0.tfrecord"), {"kind": "pretraining", "do_lower_case": True})
    assert FillMask(folder).tokenizer.tokenize("Paris") == ["[UNK]"]
    assert f"keeping capital letters (set in {folder / 'tokenizer_config.json'})" in messages


def test_the_folder_of_an_old_run_is_judged_by_its_vocabulary_and_names_no_other_file(folder, messages):
    # A downloaded folder must not point to other files.
    write_run(folder, input_file=f"{folder / 'train_*.tfrecord'}")
    (folder / "train_0.tfrecord").touch()
    with open(metadata_file(str(folder / "train_0.tfrecord")), "w") as file:
        file.write("{")
    assert FillMask(folder).tokenizer.tokenize("Paris") == ["paris"]
    assert f"lower-casing text (guessed from the words of {folder / 'vocab.txt'})" in messages


def test_casing_may_be_in_a_tokenizer_config(folder, messages):
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert FillMask(folder).tokenizer.tokenize("Paris") == ["[UNK]"]
    assert f"keeping capital letters (set in {folder / 'tokenizer_config.json'})" in messages


@pytest.mark.parametrize("content", ["{}", '{"settings": 3}', '{"settings": {"input_file": null}}'])
def test_other_files_of_that_name_say_nothing(folder, content):
    (folder / "run_config.json").write_text(content)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": null, "strip_accents": null}')
    assert FillMask(folder).tokenizer.tokenize("Paris") == ["paris"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run_config.json", "{", r"run_config\.json line 1: not valid JSON"),
        ("run_config.json", "[]", r"run_config\.json line 1: a JSON list where an object"),
        ("tokenizer_config.json", "{'a'}", r"tokenizer_config\.json line 1: not valid JSON"),
        (
            "tokenizer_config.json",
            '{"do_lower_case": "yes"}',
            r'tokenizer_config\.json: do_lower_case is "yes", but must be true or false; correct it$',
        ),
        ("tokenizer_config.json", '{"strip_accents": 1}', "strip_accents is 1, but must be true or false; correct it$"),
    ],
)
def test_damaged_files_are_refused(folder, name, content, message):
    (folder / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        FillMask(folder)


def test_accents_may_be_kept_under_lower_casing(tmp_path, model, messages):
    tokens = ["é" if token == "e" else token for token in TOKENS]
    folder = write_model(tmp_path / "accents", model, tokens)
    # Lower-casing that strips accents contradicts this vocabulary.
    assert FillMask(folder).tokenizer.tokenize("É Paris") == ["[UNK]", "[UNK]"]
    assert any("has no tokens with capitals, but the text keeps its capitals" in message for message in messages)
    (folder / "tokenizer_config.json").write_text('{"strip_accents": false}')
    assert FillMask(folder).tokenizer.tokenize("É Paris") == ["é", "paris"]
    assert f"keeping accents (set in {folder / 'tokenizer_config.json'})" in messages
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "strip_accents": true}')
    with pytest.raises(ValueError, match="lower-cased text never contains its tokens with capitals or accents"):
        FillMask(folder)


def test_joined_chinese_characters_are_warned_of(folder, messages):
    (folder / "tokenizer_config.json").write_text('{"tokenize_chinese_chars": false}')
    FillMask(folder)
    assert any("tokenize_chinese_chars is false, which is ignored" in message for message in messages)


def test_casing_can_be_asked_for(folder, messages):
    write_run(folder, do_lower_case=True)
    assert FillMask(folder, do_lower_case=False).tokenizer.tokenize("Paris") == ["[UNK]"]
    assert "keeping capital letters (as requested)" in messages


def test_a_run_takes_what_its_training_had(folder, messages):
    write_run(folder, do_lower_case=True, max_seq_length=12, init_checkpoint=None)
    fill_mask = FillMask(folder)
    assert fill_mask.network.lengths == [12]
    assert len(fill_mask("is " * 9 + "[MASK]").masks) == 1
    with pytest.raises(ValueError, match=r"^text 1 has 11 tokens, 1 more than the 10 that the model takes; "):
        fill_mask("is " * 10 + "[MASK]")
    [told] = [message for message in messages if message.startswith("sequences have at most 12 tokens")]
    assert told.endswith(" (as in training): the model did not learn positions 13 to 40")


@pytest.mark.parametrize(
    "settings",
    [{}, {"max_seq_length": 12, "init_checkpoint": "a.ckpt"}, {"max_seq_length": 99}, {"max_seq_length": "12"}],
)
def test_otherwise_a_model_takes_what_it_has_positions_for(folder, settings):
    write_run(folder, True, **settings)
    assert FillMask(folder).network.lengths == [16, 32, 40]


@pytest.mark.parametrize(
    ("length", "lengths"),
    [("12", [12]), ("40", [16, 32, 40]), (f"{10**30}", [16, 32, 40]), ("1e30", [16, 32, 40]), ("null", [16, 32, 40])],
)
def test_the_longest_may_be_in_a_tokenizer_config(folder, messages, length, lengths):
    (folder / "tokenizer_config.json").write_text(f'{{"model_max_length": {length}}}')
    assert FillMask(folder).network.lengths == lengths
    told = "sequences have at most 12 tokens (set in tokenizer_config.json): the model did not learn"
    assert any(message.startswith(told) for message in messages) == (lengths == [12])


def test_the_length_in_the_folder_goes_before_that_of_training(folder):
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 16}')
    (folder / "run_config.json").write_text(json.dumps({"program": "x", "settings": {"max_seq_length": 12}}))
    assert FillMask(folder).network.lengths == [16]


def test_a_cased_vocabulary_is_not_lower_cased(tmp_path, model):
    folder = write_model(tmp_path / "cased", model, CASED_TOKENS)
    with pytest.raises(ValueError, match=r"vocab.txt is cased, .* give --do_lower_case=False"):
        FillMask(folder, do_lower_case=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "bert_config.json",
            r"^there is no bert_config.json or config.json in .*model; put it there, or give --bert_config_file",
        ),
        ("vocab.txt", r"^there is no vocab.txt in .*model; put it there, or give --vocab_file"),
        ("bert_model.ckpt.index", "^there is no checkpoint in the folder"),
    ],
)
def test_a_part_that_is_not_there_is_named(folder, name, message):
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=message):
        FillMask(folder)


def test_a_vocabulary_of_another_size_is_refused(folder):
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS[:-1]))
    with pytest.raises(ValueError, match="vocab.txt has 39 tokens, but the model has 40 rows of word embeddings; give"):
        FillMask(folder)


def test_a_vocabulary_without_special_tokens_is_refused(folder):
    renamed = [token.replace("[MASK]", "<mask>").replace("[CLS]", "<cls>") for token in TOKENS]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in renamed))
    with pytest.raises(ValueError, match=r"vocab.txt lacks \[CLS\], \[MASK\]; give the vocabulary that the model was"):
        FillMask(folder)


def test_a_config_of_another_size_is_refused(folder):
    make_config(num_hidden_layers=2, hidden_size=24).to_json_file(folder / "bert_config.json")
    with pytest.raises(
        ValueError, match=r"does not fit the config: .* is \[40, 16\] in the checkpoint and \[40, 24\] "
    ):
        FillMask(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"long": "cut"}, '^long is "cut", but must be one of error, truncate, window$'),
        ({"batch_size": 0}, "^batch_size is 0, but must be at least 1$"),
    ],
)
def test_arguments_that_cannot_be_are_refused(folder, options, message):
    with pytest.raises(ValueError, match=message):
        SentenceScorer(folder, **options)


@pytest.mark.parametrize(
    ("predictor", "num_positions", "num_special"), [(FillMask, 2, 2), (SentenceScorer, 2, 2), (NextSentence, 4, 3)]
)
def test_a_model_without_room_for_text_is_refused(tmp_path, predictor, num_positions, num_special):
    folder = write_model(tmp_path / "model", constant_model({}, max_position_embeddings=num_positions))
    with pytest.raises(
        ValueError,
        match=rf"^the model takes {num_positions} tokens, too few for text and the {num_special} special tokens of",
    ):
        predictor(folder)


@pytest.mark.parametrize(
    ("longest", "lengths"), [(512, [16, 32, 64, 128, 256, 512]), (40, [16, 32, 40]), (16, [16]), (8, [8])]
)
def test_lengths_are_few_and_end_with_the_longest(longest, lengths):
    assert lengths_up_to(longest) == lengths


def test_a_model_takes_its_activation_and_dropout_from_the_config(tmp_path):
    # Training dropout does not affect answers.
    model = random_model(seed=1, hidden_dropout_prob=0.9, attention_probs_dropout_prob=0.9)
    assert isinstance(model, PretrainingModel)
    folder = write_model(tmp_path / "model", model)
    assert answer(folder) == answer(folder)
    expected = answer(folder)
    (folder / "bert_config.json").write_text(
        (folder / "bert_config.json").read_text().replace('"hidden_act": "gelu"', '"hidden_act": "relu"')
    )
    assert answer(folder) != pytest.approx(expected, abs=1e-4)


def test_a_given_config_of_another_meaning_is_refused(folder, tmp_path):
    config_file = tmp_path / "other.json"
    config_file.write_text(
        (folder / "bert_config.json").read_text().replace('"hidden_act": "gelu"', '"hidden_act": "relu"')
    )
    with pytest.raises(ValueError, match="^the given config does not match that of .*: hidden_act is 'relu', not '"):
        FillMask(folder, config_file=config_file)
