"""The losses of distillation against NumPy: students and teachers of other widths, heads and layers; ragged batches."""

import dataclasses
import functools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference_bert import ReferenceBert, softmax
from states import assert_bit_equal, weights_of
from tiny_bert import make_config, make_features, with_random_weights

from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import (
    AdamWeightDecay,
    ClassificationLoss,
    ClassifierModel,
    LearningRateSchedule,
    MultiLabelLoss,
    PretrainingLoss,
    PretrainingModel,
    RegressionLoss,
    SquadLoss,
    SquadModel,
    TokenClassificationLoss,
    TokenClassifierModel,
)
from bert_keras.settings.groups import TeacherSettings
from bert_keras.tasks.distillation.loss import DistillationLoss
from bert_keras.tasks.distillation.recipe import Recipe, recipe_of

OURS = make_config()
THEIRS = make_config(hidden_size=12, num_hidden_layers=3, num_attention_heads=3)
# The losses of outputs do not depend on layers.
SHALLOW = {"ours": make_config(num_hidden_layers=1), "theirs": dataclasses.replace(THEIRS, num_hidden_layers=1)}
DECODER = make_config(is_decoder=True)
OF_LAYERS = Recipe(1.0, 0.0, hidden=2.0, attention=3.0, cosine=4.0, teacher_layers=(1, 3))
WITHOUT_LABEL = 1  # the index of an example


def labelled(**labels):
    """Returns a ragged batch of four examples, of which one has no label."""
    features = {name: make_features(OURS)[name] for name in ("input_ids", "input_mask", "segment_ids")}
    weights = np.ones(4, np.float32)
    weights[WITHOUT_LABEL] = 0.0
    return features | labels | {"label_weights": weights}


def pair_of(make_model, make_loss, recipe, ours, theirs):
    """Returns the loss of a random student and the random teacher."""
    student, teacher = with_random_weights(make_model(ours), 1), with_random_weights(make_model(theirs), 2)
    return DistillationLoss(make_loss(student), teacher, recipe), teacher


@functools.cache
def classifiers():
    """Returns a random student and a random teacher of three classes, which no test trains."""
    return tuple(with_random_weights(ClassifierModel(config, 3), seed) for seed, config in enumerate(SHALLOW.values()))


def means_of(loss, features):
    """Returns the metrics of a batch, and its loss."""
    numerators, denominators = loss.numerators(features), loss.denominators(features)
    metrics = loss.metrics(numerators, denominators)
    return {name: float(value) for name, value in metrics.items()}, float(loss.value(numerators, denominators))


def divergence(theirs, ours):
    """Returns the Kullback-Leibler divergence of two distributions on the last axis."""
    return (theirs * (np.log(theirs) - np.log(ours))).sum(-1)


def logits_of(model, features, name="logits"):
    return np.asarray(model(features)[name], np.float64)


def classifier(num_classes):
    return lambda config: ClassifierModel(config, num_classes)


def test_soft_labels_of_classes_equal_numpy():
    features = labelled(label_ids=np.array([0, 2, 1, 1], np.int32))
    recipe = Recipe(0.3, 0.7, temperature=2.5)
    student, teacher = classifiers()
    metrics, value = means_of(DistillationLoss(ClassificationLoss(student), teacher, recipe), features)
    ours, theirs = logits_of(student, features), logits_of(teacher, features)
    soft = 2.5**2 * divergence(softmax(theirs / 2.5), softmax(ours / 2.5)).mean()
    hard = -np.log(softmax(ours))[[0, 2, 3], [0, 1, 1]].mean()  # without the example that has no label
    np.testing.assert_allclose([metrics["soft_loss"], metrics["loss"]], [soft, hard], rtol=1e-5)
    np.testing.assert_allclose(value, 0.3 * hard + 0.7 * soft, rtol=1e-5)


def test_soft_numbers_and_soft_labels_of_several_classes_equal_numpy():
    values = labelled(label_values=np.array([0.5, 9.0, -1.0, 2.0], np.float32))
    loss, teacher = pair_of(classifier(1), RegressionLoss, Recipe(temperature=3.0), **SHALLOW)
    metrics, _ = means_of(loss, values)
    ours, theirs = logits_of(loss.model, values)[:, 0], logits_of(teacher, values)[:, 0]
    np.testing.assert_allclose(metrics["soft_loss"], ((ours - theirs) ** 2).mean(), rtol=1e-5)
    np.testing.assert_allclose(metrics["loss"], ((ours - values["label_values"]) ** 2)[[0, 2, 3]].mean(), rtol=1e-5)

    several = labelled(label_values=np.eye(4, 3, dtype=np.float32))
    student, teacher = classifiers()
    metrics, _ = means_of(DistillationLoss(MultiLabelLoss(student), teacher, Recipe(temperature=3.0)), several)
    ours, theirs = (1 / (1 + np.exp(-logits_of(model, several) / 3.0)) for model in (student, teacher))
    both = [np.stack([p, 1 - p], -1) for p in (theirs, ours)]
    np.testing.assert_allclose(metrics["soft_loss"], 9.0 * divergence(*both).mean(), rtol=1e-5)


def test_soft_labels_of_tokens_positions_and_masked_words_equal_numpy():
    """Only tokens that the loss counts have a soft loss."""
    tokens = labelled(label_ids=np.where(make_features(OURS)["input_mask"] == 1, 1, -1).astype(np.int32))
    del tokens["label_weights"]
    loss, teacher = pair_of(
        lambda config: TokenClassifierModel(config, 3), TokenClassificationLoss, Recipe(), **SHALLOW
    )
    ours, theirs = softmax(logits_of(loss.model, tokens)), softmax(logits_of(teacher, tokens))
    expected = divergence(theirs, ours)[tokens["input_mask"] == 1].mean()
    np.testing.assert_allclose(means_of(loss, tokens)[0]["soft_loss"], expected, rtol=1e-5)

    spans = labelled(**{name: np.array([1, 2, 3, 0], np.int32) for name in ("start_positions", "end_positions")})
    loss, teacher = pair_of(SquadModel, SquadLoss, Recipe(), **SHALLOW)
    lengths = spans["input_mask"].sum(-1)  # padding is no choice
    assert len(set(lengths)) > 1
    found = means_of(loss, spans)[0]["soft_loss"]
    expected = []
    for name in ("start_logits", "end_logits"):
        both = [logits_of(model, spans, name) for model in (teacher, loss.model)]
        for row, length in enumerate(lengths):
            expected.append(divergence(*(softmax(logits[row, :length]) for logits in both)))
    np.testing.assert_allclose(found, np.mean(expected), rtol=1e-5)

    masked = make_features(OURS)
    loss, teacher = pair_of(PretrainingModel, PretrainingLoss, Recipe(), **SHALLOW)
    ours, theirs = (softmax(logits_of(model, masked, "masked_lm_logits")) for model in (loss.model, teacher))
    weights = masked["masked_lm_weights"]
    expected = (weights * divergence(theirs, ours)).sum() / weights.sum()
    np.testing.assert_allclose(means_of(loss, masked)[0]["soft_loss"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("heads", "changes"), [(4, {}), (2, {"is_decoder": True}), (4, {"has_shared_layers": True})], ids=str
)
def test_losses_of_layers_equal_numpy(heads, changes):
    student = make_config(**changes)
    theirs = make_config(hidden_size=12, num_hidden_layers=3, num_attention_heads=heads, **changes)
    features = labelled(label_ids=np.array([0, 2, 1, 1], np.int32))
    loss, teacher = pair_of(classifier(3), ClassificationLoss, OF_LAYERS, student, theirs)
    [(name, projection)] = loss.own_weights.items()
    assert (name, tuple(projection.shape)) == ("loss/projection", (8, 12))
    metrics, found = means_of(loss, features)

    mask, is_token = features["input_mask"], features["input_mask"] == 1
    inputs = [features[name] for name in ("input_ids", "input_mask", "segment_ids")]
    networks, states = [], []
    for model, config in ((loss.model, student), (teacher, theirs)):
        sizes = config.num_hidden_layers, config.num_attention_heads, config.hidden_act
        networks.append(ReferenceBert(*sizes, weights_of(model), is_decoder=config.is_decoder))
        embedded, layers, _ = networks[-1].encode(*inputs)
        states.append([embedded, *layers])
    matrix = np.asarray(projection, np.float64)
    hidden, attention = [], []
    for ours, theirs in ((1, 1), (2, 3)):
        hidden.append(((states[0][ours] @ matrix - states[1][theirs]) ** 2).mean(-1)[is_token].mean())
        first, second = (
            network.probabilities(
                state[layer - 1], mask, f"bert/encoder/layer_{0 if student.has_shared_layers else layer - 1}/attention"
            )
            for network, state, layer in zip(networks, states, (ours, theirs), strict=True)
        )
        if heads != 2:
            first, second = first.mean(1, keepdims=True), second.mean(1, keepdims=True)
        errors = (second * (np.log(second + 1e-6) - np.log(first + 1e-6))).sum(-1).mean(1)
        attention.append(errors[is_token].mean())
    first, second = states[0][-1] @ matrix, states[1][-1]
    cosine = (first * second).sum(-1) / np.linalg.norm(first, axis=-1) / np.linalg.norm(second, axis=-1)
    expected = {
        "hidden_loss": np.mean(hidden),
        "attention_loss": np.mean(attention),
        "cosine_loss": (1 - cosine)[is_token].mean(),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=2e-5, err_msg=name)
    weights = {"hidden_loss": 2.0, "attention_loss": 3.0, "cosine_loss": 4.0}
    total = metrics["loss"] + sum(weights[name] * value for name, value in expected.items())
    np.testing.assert_allclose(found, total, rtol=2e-5)
    assert set(loss.model(features)) == {"logits"}  # as before


@pytest.mark.parametrize(
    ("recipe", "unchanged"),
    [
        (Recipe(0.0, 0.0, hidden=1.0, teacher_layers=(1, 3)), {"bert/pooler", "output_weights", "output_bias"}),
        # The last layer of the student is not compared, and the values of an attention do not change its probabilities.
        (
            Recipe(0.0, 0.0, attention=1.0, teacher_layers=(3, 0)),
            {"bert/pooler", "output_weights", "output_bias", "bert/encoder/layer_1", "bert/encoder/layer_0"},
        ),
    ],
    ids=["hidden", "attention"],
)
@pytest.mark.usefixtures("no_graphs")
def test_training_changes_only_what_the_losses_depend_on(recipe, unchanged):
    """A loss of weight 0 changes no weight, not even by weight decay. The teacher stays as it is."""
    features = {
        name: tf.constant(value) for name, value in labelled(label_ids=np.array([0, 2, 1, 1], np.int32)).items()
    }
    keras.utils.set_random_seed(3)
    loss, teacher = pair_of(classifier(3), ClassificationLoss, recipe, OURS, THEIRS)
    teacher.trainable = False
    before, of_teacher = weights_of(loss.model), weights_of(teacher)
    projections = {name: weight.numpy() for name, weight in loss.own_weights.items()}
    optimizer = AdamWeightDecay(LearningRateSchedule(0.01, 30, 0))
    trainer = TensorFlowTrainer(loss, optimizer, tf.distribute.get_strategy(), 1)
    first = means_of(loss, features)[1]
    trainer.train(iter(in_parts(tf.data.Dataset.from_tensors(features)).repeat()), tf.constant(1))
    assert means_of(loss, features)[1] < first
    assert_bit_equal(weights_of(teacher), of_teacher)
    assert set(projections) == ({"loss/projection"} if recipe.hidden else set())
    for name, value in projections.items():
        assert np.abs(loss.own_weights[name].numpy() - value).max() > 0.01
        assert {name, f"{name}/adam_m", f"{name}/adam_v"} <= set(trainer.state)
    for name, value in weights_of(loss.model).items():
        is_query = "/attention/self/query" in name or "/attention/self/key" in name
        is_compared = name.startswith("bert/encoder/layer_0") and is_query
        is_same = name.startswith(tuple(unchanged)) and not is_compared
        assert (value.tobytes() == before[name].tobytes()) == is_same, name


SETTINGS = TeacherSettings(hidden_loss_weight=1.0)


def test_the_recipe_spaces_layers_evenly():
    six = make_config(num_hidden_layers=6)
    assert recipe_of(SETTINGS, six, OURS).teacher_layers == (3, 6)
    assert recipe_of(dataclasses.replace(SETTINGS, teacher_layers=(0, 6)), six, OURS).teacher_layers == (0, 6)
    assert recipe_of(TeacherSettings(), None, OURS).extras == {"soft_loss": 0.5}


@pytest.mark.parametrize(
    ("teacher", "changes", "message"),
    [
        (THEIRS, {}, "the 3 layers of the teacher are not a multiple of the student's 2; name those to imitate"),
        (THEIRS, {"teacher_layers": (3,)}, "teacher_layers=3 must be 2 numbers from 1 to 3, one for each layer"),
        (THEIRS, {"teacher_layers": (1, 4)}, "teacher_layers=1,4 must be 2 numbers from 1 to 3"),
        (THEIRS, {"teacher_layers": (0, 0)}, "teacher_layers=0,0 must be 2 numbers from 1 to 3"),
        (DECODER, {}, "the teacher reads left to right (is_decoder in its config), but the student sees all tokens"),
        (None, {}, "hidden_loss_weight and attention_loss_weight compare layers, which an export does not give"),
        (
            THEIRS,
            dict.fromkeys(("soft_loss_weight", "hidden_loss_weight"), 0.0),
            "all weights of the losses against the teacher are 0; give soft_loss_weight above 0",
        ),
    ],
)
def test_mistakes_in_the_recipe(teacher, changes, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        recipe_of(dataclasses.replace(SETTINGS, **changes), teacher, OURS)


def test_a_student_that_reads_left_to_right_needs_such_a_teacher():
    ours, theirs = (dataclasses.replace(config, is_decoder=True) for config in (OURS, THEIRS))
    settings = dataclasses.replace(SETTINGS, teacher_layers=(1, 3))
    assert recipe_of(settings, theirs, ours).hidden == 1.0
    with pytest.raises(ValueError, match="^the student reads left to right .* but the teacher sees all tokens"):
        recipe_of(settings, THEIRS, ours)
