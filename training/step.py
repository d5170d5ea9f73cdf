"""One update of the weights, for any number of devices.

A step computes the gradients of every micro-batch, makes them dense, and sums them over the micro-batches and then over
the replicas. Only then does it clip them by their global norm and apply Adam. In float16 it divides by the loss scale
before it takes the norm, and all replicas skip an update that is not finite. Losses are divided by the weight of the
whole global batch. The number of devices or micro-batches therefore does not change the result.
"""

import weakref

import tensorflow as tf

from bert_keras.modeling.checkpoints.loading import weights_by_name
from bert_keras.modeling.optimization import clip_by_global_norm
from bert_keras.training.updates import choose_updates

# Maximum global norm of the gradients (constant of the original BERT).
_CLIP_NORM = 1.0
# Devices exchange gradients in packs of this size, so that the exchange starts before the backward pass ends. Otherwise
# TensorFlow copies all gradients into one pack.
_COMMUNICATION = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=50 * 2**20)


class Trainer:
    """A task, its optimizer and everything that changes during training.

    Args:
        task: a task of `modeling.tasks`: model, numerators, denominators and loss.
        optimizer: a `modeling.optimization.AdamWeightDecay`.
        strategy: `tf.distribute.Strategy`; the task's model was built in its scope.
        seed: int; the seed of dropout.
        num_micro_batches: int; number of equal parts of a replica's batch, which it must divide. More parts save memory
            and change nothing else.
        is_trained: function of a weight's name that returns whether to train it; None: all weights are trained.
        loss_scale: a `training.loss_scale.LossScale`, without which small gradients vanish in float16; or None.
        is_compiled: whether XLA compiles the forward and backward pass, once for every shape of the features. XLA does
            not compile the update with it, because the update is for all replicas at once.

    Attributes:
        sum_over_replicas: function that `step` uses to sum a structure of tensors over all devices.
    """

    def __init__(
        self,
        task,
        optimizer,
        strategy,
        seed,
        num_micro_batches=1,
        is_trained=None,
        loss_scale=None,
        is_compiled=False,
    ):
        self.task = task
        self.optimizer = optimizer
        self.strategy = strategy
        self.num_micro_batches = num_micro_batches
        self._seed = seed
        self._loss_scale = loss_scale
        self._all_weights = {name: variable.value for name, variable in weights_by_name(task.model).items()}
        self._weights = {
            name: weight for name, weight in self._all_weights.items() if not is_trained or is_trained(name)
        }
        self._train = graph_function(self, "_steps")
        self.sum_over_replicas = sum_over_replicas
        self._compiled_gradients = (
            graph_function(self, "_forward_and_backward", jit_compile=True) if is_compiled else None
        )
        self._updates = choose_updates(optimizer, self._weights, strategy)
        with strategy.scope():
            self.global_step = tf.Variable(
                0, trainable=False, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
            )
            self._m = {name: _slot(weight) for name, weight in self._weights.items()}
            self._v = {name: _slot(weight) for name, weight in self._weights.items()}

    @property
    def state(self):
        """dict of str to `tf.Variable`: everything that training changes, under the names of the original BERT.

        Dropout and the data are functions of the seed and `global_step`, so this state is enough to resume exactly.
        """
        state = {"global_step": self.global_step, **self._all_weights}
        state.update(self._loss_scale.state if self._loss_scale else {})
        state.update({f"{name}/adam_m": slot for name, slot in self._m.items()})
        state.update({f"{name}/adam_v": slot for name, slot in self._v.items()})
        return state

    def train(self, iterator, num_steps):
        """Takes several steps without returning to Python.

        Args:
            iterator: iterator over global batches of features.
            num_steps: int32 scalar tensor; TensorFlow would trace a graph for each Python int.

        Returns:
            dict with `numerators` and `denominators` (dicts of float32 scalars by metric), `loss` and `gradient_norm`
            before clipping (float32 scalars), each summed over the steps. With a loss scale also `num_skipped` and
            `loss_scale` after the last step. `num_skipped` counts steps whose gradients overflowed: they change no
            weight, and the sums leave them out.
        """
        return self._train(iterator, num_steps)

    def _steps(self, iterator, num_steps):
        zeros = {name: tf.zeros([]) for name in self.task.metric_names}
        totals = {"numerators": zeros, "denominators": dict(zeros), "loss": tf.zeros([]), "gradient_norm": tf.zeros([])}
        if self._loss_scale:
            totals["num_skipped"] = tf.zeros([])

        def one_more(number, totals):
            result = self.strategy.run(self.step, args=(next(iterator),))
            # After the reduction every replica holds the same value.
            result = tf.nest.map_structure(lambda value: self.strategy.experimental_local_results(value)[0], result)
            return number + 1, tf.nest.map_structure(tf.add, totals, result)

        _, totals = tf.while_loop(lambda number, totals: number < num_steps, one_more, (tf.constant(0), totals))
        if self._loss_scale:
            totals["loss_scale"] = self._loss_scale.value.read_value()
        return totals

    def step(self, features):
        """Does one update with this replica's part of a batch. Every device runs it at the same time.

        Args:
            features: dict of tensors with the examples as first axis.

        Returns:
            dict as of `train`, of this step, without `loss_scale`.
        """
        replica = tf.distribute.get_replica_context()
        denominators = self.sum_over_replicas(self.task.denominators(features))
        scale = self._loss_scale.value.read_value() if self._loss_scale else None
        gradients, numerators = self._sum_over_micro_batches(
            features, denominators, replica.replica_id_in_sync_group, scale
        )
        gradients, numerators = self.sum_over_replicas((gradients, numerators))
        if self._loss_scale:
            gradients = {name: gradient / scale for name, gradient in gradients.items()}
        clipped, norm = clip_by_global_norm(list(gradients.values()), _CLIP_NORM)
        gradients = dict(zip(gradients, clipped, strict=True))
        learning_rate = self.optimizer.learning_rate(self.global_step)
        loss = self.task.loss(numerators, denominators)
        result = {"numerators": numerators, "denominators": denominators, "loss": loss, "gradient_norm": norm}
        if not self._loss_scale:
            replica.merge_call(self._apply, args=(gradients, learning_rate))
            return result
        is_finite = tf.math.is_finite(loss + norm)
        replica.merge_call(self._apply, args=(gradients, learning_rate, is_finite))
        return self._loss_scale.without_skipped(result, is_finite, scale)

    def _sum_over_micro_batches(self, features, denominators, replica_id, scale):
        size = features["input_ids"].shape[0] // self.num_micro_batches

        def of_micro_batch(index):
            part = {name: _rows(value, index * size, size) for name, value in features.items()}
            seed = dropout_seed(self._seed, self.global_step, replica_id, index)
            compute = self._compiled_gradients or self._forward_and_backward
            return compute(part, denominators, seed, scale)

        totals = of_micro_batch(tf.constant(0))
        if self.num_micro_batches == 1:
            return totals
        _, totals = tf.while_loop(
            lambda index, totals: index < self.num_micro_batches,
            lambda index, totals: (index + 1, tf.nest.map_structure(tf.add, totals, of_micro_batch(index))),
            (tf.constant(1), totals),
            maximum_iterations=self.num_micro_batches - 1,
        )
        return totals

    def _forward_and_backward(self, features, denominators, seed, scale):
        with tf.GradientTape() as tape:
            numerators = self.task.numerators(features, dropout_seed=seed)
            loss = self.task.loss(numerators, denominators)
        gradients = tape.gradient(loss, self._weights, scale)
        # A weight that the loss does not depend on has no gradient. The update leaves it out, as in the original BERT;
        # weight decay alone would shrink it.
        # The gradient of a lookup is a list of slices, and several of them may be of the same row. The dense gradient
        # sums them; their squares would make Adam's second moment wrong without any error.
        # TensorFlow exchanges gradients in packs only if their shapes are known.
        gradients = {
            name: tf.ensure_shape(tf.convert_to_tensor(gradient), self._weights[name].shape)
            for name, gradient in gradients.items()
            if gradient is not None
        }
        return gradients, numerators

    def _apply(self, strategy, gradients, learning_rate, is_finite=None):
        if is_finite is None:
            self._update_weights(strategy, gradients, learning_rate)
        else:
            # After the reduction every replica holds the same value.
            is_finite = strategy.experimental_local_results(is_finite)[0]
            tf.cond(is_finite, lambda: self._update_weights(strategy, gradients, learning_rate), lambda: None)
            self._loss_scale.update(strategy, is_finite)
        strategy.extended.update(self.global_step, lambda step: step.assign_add(1), group=False)

    def _update_weights(self, strategy, gradients, learning_rate):
        for name, gradient in gradients.items():
            weight = self._weights[name]

            def update(weight, gradient, m, v, learning_rate, compute=self._updates[name]):
                values = (weight.read_value(), gradient, m.read_value(), v.read_value(), learning_rate)
                for variable, value in zip((weight, m, v), compute(*values), strict=True):
                    variable.assign(value)

            strategy.extended.update(
                weight, update, args=(gradient, self._m[name], self._v[name], learning_rate), group=False
            )


def sum_over_replicas(values):
    """Returns a structure of tensors, each summed over all replicas. Every replica must call it."""
    # `replica.all_reduce` would register a gradient of the sum, which keeps the graph and its weights in memory.
    summed = tf.distribute.get_replica_context().merge_call(
        lambda strategy, *flat: strategy.extended.batch_reduce_to(
            tf.distribute.ReduceOp.SUM, [(value, value) for value in flat], _COMMUNICATION
        ),
        args=tf.nest.flatten(values),
    )
    return tf.nest.pack_sequence_as(values, summed)


def graph_function(owner, name, jit_compile=None):
    """Returns a method of an object as a `tf.function` that does not keep the object alive.

    Each object gets its own function, because TensorFlow warns of too many traces of a shared one. AutoGraph is off: it
    would rewrite every function that is called, and double the time of tracing.

    Args:
        owner: the object.
        name: str; its method.
        jit_compile: as of `tf.function`.
    """
    weak_owner = weakref.ref(owner)
    return tf.function(
        lambda *arguments: getattr(weak_owner(), name)(*arguments), autograph=False, jit_compile=jit_compile
    )


def dropout_seed(seed, step, replica_id, micro_batch):
    """Returns the seed of all dropout of a micro-batch.

    Args:
        seed: int, of the run.
        step: int scalar tensor.
        replica_id: int, or int scalar tensor.
        micro_batch: int, or int scalar tensor.

    Returns:
        int32 [2]: the first element differs with each argument; layers add their position to the second, which is 0.
    """
    folded = tf.constant([seed & 0x7FFFFFFF, 0], tf.int32)
    # fold_in mixes earlier values into the first element and leaves the newest in the second. The final 0 keeps
    # micro-batch 1 of one layer from sharing its masks with micro-batch 0 of the next.
    for part in (step, replica_id, micro_batch, 0):
        folded = tf.random.fold_in(folded, tf.cast(part, tf.int32))
    return folded


def _rows(values, start, num_rows):
    """Returns num_rows rows of a tensor. XLA needs a constant number, which the difference of two ends is not."""
    size = tf.concat([[num_rows], tf.shape(values)[1:]], 0)
    return tf.slice(values, [start, *[0] * (values.shape.rank - 1)], size)


def _slot(weight):
    return tf.Variable(
        tf.zeros(weight.shape, weight.dtype), trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
    )


class Evaluator:
    """Measures a task's model without changing it.

    Args:
        task: as of `Trainer`.
        strategy: as of `Trainer`.
        is_compiled: whether XLA compiles the network with its losses.
    """

    def __init__(self, task, strategy, is_compiled=False):
        self.task = task
        self.strategy = strategy
        self._numerators = task.numerators
        if is_compiled:
            self._numerators = tf.function(lambda features: task.numerators(features), jit_compile=True)
        self._run = graph_function(self, "_sums")

    def evaluate(self, batches):
        """Evaluates all batches once.

        Args:
            batches: `tf.data.Dataset` of features, as of `training.input.pretraining_batches.evaluation_batches`.

        Returns:
            dict of float by metric, weighted by the denominators of each batch; and `loss`, the unweighted mean of the
            batch losses, as in the original BERT.

        Raises:
            ValueError: `batches` is empty.
        """
        numerators, denominators, losses = {}, {}, []
        for features in batches:
            result = self._run(features)
            losses.append(float(result["loss"]))
            for name in self.task.metric_names:
                numerators[name] = numerators.get(name, 0.0) + float(result["numerators"][name])
                denominators[name] = denominators.get(name, 0.0) + float(result["denominators"][name])
        if not losses:
            raise ValueError("evaluation found no batch; give records that hold examples")
        metrics = {name: float(value) for name, value in self.task.metrics(numerators, denominators).items()}
        return {"loss": sum(losses) / len(losses), **metrics}

    def _sums(self, features):
        result = self.strategy.run(self.step, args=(features,))
        return tf.nest.map_structure(lambda value: self.strategy.experimental_local_results(value)[0], result)

    def step(self, features):
        """Measures this replica's part of a batch, and returns the sums and the loss of the whole batch."""
        numerators, denominators = sum_over_replicas((self._numerators(features), self.task.denominators(features)))
        loss = self.task.loss(numerators, denominators)
        return {"numerators": numerators, "denominators": denominators, "loss": loss}
