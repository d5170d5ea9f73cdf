"""The compiled network gives the original BERT's numbers, with other padding and batches."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.modeling import PretrainingModel, load_weights, read_config, weights_by_name
from bert_keras.prediction.network import Network, Question, lengths_up_to

LENGTHS = lengths_up_to(48)


@pytest.fixture(params=["pretraining_a", "pretraining_b"])
def golden(request, golden_dir):
    """A golden model, its unpadded examples, and the original's numbers."""
    folder = golden_dir / request.param
    model = PretrainingModel(read_config(folder))
    load_weights(weights_by_name(model), folder / "bert_model.ckpt")
    arrays = np.load(folder / "forward.npz")
    features = [arrays[f"in/{name}"] for name in ("input_ids", "segment_ids", "masked_lm_positions", "masked_lm_ids")]
    questions = []
    for ids, segments, positions, targets, mask, weights in zip(
        *features, arrays["in/input_mask"], arrays["in/masked_lm_weights"], strict=True
    ):
        num_tokens, num_masked = int(mask.sum()), int(weights.sum())
        questions.append(
            Question(
                ids[:num_tokens].tolist(),
                segments[:num_tokens].tolist(),
                positions[:num_masked].tolist(),
                targets[:num_masked].tolist(),
            )
        )
    return (
        model,
        questions,
        {name: arrays[f"out/{name}"] for name in ("masked_lm_log_probs", "next_sentence_log_probs")},
    )


@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_masked_pieces_have_the_release_s_probabilities(golden, batch_size):
    model, questions, figures = golden
    network = Network(model, lambda outputs, _: (tf.nn.log_softmax(outputs["masked_lm_logits"]),), LENGTHS, batch_size)
    expected = figures["masked_lm_log_probs"].reshape(len(questions), -1, model.config.vocab_size)
    for question, (log_probs,), of_release in zip(questions, network.answer(questions), expected, strict=True):
        num_masked = len(question.positions)
        np.testing.assert_allclose(log_probs[:num_masked], of_release[:num_masked], atol=1e-5)


def test_pairs_have_the_release_s_probabilities(golden):
    model, questions, figures = golden
    network = Network(model, lambda outputs, _: (tf.nn.log_softmax(outputs["next_sentence_logits"]),), LENGTHS, 2)
    answers = [log_probs for (log_probs,) in network.answer(questions)]
    np.testing.assert_allclose(answers, figures["next_sentence_log_probs"], atol=1e-5)


def test_the_ids_asked_about_reach_what_is_read_out(golden):
    model, questions, _ = golden
    network = Network(model, lambda _, features: (features["masked_lm_ids"],), LENGTHS, 16)
    for question, (ids,) in zip(questions, network.answer(questions), strict=True):
        assert ids[: len(question.target_ids)].tolist() == question.target_ids


def test_one_compilation_serves_every_batch_of_a_length(golden):
    model, questions, _ = golden
    network = Network(model, lambda outputs, _: (outputs["masked_lm_logits"],), LENGTHS, 3)
    for num_questions in (1, 2, 3, 5):
        network.answer(questions[:num_questions])
    padded = {next(length for length in (16, 32, 48) if length >= len(q.input_ids)) for q in questions}
    assert network.num_traces == len(padded)
    assert network.answer([]) == []
