"""The compiled network gives the original BERT's numbers, with other padding and batches."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.modeling import PretrainingModel, load_weights, read_config, weights_by_name
from bert_keras.prediction.network import Network, Question, lengths_up_to

LENGTHS = lengths_up_to(48)


def read_out(outputs, features):
    log_probs = (tf.nn.log_softmax(outputs[f"{head}_logits"]) for head in ("masked_lm", "next_sentence"))
    return (*log_probs, features["masked_lm_ids"])


def unpadded_questions(arrays):
    names = ("input_ids", "segment_ids", "masked_lm_positions", "masked_lm_ids", "input_mask", "masked_lm_weights")
    for ids, segment_ids, positions, targets, mask, weights in zip(
        *(arrays[f"in/{name}"] for name in names), strict=True
    ):
        num_tokens, num_masked = int(mask.sum()), int(weights.sum())
        parts = (ids[:num_tokens], segment_ids[:num_tokens], positions[:num_masked], targets[:num_masked])
        yield Question(*(part.tolist() for part in parts))


@pytest.mark.parametrize("name", ["pretraining_a", "pretraining_b"])
def test_answers_are_those_of_the_original_in_any_batch_size_with_one_trace_a_length(golden_dir, name):
    folder = golden_dir / name
    model = PretrainingModel(read_config(folder))
    load_weights(weights_by_name(model), folder / "bert_model.ckpt")
    arrays = np.load(folder / "forward.npz")
    questions = list(unpadded_questions(arrays))
    masked_lm = arrays["out/masked_lm_log_probs"].reshape(len(questions), -1, model.config.vocab_size)
    network = Network(model, read_out, LENGTHS, batch_size=1)
    for network.batch_size in (1, 2, 16):
        answers = network.answer(questions)
        for question, answer, expected in zip(questions, answers, masked_lm, strict=True):
            num_masked = len(question.positions)
            np.testing.assert_allclose(answer[0][:num_masked], expected[:num_masked], atol=1e-5)
            assert answer[2][:num_masked].tolist() == question.target_ids
        next_sentence = [answer[1] for answer in answers]
        np.testing.assert_allclose(next_sentence, arrays["out/next_sentence_log_probs"], atol=1e-5)
    padded = {next(length for length in LENGTHS if length >= len(question.input_ids)) for question in questions}
    assert network.num_traces == len(padded)
    assert network.answer([]) == []


@pytest.mark.parametrize(
    ("longest", "lengths"), [(512, [16, 32, 64, 128, 256, 512]), (40, [16, 32, 40]), (16, [16]), (8, [8])]
)
def test_lengths_are_few_and_end_with_the_longest(longest, lengths):
    assert lengths_up_to(longest) == lengths


def test_a_batch_that_is_larger_than_the_memory_is_explained():
    def fail(features):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    network = Network(fail, read_out, LENGTHS, batch_size=8)
    message = "^the device's memory does not hold 3 sequences of 16 tokens; give a lower batch_size than 8$"
    with pytest.raises(ValueError, match=message):
        network.answer([Question([1, 2], [0, 0])] * 3)
