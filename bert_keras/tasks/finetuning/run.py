"""Executes a fine-tuning run: the code that all tasks share.

The run folder holds the files of every run (`runs.run_dir`), the task's reports, the features as record files, and
the model (`tasks.finetuning.model_dir`).
"""

import dataclasses
import json
import logging
from typing import Any, Self

import numpy as np
import rich.console
import tensorflow as tf

from bert_keras.engine.distribution.workers import Workers, open_run_dir
from bert_keras.engine.evaluation_pass import Evaluation, finish, last, write_eval_results
from bert_keras.engine.failures import explain_out_of_memory
from bert_keras.engine.loop import Hooks, end_in_words, train
from bert_keras.engine.precision import take_jit
from bert_keras.engine.report import NO_CALLBACKS, Callbacks, Result, in_words
from bert_keras.engine.step import Trainer
from bert_keras.mistakes import Message, Mistake
from bert_keras.model_folder.run_files import PAGE_EXAMPLES_FILE
from bert_keras.modeling.layers import initial_seed
from bert_keras.runs.metrics_log import draw_learning_curves
from bert_keras.runs.run_dir import MODEL_DIR, RunDir
from bert_keras.runs.same_run import EVALUATION_FACTS
from bert_keras.settings.effects import refuse
from bert_keras.settings.groups import FineTuningSettings, free_settings, values_of
from bert_keras.storage.json_files import readable_json
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
    load_start,
    note_model,
    scale_head,
    write_model,
)
from bert_keras.tasks.finetuning.networks import Networks
from bert_keras.tasks.finetuning.opening import Opened, count_steps, without_effect
from bert_keras.tasks.finetuning.sweep import Selection, list_tries, try_all
from bert_keras.tasks.finetuning.task import Task

log = logging.getLogger("bert_keras")


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
class FineTuning(Networks):
    """A fine-tuning run: a task, its settings and the model to start from; `strategy` is that of `strategy_of`."""

    console: rich.console.Console
    callbacks: Callbacks = NO_CALLBACKS

    def execute(self) -> Result:
        """Returns the metrics and the predictions of the model to use; neither if a signal stopped training."""
        task, opened, settings = self.task, self.opened, self.opened.settings
        if settings.do_train:
            refuse(settings, without_effect(task, opened))
        workers, tries = Workers(self.strategy), list_tries(settings)
        if settings.deterministic:
            tf.config.experimental.enable_op_determinism()
        with open_run_dir(settings.output_dir, task.program, workers, values_of(settings)) as run_dir:
            run = self
            if settings.do_train:
                run = self._decided(tries)
                _claim(run_dir, task, run.opened, tries, workers)
            else:
                run_dir.create()
            # The chief writes the features, and the others read them.
            workers.chief_first(lambda: task.prepare(run_dir.path))
            if task.eval_features is not None:
                warn_of_trained_data({**values_of(settings), **task.files}, task.texts)
            trained = Trained()
            if settings.do_train:
                settings = run.opened.settings
                if len(tries) == 1:
                    trained = run.train(dataclasses.replace(settings, **tries[0]), run_dir)
                elif not try_all(tries, settings, run_dir, task, run.train):
                    trained = None
                if trained is None:
                    return Result()
                if task.calibration_features is not None:
                    trained = run._calibrate(run_dir, trained)
                note_model(run_dir)
                if task.page_examples:
                    run_dir.write_text(PAGE_EXAMPLES_FILE, readable_json(task.page_examples))
            workers.wait()  # until the chief has written the whole model
            return run._use_model(run_dir, trained)

    def _decided(self, tries: list[dict[str, Any]]) -> Self:
        """Returns the run with a choice for {jit}=auto; checks the batch sizes."""
        opened, settings = self.opened, self.opened.settings
        counted = [count_steps(self.task, dataclasses.replace(settings, **one), self.strategy) for one in tries]
        if not (opened.teacher and opened.teacher.files.is_export):  # XLA cannot compile it
            num_tokens = min(one.num_train_steps * one.train_batch_size for one in counted) * settings.max_seq_length
            settings = take_jit(settings, num_tokens, opened.files.config, self.strategy.num_replicas_in_sync)
        return dataclasses.replace(self, opened=dataclasses.replace(opened, settings=settings))

    def train(self, settings: FineTuningSettings, run_dir: RunDir) -> Trained | None:
        """Trains or resumes with one value of each setting, and keeps the best or last weights in `model/`.

        Returns None if a signal stopped it.
        """
        task, files = self.task, self.opened.files
        settings = count_steps(task, settings, self.strategy)
        if settings.pack == "auto":
            is_packed = run_dir.state.decided("pack", lambda: self._is_worth_packing(settings))
            settings = dataclasses.replace(settings, pack=is_packed)

        def keep(step: int, metrics: dict) -> None:
            write_model(run_dir, task, settings, files, network.model, step, metrics)

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
        elif end := run_dir.state["end"]:
            reason = end_in_words(end["step"], settings.num_train_steps, end["reason"])
        else:
            return False
        log.info("nothing to train: %s", reason)
        return True

    def _restore(self, run_dir: RunDir, trainer: Trainer, best: int, step: int) -> None:
        """Restores the weights of the best step of a run that is at `step`, and whose folder `model` is missing."""
        if best != step:
            if best not in run_dir.undamaged_steps():
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
        write_model(run_dir, task, settings, self.opened.files, network.model, step, after.metrics if after else {})
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


def _claim(run_dir: RunDir, task: Task, opened: Opened, tries: list[dict[str, Any]], workers: Workers) -> None:
    """Claims the run folder. With several tries, compares only the settings that they share."""
    files, values, free = opened.files, values_of(opened.settings), free_settings(opened.settings)
    facts = {
        "bert_config": files.config.to_dict(),
        "tokenizer": files.tokenizer.facts,
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
        describe_run(run_dir, task, opened.settings, files)
