"""The pre-training task: losses against NumPy, and sums that do not care how a batch is split."""

import numpy as np
import pytest
from keras import ops

from modeling import PretrainingTask
from tests.modeling.tiny_bert import make_config, make_features, make_model
from tests.reference_bert import ReferenceBert, softmax


@pytest.fixture
def model():
    return make_model(make_config(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3))


@pytest.fixture
def task(model):
    return PretrainingTask(model)


@pytest.fixture
def features(model):
    return make_features(model.config, batch_size=6)


def numbers(scalars):
    return {name: float(value) for name, value in scalars.items()}


def rows(features, which):
    return {name: values[which] for name, values in features.items()}


def test_losses_equal_the_reference(model, task, features):
    weights = {weight.path: np.asarray(weight) for weight in model.weights}
    masked_lm, next_sentence = ReferenceBert(2, 2, "gelu", weights).losses(features)
    numerators, denominators = task.numerators(features), task.denominators(features)
    assert float(task.loss(numerators, denominators)) == pytest.approx(masked_lm + next_sentence, abs=1e-5)
    metrics = numbers(task.metrics(numerators, denominators))
    num_masked = features["masked_lm_weights"].sum()
    assert metrics["masked_lm_loss"] == pytest.approx(masked_lm * (num_masked + 1e-5) / num_masked, abs=1e-5)
    assert metrics["next_sentence_loss"] == pytest.approx(next_sentence, abs=1e-5)


def test_accuracies_count_the_first_of_the_highest_scores(model, features):
    logits = np.zeros((6, 3, 40), np.float32)
    features = features | {
        "masked_lm_ids": np.tile(np.array([4, 5, 0], np.int32), (6, 1)),
        "masked_lm_weights": np.tile(np.array([1, 1, 0], np.float32), (6, 1)),
        "next_sentence_labels": np.array([[0], [1], [0], [1], [0], [1]], np.int32),
    }
    # Row 0: right at one of two. Row 1: 4 and 5 tie, so that 4 counts as the answer. Others: 0 is taken for the answer.
    logits[0, 0, 4] = 1.0
    logits[1, :, 4:6] = 1.0
    next_sentence = np.array([[2, 1], [2, 1], [2, 1], [1, 2], [1, 2], [1, 2]], np.float32)
    scores = {"masked_lm_logits": logits, "next_sentence_logits": next_sentence}
    task = PretrainingTask(lambda features, dropout_seed=None: scores)
    metrics = numbers(task.metrics(task.numerators(features), task.denominators(features)))
    assert metrics["masked_lm_accuracy"] == pytest.approx(2 / 12)
    assert metrics["next_sentence_accuracy"] == pytest.approx(4 / 6)
    assert metrics["next_sentence_loss"] == pytest.approx(
        -np.log(softmax(next_sentence.astype(np.float64)))[range(6), [0, 1, 0, 1, 0, 1]].mean(), abs=1e-6
    )


def test_micro_batches_add_up_to_the_whole_batch(task, features):
    parts = [rows(features, slice(0, 1)), rows(features, slice(1, 4)), rows(features, slice(4, 6))]
    whole_numerators, whole_denominators = task.numerators(features), task.denominators(features)
    numerators = [numbers(task.numerators(part)) for part in parts]
    denominators = [numbers(task.denominators(part)) for part in parts]
    for name, value in numbers(whole_numerators).items():
        assert sum(part[name] for part in numerators) == pytest.approx(value, rel=1e-5, abs=1e-6)
    for name, value in numbers(whole_denominators).items():
        assert sum(part[name] for part in denominators) == value
    losses = [float(task.loss(task.numerators(part), whole_denominators)) for part in parts]
    assert sum(losses) == pytest.approx(float(task.loss(whole_numerators, whole_denominators)), rel=1e-5)


def test_denominators_count_masked_pieces_and_examples(task, features):
    num_masked = features["masked_lm_weights"].sum()
    assert numbers(task.denominators(features)) == {
        "masked_lm_loss": num_masked,
        "masked_lm_accuracy": num_masked,
        "next_sentence_loss": 6.0,
        "next_sentence_accuracy": 6.0,
    }


def test_rows_that_only_fill_a_batch_count_for_nothing(task, features):
    real = rows(features, slice(0, 4))
    filled = features | {"is_real_example": np.array([1, 1, 1, 1, 0, 0], np.float32)}
    assert numbers(task.denominators(filled)) == numbers(task.denominators(real))
    assert numbers(task.numerators(filled)) == pytest.approx(numbers(task.numerators(real)), rel=1e-5)


def test_a_batch_that_is_all_filling_has_no_loss_and_no_metrics(task, features):
    filling = features | {"is_real_example": np.zeros(6, np.float32)}
    numerators, denominators = task.numerators(filling), task.denominators(filling)
    assert float(task.loss(numerators, denominators)) == 0.0
    assert set(numbers(task.metrics(numerators, denominators)).values()) == {0.0}


def test_dropout_reaches_the_losses(task, features):
    seed = np.array([3, 4], np.int32)
    plain = float(task.numerators(features)["masked_lm_loss"])
    dropped = float(task.numerators(features, dropout_seed=seed)["masked_lm_loss"])
    assert dropped == float(task.numerators(features, dropout_seed=seed)["masked_lm_loss"])
    assert abs(dropped - plain) > 1e-3


def test_padded_predictions_count_for_nothing(task, features):
    changed = dict(features)
    padding = features["masked_lm_weights"] == 0
    changed["masked_lm_ids"] = np.where(padding, 17, features["masked_lm_ids"])
    changed["masked_lm_positions"] = np.where(padding, 2, features["masked_lm_positions"])
    assert numbers(task.numerators(changed)) == pytest.approx(numbers(task.numerators(features)), rel=1e-6)


def test_the_table_is_shared_by_embeddings_and_projection(model, features):
    table = model.bert.embedding_table
    absent = np.setdiff1d(np.arange(40), features["input_ids"])[0]
    present = features["input_ids"][0, 0]

    def logits_after_moving(piece):
        before = np.asarray(table)
        table.assign(before + (np.arange(40) == piece)[:, None] * np.arange(8))
        logits = ops.convert_to_numpy(model(features)["masked_lm_logits"])
        table.assign(before)
        return logits

    plain = ops.convert_to_numpy(model(features)["masked_lm_logits"])
    has_moved = np.abs(logits_after_moving(absent) - plain).max((0, 1)) > 1e-3
    assert has_moved.nonzero()[0].tolist() == [absent]
    assert (np.abs(logits_after_moving(present) - plain).max((0, 1)) > 1e-3).all()
