"""The config: defaults, JSON, names of released models, and rejected values."""

import json
import re

import pytest

from bert_keras.modeling import BertConfig
from bert_keras.modeling.config import HIDDEN_ACTIVATIONS, released_names


def test_defaults_are_the_releases_but_for_segment_types():
    config = BertConfig(vocab_size=100)
    assert config.to_dict() == {
        "vocab_size": 100,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
    }
    assert config.head_size == 64


def test_json_is_written_as_the_release_writes_it(tmp_path):
    config = BertConfig(vocab_size=5, hidden_size=4, num_attention_heads=2, hidden_act="ReLU")
    text = config.to_json_string()
    assert text.startswith('{\n  "attention_probs_dropout_prob": 0.1,\n  "hidden_act": "relu",\n')
    assert text.endswith('  "vocab_size": 5\n}\n')
    config.to_json_file(tmp_path / "bert_config.json")
    assert BertConfig.from_json_file(tmp_path / "bert_config.json") == config


def test_extra_keys_of_released_files_are_kept(tmp_path):
    values = BertConfig(vocab_size=21128).to_dict() | {
        "directionality": "bidi",
        "pooler_fc_size": 768,
        "pooler_num_attention_heads": 12,
        "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128,
        "pooler_type": "first_token_transform",
    }
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps(values))
    config = BertConfig.from_json_file(path)
    assert config.to_dict() == values
    assert config == BertConfig.from_dict(values)
    assert hash(config) == hash(BertConfig.from_dict(values))


def test_sizes_that_a_file_lacks_are_named(messages):
    values = BertConfig(vocab_size=7).to_dict()
    assert BertConfig.from_dict(values).hidden_size == 768
    assert messages == []
    assert BertConfig.from_dict({"vocab_size": 7}, source="my.json").type_vocab_size == 16
    assert messages.pop(0).startswith("my.json has no type_vocab_size; read as 16")
    messages.clear()
    del values["num_hidden_layers"], values["hidden_size"]
    assert BertConfig.from_dict(values, source="my.json").num_hidden_layers == 12
    assert messages == [
        "my.json has no hidden_size (read as 768), num_hidden_layers (read as 12); add the model's values, unless "
        "these defaults are right"
    ]


def test_no_activation_is_linear_and_no_dropout_may_be_null():
    for value in (None, "", "linear", "LINEAR"):
        assert BertConfig(vocab_size=7, hidden_act=value).hidden_act == "linear"
    config = BertConfig(vocab_size=7, hidden_dropout_prob=None, attention_probs_dropout_prob=0)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "vocab_size", "layers", "width", "heads"),
    [
        ("tiny", 30522, 2, 128, 2),
        ("medium", 30522, 8, 512, 8),
        ("large", 30522, 24, 1024, 16),
        ("uncased_L-10_H-256_A-4", 30522, 10, 256, 4),
        ("cased_L-12_H-768_A-12", 28996, 12, 768, 12),
        ("wwm_cased_L-24_H-1024_A-16", 28996, 24, 1024, 16),
        ("multilingual_L-12_H-768_A-12", 105879, 12, 768, 12),
        ("multi_cased_L-12_H-768_A-12", 119547, 12, 768, 12),
        ("chinese_L-12_H-768_A-12", 21128, 12, 768, 12),
    ],
)
def test_released_models_have_names(name, vocab_size, layers, width, heads):
    config = BertConfig.from_name(name)
    assert config == BertConfig(vocab_size, width, layers, heads, 4 * width)


def test_every_name_is_known_once():
    names = released_names()
    assert len(names) == len(set(names))
    miniatures = [name for name in names if re.fullmatch(r"uncased_L-\d+_H-(128|256|512|768)_A-\d+", name)]
    assert len(miniatures) == 24
    # 6 aliases, 24 miniatures, and: uncased Base of 2018, uncased and cased Large, cased Base, two of whole-word
    # masking, two multilingual, Chinese
    assert len(names) == 6 + 24 + 9


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"hidden_size": 770},
            "hidden_size 770 is not a multiple of num_attention_heads 12; every head needs the same whole number",
        ),
        ({"vocab_size": 0}, "vocab_size is 0, but must be a whole number of at least 1"),
        ({"num_hidden_layers": 2.0}, "num_hidden_layers is 2.0, but must be a whole number of at least 1"),
        ({"type_vocab_size": True}, "type_vocab_size is True, but must be a whole number of at least 0"),
        ({"intermediate_size": "64"}, "intermediate_size is '64', but must be a whole number of at least 1"),
        (
            {"hidden_dropout_prob": 1.0},
            "hidden_dropout_prob is 1.0, but must be a number from 0 up to, not including, 1",
        ),
        ({"attention_probs_dropout_prob": -0.1}, "attention_probs_dropout_prob is -0.1, but must be a number from 0"),
        ({"attention_probs_dropout_prob": "0.1"}, "attention_probs_dropout_prob is '0.1', but must be a number"),
        ({"attention_probs_dropout_prob": False}, "attention_probs_dropout_prob is False, but must be a number"),
        ({"initializer_range": 0}, "initializer_range is 0, but must be a number above 0"),
        ({"hidden_act": "swish"}, f"hidden_act is 'swish', but must be one of {', '.join(HIDDEN_ACTIVATIONS)}"),
        ({"is_decoder": 1}, "is_decoder is 1, but must be true or false"),
        ({"embedding_size": 0}, "embedding_size is 0, but must be a whole number of at least 1"),
        ({"has_shared_layers": 1}, "has_shared_layers is 1, but must be true or false"),
        ({"pooler_act": "swish"}, "pooler_act is 'swish', but must be one of gelu, gelu_erf"),
        ({"hidden_act": len}, "hidden_act is <built-in function len>, but must be one of gelu, gelu_erf"),
    ],
)
def test_impossible_values_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        BertConfig(**({"vocab_size": 100} | changes))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"vocab_size": 9, "hiden_size": 8}', '{path} has an unknown key "hiden_size"; did you mean "hidden_size"?'),
        ('{"vocab_size": 9, "xyz": 8}', '{path} has an unknown key "xyz"; known are vocab_size, hidden_size,'),
        ('{"released_extras": []}', '{path} has an unknown key "released_extras"; known are vocab_size'),
        ('{"hidden_size": 8}', "{path} has no vocab_size; give it the number of lines of the vocabulary file"),
        ('{"vocab_size": -1}', "{path}: vocab_size is -1, but must be a whole number of at least 1"),
        ('{\n"vocab_size": 9\n"hidden_size": 8}', "{path} line 3: not valid JSON (Expecting ',' delimiter, column 1)"),
        ("[1]", "{path} line 1: a JSON list where an object {{...}} is needed"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path, text, sentence):
    path = tmp_path / "bert_config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(sentence.format(path=path))):
        BertConfig.from_json_file(path)


def test_a_missing_file_is_refused(tmp_path):
    message = r"none\.json\" does not exist; check the path, and give the file that belongs to the model"
    with pytest.raises(FileNotFoundError, match=message):
        BertConfig.from_json_file(tmp_path / "none.json")


def test_an_unknown_name_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match='no released model is called "bse"; did you mean "base"?'):
        BertConfig.from_name("bse")
