"""DistilBERT, ELECTRA and ALBERT: the network against NumPy, and files of the Hugging Face layout."""

import json
import re

import keras
import numpy as np
import pytest
from reference_bert import ReferenceBert
from rounding import assert_close
from safetensors.numpy import load_file
from states import assert_bit_equal, weights_of
from tiny_bert import make_config, make_features, make_model, with_random_weights
from tiny_variants import SWITCHES, make_variant

from bert_keras.modeling import (
    BertModel,
    ClassifierModel,
    MultipleChoiceModel,
    PretrainingModel,
    ReplacedTokenModel,
    SquadModel,
    TokenClassifierModel,
    load_weights,
    open_checkpoint,
    read_config,
    save_checkpoint,
    save_safetensors,
    weights_by_name,
)
from bert_keras.modeling.checkpoints.conversion import select, write_contents
from bert_keras.modeling.checkpoints.copy_check import run_network
from bert_keras.modeling.lora import enable_lora, merge_lora

INPUTS = ("input_ids", "input_mask", "segment_ids")
CLASSES = {
    "ForSequenceClassification": lambda config: ClassifierModel(config, 3),
    "ForTokenClassification": lambda config: TokenClassifierModel(config, 3),
    "ForMultipleChoice": MultipleChoiceModel,
    "ForQuestionAnswering": SquadModel,
    "Model": BertModel,
}
PREFIXES = {"distilbert": "DistilBert", "electra": "Electra", "albert": "Albert"}


def reference(model):
    config = model.config
    sizes = config.num_hidden_layers, config.num_attention_heads, config.hidden_act
    return ReferenceBert(*sizes, weights_of(model), pooler_act=config.pooler_act)


def inputs_of(config, **changes):
    features = make_features(config, **changes)
    return {name: features[name] for name in INPUTS}


@pytest.mark.parametrize("model_type", SWITCHES)
def test_the_network_is_that_of_numpy(model_type):
    model = make_model(make_variant(model_type), seed=1)
    features, expected = make_features(model.config), reference(model)
    model.bert.return_all_encoder_layers = True
    encoded, outputs = model.bert({name: features[name] for name in INPUTS}), model(features)
    embedded, layers, pooled = expected.encode(*(features[name] for name in INPUTS))
    for actual, needed in zip(encoded["all_encoder_layers"], layers, strict=True):
        assert_close(actual, needed)
    assert_close(encoded["embedding_output"], embedded)
    assert_close(encoded["pooled_output"], pooled)
    log_probs = keras.ops.log_softmax(outputs["masked_lm_logits"])
    needed = expected.masked_lm_log_probs(layers[-1], features["masked_lm_positions"])
    assert_close(log_probs, needed)


def test_replaced_tokens_are_those_of_numpy():
    model = with_random_weights(ReplacedTokenModel(make_variant("electra")))
    features, expected = inputs_of(model.config), reference(model)
    _, layers, _ = expected.encode(*features.values())
    assert_close(model(features)["logits"], expected.replaced_token_logits(layers[-1]))


def test_a_model_without_segments_ignores_them():
    model = with_random_weights(BertModel(make_variant("distilbert")))
    features = inputs_of(model.config)
    assert not any("token_type" in name for name in weights_of(model))
    without = model(features | {"segment_ids": 1 - features["segment_ids"]})
    np.testing.assert_array_equal(model(features)["sequence_output"], without["sequence_output"])


def test_shared_layers_are_layers_with_equal_weights():
    """The outputs with dropout are the same, and the gradient is the sum over the layers."""
    shared = make_model(make_variant("albert", num_hidden_layers=3), seed=2)
    separate = PretrainingModel(make_variant("albert", num_hidden_layers=3, has_shared_layers=False))
    weights = weights_of(shared)
    for name, weight in weights_by_name(separate).items():
        weight.assign(weights[re.sub(r"layer_\d", "layer_0", name)])
    assert len(shared.weights) == len(separate.weights) - 2 * 16
    features, gradients = make_features(shared.config), []
    for model in (shared, separate):
        gradients.append(gradients_of(model, features))
    (loss, of_shared), (loss_of_separate, of_separate) = gradients
    np.testing.assert_allclose(loss, loss_of_separate, rtol=1e-6)
    for name, gradient in of_shared.items():
        pattern = re.escape(name).replace("layer_0", r"layer_\d")
        parts = [value for other, value in of_separate.items() if re.fullmatch(pattern, other)]
        assert len(parts) == (3 if "layer_0" in name else 1)
        np.testing.assert_allclose(gradient, sum(parts), rtol=1e-3, atol=1e-5, err_msg=name)


def gradients_of(model, features):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        logits = model(features, dropout_seed=np.array([1, 2], np.int32))["masked_lm_logits"]
        loss = tf.reduce_mean(tf.square(logits))
    weights = {name: weight for name, weight in weights_by_name(model).items() if "seq_rel" not in name}
    weights = {name: weight for name, weight in weights.items() if "pooler" not in name}
    values = tape.gradient(loss, [weight.value for weight in weights.values()])
    return loss, {name: tf.convert_to_tensor(value).numpy() for name, value in zip(weights, values, strict=True)}


@pytest.mark.parametrize("model_type", SWITCHES)
@pytest.mark.parametrize("end", CLASSES)
def test_models_come_back_from_the_other_layout(tmp_path, model_type, end):
    model = with_random_weights(CLASSES[end](make_variant(model_type)))
    class_name = PREFIXES[model_type] + end
    path = save_safetensors(tmp_path, weights_by_name(model), model.config, class_name)
    values = json.loads((tmp_path / "config.json").read_text())
    assert (values["model_type"], values["architectures"]) == (model_type, [class_name])
    assert read_config(tmp_path) == model.config
    has_pooler = model_type == "albert" or end in ("ForSequenceClassification", "ForMultipleChoice")
    needed = {name: value for name, value in weights_of(model).items() if has_pooler or "pooler" not in name}
    checkpoint = open_checkpoint(path)
    assert_bit_equal({name: checkpoint.read(name) for name in checkpoint.names}, needed)
    prefix = f"{model_type}.embeddings." if end != "Model" else "embeddings."
    assert f"{prefix}word_embeddings.weight" in load_file(path)


def test_names_are_those_of_the_published_files(tmp_path):
    for model_type, heads, names in [
        ("distilbert", "cls/predictions", ["vocab_transform.weight", "vocab_layer_norm.bias", "vocab_projector.bias",
         "distilbert.transformer.layer.1.ffn.lin2.weight", "distilbert.transformer.layer.0.output_layer_norm.weight",
         "distilbert.transformer.layer.0.attention.out_lin.bias", "distilbert.transformer.layer.1.sa_layer_norm.bias"]),
        ("electra", "cls/predictions", ["generator_predictions.dense.weight", "generator_predictions.LayerNorm.weight",
         "generator_lm_head.bias", "electra.embeddings_project.weight",
         "electra.encoder.layer.1.attention.self.key.weight"]),
        ("albert", "cls/", ["albert.encoder.albert_layer_groups.0.albert_layers.0.attention.dense.weight",
         "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm.weight", "albert.pooler.weight",
         "albert.encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm.bias",
         "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn_output.weight", "predictions.dense.weight",
         "albert.encoder.embedding_hidden_mapping_in.weight", "predictions.LayerNorm.bias", "predictions.bias",
         "sop_classifier.classifier.weight"]),
    ]:  # fmt: skip
        model = make_model(make_variant(model_type))
        kept = {name: w for name, w in weights_by_name(model).items() if name.startswith(("bert/", heads))}
        path = save_safetensors(tmp_path / model_type, kept, model.config)
        assert set(names) <= set(load_file(path))


@pytest.mark.parametrize("model_type", SWITCHES)
def test_conversion_in_both_directions_changes_no_bit(tmp_path, model_type):
    config = make_variant(model_type)
    model = with_random_weights(ReplacedTokenModel(config) if model_type == "electra" else ClassifierModel(config, 2))
    save_checkpoint(tmp_path / "a" / "bert_model.ckpt", weights_by_name(model))
    config.to_json_file(tmp_path / "a" / "bert_config.json")
    folder = tmp_path / "a"
    results = []
    for format_, name in (("safetensors", "b"), ("tensorflow", "c")):
        checkpoint = open_checkpoint(folder)
        contents = select(checkpoint, checkpoint.config, format_, None, False)
        folder = tmp_path / name
        folder.mkdir()
        write_contents(contents, folder, format_)
        results.append(run_network(contents))
    assert open_checkpoint(folder).config == config
    assert_bit_equal(results[0], results[1])
    first, last = open_checkpoint(tmp_path / "a"), open_checkpoint(folder)
    # ReplacedTokenModel has a pooler, and ElectraForPreTraining has none.
    names = [name for name in first.names if model_type != "electra" or "pooler" not in name]
    assert_bit_equal({name: last.read(name) for name in last.names}, {name: first.read(name) for name in names})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"type_vocab_size": 0}, "no model of the Hugging Face layout has hidden_act gelu, type_vocab_size 0,"),
        (
            {"embedding_size": 4},
            "embedding_size 4, has_shared_layers False, pooler_act tanh, is_decoder False together; write a",
        ),
    ],
)
def test_mixtures_that_no_family_has_are_refused(tmp_path, changes, sentence):
    config = make_config(**changes)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        save_safetensors(tmp_path / "new", weights_by_name(BertModel(config)), config)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"model_type": "albert", "num_hidden_groups": 2}, "num_hidden_groups is 2, but only 1 is supported"),
        ({"model_type": "electra", "hidden_act": "relu"}, "hidden_act is 'relu', but only 'gelu' is supported"),
    ],
)
def test_networks_of_other_kinds_are_refused(tmp_path, values, sentence):
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=re.escape(f"config.json is not a BERT config: {sentence}")):
        read_config(tmp_path)


def test_files_of_bert_have_no_switches_of_its_variants(tmp_path):
    config = make_config(hidden_act="gelu_erf")
    assert not {"embedding_size", "has_shared_layers", "pooler_act"} & set(config.to_dict())
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict() | {"hidden_act": "gelu", "embedding_size": 4}))
    assert read_config(tmp_path) == config  # transformers ignores embedding_size in a BERT


def test_lora_of_shared_layers_is_one_adapter():
    model = with_random_weights(BertModel(make_variant("albert")))
    features = inputs_of(model.config)
    before = model(features)["sequence_output"]
    enable_lora(model, 2)
    adapted = {name for name in weights_by_name(model) if "lora" in name}
    assert len(adapted) == 4
    assert all("layer_0" in name for name in adapted)
    merge_lora(model)
    assert_close(model(features)["sequence_output"], before)


def test_a_checkpoint_with_shared_layers_needs_its_config(tmp_path):
    model = make_model(make_variant("albert"))
    save_safetensors(tmp_path, weights_by_name(model), model.config)
    checkpoint = open_checkpoint(tmp_path)
    assert [name for name in checkpoint.names if "layer_1" in name] == []
    report = load_weights(weights_by_name(PretrainingModel(checkpoint.config)), checkpoint)
    assert report.new == []
