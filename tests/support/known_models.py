"""Folders of tiny models with an artificial vocabulary, whose answers are known or come from a plain call."""

import json
import math

import numpy as np
import tiny_bert
from tiny_bert import with_random_weights

from bert_keras.modeling import PretrainingModel, save_checkpoint, weights_by_name

TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("paris", "london", "is", "the", "capital", "of", "france", "walk", "he", "she", "was", "hungry", "so", "ate"),
    *("##s", "##ing", "##ed", ".", ",", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"),
]
CASED_TOKENS = [token.title() if token.isalpha() and len(token) > 3 else token for token in TOKENS]
ID = {token: number for number, token in enumerate(TOKENS)}


def make_config(**changes):
    """Returns a config of one layer over TOKENS; fields can be replaced."""
    sizes = {
        "vocab_size": len(TOKENS),
        "hidden_size": len(TOKENS),
        "num_hidden_layers": 1,
        "intermediate_size": 8,
        "max_position_embeddings": 40,
        "hidden_act": "linear",
    }
    return tiny_bert.make_config(**(sizes | changes))


def write_model(folder, model, tokens=TOKENS):
    """Writes a model in the format of a released one: checkpoint, bert_config.json, vocab.txt. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save_checkpoint(folder / "bert_model.ckpt", weights_by_name(model))
    model.config.to_json_file(folder / "bert_config.json")
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    return folder


def small_config(**changes):
    """Returns a config of two layers and width 16; fields can be replaced."""
    return make_config(**({"num_hidden_layers": 2, "hidden_size": 16, "hidden_act": "gelu"} | changes))


def random_model(seed=0, **changes):
    """Returns a PretrainingModel of `small_config` with random weights."""
    return randomise(PretrainingModel(small_config(**changes)), seed)


def randomise(model, seed=0):
    """Gives every weight of a model a random value, so that its answers depend on the whole text. Returns the model."""
    return with_random_weights(model, seed, scale=0.5)


def constant_model(probabilities, follows=0.5, **changes):
    """Returns a model that gives the same probabilities for every mask and every pair, for any text.

    Args:
        probabilities: dict of token to probability; the other tokens share the rest.
        follows: probability that the second text of a pair follows the first.
    """
    model = PretrainingModel(make_config(**changes))
    weights = weights_by_name(model)
    for name, weight in weights.items():
        weight.assign(np.full(weight.shape, float(name.endswith("gamma"))))
    rest = (1 - sum(probabilities.values())) / (len(TOKENS) - len(probabilities))
    weights["cls/predictions/output_bias"].assign(np.log([probabilities.get(token, rest) for token in TOKENS]))
    weights["cls/seq_relationship/output_bias"].assign(np.log([follows, 1 - follows]))
    return model


def positional_model(tokens_by_position):
    """Returns a model that predicts one fixed token for each position, and detects a mask by its zero embedding.

    At a mask, the hidden state is the position embedding, a row of the identity. The layer normalisations keep it:
    the token has the probability KNOWN_PROBABILITY, and all others share the rest evenly.

    Args:
        tokens_by_position: list of str, repeated if shorter than the model's positions.
    """
    model = constant_model({})
    weights = weights_by_name(model)
    size = len(TOKENS)
    table = np.eye(size)
    table[ID["[MASK]"]] = 0
    ids = [ID[tokens_by_position[i % len(tokens_by_position)]] for i in range(model.config.max_position_embeddings)]
    weights["bert/embeddings/word_embeddings"].assign(table)
    weights["bert/embeddings/position_embeddings"].assign(np.eye(size)[ids])
    weights["cls/predictions/transform/dense/kernel"].assign(np.eye(size))
    return model


def _known_probability():
    # A normalised one-hot row of n numbers has sqrt(n - 1) at the one and -1 / sqrt(n - 1) elsewhere. The mask's
    # own row of the table is 0, and so is its logit.
    num = len(TOKENS)
    top, other = math.exp(math.sqrt(num - 1)), math.exp(-1 / math.sqrt(num - 1))
    return top / (top + (num - 2) * other + 1)


KNOWN_PROBABILITY = _known_probability()


def plain_call(model, ids, segment_ids=None, position=0):
    """Returns the masked-LM log-probabilities of one unpadded sequence and the probability that B follows A."""
    log_probabilities, follows = plain_calls(model, [ids], [segment_ids or [0] * len(ids)], [position])
    return log_probabilities[0], follows[0]


def plain_calls(model, rows, segment_ids, positions):
    """Returns the same of several sequences of one length: the log-probabilities at a position of each."""
    features = {
        "input_ids": np.array(rows, np.int32),
        "input_mask": np.ones_like(rows, np.int32),
        "segment_ids": np.array(segment_ids, np.int32),
        "masked_lm_positions": np.array(positions, np.int32)[:, None],
    }
    outputs = {name: np.array(value, np.float64) for name, value in model(features).items()}
    log_probabilities = [_log_softmax(logits) for logits in outputs["masked_lm_logits"][:, 0]]
    return log_probabilities, [np.exp(_log_softmax(logits))[0] for logits in outputs["next_sentence_logits"]]


def ids_of(tokens):
    """Returns the ids of tokens given as one str, separated by spaces."""
    return [ID[token] for token in tokens.split()]


def _log_softmax(logits):
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def answers_in(output):
    """Returns the answers that predict.py wrote with --json."""
    return [json.loads(line) for line in output.removesuffix("\n").split("\n")]
