"""Devices, precision, compilation and pace of training; most of these flags are those of the original BERT."""

import dataclasses
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.settings.effects import ON
from bert_keras.settings.fields import free, setting
from bert_keras.settings.numbers import SwitchParser

# Value of --precision -> its dtype policy.
PRECISIONS = {"float32": "float32", "tf32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
RECOMPUTE = "Compute each layer again for the gradients instead of storing its results: less memory, more time."
ACCUMULATION = (
    "Number of parts that each batch is split into: less memory, the same update. Only dropout draws other masks."
)

_TPU = {"use_tpu": True}
_JAX = {"coordinator_address": ON}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Computation:
    """How a run computes on its devices."""

    title = "Devices"

    precision: str = setting(
        "Number format of matrix products. bfloat16 and float16 have 16 bits; tf32 rounds factors to TensorFloat-32. "
        "auto: bfloat16 if the hardware is fast in it, else float32.",
        "float32",
        choices=(*PRECISIONS, "auto"),
    )
    jit: Any = setting(
        "Compile the network with XLA, which takes time once for every shape of a batch. auto: in long runs on "
        "one processor, the whole network in float32 where bfloat16 is slow, and, in pre-training in "
        "bfloat16 where it is fast, what is between the products.",
        "auto",
        parser=SwitchParser(),
        boolean=True,
        is_rare=True,
    )
    # Free: a run that is out of memory can continue with others.
    recompute: bool = free(RECOMPUTE, False, is_rare=True)
    gradient_accumulation_steps: int = free(ACCUMULATION, 1, lower_bound=1)
    save_checkpoints_steps: int = free("Number of steps between checkpoints.", 1000, lower_bound=1)
    iterations_per_loop: int = free("Maximum steps in one call of the device.", 1000, lower_bound=1, is_rare=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Devices:
    """Where a run computes; these settings belong to a command, and an earlier run never sets them."""

    title = "Devices"

    strategy: str = free(
        "Devices: one (a GPU, or the CPU), mirrored (all GPUs of this machine) or multi_worker (all machines in "
        "TF_CONFIG). auto uses all devices that it finds.",
        "auto",
        choices=("auto", "one", "mirrored", "multi_worker"),
    )
    coordinator_address: str | None = free(
        "JAX in several processes: HOST:PORT of process 0, a port that is free there; auto: Slurm, Open MPI, "
        "Kubernetes or a TPU says it.",
        None,
        is_rare=True,
    )
    num_processes: int | None = free("Number of processes of JAX.", None, needs=_JAX, lower_bound=1, is_rare=True)
    process_id: int | None = free(
        "Number of this process of JAX, from 0. Only process 0 writes.",
        None,
        needs=_JAX,
        lower_bound=0,
        is_rare=True,
    )
    use_tpu: bool = free("Use a TPU instead of the CPU or GPU.", False, is_rare=True)
    tpu_name: str | None = free(
        "Name or grpc:// address of a TPU that another machine has.", None, needs=_TPU, is_rare=True
    )
    tpu_zone: str | None = free("Google Cloud zone of {tpu_name}.", None, needs={**_TPU, "tpu_name": ON}, is_rare=True)
    gcp_project: str | None = free(
        "Google Cloud project of {tpu_name}.", None, needs={**_TPU, "tpu_name": ON}, is_rare=True
    )
    master: str | None = free(
        "grpc:// address of the TPU, if you do not give {tpu_name}.", None, needs=_TPU, is_rare=True
    )
    num_tpu_cores: int | None = free(
        "Number of TPU cores; compared with the TPU if given.", 8, needs=_TPU, lower_bound=1, is_rare=True
    )


def check_backend(backend: str, is_training: bool = False) -> None:
    """Checks that Keras runs on TensorFlow, or for training on JAX, given the name of its backend."""
    if backend == "jax" and is_training:
        return
    if backend != "tensorflow":
        raise Mistake(
            "Keras is set to run on {} (by KERAS_BACKEND or ~/.keras/keras.json), but prediction needs "
            "TensorFlow, and training TensorFlow or JAX; set KERAS_BACKEND=tensorflow (only the network, `modeling`, "
            "also runs on PyTorch)",
            backend,
        )
