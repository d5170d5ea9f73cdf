"""The original BERT's numbers: forward pass and losses of two small models, and anchors of a third.

`tests/training/test_step.py` compares 30 updates of the two models.
"""

import types

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import (
    AdamWeightDecay,
    BertConfig,
    LearningRateSchedule,
    PretrainingLoss,
    PretrainingModel,
    load_weights,
    weights_by_name,
)


def close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=0, atol=1e-5)


def load_golden(folder):
    """Returns a golden model with the original weights, its folder and its forward pass."""
    model = PretrainingModel(BertConfig.from_json_file(folder / "bert_config.json"))
    load_weights(weights_by_name(model), folder / "bert_model.ckpt")
    arrays = np.load(folder / "forward.npz")
    return types.SimpleNamespace(
        folder=folder,
        model=model,
        features={name.removeprefix("in/"): arrays[name] for name in arrays if name.startswith("in/")},
        out={name.removeprefix("out/"): arrays[name] for name in arrays if name.startswith("out/")},
    )


@pytest.mark.parametrize("name", ["pretraining_a", "pretraining_b"])
def test_the_forward_pass_equals_the_release(golden_dir, name):
    golden = load_golden(golden_dir / name)
    inputs = golden.features
    golden.model.bert.return_all_encoder_layers = True
    encoded = golden.model.bert(inputs["input_ids"], inputs["input_mask"], inputs["segment_ids"])
    assert len(encoded["all_encoder_layers"]) == golden.model.config.num_hidden_layers
    for i, layer in enumerate(encoded["all_encoder_layers"]):
        close(layer, golden.out[f"encoder_layer_{i}"])
    for name in ("embedding_output", "sequence_output", "pooled_output"):
        close(encoded[name], golden.out[name])
    scores = golden.model(golden.features)
    log_probs = ops.log_softmax(scores["masked_lm_logits"])
    close(ops.reshape(log_probs, (-1, golden.model.config.vocab_size)), golden.out["masked_lm_log_probs"])
    close(ops.log_softmax(scores["next_sentence_logits"]), golden.out["next_sentence_log_probs"])
    loss = PretrainingLoss(golden.model)
    numerators, denominators = loss.numerators(golden.features), loss.denominators(golden.features)
    metrics = loss.metrics(numerators, denominators)
    close(metrics["masked_lm_loss"], golden.out["masked_lm_loss"])
    close(metrics["next_sentence_loss"], golden.out["next_sentence_loss"])
    close(loss.value(numerators, denominators), golden.out["total_loss"])


@pytest.fixture
def anchor_model():
    """The model of the anchors: every weight is a sine of its index."""
    config = BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = PretrainingModel(config)
    for k, (name, weight) in enumerate(sorted(weights_by_name(model).items())):
        values = 0.3 * np.sin(0.37 * np.arange(np.prod(weight.shape)) + k + 1)
        weight.assign(values.reshape(weight.shape) + name.endswith("gamma"))
    return model


ANCHOR_FEATURES = {
    "input_ids": np.array([[2, 7, 11, 4, 3, 9, 13, 3], [2, 5, 4, 3, 17, 3, 0, 0]], np.int32),
    "input_mask": np.array([[1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0, 0]], np.int32),
    "segment_ids": np.array([[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0, 0]], np.int32),
    "masked_lm_positions": np.array([[3, 6, 0], [2, 0, 0]], np.int32),
    "masked_lm_ids": np.array([[8, 13, 0], [6, 0, 0]], np.int32),
    "masked_lm_weights": np.array([[1, 1, 0], [1, 0, 0]], np.float32),
    "next_sentence_labels": np.array([[0], [1]], np.int32),
}


def test_anchors_of_the_forward_pass(anchor_model):
    inputs = [ANCHOR_FEATURES[name] for name in ("input_ids", "input_mask", "segment_ids")]
    anchor_model.bert.return_all_encoder_layers = True
    encoded = anchor_model.bert(*inputs)
    close(
        encoded["embedding_output"][0, 0],
        [-0.01499534, -0.62396026, -0.82156324, -0.6512444, -0.24163604, 0.2660731, 0.78209984, 1.2912366],
    )
    close(
        encoded["all_encoder_layers"][0][0, 3],
        [-1.7828758, -1.7297597, -0.9765003, 0.14831328, 1.1025983, 1.5393004, 1.5008731, 1.2605447],
    )
    close(
        encoded["sequence_output"][0, 0],
        [0.32025847, -0.48447233, -0.8796183, -0.9065544, -0.6204847, -0.07306109, 0.66690326, 1.5211929],
    )
    close(
        encoded["sequence_output"][1, 7],
        [-0.9766771, -0.93005157, -0.68846685, -0.3410195, 0.04424134, 0.40479663, 0.69908434, 0.9464225],
    )
    close(
        encoded["pooled_output"][0],
        [0.2182049, 0.21104267, 0.17590605, 0.11665548, 0.04073963, -0.04115833, -0.11701314, -0.17615485],
    )
    scores = anchor_model(ANCHOR_FEATURES)
    masked_lm = ops.sparse_categorical_crossentropy(
        ANCHOR_FEATURES["masked_lm_ids"], scores["masked_lm_logits"], from_logits=True
    )
    close(np.ravel(masked_lm), [3.4585474, 2.6660714, 2.752298, 3.4053063, 2.751009, 2.751009])
    close(-ops.log_softmax(scores["next_sentence_logits"])[0, 0], 0.51196945)
    close(-ops.log_softmax(scores["next_sentence_logits"])[1, 1], 0.9124724)


def test_anchors_of_the_loss_and_the_updates(anchor_model):
    # loss before the update, gradient norm, and four weights after the update
    anchors = np.array(
        [
            [3.888852, 5.790414, 0.1662243, -0.2999335, -0.2559924, 1.0449631],
            [3.888852, 5.790414, 0.1803160, -0.2857789, -0.2418332, 1.0591187],
            [3.426748, 3.760468, 0.2101723, -0.2527414, -0.2089559, 1.0899456],
            [3.337962, 1.945690, 0.2370079, -0.2144952, -0.1726162, 1.1186887],
            [3.207206, 2.399101, 0.2377184, -0.1856345, -0.1387911, 1.1380290],
            [2.623058, 1.832871, 0.2260972, -0.1649924, -0.1089277, 1.1545947],
            [2.334484, 1.514626, 0.2161524, -0.1474641, -0.0839727, 1.1630205],
            [2.050836, 1.396557, 0.2073363, -0.1339139, -0.0646940, 1.1632056],
            [1.891235, 1.442779, 0.2002374, -0.1242035, -0.0516550, 1.1609458],
            [1.777193, 1.314050, 0.1961458, -0.1190861, -0.0450937, 1.1596081],
        ]
    )
    optimizer = AdamWeightDecay(LearningRateSchedule(1e-2, num_train_steps=10, num_warmup_steps=3))
    trainer = TensorFlowTrainer(PretrainingLoss(anchor_model), optimizer, tf.distribute.get_strategy(), seed=0)
    batches = iter(in_parts(tf.data.Dataset.from_tensors(ANCHOR_FEATURES)).repeat())
    weights = weights_by_name(anchor_model)
    words = weights["bert/embeddings/word_embeddings"]
    others = (weights["cls/predictions/output_bias"], weights["bert/encoder/layer_0/output/LayerNorm/gamma"])
    seen = []
    for _ in range(10):
        totals = trainer.train(batches, tf.constant(1))
        seen.append([totals["loss"], totals["gradient_norm"], words[7, 0], words[19, 0], others[0][8], others[1][0]])
    seen = np.array(seen)
    # The gradient norm has no fixed scale: processors differ by 1e-5 of it.
    np.testing.assert_allclose(seen[:, 1], anchors[:, 1], rtol=1e-4)
    close(np.delete(seen, 1, axis=1), np.delete(anchors, 1, axis=1))
    close(trainer.train(batches, tf.constant(1))["loss"], 1.711664)
