"""The compiled network gives the original BERT's numbers, with other padding and batches."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.modeling import PretrainingModel, load_weights, read_config, weights_by_name
from bert_keras.prediction.network import Network, Question, lengths_up_to, padded_length, split

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
def test_answers_are_those_of_the_original_in_any_batch_size_with_one_trace(golden_dir, name):
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
    assert len({len(question.input_ids) for question in questions}) > 1
    assert network.num_traces == 1
    assert network.answer([]) == []


@pytest.mark.parametrize(
    ("longest", "lengths"), [(512, [16, 32, 64, 128, 256, 512]), (40, [16, 32, 40]), (16, [16]), (8, [8])]
)
def test_lengths_for_a_strategy_are_few_and_end_with_the_longest(longest, lengths):
    assert lengths_up_to(longest, 16, 1) == lengths


def test_steps_of_lengths_grow_with_them():
    lengths = lengths_up_to(100)
    assert lengths == [*range(1, 32), *range(32, 64, 2), *range(64, 100, 4), 100]
    assert [padded_length(number, lengths) for number in (1, 32, 33, 97, 100)] == [1, 32, 34, 100, 100]


def cost(lengths, parts, batch_size, is_filled):
    rows = [batch_size if is_filled else part.stop - part.start for part in parts]
    return sum(each * lengths[part.stop - 1] + 48 for each, part in zip(rows, parts, strict=True))


def fits(part, lengths, batch_size, is_filled):
    has_room = is_filled or len(part) == 1 or len(part) * lengths[part.stop - 1] <= max(2048, 32 * batch_size)
    return len(part) <= batch_size and has_room


@pytest.mark.parametrize("is_filled", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3, 8, 100])
@pytest.mark.parametrize(
    "lengths",
    [
        *([3], [5, 5, 5, 5], [4, 4, 90, 91, 400], [10, 12, 14, 30, 31, 32, 70, 71, 200], [200] * 9),
        *([4, 4, 90, 91, 1900], [10, 12, 14, 30, 31, 32, 70, 71, 2000], [600] * 9),
    ],
)
def test_no_other_batches_cost_less(lengths, batch_size, is_filled):
    found = [range(start, end) for start, end in split(lengths, batch_size, is_filled)]
    assert [index for part in reversed(found) for index in part] == [*range(len(lengths))]
    assert all(fits(part, lengths, batch_size, is_filled) for part in found)
    places = range(1, len(lengths))
    all_cuts = itertools.chain.from_iterable(itertools.combinations(places, n) for n in range(len(lengths)))
    all_parts = ([*itertools.starmap(range, itertools.pairwise([0, *cuts, len(lengths)]))] for cuts in all_cuts)
    lowest = min(
        cost(lengths, parts, batch_size, is_filled)
        for parts in all_parts
        if all(fits(part, lengths, batch_size, is_filled) for part in parts)
    )
    assert cost(lengths, found, batch_size, is_filled) == lowest
    assert list(split([], batch_size)) == []


def test_a_batch_that_is_larger_than_the_memory_is_explained():
    def fail(features):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    network = Network(fail, read_out, LENGTHS, batch_size=8)
    message = "^the device's memory does not hold 3 sequences of 2 tokens; give a lower batch_size than 3$"
    with pytest.raises(ValueError, match=message):
        network.answer([Question([1, 2], [0, 0])] * 3)
