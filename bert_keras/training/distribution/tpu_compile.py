"""Compiles a program with a TPU's own compiler, on a machine without a TPU.

The compiler is in the package libtpu; JAX can run it for the description of a TPU. This file is the program of a
separate process for it. TensorFlow and libtpu stay apart, and an abort of libtpu becomes an error here.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import typing

# Memory of a TPU v5e core that is available to a program, as its compiler reports it; bytes.
CORE_MEMORY = int(15.75 * 2**30)
_PACKAGES = ("jax", "libtpu")
# Topology of a TPU v5e by its number of cores. A program for one core is compiled for a part of four.
TOPOLOGIES = {1: "2x2", 4: "2x2", 8: "2x4"}
# libtpu would otherwise look for these values on the network.
_ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    # JAX itself must not look for devices.
    "JAX_PLATFORMS": "cpu",
}


class Memory(typing.NamedTuple):
    """Memory that a compiled program needs on a core, in bytes."""

    inputs: int  # weights, Adam's moments and the batch; values that are updated in place count once
    temporary: int  # intermediate results, such as those that the backward pass needs again
    code: int


def missing_packages() -> list[str]:
    """Returns the names of packages that compiling needs and that are not installed."""
    return [name for name in _PACKAGES if importlib.util.find_spec(name) is None]


def compile_for_tpu(serialized: bytes, num_cores: int = 1) -> Memory:
    """Compiles a program for the cores of a TPU v5e and returns its `Memory`; takes half a minute to many minutes.

    Each core runs the program, a serialized `HloModuleProto`, on its part of a batch. ValueError: the compiler refuses
    the program, for example because it does not fit into the memory of a core.
    """
    if missing := missing_packages():
        raise ValueError(
            f"the compiler of the TPU is missing ({', '.join(missing)}): pip install 'bert-keras[tpu-check]'"
        )
    # `env` sets the variables, because only entry points may change the environment. libtpu exists for Linux only.
    topology = TOPOLOGIES[num_cores]
    environment = _ENVIRONMENT | {
        "TPU_ACCELERATOR_TYPE": f"v5litepod-{max(num_cores, 4)}",
        "TPU_TOPOLOGY": topology,
    }
    command = ["env", *(f"{name}={value}" for name, value in environment.items())]
    command += [sys.executable, "-m", "bert_keras.training.distribution.tpu_compile"]
    asked = f"{topology} {num_cores}\n".encode() + serialized
    done = subprocess.run(command, input=asked, capture_output=True, check=False, cwd=pathlib.Path(__file__).parents[3])
    lines = done.stdout.decode(errors="replace").splitlines()
    if done.returncode or not lines:
        raise ValueError(f"the compiler of the TPU ended early: {done.stderr.decode(errors='replace')[-500:].strip()}")
    answer = json.loads(lines[-1])
    if "error" in answer:
        raise ValueError(f"the compiler of the TPU refuses it: {_first_line(answer['error'])}")
    return Memory(**answer)


def _first_line(message: str) -> str:
    line = message.strip().splitlines()[0]
    return line + "; fewer examples on a core need less memory" * line.startswith("RESOURCE_EXHAUSTED")


def _answer(serialized: bytes, topology: str, num_cores: int) -> dict[str, str | int]:
    """Returns the output of this program: the fields of Memory, or an error."""
    import jax
    import libtpu  # noqa: F401  # pyright: ignore[reportMissingImports] (an extra; tells JAX where its library is)
    import numpy as np
    from jax.experimental import topologies
    from jaxlib import xla_client

    description = topologies.get_topology_desc(platform="tpu", topology_name=f"v5e:{topology}")
    cores = tuple(description.devices[:num_cores])
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = num_cores, 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[core.id] for core in cores], np.int32))
    try:
        compiled = cores[0].client.compile(_module(serialized), xla_client.DeviceList(cores), options)
    except jax.errors.JaxRuntimeError as error:
        return {"error": str(error)}
    stats = compiled.get_compiled_memory_stats()
    return {
        "inputs": stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes,
        "temporary": stats.temp_size_in_bytes,
        "code": stats.generated_code_size_in_bytes,
    }


def _module(serialized: bytes) -> typing.Any:
    """Returns HLO as the StableHLO module that the compiler takes, without copy operations, which StableHLO lacks."""
    from jax.extend.mlir import hlo_to_stablehlo
    from jax.interpreters import mlir

    with mlir.make_ir_context():
        module = mlir.ir.Module.parse(hlo_to_stablehlo(serialized))
        copies = []

        def find(operation: typing.Any) -> typing.Any:
            if operation.name == "mhlo.copy":
                copies.append(operation)
            return mlir.ir.WalkResult.ADVANCE

        module.operation.walk(find)
        for copy in copies:
            copy.results[0].replace_all_uses_with(copy.operands[0])
            copy.erase()
    return module


if __name__ == "__main__":
    _topology, _num_cores = sys.stdin.buffer.readline().decode().split()
    print(json.dumps(_answer(sys.stdin.buffer.read(), _topology, int(_num_cores))))
