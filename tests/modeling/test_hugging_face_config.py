"""Config files of both kinds give the same network, or one clear error message."""

import json
import re

import numpy as np
import pytest
from tiny_bert import make_config

from bert_keras.modeling import BertConfig, BertModel, ClassifierModel, open_checkpoint, read_config, save_checkpoint
from bert_keras.modeling.checkpoints.hugging_face_config import labels_of, problem_type_of, to_hugging_face_config
from bert_keras.storage.json_files import read_object


@pytest.fixture
def write(tmp_path):
    """Return a function that writes values to a JSON file of a name and returns its path."""

    def write(values, name="config.json"):
        path = tmp_path / name
        path.write_text(json.dumps(values))
        return path

    return write


class TestReading:
    @pytest.mark.parametrize(
        ("theirs", "ours"),
        [
            ("gelu", "gelu_erf"),
            ("gelu_python", "gelu_erf"),
            ("gelu_new", "gelu"),
            ("gelu_pytorch_tanh", "gelu"),
            ("gelu_fast", "gelu"),
            ("relu", "relu"),
            ("tanh", "tanh"),
        ],
    )
    def test_the_form_of_gelu_is_told_apart(self, write, theirs, ours):
        assert read_config(write({"model_type": "bert", "hidden_act": theirs})).hidden_act == ours

    def test_the_same_word_in_the_file_of_the_original_is_the_tanh_form(self, write):
        values = {"vocab_size": 9, "hidden_act": "gelu", "type_vocab_size": 2}
        assert read_config(write(values, "bert_config.json")).hidden_act == "gelu"
        assert read_config(write(values, "config.json")).hidden_act == "gelu_erf"
        assert read_config(write(values | {"model_type": "bert"}, "bert_config.json")).hidden_act == "gelu_erf"

    def test_sizes_and_epsilon_are_read_and_other_keys_are_skipped(self, write):
        assert read_config(write({})) == BertConfig(vocab_size=30522, hidden_act="gelu_erf")
        sizes = {
            "vocab_size": 31,
            "hidden_size": 12,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "intermediate_size": 20,
            "hidden_dropout_prob": 0.2,
            "attention_probs_dropout_prob": 0.3,
            "max_position_embeddings": 40,
            "type_vocab_size": 5,
            "initializer_range": 0.01,
            "layer_norm_eps": 1e-5,
        }
        rest = {"use_cache": True, "pad_token_id": 0, "transformers_version": "4.8.2", "classifier_dropout": None}
        assert read_config(write(sizes | rest)) == BertConfig(**sizes, hidden_act="gelu_erf", classifier_dropout=0.2)

    def test_the_epsilon_reaches_every_normalisation(self):
        x = np.array([[1e-3, -1e-3, 1e-3, -1e-3]], np.float32)
        bert = BertModel(make_config(hidden_size=4, num_hidden_layers=1, layer_norm_eps=1e-6))
        # Variance 1e-6, so that the epsilon halves it.
        for layer in (bert.embeddings.layer_norm, bert.encoder_layers[0].feed_forward_output.layer_norm):
            np.testing.assert_allclose(np.asarray(layer(x)), np.sign(x) / np.sqrt(2), rtol=1e-4)

    def test_the_two_files_of_a_folder_must_agree(self, write, tmp_path):
        write({"vocab_size": 9, "hidden_act": "gelu", "type_vocab_size": 2}, "bert_config.json")
        assert read_config(tmp_path) == BertConfig(vocab_size=9)
        write({"vocab_size": 9, "hidden_act": "gelu_new"})
        assert read_config(str(tmp_path)) == BertConfig(vocab_size=9)
        write({"vocab_size": 9, "hidden_act": "gelu"})
        sentence = (
            f"{tmp_path}/bert_config.json and config.json disagree (hidden_act is 'gelu' in the first and "
            "'gelu_erf' in the second); remove the wrong one"
        )
        with pytest.raises(ValueError, match=re.escape(sentence)):
            read_config(tmp_path)

    @pytest.mark.parametrize(
        ("values", "sentence"),
        [
            ({"model_type": "roberta"}, " is not a BERT config: model_type is 'roberta', but only 'bert', "
             "'distilbert', 'electra', 'albert' are supported"),
            ({"position_embedding_type": "relative_key"},
             " is not a BERT config: position_embedding_type is 'relative_key', but only 'absolute' is supported"),
            ({"is_decoder": True, "add_cross_attention": True},
             " is not a BERT config: add_cross_attention is True, but only False is supported"),
            ({"pruned_heads": {"0": [1]}}, ": pruned_heads is {'0': [1]}, but only {} is supported"),
            ({"is_encoder_decoder": True}, ": is_encoder_decoder is True, but only"),
            ({"quantization_config": {"bits": 8}}, ": quantization_config is {'bits': 8}, but only None"),
            ({"auto_map": {"AutoModel": "a.B"}}, ": auto_map is {'AutoModel': 'a.B'}, but only None"),
            ({"is_decoder": True, "architectures": ["BertForSequenceClassification"]},
             " has is_decoder and the head classifier: with transformers this head reads the first token"),
            ({"is_decoder": True, "architectures": ["BertForPreTraining"]},
             " has is_decoder and the head next_sentence: with transformers this head reads the first token"),
            ({"model_type": ["bert"]}, ": model_type is ['bert'], but must be a name such as 'bert'; correct it"),
            *(({"architectures": value}, f": architectures is {value!r}, but must be a list of names of classes; co")
              for value in (5, "BertModel", [1])),
            ({"hidden_act": "silu"}, ': hidden_act is "silu", but must be one of gelu, gelu_python, gelu_new,'),
            ({"hidden_size": 10}, ": hidden_size 10 is not a multiple of num_attention_heads 12"),
        ],
    )  # fmt: skip
    def test_other_networks_are_refused(self, write, values, sentence):
        path = write(values)
        with pytest.raises(ValueError, match=re.escape(f"{path}") + ".*" + re.escape(sentence)):
            read_config(path)

    def test_a_missing_file_is_refused(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"has no bert_config\.json or config\.json; put the model's"):
            read_config(tmp_path)


class TestLabels:
    def test_labels_have_the_order_of_their_numbers(self, write):
        numbers = [str(i) for i in range(12)]
        path = write({"id2label": {i: f"label {i}" for i in sorted(numbers)}})
        assert labels_of(read_object(path), path) == [f"label {i}" for i in numbers]
        assert labels_of({}, path) is None

    @pytest.mark.parametrize(
        ("values", "sentence"),
        [
            (
                {"id2label": {"0": "a", "1": "b", "2": "a"}},
                "id2label has a more than once; give each class its own name",
            ),
            ({"id2label": {"0": "a", "1": " "}}, "id2label has an empty name; give each class its own name"),
            ({"id2label": {"0": "a"}, "num_labels": 2}, "num_labels is 2, but id2label names 1 classes; correct one"),
        ],
    )
    def test_names_that_lose_probabilities_are_refused(self, write, values, sentence):
        with pytest.raises(ValueError, match=sentence):
            labels_of(values, write(values))

    @pytest.mark.parametrize("labels", [{"1": "a"}, {"0": "a", "2": "b"}, {"x": "a"}, ["a"]])
    def test_gaps_are_refused(self, write, labels):
        with pytest.raises(ValueError, match=r'config\.json: id2label must name the classes "0", "1", \.\.\. without'):
            labels_of({"id2label": labels}, write({}))


class TestDropoutOfHeads:
    @pytest.mark.parametrize(
        ("values", "rate"),
        [
            ({}, 0.1),
            ({"classifier_dropout": None, "hidden_dropout_prob": 0.3}, 0.3),
            ({"classifier_dropout": 0.4, "hidden_dropout_prob": 0.3}, 0.4),
            ({"model_type": "electra", "classifier_dropout": 0.0}, 0.0),
            ({"model_type": "albert"}, 0.1),
            ({"model_type": "albert", "classifier_dropout_prob": 0.4, "classifier_dropout": 0.3}, 0.4),
            ({"model_type": "distilbert"}, 0.2),
            ({"model_type": "distilbert", "seq_classif_dropout": 0.4}, 0.4),
        ],
    )
    def test_each_family_has_its_key(self, write, values, rate):
        config = read_config(write(values))
        assert config.classifier_dropout == rate
        assert ClassifierModel(make_config(classifier_dropout=rate), 2).head.dropout.rate == rate
        assert read_config(write(to_hugging_face_config(config, None))) == config


class TestWriting:
    @pytest.mark.parametrize(
        "problem_type", ["single_label_classification", "multi_label_classification", "regression"]
    )
    def test_the_problem_type_says_how_to_make_probabilities(self, write, problem_type):
        values = to_hugging_face_config(make_config(), "BertForSequenceClassification", ["a"], problem_type)
        assert problem_type_of(values, write(values)) == problem_type
        with pytest.raises(
            ValueError, match="problem_type is 'ranking', but must be one of single_label_classification"
        ):
            problem_type_of({"problem_type": "ranking"}, write({}))

    @pytest.mark.parametrize(
        "changes",
        [{}, {"hidden_act": "gelu_erf"}, {"hidden_act": "relu", "layer_norm_eps": 1e-5}, {"is_decoder": True}],
    )
    def test_what_is_written_is_read_back_equal(self, write, changes):
        config = make_config(**changes)
        values = to_hugging_face_config(config, "BertModel")
        assert read_config(write(values)) == config

    def test_values_are_those_of_the_other_libraries(self):
        values = to_hugging_face_config(make_config(), "BertForMaskedLM", labels=["a"])
        assert "is_decoder" not in values
        assert values["hidden_act"] == "gelu_new"
        assert values["layer_norm_eps"] == 1e-12
        assert values["model_type"] == "bert"
        assert values["architectures"] == ["BertForMaskedLM"]
        assert values["torch_dtype"] == "float32"
        assert (values["id2label"], values["label2id"]) == ({"0": "a"}, {"a": 0})
        assert to_hugging_face_config(make_config(hidden_act="gelu_erf"), "BertModel")["hidden_act"] == "gelu"


class TestBesideACheckpoint:
    def test_what_lies_beside_a_checkpoint_comes_with_it(self, write, tmp_path):
        save_checkpoint(tmp_path / "model.ckpt", {"output_weights": np.ones((2, 8), np.float32)})
        checkpoint = open_checkpoint(tmp_path)
        assert (checkpoint.config, checkpoint.labels, checkpoint.vocab_file) == (None, None, None)
        assert checkpoint.heads == ("classifier",)
        make_config().to_json_file(tmp_path / "bert_config.json")
        assert open_checkpoint(tmp_path).config == make_config()
        write(to_hugging_face_config(make_config(), "BertForTokenClassification", ["O", "PER"]))
        (tmp_path / "vocab.txt").touch()
        checkpoint = open_checkpoint(tmp_path)
        assert (checkpoint.config, checkpoint.labels) == (make_config(), ["O", "PER"])
        assert checkpoint.heads == ("token_classifier",)
        assert checkpoint.vocab_file == str(tmp_path / "vocab.txt")

    def test_an_epsilon_is_written_only_where_it_is_not_the_releases(self):
        assert "layer_norm_eps" not in make_config().to_dict()
        config = make_config(layer_norm_eps=1e-5)
        assert config.to_dict()["layer_norm_eps"] == 1e-5
        assert BertConfig.from_dict(config.to_dict()) == config

    def test_a_config_of_another_kind_does_not_hinder_reading(self, write, tmp_path):
        save_checkpoint(tmp_path / "model.ckpt", {"x": np.float32(1)})
        write({"model_type": "roberta", "architectures": None})
        checkpoint = open_checkpoint(tmp_path)
        assert (checkpoint.names, checkpoint.heads) == (["x"], ())
        with pytest.raises(ValueError, match="is not a BERT config"):
            _ = checkpoint.config
