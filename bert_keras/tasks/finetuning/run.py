"""Executes a fine-tuning run: the code that all tasks share.

The run folder holds the files of every run (`runs.run_dir`), the task's reports, the features as record files, and
the model (`tasks.finetuning.model_dir`).
"""

import dataclasses
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import rich.console
import tensorflow as tf

from bert_keras.engine.distribution.devices import distribute, is_compiled
from bert_keras.engine.distribution.tpu import is_tpu
from bert_keras.engine.distribution.workers import Workers, open_run_dir
from bert_keras.engine.evaluation_pass import Evaluation, Inference, finish, last, length_step, write_eval_results
from bert_keras.engine.failures import explain_large_model, explain_out_of_memory
from bert_keras.engine.input.feature_batches import in_parts, training_batches
from bert_keras.engine.input.packed_batches import is_worth_packing, packed_training_batches
from bert_keras.engine.loop import Hooks, end_in_words, make_trainer, part_of_batch, train
from bert_keras.engine.precision import take_jit
from bert_keras.engine.report import NO_CALLBACKS, Callbacks, Result, in_words
from bert_keras.engine.step import Trainer
from bert_keras.mistakes import Message, Mistake
from bert_keras.model_folder.folder import PAGE_EXAMPLES_FILE
from bert_keras.modeling import layer_of, weights_by_name
from bert_keras.modeling.layers import initial_seed
from bert_keras.modeling.lora import enable_lora, merge_lora
from bert_keras.modeling.losses import Loss
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.runs.metrics_log import draw_learning_curves
from bert_keras.runs.run_dir import MODEL_DIR, RunDir
from bert_keras.runs.same_run import EVALUATION_FACTS
from bert_keras.settings.devices import PRECISIONS
from bert_keras.settings.effects import refuse
from bert_keras.settings.groups import EvaluatedSettings, FineTuningSettings, free_settings, values_of
from bert_keras.storage.json_files import readable_json
from bert_keras.storage.vocabulary import vocabulary_digest
from bert_keras.tasks.finetuning.data import (
    EVALUATION_FILE,
    describe_evaluation_data,
    warn_of_replaced_reports,
    warn_of_trained_data,
)
from bert_keras.tasks.finetuning.model_dir import (
    describe_run,
    has_model,
    is_calibrated,
    load_model,
    load_start,
    note_model,
    scale_head,
    write_model,
)
from bert_keras.tasks.finetuning.opening import Opened
from bert_keras.tasks.finetuning.sweep import Selection, list_tries, try_all
from bert_keras.tasks.finetuning.task import Task
from bert_keras.tasks.settings.programs import NerSettings

if TYPE_CHECKING:
    from bert_keras.tasks.distillation.teacher import Teacher

log = logging.getLogger("bert_keras")

S = TypeVar("S", bound=FineTuningSettings)


@dataclasses.dataclass(frozen=True)
class Trained:
    """What the training of one try leaves: the best value of the task's metric, and the network in memory.

    `step` and `evaluation` are of the network's weights; both are None if only the run folder has the weights to use.
    """

    best: float | None = None
    network: Any = None
    step: int | None = None
    evaluation: Evaluation | None = None


@dataclasses.dataclass(frozen=True)
class FineTuning:
    """A fine-tuning run: a task, its settings and the model to start from; `strategy` is that of `strategy_of`."""

    task: Task
    opened: Opened
    strategy: tf.distribute.Strategy
    console: rich.console.Console
    callbacks: Callbacks = NO_CALLBACKS

    def execute(self) -> Result:
        """Returns the metrics and the predictions of the model to use; neither if a signal stopped training."""
        task, opened, settings = self.task, self.opened, self.opened.settings
        if settings.do_train:
            refuse(settings, _without_effect(task, opened))
        workers, tries = Workers(self.strategy), list_tries(settings)
        if settings.deterministic:
            tf.config.experimental.enable_op_determinism()
        with open_run_dir(settings.output_dir, task.program, workers, values_of(settings)) as run_dir:
            run = self._decided(tries) if settings.do_train else self
            return run._execute(run_dir, workers, tries)

    def _decided(self, tries: list[dict[str, Any]]) -> Self:
        """Returns the run with a choice for {jit}=auto; checks the batch sizes."""
        opened, settings = self.opened, self.opened.settings
        counted = [_count_steps(self.task, dataclasses.replace(settings, **one), self.strategy) for one in tries]
        if not (opened.teacher and opened.teacher.files.is_export):  # XLA cannot compile it
            num_tokens = min(one.num_train_steps * one.train_batch_size for one in counted) * settings.max_seq_length
            settings = take_jit(settings, num_tokens, opened.files.config, self.strategy.num_replicas_in_sync)
        return dataclasses.replace(self, opened=dataclasses.replace(opened, settings=settings))

    def _execute(self, run_dir: RunDir, workers: Workers, tries: list[dict[str, Any]]) -> Result:
        task, opened, settings = self.task, self.opened, self.opened.settings
        if settings.do_train:
            _claim(run_dir, task, opened, tries, workers)
        else:
            run_dir.create()
        # The chief writes the features, and the others read them.
        workers.chief_first(lambda: task.prepare(run_dir.path))
        if task.eval_features is not None:
            warn_of_trained_data({**values_of(settings), **task.files}, task.texts)
        trained = Trained()
        if settings.do_train:
            if len(tries) == 1:
                trained = self.train(dataclasses.replace(settings, **tries[0]), run_dir)
            elif not try_all(tries, settings, run_dir, task, self.train):
                trained = None
            if trained is None:
                return Result()
            if task.calibration_features is not None:
                trained = self._calibrate(run_dir, trained)
            note_model(run_dir)
            if task.page_examples:
                run_dir.write_text(PAGE_EXAMPLES_FILE, readable_json(task.page_examples))
        workers.wait()  # until the chief has written the whole model
        return self._use_model(run_dir, trained)

    def train(self, settings: FineTuningSettings, run_dir: RunDir) -> Trained | None:
        """Trains or resumes with one value of each setting, and keeps the best or last weights in `model/`.

        Returns None if a signal stopped it.
        """
        task, files = self.task, self.opened.files
        settings = _count_steps(task, settings, self.strategy)
        if settings.pack == "auto":
            is_packed = run_dir.state.decided("pack", lambda: self._is_worth_packing(settings))
            settings = dataclasses.replace(settings, pack=is_packed)

        def keep(step: int, metrics: dict) -> None:
            write_model(run_dir, task, files, network.model, step, metrics)

        selection = Selection(run_dir, task.metric, settings.early_stopping, keep)
        if self._is_finished(settings, run_dir, selection):
            return Trained(selection.best)
        with initial_seed(settings.seed):
            network = self._build(settings, self.opened.teacher)
            if not run_dir.latest_checkpoint():
                load_start(network.model, files, settings.new_head, task.describe().get("labels"))
            self._adapt(network, settings)
        hooks = Hooks(
            run_dir,
            settings,
            len(task.train_features["input_mask"]),
            self.console,
            Workers(self.strategy),
            evaluate=self._evaluator(network, settings) if task.eval_features is not None else None,
            judge=selection,
            eval_metric_names=task.metric_names,
            callbacks=self.callbacks,
        )
        trainer = self._make_trainer(network, settings)
        progress = train(trainer, lambda start: self._batches(network, settings, start), hooks)
        draw_learning_curves(run_dir)
        if not progress.is_whole and not selection.is_over:
            return None
        if progress.step < settings.num_train_steps and selection.is_over:
            log.info(
                Message(
                    "training ends early ({early_stopping}); the model has the weights with the best {}", task.metric
                )
            )
        step, evaluation = progress.step, progress.evaluation
        if hooks.evaluate is None:
            keep(step, {})
        elif not has_model(run_dir):
            step = selection.best_step or step
            self._restore(run_dir, trainer, step, progress.step)
            evaluation = finish(hooks.evaluate(), step)
            keep(step, evaluation.metrics)
        elif evaluation is None or selection.best_step != step:
            step = evaluation = None  # the folder has other weights than the network
        return Trained(selection.best, network, step, evaluation)

    def _is_finished(self, settings: FineTuningSettings, run_dir: RunDir, selection: Selection) -> bool:
        """Returns whether the run has ended and has its model, and logs the reason."""
        if not has_model(run_dir):
            return False
        if selection.is_over:
            reason = f"{settings.early_stopping} evaluations did not improve {self.task.metric}"
        elif end := run_dir.state.end:
            reason = end_in_words(end["step"], settings.num_train_steps, end["reason"])
        else:
            return False
        log.info("nothing to train: %s", reason)
        return True

    def _restore(self, run_dir: RunDir, trainer: Trainer, best: int, step: int) -> None:
        """Restores the weights of the best step of a run that is at `step`, and whose folder `model` is missing."""
        if best != step:
            if not run_dir.has_step(best):
                raise Mistake(
                    "{} is missing, and so is the checkpoint of step {}, which had the best {}; copy one of "
                    "them back, or give another {output_dir}",
                    run_dir.file(MODEL_DIR),
                    best,
                    self.task.metric,
                )
            run_dir.restore(trainer.state, best)
            trainer.swap_averages()
        log.info("%s is missing; it is written again from the checkpoint of step %d", run_dir.file(MODEL_DIR), best)

    def _calibrate(self, run_dir: RunDir, trained: Trained) -> Trained:
        """Divides the head of the run's model by the temperature that fits the examples held out for it best."""
        task, settings = self.task, self.opened.settings
        network, step = trained.network, trained.step
        if is_calibrated(run_dir):
            return trained
        if step is None:
            network, step = self._load_model(run_dir, network)
        evaluate = self._evaluator(network, settings) if task.eval_features is not None else None
        before = trained.evaluation or (last(evaluate()) if evaluate else None)
        inference = self._inference(network, settings, settings.eval_batch_size)
        scale_head(network.model, task.fit_temperature(last(inference.outputs(task.calibration_features))))
        after = finish(evaluate(), step) if evaluate else None
        write_model(run_dir, task, self.opened.files, network.model, step, after.metrics if after else {})
        if before and after:
            task.write_calibration(run_dir, before.outputs or {}, after.outputs or {})
        return Trained(trained.best, network, step, after)

    def _use_model(self, run_dir: RunDir, trained: Trained) -> Result:
        """Evaluates and predicts with the run's model, and writes the results."""
        task, settings = self.task, self.opened.settings
        network, step, evaluation = trained.network, trained.step, trained.evaluation
        if step is None:
            network, step = self._load_model(run_dir, network)
        predictions = shortfall = None
        if task.eval_features is not None:
            evaluation = evaluation or finish(self._evaluator(network, settings)(), step)
            predictions, shortfall = self._write_evaluation(run_dir, step, evaluation)
        if task.predict_features is not None:
            inference = self._inference(network, settings, settings.predict_batch_size)
            with explain_out_of_memory("predict_batch_size"):
                outputs = last(inference.outputs(task.predict_features))
            predictions = task.write_predictions(run_dir, outputs)
        log.info("the run is in %s", run_dir.path)
        if shortfall:
            log.warning(shortfall)
        metrics = evaluation.metrics if evaluation else None
        return Result(metrics, predictions, run_dir.is_writable, is_useful=not shortfall)

    def _write_evaluation(self, run_dir: RunDir, step: int, evaluation: Evaluation) -> tuple[Any, Message | None]:
        """Writes the reports; returns the predictions, see `Task.write_evaluation`, and `Task.shortfall`."""
        task, metrics = self.task, evaluation.metrics
        data = describe_evaluation_data({**values_of(self.opened.settings), **task.files}, task.eval_features)
        warn_of_replaced_reports(run_dir, data)
        baseline = task.baseline  # once: it may be a property that computes the metrics
        if baseline:
            name = task.baseline_name and f" ({task.baseline_name})"
            log.info("baseline%s: %s", name, in_words(baseline))
        shortfall = task.shortfall(metrics, baseline, self.opened.settings)
        results = task.results or {f"eval_{name}": np.float32(value) for name, value in metrics.items()}
        write_eval_results(run_dir, step, results)
        described = {"step": step, "metrics": metrics, "baseline": baseline, "data": data}
        run_dir.write_text(EVALUATION_FILE, json.dumps(described, indent=2) + "\n")
        task.infer = evaluation.infer
        predictions = task.write_evaluation(run_dir, evaluation.outputs or {})
        if run_dir.is_writable and (findings := task.findings(run_dir, evaluation.outputs or {})):
            from bert_keras.tasks.reports.page import write_page  # --help does not need it

            model = run_dir.path if run_dir.in_use() else self.opened.files.folder
            write_page(run_dir, model, task.describe(), described, findings, shortfall)
        return predictions, shortfall

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
        """Returns whether training packs examples without a flag that says so; nobody has measured it on a TPU."""
        is_possible = "pack" not in _without_effect(self.task, self.opened) and not is_tpu(self.strategy)
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
        return network, load_model(network.model, run_dir, self.opened.files.checkpoint)


def _without_effect(task: Task, opened: Opened) -> dict[str, str | Message]:
    """Returns the settings that change nothing in a training run because of its data or its model, with the reasons."""
    settings, num_layers = opened.settings, opened.files.config.num_layers_of_weights
    reasons = dict(task.no_effect)
    if opened.teacher and opened.teacher.cannot_pack:
        reasons.setdefault("pack", opened.teacher.cannot_pack)
    if any("bert/encoder/".startswith(prefix) for prefix in task.frozen):
        reader = Message("{tagger}={}", settings.tagger) if isinstance(settings, NerSettings) else "this task"
        reason = Message("{} leaves the encoder as it is", reader)
        reasons |= dict.fromkeys(("freeze_layers", "layer_decay", "lora_rank", "recompute"), reason)
    elif settings.freeze_layers == num_layers:
        if not task.has_head:
            raise Mistake("{freeze_layers}={} freezes all weights that the loss depends on; give less", num_layers)
        frozen = Message("{freeze_layers}={} freezes all layers", num_layers)
        reasons |= dict.fromkeys(("layer_decay", "lora_rank", "recompute"), frozen)
    if settings.lora_rank:
        reasons["calibrate"] = Message("it changes the weights of the head, which {lora_rank} keeps in another file")
        if settings.freeze_layers == 0:
            reasons["freeze_layers"] = Message("{lora_rank} freezes the embeddings, too")
    if not task.has_head:
        reasons["new_head"] = "this task has no head"
    return reasons


def num_steps_of(num_examples: int, batch_size: int, num_epochs: float) -> int:
    """Returns the number of steps, at least one."""
    if num_steps := int(num_examples / batch_size * num_epochs):
        return num_steps
    raise Mistake(
        "{} examples, {train_batch_size}={} and {num_train_epochs}={} give no training step; give a "
        "smaller batch, more epochs or more examples",
        num_examples,
        batch_size,
        num_epochs,
    )


def _count_steps(task: Task, settings: S, strategy: tf.distribute.Strategy) -> S:
    """Returns the settings with the numbers of steps; checks the batch size."""
    part_of_batch(settings, strategy)
    batch_size, num_epochs = settings.train_batch_size, settings.num_train_epochs
    num_steps = task.num_steps or settings.max_steps or num_steps_of(task.num_train_examples, batch_size, num_epochs)
    num_warmup_steps = int(num_steps * settings.warmup_proportion)
    return dataclasses.replace(settings, num_train_steps=num_steps, num_warmup_steps=num_warmup_steps)


def _claim(run_dir: RunDir, task: Task, opened: Opened, tries: list[dict[str, Any]], workers: Workers) -> None:
    """Claims the run folder. With several tries, compares only the settings that they share."""
    files, values, free = opened.files, values_of(opened.settings), free_settings(opened.settings)
    facts = {
        "bert_config": files.config.to_dict(),
        "vocab_sha256": vocabulary_digest(files.tokenizer.vocab),
        "text_is_lower_cased": files.preparation.do_lower_case,
        "is_one_of_several_tries": len(tries) > 1,
        **task.facts,
    }
    if opened.teacher:
        facts["teacher_sha256"] = opened.teacher.files.digest
    workers.check_same(facts)
    if len(tries) > 1:
        free |= {"learning_rate", "train_batch_size", "num_train_epochs", "seed"}
        # A finished try is not trained again with other values of these.
        free -= {"early_stopping", "eval_steps"}
    else:
        values |= tries[0]
        # Evaluations that choose among the weights of a run must be on the same data.
        if run_dir.is_ended(values) or not run_dir.state.evaluations():
            free |= EVALUATION_FACTS
    run_dir.claim(values, facts, free)
    if len(tries) == 1:
        describe_run(run_dir, task, files)
