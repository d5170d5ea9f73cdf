"""The original optimizer: learning rate, clipping, update rule.

The training step uses only the pure functions: it sums the gradients of all replicas, checks and clips them, and
assigns the results of `AdamWeightDecay.update` to variables of the step. In `fit`, Keras calls `AdamWeightDecay.apply`,
which does the same with variables of the optimizer.

Gradients must be dense. TensorFlow returns the gradient of a gather as slices, and a row may occur in several of them.
`tf.convert_to_tensor` sums the slices; the sum of their squares would be wrong.

Source: the original optimization.py.
"""

import logging
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
from keras import ops

from bert_keras.settings.choices import SCHEDULES

log = logging.getLogger("bert_keras")


@keras.saving.register_keras_serializable(package="bert_keras")
class LearningRateSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then linear decay to zero (paper, appendix A.2), half a cosine to zero, or no decay.

    With rate r, N training steps and W warm-up steps, at step s (the first is 0):

        s < W:      r * s / W
        otherwise:  r * (1 - min(s, N) / N)

    As in the original BERT, the decay is computed from step 0. At step W, the rate therefore drops from nearly r to
    r * (1 - W / N). The other shapes have no such drop. After the warm-up, "constant" keeps r. "smooth_linear" computes

        r * (N - min(s, N)) / (N - W)

    and "cosine" (Loshchilov and Hutter 2017, "SGDR", without restarts)

        r * (1 + cos(pi * (min(s, N) - W) / (N - W))) / 2

    Source: `create_optimizer` of the original.

    Args:
        learning_rate: r, above 0.
        num_train_steps: N, at least 1.
        num_warmup_steps: W; 0 for none.
        shape: "linear", as in the original BERT, "smooth_linear", "cosine" or "constant".
    """

    def __init__(
        self, learning_rate: float, num_train_steps: int, num_warmup_steps: int = 0, shape: str = "linear"
    ) -> None:
        if not learning_rate > 0:
            raise ValueError(f"learning_rate is {learning_rate}, but must be above 0")
        if num_train_steps < 1:
            raise ValueError(f"num_train_steps is {num_train_steps}, but must be at least 1")
        if num_warmup_steps < 0:
            raise ValueError(f"num_warmup_steps is {num_warmup_steps}, but must be at least 0")
        if shape not in SCHEDULES:
            raise ValueError(f"shape is {shape!r}, but must be one of {', '.join(SCHEDULES)}")
        self.learning_rate = float(learning_rate)
        self.num_train_steps = int(num_train_steps)
        self.num_warmup_steps = int(num_warmup_steps)
        self.shape = shape

    def __call__(self, step: Any) -> Any:
        """Returns the rate at a step: a float for a Python number, float32 for a tensor."""
        if isinstance(step, (int, float)):
            is_warmup = step < self.num_warmup_steps
            return self._warmup(step) if is_warmup else self._decay(min(step, self.num_train_steps))
        step = ops.cast(step, "float32")
        decayed = self._decay(ops.minimum(step, float(self.num_train_steps)))
        if not self.num_warmup_steps:
            return decayed
        return ops.where(step < self.num_warmup_steps, self._warmup(step), decayed)

    def get_config(self) -> dict[str, Any]:
        return dict(vars(self))

    def _warmup(self, step: Any) -> Any:
        return self.learning_rate * (step / self.num_warmup_steps)

    def _decay(self, step: Any) -> Any:
        if self.shape == "constant":
            return self.learning_rate + 0.0 * step  # a tensor for a tensor
        if self.shape != "linear" and self.num_warmup_steps < self.num_train_steps:
            left = (self.num_train_steps - step) / (self.num_train_steps - self.num_warmup_steps)
            if self.shape == "smooth_linear":
                return self.learning_rate * left
            cos = math.cos if isinstance(step, (int, float)) else ops.cos
            return self.learning_rate * (0.5 - 0.5 * cos(math.pi * left))
        return self.learning_rate * (1.0 - step / self.num_train_steps)


@keras.saving.register_keras_serializable(package="bert_keras")
class AdamWeightDecay(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay, by default without bias correction.

    For a weight w with gradient g and learning rate r:

        m <- beta_1 * m + (1 - beta_1) * g
        v <- beta_2 * v + (1 - beta_2) * g^2
        w <- w - r * (m / (sqrt(v) + epsilon) + weight_decay_rate * w)

    With bias correction (Kingma and Ba 2015, arXiv:1412.6980), the last line has m / (1 - beta_1^t) and
    v / (1 - beta_2^t) in update t, which is 1 for the first one. m and v start at 0. Every row of an embedding table
    changes in every step, even if its token is not in the batch.
    The first update uses the learning rate of step 0. A weight without a gradient does not change.
    Source: `AdamWeightDecayOptimizer` and `create_optimizer` of the original.

    Args:
        learning_rate: LearningRateSchedule; in `fit` also a float.
        weight_decay_rate: float; `beta_1`, `beta_2` and `epsilon` are the other numbers of the formula.
        exclude_from_weight_decay: regular expressions; a weight has no decay if one of them is found in its name. In
            `fit`, the name is the weight's `path`, so a model within other models works too.
        rate_factor: function from a weight's name to the factor of its learning rate, see `layer_of`. None: 1 for all,
            as in the original BERT.
        clip_norm: the maximum global norm of the gradients; 0: they are not clipped. In `fit` on several devices,
            the gradients are first summed over the devices.
        bias_correction: whether to correct m and v as above. The original BERT does not.
        name: of the optimizer in Keras.

    Attributes:
        schedule: the argument `learning_rate`. Keras has another attribute of this name, the rate of the present step.
    """

    def __init__(
        self,
        learning_rate: LearningRateSchedule | float,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay: Iterable[str] = ("LayerNorm", "layer_norm", "bias"),
        rate_factor: Callable[[str], float] | None = None,
        clip_norm: float = 1.0,
        bias_correction: bool = False,
        name: str = "AdamWeightDecay",
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name)
        self.schedule: Any = learning_rate
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.exclude_from_weight_decay = tuple(exclude_from_weight_decay)
        self.rate_factor = rate_factor
        self.clip_norm = clip_norm
        self.bias_correction = bias_correction
        self._is_start_checked = self._has_warned = False  # see _warn_of_ended_schedule

    def rule(self, name: str) -> tuple[float, float]:
        """Returns the weight decay rate and the learning rate factor of a weight, two floats."""
        is_excluded = any(re.search(pattern, name) for pattern in self.exclude_from_weight_decay)
        return 0.0 if is_excluded else self.weight_decay_rate, self.rate_factor(name) if self.rate_factor else 1.0

    def update(
        self, name: str, value: Any, gradient: Any, m: Any, v: Any, learning_rate: Any, step: Any = 0
    ) -> tuple[Any, Any, Any]:
        """Returns the new value, m and v of a weight from float tensors of one shape; the gradient is dense.

        `step` is the number of earlier updates, which only the bias correction needs.
        """
        weight_decay_rate, rate_factor = self.rule(name)
        m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        v = self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient)
        direction = self._corrected(m, self.beta_1, step) / (
            ops.sqrt(self._corrected(v, self.beta_2, step)) + self.epsilon
        )
        if weight_decay_rate:
            direction = direction + weight_decay_rate * value
        if rate_factor != 1.0:
            learning_rate = learning_rate * rate_factor
        return value - learning_rate * direction, m, v

    def _corrected(self, mean: Any, beta: float, step: Any) -> Any:
        """Returns m or v, divided by 1 - beta^t with bias correction."""
        if not self.bias_correction or not beta:
            return mean
        num_updates = ops.cast(step, "float32") + 1.0
        # 1 - 0.999^t loses digits in float32.
        return mean / ops.cast(-ops.expm1(num_updates * math.log(beta)), mean.dtype)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._names = [variable.path for variable in variables]
        self._m, self._v = self.add_optimizer_variables(variables, ["adam_m", "adam_v"])

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[keras.Variable] | None = None) -> None:
        """Updates the weights in `fit`, once for all devices; Keras calls it."""
        self._warn_of_ended_schedule(is_at_start=True)
        present = iter(self._clipped([gradient for gradient in grads if gradient is not None]))
        super().apply([gradient if gradient is None else next(present) for gradient in grads], trainable_variables)

    def update_step(self, gradient: Any, variable: keras.Variable, learning_rate: Any) -> None:
        """Updates one weight in `fit`; Keras calls it."""
        index = self._get_variable_index(variable)  # as in the example of keras.optimizers.Optimizer
        m, v = self._m[index], self._v[index]
        learning_rate = ops.cast(learning_rate, variable.dtype)
        gradient = ops.cast(gradient, variable.dtype)
        values = self.update(self._names[index], variable, gradient, m, v, learning_rate, self.iterations)
        for changed, value in zip((variable, m, v), values, strict=True):
            self.assign(changed, value)

    def finalize_variable_values(self, var_list: Sequence[keras.Variable]) -> None:
        """Ends a `fit`; Keras calls it."""
        super().finalize_variable_values(var_list)
        self._warn_of_ended_schedule(is_at_start=False)

    def get_config(self) -> dict[str, Any]:
        inherited = super().get_config()
        names = ("weight_decay_rate", "beta_1", "beta_2", "epsilon", "exclude_from_weight_decay", "clip_norm")
        names += ("bias_correction",)
        return {
            **{name: inherited[name] for name in ("name", "learning_rate")},
            **{name: getattr(self, name) for name in names},
            "rate_factor": keras.saving.serialize_keras_object(self.rate_factor),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> "AdamWeightDecay":
        rate_factor = keras.saving.deserialize_keras_object(config["rate_factor"], custom_objects)
        return super().from_config(config | {"rate_factor": rate_factor}, custom_objects)

    def _warn_of_ended_schedule(self, is_at_start: bool) -> None:
        """Warns once if `fit` updates weights after the last step of the schedule, with a learning rate of 0.

        JAX knows the step only at the end of a `fit`, and TensorFlow comes here at the start only to compile.
        """
        if self._is_start_checked and is_at_start:
            return
        self._is_start_checked = is_at_start
        if self._has_warned or not isinstance(self.schedule, LearningRateSchedule) or self.schedule.shape == "constant":
            return
        end, step = self.schedule.num_train_steps, self._known_step(is_at_start)
        if step is not None and step - end >= (0 if is_at_start else 1):
            self._has_warned = True
            log.warning(
                "the learning rate is 0 from step %d, the num_train_steps of the schedule, and the optimizer is at "
                "step %d, so fit changes no weight; to train on, compile the model with a new schedule and optimizer",
                end,
                step,
            )

    def _known_step(self, is_at_start: bool) -> int | None:
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            with tf.init_scope():  # outside the graph that TensorFlow compiles
                return int(ops.convert_to_numpy(self.iterations))
        is_compiling = keras.backend.backend() == "jax" and is_at_start
        return None if is_compiling else int(ops.convert_to_numpy(self.iterations))

    def _clipped(self, gradients: Sequence[Any]) -> Sequence[Any]:
        """Returns dense gradients, clipped by the norm of their sum over TensorFlow's replicas.

        Keras sums over the replicas only after this. Each replica therefore returns its share of the clipped sum.
        """
        num_replicas = 1
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
            if replica := tf.distribute.get_replica_context():
                num_replicas = replica.num_replicas_in_sync
        if not self.clip_norm or not gradients:
            return gradients
        if num_replicas > 1:
            gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        clipped, _ = clip_by_global_norm(gradients, self.clip_norm)
        return clipped if num_replicas == 1 else [gradient / num_replicas for gradient in clipped]


def layer_of(name: str, num_hidden_layers: int) -> int:
    """Returns the layer of a weight, an int: 0 for embeddings, 1 for the first encoder layer, and so on.

    The pooler and all heads have the number `num_hidden_layers + 1`.

    """
    if name.startswith("bert/embeddings/"):
        return 0
    match = re.match(r"bert/encoder/layer_(\d+)/", name)
    return int(match[1]) + 1 if match else num_hidden_layers + 1


def clip_by_global_norm(gradients: Sequence[Any], clip_norm: float) -> tuple[Sequence[Any], Any]:
    """Scales gradients so that their global norm is at most `clip_norm`, as `tf.clip_by_global_norm` does.

    Args:
        gradients: list of dense float tensors; None for a weight without a gradient.
        clip_norm: the largest norm; 0: do not clip.

    Returns:
        The list of clipped gradients, and the norm before clipping. If the norm is not finite, every clipped gradient
        is NaN.
    """
    # The reshape makes TensorFlow's slices dense; the squares of slices are not the squares of their sum.
    flat = [ops.cast(ops.reshape(g, (-1,)), "float32") for g in gradients if g is not None]
    squares = [ops.sum(ops.square(g)) for g in flat]
    norm = ops.sqrt(sum(squares[1:], squares[0]))
    if not clip_norm:
        return gradients, norm
    scale = clip_norm * ops.minimum(1.0 / norm, 1.0 / clip_norm) + (norm - norm)
    return [g if g is None else g * ops.cast(scale, g.dtype) for g in gradients], norm
