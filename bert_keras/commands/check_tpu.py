"""Checks without a TPU whether a training step would run on one, with the TPU's own compiler.

    pip install 'bert-keras[tpu-check]'
    python tools/check_tpu.py --bert_config_file=uncased_L-2_H-128_A-2 --train_batch_size=256 --max_seq_length=128
    python tools/check_tpu.py --task=question_answering --init_checkpoint=uncased_L-12_H-768_A-12 --tpu=v6e \\
        --train_batch_size=32 --max_seq_length=384 --precision=bfloat16

The program builds the training step as the training programs do on JAX, and compiles it for the chips of a TPU. The
memory of a chip, its operations and the bytes that it exchanges go to standard output, with the time that the maker's
figures allow. The program does not run the step, so it checks neither the numbers nor the time.
"""

import functools
import importlib.util
import logging
import os
import time
from typing import Any

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, parse
from bert_keras.cli.start import start_tensorflow
from bert_keras.engine.distribution.tpu_step_time import CHIPS, PASSES, cost_of, predict
from bert_keras.mistakes import Mistake
from bert_keras.settings.devices import ACCUMULATION, PRECISIONS, RECOMPUTE

log = logging.getLogger("bert_keras")

# A TPU by its number of chips.
TOPOLOGIES = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_ENVIRONMENT = {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu",  # JAX must not look for devices
    # libtpu would otherwise look for these values on the network.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # several checks may run at the same time
}
# The loss and the model of each task.
TASKS = {
    "pretraining": ("PretrainingLoss", "PretrainingModel"),
    "classification": ("ClassificationLoss", "ClassifierModel"),
    "regression": ("RegressionLoss", "ClassifierModel"),
    "multi_label": ("MultiLabelLoss", "ClassifierModel"),
    "multiple_choice": ("ClassificationLoss", "MultipleChoiceModel"),
    "token_classification": ("TokenClassificationLoss", "TokenClassifierModel"),
    "question_answering": ("SquadLoss", "SquadModel"),
}
# Other tasks do not train on packed rows: pre-training not on a TPU, the rest not on any device.
_PACKABLE = ("classification", "regression", "multi_label", "token_classification")
# The run's shortest example determines the maximum number of examples in a packed row. This is its assumed length.
_SHORTEST_PACKED = 8
_MIB = 2**20


def define_flags() -> flags.FlagValues:
    """Returns the flags of this program."""
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
    flags.DEFINE_enum("tpu", "v5e", list(CHIPS), "Kind of TPU. Each chip of these has one core.", **define)
    flags.DEFINE_integer("num_tpu_cores", 8, "Number of TPU cores that share the batch.", lower_bound=1, **define)
    flags.DEFINE_enum(
        "precision", "float32", list(PASSES), "Number format of matrix products, as in the run.", **define
    )
    flags.DEFINE_bool("recompute", False, RECOMPUTE, **define)
    flags.DEFINE_bool(
        "pack", False, "Rows hold several examples each; --train_batch_size is then the number of rows.", **define
    )
    return values


def main(argv: list[str]) -> None:
    """Runs the program, given its name and its flags."""
    flag_values = define_flags()
    parse(flag_values, argv, __doc__)
    open_console(stderr=True)
    settings = flag_values.flag_values_dict()
    num_cores, num_parts = settings["num_tpu_cores"], settings["gradient_accumulation_steps"]
    part = _part_of_batch(settings)
    os.environ.update(_ENVIRONMENT)
    name = {"v5e": "v5litepod", "v6e": "v6e"}[settings["tpu"]]
    os.environ["TPU_ACCELERATOR_TYPE"] = f"{name}-{num_cores}"
    start_tensorflow()
    config = _config(settings)
    kind = "rows" if settings["pack"] else "examples"
    log.info("%s: %d %s of %d tokens at a time on a core", settings["task"], part, kind, settings["max_seq_length"])
    if num_cores > 8:
        log.info("a TPU of more than 8 chips has several machines: start the program on each, see docs/guides/jax.md")
    started = time.monotonic()
    compiled = compile_step(settings, config, part)
    chip, memory = CHIPS[settings["tpu"]], compiled.memory_analysis()
    state = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    temporary, code = memory.temp_size_in_bytes, memory.generated_code_size_in_bytes
    print(
        f"compiled for {num_cores} core(s) of a TPU {settings['tpu']} in {time.monotonic() - started:.0f} s, not run\n"
        f"memory of a core: {(state + temporary + code) / _MIB:,.1f} of {chip.memory / _MIB:,.1f} MiB\n"
        f"  weights, moments and batch  {state / _MIB:,.1f} MiB\n"
        f"  temporary                   {temporary / _MIB:,.1f} MiB\n"
        f"  program                     {code / _MIB:,.1f} MiB",
        flush=True,
    )
    from jax.errors import JaxRuntimeError  # --help does not need it

    try:
        program = compiled.as_text()
    except JaxRuntimeError as error:
        # The compiler for a v6e writes instructions that JAX 0.10 does not know.
        reason = str(error).splitlines()[0]
        log.warning("no time is predicted, because JAX cannot read the compiled program: %s", reason)
        return
    cost = cost_of(compiled.cost_analysis(), program, memory.alias_size_in_bytes, num_cores, num_parts)
    print("\n".join(predict(cost, settings)), flush=True)


def missing_packages() -> list[str]:
    """Returns the names of packages that compiling needs and that are not installed."""
    return [name for name in ("jax", "libtpu") if importlib.util.find_spec(name) is None]


def _part_of_batch(settings: dict[str, Any]) -> int:
    """Checks the settings, and returns the number of examples that a core processes at a time."""
    if missing := missing_packages():
        raise Mistake(
            "the compiler of the TPU is missing ({}): pip install 'bert-keras[tpu-check]'", ", ".join(missing)
        )
    if not settings["bert_config_file"] and not settings["init_checkpoint"]:
        raise Mistake("missing: --bert_config_file or --init_checkpoint, which say how large the model is")
    if settings["pack"] and settings["task"] not in _PACKABLE:
        raise Mistake("--pack is not for --task={}, but for {}; leave it out", settings["task"], ", ".join(_PACKABLE))
    num_cores = settings["num_tpu_cores"]
    if num_cores not in TOPOLOGIES:
        raise Mistake("--num_tpu_cores={}: no TPU has that many; give one of {}", num_cores, [*TOPOLOGIES])
    num_parts = num_cores * settings["gradient_accumulation_steps"]
    part, rest = divmod(settings["train_batch_size"], num_parts)
    if rest:
        raise Mistake(
            "--train_batch_size={} cannot be divided evenly by --num_tpu_cores="
            "{} x --gradient_accumulation_steps={}; "
            "give a multiple of {}",
            settings["train_batch_size"],
            num_cores,
            settings["gradient_accumulation_steps"],
            num_parts,
        )
    return part


def _config(settings: dict[str, Any]) -> Any:
    from bert_keras.modeling import open_checkpoint
    from bert_keras.modeling.checkpoints.hugging_face_config import given_config

    if name := settings["bert_config_file"]:
        config = given_config(name)
    else:
        config = open_checkpoint(settings["init_checkpoint"]).config
    if config is None:
        raise Mistake("{} has no config in its folder; give --bert_config_file", settings["init_checkpoint"])
    if settings["max_seq_length"] > config.max_position_embeddings:
        raise Mistake(
            "--max_seq_length={} is more than the {} positions that the model has; give that many or fewer",
            settings["max_seq_length"],
            config.max_position_embeddings,
        )
    return config


def loss_of(settings: dict[str, Any], config: Any) -> Any:
    """Returns the loss that a task trains, with random weights."""
    from bert_keras import modeling
    from bert_keras.modeling.number_format import dtype_policy

    task = settings["task"]
    loss_class, model_class = (getattr(modeling, name) for name in TASKS[task])
    num_labels = [1 if task == "regression" else settings["num_labels"]] if task in _PACKABLE else []
    with dtype_policy(PRECISIONS[settings["precision"]]):
        loss = loss_class(model_class(config, *num_labels))
    loss.model.bert.is_recomputed = settings["recompute"]
    return loss


def compile_step(settings: dict[str, Any], config: Any, part: int) -> Any:
    """Returns the step of a task as a `jax.stages.Compiled`, for `part` examples at a time on a core."""
    import jax
    import libtpu  # noqa: F401  # pyright: ignore[reportMissingImports] (an extra; tells JAX where its library is)
    from jax.experimental import topologies

    from bert_keras.engine.distribution.jax_devices import JaxDevices, set_precision
    from bert_keras.engine.trainer import make_trainer
    from bert_keras.settings.groups import RunSettings

    set_precision(settings["precision"])
    num_cores, num_parts = settings["num_tpu_cores"], settings["gradient_accumulation_steps"]
    name = f"{settings['tpu']}:{TOPOLOGIES[num_cores]}"
    devices = JaxDevices(topologies.get_topology_desc(platform="tpu", topology_name=name).devices)
    run = RunSettings(
        num_train_steps=1000,
        num_warmup_steps=100,
        seed=0,
        precision=settings["precision"],
        gradient_accumulation_steps=num_parts,
    )
    trainer: Any = make_trainer(loss_of(settings, config), devices, run)
    features = features_of(settings, part, num_parts * num_cores)
    shapes = {name: jax.ShapeDtypeStruct(spec.shape, spec.dtype.as_numpy_dtype) for name, spec in features.items()}
    try:
        return trainer.lower(shapes).compile()
    except jax.errors.JaxRuntimeError as error:
        line = str(error).strip().splitlines()[0]
        line += "; fewer examples on a core need less memory" * line.startswith("RESOURCE_EXHAUSTED")
        raise Mistake("the compiler of the TPU refuses it: {}", line) from error


def features_of(settings: dict[str, Any], part: int, num_parts: int) -> dict[str, Any]:
    """Returns the features that a task trains on, a dict of `tf.TensorSpec`: `num_parts` parts of `part` examples."""
    import tensorflow as tf

    from bert_keras.engine.input.packed_batches import pack_batches

    task, length, num_labels = settings["task"], settings["max_seq_length"], settings["num_labels"]
    if settings["pack"]:
        examples = features_of({**settings, "pack": False}, 1, 1)
        zeros = {name: tf.zeros(spec.shape[1:], spec.dtype) for name, spec in examples.items()}
        batches = tf.data.Dataset.from_tensors(zeros)
        return pack_batches(batches, num_parts, part, max(1, length // _SHORTEST_PACKED)).element_spec
    examples = [num_parts, part]
    rows = [*examples, num_labels] if task == "multiple_choice" else examples
    shapes = {name: [*rows, length] for name in ("input_ids", "input_mask", "segment_ids")}
    floats = {}
    if task == "pretraining":
        predictions = [*examples, settings["max_predictions_per_seq"]]
        shapes |= {"masked_lm_positions": predictions, "masked_lm_ids": predictions, "next_sentence_labels": [*rows, 1]}
        floats = {"masked_lm_weights": predictions}
    elif task == "question_answering":
        shapes |= {"start_positions": rows, "end_positions": rows}
    elif task in ("regression", "multi_label"):
        floats = {"label_values": rows if task == "regression" else [*rows, num_labels]}
    else:
        shapes["label_ids"] = [*rows, length] if task == "token_classification" else examples
    specs = {name: tf.TensorSpec(shape, tf.int32) for name, shape in shapes.items()}
    return specs | {name: tf.TensorSpec(shape, tf.float32) for name, shape in floats.items()}


run_program = functools.partial(as_program, main)
