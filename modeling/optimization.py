"""The release's optimizer as mathematics: learning rate, clipping, update rule. Release: optimization.py.

Nothing here holds variables or knows about devices: the training step reduces the gradients of all replicas, checks
them, clips, and assigns what `AdamWeightDecay.update` returns.

Gradients must be dense. TensorFlow gives the gradient of a gather as slices in which a row may occur several times, and
squares of slices are not the square of their sum: `tf.convert_to_tensor` adds them up.
"""

import re

from keras import ops


class LearningRateSchedule:
    """Linear warm-up, then linear decay to zero (paper, appendix A.2). Release: `create_optimizer`.

    With rate r, N training steps and W warm-up steps, at step s (the first is 0):

        s < W:      r * s / W
        otherwise:  r * (1 - min(s, N) / N)

    The decay starts at step 0, not where the warm-up ends, so the rate jumps from nearly r down to r * (1 - W / N) at
    step W. That is the release's; with `smooth` the decay starts at r where the warm-up ends:

        otherwise:  r * (N - min(s, N)) / (N - W)

    Args:
        learning_rate: r, above 0.
        num_train_steps: N, at least 1.
        num_warmup_steps: W; 0 for none.
        smooth: whether to decay without the jump.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0, smooth=False):
        if not learning_rate > 0:
            raise ValueError(f"learning_rate is {learning_rate}, but must be above 0")
        if num_train_steps < 1:
            raise ValueError(f"num_train_steps is {num_train_steps}, but must be at least 1")
        if num_warmup_steps < 0:
            raise ValueError(f"num_warmup_steps is {num_warmup_steps}, but must be at least 0")
        self.learning_rate = float(learning_rate)
        self.num_train_steps = int(num_train_steps)
        self.num_warmup_steps = int(num_warmup_steps)
        self.smooth = smooth

    def __call__(self, step):
        """Returns the rate at a step: a float for a Python number, float32 for a tensor."""
        if isinstance(step, (int, float)):
            is_warmup = step < self.num_warmup_steps
            return self._warmup(step) if is_warmup else self._decay(min(step, self.num_train_steps))
        step = ops.cast(step, "float32")
        decayed = self._decay(ops.minimum(step, float(self.num_train_steps)))
        if not self.num_warmup_steps:
            return decayed
        return ops.where(step < self.num_warmup_steps, self._warmup(step), decayed)

    def _warmup(self, step):
        return self.learning_rate * (step / self.num_warmup_steps)

    def _decay(self, step):
        if self.smooth and self.num_warmup_steps < self.num_train_steps:
            return self.learning_rate * ((self.num_train_steps - step) / (self.num_train_steps - self.num_warmup_steps))
        return self.learning_rate * (1.0 - step / self.num_train_steps)


class AdamWeightDecay:
    """Adam with decoupled weight decay and without bias correction. Release: `AdamWeightDecayOptimizer`.

    For a weight w with gradient g and learning rate r:

        m <- beta_1 * m + (1 - beta_1) * g
        v <- beta_2 * v + (1 - beta_2) * g^2
        w <- w - r * (m / (sqrt(v) + epsilon) + weight_decay_rate * w)

    Epsilon stands outside the root, and m and v start at zero and are not corrected for it. Every row of an embedding
    table moves in every step, also the rows of pieces that the batch does not have.

    Args:
        learning_rate: LearningRateSchedule, kept for whoever applies the updates.
        weight_decay_rate: the strength of the decay.
        beta_1: how much of the mean m is kept.
        beta_2: how much of the mean square v is kept.
        epsilon: keeps the division defined.
        exclude_from_weight_decay: regular expressions; a weight in whose name one is found is not decayed.
        rate_factor: function of a weight's name, giving what the learning rate is multiplied by for it; None: 1 for
            all, as in the release. See `layer_of` for what to decide by.
    """

    def __init__(
        self,
        learning_rate,
        weight_decay_rate=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        exclude_from_weight_decay=("LayerNorm", "layer_norm", "bias"),
        rate_factor=None,
    ):
        self.learning_rate = learning_rate
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.exclude_from_weight_decay = tuple(exclude_from_weight_decay)
        self.rate_factor = rate_factor

    def rule(self, name):
        """Returns what may differ between two weights: the rate of decay, and the factor of the learning rate."""
        is_excluded = any(re.search(pattern, name) for pattern in self.exclude_from_weight_decay)
        return 0.0 if is_excluded else self.weight_decay_rate, self.rate_factor(name) if self.rate_factor else 1.0

    def update(self, name, value, gradient, m, v, learning_rate):
        """Computes one update of one weight; changes nothing.

        Args:
            name: name of the weight, which decides on the decay.
            value, gradient, m, v: float tensors of one shape; the gradient is dense.
            learning_rate: float32 scalar.

        Returns:
            The new value, m and v.
        """
        weight_decay_rate, rate_factor = self.rule(name)
        m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        v = self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient)
        step = m / (ops.sqrt(v) + self.epsilon)
        if weight_decay_rate:
            step = step + weight_decay_rate * value
        if rate_factor != 1.0:
            learning_rate = learning_rate * rate_factor
        return value - learning_rate * step, m, v


def layer_of(name, num_hidden_layers):
    """Returns how far up in the network a weight is: 0 for embeddings, 1 for the first layer, and so on.

    The pooler and all heads are above the last layer, at `num_hidden_layers + 1`.

    Args:
        name: str, of a weight.
        num_hidden_layers: int.
    """
    if name.startswith("bert/embeddings/"):
        return 0
    match = re.match(r"bert/encoder/layer_(\d+)/", name)
    return int(match[1]) + 1 if match else num_hidden_layers + 1


def clip_by_global_norm(gradients, clip_norm):
    """Scales all gradients together so that their joint length is at most `clip_norm`, as `tf.clip_by_global_norm`.

    Args:
        gradients: list of dense float tensors; None for a weight without one.
        clip_norm: the greatest length, above 0.

    Returns:
        The list of clipped gradients and the length before clipping, float32. A length that is not finite makes every
        gradient NaN, so that it cannot go unseen.
    """
    # Slices of TensorFlow become one dense row by being reshaped; their squares alone would not be those of their sum.
    flat = [ops.cast(ops.reshape(g, (-1,)), "float32") for g in gradients if g is not None]
    squares = [ops.sum(ops.square(g)) for g in flat]
    norm = ops.sqrt(sum(squares[1:], squares[0]))
    scale = clip_norm * ops.minimum(1.0 / norm, 1.0 / clip_norm) + (norm - norm)
    return [g if g is None else g * ops.cast(scale, g.dtype) for g in gradients], norm
