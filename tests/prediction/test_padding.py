"""Few tokens that the network computes are padding, whatever the lengths of the texts."""

import numpy as np
import pytest
from fine_tuned_models import FINE_TUNED, random_classifier, write_fine_tuned

from bert_keras.prediction import TextClassifier

NUM_TEXTS = 2000
# Numbers of words as in sentences, captions, pairs, and articles that the model cuts.
DRAWS = {
    "sentences": lambda random: random.gamma(4.0, 6.0, NUM_TEXTS),
    "captions": lambda random: random.exponential(11.0, NUM_TEXTS),
    "pairs": lambda random: random.normal(50.0, 14.0, NUM_TEXTS),
    "articles": lambda random: random.lognormal(6.0, 0.4, NUM_TEXTS),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    model = random_classifier(3, num_hidden_layers=1, max_position_embeddings=512)
    _, settings = FINE_TUNED["classification"]
    changes = {"is_pair": False, "max_seq_length": 512}
    return write_fine_tuned(tmp_path_factory.mktemp("run"), model, "classification", **(settings | changes))


# The default size has more padding for captions, and more batches for each text, because it splits more often.
MOST = {8: (1.06, 1.5), 32: (1.06, 1.5), 64: (1.062, 2.3)}


@pytest.mark.parametrize("batch_size", MOST)
@pytest.mark.parametrize("name", DRAWS)
def test_a_stream_of_texts_has_little_padding_in_large_batches(folder, name, batch_size, monkeypatch):
    classify, batches, lengths = TextClassifier(folder, batch_size=batch_size), [], []

    def count(questions, length, *_):
        lengths.extend(len(question.input_ids) for question in questions)
        batches.append((len(questions), length))
        return [np.full((len(questions), 3), 1 / 3, np.float32)]

    monkeypatch.setattr(classify.network, "_run", count)
    num_words = DRAWS[name](np.random.default_rng(0)).round().astype(int).clip(1, 600)
    assert sum(1 for _ in classify.pipe("a " * number for number in num_words)) == NUM_TEXTS
    num_real = np.minimum(num_words + 2, 512).sum()
    assert sum(lengths) == num_real
    most_padded, most_batches = MOST[batch_size] if name != "articles" else (1.06, 1.5)
    assert sum(num_rows * length for num_rows, length in batches) <= most_padded * num_real
    # Long articles have smaller batches, of at most 2,048 tokens.
    assert all(num_rows <= batch_size and num_rows * length <= 2048 for num_rows, length in batches)
    assert len(batches) <= most_batches * max(NUM_TEXTS / batch_size, num_real / 2048)


def test_a_few_texts_of_different_lengths_are_not_padded_to_the_longest(folder, monkeypatch):
    classify, sizes = TextClassifier(folder, batch_size=16), []
    run_batch, texts = classify.network._run, ["a " * number for number in (4, 400, 5, 3, 90, 4)]
    monkeypatch.setattr(
        classify.network,
        "_run",
        lambda rows, length, *rest: sizes.append((len(rows), length)) or run_batch(rows, length, *rest),
    )
    answers = classify(texts)
    assert sorted(sizes) == [(1, 92), (1, 416), (4, 7)]  # two batches run at a time
    assert [answer.text for answer in answers] == texts
    assert classify.num_traces == 1
