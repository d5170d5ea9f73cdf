"""The pre-training of ELECTRA: losses against NumPy, samples of the generator, and who learns from which loss."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference_bert import ReferenceBert, softmax
from states import weights_of
from tiny_bert import make_config, make_features, with_random_weights
from tiny_variants import make_variant

from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import (
    AdamWeightDecay,
    BertConfig,
    LearningRateSchedule,
    ReplacedTokenLoss,
    ReplacedTokenModel,
)
from bert_keras.modeling.objectives import replaced_tokens
from bert_keras.modeling.objectives.replaced_tokens import generator_config, gumbel_noise, replace_tokens

EMBEDDINGS = ("word_embeddings", "token_type_embeddings", "position_embeddings", "LayerNorm/gamma", "LayerNorm/beta")


def make_loss(changes=(), **options):
    """Returns a loss with random weights in both networks, and its features; `changes` are those of the config."""
    config = make_variant("electra", hidden_size=16, num_attention_heads=4, **dict(changes))
    loss = ReplacedTokenLoss(with_random_weights(ReplacedTokenModel(config)), generator_size=0.5, **options)
    rng = np.random.default_rng(1)
    for name, weight in loss.own_weights.items():
        weight.assign(0.3 * rng.standard_normal(weight.shape) + name.endswith("gamma"))
    features = make_features(config, batch_size=6)
    # Both answers occur.
    bias, mask = loss.model.head.linear.output_bias, features["input_mask"] == 1
    bias.assign(bias - np.median(np.asarray(loss.model(features)["logits"])[mask]))
    return loss, features


def weights_of_generator(loss):
    """Returns the weights of the generator by the names of BERT."""
    weights = {name: value for name, value in weights_of(loss.model).items() if "bert/embeddings/" in name}
    width = loss.generator.config.hidden_size
    weights |= {"bert/pooler/dense/kernel": np.zeros((width, width)), "bert/pooler/dense/bias": np.zeros(width)}
    for name, weight in loss.own_weights.items():
        name = name.removeprefix("loss/generator/")
        weights[name if name.startswith("cls/") else f"bert/{name}"] = weight.numpy()
    return weights


def metrics_by_numpy(loss, features, noise):
    """Returns the metrics of a batch whose samples have a given noise, by loops."""
    inputs, mask = [features[name] for name in ("input_mask", "segment_ids")], features["input_mask"] == 1
    config = loss.generator.config
    generator = ReferenceBert(2, config.num_attention_heads, "gelu_erf", weights_of_generator(loss), "gelu_erf")
    layers = generator.encode(features["input_ids"], *inputs)[1]
    log_probs = generator.masked_lm_log_probs(layers[-1], features["masked_lm_positions"])
    ids, is_replaced = features["input_ids"].copy(), np.zeros(mask.shape, bool)
    losses, hits = [], []
    for b, p in zip(*np.nonzero(features["masked_lm_weights"]), strict=True):
        place, label = features["masked_lm_positions"][b, p], features["masked_lm_ids"][b, p]
        losses.append(-log_probs[b, p, label])
        hits.append(np.argmax(log_probs[b, p]) == label)
        ids[b, place] = np.argmax(log_probs[b, p] + noise[b, p])
        is_replaced[b, place] = ids[b, place] != label
    reference = ReferenceBert(2, 4, "gelu_erf", weights_of(loss.model), "gelu_erf")
    logits = reference.replaced_token_logits(reference.encode(ids, *inputs)[1][-1])[mask]
    labels, predicted = is_replaced[mask], logits > 0
    probabilities = 1 / (1 + np.exp(-logits))
    return {
        "masked_lm_loss": np.mean(losses),
        "masked_lm_accuracy": np.mean(hits),
        "replaced_token_loss": -np.mean(np.log(np.where(labels, probabilities, 1 - probabilities))),
        "replaced_token_accuracy": np.mean(predicted == labels),
        "replaced_token_precision": labels[predicted].mean(),
        "replaced_token_recall": predicted[labels].mean(),
        "replaced_share": labels.mean(),
        "predicted_share": predicted.mean(),
    }


def test_losses_and_metrics_are_those_of_numpy(monkeypatch):
    loss, features = make_loss(masked_lm_loss_weight=2.0)
    noise = np.random.default_rng(2).gumbel(size=(6, 3, 40)).astype(np.float32)
    # One sample is the original token.
    noise[0, 0, features["masked_lm_ids"][0, 0]] = 100.0
    monkeypatch.setattr(replaced_tokens, "gumbel_noise", lambda shape, seed: noise)
    numerators, denominators = loss.numerators(features), loss.denominators(features)
    metrics = {name: float(value) for name, value in loss.metrics(numerators, denominators).items()}
    expected = metrics_by_numpy(loss, features, noise)
    assert 0 < expected["replaced_share"] < features["masked_lm_weights"].sum() / features["input_mask"].sum()
    assert 0 < expected["replaced_token_precision"] < 1
    assert metrics == pytest.approx(expected, rel=1e-5)
    needed = 2 * expected["masked_lm_loss"] + 50 * expected["replaced_token_loss"]
    assert float(loss.value(numerators, denominators)) == pytest.approx(needed, rel=1e-5)
    nothing = {**features, "input_mask": np.zeros_like(features["input_mask"])}
    assert float(loss.metrics(numerators, loss.denominators(nothing))["replaced_token_loss"]) == 0


def test_replaced_tokens_are_those_that_differ_from_the_text():
    features = {
        "input_ids": np.array([[1, 4, 8, 4, 2, 0], [1, 4, 2, 0, 0, 0]], np.int32),
        "masked_lm_positions": np.array([[1, 3, 0], [1, 0, 0]], np.int32),
        "masked_lm_ids": np.array([[7, 9, 0], [5, 0, 0]], np.int32),
        "masked_lm_weights": np.array([[1, 1, 0], [1, 0, 0]], np.float32),
    }
    ids, is_replaced = replace_tokens(features, np.array([[7, 0, 3], [6, 3, 3]], np.int32))
    np.testing.assert_array_equal(ids, [[1, 7, 8, 0, 2, 0], [1, 6, 2, 0, 0, 0]])
    np.testing.assert_array_equal(is_replaced, [[0, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0]])


def test_samples_have_the_probabilities_of_the_softmax():
    logits = np.array([2.0, 0.0, -1.0, 1.0, -4.0, 1.5], np.float32)
    num_samples = 40_000

    def draw(seed):
        return np.asarray(gumbel_noise((2, num_samples // 2, 6), np.array([[5, seed], [6, seed]], np.int32)))

    noise = np.reshape(draw(3), (num_samples, 6))
    assert np.isfinite(noise).all()
    counts = np.bincount(np.argmax(logits + noise, axis=-1), minlength=6)
    expected = num_samples * softmax(logits)
    # The chi-square statistic of 5 degrees of freedom is below this with a probability of 99 %.
    assert ((counts - expected) ** 2 / expected).sum() < 15.09
    np.testing.assert_array_equal(draw(3).reshape(noise.shape), noise)
    for first, second in ((draw(3), draw(4)), draw(3)):
        assert np.abs(np.corrcoef(np.ravel(first), np.ravel(second))[0, 1]) < 0.01


@pytest.mark.parametrize("sizes", [(6,), (2, 4), (3, 3), (1,) * 6])
def test_the_split_of_a_batch_changes_no_sample(sizes):
    loss, features = make_loss({"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    seeds = np.random.default_rng(1).integers(-(2**31), 2**31, (6, 2)).astype(np.int32)
    features |= {"example_seeds": seeds}

    def sums(first, last, seed):
        part = {name: values[first:last] for name, values in features.items()}
        values = loss.numerators(part, dropout_seed=np.array([seed, 0], np.int32))
        return np.array([float(value) for value in values.values()])

    ends = np.cumsum((0, *sizes))
    parts = [sums(first, last, place) for place, (first, last) in enumerate(itertools.pairwise(ends))]
    np.testing.assert_allclose(np.sum(parts, axis=0), sums(0, 6, 99), rtol=1e-5)


def test_each_seed_of_dropout_draws_other_samples_and_an_evaluation_repeats_its_own():
    # Without dropout, only the samples differ.
    loss, features = make_loss({"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})

    def value(**options):
        return float(loss.numerators(features, **options)["replaced_token_loss"])

    assert value() == value()
    losses = [value(dropout_seed=np.array([seed, 0], np.int32)) for seed in (1, 1, 2, 3)]
    assert losses[0] == losses[1]
    assert len({round(value, 4) for value in losses}) == 3


def test_each_loss_reaches_its_own_network_and_the_shared_embeddings():
    gradients = {}
    for kind, weights in {"generator": (1.0, 0.0), "discriminator": (0.0, 50.0), "both": (1.0, 50.0)}.items():
        loss, features = make_loss(masked_lm_loss_weight=weights[0], replaced_token_loss_weight=weights[1])
        variables = {name: each.value for name, each in loss.own_weights.items()}
        variables |= {each.path.partition("/")[2]: each.value for each in loss.model.bert.weights}
        with tf.GradientTape() as tape:
            numerators = loss.numerators(features, dropout_seed=np.array([3, 0], np.int32))
            value = loss.value(numerators, loss.denominators(features))
        found = tape.gradient(value, variables)
        gradients[kind] = {
            name: None if each is None else np.asarray(tf.convert_to_tensor(each)) for name, each in found.items()
        }
    pooler = {"pooler/dense/kernel", "pooler/dense/bias"}
    for name, both in gradients["both"].items():
        parts = [gradients[kind][name] for kind in ("generator", "discriminator")]
        if name.startswith("embeddings/") and "projection" not in name:
            assert all(np.abs(part).max() > 1e-4 for part in parts), name
        else:
            is_of_generator = name.startswith("loss/generator/")
            assert parts[is_of_generator] is None, name
            assert (parts[not is_of_generator] is None) == (name in pooler), name
        present = [part for part in parts if part is not None]
        if present:
            np.testing.assert_allclose(both, sum(present), rtol=1e-3, atol=1e-5, err_msg=name)


def test_the_embeddings_are_shared_and_nothing_else_is():
    loss, _ = make_loss()
    ours, theirs = loss.model.bert.embeddings, loss.generator.bert.embeddings
    for name in EMBEDDINGS[:3]:
        assert getattr(ours, name) is getattr(theirs, name)
    assert ours.layer_norm is theirs.layer_norm
    assert ours.projection is not theirs.projection
    assert not any(name.endswith(f"embeddings/{table}") for name in loss.own_weights for table in EMBEDDINGS)
    assert not any("pooler" in name for name in loss.own_weights)
    # 2 of the projection, 16 of each layer, 5 of the head.
    assert len(loss.own_weights) == 2 + 2 * 16 + 5
    number = sum(keras.ops.size(weight) for weight in loss.model.weights)
    assert number == sum(value.size for value in weights_of(ReplacedTokenModel(loss.model.config)).values())


def test_training_finds_tokens_that_the_text_does_not_have():
    """The text has one of 40 tokens, so nothing hides a sample that is another one. The generator does not learn."""
    keras.utils.set_random_seed(2)
    config = make_variant("electra", hidden_size=16, num_hidden_layers=1, initializer_range=0.2)
    loss = ReplacedTokenLoss(ReplacedTokenModel(config), masked_lm_loss_weight=0.0)
    rng = np.random.default_rng(3)
    words = np.full((64, 8), 5, np.int32)
    positions = np.stack([rng.choice(8, 2, replace=False) for _ in words]).astype(np.int32)
    features = {
        "input_ids": words,
        "input_mask": np.ones((64, 8), np.int32),
        "segment_ids": np.zeros((64, 8), np.int32),
        "masked_lm_positions": positions,
        "masked_lm_ids": np.take_along_axis(words, positions, axis=1),
        "masked_lm_weights": np.ones((64, 2), np.float32),
    }
    optimizer = AdamWeightDecay(LearningRateSchedule(0.01, 100, 0))
    trainer = TensorFlowTrainer(loss, optimizer, tf.distribute.get_strategy(), seed=1)
    trainer.train(iter(in_parts(tf.data.Dataset.from_tensors(features)).repeat()), tf.constant(80))
    metrics = loss.metrics(loss.numerators(features), loss.denominators(features))
    assert float(metrics["replaced_share"]) > 0.2
    assert float(metrics["replaced_token_accuracy"]) > 0.95
    assert min(float(metrics[f"replaced_token_{name}"]) for name in ("precision", "recall")) > 0.95


@pytest.mark.parametrize(
    ("sizes", "size", "expected"),
    [
        # Width, heads, inner width and embeddings of the released generators.
        ((256, 4, 1024, 128), 0.25, (64, 1, 256, 128)),
        ((768, 12, 3072, None), 0.3333, (256, 4, 1024, 768)),
        ((1024, 16, 4096, None), 0.25, (256, 4, 1024, 1024)),
        ((256, 4, 1024, 128), 0.5, (128, 2, 512, None)),
        ((256, 4, 1024, None), 1.0, (256, 4, 1024, None)),
    ],
)
def test_the_sizes_of_a_generator(sizes, size, expected):
    width, heads, inner, embedding = sizes
    config = BertConfig(30522, width, 12, heads, inner, embedding_size=embedding)
    made = generator_config(config, size)
    found = made.hidden_size, made.num_attention_heads, made.intermediate_size, made.embedding_size
    assert (*found, made.num_hidden_layers) == (*expected, 12)


def test_a_size_without_a_network_is_refused():
    with pytest.raises(ValueError, match="a generator of 0.33 times .* hidden_size 253 is not a multiple of num_att"):
        generator_config(make_config(hidden_size=768, num_attention_heads=12), 0.33)
