"""The networks of a fine-tuning run, and their trainers, batches and evaluators."""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from bert_keras.engine.distribution.devices import distribute, is_compiled
from bert_keras.engine.distribution.tpu import is_tpu
from bert_keras.engine.evaluation_pass import Evaluation, Inference, last, length_step
from bert_keras.engine.failures import explain_large_model, explain_out_of_memory
from bert_keras.engine.input.feature_batches import in_parts, training_batches
from bert_keras.engine.input.packed_batches import is_worth_packing, packed_training_batches
from bert_keras.engine.step import Trainer
from bert_keras.engine.trainer import make_trainer
from bert_keras.modeling import layer_of, weights_by_name
from bert_keras.modeling.layers import initial_seed
from bert_keras.modeling.lora import enable_lora, merge_lora
from bert_keras.modeling.losses import Loss
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.runs.run_dir import RunDir
from bert_keras.settings.devices import PRECISIONS
from bert_keras.settings.groups import EvaluatedSettings, FineTuningSettings
from bert_keras.tasks.finetuning.model_dir import load_model
from bert_keras.tasks.finetuning.opening import Opened, without_effect
from bert_keras.tasks.finetuning.task import Task

if TYPE_CHECKING:
    from bert_keras.tasks.distillation.teacher import Teacher

log = logging.getLogger("bert_keras")


@dataclasses.dataclass(frozen=True)
class Networks:
    """Makes the networks of a task; `opened` has the model to start from, `strategy` is that of `strategy_of`."""

    task: Task
    opened: Opened
    strategy: tf.distribute.Strategy

    @explain_large_model()
    def _build(self, settings: FineTuningSettings, teacher: "Teacher | None" = None) -> Loss:
        """Returns the network of the task with its loss, and with the losses against the teacher if there is one."""
        task = self.task
        with self.strategy.scope(), dtype_policy(PRECISIONS[settings.precision]):
            network = task.make_network(self.opened.files.config)
            if teacher:
                has_label_weights = "label_weights" in task.train_features
                network = teacher.teach(network, task.make_network, task.has_labels, has_label_weights)
        network.model.bert.is_recomputed = settings.recompute
        network.label_smoothing = settings.label_smoothing
        return network

    def _adapt(self, network: Loss, settings: FineTuningSettings) -> None:
        if not settings.lora_rank:
            return
        targets = settings.lora_targets.split(",")
        with self.strategy.scope():
            enable_lora(network.model, settings.lora_rank, settings.lora_alpha, targets)
        log.info("LoRA of rank %d on %s", settings.lora_rank, ", ".join(targets))

    def _make_trainer(self, network: Loss, settings: FineTuningSettings) -> Trainer:
        weights = {**weights_by_name(network.model), **network.own_weights}
        trained = {name for name, weight in weights.items() if weight.trainable}
        num_layers = self.opened.files.config.num_layers_of_weights
        decay, num_frozen = settings.layer_decay, settings.freeze_layers

        def rate_factor(name: str) -> float:
            return decay ** (num_layers + 1 - layer_of(name, num_layers))

        def is_trained(name: str) -> bool:
            is_frozen = num_frozen is not None and layer_of(name, num_layers) <= num_frozen
            return name in trained and not is_frozen and not name.startswith(self.task.frozen)

        return make_trainer(network, self.strategy, settings, None if decay == 1.0 else rate_factor, is_trained)

    def _batches(self, network: Loss, settings: FineTuningSettings, start_step: int) -> Iterable:
        features = {name: self.task.train_features[name] for name in network.feature_names}
        num_devices = self.strategy.num_replicas_in_sync
        if settings.pack:
            is_fixed = is_tpu(self.strategy) or is_compiled(settings)
            batches = packed_training_batches(features, settings, num_devices, start_step, self._is_trimmed, is_fixed)
        else:
            step = length_step(features["input_ids"].shape[-1], is_compiled(settings))
            batch_size, seed = settings.train_batch_size, settings.seed
            batches = training_batches(features, batch_size, seed, start_step, self._is_trimmed, step)
            batches = in_parts(batches, num_devices * settings.gradient_accumulation_steps)
        return distribute(self.strategy, batches, is_endless=True)

    def _is_worth_packing(self, settings: FineTuningSettings) -> bool:
        """Returns whether training packs examples without a flag; nobody has measured it on a TPU."""
        is_possible = "pack" not in without_effect(self.task, self.opened) and not is_tpu(self.strategy)
        mask, num_devices = self.task.train_features["input_mask"], self.strategy.num_replicas_in_sync
        return is_possible and is_worth_packing(mask, settings, num_devices, self._is_trimmed)

    @property
    def _is_trimmed(self) -> bool:
        # A TPU needs static shapes, so its batches keep their full length.
        return self.task.is_trimmed and not is_tpu(self.strategy)

    def _inference(self, network: Loss, settings: FineTuningSettings, batch_size: int) -> Inference:
        return Inference(network.model, self.strategy, batch_size, self._is_trimmed, is_compiled(settings))

    def _evaluator(self, network: Loss, settings: FineTuningSettings) -> Callable[[], Iterator[Evaluation | None]]:
        """Returns a function that starts an evaluation of the network."""
        flag = "eval_batch_size" if isinstance(settings, EvaluatedSettings) else "predict_batch_size"
        inference = self._inference(network, settings, getattr(settings, flag))

        def infer(features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            with explain_out_of_memory(flag):
                return last(inference.outputs(features))

        def evaluate() -> Iterator[Evaluation | None]:
            with explain_out_of_memory(flag):
                for outputs in inference.outputs(self.task.eval_features):
                    yield Evaluation(self.task.evaluate(outputs), outputs, infer) if outputs else None

        return evaluate

    def _load_model(self, run_dir: RunDir, network: Loss | None) -> tuple[Loss, int]:
        """Loads the weights to use, into a new network if there is none; returns it and their step."""
        settings = self.opened.settings
        with initial_seed(settings.seed):
            if network is None:
                network = self._build(settings)
            merge_lora(network.model)  # as in the folder model
            if run_dir.in_use() is run_dir:
                self._adapt(network, settings)
        return network, load_model(network.model, run_dir, self.opened.files)
