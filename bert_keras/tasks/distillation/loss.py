"""The losses of distillation: the student's outputs against those of the teacher for the same batch.

Axes: B batch, T tokens, H hidden, N heads, C classes or other choices.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from bert_keras.modeling import MultiLabelLoss, RegressionLoss
from bert_keras.modeling.checkpoints.names import LOSS_PREFIX
from bert_keras.modeling.layers import truncated_normal
from bert_keras.modeling.losses import Loss, weighted_sum
from bert_keras.tasks.distillation.recipe import Recipe

# Keeps the logarithm of an attention of 0 finite.
_EPSILON = 1e-6
_INITIALIZER_RANGE = 0.02
# Metrics whose weights are those of the soft loss: one of them counts every prediction of a task once.
_COUNTED = ("masked_lm_accuracy", "start_accuracy", "accuracy", "loss")


class DistillationLoss(Loss):
    """A loss that also compares the student with a teacher.

    The teacher runs in the step, without dropout. Its weights are not part of the state of training. The soft loss is
    the Kullback-Leibler divergence of the predictions at the temperature, times its square (Hinton et al. 2015,
    "Distilling the Knowledge in a Neural Network"); for numbers, the squared difference.

    If the widths differ, one matrix projects all hidden states of the student; training changes it, too. If the numbers
    of heads differ, the attention loss compares the means over the heads.

    Float32 [B] "label_weights" is 0 for examples without a label, which the student's own loss and metrics leave out.

    Args:
        loss: a loss of `modeling.losses`, with the student as its model.
        teacher: a model of the same kind as the student, or a function of the features that returns its outputs.
        recipe: the losses and their weights.
        has_label_weights: whether the features hold "label_weights".
    """

    def __init__(
        self,
        loss: Loss,
        teacher: Callable[[dict[str, Any]], dict[str, Any]],
        recipe: Recipe,
        has_label_weights: bool = False,
    ) -> None:
        super().__init__(loss.model)
        self._loss, self._teacher, self._recipe = loss, teacher, recipe
        self.metric_names = (*loss.metric_names, *recipe.extras)
        self.weight_units = loss.weight_units
        self.fixed_weights = [*teacher.variables] if isinstance(teacher, keras.Model) else []
        self.label_names = (*loss.label_names, *(("label_weights",) if has_label_weights else ()))
        self._pairs = [(number, layer) for number, layer in enumerate(recipe.teacher_layers, 1) if layer]
        self._projection = None
        if recipe.hidden or recipe.cosine:
            widths = loss.model.config.hidden_size, teacher.config.hidden_size
            if widths[0] != widths[1]:
                self._projection = keras.Variable(
                    truncated_normal(_INITIALIZER_RANGE), shape=widths, dtype="float32", name="projection"
                )
                self.own_weights = {f"{LOSS_PREFIX}projection": self._projection}

    @property
    def label_smoothing(self) -> float:
        return self._loss.label_smoothing

    @label_smoothing.setter
    def label_smoothing(self, value: float) -> None:
        self._loss.label_smoothing = value

    def numerators(self, features: dict[str, Any], dropout_seed: Any = None) -> dict[str, Any]:
        """Runs teacher and student, and returns the weighted sum of each metric, float32 scalars."""
        with self._all_layers(self._teacher):
            # Without the loss of a gradient through the teacher, TensorFlow would keep its activations.
            targets = keras.tree.map_structure(ops.stop_gradient, self._teacher(features))
        with self._all_layers(self.model):
            outputs = self.model(features, dropout_seed=dropout_seed)
        values = self._loss._values(outputs, features)
        values |= self._comparisons(outputs, targets, features)
        return {name: ops.sum(weights * values[name]) for name, weights in self._weights(features).items()}

    def value(self, numerators: dict[str, Any], denominators: dict[str, Any]) -> Any:
        """Returns the loss to minimise, see `Loss.value`: the weighted sum, without the losses of weight 0."""
        losses = [self._loss.value(numerators, denominators)]
        losses += [ops.divide_no_nan(numerators[name], denominators[name]) for name in self._recipe.extras]
        return weighted_sum((self._recipe.label, *self._recipe.extras.values()), losses)

    def metrics(self, numerators: dict[str, Any], denominators: dict[str, Any]) -> dict[str, Any]:
        extras = {name: ops.divide_no_nan(numerators[name], denominators[name]) for name in self._recipe.extras}
        own = [{name: values[name] for name in self._loss.metric_names} for values in (numerators, denominators)]
        return self._loss.metrics(*own) | extras

    def _weights(self, features: dict[str, Any]) -> dict[str, Any]:
        weights = self._loss._weights(features)
        counted = next(weights[name] for name in _COUNTED if name in weights)
        if "label_weights" in features:
            labelled = features["label_weights"]
            weights = {
                name: values
                * ops.reshape(labelled, (*ops.shape(labelled), *[1] * (len(values.shape) - len(labelled.shape))))
                for name, values in weights.items()
            }
        is_token = ops.cast(_token_mask(features), "float32")
        return weights | {name: counted if name == "soft_loss" else is_token for name in self._recipe.extras}

    @contextlib.contextmanager
    def _all_layers(self, model: Any) -> Iterator[None]:
        """Makes a model return the outputs of all layers, if a loss needs them."""
        if not self._recipe.needs_layers:
            yield
            return
        before, model.bert.return_all_encoder_layers = model.bert.return_all_encoder_layers, True
        try:
            yield
        finally:
            model.bert.return_all_encoder_layers = before

    def _comparisons(
        self, outputs: dict[str, Any], targets: dict[str, Any], features: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns the values of the losses against the teacher by metric, float32, before they are averaged."""
        recipe, values = self._recipe, {}
        if recipe.soft:
            values["soft_loss"] = _soft_losses(self._loss, outputs, targets, recipe.temperature, features)
        if not recipe.needs_layers:
            return values
        ours, theirs = ([tensors["embedding_output"], *tensors["all_encoder_layers"]] for tensors in (outputs, targets))
        if recipe.hidden:
            errors = [
                ops.mean(ops.square(self._projected(ours[i]) - _float(theirs[j])), axis=-1) for i, j in self._pairs
            ]
            values["hidden_loss"] = sum(errors) / len(errors)  # [B, T]
        if recipe.attention:
            errors = [self._attention_errors(i, j, ours[i - 1], theirs[j - 1], features) for i, j in self._pairs]
            values["attention_loss"] = sum(errors) / len(errors)  # [B, T]
        if recipe.cosine:
            first, second = (ops.normalize(x, axis=-1) for x in (self._projected(ours[-1]), _float(theirs[-1])))
            values["cosine_loss"] = 1.0 - ops.sum(first * second, axis=-1)  # [B, T]
        return values

    def _projected(self, hidden: Any) -> Any:
        hidden = _float(hidden)
        return hidden if self._projection is None else ops.matmul(hidden, self._projection)

    def _attention_errors(
        self, layer: int, teacher_layer: int, hidden: Any, teacher_hidden: Any, features: dict[str, Any]
    ) -> Any:
        """Returns the divergence of each token's attention, float32 [B, T]: the mean over the heads."""
        student = _attention(self.model, layer, hidden, features)  # [B, N, T, T]
        teacher = ops.stop_gradient(_attention(self._teacher, teacher_layer, teacher_hidden, features))
        if student.shape[1] != teacher.shape[1]:
            student, teacher = (ops.mean(heads, axis=1, keepdims=True) for heads in (student, teacher))
        ratios = ops.log(teacher + _EPSILON) - ops.log(student + _EPSILON)
        return ops.mean(ops.sum(teacher * ratios, axis=-1), axis=1)


def _soft_losses(
    loss: Loss, outputs: dict[str, Any], targets: dict[str, Any], temperature: float, features: dict[str, Any]
) -> Any:
    """Returns the loss of each prediction against that of the teacher, of the shape of the student's own losses."""
    if isinstance(loss, RegressionLoss):
        return loss.squared_errors(outputs["logits"][..., 0], targets["logits"][..., 0])
    names = [name for name in ("logits", "start_logits", "end_logits", "masked_lm_logits") if name in outputs]
    losses = []
    for name in names:
        ours, theirs = outputs[name] / temperature, targets[name] / temperature
        if name in ("start_logits", "end_logits") and "input_mask" in features:
            # The choices are the positions of the window; padding is not one of them.
            padding = -1e9 * (1.0 - ops.cast(features["input_mask"], "float32"))
            ours, theirs = ours + padding, theirs + padding
        if isinstance(loss, MultiLabelLoss):
            shares = ops.sigmoid(theirs)
            # softplus(-x) is -log(sigmoid(x))
            yes, no = ops.softplus(-ours) - ops.softplus(-theirs), ops.softplus(ours) - ops.softplus(theirs)
            losses.append(ops.mean(shares * yes + (1.0 - shares) * no, axis=-1))
        else:
            differences = ops.log_softmax(theirs) - ops.log_softmax(ours)
            losses.append(ops.sum(ops.softmax(theirs) * differences, axis=-1))
    return temperature**2 * sum(losses) / len(losses)


def _attention(model: Any, layer: int, hidden: Any, features: dict[str, Any]) -> Any:
    """Returns the attention probabilities of a layer (from 1) for its input float [B, T, H]; float32 [B, N, T, T]."""
    inputs = {"input_ids": _token_mask(features), "input_mask": _token_mask(features)}  # the ids give the shape alone
    inputs |= {name: features[name] for name in ("sequence_ids",) if name in features}
    scores = model.bert.mask_scores(inputs)
    attention = model.bert.encoder_layers[layer - 1].self_attention
    return attention.probabilities(ops.reshape(hidden, (-1, hidden.shape[-1])), scores)


def _token_mask(features: dict[str, Any]) -> Any:
    """Returns [B, T], 1 for tokens and 0 for padding; the choices of an example are rows."""
    if "sequence_ids" in features:
        return ops.cast(features["sequence_ids"] > 0, "int32")
    mask = features["input_mask"]
    return ops.reshape(mask, (-1, ops.shape(mask)[-1]))


def _float(x: Any) -> Any:
    return ops.cast(x, "float32")
