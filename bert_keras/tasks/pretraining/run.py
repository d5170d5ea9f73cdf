"""Executes a pre-training run: builds the network, trains, evaluates."""

import dataclasses
import logging
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import rich.console
import tensorflow as tf

from bert_keras.data_prep.records.reading import PretrainingRecords
from bert_keras.data_prep.text.splitting import LONGEST_WORD_TO_SPLIT
from bert_keras.engine.distribution.devices import distribute, part_of_batch, strategy_of
from bert_keras.engine.distribution.workers import Workers, open_run_dir
from bert_keras.engine.evaluation_pass import Evaluation, Evaluator, finish, write_eval_results
from bert_keras.engine.failures import explain_out_of_memory, explain_records
from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.input.packed_batches import pack_examples
from bert_keras.engine.input.pretraining_batches import (
    as_written,
    evaluation_batches,
    next_token_targets,
    seeded_batches,
    span_boundaries,
    training_batches,
)
from bert_keras.engine.loop import Hooks, Progress, train
from bert_keras.engine.precision import take_jit
from bert_keras.engine.report import NO_CALLBACKS, Callbacks, Result
from bert_keras.engine.trainer import make_trainer
from bert_keras.mistakes import Message, Mistake, several
from bert_keras.model_folder.preparation import Preparation
from bert_keras.modeling import (
    BertConfig,
    IncompleteMatchError,
    PretrainingLoss,
    PretrainingModel,
    ReplacedTokenLoss,
    ReplacedTokenModel,
    SpanBoundaryLoss,
    SpanBoundaryModel,
    load_weights,
    open_checkpoint,
    weights_by_name,
)
from bert_keras.modeling.checkpoints.files import Checkpoint
from bert_keras.modeling.checkpoints.names import SENTENCE_PATTERNS
from bert_keras.modeling.layers import initial_seed
from bert_keras.modeling.losses import Loss
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.runs.metrics_log import draw_learning_curves
from bert_keras.runs.run_dir import ALL_STEPS, RunDir
from bert_keras.settings.devices import PRECISIONS
from bert_keras.settings.effects import refuse
from bert_keras.settings.groups import free_settings, values_of
from bert_keras.storage import paths
from bert_keras.storage.tokenizer.vocabulary import TOKENIZER_CONFIG, VOCAB_FILE, vocabulary_bytes
from bert_keras.tasks.pretraining.input import longest_learned, read_input, vocabulary_file
from bert_keras.tasks.pretraining.settings import PretrainingSettings

if TYPE_CHECKING:
    from bert_keras.tasks.pretraining.teacher import PretrainingTeacher

log = logging.getLogger("bert_keras")

_PROGRAM = "run_pretraining"  # in run_config.json


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """A pre-training run."""

    settings: PretrainingSettings
    console: rich.console.Console
    callbacks: Callbacks = NO_CALLBACKS

    def execute(self) -> Result:
        """Returns the metrics of the evaluation; none without one, or if a signal stopped training."""
        settings = self.settings
        if not settings.do_train and not settings.do_eval:
            raise Mistake("nothing to do: give {do_train}, {do_eval} or both")
        if settings.do_train and not 0 < settings.learning_rate < math.inf:
            raise Mistake("{learning_rate}={:g} is not a number above 0", settings.learning_rate)
        strategy = strategy_of(settings)
        workers = Workers(strategy)
        with open_run_dir(settings.output_dir, _PROGRAM, workers, values_of(settings)) as run_dir:
            checkpoint = _checkpoint_to_start_from(settings, run_dir)
            config, records, eval_records = read_input(settings, checkpoint)
            if not records.has_sentence_task:
                refuse(settings, {"next_sentence_loss_weight": "the records have no sentence task"})
            if settings.deterministic:
                tf.config.experimental.enable_op_determinism()
            teacher = vocab_file = None
            if settings.do_train:
                vocab_file = vocabulary_file(settings, records)
                part_of_batch(settings, strategy)
                if settings.teacher:
                    from bert_keras.tasks.pretraining.teacher import PretrainingTeacher

                    teacher = PretrainingTeacher(settings, config, vocab_file)
                num_tokens = settings.num_train_steps * settings.train_batch_size * settings.max_seq_length
                if not settings.pack:  # a batch of packed rows may have any number of rows
                    num_devices = strategy.num_replicas_in_sync
                    settings = take_jit(settings, num_tokens, config, num_devices, has_one_shape=True)
            opened = _Opened(settings, strategy, config, records, eval_records)
            if settings.do_train:
                opened.claim(run_dir, workers, teacher, vocab_file)
            with initial_seed(settings.seed):
                loss = taught = opened.build(checkpoint)
                if teacher:
                    with strategy.scope(), dtype_policy(PRECISIONS[settings.precision]):
                        taught = teacher.teach(loss)
            evaluate = opened.evaluation(loss) if settings.do_eval else None
            progress = Progress(run_dir.latest_step(), ALL_STEPS)
            if settings.do_train:
                hooks = Hooks(
                    run_dir, settings, records.total_examples, self.console, workers, evaluate, callbacks=self.callbacks
                )
                trainer = make_trainer(taught, strategy, settings)
                with explain_records(records):
                    progress = train(trainer, opened.batches, hooks)
                draw_learning_curves(run_dir)
            metrics = None
            if evaluate and progress.is_whole:
                metrics = (progress.evaluation or finish(evaluate(), progress.step)).metrics
                write_eval_results(run_dir, progress.step, {name: np.float32(metrics[name]) for name in metrics})
            log.info("the run is in %s", run_dir.path)
            return Result(metrics, is_complete=progress.is_whole and run_dir.is_writable)


def _checkpoint_to_start_from(settings: PretrainingSettings, run_dir: RunDir) -> Checkpoint | None:
    """Opens the checkpoint to start from. As in the original BERT, the run's newest one has priority."""
    if newest := run_dir.latest_checkpoint():
        if settings.init_checkpoint:
            log.info(Message("{} goes before {init_checkpoint}", newest))
        # Training restores this checkpoint itself, with the optimizer's state.
        return None if settings.do_train else open_checkpoint(newest)
    if settings.init_checkpoint:
        return open_checkpoint(settings.init_checkpoint)
    if not settings.do_train:
        raise Mistake(
            "nothing to evaluate: {output_dir}={} holds no checkpoint; train first, or give {init_checkpoint}",
            run_dir.path,
        )
    return None


@dataclasses.dataclass(frozen=True)
class _Opened:
    """The parts of a run; `eval_records` is None without a file to evaluate on."""

    settings: PretrainingSettings
    strategy: tf.distribute.Strategy
    config: BertConfig
    records: PretrainingRecords
    eval_records: PretrainingRecords | None

    def build(self, checkpoint: Checkpoint | None) -> Loss:
        """Returns the network with its losses; its weights are random, or from the checkpoint if there is one."""
        settings, config = self.settings, self.config
        with self.strategy.scope(), dtype_policy(PRECISIONS[settings.precision]):
            loss = self._make_loss()
        loss.model.bert.is_recomputed = settings.recompute
        if config.is_decoder:
            log.info(
                "is_decoder in the config: the model reads left to right and learns the next tokens, without masks"
            )
        num_weights = sum(math.prod(weight.shape) for weight in loss.model.weights)
        log.info(
            "model: %s, width %d, %s weights",
            several(config.num_hidden_layers, "layers"),
            config.hidden_size,
            f"{num_weights:,}",
        )
        if checkpoint is None:
            return loss
        try:
            weights = {**weights_by_name(loss.model), **loss.own_weights}
            new_allowed = () if self.records.has_sentence_task else SENTENCE_PATTERNS
            report = load_weights(weights, checkpoint, settings.allow_partial_checkpoint, new_allowed)
        except IncompleteMatchError as error:
            raise Mistake(
                "{}, or give {allow_partial_checkpoint} to initialize missing weights at random and ignore "
                "unknown ones",
                error,
            ) from None
        log.info("%s", report)
        return loss

    def _make_loss(self) -> Loss:
        """Returns the new network of the objective with its losses."""
        settings, config = self.settings, self.config
        weight = settings.masked_lm_loss_weight
        if settings.objective == "electra":
            sizes = settings.generator_size, weight, settings.replaced_token_loss_weight
            loss = ReplacedTokenLoss(ReplacedTokenModel(config), *sizes)
            loss.generator.bert.is_recomputed = settings.recompute
            return loss
        if settings.objective == "span_boundary":
            return SpanBoundaryLoss(SpanBoundaryModel(config), weight)
        sentence_weight = settings.next_sentence_loss_weight
        return PretrainingLoss(PretrainingModel(config), self.records.has_sentence_task, weight, sentence_weight)

    def _with_labels(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Returns batches with the labels that the objective and the direction of reading need."""
        if not self.config.is_decoder and self.settings.objective != "span_boundary":
            return batches
        add_labels = next_token_targets if self.config.is_decoder else span_boundaries
        return batches.map(as_written(add_labels), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def batches(self, start_step: int) -> Iterable[dict[str, Any]]:
        """Returns the batches to train on, from that of `start_step` on."""
        settings, strategy = self.settings, self.strategy
        batches = training_batches(self.records, settings.train_batch_size, settings.seed, start_step)
        batches = self._with_labels(batches)
        if settings.objective == "electra":
            batches = seeded_batches(batches, settings.seed, start_step)
        if settings.pack:
            # A run that resumes does not read its data up to `start_step` to measure a few batches.
            measured = training_batches(self.records, settings.train_batch_size, settings.seed)
            batches = pack_examples(batches, measured, settings, strategy.num_replicas_in_sync)
        else:
            batches = in_parts(batches, strategy.num_replicas_in_sync * settings.gradient_accumulation_steps)
        return distribute(strategy, batches, is_endless=True)

    def evaluation(self, loss: Loss) -> Callable[[], Iterator[Evaluation | None]]:
        """Returns a function that starts an evaluation of the model of a loss."""
        settings, records, eval_records = self.settings, self.records, self.eval_records
        batch_size, max_steps = settings.eval_batch_size, settings.max_eval_steps
        if eval_records is None:
            log.warning(
                Message("no {eval_file}: evaluating on the training records ({input_file}), as the original BERT does")
            )
            batches = evaluation_batches(records, batch_size, max_steps)
        else:
            batches = evaluation_batches(eval_records, batch_size).take(max_steps)
            seen = min(eval_records.total_examples, max_steps * batch_size)
            log.info(Message("evaluation: {} of the {} examples of {eval_file}", seen, eval_records.total_examples))
        batches = self._with_labels(batches)
        evaluator = Evaluator(loss, self.strategy, settings.jit is True)

        def evaluate() -> Iterator[Evaluation | None]:
            with explain_records(eval_records or records), explain_out_of_memory("eval_batch_size"):
                yield from evaluator.evaluate(distribute(self.strategy, batches))

        return evaluate

    def claim(
        self, run_dir: RunDir, workers: Workers, teacher: "PretrainingTeacher | None", vocab_file: str | None
    ) -> None:
        """Claims the run folder, and writes the files into it that users of the weights need."""
        settings, config, records = self.settings, self.config, self.records
        # The files may move, but their order decides that of the examples.
        names = (f"file {number} ({paths.name(file)})" for number, file in enumerate(records.files, 1))
        facts = {"bert_config": config.to_dict(), "num_examples": dict(zip(names, records.num_examples, strict=True))}
        facts["records_sha256"] = records.digest
        if teacher:
            facts["teacher_sha256"] = teacher.files.digest
        workers.check_same(facts)
        # A run that resumes has this file already, and its start need not be there any more.
        has_preparation = run_dir.has_results and paths.is_file(run_dir.file(TOKENIZER_CONFIG))
        run_dir.claim(values_of(settings), facts, free_settings(settings))
        run_dir.write_text("bert_config.json", config.to_json_string())
        casing = records.metadata.get("do_lower_case")
        if casing is not None and not has_preparation:
            # Stored here, because the records may change, or be on another machine, when the model is used.
            longest = longest_learned(settings, config)
            longest_word = records.metadata.get("max_input_chars_per_word")
            if longest_word == LONGEST_WORD_TO_SPLIT:
                longest_word = None
            preparation = Preparation(casing, records.metadata.get("strip_accents"), longest, longest_word)
            run_dir.write_text(TOKENIZER_CONFIG, preparation.to_text())
        if vocab_file:
            run_dir.write_text(VOCAB_FILE, vocabulary_bytes(vocab_file))
