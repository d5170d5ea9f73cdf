"""Finding a model from one path, checking it, and loading it with its training settings."""

import builtins
import collections
import json
import os
import shutil

import numpy as np
import pytest
from fine_tuned_models import FINE_TUNED, write_fine_tuned
from known_models import TOKENS, constant_model, make_config, write_model

from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.model_folder.run_files import page_examples
from bert_keras.modeling import save_checkpoint, save_safetensors, weights_by_name
from bert_keras.prediction import FeatureExtractor, FillMask, NextSentence, SentenceScorer, open_model


def answer(*arguments, **options):
    return FillMask(*arguments, **options)("paris is the [MASK]").masks[0][0].probability


@pytest.fixture(scope="module")
def expected(model, tmp_path_factory):
    return answer(write_model(tmp_path_factory.mktemp("model"), model))


def test_a_checkpoint_is_named_by_its_folder_or_a_file(folder):
    prefix = str(folder / "bert_model.ckpt")
    for path in (folder, str(folder), prefix, f"{prefix}.index"):
        assert ModelFolder(path).check().checkpoint.prefix == prefix


def test_it_shows_what_it_knows_without_an_error(folder, tmp_path):
    make, settings = FINE_TUNED["token_classification"]
    run = write_fine_tuned(tmp_path / "run", make(), "token_classification", **settings | {"labels": list("OABCDEF")})
    shown = f"ModelFolder({str(run)!r}, task='token_classification', labels=['O', 'A', 'B', 'C', 'D', and 2 others])"
    assert repr(ModelFolder(run)) == shown
    assert repr(ModelFolder(folder)) == f"ModelFolder({str(folder)!r})"
    (run / "model" / "task.json").write_text("{")
    assert repr(ModelFolder(run)) == f"ModelFolder({str(run)!r})"
    for labels in ("5", '{"a": 1}'):
        (run / "model" / "task.json").write_text(f'{{"task": "vectors", "labels": {labels}}}')
        assert repr(ModelFolder(run)) == f"ModelFolder({str(run)!r}, task='vectors')"


def test_a_safetensors_folder_answers_as_the_released_checkpoint(folder, model, tmp_path, expected):
    other = tmp_path / "safetensors"
    save_safetensors(other, {name: weight.numpy() for name, weight in weights_by_name(model).items()}, model.config)
    shutil.copy(folder / "vocab.txt", other)
    assert answer(other) == expected
    for path in (other, other / "model.safetensors"):
        assert open_model(path)("paris is the [MASK]").masks[0][0].probability == expected


def test_the_newest_checkpoint_of_a_run_answers(folder, model, expected):
    for path in folder.glob("bert_model.ckpt.*"):
        path.unlink()
    state = {f"{name}/adam_m": weight for name, weight in weights_by_name(model).items()}
    for step in (2, 4):
        save_checkpoint(folder / f"model.ckpt-{step}", weights_by_name(model) | state)
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-4"\n')
    assert ModelFolder(folder).check().checkpoint.prefix == str(folder / "model.ckpt-4")
    assert answer(folder) == expected


def test_a_run_of_fine_tuning_answers_with_its_model(folder, model, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    folder.rename(run / "model")
    # The newest training checkpoint is not the right one, and its folder has no config or vocabulary.
    save_checkpoint(run / "model.ckpt-9", weights_by_name(model))
    (run / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"\n')
    with pytest.raises(FileNotFoundError, match=r"^.*run has no bert_config.json or config.json; put it there"):
        ModelFolder(run).check()
    (run / "model" / "task.json").write_text("{}")
    for path in (run, run / "model"):
        assert ModelFolder(path).check().checkpoint.prefix == str(run / "model" / "bert_model.ckpt")


def test_what_was_loaded_is_logged(folder, messages):
    FillMask(folder)
    [loaded] = [message for message in messages if message.startswith("loaded ")]
    assert loaded.startswith(f"loaded 26 of 26 weights from {folder / 'bert_model.ckpt'}")


def without(model, *prefixes):
    return {name: weight for name, weight in weights_by_name(model).items() if not name.startswith(prefixes)}


def test_only_the_head_of_the_task_is_needed(folder, model, expected):
    follows = NextSentence(folder)(("he", "ate")).probability
    save_checkpoint(folder / "bert_model.ckpt", without(model, "cls/seq_relationship/", "bert/pooler/"))
    assert answer(folder) == expected
    with pytest.raises(
        ValueError,
        match=r"bert_model.ckpt has no next-sentence head: it lacks bert/pooler/dense/kernel, bert/pooler/dense/bias, "
        r"cls/seq_relationship/output_weights, cls/seq_relationship/output_bias; give a checkpoint of pre-training, ",
    ):
        NextSentence(folder)
    save_checkpoint(folder / "bert_model.ckpt", without(model, "cls/predictions/"))
    assert NextSentence(folder)(("he", "ate")).probability == follows
    for predictor in (FillMask, SentenceScorer):
        with pytest.raises(ValueError, match=r"bert_model.ckpt has no masked-LM head: it lacks cls/predictions/"):
            predictor(folder)


def test_a_head_that_was_never_trained_is_reported(folder, model, messages):
    weights = weights_by_name(model)
    new = {
        name: np.zeros(weights[name].shape) for name in ("cls/seq_relationship/output_bias", "bert/pooler/dense/bias")
    }
    save_checkpoint(folder / "bert_model.ckpt", weights | new)
    told = "the next-sentence head of %s was never trained (its biases are 0), so its answers are random: pre-train "
    for predictor, expected in ((FillMask, []), (NextSentence, [told % (folder / "bert_model.ckpt")])):
        predictor(folder)
        assert [message[: message.find("its task")] for message in messages if "never trained" in message] == expected


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
        ModelFolder(folder).check()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 10**7}, r"bert_config\.json: num_hidden_layers is 10000000, but must be at most 1000$"),
        (
            {"num_hidden_layers": 999},
            "has 1 encoder layer, but num_hidden_layers in the config is 999; take the config",
        ),
        (
            {"vocab_size": 10**12},
            r"does not fit the config: bert/embeddings/word_embeddings is \[40, 16\] in the check",
        ),
        ({"max_position_embeddings": 10**12}, r"bert/embeddings/position_embeddings is \[40, 16\] in the checkpoint"),
        ({"intermediate_size": 10**12}, r"bert/encoder/layer_0/intermediate/dense/kernel is \[16, 8\] in the checkpo"),
        (
            {"hidden_size": 10**12},
            r"word_embeddings is \[40, 16\] in the checkpoint and \[40, 1000000000000\] in the m",
        ),
    ],
)
def test_sizes_are_compared_before_a_network_is_made(folder, changes, message):
    file = folder / "bert_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(ValueError, match=message):
        ModelFolder(folder).check()


def test_a_config_with_fewer_layers_than_the_checkpoint_is_refused(folder, model):
    weights = weights_by_name(model)
    second = {name.replace("layer_0", "layer_1"): weight for name, weight in weights.items()}
    save_checkpoint(folder / "bert_model.ckpt", weights | second)
    with pytest.raises(
        Mistake, match="has 2 encoder layers, but num_hidden_layers in the config is 1; take the config"
    ):
        ModelFolder(folder).check()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "bert_config.json",
            r"^.*model has no bert_config.json or config.json; put it there, or give config_file",
        ),
        ("vocab.txt", r"^.*model has no vocab.txt, and no tokenizer.json .*; put one there, or give vocab_file"),
        ("bert_model.ckpt.index", "^the folder .* has no checkpoint"),
    ],
)
def test_a_missing_part_is_named(folder, name, message):
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=message):
        ModelFolder(folder).check()


def test_a_vocabulary_that_does_not_fit_is_refused(folder):
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS[:-9]))
    with pytest.raises(ValueError, match="vocab.txt has 31 tokens, but the model has 40 rows of word embeddings; give"):
        ModelFolder(folder).check()
    renamed = [token.replace("[MASK]", "<mask>").replace("[CLS]", "<cls>") for token in TOKENS]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in renamed))
    with pytest.raises(ValueError, match=r"vocab.txt lacks \[CLS\], \[MASK\]; give the vocabulary that the model was"):
        ModelFolder(folder).check()


def test_a_config_that_does_not_fit_is_refused(folder, tmp_path):
    text = (folder / "bert_config.json").read_text().replace('"hidden_act": "gelu"', '"hidden_act": "relu"')
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ValueError, match="^the given config does not match that of .*: hidden_act is 'relu', not '"):
        ModelFolder(folder, config_file=tmp_path / "other.json").check()
    make_config(hidden_size=24).to_json_file(folder / "bert_config.json")
    message = r"does not fit the config: .* is \[40, 16\] in the checkpoint and \[40, 24\] "
    with pytest.raises(ValueError, match=message):
        FillMask(folder)


def test_a_model_takes_its_activation_from_the_config_and_has_no_dropout(folder, expected):
    config_file = folder / "bert_config.json"
    config = json.loads(config_file.read_text())
    config_file.write_text(json.dumps(config | {"hidden_dropout_prob": 0.9, "attention_probs_dropout_prob": 0.9}))
    assert answer(folder) == expected
    config_file.write_text(json.dumps(config | {"hidden_act": "relu"}))
    assert answer(folder) != pytest.approx(expected, abs=1e-4)


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
    ("options", "message"),
    [
        ({"long": "cut"}, '^long is "cut", but must be one of error, truncate, window$'),
        ({"batch_size": 0}, "^batch_size is 0, but must be a whole number above 0$"),
    ],
)
def test_mistakes_in_arguments(folder, options, message):
    with pytest.raises(ValueError, match=message):
        SentenceScorer(folder, **options)


def test_a_model_with_heads_that_nobody_knows_answers(folder, model, expected, messages):
    tensors = weights_by_name(model) | {"crf/transitions": np.ones((3, 3), np.float32)}
    save_checkpoint(folder / "bert_model.ckpt", tensors)
    assert answer(folder) == expected
    FeatureExtractor(folder, max_seq_length=8)
    assert sum("unused: " in message and "crf/transitions" in message for message in messages) == 2


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("https://huggingface.co/bert-base/cased/tree/main", r"web, not a model; give hf://bert-base/cased, or downl"),
        (
            "http://example.com/model.zip",
            r"an address on the web, not a model; give hf://owner/name for a model on Hug",
        ),
        ("s3://bucket/model", r"TensorFlow has no file system for s3:// here, only for local files and gs://; copy"),
        ("FOLDER/bert_model.ckpt.index", r"index is a file; give its folder, FOLDER$"),
        ("FOLDER/model.onnx", r"^FOLDER/model.onnx is a file of another program: no export.json is beside it; give a"),
        (
            "FOLDER/model.tflite",
            r"^FOLDER/model.tflite is a file of another program: no export.json is beside it; give",
        ),
        ("FOLDER/export/task.json", r"task.json is a file of an export; give its folder, FOLDER/export$"),
    ],
)
def test_a_path_that_is_no_folder_of_a_model_is_explained(folder, path, message):
    (folder / "export").mkdir()
    (folder / "export" / "export.json").write_text("{}")
    for place in (folder / "model.onnx", folder / "model.tflite", folder / "export" / "task.json"):
        place.write_bytes(b"content")
    with pytest.raises(ValueError, match=message.replace("FOLDER", str(folder))):
        open_model(path.replace("FOLDER", str(folder)))


def test_settings_of_the_training_are_in_the_run_or_the_parent_of_its_model(tmp_path):
    (tmp_path / "run_config.json").write_text('{"settings": {"text_column": "review"}}')
    for folder in (tmp_path, tmp_path / "model", f"{tmp_path}/model/"):
        assert ModelFolder(folder).settings_of_run == {"text_column": "review"}
    assert ModelFolder(tmp_path / "other").settings_of_run == {}


@pytest.mark.parametrize("config_file", ["bert_config.json", "config.json"])
def test_a_model_reads_each_of_its_files_once(tmp_path, monkeypatch, config_file):
    make, settings = FINE_TUNED["classification"]
    model = make()
    folder = write_fine_tuned(tmp_path / "run", model, "classification", **settings) / "model"
    if config_file == "config.json":
        for file in (*folder.glob("*.ckpt*"), folder / "bert_config.json", folder / "checkpoint"):
            file.unlink()
        save_safetensors(folder, weights_by_name(model), model.config)
    read, real = collections.Counter(), builtins.open

    def counting_open(file, *arguments, **options):
        read[os.path.basename(os.fspath(file))] += 1
        return real(file, *arguments, **options)

    monkeypatch.setattr(builtins, "open", counting_open)
    open_model(tmp_path / "run")
    assert {name: read[name] for name in (config_file, "vocab.txt", "task.json")} == dict.fromkeys(
        (config_file, "vocab.txt", "task.json"), 1
    )


def test_the_examples_of_a_run_are_those_in_its_folder(tmp_path, monkeypatch):
    make, settings = FINE_TUNED["classification"]
    run = write_fine_tuned(tmp_path / "run", make(), "classification", **settings)
    assert page_examples(ModelFolder(run).folder) == []
    file = run / "page_examples.json"
    for content in ('[{"text": 1}]', '{"text": "a"}', "[{}]"):
        file.write_text(content)
        with pytest.raises(ValueError, match="a list of objects with texts is needed.*correct the file, or delete it$"):
            page_examples(ModelFolder(run).folder)
    file.write_text('[{"text": "a"}]')
    lines = []
    monkeypatch.setattr("bert_keras.model_folder.run_files.log.info", lambda text, *values: lines.append(text % values))
    assert page_examples(ModelFolder(run).folder) == page_examples(ModelFolder(run / "model").folder) == [{"text": "a"}]
    assert (
        lines == [f"the page shows texts of the training data, those in {file}; delete the file to leave them out"] * 2
    )
