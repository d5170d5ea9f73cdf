"""The span boundary objective: boundaries against the published rule, the loss against NumPy, gradients, weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from reference_bert import ReferenceBert, softmax
from safetensors.numpy import save_file
from states import weights_of
from tiny_bert import make_config, with_random_weights

from bert_keras.cli.flags import run_main
from bert_keras.commands import convert_checkpoint
from bert_keras.engine.input.pretraining_batches import span_boundaries
from bert_keras.modeling import (
    HEAD_PATTERNS,
    ClassifierModel,
    PretrainingModel,
    SpanBoundaryLoss,
    SpanBoundaryModel,
    load_weights,
    open_checkpoint,
    save_checkpoint,
    weights_by_name,
)
from bert_keras.modeling.checkpoints.names import to_hugging_face

NUM_TOKENS, NUM_PREDICTIONS = 40, 30


def published_boundaries(spans, length):
    """Returns {position: (left, right)} as facebookresearch/SpanBERT finds them: joined spans, none at the ends.

    `spans` are [first, last] positions of a sequence of `length` tokens with [CLS] and [SEP].
    """
    joined = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(last, joined[-1][1])
        else:
            joined.append([first, last])
    inner = [(first, last) for first, last in joined if first - 1 > 0 and last + 1 < length - 1]
    return {at: (first - 1, last + 1) for first, last in inner for at in range(first, last + 1)[:15]}


def features_of(rows):
    """Makes a batch of sequences of given lengths, with given spans to predict."""
    rng = np.random.default_rng(0)
    batch = {
        "input_ids": np.zeros((len(rows), NUM_TOKENS), np.int32),
        "input_mask": np.zeros((len(rows), NUM_TOKENS), np.int32),
        "segment_ids": np.zeros((len(rows), NUM_TOKENS), np.int32),
        "masked_lm_positions": np.zeros((len(rows), NUM_PREDICTIONS), np.int32),
        "masked_lm_ids": np.zeros((len(rows), NUM_PREDICTIONS), np.int32),
        "masked_lm_weights": np.zeros((len(rows), NUM_PREDICTIONS), np.float32),
        "next_sentence_labels": np.full((len(rows), 1), -1, np.int32),
    }
    for row, (length, spans) in enumerate(rows):
        positions = sorted({at for first, last in spans for at in range(first, last + 1)})
        batch["input_ids"][row, :length] = rng.integers(1, 40, length)
        batch["input_mask"][row, :length] = 1
        batch["masked_lm_positions"][row, : len(positions)] = positions
        batch["masked_lm_ids"][row, : len(positions)] = rng.integers(0, 40, len(positions))
        batch["masked_lm_weights"][row, : len(positions)] = 1.0
    return batch


def with_boundaries(batch):
    added = span_boundaries({name: tf.constant(value) for name, value in batch.items()})
    return {name: value.numpy() for name, value in added.items()}


@st.composite
def sequences(draw):
    """A length and spans in it; some are next to each other, at the ends, or long."""
    length = draw(st.integers(3, NUM_TOKENS))
    spans, at = [], 1
    while at <= length - 2 and sum(last - first + 1 for first, last in spans) < 24:
        if draw(st.booleans()):
            last = min(at + draw(st.integers(0, 19)), length - 2, at + NUM_PREDICTIONS - 25)
            spans.append([at, last])
            at = last
        at += 1
    return length, spans or [[1, 1]]


@given(rows=st.lists(sequences(), min_size=1, max_size=4))
def test_boundaries_are_those_of_the_published_rule(rows):
    batch = with_boundaries(features_of(rows))
    for row, (length, spans) in enumerate(rows):
        expected = published_boundaries(spans, length)
        found = {}
        for at, left, right, weight in zip(
            *(batch[f"masked_lm_{name}"][row] for name in ("positions", "left_positions", "right_positions")),
            batch["masked_lm_boundary_weights"][row],
            strict=True,
        ):
            if weight:
                found[int(at)] = (int(left), int(right))
            else:
                assert (left, right) == (0, 0)
        assert found == expected


ROWS = [
    (40, [[2, 3], [4, 9], [15, 34]]),  # two that join, and one of 20 tokens
    (12, [[1, 2], [5, 5], [10, 10]]),  # at both ends
    (9, [[3, 4]]),
    (5, [[1, 3]]),  # no boundaries at all
]


@pytest.fixture(scope="module")
def config():
    return make_config(num_hidden_layers=1, max_position_embeddings=66)


@pytest.fixture(scope="module")
def model(config):
    return with_random_weights(SpanBoundaryModel(config))


def reference_loss(model, rows, batch):
    """Returns the mean loss of the tokens with boundaries, in NumPy."""
    weights = weights_of(model)
    bert = ReferenceBert(1, 2, "gelu", weights)
    hidden = bert.encode(batch["input_ids"], batch["input_mask"], batch["segment_ids"])[1][-1]
    losses = []
    for row, (length, spans) in enumerate(rows):
        labels = dict(zip(batch["masked_lm_positions"][row], batch["masked_lm_ids"][row], strict=True))
        for at, (left, right) in published_boundaries(spans, length).items():
            place = weights["cls/span_boundary/position_embeddings"][at - left - 1]
            x = np.concatenate([hidden[row, left], hidden[row, right], place])
            for number in (1, 2):
                x = bert.activation(bert.dense(x, f"cls/span_boundary/dense_{number}"))
                x = (x - x.mean()) / np.sqrt(x.var() + 1e-12)
                gamma, beta = (weights[f"cls/span_boundary/LayerNorm_{number}/{name}"] for name in ("gamma", "beta"))
                x = x * gamma + beta
            logits = weights["bert/embeddings/word_embeddings"] @ x + weights["cls/span_boundary/output_bias"]
            losses.append(-np.log(softmax(logits))[labels[at]])
    return np.mean(losses), len(losses)


def test_the_loss_equals_the_reference(model):
    batch = with_boundaries(features_of(ROWS))
    loss = SpanBoundaryLoss(model, 0.5)
    numerators, denominators = loss.numerators(batch), loss.denominators(batch)
    expected, count = reference_loss(model, ROWS, batch)
    assert count == 8 + 15 + 1 + 2
    assert float(denominators["span_boundary_loss"]) == count
    metrics = loss.metrics(numerators, denominators)
    assert float(metrics["span_boundary_loss"]) == pytest.approx(expected, rel=1e-5)
    labelled = batch | {"next_sentence_labels": np.zeros((4, 1), int)}
    masked_lm, _ = ReferenceBert(1, 2, "gelu", weights_of(model)).losses(labelled)
    assert float(loss.value(numerators, denominators)) == pytest.approx(0.5 * masked_lm + expected, rel=1e-5)
    assert 0 <= float(metrics["span_boundary_accuracy"]) <= 1


def test_gradients_reach_the_positions_and_the_tokens_around_a_span_only(model):
    loss, rows = SpanBoundaryLoss(model), [(12, [[4, 6]])]
    batch = with_boundaries(features_of(rows))
    # Only the second loss, from the outputs of the encoder.
    hidden = tf.Variable(np.random.default_rng(1).standard_normal((1, NUM_TOKENS, 8)), dtype=tf.float32)
    table = model.span_boundary_head.position_embeddings.value
    with tf.GradientTape() as tape:
        outputs = model._outputs({"sequence_output": hidden, "pooled_output": tf.zeros([1, 8])}, batch)
        total = tf.reduce_sum(loss._values(outputs, batch)["span_boundary_loss"][:, :3])
    of_hidden, of_table = tape.gradient(total, [hidden, table])
    assert set(np.flatnonzero(np.abs(of_hidden[0].numpy()).sum(-1))) == {3, 7}
    assert set(np.flatnonzero(np.abs(tf.convert_to_tensor(of_table).numpy()).sum(-1))) == {0, 1, 2}


def test_a_batch_without_boundaries_has_no_second_loss(model):
    loss, batch = SpanBoundaryLoss(model), with_boundaries(features_of([(5, [[1, 3]]), (6, [[1, 1], [4, 4]])]))
    numerators, denominators = loss.numerators(batch), loss.denominators(batch)
    metrics = loss.metrics(numerators, denominators)
    assert float(metrics["span_boundary_loss"]) == float(metrics["span_boundary_accuracy"]) == 0.0
    masked_lm = numerators["masked_lm_loss"] / (denominators["masked_lm_loss"] + 1e-5)
    assert float(loss.value(numerators, denominators)) == pytest.approx(float(masked_lm))


def test_the_other_weights_start_as_without_the_head(config):
    keras.utils.set_random_seed(3)
    plain = weights_of(PretrainingModel(config))
    keras.utils.set_random_seed(3)
    with_head = weights_of(SpanBoundaryModel(config))
    for name, value in plain.items():
        np.testing.assert_array_equal(with_head.pop(name), value)
    assert {name.rpartition("/")[0] for name in with_head} == {
        "cls/span_boundary",
        *(f"cls/span_boundary/{name}_{number}" for name in ("dense", "LayerNorm") for number in (1, 2)),
    }


# Our name -> that of fairseq without "decoder."; LayerNorm's have their old endings there.
PUBLISHED = {
    "position_embeddings": "position_embeddings.weight",
    "dense_1/kernel": "mlp_layer_norm.linear1.weight",
    "dense_1/bias": "mlp_layer_norm.linear1.bias",
    "LayerNorm_1/gamma": "mlp_layer_norm.layer_norm1.gamma",
    "LayerNorm_1/beta": "mlp_layer_norm.layer_norm1.beta",
    "dense_2/kernel": "mlp_layer_norm.linear2.weight",
    "dense_2/bias": "mlp_layer_norm.linear2.bias",
    "LayerNorm_2/gamma": "mlp_layer_norm.layer_norm2.gamma",
    "LayerNorm_2/beta": "mlp_layer_norm.layer_norm2.beta",
    "output_bias": "bias",
}


@pytest.mark.parametrize(("prefix", "is_old"), [("decoder.", True), ("", False)])
def test_published_weights_load_with_the_head(tmp_path, model, prefix, is_old):
    """A file as fairseq wrote it, and one with the names that transformers uses."""
    weights = weights_of(model)
    names = {f"cls/span_boundary/{ours}": f"cls.pair_target_predictions.{theirs}" for ours, theirs in PUBLISHED.items()}
    tensors = {}
    for name, value in weights.items():
        theirs = names.get(name) or to_hugging_face(name)
        if not is_old:
            theirs = theirs.replace(".gamma", ".weight").replace(".beta", ".bias")
        elif "LayerNorm" in theirs:
            theirs = theirs.replace(".weight", ".gamma").replace(".bias", ".beta")
        value = value.T if name.endswith("/kernel") else value
        tensors[prefix + theirs] = np.ascontiguousarray(value)
    for decoder in ("predictions", "pair_target_predictions"):
        tensors[f"{prefix}cls.{decoder}.decoder.weight"] = weights["bert/embeddings/word_embeddings"]
    save_file(tensors, tmp_path / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path / "model.safetensors")
    assert checkpoint.heads == ("masked_lm", "next_sentence", "span_boundary")
    loaded = SpanBoundaryModel(model.config)
    report = load_weights(weights_by_name(loaded), checkpoint)
    assert (report.new, report.unused) == ([], [])
    for name, value in weights_of(loaded).items():
        np.testing.assert_array_equal(value, weights[name], err_msg=name)
    encoder = ClassifierModel(model.config, 2)
    assert load_weights(weights_by_name(encoder), checkpoint, new_allowed=("output_*",), ignored=HEAD_PATTERNS).unused


def test_a_checkpoint_with_the_head_is_converted(tmp_path, model, capsys):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{number}" for number in range(35))]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    save_checkpoint(tmp_path / "model.ckpt-1", weights_by_name(model))
    model.config.to_json_file(tmp_path / "bert_config.json")
    (tmp_path / "words.txt").write_text("new\n")
    words = f"--extend_vocab={tmp_path / 'words.txt'}"
    flags = [f"--input={tmp_path}", words, f"--output={tmp_path / 'more'}", "--format=tensorflow"]
    assert run_main(convert_checkpoint.main, ["convert_checkpoint.py", *flags]) == 0, capsys.readouterr().err
    more = open_checkpoint(tmp_path / "more")
    assert more.shape("cls/span_boundary/output_bias") == (41,)
    assert "span_boundary" in more.heads
    flags = [f"--input={tmp_path}", f"--output={tmp_path / 'theirs'}", "--format=safetensors"]
    assert run_main(convert_checkpoint.main, ["convert_checkpoint.py", *flags]) == 1
    message = "no class of the Hugging Face layout has the heads masked_lm, next_sentence, span_boundary together"
    assert message in " ".join(capsys.readouterr().err.split())
    assert run_main(convert_checkpoint.main, ["convert_checkpoint.py", *flags, "--head=masked_lm"]) == 0
    assert open_checkpoint(tmp_path / "theirs").heads == ("masked_lm",)
