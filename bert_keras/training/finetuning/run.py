"""Executes a fine-tuning run: the code that all tasks share. Each task is a `training.finetuning.task.Task`.

The run folder holds the files of every run (`training.run_dir`), the task's reports, the features as record files, and
the model (`training.finetuning.model_dir`).
"""

import json
import logging
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.cli.flags import PRECISIONS
from bert_keras.modeling import layer_of, weights_by_name
from bert_keras.modeling.layers import dtype_policy, initial_seed
from bert_keras.modeling.lora import enable_lora, merge_lora
from bert_keras.storage.vocabulary import vocabulary_digest
from bert_keras.training.distribution.devices import distribute
from bert_keras.training.distribution.tpu import is_tpu
from bert_keras.training.distribution.workers import Workers, open_run_dir
from bert_keras.training.evaluation_pass import Evaluation, Inference, length_step, write_eval_results
from bert_keras.training.failures import explain_large_model, explain_out_of_memory
from bert_keras.training.finetuning.data import (
    EVALUATION_FILE,
    describe_evaluation_data,
    warn_of_replaced_reports,
    warn_of_trained_data,
)
from bert_keras.training.finetuning.model_dir import (
    describe_run,
    has_model,
    load_model,
    load_start,
    note_model,
    write_model,
)
from bert_keras.training.finetuning.sweep import Selection, list_tries, try_all
from bert_keras.training.input.feature_batches import training_batches
from bert_keras.training.input.packed_batches import PackedLoss, packed_training_batches
from bert_keras.training.loop import Hooks, make_trainer, part_of_batch, train
from bert_keras.training.metrics_log import draw_learning_curves, evaluated_steps
from bert_keras.training.report import NO_CALLBACKS, in_words
from bert_keras.training.run_dir import MODEL_DIR
from bert_keras.training.run_settings import EVALUATION_FACTS, check_effects
from bert_keras.training.settings import FREE_SETTINGS

log = logging.getLogger("bert_keras")

# Settings that may differ when a run is resumed. Files may move, because facts compare their contents.
_FREE_SETTINGS = FREE_SETTINGS | {
    *("do_predict", "predict_batch_size", "predict_file", "train_file", "data_dir"),
    *("do_lower_case", "strip_accents"),
    *("early_stopping", "num_train_steps"),
}


def finetune(task, opened, strategy, console, callbacks=NO_CALLBACKS):
    """Trains, evaluates and predicts according to the settings.

    Args:
        task: a `training.finetuning.task.Task`.
        opened: a `training.finetuning.settings.Opened`: the settings, and the model to train or use.
        strategy: the `tf.distribute.Strategy` from `training.distribution.devices.strategy_of`.
        console: a `rich.console.Console`.
        callbacks: a `training.report.Callbacks`.

    Returns:
        dict of the metrics of the model to use; None without an evaluation, or if training was stopped.
    """
    settings, files = opened.settings, opened.files
    check_effects(settings, opened.defaults, opened.given, _facts_of(task, opened))
    workers = Workers(strategy)
    if settings["deterministic"]:
        tf.config.experimental.enable_op_determinism()
    tries = list_tries(settings)
    with open_run_dir(settings["output_dir"], task.program, workers, settings) as run_dir:
        if settings["do_train"]:
            for one in tries:
                _count_steps(task, {**settings, **one}, strategy)
            _claim(run_dir, task, opened, tries, workers)
        else:
            run_dir.create()
        # The chief writes the features, and the others read them.
        workers.chief_first(lambda: task.prepare(run_dir.path))
        if task.eval_features is not None:
            warn_of_trained_data({**settings, **task.files})
        session = _Session(task, files, strategy, workers, console, callbacks, opened.teacher)
        if settings["do_train"]:
            if len(tries) == 1:
                is_whole = session.train({**settings, **tries[0]}, run_dir).is_whole
            else:
                is_whole = try_all(tries, settings, run_dir, task, session.train)
            if not is_whole:
                return None
            note_model(run_dir)
        workers.wait()  # until the chief has written the whole model
        return session.use_model(settings, run_dir)


# The attributes of a task that `training.run_settings.check_effects` reads.
_FACTS = ("kind", "has_labels", "has_head", "cannot_pack", "cannot_smooth")


def _facts_of(task, opened):
    """Returns the facts of `training.run_settings.check_effects`."""
    settings, num_layers = opened.settings, opened.files.config.num_layers_of_weights
    num_frozen = settings["freeze_layers"]
    is_unchanged = any("bert/encoder/".startswith(prefix) for prefix in task.frozen)
    reader = f"--tagger={settings['tagger']}" if "tagger" in settings else "this task"
    facts = {name: getattr(task, name) for name in _FACTS}
    if opened.teacher:
        facts["cannot_pack"] = facts["cannot_pack"] or opened.teacher.cannot_pack
    return {
        "program": task.program,
        **facts,
        "frozen": "none" if num_frozen is None else {num_layers: "all", 0: "embeddings"}.get(num_frozen, "some"),
        "has_lora": settings["lora_rank"] > 0,
        "unchanged_encoder": f"{reader} leaves the encoder as it is" if is_unchanged else "",
    }


def _count_steps(task, settings, strategy):
    """Returns the settings with the numbers of steps; checks the batch size."""
    part_of_batch(settings, strategy)
    batch_size, num_epochs = settings["train_batch_size"], settings["num_train_epochs"]
    num_steps = settings["max_steps"] or int(task.num_train_examples / batch_size * num_epochs)
    if num_steps < 1:
        raise ValueError(
            f"{task.num_train_examples} examples, --train_batch_size={batch_size} and --num_train_epochs={num_epochs} "
            "give no training step; give a smaller batch, more epochs or more examples"
        )
    num_warmup_steps = int(num_steps * settings["warmup_proportion"])
    return {**settings, "num_train_steps": num_steps, "num_warmup_steps": num_warmup_steps}


def _claim(run_dir, task, opened, tries, workers):
    """Claims the run folder. With several tries, compares only the settings that they share."""
    settings, files = opened.settings, opened.files
    facts = {
        "bert_config": files.config.to_dict(),
        "vocab_sha256": vocabulary_digest(files.tokenizer.vocab),
        "text_is_lower_cased": files.preparation.do_lower_case,
        "is_one_of_several_tries": len(tries) > 1,
        **task.facts,
    }
    if opened.teacher:
        facts["teacher_sha256"] = opened.teacher.digest
    workers.check_same(facts)
    free = {*_FREE_SETTINGS, *task.free_settings, "num_seeds"}
    if len(tries) > 1:
        free |= {"learning_rate", "train_batch_size", "num_train_epochs", "seed"}
        # A finished try is not trained again with other values of these.
        free -= {"early_stopping", "eval_steps"}
    else:
        settings = {**settings, **tries[0]}
        # Evaluations that choose among the weights of a run must be on the same data.
        if run_dir.is_ended(settings) or not evaluated_steps(run_dir):
            free |= EVALUATION_FACTS
    run_dir.claim(settings, facts, free)
    if len(tries) == 1:
        describe_run(run_dir, task, files)


class _Session:
    """The state that the tries of a run share: data, devices and the network in memory."""

    def __init__(self, task, files, strategy, workers, console, callbacks, teacher):
        self._task = task
        self._teacher = teacher
        self._files = files
        self._strategy = strategy
        # A TPU needs static shapes, so its batches keep their full length.
        self._is_trimmed = task.is_trimmed and not is_tpu(strategy)
        self._workers = workers
        self._console = console
        self._callbacks = callbacks
        self._network: Any = None
        self._outputs = None
        # Folder and step of the last saved weights, while they are still in memory.
        self._saved = None

    def train(self, settings, run_dir):
        """Trains or resumes with one value of each setting, and keeps the best or last weights in `model/`.

        Returns the Selection; its `is_whole` tells whether training finished.
        """
        task = self._task
        settings = _count_steps(task, settings, self._strategy)
        selection = Selection(
            run_dir,
            task.metric,
            settings["early_stopping"],
            lambda step, metrics: self._save_model(run_dir, step, metrics),
        )
        if self._is_finished(settings, run_dir, selection):
            selection.is_whole = True
            return selection
        with initial_seed(settings["seed"]):
            self._build(settings)
            if not run_dir.latest_checkpoint():
                labels = task.describe().get("labels")
                load_start(self._network.model, self._files.checkpoint, settings["new_head"], labels)
            self._adapt(settings)
        hooks = Hooks(
            run_dir,
            settings,
            len(task.train_features["input_mask"]),
            self._console,
            self._workers,
            evaluate=self._evaluator(settings) if task.eval_features is not None else None,
            judge=selection,
            eval_metric_names=task.metric_names,
            callbacks=self._callbacks,
        )
        trainer = self._make_trainer(settings)
        progress = train(trainer, lambda start: self._batches(settings, start), hooks)
        step = progress.step
        if progress.evaluation:
            self._outputs = progress.evaluation.outputs
        selection.is_whole = progress.is_whole or selection.is_over
        if step < settings["num_train_steps"] and selection.is_over:
            log.info("training ends early (--early_stopping); the model has the weights with the best %s", task.metric)
        if selection.is_whole and hooks.evaluate is None:
            self._save_model(run_dir, step, {})
        elif selection.is_whole and not has_model(run_dir):
            self._write_model_again(run_dir, trainer, step, selection.best_step or step, hooks.evaluate)
        if self._saved != (run_dir.path, step):
            self._saved = None
        draw_learning_curves(run_dir)
        return selection

    def _is_finished(self, settings, run_dir, selection):
        """Returns whether the run has ended and has its model, and logs the reason."""
        end = run_dir.end
        if not (end or selection.is_over) or not has_model(run_dir):
            return False
        if selection.is_over:
            reason = f"{settings['early_stopping']} evaluations did not improve {self._task.metric}"
        else:
            steps = f"step {end['step']} of {settings['num_train_steps']}"
            is_whole = end["step"] >= settings["num_train_steps"]
            reason = f"{steps} is reached" if is_whole else f"the run has ended at {steps} ({end['reason']})"
        log.info("nothing to train: %s", reason)
        return True

    def _write_model_again(self, run_dir, trainer, step, best, evaluate):
        """Writes the folder `model` of a finished run, which someone removed, from the checkpoint of its best step."""
        if best != step:
            if not run_dir.has_step(best):
                raise ValueError(
                    f"{run_dir.file(MODEL_DIR)} is missing, and so is the checkpoint of step {best}, which had the "
                    f"best {self._task.metric}; copy one of them back, or give another --output_dir"
                )
            run_dir.restore(trainer.state, best)
            trainer.swap_averages()
        log.info("%s is missing; it is written again from the checkpoint of step %d", run_dir.file(MODEL_DIR), best)
        *_, evaluation = evaluate()
        self._outputs = evaluation.outputs
        self._save_model(run_dir, best, evaluation.metrics)

    def use_model(self, settings, run_dir):
        """Evaluates and predicts with the run's model, and writes the results. Returns the metrics or None."""
        task = self._task
        step = self._load_model(settings, run_dir)
        metrics = None
        if task.eval_features is not None:
            metrics = self._write_evaluation(settings, run_dir, step)
        if task.predict_features is not None:
            inference = self._inference(settings, settings["predict_batch_size"])
            with explain_out_of_memory("predict_batch_size"):
                outputs = inference.outputs(task.predict_features)
            task.write_predictions(run_dir, outputs)
        if settings["do_predict"] and self._callbacks.on_predictions:
            self._callbacks.on_predictions()
        log.info("the run is in %s", run_dir.path)
        return metrics

    def _write_evaluation(self, settings, run_dir, step):
        task = self._task
        data = describe_evaluation_data({**settings, **task.files}, task.eval_features)
        warn_of_replaced_reports(run_dir, data)
        is_known = self._saved is not None and self._outputs is not None
        if is_known:
            metrics = task.evaluate(self._outputs)
        else:
            *_, evaluation = self._evaluator(settings)()
            metrics, self._outputs = evaluation.metrics, evaluation.outputs
            log.info("evaluation of step %d: %s", step, in_words(metrics))
        baseline = task.baseline  # once: it may be a property that computes the metrics
        if baseline:
            name = task.baseline_name and f" ({task.baseline_name})"
            log.info("baseline%s: %s", name, in_words(baseline))
        results = task.results or {f"eval_{name}": np.float32(value) for name, value in metrics.items()}
        write_eval_results(run_dir, step, results)
        evaluation = {"step": step, "metrics": metrics, "baseline": baseline, "data": data}
        run_dir.write_text(EVALUATION_FILE, json.dumps(evaluation, indent=2) + "\n")
        task.write_evaluation(run_dir, self._outputs)
        return metrics

    @explain_large_model()
    def _build(self, settings):
        task = self._task
        with self._strategy.scope(), dtype_policy(PRECISIONS[settings["precision"]]):
            self._network = task.make_network(self._files.config)
            if self._teacher:
                has_label_weights = "label_weights" in task.train_features
                self._network = self._teacher.teach(
                    self._network, task.make_network, task.has_labels, has_label_weights
                )
        self._network.model.bert.is_recomputed = settings["recompute"]
        self._network.label_smoothing = settings["label_smoothing"]

    def _adapt(self, settings):
        if not settings["lora_rank"]:
            return
        model, targets = self._network.model, settings["lora_targets"].split(",")
        with self._strategy.scope():
            enable_lora(model, settings["lora_rank"], settings["lora_alpha"], targets)
        log.info("LoRA of rank %d on %s", settings["lora_rank"], ", ".join(targets))

    def _make_trainer(self, settings):
        weights = {**weights_by_name(self._network.model), **self._network.own_weights}
        trained = {name for name, weight in weights.items() if weight.trainable}
        num_layers = self._files.config.num_layers_of_weights
        decay, num_frozen = settings["layer_decay"], settings["freeze_layers"]

        def rate_factor(name):
            return decay ** (num_layers + 1 - layer_of(name, num_layers))

        def is_trained(name):
            is_frozen = num_frozen is not None and layer_of(name, num_layers) <= num_frozen
            return name in trained and not is_frozen and not name.startswith(self._task.frozen)

        network = PackedLoss(self._network) if settings.get("pack") else self._network
        return make_trainer(network, self._strategy, settings, None if decay == 1.0 else rate_factor, is_trained)

    def _batches(self, settings, start_step):
        features = {name: self._task.train_features[name] for name in self._network.feature_names}
        if settings.get("pack"):
            is_fixed = is_tpu(self._strategy) or settings["jit"]
            num_devices = self._strategy.num_replicas_in_sync
            batches = packed_training_batches(features, settings, num_devices, start_step, self._is_trimmed, is_fixed)
        else:
            step = length_step(features["input_ids"].shape[-1], settings["jit"])
            batch_size, seed = settings["train_batch_size"], settings["seed"]
            batches = training_batches(features, batch_size, seed, start_step, self._is_trimmed, step)
        return distribute(self._strategy, batches, is_endless=True)

    def _inference(self, settings, batch_size):
        return Inference(self._network.model, self._strategy, batch_size, self._is_trimmed, settings["jit"])

    def _evaluator(self, settings):
        flag = "eval_batch_size" if "eval_batch_size" in settings else "predict_batch_size"
        inference = self._inference(settings, settings[flag])

        def evaluate():
            with explain_out_of_memory(flag):
                for outputs in inference.pass_over(self._task.eval_features):
                    yield outputs and Evaluation(self._task.evaluate(outputs), outputs)

        return evaluate

    def _save_model(self, run_dir, step, metrics):
        write_model(run_dir, self._task, self._files, self._network.model, step, metrics)
        self._saved = (run_dir.path, step)

    def _load_model(self, settings, run_dir):
        """Loads the weights to use unless they are in memory; returns their step."""
        if self._saved is not None and self._saved[0] == run_dir.path:
            return self._saved[1]
        self._saved = None
        with initial_seed(settings["seed"]):
            if not self._network:
                self._build(settings)
            merge_lora(self._network.model)  # as in the folder model
            if run_dir.in_use() is run_dir:
                self._adapt(settings)
        return load_model(self._network.model, run_dir, self._files.checkpoint)
