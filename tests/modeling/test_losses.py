"""The losses: values against NumPy and the original BERT, and sums that do not depend on the split of a batch."""

import numpy as np
import pytest
from reference_bert import ReferenceBert, softmax
from states import weights_of
from tiny_bert import make_config, make_features, make_model

from bert_keras.modeling import (
    ClassificationLoss,
    MultiLabelLoss,
    PretrainingLoss,
    RegressionLoss,
    SquadLoss,
    TokenClassificationLoss,
)


@pytest.fixture(scope="module")
def model():
    return make_model(make_config(num_hidden_layers=1, hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3))


@pytest.fixture(scope="module")
def loss(model):
    return PretrainingLoss(model)


@pytest.fixture
def features(model):
    return make_features(model.config, batch_size=6)


def numbers(scalars):
    return {name: float(value) for name, value in scalars.items()}


def rows(features, which):
    return {name: values[which] for name, values in features.items()}


def test_losses_equal_the_reference(model, loss, features):
    masked_lm, next_sentence = ReferenceBert(1, 2, "gelu", weights_of(model)).losses(features)
    numerators, denominators = loss.numerators(features), loss.denominators(features)
    assert float(loss.value(numerators, denominators)) == pytest.approx(masked_lm + next_sentence, abs=1e-5)
    metrics = numbers(loss.metrics(numerators, denominators))
    num_masked = features["masked_lm_weights"].sum()
    assert metrics["masked_lm_loss"] == pytest.approx(masked_lm * (num_masked + 1e-5) / num_masked, abs=1e-5)
    assert metrics["next_sentence_loss"] == pytest.approx(next_sentence, abs=1e-5)


def test_the_losses_of_pretraining_are_weighed(model, loss, features):
    metrics = numbers(loss.metrics(loss.numerators(features), loss.denominators(features)))
    for weights in ((1.0, 1.0), (0.5, 2.0), (3.0, 0.0), (0.0, 0.25)):
        weighed = PretrainingLoss(model, True, *weights)
        value = weighed.value(weighed.numerators(features), weighed.denominators(features))
        expected = weights[0] * metrics["masked_lm_loss"] + weights[1] * metrics["next_sentence_loss"]
        assert float(value) == pytest.approx(expected, rel=1e-5)
    without_sentences = PretrainingLoss(model, False, 2.0, 5.0)
    value = without_sentences.value(loss.numerators(features), loss.denominators(features))
    assert float(value) == pytest.approx(2 * metrics["masked_lm_loss"], rel=1e-5)
    for has_sentence_task, weights in ((True, (0.0, 0.0)), (False, (0.0, 1.0))):
        with pytest.raises(ValueError, match="^no loss has a weight above 0; give one to the masked LM"):
            PretrainingLoss(model, has_sentence_task, *weights)


def test_accuracies_count_the_first_of_the_highest_scores(features):
    logits = np.zeros((6, 3, 40), np.float32)
    features = features | {
        "masked_lm_ids": np.tile(np.array([4, 5, 0], np.int32), (6, 1)),
        "masked_lm_weights": np.tile(np.array([1, 1, 0], np.float32), (6, 1)),
        "next_sentence_labels": np.array([[0], [1], [0], [1], [0], [1]], np.int32),
    }
    # Row 0: correct at one of two. Row 1: 4 and 5 tie, so 4 is the answer. Others: the answer is 0.
    logits[0, 0, 4] = 1.0
    logits[1, :, 4:6] = 1.0
    next_sentence = np.array([[2, 1], [2, 1], [2, 1], [1, 2], [1, 2], [1, 2]], np.float32)
    scores = {"masked_lm_logits": logits, "next_sentence_logits": next_sentence}
    loss = PretrainingLoss(lambda features, dropout_seed=None: scores)
    metrics = numbers(loss.metrics(loss.numerators(features), loss.denominators(features)))
    assert metrics["masked_lm_accuracy"] == pytest.approx(2 / 12)
    assert metrics["next_sentence_accuracy"] == pytest.approx(4 / 6)
    assert metrics["next_sentence_loss"] == pytest.approx(
        -np.log(softmax(next_sentence.astype(np.float64)))[range(6), [0, 1, 0, 1, 0, 1]].mean(), abs=1e-6
    )


def test_rows_that_only_fill_a_batch_count_for_nothing(loss, features):
    real = rows(features, slice(0, 4))
    filled = features | {"is_real_example": np.array([1, 1, 1, 1, 0, 0], np.float32)}
    num_masked = real["masked_lm_weights"].sum()
    assert list(numbers(loss.denominators(filled)).values()) == [num_masked, num_masked, 4.0, 4.0]
    assert numbers(loss.numerators(filled)) == pytest.approx(numbers(loss.numerators(real)), rel=1e-5)


def test_examples_without_a_label_only_take_part_in_the_masked_lm(loss, features):
    labels = features["next_sentence_labels"].copy()
    labels[2:] = -1
    few, mixed = rows(features, slice(0, 2)), {**features, "next_sentence_labels": labels}
    assert numbers(loss.denominators(mixed)) == numbers(loss.denominators(features)) | {
        "next_sentence_loss": 2.0,
        "next_sentence_accuracy": 2.0,
    }
    expected, result = numbers(loss.numerators(features)), numbers(loss.numerators(mixed))
    assert result["masked_lm_loss"] == expected["masked_lm_loss"]
    expected = numbers(loss.numerators(few))
    for name in ("next_sentence_loss", "next_sentence_accuracy"):
        assert result[name] == pytest.approx(expected[name], rel=1e-5)


def test_a_batch_that_is_all_filling_has_no_loss_and_no_metrics(loss, features):
    filling = features | {"is_real_example": np.zeros(6, np.float32)}
    numerators, denominators = loss.numerators(filling), loss.denominators(filling)
    assert float(loss.value(numerators, denominators)) == 0.0
    assert set(numbers(loss.metrics(numerators, denominators)).values()) == {0.0}


def told(features, dropout_seed=None):
    """A stand-in for a network that reads its answers from the features, so that each part of a batch gets its part."""
    return {name: features[name] for name in ("logits", "start_logits", "end_logits") if name in features}


def log_softmax(logits):
    return np.log(softmax(logits.astype(np.float64)))


def make_answers(shape, seed=0, **labels):
    """Makes random logits of a shape, and labels for them."""
    logits = np.random.default_rng(seed).normal(scale=2, size=shape).astype(np.float32)
    return {"input_ids": np.ones((shape[0], 5), np.int32), "logits": logits, **labels}


LABELS = np.array([0, 2, 2, 1, 2, 0], np.int32)
VALUES = np.array([0.0, 5.0, 2.5, 1.25, -1.0, 3.0], np.float32)
SEVERAL = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]], np.float32)
TAGS = np.array(
    [[-1, 1, 0, -1], [-1, 2, 2, 2], [-1, -1, -1, -1], [-1, 0, -1, -1], [-1, 1, 1, -1], [2, 2, 0, 1]], np.int32
)
STARTS, ENDS = np.array([0, 3, 4, 1, 0, 2], np.int32), np.array([0, 4, 4, 3, 1, 2], np.int32)


def squad_answers():
    answers = make_answers((6, 5), start_positions=STARTS, end_positions=ENDS)
    answers["start_logits"] = answers.pop("logits")
    answers["end_logits"] = make_answers((6, 5), seed=1)["logits"]
    return answers


def expected_single_label(answers, weights=(1.0, 1.0, 1.0)):
    losses = -log_softmax(answers["logits"])[range(6), LABELS]
    weights = np.array(weights)[LABELS]
    hits = answers["logits"].argmax(-1) == LABELS
    return {"loss": (weights * losses).sum() / weights.sum(), "accuracy": hits.mean()}


def expected_several(answers):
    probabilities = 1 / (1 + np.exp(-answers["logits"].astype(np.float64)))
    losses = -np.where(SEVERAL == 1, np.log(probabilities), np.log(1 - probabilities))
    return {"loss": losses.mean(), "accuracy": ((probabilities > 0.5) == SEVERAL).mean()}


def expected_tags(answers):
    row, column = np.nonzero(TAGS >= 0)
    losses = -log_softmax(answers["logits"])[row, column, TAGS[row, column]]
    hits = answers["logits"][row, column].argmax(-1) == TAGS[row, column]
    return {"loss": losses.mean(), "accuracy": hits.mean()}


def expected_answers(answers):
    starts, ends = log_softmax(answers["start_logits"]), log_softmax(answers["end_logits"])
    return {
        "loss": -(starts[range(6), STARTS] + ends[range(6), ENDS]).mean() / 2,
        "start_accuracy": (answers["start_logits"].argmax(-1) == STARTS).mean(),
        "end_accuracy": (answers["end_logits"].argmax(-1) == ENDS).mean(),
    }


def smoothed(loss):
    """Returns a loss whose labels are smoothed."""
    loss.label_smoothing = 0.3
    return loss


def expected_smoothed(answers):
    log_probabilities = log_softmax(answers["logits"])
    shares = 0.7 * np.eye(3)[LABELS] + 0.1
    losses, weights = -(shares * log_probabilities).sum(-1), np.array(WEIGHTS)[LABELS]
    hits = expected_single_label(answers)["accuracy"]
    return {"loss": (weights * losses).sum() / weights.sum(), "accuracy": hits}


def expected_several_smoothed(answers):
    probabilities = 1 / (1 + np.exp(-answers["logits"].astype(np.float64)))
    labels = 0.7 * SEVERAL + 0.15
    losses = -labels * np.log(probabilities) - (1 - labels) * np.log(1 - probabilities)
    return expected_several(answers) | {"loss": losses.mean()}


def expected_tags_smoothed(answers):
    row, column = np.nonzero(TAGS >= 0)
    shares = 0.7 * np.eye(3)[TAGS[row, column]] + 0.1
    losses = -(shares * log_softmax(answers["logits"])[row, column]).sum(-1)
    return expected_tags(answers) | {"loss": losses.mean()}


# The sequences of the smoothed questions have 5, 4 and 3 tokens, then padding.
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 1, 0, 0]] * 2, np.int32)


def expected_answers_smoothed(answers):
    losses = []
    for name, labels in (("start_logits", STARTS), ("end_logits", ENDS)):
        shares = 0.7 * np.eye(5)[labels] + 0.3 * MASK / MASK.sum(-1, keepdims=True)
        losses.append(-(shares * log_softmax(answers[name])).sum(-1))
    return expected_answers(answers) | {"loss": np.mean(losses)}


WEIGHTS = (0.5, 4.0, 0.25)
CASES = {
    "one class": (ClassificationLoss(told), make_answers((6, 3), label_ids=LABELS), expected_single_label),
    "weighted classes": (
        ClassificationLoss(told, class_weights=list(WEIGHTS)),
        make_answers((6, 3), label_ids=LABELS),
        lambda answers: expected_single_label(answers, WEIGHTS),
    ),
    "a number": (
        RegressionLoss(told),
        make_answers((6, 1), label_values=VALUES),
        lambda answers: {"loss": ((answers["logits"][:, 0].astype(np.float64) - VALUES) ** 2).mean()},
    ),
    "several labels": (MultiLabelLoss(told), make_answers((6, 3), label_values=SEVERAL), expected_several),
    "tags": (TokenClassificationLoss(told), make_answers((6, 4, 3), label_ids=TAGS), expected_tags),
    "answers in a text": (SquadLoss(told), squad_answers(), expected_answers),
    "smoothed weighted classes": (
        smoothed(ClassificationLoss(told, class_weights=list(WEIGHTS))),
        make_answers((6, 3), label_ids=LABELS),
        expected_smoothed,
    ),
    "smoothed several labels": (
        smoothed(MultiLabelLoss(told)),
        make_answers((6, 3), label_values=SEVERAL),
        expected_several_smoothed,
    ),
    "smoothed tags": (
        smoothed(TokenClassificationLoss(told)),
        make_answers((6, 4, 3), label_ids=TAGS),
        expected_tags_smoothed,
    ),
    "smoothed answers in a text": (
        smoothed(SquadLoss(told)),
        {**squad_answers(), "input_mask": MASK},
        expected_answers_smoothed,
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def test_metrics_of_fine_tuning_equal_the_formulas(case):
    loss, answers, expected = case
    numerators, denominators = loss.numerators(answers), loss.denominators(answers)
    metrics = numbers(loss.metrics(numerators, denominators))
    assert metrics == pytest.approx(expected(answers), rel=1e-5)
    assert tuple(metrics) == loss.metric_names
    assert float(loss.value(numerators, denominators)) == pytest.approx(metrics["loss"], rel=1e-6)


def assert_parts_add_up(loss, answers):
    parts = [rows(answers, slice(0, 1)), rows(answers, slice(1, 4)), rows(answers, slice(4, 6))]
    numerators = [numbers(loss.numerators(part)) for part in parts]
    denominators = [numbers(loss.denominators(part)) for part in parts]
    whole_denominators = loss.denominators(answers)
    for name, value in numbers(loss.numerators(answers)).items():
        assert sum(part[name] for part in numerators) == pytest.approx(value, rel=1e-5, abs=1e-6)
    for name, value in numbers(whole_denominators).items():
        assert sum(part[name] for part in denominators) == pytest.approx(value, rel=1e-6)
    losses = [float(loss.value(loss.numerators(part), whole_denominators)) for part in parts]
    assert sum(losses) == pytest.approx(float(loss.value(loss.numerators(answers), whole_denominators)), rel=1e-5)
    # The parts differ in size, so a mean of means would be another number.
    means = [float(loss.value(loss.numerators(part), loss.denominators(part))) for part in parts]
    assert np.mean(means) != pytest.approx(sum(losses), rel=1e-3)


def test_parts_of_fine_tuning_add_up_to_the_whole_batch(case):
    loss, answers, _ = case
    assert_parts_add_up(loss, answers)


def test_parts_of_pretraining_add_up_to_the_whole_batch(loss, features):
    assert_parts_add_up(loss, features)


def test_classes_of_no_weight_and_tokens_of_no_tag_leave_a_batch_without_loss():
    _, answers, _ = CASES["one class"]
    loss = ClassificationLoss(told, class_weights=[0.0, 0.0, 0.0])
    assert float(loss.value(loss.numerators(answers), loss.denominators(answers))) == 0.0
    loss, answers, _ = CASES["tags"]
    empty = rows(answers, slice(2, 3))
    assert numbers(loss.denominators(empty)) == {"loss": 0.0, "accuracy": 0.0}
    assert numbers(loss.metrics(loss.numerators(empty), loss.denominators(empty))) == {"loss": 0.0, "accuracy": 0.0}


def test_losses_stay_finite_where_the_network_is_sure_and_wrong():
    answers = make_answers((6, 3), label_values=SEVERAL)
    answers["logits"] = (100 * (1 - 2 * SEVERAL)).astype(np.float32)
    loss = MultiLabelLoss(told)
    metrics = numbers(loss.metrics(loss.numerators(answers), loss.denominators(answers)))
    assert metrics == pytest.approx({"loss": 100.0, "accuracy": 0.0})
