#!/usr/bin/env python3
"""Checks without a TPU whether a training step would run on one, with the TPU's own compiler.

    pip install 'bert-keras[tpu-check]'
    python tools/check_tpu.py --bert_config_file=uncased_L-2_H-128_A-2 --train_batch_size=256 --max_seq_length=128
    python tools/check_tpu.py --task=question_answering --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --train_batch_size=32 --max_seq_length=384

The program builds the training step as the training programs do, and compiles it for a TPU v5e. With 4 or 8 cores, that
includes the exchange of gradients; with other numbers, it compiles for one core. The memory of a core goes to standard
output. The program does not run the step, so it does not check the numbers.
"""

import itertools
import logging
import pathlib
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

import tensorflow as tf
from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse, run_main
from bert_keras.model_folder.folder import given_config
from bert_keras.modeling import (
    ClassificationLoss,
    ClassifierModel,
    MultiLabelLoss,
    MultipleChoiceModel,
    PretrainingLoss,
    PretrainingModel,
    RegressionLoss,
    SquadLoss,
    SquadModel,
    TokenClassificationLoss,
    TokenClassifierModel,
    open_checkpoint,
)
from bert_keras.modeling.layers import dtype_policy
from bert_keras.settings.devices import ACCUMULATION, PRECISIONS, RECOMPUTE
from bert_keras.training.distribution.tpu_compile import CORE_MEMORY, TOPOLOGIES, compile_for_tpu
from bert_keras.training.input.packed_batches import PackedLoss, pack_batches
from bert_keras.training.loop import make_trainer
from bert_keras.training.settings.groups import RunSettings

log = logging.getLogger("bert_keras")

TASKS = {
    "pretraining": lambda config, num_labels: PretrainingLoss(PretrainingModel(config)),
    "classification": lambda config, num_labels: ClassificationLoss(ClassifierModel(config, num_labels)),
    "regression": lambda config, num_labels: RegressionLoss(ClassifierModel(config, 1)),
    "multi_label": lambda config, num_labels: MultiLabelLoss(ClassifierModel(config, num_labels)),
    "multiple_choice": lambda config, num_labels: ClassificationLoss(MultipleChoiceModel(config)),
    "token_classification": lambda config, num_labels: TokenClassificationLoss(
        TokenClassifierModel(config, num_labels)
    ),
    "question_answering": lambda config, num_labels: SquadLoss(SquadModel(config)),
}
# Other tasks do not train on packed rows: pre-training not on a TPU, the rest not on any device.
_PACKABLE = ("classification", "regression", "multi_label", "token_classification")
# The run's shortest example determines the maximum number of examples in a packed row. This is its assumed length.
_SHORTEST_PACKED = 8
_GB = 2**30


def define_flags():
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_enum("task", "pretraining", list(TASKS), "Task to train.", **define)
    flags.DEFINE_string("bert_config_file", None, "Config: a file, or the name of a released model.", **define)
    flags.DEFINE_string(
        "init_checkpoint", None, "Model whose config is used if you do not give --bert_config_file.", **define
    )
    flags.DEFINE_integer("max_seq_length", 128, "Number of tokens in a sequence.", lower_bound=1, **define)
    flags.DEFINE_integer(
        "max_predictions_per_seq", 20, "Pre-training: masked tokens in an example.", lower_bound=1, **define
    )
    flags.DEFINE_integer("num_labels", 2, "Number of classes, tags or choices.", lower_bound=1, **define)
    flags.DEFINE_integer("train_batch_size", 32, "Examples in one update, over all cores.", lower_bound=1, **define)
    flags.DEFINE_integer("gradient_accumulation_steps", 1, ACCUMULATION, lower_bound=1, **define)
    flags.DEFINE_integer("num_tpu_cores", 8, "Number of TPU cores that share the batch.", lower_bound=1, **define)
    precisions = [name for name in PRECISIONS if name != "float16"]
    flags.DEFINE_enum("precision", "float32", precisions, "Number format of matrix products, as in the run.", **define)
    flags.DEFINE_bool("recompute", False, RECOMPUTE, **define)
    flags.DEFINE_bool(
        "pack", False, "Rows hold several examples each; --train_batch_size is then the number of rows.", **define
    )
    return values


def main(argv):
    flag_values = define_flags()
    parse(flag_values, argv, __doc__)
    open_console(stderr=True)
    settings = flag_values.flag_values_dict()
    config = _config(settings)
    part = _part_of_batch(settings, config)
    trainer = make_step(settings, config)
    kind = "rows" if settings["pack"] else "examples"
    log.info("%s: %d %s of %d tokens at a time on a core", settings["task"], part, kind, settings["max_seq_length"])
    started = time.monotonic()
    num_cores = _compiled_cores(settings)
    features = features_of(settings, part * settings["gradient_accumulation_steps"])
    memory = compile_for_tpu(lower(trainer.step, features), num_cores)
    if num_cores < settings["num_tpu_cores"]:
        log.info("compiled for 1 core, without the exchange of gradients; --num_tpu_cores=4 or 8 includes it")
    print(
        f"compiled for {num_cores} core(s) of a TPU v5e in {time.monotonic() - started:.0f} s, not run\n"
        f"memory of a core: {sum(memory) / _GB:.2f} of {CORE_MEMORY / _GB:.2f} GB\n"
        f"  weights, moments and batch  {memory.inputs / _GB:.2f} GB\n"
        f"  temporary                   {memory.temporary / _GB:.2f} GB\n"
        f"  program                     {memory.code / _GB:.2f} GB",
        flush=True,
    )


def _config(settings):
    name = settings["bert_config_file"]
    if name:
        return given_config(name)
    if not settings["init_checkpoint"]:
        raise ValueError("missing: --bert_config_file or --init_checkpoint, which say how large the model is")
    config = open_checkpoint(settings["init_checkpoint"]).config
    if config is None:
        raise ValueError(f"{settings['init_checkpoint']} has no config in its folder; give --bert_config_file")
    return config


def _part_of_batch(settings, config):
    """Checks the settings, and returns the number of examples that a core processes at a time."""
    if settings["max_seq_length"] > config.max_position_embeddings:
        raise ValueError(
            f"--max_seq_length={settings['max_seq_length']} is more than the {config.max_position_embeddings} "
            "positions that the model has; give that many or fewer"
        )
    if settings["pack"] and settings["task"] not in _PACKABLE:
        raise ValueError(f"--pack is not for --task={settings['task']}, but for {', '.join(_PACKABLE)}; leave it out")
    num_parts = settings["num_tpu_cores"] * settings["gradient_accumulation_steps"]
    part, rest = divmod(settings["train_batch_size"], num_parts)
    if rest:
        raise ValueError(
            f"--train_batch_size={settings['train_batch_size']} cannot be divided evenly by --num_tpu_cores="
            f"{settings['num_tpu_cores']} x --gradient_accumulation_steps={settings['gradient_accumulation_steps']}; "
            f"give a multiple of {num_parts}"
        )
    return part


def make_step(settings, config):
    """Returns the `training.step.Trainer` of a task with random weights."""
    tf.config.experimental.enable_tensor_float_32_execution(settings["precision"] == "tf32")
    with dtype_policy(PRECISIONS[settings["precision"]]):
        loss = TASKS[settings["task"]](config, settings["num_labels"])
    loss.model.bert.is_recomputed = settings["recompute"]
    loss = PackedLoss(loss) if settings["pack"] else loss
    run = RunSettings(
        num_train_steps=1000,
        num_warmup_steps=100,
        seed=0,
        precision=settings["precision"],
        gradient_accumulation_steps=settings["gradient_accumulation_steps"],
    )
    trainer = make_trainer(loss, tf.distribute.get_strategy(), run)
    if _compiled_cores(settings) > 1:
        trainer.sum_over_replicas = _sum_over_cores(settings["num_tpu_cores"])
    return trainer


def features_of(settings, num_rows):
    """Returns the features that a task trains on, a dict of `tf.TensorSpec`."""
    task, length, num_labels = settings["task"], settings["max_seq_length"], settings["num_labels"]
    if settings["pack"]:
        examples = features_of({**settings, "pack": False}, 1)
        zeros = {name: tf.zeros(spec.shape, spec.dtype) for name, spec in examples.items()}
        num_parts, max_sequences = settings["gradient_accumulation_steps"], max(1, length // _SHORTEST_PACKED)
        batches = tf.data.Dataset.from_tensors(zeros)
        return pack_batches(batches, num_parts, num_rows // num_parts, max_sequences).element_spec
    rows = [num_rows, num_labels] if task == "multiple_choice" else [num_rows]
    shapes = {name: [*rows, length] for name in ("input_ids", "input_mask", "segment_ids")}
    floats = {}
    if task == "pretraining":
        predictions = [num_rows, settings["max_predictions_per_seq"]]
        shapes |= {"masked_lm_positions": predictions, "masked_lm_ids": predictions, "next_sentence_labels": [*rows, 1]}
        floats = {"masked_lm_weights": predictions}
    elif task == "question_answering":
        shapes |= {"start_positions": rows, "end_positions": rows}
    elif task in ("regression", "multi_label"):
        floats = {"label_values": rows if task == "regression" else [*rows, num_labels]}
    else:
        shapes["label_ids"] = [*rows, length] if task == "token_classification" else [num_rows]
    specs = {name: tf.TensorSpec(shape, tf.int32) for name, shape in shapes.items()}
    return specs | {name: tf.TensorSpec(shape, tf.float32) for name, shape in floats.items()}


def _compiled_cores(settings):
    """Returns the number of cores to compile for: one if no TPU has the requested number."""
    return settings["num_tpu_cores"] if settings["num_tpu_cores"] in TOPOLOGIES else 1


def _sum_over_cores(num_cores):
    """Returns a function that sums tensors over all cores; TensorFlow's own function needs a TPU to compile."""
    keys = itertools.count(1)

    def sum_over_cores(value):
        options = {"group_size": num_cores, "group_key": 1, "merge_op": "Add", "final_op": "Id", "ordering_token": []}
        return tf.raw_ops.CollectiveReduceV2(input=value, instance_key=next(keys), **options)

    return lambda values: tf.nest.map_structure(sum_over_cores, values)


def lower(function, features):
    """Returns the program that XLA makes of a function of a dict of tensors, without running it.

    `features` are `tf.TensorSpec` with static shapes. Variables that the function reads and assigns become further
    inputs and outputs. The program is a serialized `HloModuleProto`.
    """
    zeros = {name: tf.zeros(spec.shape, spec.dtype) for name, spec in features.items()}
    try:
        write = tf.function(
            lambda batch: function(batch), autograph=False, jit_compile=True
        ).experimental_get_compiler_ir(zeros)
        return write(stage="hlo_serialized")
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(f"XLA cannot compile this: {str(error).strip().splitlines()[0]}") from error


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
