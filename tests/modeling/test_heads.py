"""The fine-tuning heads: the original BERT's numbers, names, dropout, and the heads that the original lacks."""

import keras
import numpy as np
import pytest
from reference_bert import softmax
from tiny_bert import make_config, make_features

from bert_keras.modeling import (
    ClassificationLoss,
    ClassifierModel,
    SquadModel,
    load_weights,
    read_config,
    weights_by_name,
)
from bert_keras.modeling.heads import LinearHead


def load_golden(make_model, folder, name):
    """Makes a model with the original weights; returns it with its features and the original's numbers."""
    model = make_model(read_config(folder / "heads"))
    report = load_weights(weights_by_name(model), folder / "heads" / name)
    assert not report.new
    assert not report.unused
    arrays = dict(np.load(folder / "heads" / f"{name}.npz"))
    return model, {key: arrays.pop(key) for key in ("input_ids", "input_mask", "segment_ids")}, arrays


def test_the_classifier_equals_the_release(golden_dir):
    model, features, golden = load_golden(lambda config: ClassifierModel(config, 3), golden_dir, "classifier")
    logits = np.asarray(model(features)["logits"])
    np.testing.assert_allclose(logits, golden["logits"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(softmax(logits), golden["probabilities"], rtol=0, atol=1e-5)
    loss, features = ClassificationLoss(model), features | {"label_ids": golden["labels"]}
    numerators, denominators = loss.numerators(features), loss.denominators(features)
    assert float(loss.value(numerators, denominators)) == pytest.approx(float(golden["loss"]), abs=1e-5)
    assert float(numerators["loss"]) == pytest.approx(golden["per_example_loss"].sum(), abs=5e-5)
    hits = golden["logits"].argmax(-1) == golden["labels"]
    assert float(loss.metrics(numerators, denominators)["accuracy"]) == pytest.approx(hits.mean())
    # Dropout reaches the head, only in training.
    seed = np.array([3, 4], np.int32)
    assert abs(float(loss.numerators(features, dropout_seed=seed)["loss"]) - float(numerators["loss"])) > 1e-3


def test_question_answering_equals_the_release(golden_dir):
    model, features, golden = load_golden(SquadModel, golden_dir, "squad")
    logits = model(features)
    for name in ("start_logits", "end_logits"):
        np.testing.assert_allclose(np.asarray(logits[name]), golden[name], rtol=0, atol=1e-5)


def test_initial_weights_do_not_follow_the_config():
    keras.utils.set_random_seed(0)
    config = make_config(hidden_size=1000, initializer_range=5.0)  # the heads ignore it
    for head in (LinearHead(config, 20), LinearHead(config, 2, ("cls", "squad"))):
        # 0.02, truncated at two deviations, which leaves 0.8796 of it
        assert np.std(np.asarray(head.output_weights)) == pytest.approx(0.02 * 0.8796, rel=0.05)
        np.testing.assert_array_equal(np.asarray(head.output_bias), 0)


def test_a_classifier_drops_a_tenth_only_in_training():
    # Without dropout in the encoder, the seed changes only the head.
    config = make_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    head = LinearHead(config, 1, has_dropout=True)
    head.output_weights.assign(np.full((1, 8), 1.0))
    x = np.ones((2000, 8), np.float32)
    np.testing.assert_allclose(np.asarray(head(x)), 8.0, rtol=1e-6)
    kept = np.asarray(head(x, dropout_seed=np.array([1, 2], np.int32))) * 0.9
    # Each of the 8 columns drops with probability 0.1; the others are scaled by 1 / 0.9.
    np.testing.assert_allclose(kept, np.round(kept), atol=1e-5)
    assert kept.mean() == pytest.approx(8 * 0.9, rel=0.01)
    assert kept.var() == pytest.approx(8 * 0.1 * 0.9, rel=0.1)
    squad = SquadModel(config)
    features = make_features(config)
    np.testing.assert_array_equal(
        squad(features, dropout_seed=np.array([1, 2], np.int32))["start_logits"], squad(features)["start_logits"]
    )


def test_no_two_dropouts_share_a_mask():
    config = make_config(num_hidden_layers=3)
    model = ClassifierModel(config, 2)
    dropouts = [model.bert.embeddings.dropout, model.head.dropout]
    for layer in model.bert.encoder_layers:
        outputs = (layer.attention_output, layer.feed_forward_output)
        dropouts += [layer.self_attention.dropout, *(output.dropout for output in outputs)]
    indexes = [dropout.index for dropout in dropouts]
    assert len(indexes) == len(set(indexes)) == 1 + 3 * config.num_hidden_layers + 1
