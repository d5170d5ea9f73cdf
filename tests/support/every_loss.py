"""Every loss, with its labels and its formula in NumPy: `tests/training/test_every_loss.py` checks each of them."""

import dataclasses
import functools

import numpy as np
from reference_bert import ReferenceBert, softmax
from states import weights_of
from tiny_bert import make_config, make_features, with_random_weights

from bert_keras.modeling import (
    ClassificationLoss,
    ClassifierModel,
    MultiLabelLoss,
    MultipleChoiceModel,
    PretrainingLoss,
    PretrainingModel,
    RegressionLoss,
    ReplacedTokenLoss,
    ReplacedTokenModel,
    SentenceModel,
    SpanBoundaryLoss,
    SpanBoundaryModel,
    SquadLoss,
    SquadModel,
    TokenClassificationLoss,
    TokenClassifierModel,
)
from bert_keras.tasks.distillation.loss import DistillationLoss
from bert_keras.tasks.distillation.recipe import Recipe
from bert_keras.tasks.few_shot.run import Encoder
from bert_keras.tasks.reranking.losses import ListwiseLoss
from bert_keras.tasks.vectors.losses import ClassesLoss, CosineLoss, RankingLoss

SIZES = {"num_hidden_layers": 1, "hidden_act": "tanh"}  # a smooth function, for slopes
CONFIGS = {
    "left to right": make_config(**SIZES, is_decoder=True),
    "electra": make_config(**SIZES, embedding_size=4, pooler_act="gelu_erf"),
    "albert": make_config(**SIZES | {"num_hidden_layers": 2}, embedding_size=4, has_shared_layers=True),
    "lora": make_config(**SIZES),
}
INPUTS = ("input_ids", "input_mask", "segment_ids")
BATCH = make_features(make_config(), batch_size=3, num_tokens=7)
POOLER = ("bert/pooler/",)
DRAW = np.random.default_rng(4)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A loss: how to make it from a config, its labels, and its loss from a `Network` of NumPy or None.

    `unused` are the beginnings of the names of weights that the loss does not depend on.
    """

    make: object
    labels: dict
    loss: object = None
    unused: tuple = ()
    num_texts: int = 0


class Network:
    """A network in NumPy, and what the losses need from it."""

    def __init__(self, config, weights, features):
        shape = features["input_ids"].shape
        flat = [features[name].reshape(-1, shape[-1]) for name in INPUTS]
        sizes = config.num_hidden_layers, config.num_attention_heads, config.hidden_act
        self.bert = ReferenceBert(*sizes, weights, config.pooler_act, config.is_decoder)
        self.embedded, self.layers, self.pooled = self.bert.encode(*flat)
        self.weights, self.features, self.mask, self.config = self.bert.weights, features, flat[1], config

    def logits(self, x, scope=""):
        return x @ self.weights[f"{scope}output_weights"].T + self.weights[f"{scope}output_bias"]

    def vectors(self, pooling):
        values, mask = self.layers[-1], self.mask[..., None] == 1
        if pooling == "max":
            vectors = np.where(mask, values, -np.inf).max(1)
        else:
            vectors = values[:, 0] if pooling == "cls" else (values * mask).sum(1) / mask.sum(1)
        vectors = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
        return vectors.reshape(*self.features["input_ids"].shape[:-1], -1)

    def attention(self, number):
        hidden = [self.embedded, *self.layers][number]
        layer = 0 if self.config.has_shared_layers else number
        return self.bert.probabilities(hidden, self.mask, f"bert/encoder/layer_{layer}/attention")


def entropy(logits, labels):
    return -np.take_along_axis(np.log(softmax(logits)), np.asarray(labels)[..., None], -1)[..., 0]


def several(net, label_values):
    shares = 1 / (1 + np.exp(-net.logits(net.pooled)))
    return -np.mean(label_values * np.log(shares) + (1 - label_values) * np.log(1 - shares))


def of_tokens(net, label_ids):
    losses = entropy(net.logits(net.layers[-1]), np.maximum(label_ids, 0))
    return losses[label_ids >= 0].mean()


def ranking(pooling, net):
    vectors = net.vectors(pooling)
    return entropy(20.0 * vectors[:, 0] @ vectors[:, 1].T, np.arange(len(vectors))).mean()


def of_classes(net, label_ids):
    """The supervised contrastive loss, example by example."""
    vectors = net.pooled / np.linalg.norm(net.pooled, axis=-1, keepdims=True)
    losses = []
    for row, label in enumerate(label_ids):
        logits = {other: vectors[row] @ vectors[other] / 0.1 for other in range(len(vectors)) if other != row}
        total = np.log(sum(map(np.exp, logits.values())))
        same = [total - logits[other] for other in logits if label_ids[other] == label]
        losses.append(np.mean(same) if same else 0.0)
    return np.mean(losses)


def scored(pooling, net, scores):
    vectors = net.vectors(pooling)
    return np.mean(((vectors[:, 0] * vectors[:, 1]).sum(-1) - scores) ** 2)


def pretraining(sentence_weight, net):
    masked, sentence = net.bert.losses(net.features)
    return masked + sentence_weight * sentence


def teacher_of(config):
    return with_random_weights(ClassifierModel(config, 3), 2)


def distilled(recipe):
    def make(config):
        loss = ClassificationLoss(with_random_weights(ClassifierModel(config, 3), 1))
        layers = (config.num_hidden_layers, *[0] * (config.num_hidden_layers - 1))
        return DistillationLoss(loss, teacher_of(config), dataclasses.replace(recipe, teacher_layers=layers))

    return make


def distance(recipe, net, label_ids):
    theirs = Network(net.config, weights_of(teacher_of(net.config)), net.features)
    last, is_token = net.config.num_hidden_layers, net.mask == 1
    ours, soft = net.logits(net.pooled), softmax(theirs.logits(theirs.pooled) / 2.0)
    found = recipe.label * entropy(ours, label_ids).mean()
    found += recipe.soft * 4.0 * (soft * (np.log(soft) - np.log(softmax(ours / 2.0)))).sum(-1).mean()
    found += recipe.hidden * np.mean((net.layers[0] - theirs.layers[-1]) ** 2, -1)[is_token].mean()
    first, second = net.attention(0), theirs.attention(last - 1)
    errors = (second * (np.log(second + 1e-6) - np.log(first + 1e-6))).sum(-1).mean(1)
    found += recipe.attention * errors[is_token].mean()
    a, b = net.layers[-1], theirs.layers[-1]
    cosines = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    return found + recipe.cosine * (1 - cosines)[is_token].mean()


def taught(recipe, unused=()):
    return Cell(distilled(recipe), CLASS, functools.partial(distance, recipe), unused)


def model_of(make_model, make_loss):
    return lambda config: make_loss(with_random_weights(make_model(config), 1))


def vectors_of(pooling, make_loss=RankingLoss, labels=None, loss=None):
    loss = loss or (lambda net, text_numbers: ranking(pooling, net))
    labels = labels or {"text_numbers": np.arange(6, dtype=np.int32).reshape(3, 2)}
    return Cell(model_of(lambda config: SentenceModel(config, pooling), make_loss), labels, loss, POOLER, 2)


CLASS = {"label_ids": np.array([0, 2, 1], np.int32)}
SEVERAL = {"label_values": np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]], np.float32)}
SCORES = {"label_values": np.array([0.0, 0.5, 1.0], np.float32)}
TAGS = {"label_ids": np.where(BATCH["input_mask"] == 1, DRAW.integers(-1, 3, (3, 7)), -1).astype(np.int32)}
SPANS = {"start_positions": np.array([1, 2, 0], np.int32), "end_positions": np.array([2, 2, 1], np.int32)}
MASKED = {name: values for name, values in BATCH.items() if name not in INPUTS}
HEAD = ("output_weights", "output_bias")
CELLS = {
    "classes": Cell(
        model_of(lambda config: ClassifierModel(config, 3), lambda model: ClassificationLoss(model, [0.5, 4.0, 0.25])),
        CLASS,
        lambda net, label_ids: np.average(
            entropy(net.logits(net.pooled), label_ids), weights=np.array([0.5, 4.0, 0.25])[label_ids]
        ),
    ),
    "numbers": Cell(
        model_of(lambda config: ClassifierModel(config, 1), RegressionLoss),
        SCORES,
        lambda net, label_values: np.mean((net.logits(net.pooled)[:, 0] - label_values) ** 2),
    ),
    "several labels": Cell(model_of(lambda config: ClassifierModel(config, 3), MultiLabelLoss), SEVERAL, several),
    "choices": Cell(
        model_of(MultipleChoiceModel, ClassificationLoss),
        {"label_ids": np.array([0, 1, 1], np.int32)},
        lambda net, label_ids: entropy(net.logits(net.pooled).reshape(3, 2), label_ids).mean(),
        ("output_bias",),
        2,
    ),
    "texts of a query": Cell(
        model_of(MultipleChoiceModel, ListwiseLoss),
        {"label_values": np.array([[1, 0], [0, 2], [3, 1]], np.float32)},
        lambda net, label_values: np.mean(
            -(label_values / label_values.sum(1, keepdims=True))
            * np.log(softmax(net.logits(net.pooled).reshape(3, 2)))
            * 2
        ),
        ("output_bias",),
        2,
    ),
    "tags": Cell(
        model_of(lambda config: TokenClassifierModel(config, 3), TokenClassificationLoss),
        TAGS,
        of_tokens,
        POOLER,
    ),
    "answers": Cell(
        model_of(SquadModel, SquadLoss),
        SPANS,
        lambda net, start_positions, end_positions: np.mean(
            [
                entropy(net.logits(net.layers[-1], "cls/squad/")[..., place], labels)
                for place, labels in enumerate((start_positions, end_positions))
            ]
        ),
        (*POOLER, "cls/squad/output_bias"),
    ),
    "ranked vectors of means": vectors_of("mean"),
    "ranked vectors of maxima": vectors_of("max"),
    "ranked vectors of [CLS]": vectors_of("cls"),
    "scored vectors": vectors_of(
        "mean", CosineLoss, SCORES, lambda net, label_values: scored("mean", net, label_values)
    ),
    "vectors of classes": Cell(
        model_of(lambda config: ClassifierModel(config, 2), lambda model: ClassesLoss(Encoder(model))),
        {"label_ids": np.array([1, 0, 1], np.int32)},
        of_classes,
        HEAD,
    ),
    "labels and soft labels": taught(Recipe(0.5, 0.5, temperature=2.0)),
    "hidden states": taught(Recipe(0.0, 0.0, hidden=1.0, temperature=2.0), (*POOLER, *HEAD)),
    "attention": taught(
        Recipe(0.0, 0.0, attention=1.0, temperature=2.0),
        (
            *(*POOLER, *HEAD, "bert/encoder/layer_0/attention/output", "bert/encoder/layer_0/attention/self/value"),
            *("bert/encoder/layer_0/intermediate", "bert/encoder/layer_0/output"),
        ),
    ),
    "cosines of states": taught(Recipe(0.0, 0.0, cosine=1.0, temperature=2.0), (*POOLER, *HEAD)),
    "masked words and sentences": Cell(
        model_of(PretrainingModel, PretrainingLoss), MASKED, lambda net, **labels: pretraining(1.0, net)
    ),
    "masked words alone": Cell(
        model_of(PretrainingModel, functools.partial(PretrainingLoss, next_sentence_loss_weight=0.0)),
        MASKED,
        lambda net, **labels: pretraining(0.0, net),
        (*POOLER, "cls/seq_relationship/"),
    ),
    "spans": Cell(
        model_of(SpanBoundaryModel, SpanBoundaryLoss),
        MASKED
        | {
            "masked_lm_left_positions": np.zeros((3, 3), np.int32),
            "masked_lm_right_positions": np.full((3, 3), 3, np.int32),
            "masked_lm_boundary_weights": MASKED["masked_lm_weights"],
        },
        None,
        (*POOLER, "cls/seq_relationship/"),
    ),
    "replaced tokens": Cell(
        model_of(ReplacedTokenModel, functools.partial(ReplacedTokenLoss, generator_size=0.5)),
        {name: values for name, values in MASKED.items() if name != "next_sentence_labels"},
        None,
        POOLER,
    ),
}


def features_for(cell):
    if not cell.num_texts:
        return {name: BATCH[name] for name in INPUTS} | cell.labels
    texts = make_features(make_config(), batch_size=3 * cell.num_texts, num_tokens=7, seed=1)
    return {name: texts[name].reshape(3, cell.num_texts, -1) for name in INPUTS} | cell.labels
