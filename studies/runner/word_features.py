"""Tags words with a linear classifier on the hidden vectors of a model that does not change (paper, section 5.3)."""

from collections.abc import Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bert_keras.data_prep.tasks.conll import Sentence
from bert_keras.prediction import FeatureExtractor
from bert_keras.prediction.loading.model_files import open_model_files
from bert_keras.prediction.network import Question

COMBINATIONS = ("concatenate", "sum")


def tag_with_features(
    model: str,
    train: Sequence[Sentence],
    test: Sequence[Sentence],
    layers: Sequence[int | str] | str,
    combine: str = "concatenate",
) -> list[list[str]]:
    """Returns the tags of the words of test sentences.

    The features of a word are the vectors of its first word piece. The paper has LSTMs on them; a linear classifier
    shows more directly what they contain.

    Args:
        layers: as in `FeatureExtractor`, or "all" layers of the encoder.
        combine: "concatenate" the vectors of the layers, or "sum" them.
    """
    if combine not in COMBINATIONS:
        raise ValueError(f'combine is "{combine}", but must be one of {", ".join(COMBINATIONS)}')
    if layers == "all":
        layers = range(open_model_files(model).config.num_hidden_layers)
    extractor = FeatureExtractor(model, layers=layers, max_seq_length=None, batch_size=64)
    features, tags = _word_vectors(extractor, train, combine)
    scaler = StandardScaler()
    classifier = LogisticRegression(max_iter=200)
    classifier.fit(scaler.fit_transform(features), tags)
    vectors, _ = _word_vectors(extractor, test, combine)
    found = iter(classifier.predict(scaler.transform(vectors)).tolist())
    # Words beyond the length of the model have no vector.
    return [
        [next(found) if place < num else "O" for place in range(len(sentence.words))]
        for sentence, num in zip(test, (len(_encode(extractor, sentence)[1]) for sentence in test), strict=True)
    ]


def _encode(extractor, sentence):
    """Returns the ids of a sentence, and the position of the first word piece of each word that fits."""
    tokenizer, ids, starts = extractor.tokenizer, [extractor.tokenizer.cls_id], []
    for word in sentence.words:
        pieces = tokenizer.encode(word) or [tokenizer.vocab["[UNK]"]]
        if len(ids) + len(pieces) + 1 > extractor.max_seq_length:
            break
        starts.append(len(ids))
        ids += pieces
    return [*ids, tokenizer.sep_id], starts


def _word_vectors(extractor, sentences, combine):
    """Returns the vectors of all words that fit, float32 [W, F], and their tags."""
    encoded = [_encode(extractor, sentence) for sentence in sentences]
    questions = [Question(ids, [0] * len(ids)) for ids, _ in encoded]
    vectors, tags = [], []
    for (values,), (_, starts), sentence in zip(extractor.network.answer(questions), encoded, sentences, strict=True):
        of_words = values[starts]  # [W, L, H]
        vectors.append(of_words.sum(1) if combine == "sum" else of_words.reshape(len(starts), -1))
        tags += (sentence.tags or ())[: len(starts)]
    return np.concatenate(vectors), tags
