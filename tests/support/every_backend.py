"""Computes numbers of the network, the losses and the optimizer that must be the same on every backend of Keras.

A test runs this file as a program in a process with another backend; see `tests/modeling/test_backends.py`.
"""

import dataclasses
import functools
import sys
import types
from unittest import mock

import keras
import numpy as np
from keras import ops

from bert_keras.modeling import (
    AdamWeightDecay,
    BertConfig,
    BertModel,
    ClassificationLoss,
    LearningRateSchedule,
    MultiLabelLoss,
    PretrainingLoss,
    PretrainingModel,
    RegressionLoss,
    SquadLoss,
    TokenClassificationLoss,
    clip_by_global_norm,
    load_weights,
    weights_by_name,
)


def losses_and_updates():
    """Returns the learning rates, an update and the metrics of fine-tuning for random logits, a dict of arrays."""
    x = ops.convert_to_tensor(np.linspace(-2, 2, 9, dtype="float32"))
    schedule = LearningRateSchedule(0.1, num_train_steps=10, num_warmup_steps=4)
    [clipped], _ = clip_by_global_norm([x], 1.0)
    optimizer = AdamWeightDecay(schedule)
    result = {"rates": ops.stack([schedule(ops.convert_to_tensor(step)) for step in range(12)])}
    result["updated"] = ops.stack(optimizer.update("kernel", x, clipped, 0.1 * x, ops.square(x), schedule(5)))

    random = np.random.default_rng(0)
    names = ("logits", "start_logits", "end_logits")
    outputs = {name: ops.convert_to_tensor(random.normal(size=(6, 3)).astype("float32")) for name in names}
    classes, starts, ends = (random.integers(0, 3, 6).astype("int32") for _ in range(3))
    values = random.normal(size=6).astype("float32")
    several = random.integers(0, 2, (6, 3)).astype("float32")

    def sequences(features, dropout_seed=None):
        return outputs

    def tokens(features, dropout_seed=None):
        return {"logits": ops.reshape(outputs["logits"], (2, 3, 3))}

    for loss, labels in (
        (ClassificationLoss(sequences, [0.5, 4.0, 0.25]), {"label_ids": classes}),
        (RegressionLoss(sequences), {"label_values": values}),
        (MultiLabelLoss(sequences), {"label_values": several}),
        (SquadLoss(sequences), {"start_positions": starts, "end_positions": ends}),
        (TokenClassificationLoss(tokens), {"label_ids": classes.reshape(2, 3) - 1}),
    ):
        batch = {"input_ids": np.ones((6, 3), "int32"), **labels}
        metrics = loss.metrics(loss.numerators(batch), loss.denominators(batch))
        result |= {f"{type(loss).__name__}/{name}": value for name, value in metrics.items()}
    return {name: ops.convert_to_numpy(value) for name, value in result.items()}


def forward_pass(model, features):
    """Returns outputs and losses of a pre-training model under the names of the golden files, a dict of tensors."""
    model.bert.return_all_encoder_layers = True
    encoded = model.bert(features["input_ids"], features["input_mask"], features["segment_ids"])
    scores = model(features)
    loss = PretrainingLoss(model)
    numerators, denominators = loss.numerators(features), loss.denominators(features)
    metrics = loss.metrics(numerators, denominators)
    return {
        **{name: encoded[name] for name in ("embedding_output", "sequence_output", "pooled_output")},
        **{f"encoder_layer_{i}": layer for i, layer in enumerate(encoded["all_encoder_layers"])},
        "masked_lm_log_probs": ops.log_softmax(scores["masked_lm_logits"]),
        "next_sentence_log_probs": ops.log_softmax(scores["next_sentence_logits"]),
        "total_loss": loss.value(numerators, denominators),
        "masked_lm_loss": metrics["masked_lm_loss"],
        "next_sentence_loss": metrics["next_sentence_loss"],
    }


def left_to_right(config, weights, features):
    """Returns outputs of the same weights with a causal mask, a dict of arrays; `weights` is a checkpoint."""
    bert = BertModel(dataclasses.replace(config, is_decoder=True))
    load_weights(weights_by_name(bert), weights, ignored=["cls/*"])
    encoded = bert(features["input_ids"], features["input_mask"], features["segment_ids"])
    return {f"left_to_right/{name}": ops.convert_to_numpy(value) for name, value in encoded.items()}


def check_dropout(model, features):
    """Checks that dropout is a function of the seed; returns a seed of the backend's type."""
    dtype = "uint32" if keras.backend.backend() == "jax" else "int32"
    for layer in model.bert.encoder_layers:
        layer.self_attention.dropout.rate = 0.5
    seeds = [np.array(numbers, dtype) for numbers in ((1, 2), (1, 2), (5, 2))]
    loss = PretrainingLoss(model)
    first, again, other = (float(loss.numerators(features, seed)["masked_lm_loss"]) for seed in seeds)
    assert first == again != other, (first, again, other)
    return seeds[0]


def check_other_devices():
    """Checks on JAX that a network on what looks like a TPU or a GPU computes the same as on the CPU."""
    import jax
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel

    # The kernel for a TPU takes only these sizes; it then runs in an interpreter.
    config = BertConfig(9, 256, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=128)
    bert, ids = BertModel(config), np.arange(256).reshape(2, 128) % 9
    is_token = (np.arange(128) < [[70], [128]]).astype("int32")
    interpreted = functools.partial(splash_attention_kernel.make_splash_mha, interpret=True)
    given = mock.Mock(wraps=ops.dot_product_attention)
    vectors = {}
    for platform in ("cpu", "tpu", "gpu"):
        devices = mock.Mock(return_value=[types.SimpleNamespace(platform=platform, id=0)])
        with (
            mock.patch.object(jax, "devices", devices),
            mock.patch.object(splash_attention_kernel, "make_splash_mha", interpreted),
            mock.patch.object(ops, "dot_product_attention", given),
        ):
            vectors[platform] = bert(ids, is_token)["sequence_output"]
        np.testing.assert_allclose(vectors[platform], vectors["cpu"], rtol=1e-5, atol=1e-5, err_msg=platform)
    assert [call.kwargs["flash_attention"] for call in given.mock_calls] == [False, False, None]


def check_recomputed_layers(model, features, seed):
    """Checks on JAX that recomputed layers have the same gradients."""
    import jax

    loss, variables = PretrainingLoss(model), model.trainable_variables
    denominators = loss.denominators(features)

    def gradients(is_recomputed):
        def value(values):
            with keras.StatelessScope(state_mapping=zip(variables, values, strict=True)):
                return loss.value(loss.numerators(features, seed), denominators)

        model.bert.is_recomputed = is_recomputed
        return jax.jit(jax.grad(value))([variable.value for variable in variables])

    for kept, recomputed in zip(gradients(False), gradients(True), strict=True):
        np.testing.assert_allclose(recomputed, kept, rtol=1e-5, atol=1e-7)


def main(config_file, forward_file, weights_file, result_file):
    arrays = np.load(forward_file)
    features = {name.removeprefix("in/"): arrays[name] for name in arrays if name.startswith("in/")}
    model = PretrainingModel(BertConfig.from_json_file(config_file))
    load_weights(weights_by_name(model), weights_file)
    result = forward_pass(model, features) | losses_and_updates() | left_to_right(model.config, weights_file, features)
    seed = check_dropout(model, features)
    if keras.backend.backend() == "jax":
        import jax

        check_other_devices()
        check_recomputed_layers(model, features, seed)
        keras.config.set_dtype_policy("mixed_bfloat16")
        in_16_bits = PretrainingModel(model.config)
        load_weights(weights_by_name(in_16_bits), weights_file)
        scores = jax.jit(lambda: in_16_bits(features)["masked_lm_logits"])()
        result["masked_lm_log_probs_in_16_bits"] = ops.log_softmax(scores)
    assert "tensorflow" not in sys.modules
    np.savez(result_file, **{name: ops.convert_to_numpy(value) for name, value in result.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
