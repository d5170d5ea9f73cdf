"""Executes a fine-tuning run: the code that all tasks share. Each task is a `training.finetuning.task.FineTuning`.

The run folder holds the files of every run (`training.run_dir`), the task's reports, the features as record files, and
the model (`training.finetuning.model_dir`).
"""

import json
import logging

import keras
import tensorflow as tf

from bert_keras.cli.flags import PRECISIONS
from bert_keras.data_prep.pretraining.build import vocabulary_digest
from bert_keras.modeling import layer_of
from bert_keras.modeling.layers import dtype_policy
from bert_keras.training.distribution.tpu import is_tpu
from bert_keras.training.distribution.workers import Workers, open_run_dir
from bert_keras.training.evaluation_pass import Inference, length_step
from bert_keras.training.finetuning.data import (
    EVALUATION_FILE,
    describe_evaluation_data,
    warn_of_replaced_reports,
    warn_of_trained_data,
)
from bert_keras.training.finetuning.model_dir import load_model, load_start, note_model, write_model
from bert_keras.training.finetuning.packed_task import PackedTask, packed_training_batches
from bert_keras.training.finetuning.selection import Selection
from bert_keras.training.finetuning.sweep import list_tries, try_all
from bert_keras.training.input.feature_batches import training_batches
from bert_keras.training.metrics_log import draw_learning_curves
from bert_keras.training.report import in_words
from bert_keras.training.run import (
    FREE_SETTINGS,
    make_trainer,
    part_of_batch,
    told_out_of_memory,
    train_task,
    write_eval_results,
)

log = logging.getLogger("bert_keras")

# Settings that may differ when a run is resumed. Files may move, because facts compare their contents.
_FREE_SETTINGS = FREE_SETTINGS | {
    *("do_predict", "predict_batch_size", "predict_file", "train_file", "data_dir", "do_lower_case"),
    *("early_stopping", "num_train_steps"),
}

# Values of settings that runs of earlier versions lack.
_EARLIER_SETTINGS = {"has_header": "auto"}


def fine_tune(work, files, settings, strategy, console):
    """Trains, evaluates and predicts according to the settings.

    Args:
        work: a `training.finetuning.task.FineTuning`.
        files: a `prediction.loading.model_files.ModelFiles` of the model to train, evaluate or predict with.
        settings: dict of flag values by name.
        strategy: the `tf.distribute.Strategy` from `training.distribution.devices.strategy_of`.
        console: a `rich.console.Console`.

    Returns:
        dict of the metrics of the model to use; None without an evaluation, or if training was stopped.

    Raises:
        ValueError: settings contradict each other, or the folder holds another run.
    """
    if settings.get("pack") and work.cannot_pack:
        raise ValueError(f"--pack puts several examples into a row, but {work.cannot_pack}; leave it out")
    workers = Workers(strategy)
    if settings["deterministic"]:
        tf.config.experimental.enable_op_determinism()
    tries = list_tries(settings)
    with open_run_dir(settings["output_dir"], work.program, workers, settings) as run_dir:
        if settings["do_train"]:
            for one in tries:
                _steps(work, {**settings, **one}, strategy)
            _claim(run_dir, work, files, settings, tries, workers)
        else:
            run_dir.create()
        # The chief writes the features, and the others read them.
        workers.chief_first(lambda: work.prepare(run_dir.path))
        if work.eval_features is not None:
            warn_of_trained_data({**settings, **work.files})
        runner = _Runner(work, files, strategy, workers, console)
        if settings["do_train"]:
            if len(tries) == 1:
                is_whole = runner.train({**settings, **tries[0]}, run_dir).is_whole
            else:
                is_whole = try_all(tries, settings, run_dir, work, runner.train)
            if not is_whole:
                return None
            note_model(run_dir)
        return runner.use_model(settings, run_dir)


def _steps(work, settings, strategy):
    """Returns the settings with the numbers of steps; checks the batch size."""
    part_of_batch(settings, strategy)
    batch_size, num_epochs = settings["train_batch_size"], settings["num_train_epochs"]
    num_steps = int(work.num_train_examples / batch_size * num_epochs)
    if num_steps < 1:
        raise ValueError(
            f"{work.num_train_examples} examples, --train_batch_size={batch_size} and --num_train_epochs={num_epochs} "
            "give no training step; give a smaller batch, more epochs or more examples"
        )
    num_warmup_steps = int(num_steps * settings["warmup_proportion"])
    return {**settings, "num_train_steps": num_steps, "num_warmup_steps": num_warmup_steps}


def _claim(run_dir, work, files, settings, tries, workers):
    """Claims the run folder. With several tries, compares only the settings that they share."""
    facts = {
        "bert_config": files.config.to_dict(),
        "vocab_sha256": vocabulary_digest(files.tokenizer.vocab),
        "text_is_lower_cased": files.preparation.do_lower_case,
        "is_one_of_several_tries": len(tries) > 1,
        **work.facts(),
    }
    workers.check_same(facts)
    free = {*_FREE_SETTINGS, *work.free_settings, "num_seeds"}
    if len(tries) > 1:
        free |= {"learning_rate", "train_batch_size", "num_train_epochs", "seed"}
        # A finished try is not trained again with other values of these.
        free -= {"early_stopping", "eval_steps"}
    else:
        settings = {**settings, **tries[0]}
    run_dir.claim(
        settings, facts, {name: _EARLIER_SETTINGS[name] for name in _EARLIER_SETTINGS if name in settings}, free
    )


class _Runner:
    """The state that the tries of a run share: data, devices and the network in memory."""

    def __init__(self, work, files, strategy, workers, console):
        self._work = work
        self._files = files
        self._strategy = strategy
        # A TPU needs static shapes, so its batches keep their full length.
        self._is_trimmed = work.is_trimmed and not is_tpu(strategy)
        self._workers = workers
        self._console = console
        self._task = None
        self._outputs = None
        # Folder and step of the last saved weights, while they are still in memory.
        self._saved = None

    def train(self, settings, run_dir):
        """Trains or resumes with one value of each setting, and keeps the best or last weights in `model/`.

        Returns:
            Selection; `is_whole` tells whether training finished.
        """
        work = self._work
        settings = _steps(work, settings, self._strategy)
        keras.utils.set_random_seed(settings["seed"])
        self._build(settings)
        if not run_dir.latest_checkpoint():
            labels = work.describe().get("labels")
            load_start(self._task.model, self._files.checkpoint, settings["new_head"], labels)
        selection = Selection(
            run_dir,
            work.metric,
            settings["early_stopping"],
            lambda step, metrics: self._save_model(run_dir, step, metrics),
        )
        evaluate = self._evaluator(settings) if work.eval_features is not None else None
        if selection.is_over:
            log.info("nothing to train: %d evaluations did not improve %s", settings["early_stopping"], work.metric)
            selection.is_whole = True
            return selection
        trainer = make_trainer(
            PackedTask(self._task) if settings.get("pack") else self._task,
            self._strategy,
            settings,
            _rate_factor(settings["layer_decay"], self._files.config.num_hidden_layers),
            lambda name: self._is_trained(name, settings["freeze_layers"]),
        )
        step, metrics, is_whole = train_task(
            trainer,
            run_dir,
            settings,
            lambda start: self._batches(settings, start),
            len(work.train_features["input_mask"]),
            self._console,
            evaluate,
            judge=selection,
            eval_metric_names=work.metric_names,
            workers=self._workers,
        )
        selection.is_whole = is_whole or selection.is_over
        if selection.is_whole and evaluate is None:
            self._save_model(run_dir, step, {})
        if self._saved != (run_dir.path, step):
            self._saved = None
        draw_learning_curves(run_dir)
        return selection

    def use_model(self, settings, run_dir):
        """Evaluates and predicts with the run's model, and writes the results."""
        work = self._work
        self._workers.wait()  # until the chief has written the whole model
        step = self._load_model(settings, run_dir)
        metrics = None
        if work.eval_features is not None:
            data = describe_evaluation_data({**settings, **work.files}, work.eval_features)
            warn_of_replaced_reports(run_dir, data)
            is_known = self._saved is not None and self._outputs is not None
            metrics = work.evaluate(self._outputs) if is_known else self._evaluator(settings)()
            baseline = work.baseline()
            if not is_known:
                log.info("evaluation of step %d: %s", step, in_words(metrics))
            log.info("baseline%s: %s", work.baseline_name and f" ({work.baseline_name})", in_words(baseline))
            write_eval_results(run_dir, step, work.results(metrics))
            figures = {"step": step, "metrics": metrics, "baseline": baseline, "data": data}
            run_dir.write_text(EVALUATION_FILE, json.dumps(figures, indent=2) + "\n")
            work.write_evaluation(run_dir, self._outputs)
        if work.predict_features is not None:
            inference = self._inference(settings, settings["predict_batch_size"])
            with told_out_of_memory("predict_batch_size"):
                outputs = inference.outputs(work.predict_features)
            work.write_predictions(run_dir, outputs)
        log.info("the run is in %s", run_dir.path)
        return metrics

    def _build(self, settings):
        with self._strategy.scope(), dtype_policy(PRECISIONS[settings["precision"]]):
            self._task = self._work.make_task(self._files.config)
        self._task.model.bert.is_recomputed = settings["recompute"]

    def _batches(self, settings, start_step):
        features = {name: self._work.train_features[name] for name in self._task.feature_names}
        if settings.get("pack"):
            is_fixed = is_tpu(self._strategy) or settings["jit"]
            num_devices = self._strategy.num_replicas_in_sync
            return packed_training_batches(features, settings, num_devices, start_step, self._is_trimmed, is_fixed)
        return training_batches(
            *(features, settings["train_batch_size"], settings["seed"], start_step, self._is_trimmed),
            length_step(features["input_ids"].shape[-1], settings["jit"]),
        )

    def _inference(self, settings, batch_size):
        return Inference(self._task.model, self._strategy, batch_size, self._is_trimmed, settings["jit"])

    def _evaluator(self, settings):
        flag = "eval_batch_size" if "eval_batch_size" in settings else "predict_batch_size"
        inference = self._inference(settings, settings[flag])

        def evaluate(before_batch=lambda: None):
            with told_out_of_memory(flag):
                self._outputs = inference.outputs(self._work.eval_features, before_batch)
            return self._work.evaluate(self._outputs)

        return evaluate

    def _is_trained(self, name, num_frozen_layers):
        if num_frozen_layers is not None and layer_of(name, self._files.config.num_hidden_layers) <= num_frozen_layers:
            return False
        return self._work.is_trained(name)

    def _save_model(self, run_dir, step, metrics):
        write_model(run_dir, self._work, self._files, self._task.model, step, metrics)
        self._saved = (run_dir.path, step)

    def _load_model(self, settings, run_dir):
        """Loads the weights to use unless they are in memory; returns their step."""
        if self._saved is not None and self._saved[0] == run_dir.path:
            return self._saved[1]
        self._saved = None
        if self._task is None:
            self._build(settings)
        return load_model(self._task.model, run_dir, self._files.checkpoint)


def _rate_factor(decay, num_hidden_layers):
    if decay == 1.0:
        return None
    return lambda name: decay ** (num_hidden_layers + 1 - layer_of(name, num_hidden_layers))
